"""Files of examples as a stream: every row is kept, repaired, or rejected for a reason, and counted."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from firth.base.errors import InputError
from firth.data.examples import LOOK_MISSING, Example, Label, Labelled, Line, Tagged, written
from firth.data.record import Fault, Record, refuse_nul, shortened
from firth.reading.columns import Columns, Named, Task, find_columns, find_trained
from firth.reading.conll import Scheme, scheme_of, spans_of
from firth.reading.format import Kind, Opened, open_records
from firth.reading.spans import read_spans
from firth.text.lines import Report
from firth.text.repair import REPLACEMENT, repair

MOST_ROWS = 1000  # of the head, by which columns, task and scheme of tags are told
MOST_CHARACTERS = 1 << 22
UNLABELLED = (
    "unlabelled"  # the kind of fault of a row that is sound but for its label, which is missing
)
TYPED = ("jsonl", "json", "parquet")  # files in which 0 and "0" are two things


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a file: an example, an example that had to be repaired, or only what is wrong."""

    line: int  # of the fault, where there is one
    example: Example | None
    fault: Fault | None = None
    content: dict[str, Any] | None = None  # the row's fields as they were written


class Met(NamedTuple):
    """A class as the data have it, and the line where it was met first."""

    value: Label
    line: int

    def agrees(self, value: Label) -> bool:
        """Return whether a value of the same written form is of the same type; 1 and 1.0 are equal, 1 and "1" are not."""
        return isinstance(self.value, str) == isinstance(value, str)


@dataclass
class Counts:
    """What became of the rows read so far."""

    kept: int = 0
    repaired: int = 0
    rejected: int = 0
    unlabelled: int = 0

    @property
    def rows(self) -> int:
        """All of them."""
        return self.kept + self.repaired + self.rejected + self.unlabelled

    @property
    def usable(self) -> int:
        """Those that became examples."""
        return self.kept + self.repaired

    def add(self, row: Row) -> None:
        """Count a row."""
        self.kept += row.fault is None
        self.repaired += row.fault is not None and row.example is not None
        unlabelled = row.fault is not None and row.fault.kind == UNLABELLED
        self.unlabelled += unlabelled
        self.rejected += row.example is None and not unlabelled


