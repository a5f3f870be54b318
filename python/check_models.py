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


def mlp(w, name, x):
    layers = sum(k.startswith(name + ".") and k.endswith(".weight") and k[len(name) + 1 :].count(".") == 1 for k in w)
    for i in range(layers):
        x = x @ w[f"{name}.{i}.weight"].T + w[f"{name}.{i}.bias"]
        x = np.tanh(x) if i + 1 < layers else x
    return x


def fourier(frame, count, x):
    """The first functions by |k|, then by k, the cosine before the sine."""
    lo, hi = np.array(frame["lo"]), np.array(frame["hi"])
    x, periodic = (x - lo) / (hi - lo), frame["family"] == "periodic"
    reach = next(r for r in itertools.count(1) if len(waves(len(lo), r, periodic)) >= count)
    columns = []
    for _, k, sine in waves(len(lo), reach, periodic)[:count]:
        wave = np.sin if sine else np.cos
        columns.append(wave(2 * np.pi * x @ k) if periodic else np.cos(np.pi * x * k).prod(axis=1))
    return np.stack(columns, axis=1)


def waves(dim, reach, periodic):
    found = []
    for k in itertools.product(range(-reach if periodic else 0, reach + 1), repeat=dim):
        square, first = sum(v * v for v in k), next((v for v in k if v), 0)
        if square <= reach * reach and not (periodic and first < 0):
            found += [(square, k, False)] + ([(square, k, True)] if periodic and square else [])
    return sorted(found)


def contract(config, w, beta, y, outputs):
    trunk, p = config["trunk"], config["p"]
    if trunk["kind"] == "mlp":
        tau = mlp(w, "trunk", y)
    else:
        own = fourier(trunk["frame"], p // outputs, y)
        blocks = np.kron(np.eye(outputs)[None], own[:, None, :])
        tau = np.concatenate([np.zeros((len(y), outputs, 1)), blocks], axis=2)
    tau = tau.reshape(len(y), outputs, p + 1)
    return tau[:, :, 0] + tau[:, :, 1:] @ beta


def vidon(config, w, x, u, y, outputs):
    positional = config["positional"]
    seen = x if positional["kind"] == "mlp" else fourier(positional["frame"], positional["functions"], x)
    place, value = mlp(w, "encode_coords", seen), mlp(w, "encode_values", u)
    psi = place + value if config["encoding"] == "sum" else place * value
    pooled = []
    for h in range(config["heads"]):
        logits = mlp(w, f"heads.{h}.weight", psi) / math.sqrt(config["d_enc"])
        shares = np.exp(logits - logits.max())
        pooled.append((shares / shares.sum() * mlp(w, f"heads.{h}.value", psi)).sum(axis=0))
    return contract(config, w, mlp(w, "combine", np.concatenate(pooled)), y, outputs)


def deeponet(config, w, x, u, y, outputs):
    return contract(config, w, mlp(w, "branch", u.ravel()), y, outputs)


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def fno(config, w, x, u, y, outputs):
    linear = lambda name, v: v @ w[f"{name}.weight"].T + w[f"{name}.bias"]
    n2 = int((x[:, 0] == x[0, 0]).sum())
    n1, m = len(x) // n2, config["modes"]
    v = linear("lift", np.hstack([u, x])).reshape(n1, n2, -1)
    # Half of an odd grid is rounded up.
    p1, p2 = (math.floor(config["padding"] * n + 0.5) for n in (n1, n2))
    v = np.pad(v, [(0, p1), (0, p2), (0, 0)])
    for i in range(config["layers"]):
        weight = w[f"layers.{i}.spectral"]
        weight = weight[..., 0] + 1j * weight[..., 1]
        spectrum = np.fft.rfft2(v, axes=(0, 1))
        kept = np.zeros(spectrum.shape[:2] + (weight.shape[4],), complex)
        for block, rows in [(0, slice(0, m)), (1, slice(-m, None))]:
            kept[rows, :m] = np.einsum("xyi,xyio->xyo", spectrum[rows, :m], weight[block])
        v = np.fft.irfft2(kept, s=v.shape[:2], axes=(0, 1)) + linear(f"layers.{i}.pointwise", v)
        v = gelu(v) if i + 1 < config["layers"] else v
    v = v[:n1, :n2].reshape(n1 * n2, -1)
    return linear("project.1", gelu(linear("project.0", v)))


if __name__ == "__main__":
    for name in ["vidon", "vidon_fourier", "deeponet", "fno"]:
        path = Path(sys.argv[1]) / name
        with safe_open(f"{path}.safetensors", "numpy") as file:
            config = json.loads(file.metadata()["vidon"])["model"]
            weights = {k: file.get_tensor(k).astype(np.float64) for k in file.keys()}
        worst = 0.0
        for s in read_dataset(f"{path}.parquet")[1]:
            s = {k: v.astype(np.float64) for k, v in s.items()}
            model = {"vidon": vidon, "deeponet": deeponet, "fno": fno}[config["name"]]
            found = model(config, weights, s["sensor_coords"], s["sensor_values"], s["query_coords"], 2)
            worst = max(worst, np.linalg.norm(found - s["targets"]) / np.linalg.norm(s["targets"]))
        print(f"{name:14s} differs by {worst:.1e} relative")
        assert worst <= 1e-5
