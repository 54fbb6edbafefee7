"""Metrics of named spans by the rules of conlleval, the scorer of CoNLL-2000 and CoNLL-2003.

An entity counts if its first word, its last word and its type are right. Tags need not be well
formed: an I- after an O, or after another type, begins an entity, as in the scorer.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from firth.metrics.classes import LabelCounts
from firth.metrics.sums import Figures, Interval, Sums, Tally, ratio

# An entity of one word in IOBES and in BILOU; the scorer's brackets are of one word each.
ALONE = {"S", "U", "[", "]"}
BEGINS = {"B", *ALONE}
ENDS = {"E", "L", *ALONE}
OUTSIDE = {"O", "."}


class Entity(NamedTuple):
    """Words of a sentence, the last not included, and what they name."""

    start: int
    end: int
    type: str


def entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities that a sentence's tags stand for."""
    found: list[Entity] = []
    start: int | None = None  # of the entity that is open
    last_letter = "O"
    last_type = ""
    for place, tag in enumerate([*tags, "O"]):
        letter, _, kind = tag.partition("-")
        outside = letter in OUTSIDE
        goes_on = not outside and letter not in BEGINS
        goes_on = goes_on and last_letter not in ENDS and kind == last_type
        if start is not None and not goes_on:
            found.append(Entity(start, place, last_type))
            start = None
        if start is None and not outside:
            start = place
        last_letter = letter
        last_type = kind
    return found


class Entities(Tally):
    """Entities of sentences, over all types and for each."""

    def __init__(self, types: Sequence[str]) -> None:
        self.types = list(types)
        self.number = {name: number for number, name in enumerate(types)}
        self.sums = Sums(3 * len(types) + 2)

    def add(self, truth: Sequence[str], answer: Sequence[str]) -> None:
        """Count a sentence's tags; the two have the same number of words."""
        if len(truth) != len(answer):
            raise ValueError(f"{len(truth)} tags can't be compared with {len(answer)}")
        size = len(self.types)
        figures = np.zeros(3 * size + 2)
        true = set(entities(truth))
        predicted = set(entities(answer))
        for offset, group in ((0, true), (size, predicted), (2 * size, true & predicted)):
            for entity in group:
                figures[offset + self.number[entity.type]] += 1
        figures[-2] = sum(a == b for a, b in zip(truth, answer, strict=True))
        figures[-1] = len(truth)
        self.sums.add(figures)

    def score(self, sums: Figures) -> dict[str, Figures]:
        """Return precision, recall and F1 of entities, F1 of each type, and the tags' accuracy."""
        counts = LabelCounts.of(sums, len(self.types))
        right = counts.both.sum(-1)
        found = {
            "f1": counts.micro_f1(),
            "precision": ratio(right, counts.predicted.sum(-1)),
            "recall": ratio(right, counts.true.sum(-1)),
            "accuracy": ratio(sums[..., -2], sums[..., -1]),
        }
        each = counts.f1()
        for number, name in enumerate(self.types):
            found[f"f1 {name}"] = each[..., number]
        return found

    def scores(self) -> dict[str, Interval]:
        """Return each metric with its interval.

        Those of types that are neither true nor predicted anywhere are left out: of them nothing is
        known.
        """
        found = super().scores()
        counts = LabelCounts.of(self.sums.totals[0], len(self.types))
        occurs = counts.true + counts.predicted
        for name, times in zip(self.types, occurs, strict=True):
            if not times:
                del found[f"f1 {name}"]
        return found
