"""Makes up data with several groups of sensors, gaps, parameters and sources, to learn from with vidon.

    pip install numpy
    python3 examples/groups.py soil        # soil.csv, rain.csv, days.csv, later.csv, and the same names with new_: two groups and a parameter
    python3 examples/groups.py sources     # sources.npz, new_sources.npz: point sources, -Δu = f
    python3 examples/groups.py particles   # particles.csv, clouds.csv, and the same names with new_: samples of a density

docs/own-data.md says how to go on from there. Options: --samples N, --gaps SHARE (soil), --cubic C and --count LO:HI (sources).
"""

import argparse

import numpy as np


def cosines(n, x):
    """cos(πkx) for k < n, a row a point."""
    return np.cos(np.pi * np.outer(x, np.arange(n)))


def smooth(rng, waves, fall):
    """Heights of cosine waves in the plane, those of higher frequency smaller."""
    k = np.arange(waves)
    size = 1 / (1 + k[:, None] ** 2 + k[None, :] ** 2) ** (fall / 2)
    return rng.normal(size=(waves, waves)) * size


def at(heights, places):
    """A sum of cosine waves at places (n, 2) of the unit square."""
    n = len(heights)
    return np.einsum("pi,ij,pj->p", cosines(n, places[:, 0]), heights, cosines(n, places[:, 1]))


def table(path, header, rows):
    """A table with a line a reading; what is missing is an empty cell."""
    with open(path, "w") as file:
        file.write(header + "\n")
        for name, numbers in rows:
            for line in numbers:
                cells = ("" if np.isnan(v) else f"{v:.7g}" for v in line)
                file.write(f"{name}," + ",".join(cells) + "\n")


def soil(rng, samples, before, gaps):
    """Water in the soil after a day: 300 probes know water and leaves in the morning, 40 gauges elsewhere the rain, and the
    sun is a number a day.

        v_t = 0.01 Δv + rain - sun·leaves·v,   no water through the edges.
    """
    n, steps = 32, 40
    middle = (np.arange(n) + 0.5) / n
    c = cosines(n, middle)
    back = np.linalg.inv(c)
    k = np.pi * np.arange(n)
    spread = np.exp(-0.01 * (k[:, None] ** 2 + k[None, :] ** 2) / steps)
    probes, gauges, days, later = [], [], [], []
    for day in range(samples):
        water, leaves, rain = smooth(rng, 6, 2), smooth(rng, 4, 2), smooth(rng, 4, 2)
        water[0, 0] += 3
        rain[0, 0] += 3
        sun = rng.uniform(0.2, 1)
        field = lambda heights: c[:, : len(heights)] @ heights @ c[:, : len(heights)].T
        v, f, dry = field(water), field(rain), np.exp(-sun * np.exp(0.7 * field(leaves)) / (2 * steps))
        for _ in range(steps):
            # Half a step of drying, one of rain and spreading, half a step of drying.
            v = dry * v + f / steps
            v = dry * (c @ (spread * (back @ v @ back.T)) @ c.T)
        answer = back @ v @ back.T
        seen, asked = rng.uniform(size=(300, 2)), rng.uniform(size=(200, 2))
        readings = np.stack([at(water, seen), np.exp(0.7 * at(leaves, seen))], axis=1)
        readings[rng.uniform(size=300) < gaps, 0] = np.nan
        caught = rng.uniform(size=(40, 2))
        probes.append((day, np.hstack([seen, readings])))
        gauges.append((day, np.hstack([caught, at(rain, caught)[:, None]])))
        days.append((day, [[sun]]))
        later.append((day, np.hstack([asked, at(answer, asked)[:, None]])))
    table(f"{before}soil.csv", "day,x,y,water,leaves", probes)
    table(f"{before}rain.csv", "day,x,y,rain", gauges)
    table(f"{before}days.csv", "day,sun", days)
    table(f"{before}later.csv", "day,x,y,water_later", later)


