"""Where a command's texts come from: a file, a field or column of a file, or standard input."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from firth.base.errors import InputError
from firth.base.notes import note
from firth.data.examples import Labelled, Line, is_pair
from firth.data.record import listed
from firth.reading.columns import USUAL, Named
from firth.reading.format import KINDS, Format, is_object, is_plain, table_columns
from firth.reading.layout import TableLayout, columns_of
from firth.reading.readers import MakeReader, Reading
from firth.reading.tagged import TokenTextReader
from firth.text.lines import BOMS, Report, joined, lines, objects, open_regular

STANDARD_INPUT = "standard input"
LOOKED_AT = 20  # lines of standard input, to tell a table from texts


class Given(NamedTuple):
    """A text or a pair of texts, and the row of the input that it stands in, as it was written."""

    example: Any
    row: dict[str, Any]
    place: str | None = None  # file and line, of a row of a file


def standard_input() -> BinaryIO:
    """Return standard input; what a person types is read at once, up to the first Ctrl-D."""
    if not sys.stdin.isatty():
        return sys.stdin.buffer
    note("type a text a line; Ctrl-D ends them")
    return BytesIO(sys.stdin.buffer.read())


@dataclass(frozen=True)
class Source:
    """A file with one text a line, with an object a line, or with columns; `-` is standard input.

    In a file with fields or columns the text, and the second of a pair, are found by the names
    that a model was `trained` with or by their usual names where none was given, as in training.
    `form` says what the file is, whatever it looks like; `asks` reads its rows.
    """

    name: str
    fields: str = USUAL
    encoding: str | None = None
    second: str | None = None
    form: Format | None = None
    trained: Named | None = None
    asks: MakeReader = TokenTextReader
    copy: Path | None = None  # of a table on standard input, which is read more than once
    report: Report = field(default_factory=Report)

    @property
    def path(self) -> Path | None:
        """The file that is read; none for standard input as it comes."""
        return self.copy or (None if self.name == "-" else Path(self.name))

    @property
    def title(self) -> str:
        """What messages call it."""
        return STANDARD_INPUT if self.name == "-" else self.name

    def __iter__(self) -> Iterator[str]:
        """The texts alone."""
        for one in self.given():
            text: str = self.alone(one).example.text
            yield text

    def alone(self, one: Given) -> Given:
        """Refuse a pair where one text is wanted."""
        if is_pair(one.example):
            found = f"{self.title} has pairs of texts, where one text is wanted"
            raise InputError(f"{found}: --text names its column")
        return one

    def given(self) -> Iterator[Given]:
        """Return the texts with their rows.

        A row that can't be read stops it, so that no answer is given to another row.
        """
        self.report.clear()
        if self.path is None:
            if self.second:
                raise InputError(
                    "--second names a column of a file: --format csv reads one from standard input"
                )
            return self._piped()
        if self.is_table:
            return self._rows(self.reading())
        return self._lines(self.path)

    @property
    def is_table(self) -> bool:
        """Whether the file has columns or fields."""
        if self.path is None or self.form == "lines":
            return False
        if self.form or self.second or self.fields != USUAL:
            return True
        return not is_plain(self.path, self.encoding)

    def reading(self) -> Reading:
        """Open a file that has columns or fields."""
        assert self.path is not None
        named = Named.of(None if self.fields == USUAL else self.fields, self.second)
        said = KINDS[self.form] if self.form else None
        try:
            return Reading(
                self.path,
                named,
                self.encoding,
                said=said,
                trained=self.trained,
                asks=self.asks,
            )
        except InputError as error:
            raise self._named(error) from error

    def _named(self, error: InputError) -> InputError:
        """Say `standard input` instead of the name of its copy."""
        if self.copy is None:
            return error
        return InputError(str(error).replace(str(self.copy), STANDARD_INPUT))

    def _lines(self, path: Path) -> Iterator[Given]:
        try:
            for number, text in enumerate(lines(path, self.encoding, self.report), 1):
                yield Given(Line(text), {"text": text}, f"{self.title}:{number}")
        except InputError as error:
            raise self._named(error) from error

    def _rows(self, reading: Reading) -> Iterator[Given]:
        for row in reading:
            if row.example is None:
                raise self._named(InputError(f"{reading.path}:{row.line} {row.fault}"))
            yield Given(row.example, row.content or {}, f"{self.title}:{row.line}")
        self.report.characters += reading.report.characters
        self.report.replaced += reading.report.replaced

    def _piped(self) -> Iterator[Given]:
        """Yield the texts of standard input: lines or, if the first is an object, fields."""
        stream = lines(standard_input(), self.encoding, self.report)
        head = list(islice(stream, LOOKED_AT))
        every = chain(head, stream)
        if self.form == "lines" or not any(map(is_object, head[:1])):
            if self.form is None:
                _say_table(head)
            for number, text in enumerate(every, 1):
                yield Given(Line(text), {"text": text}, f"{STANDARD_INPUT}:{number}")
            return
        fields, second = self.fields, ""
        for number, record in objects(every, STANDARD_INPUT):
            where = f"{STANDARD_INPUT}:{number}"
            if number == 1 and fields == USUAL and self._has_trained(record):
                assert self.trained is not None
                fields, second = ",".join(self.trained.text), ",".join(self.trained.second)
            text = joined(record, fields, where, self.report)
            yield Given(
                Labelled(text, None, joined(record, second, where, self.report))
                if second
                else Line(text),
                record,
                where,
            )

    def _has_trained(self, record: dict[str, Any]) -> bool:
        """Whether an object has the fields that the model was trained with."""
        names = (
            {*self.trained.text, *self.trained.second}
            if self.trained and self.trained.text
            else set()
        )
        return bool(names) and names <= set(record) and not any("," in name for name in names)

    def count(self) -> int | None:
        """Return how many texts there will be.

        Reading them once also finds whatever is wrong before any work is done.
        """
        layout = self.survey()
        return layout.count if layout else None

    def survey(self) -> TableLayout | None:
        """Count the texts and name the columns beforehand.

        Standard input that is read as it comes can't be surveyed.
        """
        if self.path is None:
            return None
        if not self.is_table:
            count = sum(1 for _ in self._lines(self.path))
            return TableLayout(count, {"text": "text"}, marked=self._is_marked())
        reading = self.reading()
        if reading.note:
            note(str(self._named(InputError(reading.note))))
        count, columns = columns_of((one.row for one in self._rows(reading)), reading.names)
        schema = self.path if reading.kind == "parquet" else None
        return TableLayout(
            count, columns, reading.delimiter, reading.quotes, self._is_marked(), schema
        )

    def _is_marked(self) -> bool:
        """Return whether a file begins with a byte order mark or is not in UTF-8, like Excel's."""
        assert self.path is not None
        with open_regular(self.path) as file:
            start = file.read(4)
        encoding = (self.encoding or "utf-8").lower().replace("_", "-")
        if encoding not in ("utf-8", "utf8", "ascii"):
            return True
        return any(start.startswith(mark) for mark, _ in BOMS)

    def say(self) -> None:
        """Say how many characters could not be read and were replaced."""
        if self.report.replaced:
            note(f"{self.title}: {self.report}")


