"""What is wrong with data, or may be, before anything is trained on it.

Texts are kept as hashes, so that large files are fine.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from firth.data.examples import SHAPES, Example, Line, Tagged, is_pair
from firth.data.record import listed
from firth.reading.labels import LabelSurvey, Level
from firth.reading.readers import Reading
from firth.reading.rowreader import UNLABELLED
from firth.reading.squad import identified
from firth.text.repair import garbled
from firth.text.sentences import sentence_spans

LEVELS: tuple[Level, ...] = ("error", "warning", "note")
MOST_FINDINGS = 1000  # of one kind that are kept; all are counted


class Finding(NamedTuple):
    """One thing that was found; what is said begins with its place."""

    level: Level
    kind: str
    file: str
    line: int | None
    said: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{self.level}: {place} {self.said}"


@dataclass
class Findings:
    """Everything that was found: each kind is counted in full and kept up to a limit."""

    counts: dict[Level, Counter[str]] = field(
        default_factory=lambda: {level: Counter() for level in LEVELS}
    )
    kept: list[Finding] = field(default_factory=list)

    def add(self, level: Level, kind: str, reading: Reading, line: int | None, said: str) -> None:
        """Count something, and keep it if there are not too many of its kind."""
        counts = self.counts[level]
        counts[kind] += 1
        if counts[kind] <= MOST_FINDINGS:
            finding = Finding(level, kind, str(reading.path), line, said)
            self.kept.append(finding)

    def total(self, level: Level) -> int:
        """Return how many of a level there are, kept or not."""
        return self.counts[level].total()


class First(NamedTuple):
    """Where a text was first, whether it was the same to the letter, and with the same label."""

    number: int
    line: int
    exact: bool
    agrees: bool


class TextHashes:
    """Hashes of the texts seen so far. Texts that differ only by white space are one text."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._lines = array("Q")
        self._exact = array("Q")
        self._annotations = array("Q")
        self.contradicted: set[int] = set()  # numbers of the texts with more than one label

    def first(self, example: Example) -> First | None:
        """Return where the text of an example was seen, if it was."""
        number = self._numbers.get(_text_hash(example))
        if number is None:
            return None
        exact = self._exact[number] == _short_hash(example.texts)
        agrees = self._annotations[number] == _short_hash(example.annotation)
        return First(number, self._lines[number], exact, agrees)

    def add(self, example: Example, line: int) -> None:
        """Remember a text that was not seen before."""
        self._numbers[_text_hash(example)] = len(self._lines)
        self._lines.append(line)
        self._exact.append(_short_hash(example.texts))
        self._annotations.append(_short_hash(example.annotation))


def _text_hash(example: Example) -> bytes:
    """Return a hash of an example's texts, less their white space."""
    texts = [" ".join(text.split()) for text in example.texts]
    plain = "\0".join(texts)
    return blake2b(plain.encode(), digest_size=16).digest()


