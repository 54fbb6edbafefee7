"""Rows of GLUE's and SuperGLUE's published files, with the columns that every reader knows."""

import math
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from firth.base.errors import InputError
from firth.base.notes import note
from firth.data.examples import written
from firth.data.record import Fault, Numbered, Record, shortened
from firth.reading.columns import Columns, Named, TableHead, find_label, find_texts
from firth.reading.glue import GlueTask
from firth.reading.objects import one_a_line
from firth.reading.rowreader import (
    UNLABELLED,
    parsed_number,
    row_text,
    row_texts,
    unlabelled,
)
from firth.reading.tables import header, separated
from firth.reading.usable import MOST_REJECTED
from firth.text.lines import is_jsonl, raw_lines

PlainRow = dict[str, Any]

INDEXES = ("index", "id", "idx")  # columns that number the rows of a test set
NO_LABEL = ("", "-", "-1")
OPTIONS = ("choice1", "choice2")  # of a row with ends to choose from
# The question that such a row asks, by what stands in its column.
ASKED = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}


class PublishedFile(NamedTuple):
    """A published file: its rows as a stream, and where its texts and its label stand."""

    path: Path
    task: GlueTask
    records: Iterator[Record]
    columns: Columns


def open_published(path: Path, task: GlueTask) -> PublishedFile:
    """Open a file as published; in its tables a quote is a character like any other."""
    lines = Numbered(raw_lines(path))
    names: tuple[str, ...] = ()
    records: Iterator[Record] = iter(())
    if is_jsonl(path):
        rows = one_a_line(lines)
        top = list(islice(rows, 1))
        if top:
            names = _fields(path, top[0])
        records = chain(top, rows)
    else:
        head = list(islice(lines, 1))
        if head:
            names, named = header(head[0], "\t")
            lines.give_back(head)
            records = iter(separated(lines, names, named, "\t", quotes=False))
    if not names:
        raise InputError(f"{path} is empty")
    columns = _columns(path, names, task)
    return PublishedFile(path, task, records, columns)


def _fields(path: Path, top: Record) -> tuple[str, ...]:
    """Return the fields of the first object, which tells those of all."""
    if isinstance(top.content, Fault):
        raise InputError(f"{path}:{top.line} {top.content}")
    return tuple(top.content)


def _columns(path: Path, names: tuple[str, ...], task: GlueTask) -> Columns:
    """Return where the texts and the label stand; a test set has no label."""
    table = TableHead(str(path), names, ())
    if task.has_options:
        texts = Columns(("premise",), OPTIONS)
    else:
        has_own = all(name in names for name in task.columns.names)
        named = task.columns if has_own else Named()
        texts = find_texts(table, named)
    lacks = [name for name in (*texts.text, *texts.second) if name not in names]
    if lacks or not texts.text:
        raise InputError(f"{path}:1 has no columns of {task.name}; it has {table.listed()}")
    label = find_label(table, Named(), texts)
    return Columns(texts.text, texts.second, label)


def labelled_rows(path: Path, task: GlueTask) -> list[PlainRow]:
    """Return the rows to train or to measure on; too many that can't be used are an error."""
    published = open_published(path, task)
    if published.columns.label is None:
        raise InputError(f"{path}:1 has no column for the label of {task.name}")
    rows = []
    faults: list[tuple[int, Fault]] = []
    count = 0
    for line, content in published.records:
        count += 1
        try:
            if isinstance(content, Fault):
                raise content
            label = _label(content.get(published.columns.label), task)
            texts = _texts(content, published)
            rows.append({**texts, "label": label, "line": line})
        except Fault as fault:
            faults.append((line, fault))
    _settle(path, count, faults)
    return rows


def rows_to_answer(path: Path, task: GlueTask) -> list[PlainRow] | None:
    """Return the numbered rows of a test set; None where it has labels, unlike those of GLUE."""
    published = open_published(path, task)
    label = published.columns.label
    rows = []
    for number, (line, content) in enumerate(published.records):
        try:
            if isinstance(content, Fault):
                raise content
            if label is not None and not _is_unlabelled(content.get(label)):
                return None
            index = str(_index(content, number))
            texts = _texts(content, published)
            rows.append({"index": index, **texts})
        except Fault as fault:
            raise InputError(f"{path}:{line} {fault}, and every row is to be answered") from fault
    return rows


def _index(row: PlainRow, number: int) -> Any:
    """Return the number that a file gives a row, or else its place in the file."""
    for name in INDEXES:
        if name in row:
            return row[name]
    return number


def _texts(row: PlainRow, published: PublishedFile) -> PlainRow:
    """Return the text, the pair of texts, or the context and its ends."""
    if published.task.has_options:
        asked = row.get("question")
        if asked not in ASKED:
            raise Fault("question", f"asks {shortened(asked)}, which is not cause or effect")
        premise = row_text(row, "premise")
        options = [row_text(row, name) for name in OPTIONS]
        return {"context": f"{premise} {ASKED[asked]}", "choices": options}
    text, second = row_texts(row, published.columns)
    if second is None:
        return {"text": text}
    return {"text_a": text, "text_b": second}


def _is_unlabelled(value: Any) -> bool:
    """Return whether a value stands for no label, as in GLUE's test sets."""
    return value is None or written(value).strip() in NO_LABEL


def _label(value: Any, task: GlueTask) -> str | int | float:
    """Return a label as its task has it: a class, the number of an end, or a number."""
    if _is_unlabelled(value):
        raise unlabelled("label")
    if not task.labels:
        number = parsed_number(value)
        if number is None or not math.isfinite(number):
            raise Fault("number", f"has the label {shortened(value)}, which is not a number")
        return number
    name = written(value).strip()
    if name not in task.labels:
        known = ", ".join(task.labels)
        raise Fault("label", f"has the label {shortened(value)}, which is none of {known}")
    if task.has_options:
        return int(name)
    return name


def _settle(path: Path, count: int, faults: list[tuple[int, Fault]]) -> None:
    """Name the rows that can't be used, or stop where they are too many."""
    skipped: list[int] = []  # lines
    rejected: list[tuple[int, Fault]] = []
    for line, fault in faults:
        if fault.kind == UNLABELLED:
            skipped.append(line)
        else:
            rejected.append((line, fault))

    if len(rejected) > MOST_REJECTED * count:
        line, fault = rejected[0]
        unusable = f"{len(rejected):,} of {count:,} rows can't be used"
        raise InputError(f"{path}:{line} {fault}; {unusable}")
    if len(faults) == count:
        raise InputError(f"{path}: none of its {count:,} rows has a label")

    if skipped:
        some = f"{len(skipped):,} of {count:,} rows have no label and are left out"
        note(f"{path}: {some} (first: line {skipped[0]})")
    for line, fault in rejected:
        note(f"{path}:{line} {fault}; the row is left out")
