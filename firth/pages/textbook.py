"""The sections of textbooks' pictures: arithmetic step by step, sheets of numbers, planes.

R rows, C columns, F frames, P points.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from firth.pages.page import Array, PageSection, fixed

DECIMALS = 4


class Cell(NamedTuple):
    """A number or a vector of a picture, and what a book prints in its place."""

    values: Sequence[float]
    book: str | None = None


class Step(NamedTuple):
    """A row of arithmetic: what is done, and a cell for each column or one for all."""

    name: str
    cells: Sequence[Cell]


class Sheet(NamedTuple):
    """A table of numbers (R, C) with the names of its rows and columns."""

    title: str
    note: str
    rows: Sequence[str]
    columns: Sequence[str]
    numbers: Array


class Frame(NamedTuple):
    """Where the points of a plane are (P, 2), and what is said of it."""

    name: str
    places: Array
    said: str


class Mark(NamedTuple):
    """A point of a plane: its name beside it, if any, what is said of it, and its group."""

    name: str
    text: str
    group: str


class NumberRow(NamedTuple):
    """A number, what a book prints in its place, and whether that is the same when rounded."""

    name: str
    value: float
    book: str | None
    agrees: bool | None


def steps_by_hand(
    title: str, note: str, columns: Sequence[str], rows: Sequence[Step], shaded: bool = False
) -> PageSection:
    """Return arithmetic as a picture: a column for each word, a row for each step.

    `shaded` colours the cells of a table of probabilities.
    """
    shown = []
    for row in rows:
        cells = []
        for cell in row.cells:
            shade = cell.values[0] if shaded else 0.0
            cells.append({"text": _text(cell.values), "book": cell.book, "shade": shade})
        shown.append({"name": row.name, "cells": cells})
    data = {"title": title, "note": note, "columns": list(columns), "rows": shown}
    return PageSection("worked", title, data)


def sheets_section(title: str, sheets: Sequence[Sheet]) -> PageSection:
    """Return tables of numbers as shades."""
    shown = []
    for sheet in sheets:
        largest = float(np.abs(sheet.numbers).max(initial=1e-9))
        shown.append(
            {
                "title": sheet.title,
                "note": sheet.note,
                "rows": list(sheet.rows),
                "columns": list(sheet.columns),
                "numbers": fixed(sheet.numbers),
                "largest": largest,
            }
        )
    return PageSection("sheets", title, {"sheets": shown})


def plane_section(
    title: str,
    note: str,
    marks: Sequence[Mark],
    frames: Sequence[Frame],
    arrows: Sequence[tuple[int, int]] = (),
) -> PageSection:
    """Return points on two axes, in one frame or several to choose from."""
    shown = []
    for frame in frames:
        shown.append({"name": frame.name, "places": fixed(frame.places), "said": frame.said})
    data = {
        "title": title,
        "note": note,
        "marks": [mark._asdict() for mark in marks],
        "groups": list(dict.fromkeys(mark.group for mark in marks)),
        "frames": shown,
        "arrows": [list(arrow) for arrow in arrows],
    }
    return PageSection("points", title, data)


def printed_section(numbers: Sequence[NumberRow], notes: Sequence[str]) -> PageSection:
    """Return numbers beside those of a book, and sentences about them."""
    rows = []
    for one in numbers:
        rows.append(one._asdict() | {"value": _text([one.value])})
    data = {"numbers": rows, "notes": list(notes)}
    return PageSection("printed", "The numbers, and what to note", data)


def _text(values: Sequence[float]) -> str:
    """Return a number, or a vector in brackets, as the page prints it."""
    if len(values) == 1:
        return _number(values[0])
    return f"[{'  '.join(_number(value) for value in values)}]"


def _number(value: float) -> str:
    rounded = round(value, DECIMALS) + 0.0  # no sign where all decimals are 0
    text = f"{rounded:.{DECIMALS}f}"
    return text.replace("-", "−")
