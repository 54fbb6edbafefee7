"""Randomness as a function: the same keys give the same draws, whatever was drawn before."""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What is drawn; two purposes with the same other keys have nothing in common.

    The numbers are a part of every seed: a run that is resumed counts on them.
    """

    WEIGHTS = 0
    ORDER = 1
    PAIR = 2
    RANDOM_NEXT = 3
    DROPOUT = 4
    CLOZE = 5
    RESAMPLE = 6
    SPLIT = 7
    RANKS = 8
    WRITE = 9
    WINDOW = 10
    NOISE = 11
    CELLS = 12
    SPANS = 13


def _sequence(purpose: Purpose, keys: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence([int(purpose), *keys])


def generator(purpose: Purpose, *keys: int) -> np.random.Generator:
    """Return the random generator of (purpose, keys)."""
    return np.random.Generator(np.random.Philox(_sequence(purpose, keys)))


def number(purpose: Purpose, *keys: int) -> int:
    """Return the seed of (purpose, keys) for another library, a number below 2^63."""
    (state,) = _sequence(purpose, keys).generate_state(1, np.uint64)
    return int(state >> 1)
