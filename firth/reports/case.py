"""An example as a page shows it: texts with their spans, what is true and what was predicted."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

LONGEST = 2000  # characters of a text that are shown
BEFORE = 300  # of these, before the first wrong span
LONGEST_NAME = 200  # characters of a label, or of an answer
Cell = tuple[str | None, str | None]  # a row and a column of a table by their names
# Of a span: it was predicted and is true, is only true, or was only predicted.
SpanKind = Literal["right", "true", "predicted"]


class SpanMark(NamedTuple):
    """A span of a text that is marked."""

    start: int
    end: int
    kind: SpanKind
    label: str = ""


class Piece(NamedTuple):
    """Characters of a text that are in the same spans, and the spans that end behind them."""

    text: str
    kinds: list[SpanKind]
    ending: list[tuple[SpanKind, str]]


class Passage(NamedTuple):
    """A text in pieces; of a long one a part, with how many characters are left out around it."""

    name: str  # what it is, where an example has several texts
    pieces: list[Piece]
    before: int
    after: int

    @property
    def size(self) -> int:
        """The number of characters that are shown."""
        return sum(len(piece.text) for piece in self.pieces)


class Bar(NamedTuple):
    """A probability with its name."""

    name: str
    value: float
    is_true: bool
    is_predicted: bool


class Case(NamedTuple):
    """An example with its answer."""

    line: int  # of the file
    right: bool
    badness: float  # the worst stand first
    cells: tuple[Cell, ...]  # in which cells of the page's table it is counted
    passages: tuple[Passage, ...]
    truth: str
    predicted: str
    bars: tuple[Bar, ...] = ()
    notes: tuple[str, ...] = ()
    point: tuple[float, float] | None = None  # of numbers: the true one and the predicted one

    @property
    def size(self) -> int:
        """The number of characters of its texts and names."""
        texts = sum(passage.size for passage in self.passages)
        return texts + sum(len(bar.name) for bar in self.bars)


def passage(
    text: str, name: str = "", marks: Sequence[SpanMark] = (), most: int = LONGEST
) -> Passage:
    """Return a text with its spans; of a long one the part around the first that is wrong."""
    first = 0
    if len(text) > most and marks:
        wrong = [mark.start for mark in marks if mark.kind != "right"]
        wanted = min(wrong or [mark.start for mark in marks]) - BEFORE
        first = max(0, min(wanted, len(text) - most))
    last = min(len(text), first + most)
    inside = [mark for mark in marks if mark.start < last and mark.end > first]
    edges = {first, last}
    for mark in inside:
        edges |= {max(first, mark.start), min(last, mark.end)}
    ordered = sorted(edges)
    pieces = []
    for start, end in pairwise(ordered):
        kinds = [mark.kind for mark in inside if mark.start <= start and mark.end >= end]
        ending = [(mark.kind, mark.label) for mark in inside if min(mark.end, last) == end]
        pieces.append(Piece(text[start:end], sorted(set(kinds)), ending))
    return Passage(name, pieces, first, len(text) - last)


def clipped(name: str) -> str:
    """Return a label or an answer, of a long one its beginning."""
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def unread(truncated: int) -> tuple[str, ...]:
    """Return what is said of an example of which the model didn't read so many tokens."""
    return (f"{truncated:,} tokens were not read",) if truncated else ()
