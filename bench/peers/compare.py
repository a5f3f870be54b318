"""Ours, PyTorch and JAX on the same work, alternately: pip install torch==2.15.0 numpy "jax[cpu]==0.10.2"

    cargo build --release --workspace
    python bench/peers/compare.py target/release/vidon [--rounds 10] [--only branch]

The programs take turns; at each turn one warms up and measures twice. Prints best and median of all rounds and the ratios. Nothing else should run
meanwhile.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
# Name, what `vidon bench --only` measures, what the peers call it, sensors, whether JAX has it.
WORK = [
    ("set branch, 50 × 1089", "set branch, 50 × 1089", "branch", 1089, True),
    ("VIDON step, 1089 sensors", "VIDON step, navier-stokes, regular", "step", 1089, True),
    ("VIDON step, 2601 sensors", "VIDON step, darcy, regular", "step", 2601, True),
    ("VIDON step, own queries", "VIDON step, navier-stokes, random", "random", 1089, True),
    ("DeepONet step, 1089 sensors", "DeepONet step, navier-stokes", "deeponet", 1089, False),
    ("DeepONet step, 2601 sensors", "DeepONet step, darcy", "deeponet", 2601, False),
    ("FNO step, 33 × 33", "FNO step, navier-stokes", "fno", 1089, False),
    ("FNO step, 51 × 51", "FNO step, darcy", "fno", 2601, False),
    ("prediction, 1089 sensors", "prediction, 1089 ", "predict", 1089, False),
]


TURN = 2  # rounds a turn


def ours(program, only):
    command = [program, "bench", "--quiet", "--json", "--rounds", str(TURN), "--only", only]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    (measured,) = found["measured"]
    return [ms / 1e3 for ms in measured["all_ms"]]


def theirs(script, what, sensors):
    command = [sys.executable, str(HERE / script), what, "--sensors", str(sensors), "--rounds", str(TURN)]
    done = subprocess.run(command, check=True, capture_output=True)
    return json.loads(done.stdout.decode().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    print(f"{'':30}{'ours ms':>18}{'PyTorch ms':>18}{'JAX ms':>18}   ratio to the better peer")
    print(f"{'best / median':30}")
    for name, only, what, sensors, jax in WORK:
        if options.only not in name:
            continue
        times = {"ours": [], "torch": [], "jax": []}
        for _ in range((options.rounds + TURN - 1) // TURN):
            times["ours"] += ours(options.program, only)
            times["torch"] += theirs("vidon_torch.py", what, sensors)
            if jax:
                times["jax"] += theirs("vidon_jax.py", what, sensors)
        shown = ""
        for peer in ["ours", "torch", "jax"]:
            best, median = (min(times[peer]), statistics.median(times[peer])) if times[peer] else (0, 0)
            shown += f"{1e3 * best:9.1f} /{1e3 * median:7.1f}" if best else f"{'':18}"
        peers = [t for k, t in times.items() if k != "ours" and t]
        best = min(min(t) for t in peers) / min(times["ours"])
        median = min(statistics.median(t) for t in peers) / statistics.median(times["ours"])
        print(f"{name:30}{shown}   {best:.2f} / {median:.2f}", flush=True)


if __name__ == "__main__":
    main()
