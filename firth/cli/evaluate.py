"""`firth evaluate`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from firth.base.errors import InputError
from firth.cli.options import Config, Encoding, Missing, Overrides, Threads


class Way(StrEnum):
    """Of reading what is longer than the model reads."""

    cut = "cut"
    slide = "slide"
    carry = "carry"
    error = "error"


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL", help="Model folders for one task; a file at the end is --data."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="Examples: .csv, .tsv, .jsonl, .parquet, CoNLL columns; or a text."),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="The column with the text; several are joined: subject,body.")
    ] = None,
    second: Annotated[
        str | None, typer.Option(help="The column with the second text of a pair.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="The column with the label.")] = None,
    missing: Missing = [],  # noqa: B006
    encoding: Encoding = None,
    long: Annotated[
        Way | None,
        typer.Option(
            help="A text too long for the model: cut, slide (default for plain text), carry, error; default: as taught."
        ),
    ] = None,
    counts: Annotated[
        Path | None,
        typer.Option(
            help="A training text: perplexity is also given by how often words occur in it."
        ),
    ] = None,
    threads: Threads = None,
    json: Annotated[bool, typer.Option("--json", help="Print all as one JSON object.")] = False,
    config: Config = None,
    overrides: Overrides = [],  # noqa: B006 - typer reads it, nobody changes it
) -> None:
    """Measure models on labelled examples, or language models on plain text, with intervals; compare each with the first.

    Example: firth evaluate triage/ --data later.csv
    """
    if data is None:
        *models, last = models
        data = Path(last)
        if not data.is_file():
            raise InputError(
                f"which file holds the examples? {last!r} is no file; name one with --data"
            )

    from firth.evaluation.report import show
    from firth.verbs.evaluate import evaluate as run

    found = run(
        models,
        data,
        text=text,
        second=second,
        label=label,
        missing=missing,
        encoding=encoding,
        long=long.value if long else None,
        counts=counts,
        threads=threads,
    )
    show(found, json)
