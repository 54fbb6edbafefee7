"""`firth view`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from firth.base.errors import InputError
from firth.cli.options import Column, Config, Encoding, Force, Form, Overrides, Threads


def view(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL... FILE|TEXT",
            help="Model folders, then a file with one text a line, a text, or -.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="The page to write, an .html file.")
    ] = None,
    field: Column = "text",
    encoding: Encoding = None,
    form: Form = None,
    threads: Threads = None,
    json: Annotated[bool, typer.Option("--json", help="Print all as one JSON object.")] = False,
    force: Force = False,
    config: Config = None,
    overrides: Overrides = [],  # noqa: B006 - typer reads it, nobody changes it
) -> None:
    """Look inside language models: how far back each looks in a text, as a table and as a page for a browser.

    Example: firth view lstm/ gpt/ letters.txt -o looks.html
    """
    *models, source = words
    if not models or os.path.isdir(source):  # noqa: PTH112 - a path refuses a text that is too long for a name
        raise InputError(
            "which text? Name model folders and then a file, a text in quotes, or - for standard input"
        )

    from firth.verbs.view import show
    from firth.verbs.view import view as run

    found = run(
        models,
        source,
        out,
        field=field,
        encoding=encoding,
        form=form.value if form else None,
        threads=threads,
        force=force,
    )
    show(found, json)
