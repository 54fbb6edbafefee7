"""What the labels of a file look like as a whole, for `check`: names, or numbers."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from firth.data.examples import LOOK_MISSING, Example, Label, Labelled
from firth.data.record import shortened
from firth.reading.spread import Spread

Level = Literal["error", "warning", "note"]
IMBALANCE = 10  # times as many rows of the largest class as of the smallest
MOST_LABELS = 8  # in a summary


class Met(NamedTuple):
    """A class as the data have it, and the line where it was met first."""

    value: Label
    line: int

    def agrees(self, value: Label) -> bool:
        """Return whether a value of the same written form is of the same type.

        1 and 1.0 are equal, 1 and "1" are not.
        """
        return isinstance(self.value, str) == isinstance(value, str)


class Doubt(NamedTuple):
    """Something that is or may be wrong with a file as a whole, or with the row on a line."""

    level: Level
    kind: str
    line: int | None
    said: str


class LabelSurvey:
    """Count the labels of one file; this one has none."""

    labels: Counter[str]
    several = False  # whether a label is a list of classes
    met: Mapping[str, Met] = {}  # classes with their types, where the file has types

    def __init__(self, path: object) -> None:
        self.path = path
        self.labels = Counter()

    def add(self, line: int, example: Example) -> None:
        """Count the labels of an example."""

    def facts(self) -> dict[str, Any]:
        """Return the figures by name."""
        return {}

    def summary(self) -> str:
        """Return the figures as they end a sentence."""
        return ""

    def misfits(self, train: "LabelSurvey | None") -> Iterator[str]:
        """Yield what would stop fine-tuning, though each row may be used."""
        yield from ()

    def doubts(self, train: "LabelSurvey | None") -> Iterator[Doubt]:
        """Yield what the labels of the whole file make one doubt."""
        yield from ()


class NameSurvey(LabelSurvey):
    """Count labels that are names: `what` has one, and `classes` should be of like size."""

    def __init__(self, path: object, what: str = "row", classes: bool = True) -> None:
        super().__init__(path)
        self.what = what
        self.classes = classes
        self.first: dict[str, int] = {}  # line of each label

    def add(self, line: int, example: Example) -> None:
        """Count the names of an example."""
        for label in example.names:
            self.labels[label] += 1
            self.first.setdefault(label, line)

    def facts(self) -> dict[str, Any]:
        """Return how often each label occurs, the most frequent first."""
        by_count = sorted(self.labels.items(), key=lambda item: (-item[1], item[0]))
        return {"labels": dict(by_count)}

    def summary(self) -> str:
        """Return how many labels there are, and how often the most frequent occur."""
        count = len(self.labels)
        parts = []
        for label, number in self.labels.most_common(MOST_LABELS):
            bare = shortened(label)[1:-1]  # without its quotes
            parts.append(f"{bare} {number:,}")
        if count > MOST_LABELS:
            parts.append("...")
        names = ", ".join(parts)
        plural = "" if count == 1 else "s"
        return f", {count:,} label{plural} ({names})"

    def misfits(self, train: LabelSurvey | None) -> Iterator[str]:
        """Yield that there are no labels, or none that `train` has, or some of another type."""
        if train is None:
            if not self.labels:
                yield "has no label in any row"
            return
        shared = self.labels.keys() & train.labels.keys()
        if self.several and not train.several:
            yield f"has lists of labels, where {train.path} has one class for each text"
        elif self.labels and train.labels and not shared:
            yield f"has none of the labels of {train.path}"
        yield from type_conflicts(train.path, train.met, self.met)

    def doubts(self, train: LabelSurvey | None) -> Iterator[Doubt]:
        """Yield labels that look misspelt, missing, unseen or rare; a line is the label's first."""
        spellings: dict[str, str] = {}  # the most frequent of those that differ by case or space
        for label, number in self.labels.most_common():
            alike = "".join(label.split()).casefold()
            usual = spellings.setdefault(alike, label)
            for kind, said in self._doubts_of(label, number, usual, train):
                yield Doubt("warning", kind, self.first[label], said)
        if train is None and self.labels and self.classes:
            yield from self._doubts_of_balance()

    def _doubts_of(
        self, label: str, number: int, usual: str, train: LabelSurvey | None
    ) -> Iterator[tuple[str, str]]:
        """Yield what one label makes one doubt; `usual` is how the file spells it most often."""
        shown = shortened(label)
        if usual != label:
            other = f"line {self.first[usual]} spells {shortened(usual)}"
            yield "spelling", f"spells {shown} what {other}"
        if self.classes and label.strip().lower() in LOOK_MISSING:
            said = f"has the first of {number:,} rows with the label {shown}"
            cure = f"--missing {label.strip()} leaves them out"
            yield "missing", f"{said}, which counts as a class; {cure}"
        if train is not None and label not in train.labels:
            yield "unseen", f"has the label {shown}, which {train.path} doesn't have"
        if train is None and number < 2:
            yield "rare", f"has the only {self.what} with the label {shown}"

    def _doubts_of_balance(self) -> Iterator[Doubt]:
        by_count = self.labels.most_common()
        most, many = by_count[0]
        least, few = by_count[-1]
        if len(by_count) == 1 and not self.several:
            said = f"has the only label there is, {shortened(most)}"
            yield Doubt("warning", "single", self.first[most], said)
        if many >= IMBALANCE * few:
            said = f"has the label {shortened(least)}, of {few:,} rows"
            said = f"{said}; {shortened(most)} has {many:,}"
            yield Doubt("warning", "imbalance", self.first[least], said)


class NumberSurvey(LabelSurvey):
    """Count labels that are numbers."""

    def __init__(self, path: object) -> None:
        super().__init__(path)
        self.numbers = Spread()

    def add(self, line: int, example: Example) -> None:
        """Take in the number of an example."""
        if isinstance(example, Labelled) and isinstance(example.label, float):
            self.numbers.add(example.label)

    def facts(self) -> dict[str, Any]:
        """Return the smallest and the largest."""
        numbers = self.numbers
        if not numbers.count:
            return {}
        return {"smallest": numbers.smallest, "largest": numbers.largest}

    def summary(self) -> str:
        """Return the range."""
        numbers = self.numbers
        if not numbers.count:
            return ""
        return f", numbers from {numbers.smallest:.12g} to {numbers.largest:.12g}"

    def doubts(self, train: LabelSurvey | None) -> Iterator[Doubt]:
        """Yield that all are the same, or that they can't be learned as they are."""
        numbers = self.numbers
        if not numbers.count:
            return
        if numbers.count > 1 and numbers.smallest == numbers.largest:
            said = f"has the number {numbers.smallest:g} in every row"
            yield Doubt("warning", "single", None, said)
        complaint = numbers.complaint()
        if complaint:
            yield Doubt("error", "numbers", None, f"has {complaint}")


def type_conflicts(
    train_path: object, train: Mapping[str, Met], dev: Mapping[str, Met]
) -> Iterator[str]:
    """Yield where a label is a text in one of two files and a number in the other."""
    for label, (value, line) in dev.items():
        met = train.get(label)
        if met is not None and not met.agrees(value):
            here = f"has the label {shortened(value)} in line {line}"
            there = f"{train_path}:{met.line} has {shortened(met.value)}"
            yield f"{here}, where {there}: write them alike"
