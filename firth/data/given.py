"""Texts as a Python call gives them: what is no list of texts, or no text, is refused."""

import math
import reprlib
from collections.abc import Iterator
from typing import Any

from firth.base.arguments import is_data_frame, members, plain
from firth.base.errors import InputError
from firth.data.examples import Example, Labelled, Line

WANTED = "a list, tuple, array, Series or iterator of strings"


def given_examples(texts: object) -> Iterator[Example]:
    """Make an example of each text or pair of texts.

    The container is checked at once, each item when it is read.
    """
    rows: Any = texts
    if is_data_frame(texts) or not _has_two_columns(texts):  # an array of pairs has
        rows = _rows(texts, f"{WANTED}, or of pairs of strings")
    return (_example(row, number) for number, row in enumerate(rows, 1))


def _has_two_columns(texts: object) -> bool:
    if getattr(texts, "ndim", 1) != 2:
        return False
    shape: tuple[int, ...] = getattr(texts, "shape", ())
    return shape[1:] == (2,)


def given_strings(texts: object) -> Iterator[str]:
    """Give each text; pairs are refused."""
    return (_string(row, number) for number, row in enumerate(_rows(texts, WANTED), 1))


def _rows(texts: object, wanted: str) -> Any:
    if isinstance(texts, str):
        raise InputError(
            "give a list of texts, not one string: every character would count as a text"
        )
    if is_data_frame(texts):
        names = [name for name in getattr(texts, "columns", ()) if isinstance(name, str)]
        column = next((name for name in names if name.lower() == "text"), "text")
        raise InputError(
            f"a table is no list of texts: give one of its columns, like table[{column!r}]"
        )
    return members("texts", texts, wanted)


def _example(row: Any, number: int) -> Example:
    if isinstance(row, str):
        return Line(str.__str__(row))
    if isinstance(row, Example):
        return row
    is_pair = isinstance(row, tuple | list) or getattr(row, "ndim", 0) == 1
    if is_pair and len(row) == 2 and all(isinstance(part, str) for part in row):
        return Labelled(str.__str__(row[0]), None, str.__str__(row[1]))
    raise InputError(f"text {number} is {_named(row)}, not a string or a pair of strings")


def _string(row: Any, number: int) -> str:
    if not isinstance(row, str):
        raise InputError(f"text {number} is {_named(row)}, not a string")
    return str.__str__(row)


def _named(row: object) -> str:
    """Say what stands in place of a text, and what to do about the usual ones."""
    kind = type(row).__name__
    if _is_missing(row):
        return f"missing ({row!r})"
    if isinstance(row, bytes | bytearray):
        return f"bytes ({reprlib.repr(row)}; .decode('utf-8') makes a string of them)"
    return f"of type {kind} ({reprlib.repr(row)})"


def _is_missing(row: object) -> bool:
    if row is None or type(row).__name__ in ("NAType", "NaTType"):  # pandas' own
        return True
    number = plain(row)
    return isinstance(number, float) and math.isnan(number)
