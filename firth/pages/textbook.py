"""The sections of textbooks' pictures: arithmetic step by step, sheets of numbers, planes.

R rows, C columns, F frames, P points.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from firth.pages.page import Array, PageSection, fixed

DECIMALS = 4
WHOLE = 1e-9  # a number that is no further from a whole one is printed as such


class Cell(NamedTuple):
    """A number or a vector of a picture, and what a book prints in its place."""

    values: Sequence[float]
    book: str | None = None


class WorkedRow(NamedTuple):
    """A row of arithmetic: what is done, and a cell for each column or one for all."""

    name: str
    cells: Sequence[Cell]


class Worked(NamedTuple):
    """Arithmetic as a picture: a column for each word, a row for each step."""

    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[WorkedRow]
    shaded: bool = False  # cells are probabilities, shown as shades


class NumberSheet(NamedTuple):
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


class Plane(NamedTuple):
    """Points on two axes, in one frame or several to choose from, and arrows between points."""

    title: str
    note: str
    choice: str  # what is chosen among frames
    marks: Sequence[Mark]
    frames: Sequence[Frame]
    arrows: Sequence[tuple[int, int]] = ()


class NumberRow(NamedTuple):
    """A number, what a book prints in its place, and whether that is the same when rounded."""

    name: str
    value: float
    book: str | None
    agrees: bool | None


def worked_section(title: str, pictures: Sequence[Worked]) -> PageSection:
    """Return arithmetic step by step."""
    shown = []
    for picture in pictures:
        rows = []
        for row in picture.rows:
            cells = [_cell(cell, picture.shaded) for cell in row.cells]
            rows.append({"name": row.name, "cells": cells})
        shown.append(
            {
                "title": picture.title,
                "note": picture.note,
                "columns": list(picture.columns),
                "rows": rows,
            }
        )
    return PageSection("worked", title, {"pictures": shown})


def sheets_section(title: str, sheets: Sequence[NumberSheet]) -> PageSection:
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


def plane_section(title: str, planes: Sequence[Plane]) -> PageSection:
    """Return points on two axes."""
    shown = []
    for plane in planes:
        frames = []
        for frame in plane.frames:
            places = fixed(frame.places)
            frames.append({"name": frame.name, "places": places, "said": frame.said})
        shown.append(
            {
                "title": plane.title,
                "note": plane.note,
                "choice": plane.choice,
                "marks": [mark._asdict() for mark in plane.marks],
                "groups": list(dict.fromkeys(mark.group for mark in plane.marks)),
                "frames": frames,
                "arrows": [list(arrow) for arrow in plane.arrows],
            }
        )
    return PageSection("points", title, {"planes": shown})


def printed_section(numbers: Sequence[NumberRow], notes: Sequence[str]) -> PageSection:
    """Return numbers beside those of a book, and sentences about them."""
    rows = [one._asdict() | {"value": _text([one.value])} for one in numbers]
    data = {"numbers": rows, "notes": list(notes)}
    return PageSection("printed", "The numbers, and what to note", data)


def _cell(cell: Cell, shaded: bool) -> dict[str, object]:
    shade = cell.values[0] if shaded else 0.0
    return {"text": _text(cell.values), "book": cell.book, "shade": shade}


def _text(values: Sequence[float]) -> str:
    """Return a number, or a vector in brackets, as the page prints it."""
    if len(values) == 1:
        return _number(values[0])
    return f"[{'  '.join(_number(value) for value in values)}]"


def _number(value: float) -> str:
    if abs(value - round(value)) < WHOLE:
        text = str(round(value))
    else:
        text = f"{value:.{DECIMALS}f}"
    return text.replace("-", "−")