def sources(rng, samples, before, count, cubic, sign):
    """-Δu + cubic·u³ = Σ_j q_j G(x - x_j) on the unit square, u = 0 on its boundary: G is a Gaussian of width 0.03, the
    strengths are ±[0.5, 1.5] (with sign, all positive)."""
    n, most, width = 63, count[1], 0.03
    axis = np.arange(1, n + 1) / (n + 1)
    s = np.sin(np.pi * np.outer(axis, np.arange(1, n + 1)))
    k = np.pi * np.arange(1, n + 1)
    laplace = k[:, None] ** 2 + k[None, :] ** 2
    forward = lambda f: s.T @ f @ s * (2 / (n + 1)) ** 2
    grid = np.linspace(0, 1, 64)
    shown = np.sin(np.pi * np.outer(grid, np.arange(1, n + 1)))
    places = np.zeros((samples, most, 2), np.float32)
    strengths = np.zeros((samples, most), np.float32)
    counts = rng.integers(count[0], most + 1, samples)
    targets = np.zeros((samples, 64 * 64), np.float32)
    for i, m in enumerate(counts):
        x, q = rng.uniform(0.1, 0.9, (m, 2)), rng.uniform(0.5, 1.5, m)
        if not sign:
            q *= rng.choice([-1, 1], m)
        bump = lambda x: np.exp(-((axis - x[:, None]) ** 2) / (2 * width**2)) / (np.sqrt(2 * np.pi) * width)
        f = forward(np.einsum("j,jx,jy->xy", q, bump(x[:, 0]), bump(x[:, 1])))
        u = f / laplace
        # The cubic term by Newton's method, each step by a few of conjugate gradients.
        for _ in range(20 if cubic else 0):
            values = s @ u @ s.T
            slope = 3 * cubic * values**2
            left = f - laplace * u - forward(cubic * values**3)
            if np.abs(left).max() < 1e-9 * np.abs(f).max():
                break
            apply = lambda d: laplace * d + forward(slope * (s @ d @ s.T))
            step, rest = np.zeros_like(u), left
            nudge = towards = rest / laplace
            for _ in range(30):
                turned = apply(towards)
                length = (rest * nudge).sum() / (towards * turned).sum()
                step, after = step + length * towards, rest - length * turned
                if np.abs(after).max() < 1e-10 * np.abs(left).max():
                    break
                ahead = after / laplace
                towards = ahead + (after * ahead).sum() / (rest * nudge).sum() * towards
                rest, nudge = after, ahead
            u = u + step
        places[i, :m], strengths[i, :m] = x, q
        targets[i] = (shown @ u @ shown.T).ravel()
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(1, -1, 2).astype(np.float32)
    np.savez(f"{before}sources.npz", sources_coords=places, sources_values=strengths, sources_counts=counts,
             target_coords=points, target_values=targets)


def particles(rng, samples, before):
    """A cloud of 100 to 400 particles, drawn from two heaps; what is wanted is how densely they lie after they have spread."""
    n, drawn, wanted = 16, [], []
    k = np.pi * np.arange(n)
    spread = np.exp(-0.005 * (k[:, None] ** 2 + k[None, :] ** 2))
    double = np.where(np.arange(n) > 0, 2.0, 1.0)
    for cloud in range(samples):
        m, share = rng.integers(100, 401), rng.uniform(0.2, 0.8)
        middle, width = rng.uniform(0.2, 0.8, (2, 2)), rng.uniform(0.05, 0.15, 2)
        heap = (rng.uniform(size=m) < share).astype(int)
        # Mirrored at the walls.
        x = np.abs(middle[heap] + width[heap, None] * rng.normal(size=(m, 2)))
        x = 1 - np.abs(1 - x)
        heights = np.outer(double, double) * spread * (cosines(n, x[:, 0]).T @ cosines(n, x[:, 1])) / m
        asked = rng.uniform(size=(200, 2))
        drawn.append((cloud, x))
        wanted.append((cloud, np.hstack([asked, m * at(heights, asked)[:, None]])))
    table(f"{before}particles.csv", "cloud,x,y", drawn)
    table(f"{before}clouds.csv", "cloud,x,y,density", wanted)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["soil", "sources", "particles"])
    parser.add_argument("--samples", type=int, default=2000, help="for training; a tenth of it is made besides, new")
    parser.add_argument("--gaps", type=float, default=0.0, help="the share of the water readings that are missing")
    parser.add_argument("--cubic", type=float, default=0.0, help="C in -Δu + C u³ = f")
    parser.add_argument("--count", default="3:20", help="fewest and most sources")
    parser.add_argument("--positive", action="store_true", help="all sources are positive")
    given = parser.parse_args()
    for before, seed, samples in [("", 0, given.samples), ("new_", 1, max(given.samples // 10, 1))]:
        rng = np.random.default_rng(seed)
        if given.kind == "soil":
            soil(rng, samples, before, given.gaps)
        elif given.kind == "sources":
            count = [int(v) for v in given.count.split(":")]
            sources(rng, samples, before, count, given.cubic, given.positive)
        else:
            particles(rng, samples, before)
