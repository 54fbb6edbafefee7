"""How often a map between two models finds the translation of a word."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from firth.folders.wordmap import By, WordMap
from firth.metrics.classes import exact_share
from firth.metrics.sums import Interval
from firth.probes.words import WordTable

AMONG = (1, 5)


class Precision(NamedTuple):
    """The share of words of which a translation is the nearest, or among the nearest five."""

    at_1: Interval
    at_5: Interval


def precision(
    made: WordMap, by: By, source: WordTable, target: WordTable, asked: Mapping[str, Sequence[int]]
) -> Precision:
    """Measure a map on words with the rows of their translations; `target` is centred."""
    words = list(asked)
    mapped = made.apply(torch.stack([source.unit(word) for word in words]), by)
    nearest = target.nearest_rows(mapped, [()] * len(words), max(AMONG))
    shares = []
    for count in AMONG:
        right = 0
        for word, rows in zip(words, nearest, strict=True):
            right += any(row in asked[word] for row in rows[:count])
        shares.append(exact_share(right, len(words)))
    return Precision(*shares)


def by_chance(asked: Mapping[str, Sequence[int]], words: int) -> tuple[float, float]:
    """Return the same shares for draws from all words."""
    found = []
    for count in AMONG:
        missed = 0.0
        for rows in asked.values():
            miss = 1.0
            for drawn in range(min(count, words)):
                miss *= max(0, words - len(rows) - drawn) / (words - drawn)
            missed += miss
        found.append(1 - missed / len(asked))
    at_1, at_5 = found
    return at_1, at_5
