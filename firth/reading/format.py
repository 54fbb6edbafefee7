"""What kind of file it is, told by what stands in it before its name is believed."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from firth.base.errors import InputError
from firth.base.files import parse_json
from firth.data.record import Numbered, Record
from firth.reading import articles, conll, objects, tables
from firth.reading.columns import LABELS, PAIRS, SOURCES, TARGETS, TEXTS, known_pair
from firth.text.lines import PACKED, Report, open_regular, raw_lines

Kind = Literal["csv", "tsv", "jsonl", "json", "parquet", "squad", "conll", "text", "parallel"]
Format = Literal["lines", "csv", "tsv", "jsonl"]  # what a person may say that a file is
KINDS: dict[Format, Kind] = {"lines": "text", "csv": "csv", "tsv": "tsv", "jsonl": "jsonl"}
HEAD = 1 << 16  # characters that are looked at
NAMES: dict[str, Kind] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".json": "json",
    ".conll": "conll",
    ".bio": "conll",
    ".iob": "conll",
    ".iob2": "conll",
}


@dataclass(frozen=True)
class Opened:
    """A file that is being read: its records, or the lines of one that is plain text."""

    kind: Kind
    columns: tuple[str, ...] | None  # where all rows have the same
    records: Iterator[Record]
    lines: Numbered
    delimiter: str = ","
    quotes: bool = True  # whether quotes stand around fields


def open_records(
    path: Path,
    encoding: str | None,
    report: Report,
    said: Kind | None = None,
    headless: Sequence[str] = (),
    trained: Sequence[str] = (),
) -> Opened:
    """Open a file of any known kind, or of the kind `said`; refuse what can't be opened at all.

    `headless` are the columns of a .tsv of as many columns whose first line has no usual name and
    none of those that a model was `trained` with.
    """
    if said is None and _is_parquet(path):
        columns, rows = tables.parquet(path)
        _refuse_twins(path, columns)
        return Opened("parquet", columns, rows, Numbered(()))

    source = raw_lines(path, encoding, report)
    head, whole = _head(source)
    lines = Numbered(chain(head, source))
    kind = said or _kind(path, head)
    top = _first_written(head)
    if kind in ("csv", "tsv") and top is not None:
        delimiter = "\t"
        if kind == "csv":
            delimiter = tables.delimiter_of(top)
        columns, named = tables.header(top, delimiter)
        if kind == "tsv" and len(columns) == len(headless):
            usual = (*SOURCES, *TARGETS, *TEXTS)
            named = any(name.lower() in usual or name in trained for name in columns)
            columns = columns if named else tuple(headless)
        _refuse_returns(path, columns)
        _refuse_twins(path, columns)
        quotes = kind == "csv" or tables.has_quotes(head, whole)
        rows = tables.separated(lines, columns, named, delimiter, quotes)
        return Opened(kind, columns, rows, lines, delimiter, quotes)

    readers = {
        "jsonl": objects.one_a_line,
        "json": objects.in_a_list,
        "squad": articles.squad_rows,
        "conll": conll.conll_rows,
    }
    records: Iterator[Record] = iter(())
    if kind in readers:
        records = readers[kind](lines)
    return Opened(kind, None, records, lines)


def is_plain(path: Path, encoding: str | None) -> bool:
    """Whether a file is text without columns or fields, by what stands in it and by its name."""
    return open_records(path, encoding, Report()).kind == "text"


def is_table_file(path: Path) -> bool:
    """Return whether a file has columns, by its name; parquet is told by its first bytes.

    Lines of JSON have fields, and are no table.
    """
    if _named(path) in ("csv", "tsv", "json", "conll"):
        return True
    try:
        return path.is_file() and _is_parquet(path)
    except OSError:  # whoever opens it says what is wrong
        return False


def _is_parquet(path: Path) -> bool:
    with open_regular(path) as file:
        return file.read(4) == b"PAR1"


def _head(lines: Iterator[str]) -> tuple[list[str], bool]:
    """The first lines, and whether they are all."""
    head: list[str] = []
    size = 0
    for line in lines:
        head.append(line)
        size += len(line) + 1
        if size > HEAD:
            return head, False
    return head, True


def _first_written(head: Sequence[str]) -> str | None:
    """Return the first line that is not blank."""
    return next((line for line in head if line.strip()), None)


def _named(path: Path) -> Kind | None:
    """Return the kind that a file's name says, that of a packed file before its last ending."""
    suffixes = path.suffixes
    if path.suffix.lower() in PACKED:
        suffixes = suffixes[:-1]
    if not suffixes:
        return None
    return NAMES.get(suffixes[-1].lower())


