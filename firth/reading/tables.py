"""Tables as records: separated values with and without quotes, and parquet."""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from firth.base.errors import InputError
from firth.data.record import LONGEST_RECORD, Fault, Numbered, Record, refuse_nul

MOST_LINES = 1000  # that one row may span
ROWS_AT_ONCE = 256
COLA = ("source", "label", "star", "sentence")  # published without a header
# A field between quotes that shows it: with a quote doubled, or a lone carriage return inside.
SHOWS_QUOTES = re.compile(r'(?:^|[\t\n])"[^"\t\n]*+(?:""|(?<=\r)(?!\n))')
QUOTED = re.compile(r'".*"', re.DOTALL)


def header(line: str, delimiter: str) -> tuple[tuple[str, ...], bool]:
    """Return the names of the columns, and whether they stand in the first line."""
    fields = _split(line, delimiter)
    if len(fields) == 4 and fields[1] in ("0", "1") and fields[2] in ("", "*"):
        return COLA, False
    return tuple(name.strip() for name in fields), True


def delimiter_of(line: str) -> str:
    """Return what parts the fields of a .csv; spreadsheets of some countries write semicolons."""
    return max(",;\t", key=line.count)


def has_quotes(head: Sequence[str], whole: bool) -> bool:
    """Return whether quotes in a .tsv stand around fields or are text, as in GLUE.

    It is told by the first lines, `whole` if they are all.
    """
    lines = [f"{line}\n" for line in head]
    text = "".join(lines)
    if '"' not in text:
        return False
    shown = SHOWS_QUOTES.search(text) is not None
    try:
        rows = csv.reader(lines, delimiter="\t", strict=True)
        widths = {len(row) for row in rows if row}
    except csv.Error as error:
        # The last row may only be cut off where the head ends.
        return shown and not whole and "unexpected end" in str(error)
    if len(widths) != 1:
        return False

    names = head[0].rstrip("\r").split("\t")
    around_all = all(QUOTED.fullmatch(name) for name in names)
    tabs = {line.count("\t") for line in head if line.strip("\r")}
    return around_all or len(tabs) > 1 or shown


def separated(
    lines: Numbered, columns: Sequence[str], named: bool, delimiter: str, quotes: bool
) -> Iterator[Record]:
    """Yield the rows of a table.

    A row whose quote never closes is a fault of its own line, and reading goes on below it.
    """
    reach = MOST_LINES
    pending = named  # whether the first row is still to come, which holds the names
    for line in lines:
        number = lines.number
        # In a single column a blank line is an empty text.
        if len(columns) > 1 and not line.strip(" \r"):
            continue
        if not (quotes and '"' in line):
            fields = line.removesuffix("\r").split(delimiter)
        else:
            try:
                fields = _unquoted(line, lines, delimiter, reach)
            except Fault as fault:
                # So that a file full of such rows is not read a thousand times over.
                reach = max(1, reach // 2)
                pending = False
                yield Record(number, fault)
                continue
            reach = min(MOST_LINES, reach + 1)
        if not pending:
            yield Record(number, _named(fields, columns))
        pending = False


def _named(fields: list[str], columns: Sequence[str]) -> dict[str, Any] | Fault:
    """Return the fields of a row by their columns, or what is wrong with them."""
    count = len(fields)
    if count != len(columns):
        plural = "" if count == 1 else "s"
        said = f"has {count} field{plural} where there should be {len(columns)}"
        return Fault("fields", said)
    try:
        for field in fields:
            refuse_nul(field)
    except Fault as fault:
        return fault
    if [field.strip() for field in fields] == list(columns):
        return Fault("header", "repeats the header")
    return dict(zip(columns, fields, strict=True))


def _unquoted(first: str, more: Numbered, delimiter: str, reach: int) -> list[str]:
    """Return the fields of a row with quotes, which may go on over so many more lines."""
    taken: list[str] = []

    def feed() -> Iterator[str]:
        yield f"{first}\n"
        size = len(first)
        for line in islice(more, reach):
            taken.append(line)
            size += len(line)
            if size > LONGEST_RECORD:
                return
            yield f"{line}\n"

    csv.field_size_limit(LONGEST_RECORD)
    try:
        return next(csv.reader(feed(), delimiter=delimiter, strict=True))
    except csv.Error as error:
        more.give_back(taken)
        reason = "closes before its field ends"
        if "end of data" in str(error):
            reason = "is never closed"
        raise Fault("quote", f"has a quote that {reason}") from None


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [""])
    except csv.Error:
        return line.split(delimiter)


def parquet(path: Path) -> tuple[tuple[str, ...], Iterator[Record]]:
    """Return a parquet file's columns and its rows; a row's number stands for its line."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        needs = f"{path} is a parquet file, which needs pyarrow"
        raise InputError(f"{needs}; get it with: pip install 'firth[data]'") from None
    broken = (
        ArrowException,
        OSError,
        ValueError,
        MemoryError,
        NotImplementedError,
        TypeError,
        KeyError,
        OverflowError,
    )
    try:
        file = ParquetFile(path)
        columns = tuple(file.schema_arrow.names)
    except broken as error:
        raise InputError(f"{path} is damaged: {_first_line(error)}") from error

    def rows() -> Iterator[Record]:
        number = 0
        try:
            for batch in file.iter_batches(ROWS_AT_ONCE, use_threads=False):
                for row in range(batch.num_rows):
                    number += 1
                    yield Record(number, _row(batch, columns, row, broken))
        except broken as error:
            said = f"and what follows can't be read: {_first_line(error)}"
            yield Record(number + 1, Fault("unreadable", said))
        finally:
            file.close(force=True)

    return columns, rows()


def _row(
    batch: Any, columns: Sequence[str], row: int, broken: tuple[type[BaseException], ...]
) -> dict[str, Any] | Fault:
    try:
        return {name: batch.column(at)[row].as_py() for at, name in enumerate(columns)}
    except broken as error:
        return Fault("unreadable", f"can't be read: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    """Return the first line of a message, or the error's name if it has none."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0]
