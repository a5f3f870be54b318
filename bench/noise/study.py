"""Error against noise: in the readings, in the places of the sensors, and outliers, beside kriging.

    pip install numpy pyarrow
    cargo build --release --workspace
    python bench/noise/study.py target/release/vidon --folder /tmp/noise [--quick] [--budget 40s] [--threads 2]

The Navier-Stokes problem of the paper, its start seen by 200 sensors at places that are new in every sample. Two tasks:

  reconstruction    the start itself, without noise, on a grid; kriging can do that too
  operator          the vorticity at t = 5 on the grid, which kriging cannot

Noise is in what the sensors say, never in the targets:

  readings          normal, in % of the spread of all readings
  places            normal, in % of the side of the box: what is read there is said to be read here
  outliers          so many % of the readings are off by ten spreads, up or down

Every task is trained without noise and with the noise that it is tested with. Kriging has a constant mean, a Matérn or
Gaussian covariance on the torus and a nugget; family, range and nugget are those of the greatest likelihood of training
samples with the same noise. Prints the mean relative L² errors on test samples as a Markdown table, in about 20 minutes on
two cores. What is done stays in the folder and is not done again; --quick shows in a minute that all of it works, with
numbers that say nothing.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

# Many threads at small matrices wait for each other most of the time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
from read_dataset import read_dataset  # noqa: E402

SENSORS = 200
LEVELS = [("clean", 0.0)]
LEVELS += [("readings", level) for level in (1, 3, 10, 30)]
LEVELS += [("places", level) for level in (0.5, 1, 2, 5)]
LEVELS += [("outliers", level) for level in (1, 5)]
QUICK = [("clean", 0.0), ("readings", 10), ("places", 2), ("outliers", 5)]
TASKS = ["reconstruction", "operator"]
OUTLIER = 10.0
# Kriging: choices that the likelihood decides between, ranges in sides of the box, nuggets beside the variance.
RANGES = np.geomspace(0.03, 1.0, 10)
NUGGETS = np.geomspace(1e-6, 10.0, 22)[:, None]
FAMILIES = {
    "matern 3/2": lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
    "matern 5/2": lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
    "gaussian": lambda r: np.exp(-(r**2) / 2),
}
JUDGED = 12


def run(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout


def seeded(*key):
    """A generator of its own for every purpose."""
    return np.random.default_rng([sum(256**i * b for i, b in enumerate(str(k).encode())) for k in key])


def functions(program, folder, split, count):
    """Sensors of every sample, the grid, and the clean start and end there."""
    kept = folder / f"{split}.npz"
    if not kept.exists():
        layouts = {}
        for layout in ["variable", "regular"]:
            file = folder / f"{split}-{layout}.parquet"
            run(program, "generate", "navier-stokes", "--layout", layout, "--split", split, "--samples", count, "--out", file)
            layouts[layout] = list(read_dataset(file)[1])
        rng = seeded("sensors", split)
        some = [rng.permutation(len(s["sensor_coords"]))[:SENSORS] for s in layouts["variable"]]
        pick = lambda part: np.stack([s[part][i] for s, i in zip(layouts["variable"], some)])
        every = lambda part: np.stack([s[part] for s in layouts["regular"]])
        first = layouts["regular"][0]
        arrays = dict(
            coords=pick("sensor_coords"), values=pick("sensor_values"), start_grid=first["sensor_coords"],
            start=every("sensor_values"), end_grid=first["query_coords"], end=every("targets"),
        )
        part = kept.with_suffix(".part.npz")
        np.savez(part, **arrays)
        part.rename(kept)
    with np.load(kept) as arrays:
        return dict(arrays)


def noised(data, spread, kind, level, split):
    """Places and readings as the sensors say them."""
    rng = seeded("noise", split, kind, level)
    coords, values, share = data["coords"].astype(float), data["values"].astype(float), level / 100
    if kind == "readings":
        values = values + share * spread * rng.standard_normal(values.shape)
    elif kind == "places":
        coords = (coords + share * rng.standard_normal(coords.shape)) % 1.0
    elif kind == "outliers":
        off = rng.random(values.shape) < share
        values = values + off * OUTLIER * spread * rng.choice([-1.0, 1.0], values.shape)
    return coords.astype(np.float32), values.astype(np.float32)


def dataset(program, folder, data, spread, split, task, kind, level):
    """The samples of a task with some noise as a file that `vidon` reads."""
    file = folder / f"{split}-{task}-{kind}-{level}.parquet"
    if not file.exists():
        coords, values = noised(data, spread, kind, level, split)
        part = "start" if task == "reconstruction" else "end"
        arrays = file.with_suffix(".npz")
        np.savez(arrays, coords=coords, values=values, target_coords=data[f"{part}_grid"], target_values=data[part])
        columns = ["--coords", "coords=x,y", "--values", "values=w0", "--target-coords", "target_coords=x,y",
                   "--target-values", f"target_values={'w0' if part == 'start' else 'w'}"]
        run(program, "import", arrays, *columns, "--range", "x=0:1", "--range", "y=0:1", "--out", file)
        arrays.unlink()
    return file


def trained(program, folder, file, task, kind, level, limit):
    out = folder / "runs" / f"{task}-{kind}-{level}"
    if (out / "last.safetensors").exists():
        return out
    if (out / "recipe.toml").exists():
        run(program, "train", "--resume", out, "--quiet")
    else:
        recipe = ROOT / "bench" / "noise" / "recipe.toml"
        run(program, "train", recipe, "--set", f"data.train={file}", *limit, "--out", out, "--quiet")
    return out


def error(program, network, file):
    return json.loads(run(program, "eval", network, "--data", file, "--json"))["relative_l2"]["mean"]


def distances(a, b):
    """Chords of the torus, which leave every covariance positive; as long as the way along it where that is short."""
    return np.sqrt(sum((np.sin(np.pi * (a[:, None, k] - b[None, :, k])) / np.pi) ** 2 for k in range(2)))


def likeliest(coords, values):
    """Family, range and nugget of the greatest likelihood of some samples; mean and variance are each sample's own."""
    some = range(min(JUDGED, len(coords)))
    apart = [distances(coords[i], coords[i]) for i in some]

    def likelihoods(family, reach):
        total = np.zeros(len(NUGGETS))
        for i in some:
            eigen, vectors = np.linalg.eigh(FAMILIES[family](apart[i] / reach))
            ones, own = vectors.T @ np.ones(len(values[i])), vectors.T @ values[i]
            v = np.maximum(eigen, 0.0) + NUGGETS
            mean = (ones * own / v).sum(1, keepdims=True) / (ones**2 / v).sum(1, keepdims=True)
            rest = own - mean * ones
            total -= 0.5 * (len(own) * np.log((rest**2 / v).mean(1)) + np.log(v).sum(1))
        return total

    choices = [(total, family, reach, nugget) for family in FAMILIES for reach in RANGES
               for total, nugget in zip(likelihoods(family, reach), NUGGETS[:, 0])]
    return max(choices, key=lambda choice: choice[0])[1:]


