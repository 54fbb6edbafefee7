"""What `firth view --example` prints."""

import json
from collections.abc import Iterator, Sequence

from firth.base.errors import InputError
from firth.textbook.names import PICTURES, find_picture

LIST = "list"


def show_example(
    name: str,
    words: Sequence[str],
    out: str | None,
    as_json: bool,
    force: bool,
    threads: int | None,
) -> None:
    """Write the page of an example and say where it is, or print its numbers; or list all."""
    if name == LIST:
        for line in picture_lines():
            print(line)
        return
    find_picture(name)  # before anything heavy is imported
    if len(words) > 1:
        raise InputError(f"--example {name} takes one model at most, and no text")

    from firth.verbs.view import example

    model = words[0] if words else None
    found = example(name, model, out, threads=threads, force=force)
    if as_json:
        print(json.dumps(found.as_json()))
        return
    compared = [number for number in found.numbers if number.agrees is not None]
    wrong = [number for number in compared if not number.agrees]
    said = f", {len(compared)} numbers of the book, {len(wrong)} differ" if compared else ""
    print(f"{found.path}: {name}{said}; open it in a browser")


def picture_lines() -> Iterator[str]:
    """Yield a line for each example: its name, what it needs, what it shows."""
    names = max(len(picture.name) for picture in PICTURES)
    needs = max(len(picture.needed) for picture in PICTURES)
    for picture in PICTURES:
        yield f"{picture.name:{names}}  {picture.needed:{needs}}  {picture.help}"
