"""Where a command's texts come from: a file, a field or column of a file, or standard input."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from firth.base.errors import InputError
from firth.data.corpus import USUAL, rows
from firth.data.examples import Example, Labelled, Line
from firth.data.format import is_object, is_plain
from firth.text.lines import Report, joined, lines, objects


def _standard_input() -> BinaryIO:
    """Return standard input; what a person types is read at once, up to the first Ctrl-D."""
    if not sys.stdin.isatty():
        return sys.stdin.buffer
    print("note: type a text a line; Ctrl-D ends them", file=sys.stderr)
    return BytesIO(sys.stdin.buffer.read())


@dataclass(frozen=True)
class Source:
    """A file with one text a line, with an object a line, or with columns; `-` is standard input, with texts or objects.

    In a file with fields or columns the text, and the second of a pair, are found by their usual names where none was given, as in
    training.
    """

    name: str
    fields: str = USUAL
    encoding: str | None = None
    second: str | None = None
    report: Report = field(default_factory=Report)

    def __iter__(self) -> Iterator[str]:
        """The texts alone."""
        for example in self.examples():
            if isinstance(example, Labelled) and example.second is not None:
                raise InputError(f"{self.name} has pairs of texts, where one text is wanted: --text names its column")
            yield example.text

    def examples(self) -> Iterator[Example]:
        """The texts, or pairs of texts, in order; a row that can't be read stops it, so that no answer is given to another row."""
        self.report.clear()
        if self.name == "-":
            if self.second:
                raise InputError("--second names a column of a file, and standard input has none")
            return map(Line, self._piped())
        path = Path(self.name)
        if self.second or self.fields != USUAL or not is_plain(path, self.encoding):
            return rows(path, self.fields, self.second, self.encoding, self.report)
        return map(Line, lines(path, self.encoding, self.report))

    def _piped(self) -> Iterator[str]:
        """The texts of standard input: a line each or, where the first line is an object, a field of each."""
        given = lines(_standard_input(), self.encoding, self.report)
        first = list(islice(given, 1))
        every = chain(first, given)
        if not any(map(is_object, first)):
            yield from every
            return
        for number, record in objects(every, "standard input"):
            yield joined(record, self.fields, f"standard input:{number}", self.report)

    def count(self) -> int | None:
        """How many texts there will be; reading them once also finds whatever is wrong before any work is done."""
        return None if self.name == "-" else sum(1 for _ in self.examples())

    def say(self) -> None:
        """Say how many characters could not be read and were replaced."""
        if self.report.replaced:
            print(f"note: {self.name}: {self.report}", file=sys.stderr)
