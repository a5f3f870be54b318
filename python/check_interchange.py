"""Checks that Python and vidon read each other's files, number for number.

    pip install -r python/requirements.txt
    python python/check_interchange.py target/release/vidon
"""

import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pandas as pd

from read_dataset import PARTS, read_dataset

rng = np.random.default_rng(0)


def run(*arguments):
    subprocess.run([VIDON, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def equal(a, b):
    assert a.dtype == b.dtype == np.float32 and a.shape == b.shape and (a == b).all(), (a, b)


def generated(folder):
    """The start of every Allen-Cahn target is its input; checksums hold; pandas sees the same rows as pyarrow."""
    path = folder / "ac.parquet"
    run("generate", "allen-cahn", "--layout", "regular", "--split", "test", "--samples", 5, "--cache", "none", "--out", path)
    meta, samples = read_dataset(path)
    table = pd.read_parquet(path)
    assert len(table) == 5 and meta["provenance"]["layout"] == "regular"
    for i, s in enumerate(samples):
        start = s["targets"].reshape(76, 76, 41)[::3, ::3, 0].reshape(-1, 1)
        equal(start, s["sensor_values"])
        equal(s["query_coords"].reshape(76, 76, 41, 3)[::3, ::3, 0, :2].reshape(-1, 2), s["sensor_coords"])
        stored = [p for p in PARTS if p in table]
        assert zlib.crc32(b"".join(s[p].astype("<f4").tobytes() for p in stored)) == table["crc32"][i]
        equal(np.stack(table["sensor_coords"][i]), s["sensor_coords"])
    return "generated dataset, pyarrow and pandas"


def ragged(n):
    """n samples with numbers of sensors and targets of their own."""
    for _ in range(n):
        m, q = rng.integers(1, 9), rng.integers(1, 9)
        shapes = [(m, 2), (m, 1), (q, 3), (q, 2)]
        yield {p: rng.normal(size=shape).astype(np.float32) for p, shape in zip(PARTS, shapes)}


def tables(folder, suffix):
    """Long tables, lines shuffled among samples, come back as they were."""
    samples = list(ragged(7))
    frames = []
    for coords, values, columns in [("sensor_coords", "sensor_values", ["x", "y", "p"]),
                                    ("query_coords", "targets", ["x", "y", "t", "u", "v"])]:
        parts = [pd.DataFrame(np.hstack([s[coords], s[values]]), columns=columns).assign(run=i) for i, s in enumerate(samples)]
        frames.append(pd.concat(parts))
    # Lines of different samples alternate; within a sample they keep their order.
    frames = [f.reset_index().sort_values(["index", "run"]).drop(columns="index") for f in frames]
    readings, targets, out = folder / f"r{suffix}", folder / f"t{suffix}", folder / "table.parquet"
    for frame, path in zip(frames, [readings, targets]):
        frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path, index=False)
    run("import", readings, "--sample", "run", "--coords", "x,y", "--values", "p", "--targets", targets,
        "--target-coords", "x,y,t", "--target-values", "u,v", "--out", out)
    order = list(dict.fromkeys(frames[0]["run"]))
    for i, s in zip(order, read_dataset(out)[1], strict=True):
        for part in PARTS:
            equal(s[part], samples[i][part])
    return f"tables as {suffix}"


def arrays(folder, save):
    """Padded arrays come back without their padding."""
    samples = list(ragged(7))
    path, out = folder / "a.npz", folder / "arrays.parquet"

    def padded(part):
        full = np.full((7, 8, samples[0][part].shape[1]), np.nan, np.float32)
        for i, s in enumerate(samples):
            full[i, : len(s[part])] = s[part]
        return np.asfortranarray(full)

    save(path, coords=padded("sensor_coords"), values=padded("sensor_values")[..., 0],
         counts=np.array([len(s["sensor_coords"]) for s in samples]),
         target_coords=padded("query_coords"), target_values=padded("targets").astype(">f4"),
         target_counts=np.array([len(s["targets"]) for s in samples], np.uint16))
    run("import", path, "--out", out)
    for s, expected in zip(read_dataset(out)[1], samples, strict=True):
        for part in PARTS:
            equal(s[part], expected[part])
    return f"arrays by {save.__name__}"


if __name__ == "__main__":
    VIDON = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checks = [lambda: generated(folder), lambda: tables(folder, ".csv"), lambda: tables(folder, ".parquet"),
                  lambda: arrays(folder, np.savez), lambda: arrays(folder, np.savez_compressed)]
        for check in checks:
            print("equal:", check())
