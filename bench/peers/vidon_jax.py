"""The same VIDON training step as `vidon bench`, in JAX: pip install "jax[cpu]==0.10.2"

    python vidon_jax.py step|random|branch [--sensors 1089] [--rounds 3]
"""
import argparse
import json
import math
import time

import jax
import jax.numpy as jnp

BATCH = 50


def init(key, *widths):
    keys = jax.random.split(key, len(widths) - 1)
    pairs = zip(widths[:-1], widths[1:])
    return [(jax.random.normal(k, (a, b)) / math.sqrt(a), jnp.zeros(b)) for k, (a, b) in zip(keys, pairs)]


def mlp(layers, x):
    for w, b in layers[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = layers[-1]
    return x @ w + b


def heads(params, psi):
    out = []
    for weight, value in params:
        shares = jax.nn.softmax(mlp(weight, psi) / math.sqrt(40), axis=1)
        out.append((shares * mlp(value, psi)).sum(1))
    return jnp.concatenate(out, 1)


def vidon(params, x, u, y):
    psi = mlp(params["coords"], x) + mlp(params["value"], u)
    beta = mlp(params["combine"], heads(params["heads"], psi))
    tau = mlp(params["trunk"], y)
    if y.ndim == 2:
        return tau[:, 0] + beta @ tau[:, 1:].T
    return tau[..., 0] + jnp.einsum("sp,sqp->sq", beta, tau[..., 1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what")
    parser.add_argument("--sensors", type=int, default=1089)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    m, key = options.sensors, jax.random.PRNGKey(0)
    output = 32 if m == 1089 and options.what != "branch" else 64
    pair = lambda: (init(key, 40, 128, 128, 128, 128, 1), init(key, 40, 128, 128, 128, 128, output))
    params = {
        "coords": init(key, 2, 40, 40, 40, 40),
        "value": init(key, 1, 40, 40, 40, 40),
        "heads": [pair() for _ in range(4)],
        "combine": init(key, 4 * output, 256, 256, 256, 256, 100),
        "trunk": init(key, 2, 250, 250, 250, 250, 101),
    }
    if options.what == "branch":
        psi = jax.random.uniform(key, (BATCH, m, 40))
        gradient = jax.jit(jax.grad(lambda h, psi: (heads(h, psi) ** 2).sum(), argnums=(0, 1)))
        work = lambda: jax.block_until_ready(gradient(params["heads"], psi))
    else:
        side = math.isqrt(m)
        axis = jnp.linspace(0, 1, side)
        grid = jnp.stack(jnp.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
        random = options.what == "random"
        x = jax.random.uniform(key, (BATCH, m, 2)) if random else jnp.broadcast_to(grid, (BATCH, m, 2))
        y = x if random else grid
        u, v = jax.random.uniform(key, (BATCH, m, 1)), jax.random.uniform(key, (BATCH, m))
        loss = lambda p: ((vidon(p, x, u, y) - v) ** 2).mean()

        @jax.jit
        def step(p, first, second):
            tree = jax.tree_util.tree_map
            g = jax.grad(loss)(p)
            first = tree(lambda m, g: 0.9 * m + 0.1 * g, first, g)
            second = tree(lambda s, g: 0.999 * s + 0.001 * g * g, second, g)
            p = tree(lambda p, m, s: p - 1e-4 * m / (jnp.sqrt(s) + 1e-8), p, first, second)
            return p, first, second

        zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
        state = [params, zeros, zeros]

        def work():
            state[:] = jax.block_until_ready(step(*state))

    work()
    seconds = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
