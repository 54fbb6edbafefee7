"""Sinusoids as positions: the paper's order and that of its first program."""

import math

import numpy as np

from firth.base.errors import InputError
from firth.nn.position import sinusoids
from firth.output.page import as_array
from firth.pages.textbook import NumberSheet, sheets_section
from firth.predictor import Predictor
from firth.textbook.drawing import Drawing, PrintedNumber

POSITIONS = 20
WIDTH = 512
SHORTEST = "6.2832"  # 2 pi
LONGEST = "62832"  # 10,000 times that
SAME = 1e-5  # a table that is no further from the formula's is made by it


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


def draw_own_positions(predictor: Predictor, name: str) -> Drawing:
    """Draw the first positions of a model, and say whether they are sinusoids."""
    bundle = predictor.bundle
    model = bundle.translator if bundle.record.is_encoder_decoder else bundle.encoder
    if model.position_table is None:
        raise InputError(f"{name} has no vectors of positions")
    table = as_array(model.position_table[:POSITIONS])
    count, width = table.shape
    lengths = np.linalg.norm(table.astype(np.float64), axis=1, keepdims=True)
    unit = table / np.where(lengths == 0, 1, lengths)
    rows = [f"position {number}" for number in range(count)]
    columns = [f"number {number}" for number in range(width)]
    sheets = [
        NumberSheet("Its own table", "Blue is above 0, orange below.", rows, columns, table),
        NumberSheet("Cosine of two positions", "1 is the same.", rows, rows, unit @ unit.T),
    ]
    numbers = []
    notes = ["The table is none of the formula's: it was learned, or has another beginning."]
    for order, interleaved in (("interleaved", True), ("in halves", False)):
        apart = float(np.abs(table - sinusoids(count, width, interleaved).numpy()).max())
        numbers.append(PrintedNumber(f"the largest difference from sinusoids {order}", apart))
        if apart < SAME:
            notes = [f"The table is the formula's, {order}: nothing of it was learned."]
    return Drawing([sheets_section(f"{count} positions, {width} numbers", sheets)], numbers, notes)
