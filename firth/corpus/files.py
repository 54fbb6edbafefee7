"""A corpus: the documents of files and folders, line by line, and the rows of tables."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from firth.base.errors import InputError
from firth.data.examples import Example
from firth.reading.columns import USUAL, Named
from firth.reading.format import is_table_file
from firth.reading.readers import Reading
from firth.text.lines import PACKED, Report, is_jsonl, lines, texts
from firth.text.repair import garbled

ENDINGS = {".txt", ".jsonl"}
MOST_GARBLED = 0.001  # share of a file's lines
NAMED = 5  # files that a report names
TEXT_LINES = {".txt", ".csv", ".tsv"}  # files of lines of text
UNPACK = {".gz": "zcat", ".zst": "zstdcat"}


class Paragraph(NamedTuple):
    """A line of a document."""

    text: str
    first: bool  # whether its document begins with it


def corpus_files(paths: Iterable[Path]) -> list[Path]:
    """Return the given files, and the text files below the given folders in sorted order."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += _text_files(path)
        else:
            found.append(path)
    return found


def _text_files(folder: Path) -> list[Path]:
    below = [path for path in _below(folder) if not _is_hidden(path, folder)]
    text = [path for path in below if _is_text(path.name.lower())]
    if text:
        return text
    tables = ""
    if any(is_table_file(path) for path in below):
        tables = " (its tables can be named one by one)"
    raise InputError(f"{folder} has no .txt or .jsonl file in it, nor .gz or .zst of them{tables}")


def passed_over(paths: Iterable[Path]) -> str:
    """Return a sentence that counts and names the files that are left out or empty, or ""."""
    found: dict[str, list[str]] = {"of other kinds": [], "hidden": [], "empty": []}
    for path in paths:
        if not path.is_dir():
            if _is_empty(path):
                found["empty"].append(str(path))
            continue
        for below in _below(path):
            name = below.relative_to(path).as_posix()
            if _is_hidden(below, path):
                found["hidden"].append(name)
            elif not _is_text(below.name.lower()):
                found["of other kinds"].append(name)
            elif _is_empty(below):
                found["empty"].append(name)

    total = sum(len(names) for names in found.values())
    if not total:
        return ""
    files = "1 file was" if total == 1 else f"{total:,} files were"
    kinds = [f"{len(names):,} {kind} ({_some(names)})" for kind, names in found.items() if names]
    return f"{files} passed over: {', '.join(kinds)}"


def _below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if not path.is_dir())


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _is_empty(path: Path) -> bool:
    return path.is_file() and not path.stat().st_size


def _some(names: Sequence[str]) -> str:
    """Name the first few."""
    dots = " ..." if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + dots


@dataclass
class Mojibake:
    """Counts lines that look like UTF-8 read in another encoding, and refuses too many of them.

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
        if bad and not self.first:
            self.first = f"{sample!r} in {path.name}"
        if bad > MOST_GARBLED * total and not self._trusted():
            raise InputError(
                f"{path}: {bad:,} of {total:,} lines have signs such as {sample!r}, which UTF-8 "
                f"becomes when it is read as {self.encoding or 'another encoding'}: "
                f"{self._cure(path)}"
            )

    def _trusted(self) -> bool:
        """Say whether the user has said that the files are UTF-8."""
        name = (self.encoding or "").lower().replace("_", "-")
        return name in ("utf-8", "utf8")

    def _cure(self, path: Path) -> str:
        if self.encoding:
            return "give the file's own encoding with --encoding, or none if it is UTF-8"
        repair = ""
        # Objects may hold their letters as escapes, and parquet has no lines.
        if TEXT_LINES.intersection(suffix.lower() for suffix in path.suffixes[-2:]):
            repair = f", or repair it ({_repair(path)} > NEW)"
        trust = "say that it is right with --encoding utf-8"
        return f"export it again as UTF-8{repair}, or {trust}"

    def __str__(self) -> str:
        lines = "1 line has" if self.lines == 1 else f"{self.lines:,} lines have"
        return (
            f"{lines} signs that UTF-8 becomes when it is read as another encoding, "
            f"the first {self.first}"
        )


def _repair(path: Path) -> str:
    """Return the command that repairs a file."""
    command = "python -m firth.text.repair"
    unpack = UNPACK.get(path.suffix.lower())
    if unpack is None:
        return f"{command} < {path.name}"
    return f"{unpack} {path.name} | {command}"


def _is_text(name: str) -> bool:
    path = Path(name)
    if path.suffix in PACKED:
        path = Path(path.stem)
    return path.suffix in ENDINGS


def paragraphs(
    paths: Iterable[Path],
    fields: str = USUAL,
    encoding: str | None = None,
    report: Report | None = None,
    mojibake: Mojibake | None = None,
) -> Iterator[Paragraph]:
    """Read the documents of files line by line.

    They are parted by a blank line in .txt; an object of .jsonl or a row of a table is one.
    """
    report = report or Report()
    for path in paths:
        found = _paragraphs(path, fields, encoding, report)
        if mojibake is not None:
            found = mojibake.watched(path, found)
        yield from found


def _paragraphs(
    path: Path, fields: str, encoding: str | None, report: Report
) -> Iterator[Paragraph]:
    if is_jsonl(path) or is_table_file(path):
        for text in _documents(path, fields, encoding, report):
            for number, line in enumerate(text.split("\n")):
                yield Paragraph(line, first=number == 0)
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
        yield "\n".join(example.texts)


def rows(
    path: Path, fields: str, second: str | None, encoding: str | None, report: Report
) -> Iterator[Example]:
    """Read the texts, or pairs of texts, of a file with columns.

    A row that can't be read stops it, so that none is lost unseen.
    """
    text = None if fields == USUAL else fields
    reading = Reading(path, Named.of(text, second), encoding)
    for row in reading:
        if row.example is None:
            raise InputError(f"{path}:{row.line} {row.fault}")
        yield row.example
    report.characters += reading.report.characters
    report.replaced += reading.report.replaced
