"""Answers as files: the input's columns as they were, then those of the answers."""

import csv
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firth.base.errors import InputError
from firth.base.files import new_file
from firth.reading.layout import Cell, TableLayout, cell_of, widest

Add = Callable[[Mapping[str, Any]], None]  # takes a row of the input with the answer's columns
TABLES = (".csv", ".tsv", ".parquet")
ENDINGS = (*TABLES, ".jsonl")
ROWS_PER_GROUP = 4096


def cell_text(value: Any) -> str:
    """Return a value as a cell of a table without types: lists and objects as JSON."""
    if isinstance(value, str):
        return value
    # In a table without types NaN would be a word.
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, bool | int | float | list | dict | tuple):
        return json.dumps(value, ensure_ascii=False, default=cell_text)
    return str(value)


def check_ending(target: Path) -> None:
    """Refuse a file that answers can't be written to, before any work is done."""
    if target.suffix not in ENDINGS:
        raise InputError(
            f"{target}: answers are written to {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        )
    if target.suffix == ".parquet":
        _arrow()


def refuse_twins(
    target: Path, columns: Collection[str], added: Collection[str], where: str
) -> None:
    """Refuse an input that has a column of the answers already: one of the two would be lost."""
    if twins := [name for name in added if name in columns]:
        needed = f"which {target} needs for the answers; rename it in the input"
        raise InputError(f"{where} has a column {twins[0]!r} already, {needed}")


@contextmanager
def answers_file(
    target: Path, force: bool, layout: TableLayout, added: Mapping[str, Cell]
) -> Iterator[Add]:
    """Open the writer that a file's ending asks for; `added` are the columns of the answers."""
    with new_file(target, force) as path:
        if target.suffix == ".jsonl":
            writer = _objects(path)
        elif target.suffix == ".parquet":
            writer = _parquet(path, layout, added)
        else:
            writer = _separated(path, target.suffix, layout, added)
        with writer as add:
            yield add


@contextmanager
def _objects(path: Path) -> Iterator[Add]:
    """Write an object a line."""
    # Half of a pair of surrogates, which no encoding can write, becomes the escape that JSON has
    # for it.
    with path.open("w", encoding="utf-8", errors="backslashreplace") as file:

        def add(row: Mapping[str, Any]) -> None:
            line = json.dumps(row, ensure_ascii=False, default=cell_text)
            file.write(f"{line}\n")

        yield add


@contextmanager
def _separated(
    path: Path, ending: str, layout: TableLayout, added: Mapping[str, Cell]
) -> Iterator[Add]:
    """Write a table of text: .csv with the delimiter of the input, or .tsv with tabs."""
    tabs = ending == ".tsv"
    # In a .tsv whose quotes are text, as GLUE's, they stay text.
    plain = tabs and layout.delimiter == "\t" and not layout.quotes
    delimiter = layout.delimiter
    if tabs:
        delimiter = "\t"
    elif delimiter == "\t":
        delimiter = ","
    names = [*layout.columns, *added]

    def add(row: Mapping[str, Any]) -> None:
        values = [cell_text(row.get(name)) for name in names]
        try:
            writer.writerow(values)
        except csv.Error as error:  # a tab in an answer where nothing may be quoted
            where = f"an answer for {values[0][:40]!r}"
            raise InputError(
                f"{where} can't stand in a .tsv without quotes: write a .csv"
            ) from error

    encoding = "utf-8-sig" if layout.marked and not tabs else "utf-8"
    with path.open("w", encoding=encoding, errors="backslashreplace", newline="") as file:
        dialect: dict[str, Any] = {"delimiter": delimiter, "lineterminator": "\n"}
        if plain:
            dialect |= {"quoting": csv.QUOTE_NONE, "quotechar": None}
        header = dict(dialect)
        if tabs and not plain:
            # Quotes around all of a .tsv's header say that quotes are none of its text.
            header["quoting"] = csv.QUOTE_ALL
        csv.writer(file, **header).writerow(names)
        writer = csv.writer(file, **dialect)
        yield add


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError("writing .parquet needs pyarrow: pip install 'firth[data]'") from error
    return pyarrow


@contextmanager
def _parquet(path: Path, layout: TableLayout, added: Mapping[str, Cell]) -> Iterator[Add]:
    """A table with types, some rows at a time: those of a parquet input, or what its values are."""
    arrow = _arrow()
    types = {
        "text": arrow.string(),
        "whole": arrow.int64(),
        "number": arrow.float64(),
        "truth": arrow.bool_(),
        "texts": arrow.list_(arrow.string()),
        "json": arrow.string(),
    }
    held: list[dict[str, Any]] = []
    writer: Any = None
    kinds: dict[str, Cell] = {}

    def begin() -> Any:
        """Decide the types; labels have that of the first of them."""
        columns = dict(added)
        if not layout.schema:
            columns = {**layout.columns, **added}
        for name, kind in columns.items():
            kinds[name] = kind
            if kind == "label":
                kinds[name] = _kind_of([row[name] for row in held])
        own = [arrow.field(name, types[kind]) for name, kind in kinds.items()]
        if not layout.schema:
            return arrow.schema(own)
        schema = arrow.parquet.read_schema(layout.schema)
        return arrow.schema([*schema, *own], metadata=schema.metadata)

    def flush() -> None:
        nonlocal writer
        schema = writer.schema if writer else begin()
        writer = writer or arrow.parquet.ParquetWriter(path, schema)
        rows = []
        for row in held:
            typed = {name: _typed(row.get(name), kind) for name, kind in kinds.items()}
            rows.append({**row, **typed})
        try:
            table = arrow.Table.from_pylist(rows, schema)
        except (arrow.ArrowException, TypeError, ValueError, OverflowError) as error:
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(
                f"the rows can't be written to .parquet ({said}); write a .jsonl"
            ) from error
        writer.write_table(table)
        held.clear()

    def add(row: Mapping[str, Any]) -> None:
        held.append(dict(row))
        if len(held) >= ROWS_PER_GROUP:
            flush()

    try:
        yield add
        flush()
    finally:
        if writer:
            writer.close()


def _kind_of(values: Sequence[Any]) -> Cell:
    """Return what a column holds that holds these values; a text if there is none."""
    widest_so_far: Cell | None = None
    for value in values:
        widest_so_far = widest(widest_so_far, cell_of(value))
    return widest_so_far or "text"


def _typed(value: Any, kind: Cell) -> Any:
    """Return a value as its column holds it."""
    if value is None:
        return None
    if kind == "text":
        return cell_text(value)
    if kind == "texts":
        return [cell_text(one) for one in value]
    if kind != "json":
        return value
    # In a column of different things a text is JSON too, so that it can be told from a number.
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return cell_text(value)
