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


def header(line: str, delimiter: str) -> tuple[tuple[str, ...], bool]:
    """The names of the columns, and whether they stand in the first line."""
    fields = _split(line, delimiter)
    if len(fields) == 4 and fields[1] in ("0", "1") and fields[2] in ("", "*"):
        return COLA, False
    return tuple(name.strip() for name in fields), True


def delimiter_of(line: str) -> str:
    """What parts the fields of a .csv: by name a comma, but some countries write a semicolon."""
    return max(",;\t", key=line.count)


def has_quotes(head: Sequence[str], whole: bool) -> bool:
    """Whether quotes in a .tsv stand around fields or are text, as in GLUE; told by its first lines, `whole` if they are all."""
    text = "".join(f"{line}\n" for line in head)
    if '"' not in text:
        return False
    try:
        widths = {
            len(row)
            for row in csv.reader([f"{line}\n" for line in head], delimiter="\t", strict=True)
            if row
        }
    except csv.Error as error:
        return (
            not whole and "unexpected end" in str(error) and SHOWS_QUOTES.search(text) is not None
        )
    around_all = all(
        len(name) > 1 and name[0] == name[-1] == '"' for name in head[0].rstrip("\r").split("\t")
    )
    unequal = len({line.count("\t") for line in head if line.strip("\r")}) > 1
    return len(widths) == 1 and (around_all or unequal or SHOWS_QUOTES.search(text) is not None)


def separated(
    lines: Numbered, columns: Sequence[str], named: bool, delimiter: str, quotes: bool
) -> Iterator[Record]:
    """The rows of a table; one whose quote never closes is a fault of its own line, and reading goes on below it."""
    reach, pending = MOST_LINES, named
    for line in lines:
        number = lines.number
        if len(columns) > 1 and not line.strip(" \r"):  # in a single column it is an empty text
            continue
        if not (quotes and '"' in line):
            fields = line.removesuffix("\r").split(delimiter)
        else:
            try:
                fields = _unquoted(line, lines, delimiter, reach)
            except Fault as fault:
                reach = max(
                    1, reach // 2
                )  # so that a file full of such rows is not read a thousand times over
                pending = False
                yield Record(number, fault)
                continue
            reach = min(MOST_LINES, reach + 1)
        if not pending:
            yield Record(number, _named(fields, columns))
        pending = False


def _named(fields: list[str], columns: Sequence[str]) -> dict[str, Any] | Fault:
    if len(fields) != len(columns):
        return Fault(
            "fields", f"has {_many(len(fields), 'field')} where there should be {len(columns)}"
        )
    try:
        for field in fields:
            refuse_nul(field)
    except Fault as fault:
        return fault
    if [field.strip() for field in fields] == list(columns):
        return Fault("header", "repeats the header")
    return dict(zip(columns, fields, strict=True))


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _unquoted(first: str, more: Numbered, delimiter: str, reach: int) -> list[str]:
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
        reason = (
            "is never closed" if "end of data" in str(error) else "closes before its field ends"
        )
        raise Fault("quote", f"has a quote that {reason}") from None


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [""])
    except csv.Error:
        return line.split(delimiter)


def parquet(path: Path) -> tuple[tuple[str, ...], Iterator[Record]]:
    """The columns and rows of a parquet file, some rows at a time; a row's number stands for its line."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise InputError(
            f"{path} is a parquet file, which needs pyarrow; get it with: pip install 'firth[data]'"
        ) from None
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
            yield Record(
                number + 1,
                Fault("unreadable", f"and what follows can't be read: {_first_line(error)}"),
            )
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
    return (str(error).splitlines() or [type(error).__name__])[0]