def _kind(path: Path, head: list[str]) -> Kind:
    """Return the kind of a file by its first lines, or else by its name."""
    named = _named(path)
    first = (_first_written(head) or "").strip()
    if articles.looks_like_squad(head):
        return "squad"
    if first.startswith("{") and (named == "jsonl" or is_object(first)):
        return "jsonl"
    if conll.looks_like(head):
        return "conll"
    if first.startswith("[") and (named == "json" or _begins_list(first)):
        return "json"
    if named == "json" and not first:
        return "jsonl"  # of no rows
    if named == "json":
        wanted = "a .json file must hold a list of objects, an object a line, or SQuAD's articles"
        raise InputError(f"{path} begins with {first[:1]!r}: {wanted}")
    return named or _unnamed(head)


def _begins_list(first: str) -> bool:
    """Return whether a line can only be the first of a JSON list of objects, or the whole list."""
    if first == "[" or first.startswith(("[{", "[ {")):
        return True
    return _is_json(first, list)


def is_object(line: str) -> bool:
    """Whether a line holds a JSON object."""
    return _is_json(line, dict)


def _is_json(line: str, kind: type[object]) -> bool:
    try:
        parse_json(line, "it", kind)
    except InputError:
        return False
    return True


def _unnamed(head: list[str]) -> Kind:
    """Return the kind of a file that is called .txt, or nothing.

    It is a table if its first line has column names that are known.
    """
    delimiters: dict[Kind, str] = {"tsv": "\t", "csv": ","}
    for kind, delimiter in delimiters.items():
        if not head or delimiter not in head[0]:
            continue
        columns, _ = tables.header(head[0], delimiter)
        small = [name.lower() for name in columns]
        texts = set(small) & set(TEXTS)
        labels = set(small) & set(LABELS)
        if known_pair(small) or (texts and labels):
            return kind
    return "text"


NAME = re.compile(r"[\w#][\w #./()-]{0,39}")  # of a column: no sentence


def table_columns(head: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of lines that look like a table with a header; none of texts."""
    for delimiter in "\t;,":
        try:
            table = csv.reader([f"{line}\n" for line in head], delimiter=delimiter)
            rows = [row for row in table if row]
        except csv.Error:
            continue
        if not rows:
            continue
        names = tuple(name.strip() for name in rows[0])
        width = len(names)
        if width < 2 or not all(NAME.fullmatch(name) for name in names):
            continue

        small = {name.lower() for name in names}
        usual_texts = {*TEXTS, *chain.from_iterable(PAIRS)}
        texts = not small.isdisjoint(usual_texts)
        labels = not small.isdisjoint({*LABELS, "id"})
        if texts and labels:
            return names
        even = len(rows) > 1 and all(len(row) == width for row in rows)
        # Two texts with a comma each are no table, unless the first has a column's usual name.
        sentences = delimiter == "," and width == 2 and not texts and not labels
        if even and not sentences:
            return names
    return ()


def _refuse_returns(path: Path, columns: tuple[str, ...]) -> None:
    """Lines that end with carriage returns alone are one line to whoever looks for line feeds."""
    if any("\r" in name for name in columns):
        cure = f"tr '\\r' '\\n' < {path.name} > NEW"
        advice = f"if all lines end with them alone, make line feeds of them: {cure}"
        raise InputError(f"{path}:1 has carriage returns inside; {advice}")


def _refuse_twins(path: Path, columns: tuple[str, ...]) -> None:
    """Refuse a table with two columns of one name."""
    seen = set()
    for name in columns:
        if name in seen:
            raise InputError(f"{path}:1 has two columns called {name!r}")
        seen.add(name)
