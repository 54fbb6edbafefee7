"""Randomness as a function: the same keys give the same draws, whatever was drawn before and wherever."""

from enum import IntEnum

import numpy as np


class Purpose(IntEnum):
    """What is drawn; two purposes with the same other keys have nothing in common."""

    WEIGHTS = 0
    ORDER = 1
    PAIR = 2
    STRANGER = 3
    DROPOUT = 4
    CLOZE = 5
    RESAMPLE = 6
    SPLIT = 7
    RANKS = 8
    WRITE = 9


def _sequence(purpose: Purpose, keys: tuple[int, ...]) -> np.random.SeedSequence:
    return np.random.SeedSequence([int(purpose), *keys])


def generator(purpose: Purpose, *keys: int) -> np.random.Generator:
    """A generator of its own for (purpose, keys)."""
    return np.random.Generator(np.random.Philox(_sequence(purpose, keys)))


def number(purpose: Purpose, *keys: int) -> int:
    """One number below 2^63 for (purpose, keys), to seed another library with."""
    return int(_sequence(purpose, keys).generate_state(1, np.uint64)[0] >> 1)
