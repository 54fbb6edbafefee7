"""What the sides of pairs look like as a whole, for `check`: their lengths, and which is which."""

import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from firth.data.examples import Example, TextToText
from firth.reading.labels import Doubt, LabelSurvey

MOST_WORDS = 1_000  # of a side; more is no sentence
TIMES = 3.0  # as long, or as short, as the other side lets expect
SPARE = 20  # characters that short sides may differ by
FIRST_WORDS = 200_000  # that are counted before any side is judged
SURE = 3.0  # natural logarithms by which both sides are likelier the other way around
MOST_SWAPPED = 0.05  # of the rows; of more, the two sides are in one language


class _Row(NamedTuple):
    """The words of both sides of a row that isn't judged yet."""

    line: int
    sides: tuple[list[str], list[str]]


class PairSurvey(LabelSurvey):
    """Count the words of both sides, and find rows whose sides don't fit each other."""

    def __init__(self, path: object) -> None:
        super().__init__(path)
        self.words = (Counter[str](), Counter[str]())
        self.totals = [0, 0]
        self.rows = 0
        self._waiting: list[_Row] = []
        self._lines = array("Q")
        self._sizes = (array("Q"), array("Q"))  # characters of each side
        self._long: list[tuple[int, str]] = []
        self._swapped: list[int] = []

    def add(self, line: int, example: Example) -> None:
        """Take in a pair."""
        if not isinstance(example, TextToText):
            return
        sides = (_words(example.text), _words(example.target))
        self.rows += 1
        self._lines.append(line)
        for number, (name, text, words) in enumerate(
            zip(("source", "target"), example.texts, sides, strict=True)
        ):
            self._sizes[number].append(len(text))
            self.words[number].update(words)
            self.totals[number] += len(words)
            if len(words) > MOST_WORDS:
                self._long.append((line, f"has {len(words):,} words in its {name}"))
        self._waiting.append(_Row(line, sides))
        if sum(self.totals) >= FIRST_WORDS:
            self._judge_waiting()

    def facts(self) -> dict[str, Any]:
        """Return how many words each side has."""
        source, target = self.totals
        return {"source_words": source, "target_words": target}

    def summary(self) -> str:
        """Return how many words each side has, and how many different ones."""
        said = []
        for name, total, words in zip(("source", "target"), self.totals, self.words, strict=True):
            said.append(f"{name} {total:,} words ({len(words):,} different)")
        return ", " + ", ".join(said)

    def doubts(self, train: LabelSurvey | None) -> Iterator[Doubt]:
        """Yield sides that are too long, of very different lengths, or likely swapped."""
        for line, said in self._long:
            yield Doubt("warning", "long", line, said)
        yield from self._unlike()
        self._judge_waiting()
        if len(self._swapped) > MOST_SWAPPED * self.rows:
            said = "has sides of like words, as of one language: swapped ones can't be told"
            yield Doubt("note", "alike", None, said)
            return
        for line in self._swapped:
            said = "has sides that are likelier the other way around, by the words of the file"
            yield Doubt("warning", "swapped", line, said)

    def _unlike(self) -> Iterator[Doubt]:
        """Yield rows of which one side is far longer than the other lets expect."""
        sources, targets = self._sizes
        usual = max(1, sum(targets)) / max(1, sum(sources))
        for line, source, target in zip(self._lines, sources, targets, strict=True):
            expected = source * usual
            ratio = (target + SPARE) / (expected + SPARE)
            if not 1 / TIMES <= ratio <= TIMES:
                said = f"has {source:,} characters in its source and {target:,} in its target"
                yield Doubt("warning", "lengths", line, f"{said}, unlike other rows")

    def _judge_waiting(self) -> None:
        """Judge the rows that wait by the words counted so far."""
        self._swapped += [row.line for row in self._waiting if self._is_swapped(row.sides)]
        self._waiting.clear()

    def _is_swapped(self, sides: tuple[list[str], list[str]]) -> bool:
        """Return whether each side is likelier under the words of the other sides."""
        own = (Counter(sides[0]), Counter(sides[1]))
        gains = []
        for number, words in enumerate(sides):
            there = self._log_likelihood(words, 1 - number, Counter())
            here = self._log_likelihood(words, number, own[number])
            gains.append(there - here)
        return min(gains) > 0 and sum(gains) > SURE

    def _log_likelihood(self, words: Sequence[str], side: int, own: Counter[str]) -> float:
        """Return how likely words are on a side, without what the row itself adds to its counts."""
        counts = self.words[side]
        kinds = len(self.words[0]) + len(self.words[1])
        total = math.log(self.totals[side] - own.total() + kinds)
        return sum(math.log(counts[word] - own[word] + 1) - total for word in words)


def _words(text: str) -> list[str]:
    """Return the words of a side."""
    return text.lower().split()
