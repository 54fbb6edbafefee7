"""Word vectors as files that other programs open: word2vec's two formats, and GloVe's."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import InputError
from firth.base.files import new_file, refuse_existing
from firth.reading.wordvectors import Form, is_number

FORMS: Mapping[str, Form] = {".txt": "word2vec", ".vec": "word2vec", ".bin": "binary"}
ROWS_AT_ONCE = 1024
BLANK = re.compile(rb"[ \t\n\r\x0b\x0c]")  # where other programs end a word


def form_of(out: Path, form: Form | None, force: bool) -> Form:
    """Return the format of a file that is to be written, by its ending where nobody says it."""
    if out.suffix not in FORMS:
        raise InputError(f"{out}: word vectors are written to {', '.join(FORMS)}")
    refuse_existing(out, force)
    return form or FORMS[out.suffix]


def write_word_vectors(
    out: Path, words: Mapping[str, int], rows: NDArray[np.float32], form: Form, force: bool
) -> int:
    """Write words, each with its row of a table, and return how many fitted the format.

    Numbers have nine digits, from which single precision comes back to the bit.
    """
    fitting = {}
    for word, row in words.items():
        raw = word.encode()
        if _fits(raw, form):
            fitting[raw] = row
    with new_file(out, force) as path, path.open("wb") as file:
        if form != "glove":
            file.write(f"{len(fitting)} {rows.shape[1]}\n".encode())
        _write(file, fitting, rows, form)
    return len(fitting)


def _fits(word: bytes, form: Form) -> bool:
    """Say whether a word comes back from a format as it is."""
    if form != "glove":
        return bool(word) and not BLANK.search(word)
    # GloVe's own files have blanks inside words, where no number is before the numbers.
    parts = word.split(b" ")
    joins = len(parts) == 1 or not is_number(parts[-1])
    return all(parts) and joins and not any(BLANK.search(part) for part in parts)


def _write(
    file: BinaryIO, words: Mapping[bytes, int], rows: NDArray[np.float32], form: Form
) -> None:
    """Write words and numbers, some at a time."""
    line = " ".join(["%.9g"] * rows.shape[1])
    for names, numbers in _portions(words, rows):
        if form == "binary":
            table = np.ascontiguousarray(numbers, "<f4")
            portion = [
                name + b" " + row.tobytes() + b"\n" for name, row in zip(names, table, strict=True)
            ]
        else:
            portion = []
            for name, row in zip(names, numbers.tolist(), strict=True):
                text = line % tuple(row)
                portion.append(name + b" " + text.encode() + b"\n")
        file.write(b"".join(portion))


def _portions(
    words: Mapping[bytes, int], rows: NDArray[np.float32]
) -> Iterator[tuple[list[bytes], NDArray[Any]]]:
    """Yield some words at a time, with their rows."""
    names = list(words)
    places = np.fromiter(words.values(), np.int64, len(names))
    for first in range(0, len(names), ROWS_AT_ONCE):
        part = slice(first, first + ROWS_AT_ONCE)
        yield names[part], rows[places[part]]
