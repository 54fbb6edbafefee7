"""What a projector's page has of its points: parts of texts, colours by columns, pictures.

N points, W words, K neighbours.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from firth.pages.projector import Cloud, Excerpt, Groups, Scale
from firth.probes.projection import Point, PointText, ProjectedFrame
from firth.reading.columns import LABELS
from firth.reading.rowreader import parsed_number

AROUND = 200  # characters on either side of a word, and half of those of a text
DOTS = "…"
COLOURED = 12  # values of a column that have a colour of their own
MOST_GROUPS = 1000  # values of a column that a page holds
MOST_COLUMNS = 20
LONGEST_NAME = 80  # characters of a value
WORD = "word"  # the column of the words that points stand for


def excerpts(points: Sequence[Point], texts: Sequence[PointText]) -> list[Excerpt]:
    """Return the part of each point's text that a page shows."""
    found = []
    for point in points:
        text = texts[point.text].text
        if point.place is None:
            found.append(Excerpt("", "", _cut_end(text, 2 * AROUND)))
            continue
        start, end = point.place.start, point.place.end
        before = text[max(0, start - AROUND) : start]
        if start > AROUND:
            before = DOTS + before
        found.append(Excerpt(before, text[start:end], _cut_end(text[end:], AROUND)))
    return found


def shortened_texts(texts: Sequence[PointText]) -> int:
    """Return how many texts are longer than the part that a page shows."""
    return sum(len(text.text) > 2 * AROUND for text in texts)


def _cut_end(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + DOTS


def clouds(frames: Iterable[ProjectedFrame]) -> list[Cloud]:
    """Return pictures as arrays."""
    found = []
    for frame in frames:
        numbers = cosines = None
        if frame.neighbours is not None:
            numbers = frame.neighbours.numbers.numpy()
            cosines = frame.neighbours.cosines.numpy()
        found.append(Cloud(frame.name, frame.said, frame.places.numpy(), numbers, cosines))
    return found


def word_column(points: Sequence[Point], words: Sequence[str], static: Sequence[int]) -> Groups:
    """Return the words that points stand for as groups, with those of the table after them."""
    codes = [point.place.word for point in points if point.place is not None]
    codes += static
    return Groups(WORD, words, np.array(codes, np.int64), COLOURED)


def value_columns(
    points: Sequence[Point], texts: Sequence[PointText], static: int
) -> tuple[list[Groups | Scale], list[str]]:
    """Return the columns of a file by which points can be coloured, and why others can't.

    Words of the table have no value.
    """
    names = dict.fromkeys(name for text in texts for name in text.row)
    found: list[Groups | Scale] = []
    left_out = []
    for name in names:
        values = [_value(texts[point.text].row.get(name)) for point in points]
        values += [None] * static
        column = _column(name, values)
        if column is None:
            left_out.append(name)
        else:
            found.append(column)
    notes = []
    if left_out:
        names_left = ", ".join(map(repr, left_out[:MOST_COLUMNS]))
        notes.append(f"columns with one value, or too many, can't colour points: {names_left}")
    if len(found) > MOST_COLUMNS:
        notes.append(f"of {len(found)} columns to colour by the page has {MOST_COLUMNS}")
    return found[:MOST_COLUMNS], notes


def first_colour(columns: Sequence[Groups | Scale], words: int) -> int | None:
    """Return the number of the column to colour by at first: several words, a label, the first."""
    names = [column.name.strip().lower() for column in columns]
    if words > 1:
        return names.index(WORD)
    usual = [names.index(name) for name in LABELS if name in names]
    others = [number for number in range(len(names)) if words == 0 or number]
    return next(iter(usual + others), None)


def _value(value: Any) -> Any:
    """Return a cell of a file; None where it holds nothing."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    number = parsed_number(value)
    if number is not None and not math.isfinite(number):
        return None
    if isinstance(value, Mapping | list | bool):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value


def _column(name: str, values: Sequence[Any]) -> Groups | Scale | None:
    """Return numbers as a scale and other values as groups; None where nothing is to be seen."""
    counts = Counter(str(value) for value in values if value is not None)
    numbers = {text: parsed_number(text) for text in counts}
    is_numeric = None not in numbers.values()
    if len(counts) < 2:
        return None
    if is_numeric and len(counts) > COLOURED:
        row = [math.nan if value is None else numbers[str(value)] for value in values]
        return Scale(name, np.array(row, np.float32))
    if len(counts) > max(COLOURED, min(MOST_GROUPS, counts.total() // 2)):
        return None
    if is_numeric:
        groups = sorted(counts, key=lambda text: (numbers[text], text))
    else:
        groups = [text for text, _ in counts.most_common()]
    number = {text: at for at, text in enumerate(groups)}
    codes = [len(groups) if value is None else number[str(value)] for value in values]
    shown = [_cut_end(text, LONGEST_NAME) for text in groups]
    return Groups(name, shown, np.array(codes, np.int64), COLOURED)
