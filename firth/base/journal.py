"""The journal of a run: one JSON object a line, in the order of its steps."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from firth.base.errors import FirthError, InputError
from firth.base.files import new_file, sync

LONGEST_LINE = 1 << 20  # bytes of a record
MOST_STEPS = 1 << 53  # whole numbers that a page's script can tell apart


class Journal:
    """An append-only file of records with a `step`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, **record: Any) -> None:
        """Append one record, at once."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(record))
        except OSError as error:
            cure = "--resume goes on from the newest checkpoint"
            raise FirthError(f"{self.path} can't be written: {error.strerror}; {cure}") from error

    def sync(self) -> None:
        """Wait until all records are on disk."""
        if self.path.exists():
            sync(self.path)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Read the records; a last line that a killed process left unfinished is passed over."""
        if not self.path.exists():
            return
        with self.path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:
                    return
                yield record

    def cut(self, count: int) -> None:
        """Keep the first `count` records and drop the others."""
        if not self.path.exists():
            return
        kept = "".join(map(_line, islice(self, count)))
        with new_file(self.path, force=True) as fresh:
            fresh.write_text(kept, encoding="utf-8")


class JournalReader:
    """Reads a journal while a run writes it: each iteration gives the records that are new.

    A line without its end is kept until the rest of it comes, and a damaged one is an error.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        self._begun = b""  # a line that has not ended
        self._lines = 0

    def renew(self) -> bool:
        """Go back to the beginning if the journal was cut or replaced; return whether it was."""
        if self._file is None:
            return self._open()
        # The open file keeps its number, so that no other has the same.
        ours = os.fstat(self._file.fileno())
        try:
            there = self.path.stat()
        except OSError:
            there = None
        same = there is not None and os.path.samestat(ours, there)
        if same and ours.st_size >= self._file.tell():
            return False
        self.close()
        self._open()
        return True

    def _open(self) -> bool:
        """Open the journal, if there is one."""
        try:
            self._file = self.path.open("rb")
        except FileNotFoundError:
            return False
        except OSError as error:
            raise InputError(f"{self.path} can't be read: {error.strerror}") from error
        return True

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self._begun = b""
        self._lines = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Read the records that were added since the last time."""
        while self._file is not None:
            part = self._file.readline(LONGEST_LINE)
            self._begun += part
            whole = self._begun.endswith(b"\n")
            if not part or (not whole and len(self._begun) < LONGEST_LINE):
                return
            self._lines += 1
            yield parse_record(self._begun, f"{self.path}:{self._lines}")
            self._begun = b""


def parse_record(line: bytes, where: str) -> dict[str, Any]:
    """Return the record of a journal's line; anything else is refused."""
    record = None
    with suppress(ValueError, RecursionError):
        record = json.loads(line)
    if not isinstance(record, dict) or not _is_count(record.get("step")):
        raise InputError(f"{where} is no record of a run: the journal is damaged there")
    if not isinstance(record.get("dev", {}), dict):
        raise InputError(f"{where} has no metrics in 'dev': the journal is damaged there")
    return record


def _is_count(value: object) -> bool:
    """Tell a number of steps from anything else."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST_STEPS


def _line(record: dict[str, Any]) -> str:
    """Return a record as a line of the file."""
    return json.dumps(record) + "\n"
