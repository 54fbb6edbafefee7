"""`firth embed`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from firth.cli.options import (
    Column,
    Config,
    Encoding,
    Force,
    Form,
    Long,
    Overlong,
    Overrides,
    Threads,
)


class Pool(StrEnum):
    """One vector a text, a word or a piece."""

    mean = "mean"
    cls = "cls"
    max = "max"
    words = "words"
    none = "none"


class Combine(StrEnum):
    """How several layers become one vector."""

    mean = "mean"
    sum = "sum"
    concat = "concat"


def embed(
    model: Annotated[str, typer.Argument(help="A model folder, or minilm.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="One text a line (.txt), or .jsonl with a field text; - is standard input.",
        ),
    ] = "-",
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="vectors.npy, .jsonl or .parquet; without it JSON lines are printed.",
        ),
    ] = None,
    layers: Annotated[
        str,
        typer.Option(
            help="Layers: 0 is the embedding, -1 the last; -4..-1 is a range, 1,6 a list."
        ),
    ] = "-1",
    combine: Annotated[
        Combine, typer.Option(help="How several layers become one vector.")
    ] = Combine.mean,
    pool: Annotated[
        Pool | None,
        typer.Option(
            help="A vector for each text (mean, cls, max), word (words) or piece (none); by default as the folder says."
        ),
    ] = None,
    long: Overlong = Long.cut,
    field: Column = "text",
    encoding: Encoding = None,
    form: Form = None,
    threads: Threads = None,
    force: Force = False,
    config: Config = None,
    overrides: Overrides = [],  # noqa: B006 - typer reads it, nobody changes it
) -> None:
    """Turn texts into contextual vectors, in the order of the file.

    Example: firth embed minilm reviews.txt -o vectors.npy
    """
    from firth.verbs.embed import embed_file

    embed_file(
        model,
        source,
        out,
        layers=layers,
        combine=combine.value,
        pool=pool.value if pool else None,
        long=long.value,
        field=field,
        encoding=encoding,
        form=form.value if form else None,
        threads=threads,
        force=force,
    )
