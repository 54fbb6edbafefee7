"""What happened in a run, one JSON object a line, in the order of its steps."""

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
        """Write one record, at once."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise FirthError(
                f"{self.path} can't be written: {error.strerror}; --resume goes on from the newest checkpoint"
            ) from error

    def sync(self) -> None:
        """Wait until all of it is on disk."""
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
        """Keep the first `count` records."""
        if self.path.exists():
            with new_file(self.path, force=True) as fresh:
                fresh.write_text(
                    "".join(json.dumps(record) + "\n" for record in islice(self, count)),
                    encoding="utf-8",
                )
