"""What the sides of pairs look like as a whole, for `check`: their lengths, and which is which."""

import math
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from firth.data.examples import Example, TextToText
from firth.reading.labels import Doubt, LabelSurvey

MOST_WORDS = 1_000  # of a side; more is no sentence
TIMES = 3.0  # as long, or as short, as the other side lets expect
SPARE = 20  # characters that short sides may differ by
FIRST_WORDS = 200_000  # that are counted before any side is judged
# How likely a file without a swapped row may be warned of one, at most.
RISK = 0.01
PRIOR = 0.5  # rows that a word is taken to stand in before any is counted (Jeffreys' prior)


class _Row(NamedTuple):
    """The different words of both sides of a row that isn't judged yet."""

    line: int
    sides: tuple[set[str], set[str]]


class _Turned(NamedTuple):
    """A row that is likelier the other way around, by so many natural logarithms."""

    line: int
    gain: float


class PairSurvey(LabelSurvey):
    """Count the words of both sides, and find rows whose sides don't fit each other."""

    def __init__(self, path: object) -> None:
        super().__init__(path)
        self.words = (Counter[str](), Counter[str]())  # in how many rows each word stands
        self.totals = [0, 0]
        self.rows = 0
        self._told = 0  # rows that are likelier one way around than the other
        self._turned = 0  # of those, rows that are likelier the other way around
        self._likely: list[_Turned] = []
        self._waiting: list[_Row] = []
        self._lines = array("Q")
        self._sizes = (array("Q"), array("Q"))  # characters of each side
        self._long: list[tuple[int, str]] = []

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
            self.words[number].update(set(words))
            self.totals[number] += len(words)
            if len(words) > MOST_WORDS:
                self._long.append((line, f"has {len(words):,} words in its {name}"))
        self._waiting.append(_Row(line, (set(sides[0]), set(sides[1]))))
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
        least = math.log(self.rows / RISK) if self.rows else 0.0
        swapped = [row.line for row in self._likely if row.gain > least]
        if swapped and not self._sides_differ():
            said = "has sides of like words, as of one language: swapped ones can't be told"
            yield Doubt("note", "alike", None, said)
            return
        for line in swapped:
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
        for row in self._waiting:
            gain = self._gain(row.sides)
            self._told += gain != 0
            self._turned += gain > 0
            if gain > -math.log(RISK):
                self._likely.append(_Turned(row.line, gain))
        self._waiting.clear()

    def _gain(self, sides: tuple[set[str], set[str]]) -> float:
        """Return the log-likelihood ratio of a row the other way around to the row as it is.

        By how many other rows have each word on either side: there are as many of both. A word that
        no other row has says nothing, nor does one that stands on both sides of the row.
        """
        gains = []
        for number, words in enumerate(sides):
            here, there = self.words[number], self.words[1 - number]
            for word in words - sides[1 - number]:
                others = here[word] - 1
                gains.append(math.log(there[word] + PRIOR) - math.log(others + PRIOR))
        return math.fsum(gains)  # the same in whatever order

    def _sides_differ(self) -> bool:
        """Return whether too few rows are likelier the other way around for it to be chance.

        A sign test, by Hoeffding's bound: of sides in one language half of them would be.
        """
        fewer = self._told / 2 - self._turned
        return fewer > 0 and 2 * fewer**2 / self._told > -math.log(RISK)


def _words(text: str) -> list[str]:
    """Return the words of a side."""
    return text.lower().split()
