"""Writers for vectors: an array, JSON lines or a table; rows are written as they come and nothing is left half-done."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from firth.base.errors import InputError
from firth.base.files import new_file, refuse_existing
from firth.tasks.embed import Spans, Vectors

Answer = Vectors | Spans
Add = Callable[[str, Answer], None]

NPY_HEADER = 128  # bytes, padded, so that the number of rows can be filled in at the end
ROWS_PER_GROUP = 1024


@contextmanager
def writer(out: Path | None, screen: TextIO, force: bool) -> Iterator[Add]:
    """Open the writer that a file's ending asks for; without a file, JSON lines go to the screen."""
    if out is None:
        yield lambda text, answer: print(_json_line(text, answer), file=screen)
        return
    with new_file(out, force) as path, WRITERS[out.suffix](path) as add:
        yield add


def check_target(out: Path | None, per_text: bool, force: bool) -> None:
    """Refuse a file that can't hold what was asked for, before any work is done."""
    if out is None:
        return
    if out.suffix not in WRITERS:
        raise InputError(f"{out}: vectors are written to .npy, .jsonl or .parquet")
    if out.suffix == ".npy" and not per_text:
        raise InputError(
            f"{out}: an array has one vector a text; those of words or pieces go to .jsonl or .parquet"
        )
    if out.suffix == ".parquet":
        _arrow()
    refuse_existing(out, force)


def _numbers(vector: Vectors) -> list[float]:
    """The shortest decimals that give the same single-precision numbers."""
    return vector.astype("U").astype(float).tolist()  # type: ignore[no-any-return]


def _json_line(text: str, answer: Answer) -> str:
    if not isinstance(answer, Spans):
        return json.dumps({"text": text, "vector": _numbers(answer)}, ensure_ascii=False)
    spans = [
        {"start": start, "end": end, "text": text[start:end], "vector": _numbers(vector)}
        for (start, end), vector in zip(answer.offsets, answer.vectors, strict=True)
    ]
    return json.dumps({"text": text, "spans": spans}, ensure_ascii=False)


@contextmanager
def _lines(path: Path) -> Iterator[Add]:
    with path.open("w", encoding="utf-8", errors="replace") as file:
        yield lambda text, answer: print(_json_line(text, answer), file=file)


@contextmanager
def _array(path: Path) -> Iterator[Add]:
    rows, width = 0, 0
    with path.open("wb") as file:
        file.write(bytes(NPY_HEADER))

        def add(_: str, answer: Answer) -> None:
            nonlocal rows, width
            assert isinstance(answer, np.ndarray)
            file.write(answer.astype("<f4").tobytes())
            rows, width = rows + 1, answer.size

        yield add
        shape = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}"
        header = b"\x93NUMPY\x01\x00" + (NPY_HEADER - 10).to_bytes(2, "little")
        file.seek(0)
        file.write(header + shape.encode().ljust(NPY_HEADER - 11) + b"\n")


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError("writing .parquet needs pyarrow: pip install 'firth[data]'") from error
    return pyarrow


@contextmanager
def _table(path: Path) -> Iterator[Add]:
    """Columns text and vector; for words and pieces a row each with the text's number, start and end."""
    arrow = _arrow()
    rows: list[dict[str, Any]] = []
    writer: Any = None
    seen = 0
    schemas = {
        False: [("text", arrow.string()), ("vector", arrow.list_(arrow.float32()))],
        True: [
            ("row", arrow.int64()),
            ("start", arrow.int64()),
            ("end", arrow.int64()),
            ("text", arrow.string()),
            ("vector", arrow.list_(arrow.float32())),
        ],
    }
    schema = schemas[False]

    def flush() -> None:
        nonlocal writer
        writer = writer or arrow.parquet.ParquetWriter(path, arrow.schema(schema))
        writer.write_table(arrow.Table.from_pylist(rows, arrow.schema(schema)))
        rows.clear()

    def add(text: str, answer: Answer) -> None:
        nonlocal schema, seen
        if isinstance(answer, Spans):
            schema = schemas[True]
            for (start, end), vector in zip(answer.offsets, answer.vectors, strict=True):
                rows.append(
                    {
                        "row": seen,
                        "start": start,
                        "end": end,
                        "text": text[start:end],
                        "vector": vector,
                    }
                )
        else:
            rows.append({"text": text, "vector": answer})
        seen += 1
        if len(rows) >= ROWS_PER_GROUP:
            flush()

    try:
        yield add
        flush()
    finally:
        if writer:
            writer.close()


WRITERS = {".npy": _array, ".jsonl": _lines, ".parquet": _table}