class Reading:
    """A file of examples; each time it is gone through, it is read anew and `counts` and `report` tell of that time.

    Without `labels` only texts are read: a row with no label, or with a wrong one, is as good as any. `missing` are words that
    stand for no label. Of classes, `met` has the type that each has in the file. `said` is what kind of file it is, whatever it
    looks like. `trained` are the columns to take if no others are named and the file has them.
    """

    def __init__(
        self,
        path: Path,
        named: Named | None = None,
        encoding: str | None = None,
        task: Task | None = None,
        labels: bool = True,
        missing: Collection[str] = (),
        said: Kind | None = None,
        trained: Named | None = None,
    ) -> None:
        self.path, self.encoding = path, encoding
        self.missing = {word.strip().lower() for word in missing}
        self.met: dict[str, Met] = {}  # by written form; empty where a file has no types, as .csv
        self.counts, self.report = Counts(), Report()
        self.said = said
        opened = open_records(path, encoding, Report(), said)
        self.kind: Kind = opened.kind
        self.delimiter, self.quotes = opened.delimiter, opened.quotes
        self.note = ""  # what is to be said of the choice of columns
        self.scheme: Scheme = "plain"
        self.several = False  # whether a label is a list
        self.columns: Columns | None = None
        self.task: Task | None = None
        self.names: tuple[str, ...] = ()
        if self.kind == "text":
            if task or (named and (named.text or named.label)):
                raise InputError(f"{path} is plain text: it has no columns and no labels")
            return
        head = _head(opened.records)
        # Rows of JSON may lack some fields, so that the names are gathered over many.
        self.names = opened.columns or tuple(dict.fromkeys(name for row in head for name in row))
        if not head and opened.columns is None:
            # Nothing tells the columns, so that all rows, if there are any, are faults.
            self.columns, self.task = Columns(), task
            return
        if trained is None or (named and named.names):
            self.columns = find_columns(str(path), self.names, head, named or Named(), task, labels)
        else:
            self.columns, self.note = find_trained(
                str(path), self.names, head, trained, task, labels
            )
        self._learn(head, task)

    def _learn(self, head: Sequence[dict[str, Any]], task: Task | None) -> None:
        """What the first rows tell of the labels."""
        columns = self.columns
        assert columns is not None
        if columns.tags:
            self.task = "tag"
            self.scheme = scheme_of(
                row[columns.tags] for row in head if isinstance(row.get(columns.tags), list)
            )
        elif columns.spans:
            self.task = "tag"
        elif columns.label is not None:
            values = [
                row[columns.label] for row in head if not self._is_missing(row.get(columns.label))
            ]
            self.several = 2 * sum(isinstance(value, list) for value in values) > len(values)
            self.task = task or ("regress" if _are_measures(values) else "classify")

    @property
    def label_column(self) -> str | None:
        """The column of the labels, the tags or the spans."""
        return (
            (self.columns.label or self.columns.tags or self.columns.spans)
            if self.columns
            else None
        )

    def __iter__(self) -> Iterator[Row]:
        self.counts, self.report, self.met = Counts(), Report(), {}
        for row in self._rows(open_records(self.path, self.encoding, self.report, self.said)):
            self.counts.add(row)
            yield row

    def _rows(self, opened: Opened) -> Iterator[Row]:
        last = 0
        try:
            for record in opened.records if self.kind != "text" else _texts(opened):
                last = record.line
                yield self._row(record)
        except InputError as error:  # the file is damaged from here on
            said = str(error).removeprefix(f"{self.path} ")
            yield Row(
                max(last, opened.lines.number) + 1,
                None,
                Fault("unreadable", f"and what follows can't be read: {said}"),
            )

    def _row(self, record: Record) -> Row:
        try:
            if isinstance(record.content, Fault):
                raise record.content
            example = self._example(_plain(record.content), record.line)
        except Fault as fault:
            return Row(record.line + (fault.below if self.kind == "conll" else 0), None, fault)
        texts = [example.text, getattr(example, "second", None) or ""]
        lost = sum(text.count(REPLACEMENT) for text in texts if not text.isascii())
        said = f"has {lost} characters that could not be read ({REPLACEMENT})"
        return Row(record.line, example, Fault("replaced", said) if lost else None, record.content)

    def _example(self, row: dict[str, Any], line: int) -> Example:
        columns = self.columns
        if columns is None:
            return Line(_text(row, "text"))
        if columns.tokens:
            tokens = _strings(row, columns.tokens)
            if columns.tags and row.get(columns.tags) is None:
                raise _unlabelled(columns.tags)
            tags = _strings(row, columns.tags) if columns.tags else ["O"] * len(tokens)
            return _tagged(tokens, tags, self.scheme)
        if not columns.text:
            raise Fault("text", "comes after so many faults that no columns could be told")
        text = "\n".join(_text(row, name) for name in columns.text)
        if columns.spans:
            if row.get(columns.spans) is None:
                raise _unlabelled(columns.spans)
            return Tagged(text, read_spans(text, row.get(columns.spans)))
        second = "\n".join(_text(row, name) for name in columns.second) if columns.second else None
        return Labelled(
            text, self._label(row, columns.label, line) if columns.label else None, second
        )

    def _is_missing(self, value: Any) -> bool:
        """Whether a value is no label: null, NaN, white space, or a word that stands for none."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return True
        if isinstance(value, list):
            return bool(value) and all(self._is_missing_word(one) for one in value)
        if isinstance(value, str) and (
            not value.strip() or (self.task == "regress" and _is_nan(value))
        ):
            return True
        return self._is_missing_word(value)

    def _is_missing_word(self, value: Any) -> bool:
        return (
            bool(self.missing)
            and isinstance(value, str | int | float)
            and written(value).strip().lower() in self.missing
        )

    def _label(self, row: dict[str, Any], name: str, line: int) -> str | float | tuple[str, ...]:
        value = row.get(name)
        if self._is_missing(value):
            raise _unlabelled(name)
        if self.task == "regress":
            return _number(value)
        if isinstance(value, list) != self.several:
            kinds = (
                ("a list of labels", "one label")
                if self.several
                else ("one label", "a list of labels")
            )
            raise Fault("label", f"has {kinds[1]} where other rows have {kinds[0]}")
        if not isinstance(value, list):
            return self._class(value, line)
        if odd := [one for one in value if self._is_missing_word(one)]:
            raise Fault(
                "label",
                f"has {shortened(odd[0])}, which stands for no label (--missing), among its labels",
            )
        labels = tuple(self._class(one, line) for one in value)
        if len(set(labels)) < len(labels):
            raise Fault("label", f"has a label twice: {shortened(value)}")
        return labels

    def _class(self, value: Any, line: int) -> str:
        """The written form of a class, whose type is the same in all rows."""
        label = _class(value)
        if self.kind in TYPED:
            kept = repair(value)[0] if isinstance(value, str) else value
            met = self.met.setdefault(label, Met(kept, line))
            if not met.agrees(value):
                said = f"has the label {shortened(value)} where line {met.line} has {shortened(met.value)}"
                raise Fault("types", f"{said}: write them alike")
        return label


def _unlabelled(name: str) -> Fault:
    return Fault(UNLABELLED, f"has no label ({name})")


def _is_nan(value: str) -> bool:
    number = _parsed(value)
    return number is not None and math.isnan(number)


def _head(records: Iterator[Record]) -> list[dict[str, Any]]:
    """The first sound rows, in bounded memory; damage that comes later is met when it is come to."""
    head: list[dict[str, Any]] = []
    size = seen = 0
    try:
        for record in records:
            seen += 1
            if isinstance(record.content, dict):
                head.append(_plain(record.content))
                size += sum(
                    len(value) for value in record.content.values() if isinstance(value, str | list)
                )
            if seen >= MOST_ROWS or size > MOST_CHARACTERS:
                break
    except InputError:
        if not seen:
            raise
    return head


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Make a number of each decimal: a row keeps all their digits, an example doesn't need them."""
    if not any(isinstance(value, Decimal) for value in row.values()):
        return row
    return {
        name: float(value) if isinstance(value, Decimal) else value for name, value in row.items()
    }


