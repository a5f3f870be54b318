#!/usr/bin/env bash
# Runs every libFuzzer target for some time: fuzz/run.sh 60s [target …]
# Needs nothing but the toolchain and a C++ compiler. What is found is kept in fuzz/artifacts/<target>; the corpora
# in fuzz/corpus begin with small files that the library makes, and grow from run to run. With a nightly toolchain
# `cargo fuzz run <target>` works in the same folders.
set -euo pipefail
cd "$(dirname "$0")"
time=${1:?how long for each target, such as 60s}
shift || true
targets=("$@")
[ $# -gt 0 ] || targets=($(sed -n 's/^path = "fuzz_targets\/\(.*\)\.rs"$/\1/p' Cargo.toml))
case $time in
    *m) seconds=$((60 * ${time%m})) ;;
    *h) seconds=$((3600 * ${time%h})) ;;
    *) seconds=${time%s} ;;
esac

# The instruments are LLVM's own and stable; with --target build scripts go without them.
host=$(rustc -vV | sed -n 's/^host: //p')
instruments="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
instruments="$instruments -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing"
RUSTFLAGS="${RUSTFLAGS:-} $instruments" cargo build --release --target "$host" --bins
(cd .. && cargo test --release --quiet --workspace --test run --no-run && target/release/vidon-fuzz seeds fuzz/corpus)

# The readers' files live in memory where there is a folder for that.
memory=/dev/shm
[ -d $memory ] || memory=${TMPDIR:-/tmp}
TMPDIR=$(mktemp -d -p $memory)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
failed=()
for target in "${targets[@]}"; do
    mkdir -p "artifacts/$target"
    echo "== $target"
    "target/$host/release/$target" "corpus/$target" -artifact_prefix="artifacts/$target/" -max_total_time="$seconds" \
        -max_len=65536 -timeout=30 -rss_limit_mb=1024 -malloc_limit_mb=1024 -print_final_stats=1 || failed+=("$target")
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}; to look at an input: fuzz/target/$host/release/<target> <file>, or"
    echo "  target/release/vidon-fuzz replay <target> <file>"
    exit 1
fi
