"""Vectors as files: an array, JSON lines or a table, written row by row."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from firth.base.errors import InputError
from firth.base.files import new_file, refuse_existing
from firth.tasks.embed import Spans, Vectors

Answer = Vectors | Spans
Add = Callable[[str, Answer], None]

# Bytes of the header, padded, so that the number of rows can be filled in at the end.
NPY_HEADER = 128
ROWS_PER_GROUP = 1024


@contextmanager
def writer(out: Path, force: bool) -> Iterator[Add]:
    """Open the writer that a file's ending asks for."""
    with new_file(out, force) as path, WRITERS[out.suffix](path) as add:
        yield add


def check_target(out: Path | None, per_text: bool, force: bool) -> None:
    """Refuse a file that can't hold what was asked for, before any work is done."""
    if out is None:
        return
    if out.suffix not in WRITERS:
        raise InputError(f"{out}: vectors are written to .npy, .jsonl or .parquet")
    if out.suffix == ".npy" and not per_text:
        others = "those of words or pieces go to .jsonl or .parquet"
        raise InputError(f"{out}: an array has one vector a text; {others}")
    if out.suffix == ".parquet":
        _arrow()
    refuse_existing(out, force)


def _numbers(vector: Vectors) -> list[float]:
    """Return the shortest decimals that give the same single-precision numbers."""
    # Numpy writes a float32 in as few digits as tell it apart; Python's own float would show more.
    return vector.astype("U").astype(float).tolist()  # type: ignore[no-any-return]


def json_line(text: str, answer: Answer) -> str:
    """Return a text with its vector, or with those of its spans, as a JSON object."""
    record: dict[str, Any] = {"text": text}
    if isinstance(answer, Spans):
        record["spans"] = spans = []
        for (start, end), vector in zip(answer.offsets, answer.vectors, strict=True):
            span = {"start": start, "end": end, "text": text[start:end]}
            spans.append({**span, "vector": _numbers(vector)})
    else:
        record["vector"] = _numbers(answer)
    return json.dumps(record, ensure_ascii=False)


@contextmanager
def _lines(path: Path) -> Iterator[Add]:
    """Write a JSON object a line."""
    with path.open("w", encoding="utf-8", errors="replace") as file:

        def add(text: str, answer: Answer) -> None:
            file.write(f"{json_line(text, answer)}\n")

        yield add


@contextmanager
def _array(path: Path) -> Iterator[Add]:
    """Write NumPy's own format, a row a text."""
    rows = 0
    width = 0
    with path.open("wb") as file:
        file.write(bytes(NPY_HEADER))

        def add(_: str, answer: Answer) -> None:
            nonlocal rows, width
            assert isinstance(answer, np.ndarray)
            file.write(answer.astype("<f4").tobytes())
            rows += 1
            width = answer.size

        yield add

        shape = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}"
        magic = b"\x93NUMPY\x01\x00"
        length = (NPY_HEADER - 10).to_bytes(2, "little")
        file.seek(0)
        file.write(magic + length + shape.encode().ljust(NPY_HEADER - 11) + b"\n")


def _arrow() -> Any:
    """Import pyarrow, which only parquet needs."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError("writing .parquet needs pyarrow: pip install 'firth[data]'") from error
    return pyarrow


@contextmanager
def _table(path: Path) -> Iterator[Add]:
    """Write parquet with the columns text and vector, a row a text.

    Words and pieces have a row each, with the number of their text, start and end.
    """
    arrow = _arrow()
    text_and_vector = [("text", arrow.string()), ("vector", arrow.list_(arrow.float32()))]
    place = [("row", arrow.int64()), ("start", arrow.int64()), ("end", arrow.int64())]
    schema = arrow.schema(text_and_vector)
    rows: list[dict[str, Any]] = []
    writer: Any = None
    texts = 0

    def flush() -> None:
        nonlocal writer
        if writer is None:
            writer = arrow.parquet.ParquetWriter(path, schema)
        writer.write_table(arrow.Table.from_pylist(rows, schema))
        rows.clear()

    def add(text: str, answer: Answer) -> None:
        nonlocal schema, texts
        if isinstance(answer, Spans):
            schema = arrow.schema(place + text_and_vector)
            for (start, end), vector in zip(answer.offsets, answer.vectors, strict=True):
                row = {"row": texts, "start": start, "end": end}
                rows.append({**row, "text": text[start:end], "vector": vector})
        else:
            rows.append({"text": text, "vector": answer})
        texts += 1
        if len(rows) >= ROWS_PER_GROUP:
            flush()

    try:
        yield add
        flush()
    finally:
        if writer is not None:
            writer.close()


WRITERS = {".npy": _array, ".jsonl": _lines, ".parquet": _table}
