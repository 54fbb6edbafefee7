"""Scores of named spans by the rules of conlleval, the scorer of CoNLL-2000 and CoNLL-2003.

An entity counts if its first word, its last word and its type are right. Tags need not be well formed: an I- after an O, or after
another type, begins an entity, as in the scorer.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from firth.metrics.sums import Figures, Interval, Sums, Tally, ratio

ALONE = {
    "S",
    "U",
    "[",
    "]",
}  # an entity of one word in IOBES and in BILOU; the scorer's brackets are of one word each
BEGINS, LASTS = {"B", *ALONE}, {"E", "L", *ALONE}


class Entity(NamedTuple):
    """Words of a sentence, the last not included, and what they name."""

    start: int
    end: int
    type: str


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities that a sentence's tags say."""
    found: list[Entity] = []
    start = -1  # of the entity that is open
    before, kind_before = "O", ""
    for place, tag in enumerate([*tags, "O"]):
        letter, _, kind = tag.partition("-")
        outside = letter in ("O", ".")
        if start >= 0 and (outside or letter in BEGINS or before in LASTS or kind != kind_before):
            found.append(Entity(start, place, kind_before))
            start = -1
        if not outside and start < 0:
            start = place
        before, kind_before = letter, kind
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
        true, said = set(entities(truth)), set(entities(answer))
        for offset, group in ((0, true), (size, said), (2 * size, true & said)):
            for entity in group:
                figures[offset + self.number[entity.type]] += 1
        figures[-2] = sum(a == b for a, b in zip(truth, answer, strict=True))
        figures[-1] = len(truth)
        self.sums.add(figures)

    def score(self, sums: Figures) -> dict[str, Figures]:
        """Precision, recall and F1 of entities, F1 of each type, and the share of words with the right tag."""
        size = len(self.types)
        true, said, both = (
            sums[..., :size],
            sums[..., size : 2 * size],
            sums[..., 2 * size : 3 * size],
        )
        whole = {
            "f1": ratio(2 * both.sum(-1), true.sum(-1) + said.sum(-1)),
            "precision": ratio(both.sum(-1), said.sum(-1)),
            "recall": ratio(both.sum(-1), true.sum(-1)),
            "accuracy": ratio(sums[..., -2], sums[..., -1]),
        }
        each = ratio(2 * both, true + said)
        return whole | {f"f1 {name}": each[..., number] for number, name in enumerate(self.types)}

    def scores(self) -> dict[str, Interval]:
        """All but those of types that occur nowhere, neither true nor said: of them nothing is known."""
        counts = self.sums.totals[0, : 2 * len(self.types)].reshape(2, -1).sum(0)
        absent = {f"f1 {name}" for name, count in zip(self.types, counts, strict=True) if not count}
        return {name: interval for name, interval in super().scores().items() if name not in absent}
