"""Real stations: the table of docs/stations.md.

    pip install numpy pandas rdata
    cargo build --release --workspace
    python bench/stations/table.py target/release/vidon --folder /tmp/stations [--only tmax_random] [--budget 3m]

Two public data sets that Debian's packages r-cran-fields and r-cran-spacetime carry (GPL; they are unpacked into the folder, converted
on the spot, and never copied into the project):

  tmax, lppt   Colorado, month by month: the mean highest temperature in °C, and log(1 + precipitation in mm). 376 stations with their
               height, of which 20 to 285 report in a month. Training to 1982, validation to 1987, test from 1988.
    random     in every month four fifths of what reports are sensors, and the rest is asked
    blocked    a fifth of the stations is not seen before the test, whose targets they are
  pm10         Germany, day by day: today's readings of 70 stations, and tomorrow's are asked. Training to 2006, validation 2007,
               test from 2008.

Every data set is imported, learned by `vidon train --data` without any recipe, and judged by `vidon eval` beside `vidon baseline`. What
is done stays in the folder, and is not done again.
"""
import argparse
import json
import pathlib
import subprocess
import time
import warnings

import numpy as np
import pandas as pd

SPLITS = ("train", "val", "test")
PACKAGES = {"r-cran-fields": "fields/data/COmonthlyMet.rda", "r-cran-spacetime": "spacetime/data/air.rda"}
BLOCKED = 20240  # seed of the stations that are held out
RANDOM = 1  # seed of the targets of every month


def fetch(folder):
    """The files of the two packages, by package."""
    at = folder / "packages"
    found = {p: at / "usr/lib/R/site-library" / f for p, f in PACKAGES.items()}
    if not all(path.exists() for path in found.values()):
        at.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-q", *PACKAGES], cwd=at, check=True, stdout=subprocess.DEVNULL)
        for package in at.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package.name, "."], cwd=at, check=True)
    return found


def attributes(node):
    """An R pairlist as a dictionary."""
    found = {}
    while node is not None and node.info.type.name == "LIST":
        tag = node.tag if node.tag.referenced_object is None else node.tag.referenced_object
        found[tag.value.value.decode()] = node.value[0]
        node = node.value[1]
    return found


def matrix(node):
    rows, columns = attributes(node.attributes)["dim"].value
    return node.value.reshape(columns, rows).T


def colorado(path):
    """Stations, years, and for each quantity a table of (year, month, station)."""
    import rdata

    data = {key.removeprefix("CO."): value for key, value in rdata.read_rda(path).items()}
    places = np.asarray(data["loc"])
    stations = pd.DataFrame({"station": list(data["id"]), "lon": places[:, 0], "lat": places[:, 1], "elev": np.asarray(data["elev"])})
    quantities = {"tmax": np.asarray(data["tmax"]), "lppt": np.log1p(np.asarray(data["ppt"]))}
    return stations, np.asarray(data["years"]), quantities


def germany(path):
    """Places, days, and readings (station, day)."""
    from rdata.parser import parse_file

    top = attributes(parse_file(path).object)
    places = matrix(attributes(top["stations"].attributes)["coords"])
    return places, pd.to_datetime(top["dates"].value, unit="D"), matrix(top["air"])


