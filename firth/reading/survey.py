"""What is wrong with data, or may be, before anything is trained on it; texts are kept as sums, so that large files are fine."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from firth.data.examples import (
    LOOK_MISSING,
    SHAPES,
    Example,
    Labelled,
    Line,
    Tagged,
    is_pair,
    labels_of,
)
from firth.data.record import listed, shortened
from firth.reading.readers import UNLABELLED, Reading
from firth.reading.spread import Spread
from firth.text.repair import garbled
from firth.text.sentences import sentences

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")
MOST_FINDINGS = 1000  # of one kind that are kept; all are counted
IMBALANCE = 10  # times as many rows of the largest class as of the smallest


class Finding(NamedTuple):
    """One thing that was found; what is said begins with its place."""

    level: Level
    kind: str
    file: str
    line: int | None
    said: str

    def __str__(self) -> str:
        return f"{self.level}: {self.file}{f':{self.line}' if self.line else ''} {self.said}"


@dataclass
class Findings:
    """Everything that was found: each kind is counted in full and kept up to a limit."""

    counts: dict[Level, Counter[str]] = field(
        default_factory=lambda: {level: Counter() for level in LEVELS}
    )
    kept: list[Finding] = field(default_factory=list)

    def add(self, level: Level, kind: str, reading: Reading, line: int | None, said: str) -> None:
        """Count something, and keep it if there are not too many of its kind."""
        self.counts[level][kind] += 1
        if self.counts[level][kind] <= MOST_FINDINGS:
            self.kept.append(Finding(level, kind, str(reading.path), line, said))

    def total(self, level: Level) -> int:
        """How many of a level there are, kept or not."""
        return self.counts[level].total()


class First(NamedTuple):
    """Where a text was first, whether it was the same to the letter, and whether it had the same label."""

    number: int
    line: int
    exact: bool
    agrees: bool


class Texts:
    """Sums of the texts seen so far. Texts that differ only by white space are one text."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._lines, self._exact, self._labels = array("Q"), array("Q"), array("Q")
        self.torn: set[int] = set()  # numbers of the texts that have more than one label

    def first(self, example: Example) -> First | None:
        """Where the text of an example was seen, if it was."""
        number = self._numbers.get(_text_sum(example))
        if number is None:
            return None
        same = (
            self._exact[number] == _short_sum(_parts(example)),
            self._labels[number] == _short_sum(_said_of(example)),
        )
        return First(number, self._lines[number], *same)

    def add(self, example: Example, line: int) -> None:
        """Remember a text that was not seen before."""
        self._numbers[_text_sum(example)] = len(self._lines)
        self._lines.append(line)
        self._exact.append(_short_sum(_parts(example)))
        self._labels.append(_short_sum(_said_of(example)))


def _parts(example: Example) -> tuple[str, ...]:
    second = example.second if isinstance(example, Labelled) else None
    return (example.text,) if second is None else (example.text, second)


def _said_of(example: Example) -> Any:
    if isinstance(example, Tagged):
        return [(example.text[span.start : span.end], span.label) for span in example.spans]
    label = example.label if isinstance(example, Labelled) else None
    return sorted(label) if isinstance(label, tuple) else label


def _text_sum(example: Example) -> bytes:
    plain = "\0".join(" ".join(part.split()) for part in _parts(example))
    return blake2b(plain.encode(), digest_size=16).digest()


def _short_sum(value: Any) -> int:
    return int.from_bytes(blake2b(repr(value).encode(), digest_size=8).digest(), "little")


