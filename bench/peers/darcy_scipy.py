"""Darcy samples of the cache, solved directly with SciPy: the difference from vidon's solution, and the time.

    pip install numpy scipy
    vidon generate darcy --layout regular --split val --cache CACHE --out val.parquet
    OMP_NUM_THREADS=1 python bench/peers/darcy_scipy.py CACHE/darcy-val-seed0-*/00000.fields
    cargo bench -p vidon --bench problems -- darcy/solve     # vidon's time, one core

A .fields file holds the magic VIDONF01, three u64 (pairs, numbers per pair, rejected draws), then float32 numbers: for
Darcy the permeability a and the pressure u on 251 x 251 nodes.
"""

import sys
import time

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu, spsolve

NODES = 251


def read_pairs(path):
    raw = open(path, "rb").read()
    assert raw[:8] == b"VIDONF01"
    pairs, numbers, _ = np.frombuffer(raw, "<u8", 3, 8)
    values = np.frombuffer(raw, "<f4", int(pairs * numbers), 32)
    return values.reshape(int(pairs), 2, NODES, NODES).astype(np.float64)


def assemble(a):
    """-div(a grad u) on the interior nodes, a on a face the mean of its two nodes."""
    h2 = 1.0 / (NODES - 1) ** 2
    south = 0.5 * (a[1:] + a[:-1]) / h2
    east = 0.5 * (a[:, 1:] + a[:, :-1]) / h2
    m = NODES - 2
    centre = south[:-1, 1:-1] + south[1:, 1:-1] + east[1:-1, :-1] + east[1:-1, 1:]
    right = -east[1:-1, 1:].copy()
    right[:, -1] = 0.0
    below = -south[1:, 1:-1]
    diagonals = [centre.ravel(), right.ravel()[:-1], right.ravel()[:-1], below.ravel()[:-m], below.ravel()[:-m]]
    return sp.diags(diagonals, [0, 1, -1, m, -m], format="csc")


def main(path, samples=5):
    methods = {
        "spsolve (default ordering)": lambda A, f: spsolve(A, f),
        "splu, symmetric mode": lambda A, f: splu(
            A, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        ).solve(f),
    }
    pairs = read_pairs(path)[:samples]
    f = np.ones((NODES - 2) ** 2)
    for name, solve in methods.items():
        times, apart = [], []
        for a, u in pairs:
            A = assemble(a)
            start = time.perf_counter()
            exact = solve(A, f).reshape(NODES - 2, NODES - 2)
            times.append(time.perf_counter() - start)
            apart.append(np.linalg.norm(u[1:-1, 1:-1] - exact) / np.linalg.norm(exact))
        print(f"{name:28s} best {1e3 * min(times):7.1f} ms, median {1e3 * np.median(times):7.1f} ms a sample;"
              f" vidon's u differs by at most {max(apart):.1e} relative")


if __name__ == "__main__":
    main(*sys.argv[1:2])