@contextmanager
def opened(source: Source, columns: bool = False) -> Iterator[Source]:
    """Copy a table on standard input to a file, since it is read more than once.

    `columns` asks for all its columns beforehand; so does a reader of more than texts.
    """
    table = source.form in ("csv", "tsv", "jsonl") or source.asks is not TokenTextReader
    if source.name != "-" or not (table or columns):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="firth-") as folder:
        copy = Path(folder) / "input"
        with copy.open("wb") as file:
            shutil.copyfileobj(standard_input(), file)
        copied = replace(source, copy=copy)
        yield copied if copied.form else replace(copied, form=_form(copied))


def _form(source: Source) -> Format:
    """Tell objects from texts by the first line, as for standard input that is read as it comes."""
    assert source.copy is not None
    head = [one.example.text for one in islice(source._lines(source.copy), LOOKED_AT)]
    if any(map(is_object, head[:1])):
        return "jsonl"
    _say_table(head)
    return "lines"


def _say_table(head: Sequence[str]) -> None:
    """Say that lines look like a table, whose header and rows would be answered as texts."""
    if columns := table_columns(head):
        found = f"standard input looks like a table with the columns {listed(columns)}"
        cure = "--format csv reads a table, --format lines is for texts"
        note(f"{found}, and each line is read as a text: {cure}")
