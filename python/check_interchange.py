"""Checks that Python and vidon read each other's files, number for number.

    pip install -r python/requirements.txt
    python python/check_interchange.py target/release/vidon
"""

import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl

from halve import sealed
from read_dataset import parts, read_dataset

rng = np.random.default_rng(0)
PARTS = ["sensor_coords", "sensor_values", "query_coords", "targets"]


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
        stored = [p for p in parts(meta) if p in table]
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


def campaign(n):
    """n samples of two groups with gaps, one of them with heights, points without strengths, and parameters."""
    def gaps(values):
        values[rng.uniform(size=values.shape) < 0.3] = np.nan
        return values[~np.isnan(values).all(axis=1)]

    for _ in range(n):
        normal = lambda *shape: rng.normal(size=shape).astype(np.float32)
        air, q = gaps(normal(rng.integers(2, 9), 2)), rng.integers(1, 9)
        air[0, 1] = normal()
        rain, drops = normal(rng.integers(1, 5), 1), normal(rng.integers(0, 6), 2)
        targets = normal(q, 2)
        targets[1:, 0][rng.uniform(size=q - 1) < 0.3] = np.nan
        yield {"air_coords": normal(len(air), 3), "air_values": air, "rain_coords": normal(len(rain), 2), "rain_values": rain,
               "drops_coords": drops, "run_values": np.array([[normal(), np.nan if rng.uniform() < 0.3 else 1]], np.float32),
               "query_coords": normal(q, 2), "targets": targets}


SIDES = {"air": ["x", "y", "height", "T", "q"], "rain": ["x", "y", "mm"], "drops": ["x", "y"], "run": ["s", "t"], "later": ["x", "y", "u", "v"]}
NAMES = {"later": ["query_coords", "targets"]}


def long_tables(samples):
    """A table a group and one of the targets, a line a reading."""
    for side, columns in SIDES.items():
        names = [p for p in NAMES.get(side, [f"{side}_coords", f"{side}_values"]) if p in samples[0]]
        lines = [pd.DataFrame(np.hstack([s[p] for p in names]), columns=columns).assign(run=i) for i, s in enumerate(samples)]
        yield side, pd.concat(lines)


def imported(folder, samples, suffix):
    """The samples as tables, and what vidon makes of these."""
    for side, frame in long_tables(samples):
        path = folder / f"{side}{suffix}"
        frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path, index=False)
    at = lambda side, columns: f"{side}={folder / side}{suffix}:{columns}"
    out = folder / f"campaign{suffix}.parquet"
    run("import", "--sample", "run", "--field", at("air", "x,y+height:T,q"), "--field", at("rain", "x,y:mm"),
        "--points", at("drops", "x,y:"), "--scalars", at("run", "s,t"), "--targets", folder / f"later{suffix}",
        "--target-coords", "x,y", "--target-values", "u,v", "--missing", "keep", "--out", out)
    return out


def groups(folder):
    """Groups, gaps and parameters: the same to pyarrow, pandas, polars and DuckDB, and back bit for bit."""
    samples = list(campaign(9))
    same = lambda a, b: (a.dtype, a.shape) == (b.dtype, b.shape) and a.tobytes() == b.tobytes()
    array = lambda rows, like: np.array([[np.nan if v is None else v for v in row] for row in rows], np.float32).reshape(-1, like.shape[1])
    out = imported(folder, samples, ".csv")
    rows = duckdb.sql(f"select * from '{out}'")
    tables = {
        "pandas": pd.read_parquet(out).to_dict("list"),
        "polars": pl.read_parquet(out).to_dict(as_series=False),
        "DuckDB": dict(zip(rows.columns, zip(*rows.fetchall()))),
    }
    assert tables["polars"]["sample"] == [str(i) for i in range(9)]
    for i, (read, expected) in enumerate(zip(read_dataset(out)[1], samples, strict=True)):
        assert read.keys() == expected.keys() and all(same(read[p], expected[p]) for p in read)
        for name, table in tables.items():
            for part, numbers in expected.items():
                assert same(array(table[part][i], numbers), numbers), (name, part, i)
    again = list(read_dataset(imported(folder, [dict(s) for s in read_dataset(out)[1]], ".parquet"))[1])
    assert all(same(a[p], b[p]) for a, b in zip(again, samples, strict=True) for p in a)
    return "groups, gaps and parameters, pyarrow, pandas, polars and DuckDB"


def weights(folder):
    """Weights that Python has written are whole to vidon, and no longer so when a bit changes."""
    ours = Path(__file__).parent.parent / "models" / "allen-cahn.safetensors"
    path = folder / "small.safetensors"
    subprocess.run([sys.executable, Path(__file__).parent / "halve.py", ours, path], check=True)
    data = bytearray(path.read_bytes())
    assert data == ours.read_bytes() == sealed(data)
    run("inspect", path)
    for place in [9, 30, 600, len(data) // 2, len(data) - 1]:
        data[place] ^= 4
        path.write_bytes(data)
        refused = subprocess.run([VIDON, "inspect", path], capture_output=True, text=True)
        assert refused.returncode == 1 and "is damaged" in refused.stderr, refused.stderr
        data[place] ^= 4
    return "weights, halve.py"


if __name__ == "__main__":
    VIDON = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checks = [lambda: generated(folder), lambda: tables(folder, ".csv"), lambda: tables(folder, ".parquet"),
                  lambda: arrays(folder, np.savez), lambda: arrays(folder, np.savez_compressed), lambda: groups(folder), lambda: weights(folder)]
        for check in checks:
            print("equal:", check())
