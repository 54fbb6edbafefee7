"""Where a command's texts come from: a file, a field of a file, or standard input."""

import sys
from collections.abc import Iterator
from pathlib import Path

from firth.text.corpus import lines, texts


def read_texts(source: str, field: str, encoding: str | None) -> Iterator[str]:
    """One text a line, or one an object of a .jsonl file; `-` is standard input."""
    if source == "-":
        return lines(sys.stdin.buffer, encoding)
    return texts(Path(source), field, encoding)


def count_texts(source: str, field: str, encoding: str | None) -> int | None:
    """How many texts there will be; reading them once also finds whatever is wrong before any work is done."""
    return None if source == "-" else sum(1 for _ in read_texts(source, field, encoding))
