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

from read_dataset import read_dataset


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


def project(config, w, x, u):
    """Regularised least squares, a row a component."""
    decay, ridge, fall = w["projection.prior"]
    functions, squares = fourier(config["frame"], config["functions"], x, whole=True)
    prior = (1 + squares) ** (-decay / 2) * np.exp(-fall * np.sqrt(squares))
    a = functions * prior
    matrix = a.T @ a / len(x) + ridge * np.eye(len(prior))
    return (prior[:, None] * np.linalg.solve(matrix, a.T @ u / len(x))).T


def fno_between_bases(core, projection, decoder, w, coefs, outputs):
    """The fit on a grid, an FNO, and its answer in the decoder's functions."""
    frames = [projection["frame"], decoder["frame"]]
    n, axes = core["grid"], len(frames[0]["lo"])
    torus = all(f["family"] == "periodic" for f in frames)
    axis = np.arange(n) / (n if torus else n - 1)
    unit = np.array(list(itertools.product(axis, repeat=axes)))
    place = lambda f: np.array(f["lo"][:axes]) + unit * (np.array(f["hi"][:axes]) - np.array(f["lo"][:axes]))
    seen, _ = fourier(frames[0], projection["functions"], place(frames[0]), whole=True)
    space = {"family": frames[1]["family"], "lo": frames[1]["lo"][:axes], "hi": frames[1]["hi"][:axes]}
    basis, _ = fourier(space, decoder["functions"], place(frames[1]))
    read = np.linalg.solve(basis.T @ basis + 1e-6 * len(unit) * np.eye(basis.shape[1]), basis.T)
    values = [(seen @ coefs.T - w["core.input"][0]) / w["core.input"][1]]
    if core["coords"]:
        values.append(2 * unit - 1)
    answer = fno_on_grid(core, w, np.hstack(values), [n] * axes)
    # Rows: outputs, then functions of time.
    answer = (read @ answer).T.reshape(outputs, max(frames[1].get("times", 0), 1), -1)
    mean, spread = w["core.output"]
    beta = answer * spread[:, None, None]
    beta[:, 0] += mean[:, None] * read.sum(axis=1)
    return beta.transpose(0, 2, 1).ravel()


def heads(config, w, x, u):
    positional = config["positional"]
    seen = x if positional["kind"] == "mlp" else fourier(positional["frame"], positional["functions"], x)[0]
    place, value = mlp(w, "encode_coords", seen), mlp(w, "encode_values", u)
    psi = place + value if config["encoding"] == "sum" else place * value
    pooled = []
    for h in range(config["count"]):
        logits = mlp(w, f"heads.{h}.weight", psi) / math.sqrt(config["d_enc"])
        shares = np.exp(logits - logits.max())
        pooled.append((shares / shares.sum() * mlp(w, f"heads.{h}.value", psi)).sum(axis=0))
    return np.concatenate(pooled)


def encode(config, w, x, u):
    """What a perceptron sees."""
    match config["kind"]:
        case "heads":
            return heads(config, w, x, u)
        case "projection":
            return (project(config, w, x, u).ravel() - w["projection.mean"]) / w["projection.spread"]
        case "vector":
            return u.ravel()


def contract(decoder, w, beta, y, outputs):
    if decoder["kind"] == "learned":
        tau = mlp(w, "trunk", y)
    else:
        own, _ = fourier(decoder["frame"], len(beta) // outputs, y)
        blocks = np.kron(np.eye(outputs)[None], own[:, None, :])
        tau = np.concatenate([np.zeros((len(y), outputs, 1)), blocks], axis=2)
    tau = tau.reshape(len(y), outputs, len(beta) + 1)
    return tau[:, :, 0] + tau[:, :, 1:] @ beta


def operator(config, w, x, u, y, outputs):
    encoders, core, decoder = config["encoders"], config["core"], config["decoder"]
    if decoder["kind"] == "grid":
        return fno_on_grid(core, w, np.hstack([u, x]), [len(np.unique(axis)) for axis in x.T])
    if core["kind"] == "fno":
        coefs = project(encoders[0], w, x, u)
        beta = fno_between_bases(core, encoders[0], decoder, w, coefs, outputs)
        return contract(decoder, w, beta, y, outputs)
    seen = np.concatenate([encode(e, w, x, u) for e in encoders])
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
    own = ["vidon", "vidon_fourier", "vidon_projection", "vidon_torus", "deeponet"]
    spaces = [f"{kind}_{axes}d" for kind in ["vidon_core", "fno"] for axes in [1, 2, 3]]
    for name in own + spaces:
        path = Path(sys.argv[1]) / name
        with safe_open(f"{path}.safetensors", "numpy") as file:
            config = json.loads(file.metadata()["vidon"])["model"]
            weights = {k: file.get_tensor(k).astype(np.float64) for k in file.keys()}
        worst = 0.0
        for s in read_dataset(f"{path}.parquet")[1]:
            s = {k: v.astype(np.float64) for k, v in s.items()}
            found = operator(config, weights, s["sensor_coords"], s["sensor_values"], s["query_coords"], 2)
            worst = max(worst, np.linalg.norm(found - s["targets"]) / np.linalg.norm(s["targets"]))
        print(f"{name:16s} differs by {worst:.1e} relative")
        assert worst <= 1e-5
