"""Holds the licences and sources of all dependencies to the lists of deny.toml, where cargo-deny is not installed."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"


def cargo(*arguments):
    done = subprocess.run(["cargo", *arguments, "--locked", "--all-features"], check=True, capture_output=True, text=True)
    return done.stdout


def fits(licence, allowed):
    """Whether an SPDX expression can be met; slashes are an old way to write OR."""
    words = re.findall(r"\(|\)|/|[^\s()/]+(?: WITH [^\s()]+)?", licence)
    operators = {"(": "(", ")": ")", "OR": "or", "/": "or", "AND": "and"}
    return bool(words) and eval(" ".join(operators.get(word, str(word in allowed)) for word in words))


deny = tomllib.loads(Path("deny.toml").read_text())["licenses"]
exceptions = {e["crate"]: e["allow"] for e in deny["exceptions"]}
tree = cargo("tree", "--workspace", "--target", "all", "--prefix", "none", "--format", "{p}|{l}|")
crates = {tuple(line.split("|")[:2]) for line in tree.splitlines() if line}
faults = []
for name, licence in sorted(crates):
    if not fits(licence, deny["allow"] + exceptions.get(name.split()[0], [])):
        faults.append(f"{name}: the licence {licence or '(none)'} is not in deny.toml")
for package in json.loads(cargo("metadata", "--format-version", "1"))["packages"]:
    if package["source"] not in (None, CRATES_IO):
        faults.append(f"{package['name']}: comes from {package['source']}")
print("\n".join(faults) or f"{len(crates)} crates with allowed licences, from crates.io or here")
sys.exit(bool(faults))
