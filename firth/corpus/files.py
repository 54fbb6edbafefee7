"""A corpus: the documents of files and folders, line by line, and the rows of a file that has columns."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from firth.base.errors import InputError
from firth.data.examples import Example, Labelled
from firth.reading.columns import USUAL, Named
from firth.reading.format import is_table
from firth.reading.readers import Reading
from firth.text.lines import PACKED, Report, is_jsonl, lines, texts
from firth.text.repair import garbled

ENDINGS = {".txt", ".jsonl"}
MOST_GARBLED = 0.001  # share of a file's lines
NAMED = 5  # files that a report names


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
        below = [p for p in _below(path) if not _is_hidden(p, path)]
        text = [p for p in below if _is_text(p.name.lower())]
        if not text:
            tables = " (its tables can be named one by one)" if any(map(is_table, below)) else ""
            raise InputError(
                f"{path} has no .txt or .jsonl file in it, nor .gz or .zst of them{tables}"
            )
        found += text
    return found


def passed_over(paths: Iterable[Path]) -> str:
    """Return a sentence that counts and names the files below folders that `corpus_files` leaves out or that are empty, or ""."""
    found: dict[str, list[str]] = {"of other kinds": [], "hidden": [], "empty": []}
    for path in paths:
        for below in _below(path) if path.is_dir() else [path]:
            name = below.relative_to(path).as_posix() if path.is_dir() else str(path)
            if path.is_dir() and _is_hidden(below, path):
                found["hidden"].append(name)
            elif path.is_dir() and not _is_text(below.name.lower()):
                found["of other kinds"].append(name)
            elif below.is_file() and not below.stat().st_size:
                found["empty"].append(name)
    kinds = [f"{len(names):,} {kind} ({_some(names)})" for kind, names in found.items() if names]
    total = sum(map(len, found.values()))
    return (
        f"{total:,} file{'s were' if total > 1 else ' was'} passed over: {', '.join(kinds)}"
        if total
        else ""
    )


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (" ..." if len(names) > NAMED else "")


@dataclass
class Mojibake:
    """Count the lines that look like UTF-8 read in another encoding, and refuse a file in which they are too many.

    With `--encoding utf-8` a file is taken as it is: its owner says that it is right.
    """

    encoding: str | None = None
    lines: int = 0  # that are garbled, in all files
    first: str = ""  # what the first has, and where

    def watched(self, path: Path, given: Iterable[Paragraph]) -> Iterator[Paragraph]:
        """Give the lines of a file on, and judge the file at its end."""
        total = bad = 0
        sample = ""
        for total, line in enumerate(given, 1):  # noqa: B007 - it is the number of lines
            if marks := garbled(line.text):
                bad += 1
                sample = sample or marks
            yield line
        self.lines += bad
        self.first = self.first or (f"{sample!r} in {path.name}" if bad else "")
        trusted = self.encoding is not None and self.encoding.lower().replace("_", "-") in (
            "utf-8",
            "utf8",
        )
        if bad > MOST_GARBLED * total and not trusted:
            raise InputError(
                f"{path}: {bad:,} of {total:,} lines have signs such as {sample!r}, which UTF-8 becomes when it is read as "
                f"{self.encoding or 'another encoding'}: {self._cure(path)}"
            )

    def _cure(self, path: Path) -> str:
        if self.encoding:
            return "give the file's own encoding with --encoding, or none if it is UTF-8"
        unpack = {".gz": f"zcat {path.name} | ", ".zst": f"zstdcat {path.name} | "}.get(
            path.suffix.lower(), ""
        )
        source = "" if unpack else f" < {path.name}"
        command = f", or repair it ({unpack}python -m firth.text.repair{source} > NEW)"
        # Objects may hold their letters as escapes, and parquet has no lines.
        lines_of_text = {".txt", ".csv", ".tsv"}.intersection(
            suffix.lower() for suffix in path.suffixes[-2:]
        )
        return f"export it again as UTF-8{command if lines_of_text else ''}, or say that it is right with --encoding utf-8"

    def __str__(self) -> str:
        signs = "have signs" if self.lines > 1 else "has signs"
        lines = f"{self.lines:,} line{'s' if self.lines > 1 else ''}"
        return f"{lines} {signs} that UTF-8 becomes when it is read as another encoding, the first {self.first}"


def _is_text(name: str) -> bool:
    path = Path(name)
    return (Path(path.stem) if path.suffix in PACKED else path).suffix in ENDINGS


def paragraphs(
    paths: Iterable[Path],
    fields: str = USUAL,
    encoding: str | None = None,
    report: Report | None = None,
    mojibake: Mojibake | None = None,
) -> Iterator[Paragraph]:
    """The documents of files, line by line: parted by a blank line in .txt; an object of .jsonl or a row of a table is one."""
    report = report or Report()
    for path in paths:
        found = _paragraphs(path, fields, encoding, report)
        yield from mojibake.watched(path, found) if mojibake else found


def _paragraphs(
    path: Path, fields: str, encoding: str | None, report: Report
) -> Iterator[Paragraph]:
    if is_jsonl(path) or is_table(path):
        for text in _documents(path, fields, encoding, report):
            yield from (
                Paragraph(line, number == 0) for number, line in enumerate(text.split("\n"))
            )
        return
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


def rows(
    path: Path, fields: str, second: str | None, encoding: str | None, report: Report
) -> Iterator[Example]:
    """The texts, or pairs of texts, of a file with columns; a row that can't be read stops it, so that none is lost unseen."""
    reading = Reading(
        path, Named.of(None if fields == USUAL else fields, second), encoding, labels=False
    )
    for row in reading:
        if row.example is None:
            raise InputError(f"{path}:{row.line} {row.fault}")
        yield row.example
    report.characters += reading.report.characters
    report.replaced += reading.report.replaced