def _short_hash(value: Any) -> int:
    """Return a hash that fits in an array of numbers."""
    digest = blake2b(repr(value).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@dataclass
class Survey:
    """What was counted in one file."""

    reading: Reading
    labels: LabelSurvey
    texts: TextHashes = field(default_factory=TextHashes)
    documents: int = 0
    sentences: int = 0
    shapes: set[bool] = field(default_factory=set)  # whether there are pairs, single texts, or both


Watch = Callable[[int, Example], None]


def survey(
    reading: Reading, findings: Findings, train: Survey | None = None, watch: Watch | None = None
) -> Survey:
    """Go through a file once; its texts are looked for in `train`, `watch` sees every example."""
    labels = reading.reader.survey(reading.path)
    found = Survey(reading, labels)
    before = ""  # the line above, in plain text
    for row in reading:
        example = row.example
        fault = row.fault
        if fault:
            # Training leaves such rows out.
            usable = example is not None or fault.kind == UNLABELLED
            level: Level = "warning" if usable else "error"
            findings.add(level, fault.kind, reading, row.line, fault.said)
        if example is None:
            continue

        _count(found, row.line, example, starts=not before.strip())
        before = ""
        if isinstance(example, Line):
            before = example.text
        which = identified(row.content or {}) if reading.kind == "squad" else ""
        for kind, said in _doubts(found, row.line, example, train):
            findings.add("warning", kind, reading, row.line, f"{said}{which}")
        if watch:
            watch(row.line, example)

    # What the reader knows once it has read all.
    labels.several = reading.reader.several
    labels.met = reading.reader.met
    _judge(found, findings, train)
    return found


def _judge(found: Survey, findings: Findings, train: Survey | None) -> None:
    """Add what is true of a file as a whole."""
    reading = found.reading
    counts = reading.counts
    if not counts.rows:
        findings.add("error", "rows", reading, None, "holds no rows")
    if counts.unlabelled and not counts.usable:
        findings.add("error", "misfit", reading, None, "has no label in any row")
    if counts.kept:
        for said in _misfits(found, train):
            findings.add("error", "misfit", reading, None, said)

    train_labels = train.labels if train else None
    for doubt in found.labels.doubts(train_labels):
        findings.add(doubt.level, doubt.kind, reading, doubt.line, doubt.said)
    columns = reading.columns
    if reading.task is None and columns is not None:
        texts = {*columns.text, *columns.second}
        if set(reading.names) > texts:
            said = f"has no column that is known to be a label, among {listed(reading.names)}"
            said = f"{said}; name it with --label"
            findings.add("note", "unlabelled", reading, None, said)


def _count(found: Survey, line: int, example: Example, starts: bool) -> None:
    found.labels.add(line, example)
    found.shapes.add(is_pair(example))
    if found.reading.task is None and example.text.strip():
        found.documents += starts
        found.sentences += len(sentence_spans(example.text))


def _doubts(
    found: Survey, line: int, example: Example, train: Survey | None
) -> Iterator[tuple[str, str]]:
    """Yield what a row makes one doubt: its text, or that text's other places."""
    if not all(text.strip() for text in example.texts):
        if not isinstance(example, Line):  # in plain text an empty line parts documents
            yield "empty", "has an empty text"
        return
    for text in example.texts:
        marks = garbled(text)
        if marks:
            said = f"has {marks}, which looks like UTF-8 that was read as another encoding"
            yield "garbled", said
            break
    if isinstance(example, Tagged) and _has_edge(example):
        yield "edge", "has a span that begins or ends with white space"
    yield from _repeats(found.texts, line, example)
    if train is not None:
        leaked = train.texts.first(example)
        if leaked is not None:
            yield "leak", f"has the text of {train.reading.path}:{leaked.line}"


def _repeats(texts: TextHashes, line: int, example: Example) -> Iterator[tuple[str, str]]:
    """Yield that a text was met before in its file; one that was not is remembered."""
    first = texts.first(example)
    if first is None:
        texts.add(example, line)
        return
    same = f"has the text of line {first.line}"
    if first.exact:
        yield "repeated", same
    else:
        yield "repeated", f"{same}, but for white space"
    if not first.agrees and first.number not in texts.contradicted:
        texts.contradicted.add(first.number)
        yield "conflict", f"{same} and another label"


def _has_edge(example: Tagged) -> bool:
    """Return whether a span begins or ends with white space."""
    quotes = (example.text[span.start : span.end] for span in example.spans)
    return any(quote != quote.strip() for quote in quotes)


def _misfits(found: Survey, train: Survey | None) -> Iterator[str]:
    """Yield what would stop fine-tuning, though each row may be used."""
    if train is None:
        yield from found.labels.misfits(None)
        return
    if train.shapes and not found.shapes & train.shapes:
        ours = SHAPES[next(iter(found.shapes))]
        theirs = SHAPES[next(iter(train.shapes))]
        yield f"has {ours}, where {train.reading.path} has {theirs}"
    yield from found.labels.misfits(train.labels)
