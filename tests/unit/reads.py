"""Files as tasks read them."""

from pathlib import Path
from typing import Any

from firth.reading.columns import Named
from firth.reading.readers import Reading
from firth.tasks.registry import readers


def open_file(
    path: Path,
    named: Named | None = None,
    encoding: str | None = None,
    task: str | None = None,
    **options: Any,
) -> Reading:
    """Open a file for a task or, if none is named, for whichever it suits."""
    return Reading(path, named, encoding, readers(task), **options)
