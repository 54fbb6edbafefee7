"""What a person wrote, as frozen records; a task turns them into encodings."""

from dataclasses import dataclass
from typing import NamedTuple

Label = str | int | float | bool  # a class as the data had it; everything else has its written form
# What tables say where a value is missing; as strings they may be classes too.
LOOK_MISSING = ("nan", "none", "null")


@dataclass(frozen=True, slots=True)
class Line:
    """One text, as it stands in a file or was given in a call."""

    text: str


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text, or a text and its second, with what is to be said of it."""

    text: str
    label: (
        str | float | tuple[str, ...] | None
    )  # a class, a number, several classes at once; None where none was given
    second: str | None = None


class Span(NamedTuple):
    """Characters of a text that have a name, the end not included."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """A text with named spans; where it was given as tokens, they are joined by one space and their places are kept."""

    text: str
    spans: tuple[Span, ...]
    tokens: tuple[tuple[int, int], ...] = ()


Example = Line | Labelled | Tagged
SHAPES = {False: "single texts", True: "pairs of texts"}  # by `is_pair`


def labels_of(example: Example) -> tuple[str, ...]:
    """The names that an example has: its class or classes, or those of its spans; a number is none."""
    if isinstance(example, Tagged):
        return tuple(span.label for span in example.spans)
    label = example.label if isinstance(example, Labelled) else None
    return label if isinstance(label, tuple) else (label,) if isinstance(label, str) else ()


def written(label: Label) -> str:
    """Return the written form of a class, by which labels of different types and files are matched: 1 for 1.0, true for True."""
    if isinstance(label, bool):
        return str(label).lower()
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def is_pair(example: Example) -> bool:
    """Whether it has a second text."""
    return isinstance(example, Labelled) and example.second is not None
