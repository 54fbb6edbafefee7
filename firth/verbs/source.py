"""Where a command's texts come from: a file, a field of a file, or standard input."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from firth.text.corpus import Report, lines, texts


@dataclass(frozen=True)
class Source:
    """A file with one text a line, or with an object a line (.jsonl); `-` is standard input."""

    name: str
    fields: str = "text"
    encoding: str | None = None
    report: Report = field(default_factory=Report)

    def __iter__(self) -> Iterator[str]:
        self.report.clear()
        if self.name == "-":
            return lines(sys.stdin.buffer, self.encoding, self.report)
        return texts(Path(self.name), self.fields, self.encoding, self.report)

    def count(self) -> int | None:
        """How many texts there will be; reading them once also finds whatever is wrong before any work is done."""
        return None if self.name == "-" else sum(1 for _ in self)

    def say(self) -> None:
        """Say how many characters could not be read and were replaced."""
        if self.report.replaced:
            print(f"note: {self.name}: {self.report}", file=sys.stderr)
