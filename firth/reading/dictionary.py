"""Dictionaries: a word and its translation a line, with a line for each of several translations."""

from collections.abc import Iterator
from pathlib import Path

from firth.base.errors import InputError
from firth.text.lines import raw_lines

DELIMITERS = ("\t", ";", ",")
HEADERS = {("word", "translation"), ("source", "target")}

Pair = tuple[str, str]


def read_dictionary(path: Path) -> list[Pair]:
    """Return the pairs of a file of two columns, by tabs, semicolons, commas or blanks, once each.

    Blank lines, lines that begin with # and a header of two usual names are passed over.
    """
    pairs = list(dict.fromkeys(_pairs(path)))
    if not pairs:
        raise InputError(f"{path} has no words")
    return pairs


def _pairs(path: Path) -> Iterator[Pair]:
    """Yield the pairs of a file."""
    begun = False
    for number, line in enumerate(raw_lines(path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = _fields(line)
        if len(fields) != 2 or not all(fields):
            columns = f"{len(fields)} columns" if all(fields) else "an empty column"
            raise InputError(f"{path}:{number} has {columns} where a word and its translation go")
        first, second = fields
        if begun or (first.lower(), second.lower()) not in HEADERS:
            yield first, second
        begun = True


def _fields(line: str) -> list[str]:
    """Return the columns of a line."""
    for delimiter in DELIMITERS:
        if delimiter in line:
            return [field.strip(' "\r') for field in line.split(delimiter)]
    return line.split()
