"""`firth check`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from firth.cli.options import Config, Encoding, Missing, Overrides


class Task(StrEnum):
    """What the data are for."""

    classify = "classify"
    regress = "regress"
    tag = "tag"


def check(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="A .csv, .tsv, .jsonl, .json, .parquet or CoNLL file, or text; also .gz or .zst.",
        ),
    ],
    task: Annotated[
        Task | None, typer.Option(help="What it is for; by default what it looks like.")
    ] = None,
    dev: Annotated[
        Path | None,
        typer.Option(help="The file that will be held out: its texts must not be in DATA."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A model folder, or minilm: how the texts fit it.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="The column of the text; several are joined: subject,body.")
    ] = None,
    second: Annotated[
        str | None, typer.Option(help="The column of the second text, where there are pairs.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The column of the label, or of the spans.")
    ] = None,
    missing: Missing = [],  # noqa: B006
    encoding: Encoding = None,
    json: Annotated[bool, typer.Option("--json", help="Print all as one JSON object.")] = False,
    config: Config = None,
    overrides: Overrides = [],  # noqa: B006 - typer reads it, nobody changes it
) -> None:
    """Find what is wrong with data, before training on it.

    Example: firth check tickets.csv --text subject,body --label queue --dev later.csv
    """
    from firth.verbs.check import check as check_data

    check_data(
        data,
        task=task.value if task else None,
        dev=dev,
        model=model,
        text=text,
        second=second,
        label=label,
        missing=missing,
        encoding=encoding,
        as_json=json,
    )