def months(folder, name, values, years, stations, variant):
    count = len(stations)
    held_out = np.zeros(count, bool)
    held_out[np.random.default_rng(BLOCKED).permutation(count)[: count // 5]] = True
    draw = np.random.default_rng(RANDOM)
    tables = {split: ([], []) for split in SPLITS}
    for i, year in enumerate(years):
        split = "train" if year <= 1982 else "val" if year <= 1987 else "test"
        for month in range(12):
            there = np.flatnonzero(~np.isnan(values[i, month]))
            if variant == "blocked" and split == "test":
                parts = there[~held_out[there]], there[held_out[there]]
            else:
                there = there[~held_out[there]] if variant == "blocked" else there
                order = draw.permutation(there)
                asked = max(1, round(0.2 * len(order)))
                parts = order[asked:], order[:asked]
            for table, some in zip(tables[split], parts):
                table.append(stations.iloc[some].assign(month=f"{year}-{month + 1:02d}", **{name: values[i, month, some]}))
    for split, parts in tables.items():
        for part, table in zip(("sensors", "targets"), parts):
            pd.concat(table).to_csv(folder / f"{name}_{variant}_{split}_{part}.csv", index=False)


def days(folder, places, dates, values):
    splits = dates.year <= 2006, dates.year == 2007, dates.year >= 2008
    for split, own in zip(SPLITS, splits):
        parts = [], []
        for t in np.flatnonzero(own):
            if t + 1 >= values.shape[1]:
                continue
            now, then = (np.flatnonzero(~np.isnan(values[:, k])) for k in (t, t + 1))
            if len(now) < 5 or len(then) < 1:
                continue
            for rows, some, k in zip(parts, (now, then), (t, t + 1)):
                rows += [(str(dates[t].date()), j, places[j, 0], places[j, 1], values[j, k]) for j in some]
        for part, rows in zip(("sensors", "targets"), parts):
            table = pd.DataFrame(rows, columns=["day", "station", "lon", "lat", "pm10"])
            table.to_csv(folder / f"pm10_{split}_{part}.csv", index=False)


def tables(folder):
    """CSV files of all data sets; their names."""
    names = [f"{q}_{v}" for q in ("tmax", "lppt") for v in ("random", "blocked")] + ["pm10"]
    if not (folder / "pm10_test_targets.csv").exists():
        found = fetch(folder)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stations, years, quantities = colorado(found["r-cran-fields"])
            for name, values in quantities.items():
                for variant in ("random", "blocked"):
                    months(folder, name, values, years, stations, variant)
            days(folder, *germany(found["r-cran-spacetime"]))
    return names


def run(vidon, *arguments, **more):
    return subprocess.run([str(vidon), *map(str, arguments)], check=True, text=True, **more)


def learn(vidon, folder, name, budget):
    """Trains and judges on one data set: [row, …] of (what, RMSE, relative L², seconds)."""
    quantity = name.split("_")[0]
    covariates = quantity != "pm10"
    data = {split: folder / f"{name}_{split}.parquet" for split in SPLITS}
    for split, path in data.items():
        if not path.exists():
            sensors, targets = (folder / f"{name}_{split}_{part}.csv" for part in ("sensors", "targets"))
            height = ["--target-covariates", "elev"] if covariates else []
            columns = f"lon,lat{'+elev' if covariates else ''}:{quantity}"
            run(vidon, "--quiet", "import", "--sample", "month" if covariates else "day", "--field", f"stations={sensors}:{columns}",
                "--targets", targets, "--target-coords", "lon,lat", *height, "--target-values", quantity, "--out", path,
                stdout=subprocess.DEVNULL)
    rows = []
    baselines = json.loads(run(vidon, "--quiet", "baseline", data["test"], "--train", data["train"], "--json", stdout=subprocess.PIPE).stdout)
    for baseline in baselines["baselines"]:
        rows.append((baseline["name"], baseline["columns"][0]["rmse"], baseline["relative_l2"], None))
    folder_of_run, seconds = folder / f"run_{name}", folder / f"run_{name}.seconds"
    if not seconds.exists():
        subprocess.run(["rm", "-rf", folder_of_run])
        began = time.time()
        with open(folder / f"run_{name}.log", "w") as log:
            run(vidon, "train", "--data", data["train"], "--val", data["val"], "--budget", budget, "--out", folder_of_run, stderr=log)
        seconds.write_text(str(time.time() - began))
    found = json.loads(run(vidon, "--quiet", "eval", folder_of_run, "--data", data["test"], "--json", stdout=subprocess.PIPE).stdout)
    rows.append(("**vidon train --data**", found["columns"][0]["rmse"], found["relative_l2"]["mean"], float(seconds.read_text())))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vidon", type=pathlib.Path, help="the program")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="where data and runs are kept")
    parser.add_argument("--only", nargs="*", help="some of the data sets")
    parser.add_argument("--budget", default="2m", help="time of every training [2m]")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name in tables(folder):
        if options.only and name not in options.only:
            continue
        rows = learn(options.vidon.resolve(), folder, name, options.budget)
        print(f"\n| {name} | RMSE | relative L² | |\n|---|---|---|---|")
        for what, rmse, relative, seconds in rows:
            took = "" if seconds is None else f"{seconds:.0f} s in all"
            print(f"| {what} | {rmse:.3f} | {100 * relative:.1f} % | {took} |")
        print((folder / f"run_{name}.log").read_text().split("chosen: ")[-1].splitlines()[0], flush=True)


if __name__ == "__main__":
    main()
