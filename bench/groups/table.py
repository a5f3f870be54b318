"""Networks on samples of several groups, gaps, parameters and sources, and on one and three dimensions: the table of docs/results.md.

    pip install numpy
    cargo build --release --workspace
    python bench/groups/table.py target/release/vidon --folder /tmp/groups [--only sources] [--budget 1m] [--threads 1]

Makes the data with examples/groups.py, trains by the recipes (about 80 minutes; --budget gives every training the same, shorter time), and
prints the errors on data that no training has seen. What is done stays in the folder, and is not done again.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOIL = '{ kind = "projection", group = "soil", functions = 100, frame = { family = "cosine" } }'
RAIN = '{ kind = "projection", group = "rain", functions = 40, frame = { family = "cosine" } }'
SUN = '{ kind = "scalars", group = "days" }'
# Heads for few samples: what they see of a place goes through a narrow perceptron.
NARROW = lambda heads: [
    f'model.encoders=[{{ kind = "heads", {heads}, d_enc = 128, hidden = [256, 256], outputs = 400, positional = '
    '{ kind = "fourier", functions = 100, frame = { family = "cosine" } } }]'
]
SUMS, AVERAGES = NARROW("count = 0, sums = 1"), NARROW("count = 1")
encoders = lambda *some: [f"model.encoders=[{', '.join(some)}]"]

# Data: what examples/groups.py makes, with its options.
DATA = {
    "soil": ("soil", []),
    "gaps": ("soil", ["--gaps", "0.3333"]),
    "sources": ("sources", ["--samples", "10000"]),
    "cubic": ("sources", ["--samples", "10000", "--cubic", "50"]),
    "ten": ("sources", ["--count", "10:10", "--positive"]),
    "thirty": ("sources", ["--count", "30:30", "--positive", "--samples", "2000"]),
    "particles": ("particles", []),
}
# Name, data (or none), test data, recipe (or the linear map), settings, minutes.
ROWS = [
    ("soil: probes, gauges, sun", "soil", "soil", "own/groups", [], 5),
    ("soil: probes and sun", "soil", "soil", "own/groups", encoders(SOIL, SUN), 5),
    ("soil: gauges and sun", "soil", "soil", "own/groups", encoders(RAIN, SUN), 5),
    ("soil: probes and gauges", "soil", "soil", "own/groups", encoders(SOIL, RAIN), 5),
    ("soil: all, a third of the water readings missing", "gaps", "gaps", "own/groups", [], 5),
    ("sources: moments, FNO", "sources", "sources", "own/sources", [], 10),
    ("sources: heads that sum", "sources", "sources", "own/sums", [], 5),
    ("sources: linear map of the moments", "sources", "sources", "linear", [], 0),
    ("cubic: moments, FNO", "cubic", "cubic", "own/sources", [], 10),
    ("cubic: linear map of the moments", "cubic", "cubic", "linear", [], 0),
    ("ten sources: heads that sum", "ten", "ten", "own/sums", SUMS, 5),
    ("ten sources, asked with thirty: heads that sum", "ten", "thirty", "own/sums", SUMS, 5),
    ("ten sources: heads that average", "ten", "ten", "own/sums", AVERAGES, 5),
    ("ten sources, asked with thirty: heads that average", "ten", "thirty", "own/sums", AVERAGES, 5),
    ("particles: moments, FNO", "particles", "particles", "own/density", [], 5),
    ("burgers: FNO", None, None, "dimensions/burgers-fno", [], 3),
    ("burgers: perceptron", None, None, "dimensions/burgers-mlp", [], 3),
    ("heat: FNO", None, None, "dimensions/heat-fno", [], 5),
    ("heat: perceptron", None, None, "dimensions/heat-mlp", [], 5),
]


def run(*arguments, **options):
    return subprocess.run([str(a) for a in arguments], check=True, **options)


def made(name, program, folder):
    """The folder of some data, for training and (new_) for tests."""
    kind, options = DATA[name]
    home = folder / name
    if (home / "new.parquet").exists():
        return home
    home.mkdir(parents=True, exist_ok=True)
    run(sys.executable, ROOT / "examples" / "groups.py", kind, *options, cwd=home)
    for before, out in [("", "train"), ("new_", "new")]:
        if kind == "soil":
            columns = ["--sample", "day", "--missing", "keep", "--field", f"soil={before}soil.csv:x,y:water,leaves", "--field",
                       f"rain={before}rain.csv:x,y:rain", "--scalars", f"days={before}days.csv:sun", "--targets", f"{before}later.csv",
                       "--target-coords", "x,y", "--target-values", "water_later"]
        elif kind == "particles":
            columns = ["--sample", "cloud", "--points", f"particles={before}particles.csv:x,y:", "--targets", f"{before}clouds.csv",
                       "--target-coords", "x,y", "--target-values", "density"]
        else:
            columns = [f"{before}sources.npz", "--points", "sources=x,y:q", "--target-coords", "target_coords=x,y"]
        ranges = ["--range", "x=0:1", "--range", "y=0:1"]
        run(program, "import", *columns, *ranges, "--out", f"{out}.parquet", cwd=home, capture_output=True)
    return home


def trained(program, folder, recipe, data, settings, limit, threads):
    """The folder of a run, which one of these settings has once."""
    key = "-".join([recipe.split("/")[1], data or "", *settings])
    out = folder / "runs" / "".join(c if c.isalnum() else "_" for c in key)
    if not (out / "last.safetensors").exists():
        own = [f"data.train={folder / data / 'train.parquet'}"] if data else []
        options = [word for setting in [*own, *settings] for word in ("--set", setting)]
        log = open(f"{out}.log", "w")
        run(program, "train", ROOT / "recipes" / f"{recipe}.toml", *options, "--budget", limit, *threads, "--out", out, stderr=log)
    return out


def error(program, run_folder, folder, test):
    asked = ["--data", folder / test / "new.parquet"] if test else ["--samples", "1000"]
    found = run(program, "eval", run_folder, *asked, "--json", capture_output=True)
    return json.loads(found.stdout)["relative_l2"]["mean"]


def linear_map(folder, data, test):
    """Ridge regression from the moments of the sources to the sines of the answer, 24² of both; λ by a tenth held out."""
    waves = np.pi * np.arange(1, 25)

    def read(path):
        with np.load(path) as arrays:
            there = np.arange(arrays["sources_coords"].shape[1]) < arrays["sources_counts"][:, None]
            strengths = arrays["sources_values"] * there
            sines = [np.sin(arrays["sources_coords"][:, :, k, None] * waves) for k in range(2)]
            moments = np.einsum("nj,nja,njb->nab", strengths, *sines, optimize=True)
            return moments.reshape(len(moments), -1), arrays["target_values"]

    (x, y), (x_new, y_new) = read(folder / data / "sources.npz"), read(folder / test / "new_sources.npz")
    grid = np.sin(np.linspace(0, 1, 64)[:, None] * waves)
    shown = np.einsum("ia,jb->ijab", grid, grid).reshape(64 * 64, -1)
    coefs = y @ shown @ np.linalg.inv(shown.T @ shown)
    # Sines as smooth as those of the answer, which is what a ridge of one size asks for.
    size = 1 / (waves[:, None] ** 2 + waves[None, :] ** 2).ravel()
    x, x_new = x * size, x_new * size
    held = len(x) - len(x) // 10
    relative = lambda found, truth: (np.linalg.norm(found - truth, axis=1) / np.linalg.norm(truth, axis=1)).mean()

    def fit(ridge):
        gram = x[:held].T @ x[:held]
        return np.linalg.solve(gram + ridge * np.trace(gram) * np.eye(len(gram)), x[:held].T @ coefs[:held])

    maps = [fit(10.0**power) for power in range(-12, -1)]
    best = min(maps, key=lambda m: relative(x[held:] @ m @ shown.T, y[held:]))
    return relative(x_new @ best @ shown.T, y_new)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--budget")
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    program, folder = given.program.resolve(), given.folder.resolve()
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    for name, data, test, recipe, settings, minutes in ROWS:
        if given.only not in name:
            continue
        for needed in {data, test} - {None}:
            made(needed, program, folder)
        if recipe == "linear":
            found = linear_map(folder, data, test)
        else:
            threads = ["--threads", given.threads] if given.threads else []
            out = trained(program, folder, recipe, data, settings, given.budget or f"{minutes}m", threads)
            found = error(program, out, folder, test)
        print(f"{name:52} {100 * found:8.3g} %", flush=True)


if __name__ == "__main__":
    main()
