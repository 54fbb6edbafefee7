"""`firth predict`."""

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.options import Config, Encoding, Force, Form, Long, Overrides, Threads


def predict(
    model: Annotated[str, typer.Argument(help="A model folder.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|TEXT",
            help="A file with one text a line, a text, or - for standard input.",
        ),
    ] = "-",
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            help="A .csv, .tsv, .parquet or .jsonl file: the input's columns and the answers.",
        ),
    ] = None,
    score: Annotated[
        bool,
        typer.Option("--score", help="Rate texts, or rank lists of them, with a language model."),
    ] = False,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="The likeliest ends of each line, by a language model."),
    ] = False,
    top: Annotated[
        int | None,
        typer.Option(
            min=1, max=1000, help="How many pieces for each blank, or ends of each line; default 5."
        ),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="New tokens of a text that is continued, at most; default 50, or half of the room.",
        ),
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="0, the default, takes the likeliest token each time; above 0 tokens are drawn.",
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Draw among the so many likeliest tokens.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Draw among the fewest tokens that have this share of the probability."),
    ] = None,
    stop: Annotated[
        list[str], typer.Option(help="A text before which a continuation ends; may be given again.")
    ] = [],  # noqa: B006
    seed: Annotated[int | None, typer.Option(min=0, help="Of the draws; default 0.")] = None,
    long: Annotated[
        Long | None,
        typer.Option(
            "--long",
            help="A text too long for the model: cut, slide (default of --score), error; default: as taught.",
        ),
    ] = None,
    field: Annotated[
        str | None,
        typer.Option(
            "--text",
            help="The field or column with the text, several joined: subject,body; default: as trained, or text.",
        ),
    ] = None,
    second: Annotated[
        str | None, typer.Option(help="The column with the second text of a pair.")
    ] = None,
    encoding: Encoding = None,
    form: Form = None,
    threads: Threads = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines instead of a table.")
    ] = False,
    force: Force = False,
    config: Config = None,
    overrides: Overrides = [],  # noqa: B006 - typer reads it, nobody changes it
) -> None:
    """Answer texts with what the model was made for: a class, a number, named spans, pieces for each [MASK], or text that goes on.

    Example: firth predict triage/ tickets.csv -o answers.csv
    """
    from firth.verbs.predict import predict_file

    predict_file(
        model,
        source,
        out,
        score=score,
        complete=complete,
        top=top,
        tokens=tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        stop=stop,
        seed=seed,
        long=long.value if long else None,
        field=field,
        second=second,
        encoding=encoding,
        form=form.value if form else None,
        threads=threads,
        as_lines=json,
        force=force,
    )