@dataclass
class Survey:
    """What was counted in one file."""

    reading: Reading
    texts: Texts = field(default_factory=Texts)
    labels: Counter[str] = field(default_factory=Counter)  # of rows, or of spans
    first: dict[str, int] = field(default_factory=dict)  # line of each label
    numbers: Spread = field(default_factory=Spread)  # where labels are numbers
    documents: int = 0
    sentences: int = 0
    shapes: set[bool] = field(default_factory=set)  # whether there are pairs, single texts, or both

    def facts(self) -> dict[str, Any]:
        """The figures by name."""
        counts, reading = self.reading.counts, self.reading
        found: dict[str, Any] = {
            "file": str(reading.path),
            "format": reading.kind,
            "task": reading.task,
        }
        found |= {
            "rows": counts.rows,
            "kept": counts.kept,
            "repaired": counts.repaired,
            "rejected": counts.rejected,
        }
        found["unlabelled"] = counts.unlabelled
        found["replaced"] = reading.report.replaced
        if reading.task is None:
            found |= {"documents": self.documents, "sentences": self.sentences}
        elif reading.task == "regress":
            found |= (
                {"smallest": self.numbers.smallest, "largest": self.numbers.largest}
                if self.numbers.count
                else {}
            )
        else:
            found["labels"] = dict(
                sorted(self.labels.items(), key=lambda item: (-item[1], item[0]))
            )
        return found


Watch = Callable[[int, Example], None]


def survey(
    reading: Reading, findings: Findings, train: Survey | None = None, watch: Watch | None = None
) -> Survey:
    """Go through a file once; `train` is what its texts are looked for in, and `watch` is shown every example."""
    found = Survey(reading)
    before = ""  # the line above, in plain text
    for row in reading:
        if row.fault:
            usable = (
                row.example is not None or row.fault.kind == UNLABELLED
            )  # training leaves such rows out
            findings.add(
                "warning" if usable else "error", row.fault.kind, reading, row.line, row.fault.said
            )
        if row.example is None:
            continue
        _count(found, row.line, row.example, starts=not before.strip())
        before = row.example.text if isinstance(row.example, Line) else ""
        for kind, said in _doubts(found, row.line, row.example, train):
            findings.add("warning", kind, reading, row.line, said)
        if watch:
            watch(row.line, row.example)
    _judge(found, findings, train)
    return found


def _judge(found: Survey, findings: Findings, train: Survey | None) -> None:
    """Add what is true of a file as a whole."""
    reading = found.reading
    if not reading.counts.rows:
        findings.add("error", "rows", reading, None, "holds no rows")
    if reading.counts.unlabelled and not reading.counts.usable:
        findings.add("error", "misfit", reading, None, "has no label in any row")
    for said in _misfits(found, train) if reading.counts.kept else ():
        findings.add("error", "misfit", reading, None, said)
    if reading.task in ("classify", "tag"):
        for line, kind, said in _doubts_of_labels(found, train):
            findings.add("warning", kind, reading, line, said)
    elif reading.task == "regress":
        for level, kind, said in _doubts_of_numbers(found.numbers):
            findings.add(level, kind, reading, None, said)
    elif (
        reading.columns
        and reading.task is None
        and set(reading.names) > {*reading.columns.text, *reading.columns.second}
    ):
        said = f"has no column that is known to be a label, among {listed(reading.names)}; name it with --label"
        findings.add("note", "unlabelled", reading, None, said)


def _count(found: Survey, line: int, example: Example, starts: bool) -> None:
    if isinstance(example, Labelled) and isinstance(example.label, float):
        found.numbers.add(example.label)
    found.shapes.add(is_pair(example))
    for label in labels_of(example):
        found.labels[label] += 1
        found.first.setdefault(label, line)
    if found.reading.task is None and example.text.strip():
        found.documents += starts
        found.sentences += len(sentences(example.text))


