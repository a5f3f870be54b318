"""Writes stations.csv, new.csv and day.csv: a pollutant read at 40 to 90 stations on each day, and its amount six hours later.

The wind carries it over 100 km x 50 km and spreads it; the stations of each day stand elsewhere. Plain Python.
"""

import csv
import math
import random

WAVES = [(i, j) for i in range(5) for j in range(5)]
WIND, SPREAD = 8.0, 0.05


def amount(heights, x, y, spread):
    """A mean, and waves that fall off with their frequency."""
    total = 5.0
    for (i, j), height in zip(WAVES, heights):
        wave = math.cos(math.pi * i * x / 100) * math.cos(math.pi * j * y / 50)
        total += height * math.exp(-spread * (i * i + j * j)) * wave
    return total


def write(path, first, days):
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["day", "x", "y", "now", "later"])
        for day in range(first, first + days):
            rng = random.Random(day)
            heights = [rng.gauss(0, 1) / (1 + i * i + j * j) for i, j in WAVES]
            for _ in range(rng.randint(40, 90)):
                x, y = rng.uniform(0, 100), rng.uniform(0, 50)
                now = amount(heights, x, y, 0)
                later = amount(heights, abs(x - WIND), y, SPREAD)
                out.writerow([day] + [f"{v:.5g}" for v in (x, y, now, later)])


write("stations.csv", 0, 400)
write("new.csv", 400, 100)
write("day.csv", 400, 1)
