"""A row of a file before it is understood: its line and its fields, or what is wrong with it."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

LONGEST_RECORD = 100_000_000  # characters; more is not a row but a mark that never closes


class Fault(Exception):
    """What is wrong with a row, as the end of a sentence that begins with its place.

    `below` is how many lines below its first the fault is.
    """

    def __init__(self, kind: str, said: str, below: int = 0) -> None:
        super().__init__(said)
        self.kind = kind
        self.said = said
        self.below = below

    def __reduce__(self) -> tuple[type["Fault"], tuple[str, str, int]]:
        return Fault, (self.kind, self.said, self.below)


class Record(NamedTuple):
    """A row and the line that it begins on."""

    line: int
    content: dict[str, Any] | Fault


class Numbered:
    """Lines that know their number, and of which the last can be given back."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._back: deque[str] = deque()
        self.number = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._back.popleft() if self._back else next(self._lines)
        self.number += 1
        return line

    def give_back(self, lines: list[str]) -> None:
        """Let these lines come again."""
        self._back.extendleft(reversed(lines))
        self.number -= len(lines)


def refuse_nul(text: str) -> None:
    """Refuse text with NUL, which no text has and which libraries take for its end."""
    if "\0" in text:
        raise Fault("nul", "has NUL bytes, which no text has")


def shortened(value: object, most: int = 40) -> str:
    """Return a value as it may stand in a sentence."""
    if isinstance(value, str | list):
        value = value[: most + 1]  # a long one isn't written out to be cut
    text = repr(value)
    if len(text) <= most + 2:
        return text
    return f"{text[:most]}…"


def on_a_line(text: str) -> str:
    """Return a text whose line breaks and other signs that don't print are written out."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def figure(value: float) -> str:
    """Return a number with four digits after the point, more where they would all be 0."""
    return f"{value:.4f}" if abs(value) >= 1e-3 or value == 0 else f"{value:.3g}"


def listed(values: Sequence[object], most: int = 8) -> str:
    """Return values as they may stand in a sentence, the first of many."""
    dots = " ..." if len(values) > most else ""
    return ", ".join(map(shortened, values[:most])) + dots
