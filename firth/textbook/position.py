"""Sinusoids as positions: the paper's order and that of its first program."""

import math

import numpy as np

from firth.nn.position import sinusoids
from firth.pages.textbook import NumberSheet, sheets_section
from firth.textbook.drawing import Drawing, PrintedNumber

POSITIONS = 20
WIDTH = 512
SHORTEST = "6.2832"  # 2 pi
LONGEST = "62832"  # 10,000 times that


def draw_sinusoids() -> Drawing:
    """Draw 20 positions of 512 numbers in both orders."""
    interleaved = sinusoids(POSITIONS, WIDTH).numpy()
    halves = sinusoids(POSITIONS, WIDTH, interleaved=False).numpy()
    rows = [f"position {number}" for number in range(POSITIONS)]
    columns = [f"number {number}" for number in range(WIDTH)]
    products = interleaved.astype(np.float64) @ interleaved.T / (WIDTH / 2)
    sheets = [
        NumberSheet(
            "Interleaved", "Sine, cosine, sine, cosine: the paper's.", rows, columns, interleaved
        ),
        NumberSheet("In halves", "256 sines, then 256 cosines.", rows, columns, halves),
        NumberSheet("Cosine of two positions", "The nearer, the more alike.", rows, rows, products),
    ]
    # Position 1 has the sine of one step of each wave.
    steps = np.arcsin(interleaved[1, 0::2].astype(np.float64))
    waves = 2 * math.pi / steps
    numbers = [
        PrintedNumber("the shortest wave, in positions", float(waves[0]), SHORTEST),
        PrintedNumber("the longest wave", float(waves[-1]), LONGEST),
    ]
    other = halves.astype(np.float64) @ halves.T / (WIDTH / 2)
    apart = float(np.abs(products - other).max())
    notes = [
        "The paper's formula interleaves; the picture with a seam down its middle, which books "
        "print beside that formula, is of the order in halves, that of the authors' program.",
        f"To a model the orders are alike: the products of two positions differ by {apart:.0e}.",
        "Waves are said to reach from 2π to 10,000 · 2π. The last has the exponent 510/512 and not "
        f"1, and is {waves[-1]:,.0f} positions long.",
    ]
    return Drawing([sheets_section("20 positions, 512 numbers", sheets)], numbers, notes)
