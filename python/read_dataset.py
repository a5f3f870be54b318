"""Reads a vidon dataset into NumPy.    pip install pyarrow numpy

    python python/read_dataset.py test.parquet
"""

import json
import sys

import numpy as np
import pyarrow.parquet as pq


def groups(meta):
    """The groups of sensors; a dataset with one that nobody named says what it has without a list."""
    usual = {"name": "sensor", "kind": "field", "coords": meta.get("sensor_coords"), "values": meta.get("sensor_values")}
    return meta.get("groups") or [usual]


def parts(meta):
    """The columns of numbers, in order."""
    sides = [f"{group['name']}_{side}" for group in groups(meta) for side in ["coords", "values"] if group.get(side)]
    return [*sides, "query_coords", "targets"]


def matrix(entries):
    """A list column's entry (a pyarrow scalar) as an array of shape (n, width); what is missing is NaN."""
    width = entries.values.type.list_size
    return entries.values.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)


def read_dataset(path):
    """The description, and a generator of samples: dictionaries of float32 arrays (n, width)."""
    file = pq.ParquetFile(path)
    meta = json.loads(file.metadata.metadata[b"vidon"])
    grid = meta.get("query_grid")
    if grid is not None:
        axes = np.meshgrid(*grid, indexing="ij")
        grid = np.stack([a.ravel() for a in axes], axis=1).astype(np.float32)

    def samples():
        for batch in file.iter_batches(batch_size=16):
            for i in range(batch.num_rows):
                sample = {p: matrix(batch[p][i]) for p in parts(meta) if p in batch.schema.names}
                if grid is not None:
                    sample["query_coords"] = grid
                yield sample

    return meta, samples()


if __name__ == "__main__":
    meta, samples = read_dataset(sys.argv[1])
    print(meta["name"], meta["provenance"])
    for i, sample in enumerate(samples):
        print(i, {part: array.shape for part, array in sample.items()})