def kriging(train, test, truth, grid):
    family, reach, nugget = likeliest(train[0].astype(float), train[1][:, :, 0].astype(float))
    errors = []
    for coords, values, wanted in zip(test[0].astype(float), test[1][:, :, 0].astype(float), truth[:, :, 0]):
        inside = FAMILIES[family](distances(coords, coords) / reach) + nugget * np.eye(len(coords))
        solved = np.linalg.solve(inside, np.stack([values, np.ones_like(values)], axis=1))
        mean = solved[:, 0].sum() / solved[:, 1].sum()
        found = mean + FAMILIES[family](distances(grid, coords) / reach) @ (solved[:, 0] - mean * solved[:, 1])
        errors.append(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
    print(f"    kriging: {family}, range {reach:.3f}, nugget {nugget:.2g}", file=sys.stderr, flush=True)
    return float(np.mean(errors))


def table(levels, found):
    head = ["", *(kind if kind == "clean" else f"{kind} {level:g} %" for kind, level in levels)]
    rows = [(task, how) for task in TASKS for how in ["trained on clean", "trained on the same noise", "kriging"]]
    lines = [" | ".join(head), " | ".join(["---"] * len(head))]
    for task, how in rows:
        cells = [found.get(f"{task}, {how}, {kind} {level}") for kind, level in levels]
        if any(cell is not None for cell in cells):
            shown = ["" if cell is None else f"{100 * cell:.3g} %" for cell in cells]
            lines.append(" | ".join([f"{task}, {how}", *shown]))
    return "\n".join(f"| {line} |" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="a few steps on a few samples")
    parser.add_argument("--budget", default="40s", help="of every training")
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    # What is small is kept apart.
    program, folder = given.program.resolve(), given.folder.resolve() / ("quick" if given.quick else "whole")
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    levels, counts = (QUICK, (40, 8)) if given.quick else (LEVELS, (1000, 100))
    limit = ["--steps", "20"] if given.quick else ["--budget", given.budget]
    limit += ["--threads", given.threads] if given.threads else []
    train, test = (functions(program, folder, split, n) for split, n in zip(["train", "test"], counts))
    # The grid of a test is finer at the end; the start is known where its sensors of the regular layout stand.
    spread = float(train["values"].std())
    results = folder / "results.json"
    found = json.loads(results.read_text()) if results.exists() else {}

    def keep(name, work):
        if name not in found:
            found[name] = work()
            part = results.with_suffix(".part")
            part.write_text(json.dumps(found, indent=1))
            part.rename(results)
        print(f"{name:64} {100 * found[name]:8.3g} %", file=sys.stderr, flush=True)

    for task in TASKS:
        file = lambda data, split, *noise: dataset(program, folder, data, spread, split, task, *noise)
        network = lambda *noise: trained(program, folder, file(train, "train", *noise), task, *noise, limit)
        for noise in levels:
            what = f"{noise[0]} {noise[1]}"
            tested = lambda *learned: error(program, network(*learned), file(test, "test", *noise))
            keep(f"{task}, trained on clean, {what}", lambda: tested(*LEVELS[0]))
            if noise != LEVELS[0]:
                keep(f"{task}, trained on the same noise, {what}", lambda: tested(*noise))
            if task == "reconstruction":
                both = [noised(data, spread, *noise, split) for data, split in [(train, "train"), (test, "test")]]
                keep(f"{task}, kriging, {what}", lambda: kriging(*both, test["start"], test["start_grid"]))
    print(table(levels, found))


if __name__ == "__main__":
    main()