def _texts(opened: Opened) -> Iterator[Record]:
    """The lines of plain text; one that is blank parts documents."""
    return (Record(opened.lines.number, {"text": line.removesuffix("\r")}) for line in opened.lines)


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    if value is None:
        raise Fault("text", f"has no text ({name})")
    if not isinstance(value, str):
        raise Fault("text", f"has {shortened(value)} where a text belongs ({name})")
    refuse_nul(value)
    return repair(value)[0]


def _strings(row: dict[str, Any], name: str) -> list[str]:
    values = row.get(name)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise Fault("text", f"has {shortened(values)} where a list of words belongs ({name})")
    for value in values:
        refuse_nul(value)
    return [repair(value)[0] for value in values]


def _tagged(tokens: list[str], tags: list[str], scheme: Scheme) -> Tagged:
    if len(tokens) != len(tags):
        raise Fault("tags", f"has {len(tags)} tags for {len(tokens)} tokens")
    places, start = [], 0
    for at, token in enumerate(tokens):
        if not token.strip():
            raise Fault("text", f"has an empty token, its number {at + 1}", at)
        places.append((start, start + len(token)))
        start += len(token) + 1
    return Tagged(" ".join(tokens), spans_of(tags, places, scheme), tuple(places))


def _class(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return written(value)
    if isinstance(value, int | str) and str(value).strip():
        label = repair(written(value))[0]
        refuse_nul(label)
        return label
    raise Fault("label", f"has {shortened(value)} where a label belongs")


def _number(value: Any) -> float:
    number = _parsed(value)
    if number is None or not math.isfinite(number):
        word = value.strip() if isinstance(value, str) else ""
        advice = f" (--missing {word} leaves such rows out)" if word.lower() in LOOK_MISSING else ""
        raise Fault("number", f"has the label {shortened(value)}, which is not a number{advice}")
    return number


def _parsed(value: Any) -> float | None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | str)
        or (isinstance(value, str) and "_" in value)
    ):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _are_measures(values: Sequence[Any]) -> bool:
    """Whether labels are numbers of which some have a fraction or are written as if they could; whole numbers are classes."""
    if not values or any(_parsed(value) is None for value in values):
        return False
    return any(
        isinstance(value, float) or "." in str(value) or not float(value).is_integer()
        for value in values
    )
