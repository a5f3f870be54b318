"""The same work as `vidon bench`, in PyTorch: pip install torch==2.15.0 numpy

    python vidon_torch.py branch|step|random|deeponet|fno|predict [--sensors 1089] [--rounds 3]

Prints the seconds of each round as JSON. Networks, sizes, batch and precision are those of the paper; tensors are padded to one
length, which is no loss here because all sets are equally large.
"""
import argparse
import json
import math
import time

import torch
from torch import nn

torch.manual_seed(0)
BATCH = 50


def mlp(*widths):
    layers = []
    for a, b in zip(widths[:-1], widths[1:]):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class Heads(nn.Module):
    """softmax-weighted means of 4 × (ω̃, ν̃) over each set: [sets, m, 40] to [sets, 4·64]"""

    def __init__(self, output=64):
        super().__init__()
        self.weights = nn.ModuleList(mlp(40, 128, 128, 128, 128, 1) for _ in range(4))
        self.values = nn.ModuleList(mlp(40, 128, 128, 128, 128, output) for _ in range(4))

    def forward(self, psi):
        out = []
        for weight, value in zip(self.weights, self.values):
            shares = torch.softmax(weight(psi) / math.sqrt(40), dim=1)
            out.append((shares * value(psi)).sum(1))
        return torch.cat(out, 1)


class Vidon(nn.Module):
    def __init__(self, output=64, p=100, width=250):
        super().__init__()
        self.coords, self.value = mlp(2, 40, 40, 40, 40), mlp(1, 40, 40, 40, 40)
        self.heads = Heads(output)
        self.combine = mlp(4 * output, 256, 256, 256, 256, p)
        self.trunk = mlp(2, width, width, width, width, p + 1)

    def forward(self, x, u, y):
        beta = self.combine(self.heads(self.coords(x) + self.value(u)))
        tau = self.trunk(y)
        if y.dim() == 2:
            return tau[:, 0] + beta @ tau[:, 1:].T
        return tau[..., 0] + torch.einsum("sp,sqp->sq", beta, tau[..., 1:])


class DeepOnet(nn.Module):
    def __init__(self, sensors, p=100, width=250):
        super().__init__()
        self.branch = mlp(sensors, width, width, width, width, p)
        self.trunk = mlp(2, width, width, width, width, p + 1)

    def forward(self, x, u, y):
        tau = self.trunk(y)
        return tau[:, 0] + self.branch(u.squeeze(2)) @ tau[:, 1:].T


class Fno(nn.Module):
    def __init__(self, n, padding, width=32, modes=12, layers=4):
        super().__init__()
        self.n, self.pad, self.modes = n, round(padding * n), modes
        self.lift = nn.Linear(3, width)
        scale = 1 / width**2
        shape = (2, width, width, modes, modes)
        self.spectral = nn.ParameterList(
            scale * torch.rand(*shape, dtype=torch.cfloat) for _ in range(layers)
        )
        self.point = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))
        self.project = nn.Sequential(nn.Linear(width, 128), nn.GELU(), nn.Linear(128, 1))

    def forward(self, x, u, y):
        n, m = self.n, self.modes
        h = self.lift(torch.cat([u, x], 2)).reshape(-1, n, n, self.lift.out_features)
        h = nn.functional.pad(h.permute(0, 3, 1, 2), [0, self.pad, 0, self.pad])
        for i, (spectral, point) in enumerate(zip(self.spectral, self.point)):
            f = torch.fft.rfft2(h)
            out = torch.zeros_like(f)
            out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, :m, :m], spectral[0])
            out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, -m:, :m], spectral[1])
            h = torch.fft.irfft2(out, s=h.shape[-2:]) + point(h)
            if i + 1 < len(self.spectral):
                h = nn.functional.gelu(h)
        h = h[..., :n, :n].permute(0, 2, 3, 1)
        return self.project(h).reshape(-1, n * n)


def timed(rounds, work):
    work()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what")
    parser.add_argument("--sensors", type=int, default=1089)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    m, what = options.sensors, options.what
    if what == "branch":
        heads, psi = Heads(), (2 * torch.rand(BATCH, m, 40) - 1).requires_grad_()

        def work():
            psi.grad = None
            heads.zero_grad()
            (heads(psi) ** 2).sum().backward()

    elif what == "predict":
        model = Vidon()
        axis = torch.linspace(0, 1, 65)
        grid = torch.cartesian_prod(axis, axis)
        x, u = torch.rand(1, m, 2), torch.rand(1, m, 1)

        def work():
            with torch.no_grad():
                model(x, u, grid)

    else:
        side = math.isqrt(m)
        axis = torch.linspace(0, 1, side)
        grid = torch.cartesian_prod(axis, axis)
        batch = 20 if what == "fno" else BATCH
        x, u = grid.expand(batch, m, 2), torch.rand(batch, m, 1)
        y, v = grid, torch.rand(batch, m)
        if what == "random":
            x = torch.rand(batch, m, 2)
            y = x
        model = {
            "step": lambda: Vidon(32 if m == 1089 else 64),
            "random": lambda: Vidon(32),
            "deeponet": lambda: DeepOnet(m),
            "fno": lambda: Fno(side, 0.5 if m == 1089 else 0.25),
        }[what]()
        adam = torch.optim.Adam(model.parameters(), 1e-4)

        def work():
            adam.zero_grad()
            ((model(x, u, y) - v) ** 2).mean().backward()
            adam.step()

    print(json.dumps(timed(options.rounds, work)))


if __name__ == "__main__":
    main()
