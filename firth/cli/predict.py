"""`firth predict`."""

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.options import Config, Encoding, Field, Force, Long, Overlong, Overrides, Threads


def predict(
    model: Annotated[str, typer.Argument(help="A model folder.")],
    source: Annotated[
        str, typer.Argument(metavar="FILE|TEXT", help="A file with one text a line, a text, or - for standard input.")
    ] = "-",
    out: Annotated[Path | None, typer.Option("-o", "--out", help="A .jsonl file; without it answers are printed.")] = None,
    top: Annotated[int, typer.Option(min=1, max=1000, help="How many pieces to give for each blank.")] = 5,
    long: Overlong = Long.cut,
    field: Field = "text",
    second: Annotated[str | None, typer.Option(help="The column with the second text of a pair.")] = None,
    encoding: Encoding = None,
    threads: Threads = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines instead of a table.")] = False,
    force: Force = False,
    config: Config = None,
    overrides: Overrides = [],  # noqa: B006 - typer reads it, nobody changes it
) -> None:
    """Answer texts with what the model was made for: a class, a number, named spans, or pieces for each [MASK].

    Example: firth predict triage/ tickets.txt -o answers.jsonl
    """
    from firth.verbs.predict import predict_file

    predict_file(
        model,
        source,
        out,
        top=top,
        long=long.value,
        field=field,
        second=second,
        encoding=encoding,
        threads=threads,
        as_lines=json,
        force=force,
    )
