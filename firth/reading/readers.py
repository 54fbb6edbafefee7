"""Files of examples as a stream: a row is kept, repaired, or rejected for a reason, and counted."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

from firth.base.errors import InputError, option
from firth.data.examples import Example, Line
from firth.data.record import Fault, Record
from firth.reading.columns import Columns, Named, TableHead
from firth.reading.format import Kind, Opened, open_records
from firth.reading.labels import Met
from firth.reading.parallel import open_parallel
from firth.reading.rowreader import UNLABELLED, RowReader, TextReader, choose_reader, row_text
from firth.reading.tagged import TokenTextReader
from firth.text.lines import Report
from firth.text.repair import REPLACEMENT

MOST_ROWS = 1000  # of the head, by which columns, task and scheme of tags are told
MOST_CHARACTERS = 1 << 22
TYPED = ("jsonl", "json", "squad", "parquet")  # files in which 0 and "0" are two things
# Makes a reader, given the words that stand for no label and whether the file has types.
MakeReader = Callable[[Collection[str], bool], RowReader]


@dataclass(frozen=True, slots=True)
class FileRow:
    """A row of a file: an example, an example that had to be repaired, or only what is wrong."""

    line: int  # of the fault, where there is one
    example: Example | None
    fault: Fault | None = None
    content: dict[str, Any] | None = None  # the row's fields as they were written


@dataclass
class RowCounts:
    """What became of the rows read so far."""

    kept: int = 0
    repaired: int = 0
    rejected: int = 0
    unlabelled: int = 0

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return self.kept + self.repaired + self.rejected + self.unlabelled

    @property
    def usable(self) -> int:
        """The number of those that became examples."""
        return self.kept + self.repaired

    def add(self, row: FileRow) -> None:
        """Count a row."""
        unlabelled = row.fault is not None and row.fault.kind == UNLABELLED
        self.kept += row.fault is None
        self.repaired += row.fault is not None and row.example is not None
        self.unlabelled += unlabelled
        self.rejected += row.example is None and not unlabelled


class Reading:
    """A file of examples, read anew each time; `counts` and `report` tell of the last time.

    `readers` are those of the tasks that it may be for, by name: of several, the first that suits
    the file; without any, rows are read by `asks`, a row with no label as good as any. `missing`
    are words that stand for no label. `said` is what kind of file it is, whatever it looks like.
    `trained` are the columns to take if no others are named and the file has them. `beside` is a
    file whose lines are the targets of this one's.
    """

    def __init__(
        self,
        path: Path,
        named: Named | None = None,
        encoding: str | None = None,
        readers: Mapping[str, MakeReader] | None = None,
        missing: Collection[str] = (),
        said: Kind | None = None,
        trained: Named | None = None,
        asks: MakeReader = TokenTextReader,
        beside: Path | None = None,
    ) -> None:
        self.path = path
        self.beside = beside
        self.encoding = encoding
        self.said = said
        self.counts = RowCounts()
        self.report = Report()
        self.note = ""  # what is to be said of the choice of columns
        self.task: str | None = None
        self.reader: RowReader = TextReader()
        self.columns: Columns | None = None
        self.names: tuple[str, ...] = ()
        self._headless: tuple[str, ...] = ()
        self._trained = trained.names if trained else ()
        self._make = readers or {}
        self._asks = asks
        if not (named and named.names):
            self._headless = self._without_header()
        opened = self._opened(Report())
        self.kind: Kind = opened.kind
        self.delimiter = opened.delimiter
        self.quotes = opened.quotes

        self._missing = {word.strip().lower() for word in missing}
        asked = next(iter(self._make)) if len(self._make) == 1 else None
        if self.kind == "text":
            if asked or (named and (named.text or named.label)):
                cure = ""
                if asked and self._without_header():
                    cure = " (--target names a file with the target of each line)"
                raise InputError(f"{path} is plain text: it has no columns and no labels{cure}")
            return
        head = _head(opened.records)
        # Rows of JSON may lack some fields, so that the names are gathered over many.
        names = dict.fromkeys(chain.from_iterable(head))
        self.names = opened.columns or tuple(names)
        if not head and opened.columns is None:
            # Nothing tells the columns, so that all rows, if there are any, are faults.
            self.columns = Columns()
            self.task = asked
            if asked:
                self.reader = self._readers()[asked]
            return
        table = TableHead(str(path), self.names, head)
        if trained is None or (named and named.names):
            self.task, self.reader = self._choose(table, named or Named())
        else:
            self.task, self.reader = self._choose_trained(table, trained)
        self.columns = self.reader.columns

    def _without_header(self) -> tuple[str, ...]:
        """Return the columns of a table without a header, where what it is read for has some."""
        if len(self._make) > 1:
            return ()
        (make,) = self._make.values() or (self._asks,)
        return make(set(), False).headless

    def _opened(self, report: Report) -> Opened:
        """Open the file anew."""
        if self.beside is not None:
            return open_parallel(self.path, self.beside, self.encoding, report)
        return open_records(
            self.path, self.encoding, report, self.said, self._headless, self._trained
        )

    def _readers(self) -> dict[str, RowReader]:
        typed = self.kind in TYPED
        return {task: make(self._missing, typed) for task, make in self._make.items()}

    def _choose(self, table: TableHead, named: Named) -> tuple[str | None, RowReader]:
        readers = self._readers()
        if readers:
            try:
                return choose_reader(readers, table, named)
            except InputError as error:
                raise InputError(f"{error}{self._without_task(readers, table, named)}") from error
        asked = self._asks(self._missing, self.kind in TYPED)
        _, reader = choose_reader({"": asked}, table, named)
        return None, reader

    def _without_task(
        self, readers: Mapping[str, RowReader], table: TableHead, named: Named
    ) -> str:
        """Say of which task a table without a header may be, where none was named."""
        if len(readers) == 1 or self.kind != "tsv" or named.names:
            return ""
        width = len(table.columns)
        tasks = [task for task, reader in readers.items() if len(reader.headless) == width]
        return "".join(
            f"; without a header it is read with {option('task', task)}" for task in tasks
        )

    def _choose_trained(self, table: TableHead, trained: Named) -> tuple[str | None, RowReader]:
        """Take the columns that a model was trained with; in a file that lacks one, usual ones."""
        trained = trained if self._make else replace(trained, label=None)
        missing = [name for name in trained.names if name not in table.columns]
        usual = None
        try:
            usual = self._choose(table, Named())
        except InputError as error:
            if not trained.text:
                raise
            if missing:
                raise InputError(f"{error}; the model was trained with {trained}") from error
        if usual is not None and (missing or not trained.text):
            if trained.text:
                read = f"it is read with {usual[1].columns.named}"
                lacks = f"{table.where} has no column {missing[0]!r}"
                self.note = f"{lacks}, with which the model was trained; {read}"
            return usual
        found = self._choose(table, trained)
        named = found[1].columns.named
        if usual is not None and usual[1].columns.named != named:
            self.note = f"{table.where} is read with {named}, as in training"
        return found

    @property
    def label_column(self) -> str | None:
        """The column of the labels, the tags or the spans."""
        return self.columns.label if self.columns else None

    @property
    def met(self) -> dict[str, Met]:
        """The classes with the types that the file has; empty where it has none, as .csv."""
        return self.reader.met

    def __iter__(self) -> Iterator[FileRow]:
        self.counts = RowCounts()
        self.report = Report()
        self.reader.begin()
        opened = self._opened(self.report)
        for row in self._rows(opened):
            self.counts.add(row)
            yield row

    def _rows(self, opened: Opened) -> Iterator[FileRow]:
        """Yield the rows; where the file is damaged, a last one says so."""
        records = _texts(opened) if self.kind == "text" else opened.records
        last = 0
        try:
            for record in records:
                last = record.line
                yield self._row(record)
        except InputError as error:
            said = str(error).removeprefix(f"{self.path} ")
            fault = Fault("unreadable", f"and what follows can't be read: {said}")
            yield FileRow(max(last, opened.lines.number) + 1, None, fault)

    def _row(self, record: Record) -> FileRow:
        try:
            if isinstance(record.content, Fault):
                raise record.content
            example = self._example(_plain(record.content), record.line)
        except Fault as fault:
            below = fault.below if self.kind == "conll" else 0
            return FileRow(record.line + below, None, fault)
        # Most texts are ASCII, which is told without looking at each character.
        lost = sum(text.count(REPLACEMENT) for text in example.texts if not text.isascii())
        replaced = None
        if lost:
            said = f"has {lost} characters that could not be read ({REPLACEMENT})"
            replaced = Fault("replaced", said)
        return FileRow(record.line, example, replaced, record.content)

    def _example(self, row: dict[str, Any], line: int) -> Example:
        if self.columns is None:
            return Line(row_text(row, "text"))
        return self.reader.example(row, line)


def _head(records: Iterator[Record]) -> list[dict[str, Any]]:
    """Return the first sound rows, in bounded memory; later damage is met when it is come to."""
    head: list[dict[str, Any]] = []
    size = 0
    seen = 0
    try:
        for record in records:
            seen += 1
            if isinstance(record.content, dict):
                head.append(_plain(record.content))
                values = record.content.values()
                size += sum(len(value) for value in values if isinstance(value, str | list))
            if seen >= MOST_ROWS or size > MOST_CHARACTERS:
                break
    except InputError:
        if not seen:
            raise
    return head


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Make a number of each decimal: a row keeps all their digits, an example doesn't need them."""
    decimals = {name: value for name, value in row.items() if isinstance(value, Decimal)}
    if not decimals:
        return row
    return row | {name: float(value) for name, value in decimals.items()}


def _texts(opened: Opened) -> Iterator[Record]:
    """Yield the lines of plain text; one that is blank parts documents."""
    for line in opened.lines:
        text = line.removesuffix("\r")
        yield Record(opened.lines.number, {"text": text})
