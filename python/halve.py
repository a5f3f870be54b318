"""Weights in half precision: half the size, for files that are passed on.

    pip install safetensors numpy
    python python/halve.py runs/name/best.safetensors small.safetensors

Names, shapes and the configuration in the metadata stay what they are; numbers that describe the data (means, spreads, priors) keep their precision.
"""

import sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

source, target = sys.argv[1:]
with safe_open(source, "np") as file:
    metadata = file.metadata()
    tensors = {name: file.get_tensor(name) for name in file.keys()}
# What was learned; places, means, spreads and bases found in the data stay.
FOUND = ("sensors", "trunk.pod", "projection.", "core.scale", "core.input", "core.output")
small = {n: t if n.startswith(FOUND) else t.astype(np.float16) for n, t in tensors.items()}
assert all(np.isfinite(t).all() for t in small.values()), "a number is too large for half precision"
save_file(small, target, metadata)
