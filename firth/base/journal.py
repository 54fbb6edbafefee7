"""The journal of a run: one JSON object a line, in the order of its steps."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from firth.base.errors import FirthError
from firth.base.files import new_file, sync


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


def _line(record: dict[str, Any]) -> str:
    """Return a record as a line of the file."""
    return json.dumps(record) + "\n"
