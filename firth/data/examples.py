"""What a person wrote, as frozen records; a task turns them into encodings."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

Label = str | int | float | bool  # a class as the data had it; everything else has its written form
# What tables say where a value is missing; as strings they may be classes too.
LOOK_MISSING = ("nan", "none", "null")
SHAPES = {False: "single texts", True: "pairs of texts"}  # by `is_pair`


class Example:
    """A text, with or without a second one, and what a person said of it.

    A task whose examples hold something else has a subclass of its own.
    """

    __slots__ = ()
    text: str

    @property
    def second(self) -> str | None:
        """The second text of a pair, which most examples have none of."""
        return None

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts, in order."""
        return (self.text,) if self.second is None else (self.text, self.second)

    @property
    def known_by(self) -> tuple[str, ...]:
        """The texts that are on one side of a split: whoever learned from them has seen it."""
        return self.texts

    @property
    def pairs(self) -> tuple[tuple[str, str | None], ...]:
        """What a model reads of it: each text with its second, where it has one."""
        return ((self.text, self.second),)

    @property
    def names(self) -> tuple[str, ...]:
        """The labels that are names: a class or classes, or those of spans; a number is none."""
        return ()

    @property
    def stratum(self) -> Hashable:
        """What a split keeps in the same proportion on both sides; None where there is no such."""
        return None

    @property
    def annotation(self) -> Any:
        """What was said of the text, to tell whether two rows with one text agree."""
        return None


@dataclass(frozen=True, slots=True)
class Line(Example):
    """One text, as it stands in a file or was given in a call."""

    text: str


@dataclass(frozen=True, slots=True)
class Labelled(Example):
    """A text, or a text and its second, with what is to be said of it."""

    text: str
    label: str | float | tuple[str, ...] | None  # a class, a number, several classes; None for none
    second: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The class or classes."""
        if isinstance(self.label, tuple):
            return self.label
        return (self.label,) if isinstance(self.label, str) else ()

    @property
    def stratum(self) -> Hashable:
        """The class; a number and several classes at once have none."""
        return self.label if isinstance(self.label, str) else None

    @property
    def annotation(self) -> Any:
        """The label; of several, in an order of their own."""
        return sorted(self.label) if isinstance(self.label, tuple) else self.label


class Span(NamedTuple):
    """Characters of a text that have a name, the end not included."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class Tagged(Example):
    """A text with named spans.

    Where it was given as tokens, they are joined by one space and their offsets are kept.
    """

    text: str
    spans: tuple[Span, ...]
    tokens: tuple[tuple[int, int], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the spans."""
        return tuple(span.label for span in self.spans)

    @property
    def annotation(self) -> Any:
        """The words and the name of each span."""
        return [(self.text[span.start : span.end], span.label) for span in self.spans]


@dataclass(frozen=True, slots=True)
class Candidates(Example):
    """Texts of which one is right, after a context that is read before each."""

    text: str  # the context, which may be empty
    candidates: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The context and the candidates."""
        return (self.text, *self.candidates)


@dataclass(frozen=True, slots=True)
class ScoredCandidates(Candidates):
    """Texts of which one is right, with the log-probabilities that their proposer gives them."""

    scores: tuple[float, ...]


class GoldAnswer(NamedTuple):
    """An answer as a person marked it: its text and its first character in the context."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """The character behind its last."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Question(Example):
    """A question, and a context that holds its answer; no answers where it holds none."""

    text: str  # the question
    context: str
    answers: tuple[GoldAnswer, ...]

    @property
    def second(self) -> str:
        """The context, in which the answer is looked for."""
        return self.context

    @property
    def stratum(self) -> Hashable:
        """Whether the context holds an answer."""
        return bool(self.answers)

    @property
    def annotation(self) -> Any:
        """The answers, in an order of their own."""
        return sorted(set(self.answers))


@dataclass(frozen=True, slots=True)
class TextToText(Example):
    """A source text and the target text that a model is to make of it."""

    text: str
    target: str

    @property
    def texts(self) -> tuple[str, ...]:
        """The source and the target."""
        return (self.text, self.target)

    @property
    def known_by(self) -> tuple[str, ...]:
        """The source: another translation of a text that was learned from is no new text."""
        return (self.text,)

    @property
    def annotation(self) -> Any:
        """The target."""
        return self.target


def written(label: Label) -> str:
    """Return the written form of a class, by which labels of different types and files are matched.

    It is 1 for 1.0, and true for True.
    """
    if isinstance(label, bool):
        return str(label).lower()
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)


def is_pair(example: Example) -> bool:
    """Return whether a model reads pairs of texts of an example."""
    return any(second is not None for _, second in example.pairs)