def _doubts(
    found: Survey, line: int, example: Example, train: Survey | None
) -> Iterator[tuple[str, str]]:
    """What a row makes one doubt: its text, or that text's other places."""
    parts = _parts(example)
    if not all(part.strip() for part in parts):
        if not isinstance(example, Line):  # in plain text an empty line parts documents
            yield "empty", "has an empty text"
        return
    marks = next(filter(None, map(garbled, parts)), None)
    if marks:
        yield "garbled", f"has {marks}, which looks like UTF-8 that was read as another encoding"
    if isinstance(example, Tagged) and any(
        _has_edge(example.text[span.start : span.end]) for span in example.spans
    ):
        yield "edge", "has a span that begins or ends with white space"
    first = found.texts.first(example)
    if first is None:
        found.texts.add(example, line)
    else:
        yield (
            "repeated",
            f"has the text of line {first.line}{'' if first.exact else ', but for white space'}",
        )
        if not first.agrees and first.number not in found.texts.torn:
            found.texts.torn.add(first.number)
            yield "conflict", f"has the text of line {first.line} and another label"
    leaked = train.texts.first(example) if train else None
    if train and leaked:
        yield "leak", f"has the text of {train.reading.path}:{leaked.line}"


def _misfits(found: Survey, train: Survey | None) -> Iterator[str]:
    """What would stop fine-tuning, though each row may be used."""
    if train is None:
        if found.reading.task in ("classify", "tag") and not found.labels:
            yield "has no label in any row"
        return
    if train.shapes and not found.shapes & train.shapes:
        ours, theirs = (SHAPES[next(iter(one.shapes))] for one in (found, train))
        yield f"has {ours}, where {train.reading.path} has {theirs}"
    if found.reading.several and not train.reading.several:
        yield f"has lists of labels, where {train.reading.path} has one class for each text"
    elif found.labels and train.labels and not found.labels.keys() & train.labels.keys():
        yield f"has none of the labels of {train.reading.path}"
    yield from type_conflicts(train.reading, found.reading)


def type_conflicts(train: Reading, dev: Reading) -> Iterator[str]:
    """Yield where a label is a text in one of two files and a number in the other, with its lines."""
    for label, (value, line) in dev.met.items():
        met = train.met.get(label)
        if met is not None and not met.agrees(value):
            place = f"{train.path}:{met.line} has {shortened(met.value)}"
            yield f"has the label {shortened(value)} in line {line}, where {place}: write them alike"


def _doubts_of_numbers(numbers: Spread) -> Iterator[tuple[Level, str, str]]:
    """What all the numbers together make one doubt."""
    if numbers.count > 1 and numbers.smallest == numbers.largest:
        yield "warning", "single", f"has the number {numbers.smallest:g} in every row"
    if complaint := numbers.complaint() if numbers.count else None:
        yield "error", "numbers", f"has {complaint}"


def _has_edge(text: str) -> bool:
    return text != text.strip()


def _doubts_of_labels(found: Survey, train: Survey | None) -> Iterator[tuple[int, str, str]]:
    """What the labels of a file make one doubt; a line is the first that has the label."""
    by_count = found.labels.most_common()
    what = "entity" if found.reading.task == "tag" else "row"
    spellings: dict[str, str] = {}
    for label, number in by_count:
        usual = spellings.setdefault("".join(label.split()).casefold(), label)
        if usual != label:
            said = f"spells {shortened(label)} what line {found.first[usual]} spells {shortened(usual)}"
            yield found.first[label], "spelling", said
        if label.strip().lower() in LOOK_MISSING and found.reading.task == "classify":
            said = f"has the first of {number:,} rows with the label {shortened(label)}, which counts as a class"
            yield (
                found.first[label],
                "missing",
                f"{said}; --missing {label.strip()} leaves them out",
            )
        if train is not None and label not in train.labels:
            yield (
                found.first[label],
                "unseen",
                f"has the label {shortened(label)}, which {train.reading.path} doesn't have",
            )
        if train is None and number < 2:
            yield (
                found.first[label],
                "rare",
                f"has the only {what} with the label {shortened(label)}",
            )
    if train is not None or not by_count:
        return
    (most, many), (least, few) = by_count[0], by_count[-1]
    if len(by_count) == 1 and found.reading.task == "classify" and not found.reading.several:
        yield found.first[most], "single", f"has the only label there is, {shortened(most)}"
    if found.reading.task == "classify" and many >= IMBALANCE * few:
        said = f"has the label {shortened(least)}, of {few:,} rows; {shortened(most)} has {many:,}"
        yield found.first[least], "imbalance", said
