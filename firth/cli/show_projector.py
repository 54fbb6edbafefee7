"""What `firth view --projector` and `--words` print."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from firth.base.errors import InputError
from firth.data.record import on_a_line

if TYPE_CHECKING:
    from firth.verbs.projector import ProjectorView

MODEL_AND_FILE = 2


def show_projector(
    words: Sequence[str], sought: str | None, out: str | None, as_json: bool, **options: Any
) -> None:
    """Write the page of a projector and say what is in it, or print that as one JSON object."""
    if len(words) != MODEL_AND_FILE:
        raise InputError("a projector takes one model and one file with texts, or - for the file")

    from firth.verbs.projector import projector

    model, source = words
    names = None if sought is None else sought.split(",")
    found = projector(model, source, out, words=names, **options)
    if as_json:
        print(json.dumps(found.as_json()))
        return
    print("\n".join(projector_lines(found)))


def projector_lines(found: "ProjectorView") -> Iterator[str]:
    """Yield where the page is, and a line for each word."""
    frames = ", ".join(found.frames)
    points = f"{found.points:,} points of {found.texts:,} texts"
    yield f"{found.path}: {points} ({frames}); open it in a browser"
    for word in found.words:
        counts = f"places {word.places:,}, texts {word.texts:,}, points {word.points:,}"
        yield f"  {on_a_line(word.word)}: {counts}"
