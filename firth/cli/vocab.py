"""`firth vocab`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from firth.cli.options import Column, Config, Encoding, Force, Overrides


class Kind(StrEnum):
    """What the pieces are."""

    wordpiece = "wordpiece"
    bytes = "bytes"
    words = "words"


class Case(StrEnum):
    """Whether capitals stay."""

    LOWER = "lower"
    KEEP = "keep"


class Accents(StrEnum):
    """Whether accents stay."""

    KEEP = "keep"
    STRIP = "strip"


class Split(StrEnum):
    """What parts whole words."""

    auto = "auto"
    punctuation = "punctuation"
    spaces = "spaces"


def vocab(
    corpus: Annotated[
        list[Path],
        typer.Argument(
            metavar="CORPUS...", help="Files and folders of .txt or .jsonl, also .gz or .zst."
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write.")],
    size: Annotated[
        int, typer.Option(min=1, max=1 << 24, help="How many pieces, special tokens included.")
    ] = 30000,
    kind: Annotated[
        Kind,
        typer.Option(
            help="Pieces of words, bytes (any text comes back as it was), or whole words."
        ),
    ] = Kind.wordpiece,
    case: Annotated[Case | None, typer.Option(help="By default lower, for bytes keep.")] = None,
    accents: Annotated[Accents | None, typer.Option(help="By default keep.")] = None,
    split: Annotated[
        Split | None,
        typer.Option(
            help="Of words: at spaces, or also at punctuation; by default auto: punctuation where commas stand on words."
        ),
    ] = None,
    field: Column = "text",
    encoding: Encoding = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the report as one JSON object.")
    ] = False,
    force: Force = False,
    config: Config = None,
    overrides: Overrides = [],  # noqa: B006 - typer reads it, nobody changes it
) -> None:
    """Learn a vocabulary from text, and say how well it covers it.

    Example: firth vocab letters/ -o words/ --size 16000
    """
    from firth.verbs.vocab import learn_vocab

    learn_vocab(
        corpus,
        out,
        size=size,
        kind=kind.value,
        case=case.value if case else None,
        accents=accents.value if accents else None,
        split=split.value if split else None,
        field=field,
        encoding=encoding,
        force=force,
        as_json=json,
    )
