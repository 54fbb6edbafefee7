"""What happened in a run, one JSON object a line, in the order of its steps."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from firth.base.files import new_file


class Journal:
    """An append-only file of records with a `step`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, **record: Any) -> None:
        """Write one record, at once."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

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

    def cut(self, step: int) -> list[dict[str, Any]]:
        """Drop the records after a step, whole, and return them."""
        records = list(self)
        kept = [record for record in records if record["step"] <= step]
        if self.path.exists():
            with new_file(self.path, force=True) as fresh:
                fresh.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
        return records[len(kept) :]
