"""A corpus: the documents of files and folders, line by line, and the rows of a file that has columns."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from firth.base.errors import InputError
from firth.data.columns import Named
from firth.data.examples import Example, Labelled
from firth.data.format import is_table
from firth.data.readers import Reading
from firth.text.lines import PACKED, Report, is_jsonl, lines, texts

USUAL = "text"  # the field of an object; in a table, whichever column has one of the usual names
ENDINGS = {".txt", ".jsonl"}


class Paragraph(NamedTuple):
    """A line of a document."""

    text: str
    first: bool  # whether its document begins with it


def corpus_files(paths: Iterable[Path]) -> list[Path]:
    """The text files among the given files and below the given folders, in sorted order; a named file is taken as it is."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        below = sorted(
            p for p in path.rglob("*") if not p.is_dir() and not any(part.startswith(".") for part in p.relative_to(path).parts)
        )
        text = [p for p in below if _is_text(p.name.lower())]
        if not text:
            tables = " (its tables can be named one by one)" if any(map(is_table, below)) else ""
            raise InputError(f"{path} has no .txt or .jsonl file in it, nor .gz or .zst of them{tables}")
        found += text
    return found


def _is_text(name: str) -> bool:
    path = Path(name)
    return (Path(path.stem) if path.suffix in PACKED else path).suffix in ENDINGS


def paragraphs(
    paths: Iterable[Path], fields: str = USUAL, encoding: str | None = None, report: Report | None = None
) -> Iterator[Paragraph]:
    """The documents of files, line by line: parted by a blank line in .txt; an object of .jsonl or a row of a table is one."""
    report = report or Report()
    for path in paths:
        if is_jsonl(path) or is_table(path):
            for text in _documents(path, fields, encoding, report):
                yield from (Paragraph(line, number == 0) for number, line in enumerate(text.split("\n")))
            continue
        first = True
        for line in lines(path, encoding, report):
            if line.strip():
                yield Paragraph(line, first)
                first = False
            else:
                first = True


def _documents(path: Path, fields: str, encoding: str | None, report: Report) -> Iterator[str]:
    if is_jsonl(path):
        yield from texts(path, fields, encoding, report)
        return
    for example in rows(path, fields, None, encoding, report):
        second = example.second if isinstance(example, Labelled) else None
        yield example.text if second is None else f"{example.text}\n{second}"


def rows(path: Path, fields: str, second: str | None, encoding: str | None, report: Report) -> Iterator[Example]:
    """The texts, or pairs of texts, of a file with columns; a row that can't be read stops it, so that none is lost unseen."""
    reading = Reading(path, Named.of(None if fields == USUAL else fields, second), encoding, labels=False)
    for row in reading:
        if row.example is None:
            raise InputError(f"{path}:{row.line} {row.fault}")
        yield row.example
    report.characters += reading.report.characters
    report.replaced += reading.report.replaced
