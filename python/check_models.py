"""VIDON, DeepONet and FNO in NumPy, from the same weights: the answers must be the same to 1e-5.

    pip install -r python/requirements.txt
    cargo build --release --workspace --examples && target/release/examples/reference target/reference
    python python/check_models.py target/reference
"""

import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
from safetensors import safe_open

from read_dataset import groups, read_dataset


def mlp(w, name, x, activation=np.tanh):
    layers = sum(k.startswith(name + ".") and k.endswith(".weight") and k[len(name) + 1 :].count(".") == 1 for k in w)
    for i in range(layers):
        x = x @ w[f"{name}.{i}.weight"].T + w[f"{name}.{i}.bias"]
        x = activation(x) if i + 1 < layers else x
    return x


def fourier(frame, count, x, whole=False):
    """The first functions by |k| (polynomials: by degree), then by k, the cosine before the sine; with `whole` all that have the last one's |k|."""
    if times := frame.get("times", 0):
        space = {"family": frame["family"], "lo": frame["lo"][:-1], "hi": frame["hi"][:-1]}
        time = {"family": "legendre", "lo": frame["lo"][-1:], "hi": frame["hi"][-1:]}
        places, moments = fourier(space, -(-count // times), x[:, :-1])[0], fourier(time, times, x[:, -1:])[0]
        return (places[:, :, None] * moments[:, None, :]).reshape(len(x), -1)[:, :count], None
    lo, hi, family = np.array(frame["lo"]), np.array(frame["hi"]), frame["family"]
    x = (x - lo) / (hi - lo)
    reach = next(r for r in itertools.count(1) if len(waves(len(lo), r, family)) >= count)
    found = waves(len(lo), reach, family)
    if whole:
        count = sum(square <= found[count - 1][0] for square, _, _ in found)
    columns = []
    for _, k, sine in found[:count]:
        k = np.array(k)
        if family == "periodic":
            columns.append((np.sin if sine else np.cos)(2 * np.pi * x @ k))
        elif family == "legendre":
            polynomial = lambda n, z: math.sqrt(2 * n + 1) * np.polynomial.legendre.Legendre.basis(n)(2 * z - 1)
            columns.append(np.prod([polynomial(n, x[:, i]) for i, n in enumerate(k)], axis=0))
        else:
            columns.append((np.sin if family == "sine" else np.cos)(np.pi * x * k).prod(axis=1))
    return np.stack(columns, axis=1), np.array([float(square) for square, _, _ in found[:count]])


def waves(dim, reach, family):
    lowest = {"periodic": -reach, "sine": 1}.get(family, 0)
    found = []
    for k in itertools.product(range(lowest, reach + 1), repeat=dim):
        square = sum(k) ** 2 if family == "legendre" else sum(v * v for v in k)
        first, periodic = next((v for v in k if v), 0), family == "periodic"
        if square <= reach * reach and not (periodic and first < 0):
            found += [(square, k, False)] + ([(square, k, True)] if periodic and square else [])
    return sorted(found)


def linear_functions(frame, count):
    """How many functions of space are constant or linear, of so many."""
    axes = len(frame["lo"]) - (frame.get("times", 0) > 0)
    wanted = min(axes + 1, count)
    found = next(f for f in (waves(axes, r, frame["family"]) for r in itertools.count(1)) if len(f) >= wanted)
    return min(sum(square <= found[wanted - 1][0] for square, _, _ in found), count)


def with_covariates(frame, functions, z):
    """Behind functions of places the first of them times every covariate, and the very first times its square."""
    times = max(frame.get("times", 0), 1)
    products = linear_functions(frame, functions.shape[1] // times) * times
    further = [f for c in z.T[:, :, None] for f in [c * functions[:, :products], (c * c - 1) * functions[:, :times]]]
    return np.hstack([functions, *further])


def project(config, w, x, u):
    """Regularised least squares, a row a component, each on the sensors that report it; and the drift, if there is one."""
    decay, ridge, fall = w["projection.prior"]
    axes = len(config["frame"]["lo"])
    functions, squares = fourier(config["frame"], config["functions"], x[:, :axes], whole=True)
    prior = (1 + squares) ** (-decay / 2) * np.exp(-fall * np.sqrt(squares))
    n = len(prior)
    if "projection.drift" in w:
        (mean, spread), (linear, products) = w["projection.covariates"], w["projection.drift"]
        functions = with_covariates(config["frame"], functions, (x[:, axes:] - mean) / spread)
        first = prior[: linear_functions(config["frame"], n)] * products
        first[0] = prior[0] * linear
        prior = np.concatenate([prior, *[[*first, prior[0] * products]] * len(mean)])

    def fit(a, u):
        matrix = a.T @ a / len(a) + ridge * np.eye(len(prior))
        return prior * np.linalg.solve(matrix, a.T @ u / len(a))

    known = [~np.isnan(column) for column in u.T]
    found = np.stack([fit(functions[k] * prior, column[k]) for k, column in zip(known, u.T)])
    if "projection.drift" not in w:
        return found, []
    mean, spread = w["projection.drift.standard"]
    return found[:, :n], (found[:, n:].ravel() - mean) / spread


def moments(config, x, u):
    """Sums over sources, or the mean over samples of a density, in orthonormal functions with falling amplitudes."""
    functions, squares = fourier(config["frame"], config["functions"], x, whole=True)
    # The mean square of every function over its box.
    probe = np.array(list(itertools.product((np.arange(64) + 0.5) / 64, repeat=2)))
    lo, hi = np.array(config["frame"]["lo"]), np.array(config["frame"]["hi"])
    sizes = (fourier(config["frame"], config["functions"], lo + probe * (hi - lo), whole=True)[0] ** 2).mean(axis=0)
    strengths = u if u is not None else np.full((len(x), 1), 1 / len(x))
    return ((1 + squares) ** (-config["decay"] / 2) / sizes * (functions.T @ strengths).T)


def fno_between_bases(core, seen, decoder, w, outputs):
    """Functions and constants on a grid, an FNO, and its answer in the decoder's functions."""
    own = decoder["frame"]
    n, axes = core["grid"], len(own["lo"]) - (own.get("times", 0) > 0)
    torus = all(f["family"] == "periodic" for f in [own, *(c["frame"] for c, _, _ in seen if "frame" in c)])
    axis = np.arange(n) / (n if torus else n - 1)
    unit = np.array(list(itertools.product(axis, repeat=axes)))
    place = lambda f: np.array(f["lo"][:axes]) + unit * (np.array(f["hi"][:axes]) - np.array(f["lo"][:axes]))
    channels, first = [], 0
    for config, coefs, constants in seen:
        if coefs is not None:
            values = fourier(config["frame"], config["functions"], place(config["frame"]), whole=True)[0] @ coefs.T
            mean, spread = w["core.input"][:, first : first + len(coefs)]
            channels.append((values - mean) / spread)
            first += len(coefs)
        channels.append(np.tile(constants, (len(unit), 1)))
    if core["coords"]:
        channels.append(2 * unit - 1)
    if "core.covariates" in w:
        channels.append(w["core.covariates"].T)
    space = {"family": own["family"], "lo": own["lo"][:axes], "hi": own["hi"][:axes]}
    basis, _ = fourier(space, decoder["functions"], place(own))
    read = np.linalg.solve(basis.T @ basis + 1e-6 * len(unit) * np.eye(basis.shape[1]), basis.T)
    answer = fno_on_grid(core, w, np.hstack(channels), [n] * axes)
    # Rows: outputs, then what stands alone, with every covariate and with its square, then functions of time.
    times = max(own.get("times", 0), 1)
    answer = (read @ answer).T.reshape(outputs, -1, times, basis.shape[1])
    mean, spread = w["core.output"]
    beta = answer * spread[:, None, None, None]
    beta[:, 0, 0] += mean[:, None] * read.sum(axis=1)
    linear = linear_functions(own, basis.shape[1])
    counts = [basis.shape[1]] + [linear, 1] * (beta.shape[1] // 2)
    parts = [beta[:, i, :, :count].transpose(0, 2, 1).reshape(outputs, -1) for i, count in enumerate(counts)]
    return np.hstack(parts).ravel()


def heads(config, w, x, u):
    """Averages over sensors, where a column counts where it is reported, then sums over points with their strengths."""
    positional = config["positional"]
    seen = x if positional["kind"] == "mlp" else fourier(positional["frame"], positional["functions"], x)[0]
    place = mlp(w, "encode_coords", seen)
    if u is None:
        psi = place
    elif "encode_values.0.0.weight" in w:
        known = ~np.isnan(u)
        column = lambda c: mlp(w, f"encode_values.{c}", np.nan_to_num(u[:, [c]])) * known[:, [c]]
        psi = place + sum(column(c) for c in range(u.shape[1]))
    elif "encode_values.0.weight" in w:
        value = mlp(w, "encode_values", u)
        psi = place + value if config["encoding"] == "sum" else place * value
    pooled = []
    for h in range(config["count"]):
        logits = mlp(w, f"heads.{h}.weight", psi) / math.sqrt(config["d_enc"])
        shares = np.exp(logits - logits.max())
        pooled.append((shares / shares.sum() * mlp(w, f"heads.{h}.value", psi)).sum(axis=0))
    strengths = np.full((len(x), 1), 1 / len(x)) if u is None else u
    for h in range(config.get("sums", 0)):
        pooled += [strength @ mlp(w, f"sums.{h}", place) for strength in strengths.T]
    if "heads.points" in w:
        mean, spread = w["heads.points"]
        pooled.append([(len(x) - mean) / spread])
    return np.concatenate(pooled)


def encode(config, w, x, u):
    """Coefficients of functions, a row a function, and other numbers."""
    match config["kind"]:
        case "heads":
            return None, heads(config, w, x, u)
        case "projection":
            return project(config, w, x, u)
        case "moments":
            mean, spread = w.get("moments.count", (0, 1))
            return moments(config, x, u), [] if u is not None else [(len(x) - mean) / spread]
        case "scalars":
            mean, spread = w["scalars"]
            return None, np.concatenate([np.nan_to_num((u[0] - mean) / spread), ~np.isnan(u[0])])
        case "vector":
            return None, u.ravel()


def contract(decoder, w, beta, y, outputs):
    if decoder["kind"] == "learned":
        tau = mlp(w, "trunk", y)
    else:
        frame, axes = decoder["frame"], len(decoder["frame"]["lo"])
        own, _ = fourier(frame, decoder["functions"] * max(frame.get("times", 0), 1), y[:, :axes])
        if "trunk.covariates" in w:
            mean, spread = w["trunk.covariates"]
            own = with_covariates(frame, own, (y[:, axes:] - mean) / spread)
        blocks = np.kron(np.eye(outputs)[None], own[:, None, :])
        tau = np.concatenate([np.zeros((len(y), outputs, 1)), blocks], axis=2)
    tau = tau.reshape(len(y), outputs, len(beta) + 1)
    return tau[:, :, 0] + tau[:, :, 1:] @ beta


def operator(config, w, sample, described, outputs):
    """`described`: the groups of sensors."""
    encoders, core, decoder = config["encoders"], config["core"], config["decoder"]
    seen, y = [], sample["query_coords"]
    for encoder in encoders:
        kinds = {"moments": ["points"], "scalars": ["scalars"]}.get(encoder["kind"], ["field"])
        named = encoder.get("group") or next(g["name"] for g in described if g["kind"] in kinds)
        x, u = sample.get(f"{named}_coords"), sample.get(f"{named}_values")
        if encoder["kind"] == "grid":
            return fno_on_grid(core, w, np.hstack([u, x]), [len(np.unique(axis)) for axis in x.T])
        # Where there is one group its weights need not say whose they are.
        before = f"{named}." if len(described) > 1 else ""
        own = {k.removeprefix(before): v for k, v in w.items() if k.startswith(before)}
        coefs, others = encode(encoder, own, x, u)
        if coefs is not None and core["kind"] == "mlp":
            name = encoder["kind"]
            others = np.concatenate([(coefs.ravel() - own[f"{name}.mean"]) / own[f"{name}.spread"], others])
        seen.append((encoder, coefs, others))
    if core["kind"] == "fno":
        return contract(decoder, w, fno_between_bases(core, seen, decoder, w, outputs), y, outputs)
    seen = np.concatenate([others for _, _, others in seen])
    beta = mlp(w, "core", seen, {"tanh": np.tanh, "gelu": gelu}[core["activation"]])
    if core["skip"]:
        beta = beta + mlp(w, "core.skip", seen)
    if "core.scale" in w:
        mean, spread = w["core.scale"]
        beta = mean + beta * spread
    return contract(decoder, w, beta, y, outputs)


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def fno_on_grid(config, w, seen, grid):
    linear = lambda name, v: v @ w[f"core.{name}.weight"].T + w[f"core.{name}.bias"]
    m, axes = config["modes"], tuple(range(len(grid)))
    v = linear("lift", seen).reshape(*grid, -1)
    # Half of an odd grid is rounded up.
    v = np.pad(v, [(0, math.floor(config["padding"] * n + 0.5)) for n in grid] + [(0, 0)])
    for i in range(config["layers"]):
        weight = w[f"core.layers.{i}.spectral"]
        weight = weight[..., 0] + 1j * weight[..., 1]
        spectrum = np.fft.rfftn(v, axes=axes)
        kept = np.zeros(spectrum.shape[:-1] + (weight.shape[-1],), complex)
        # Along all axes but the last, frequencies 0 to m - 1 and -m to -1.
        for blocks in itertools.product([0, 1], repeat=len(grid) - 1):
            rows = tuple(slice(-m, None) if b else slice(0, m) for b in blocks) + (slice(0, m),)
            own = weight[tuple(v for b in blocks for v in (b, slice(None)))]
            kept[rows] = np.einsum("...i,...io->...o", spectrum[rows], own)
        v = np.fft.irfftn(kept, s=v.shape[:-1], axes=axes) + linear(f"layers.{i}.pointwise", v)
        v = gelu(v) if i + 1 < config["layers"] else v
    v = v[tuple(slice(0, n) for n in grid)].reshape(math.prod(grid), -1)
    return linear("project.1", gelu(linear("project.0", v)))


if __name__ == "__main__":
    own = ["vidon", "vidon_fourier", "vidon_projection", "vidon_torus", "vidon_groups", "vidon_sums", "deeponet"]
    spaces = [f"{kind}_{axes}d" for kind in ["vidon_core", "fno"] for axes in [1, 2, 3]]
    for name in own + spaces:
        path = Path(sys.argv[1]) / name
        with safe_open(f"{path}.safetensors", "numpy") as file:
            header = json.loads(file.metadata()["vidon"])
            weights = {k: file.get_tensor(k).astype(np.float64) for k in file.keys()}
        worst = 0.0
        for s in read_dataset(f"{path}.parquet")[1]:
            s = {k: v.astype(np.float64) for k, v in s.items()}
            found = operator(header["model"], weights, s, groups(header["data"]), 2)
            worst = max(worst, np.linalg.norm(found - s["targets"]) / np.linalg.norm(s["targets"]))
        print(f"{name:16s} differs by {worst:.1e} relative")
        assert worst <= 1e-5
