"""Weights in half precision: half the size, for files that are passed on.

    pip install safetensors numpy
    python python/halve.py runs/name/best.safetensors small.safetensors

Names, shapes and the configuration in the metadata stay what they are; numbers that describe the data (means, spreads, priors) keep their precision.
"""

import re
import sys
import zlib
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load, save

# The digits of the checksum: JSON inside of JSON has backslashes before its quotes.
DIGITS = re.compile(rb'(?<=crc32\\":\\")[0-9a-f]{8}')
# What was learned is halved; places, means, spreads and bases found in the data stay.
FOUND = ("sensors", "trunk.pod", "projection.", "core.scale", "core.input", "core.output", "targets.")


def sealed(data):
    """The bytes of a file with their checksum, which is computed with zeros in its place."""
    checksum = zlib.crc32(DIGITS.sub(b"0" * 8, data, count=1))
    return DIGITS.sub(b"%08x" % checksum, data, count=1)


def halved(data, metadata):
    small = {n: t if n.startswith(FOUND) else t.astype(np.float16) for n, t in load(data).items()}
    assert all(np.isfinite(t).all() for t in small.values()), "a number is too large for half precision"
    return sealed(save(small, metadata))


if __name__ == "__main__":
    source, target = sys.argv[1:]
    data = Path(source).read_bytes()
    assert sealed(data) == data, f"{source} is damaged"
    with safe_open(source, "np") as file:
        metadata = file.metadata()
    Path(target).write_bytes(halved(data, metadata))
