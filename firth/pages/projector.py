"""The section of a page with many points on two axes, their texts, colours and neighbours.

P points, of which the last may be words of the embedding table; K neighbours.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from firth.pages.page import Array, Fixed, PageSection, fixed

FARTHEST = 32767  # what the largest distance of a point from the middle of a picture is held as


class Excerpt(NamedTuple):
    """A part of a text around the word that a point stands for."""

    before: str
    word: str
    after: str


class Cloud(NamedTuple):
    """Where points are (P, 2), what is said of it, and their neighbours (P, K) and cosines."""

    name: str
    said: str
    places: Array
    neighbours: Array | None
    cosines: Array | None


class Groups(NamedTuple):
    """A column by which points are coloured: names, and the number of each point's name (P).

    The number after those of all names stands for no value. The first `coloured` have colours.
    """

    name: str
    groups: Sequence[str]
    codes: Array
    coloured: int


class Scale(NamedTuple):
    """A column of numbers by which points are coloured (P); NaN for no value."""

    name: str
    values: Array


class WordLine(NamedTuple):
    """A row of the table below the picture: a word, its pieces, and what was found of it."""

    word: str
    pieces: Sequence[str]
    texts: int
    places: int
    points: int


def projector_section(
    title: str,
    excerpts: Sequence[Excerpt],
    static: Sequence[str],
    clouds: Sequence[Cloud],
    columns: Sequence[Groups | Scale],
    colour: int | None,
    words: Sequence[WordLine],
    notes: Sequence[str],
) -> PageSection:
    """Return points on two axes; `static` are the words of the table that follow the excerpts.

    `colour` is the number of the column that colours them at first.
    """
    frames = []
    spaces: list[dict[str, Any]] = []
    last: Array | None = None
    for cloud in clouds:
        if cloud.neighbours is not None and cloud.neighbours is not last:
            last = cloud.neighbours
            cosines = fixed(np.asarray(cloud.cosines))
            numbers = _whole(cloud.neighbours)
            spaces.append({"name": cloud.name, "neighbours": numbers, "cosines": cosines})
        space = None if cloud.neighbours is None else len(spaces) - 1
        places = _spread(cloud.places)
        frames.append({"name": cloud.name, "said": cloud.said, "places": places, "space": space})
    data = {
        "count": len(excerpts),
        "excerpts": _packed([part for excerpt in excerpts for part in excerpt]),
        "static": list(static),
        "frames": frames,
        "spaces": spaces,
        "columns": [_column(column) for column in columns],
        "colour": colour,
        "words": [word._asdict() | {"pieces": list(word.pieces)} for word in words],
        "notes": list(notes),
    }
    return PageSection("projector", title, data)


def _packed(texts: Sequence[str]) -> Array:
    """Return texts as an array, which a page holds compressed: the bytes of a JSON list."""
    return np.frombuffer(json.dumps(texts, ensure_ascii=False).encode(), np.uint8)


def _spread(places: Array) -> Array:
    """Return places as whole numbers around the middle: a picture has no other unit."""
    low, high = places.min(0), places.max(0)
    centred = places.astype(np.float64) - (low + high) / 2
    largest = float(np.abs(centred).max(initial=0.0)) or 1.0
    whole: Array = np.rint(centred * (FARTHEST / largest)).astype(np.int16)
    return whole


def _whole(numbers: Array) -> Array:
    """Return whole numbers in as few bytes as they take."""
    largest = int(numbers.max(initial=0))
    return numbers.astype(np.uint16 if largest < 1 << 16 else np.int32)


def _column(column: Groups | Scale) -> dict[str, Any]:
    if isinstance(column, Scale):
        return {"name": column.name, "values": column.values.astype(np.float32)}
    codes: Array | Fixed = _whole(column.codes)
    return {
        "name": column.name,
        "groups": list(column.groups),
        "codes": codes,
        "coloured": column.coloured,
    }
