"""Options that commands share, and settings from a file: `--config F.toml` and `--set key=value`."""

import os
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from firth.base.arguments import nearest
from firth.base.errors import InputError
from firth.base.threads import available, keep_heap


class Long(StrEnum):
    """What to do with a text longer than the model reads."""

    cut = "cut"
    slide = "slide"
    error = "error"


class Format(StrEnum):
    """What a file or standard input is."""

    lines = "lines"
    csv = "csv"
    tsv = "tsv"
    jsonl = "jsonl"


def _configure(context: typer.Context, path: Path | None) -> None:
    if path is None:
        return
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error
    context.default_map = {**_defaults(context, values, str(path)), **(context.default_map or {})}


def _override(context: typer.Context, pairs: list[str]) -> None:
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--set takes key=value, not {pair!r}")
        values[key] = value
    context.default_map = {**(context.default_map or {}), **_defaults(context, values, "--set")}


def _defaults(context: typer.Context, values: dict[str, Any], where: str) -> dict[str, Any]:
    """New defaults for this command's options, by the names that its help shows; an option given in the call still wins."""
    options = {
        name.lstrip("-"): parameter.name
        for parameter in context.command.params
        for name in parameter.opts
        if name.startswith("--")
    }
    known = {
        name: target
        for name, target in options.items()
        if target not in ("config", "overrides", "help")
    }
    for key in values:
        if key not in known:
            raise InputError(f"{where}: unknown setting {key!r}{nearest(key, known)}")
    repeated = {
        parameter.name
        for parameter in context.command.params
        if getattr(parameter, "multiple", False)
    }
    listed = {
        key: [value]
        for key, value in values.items()
        if known[key] in repeated and isinstance(value, str)
    }
    return {str(known[key]): value for key, value in (values | listed).items()}


def _threads(asked: int | None) -> int:
    """Return how many threads a command uses: as asked, or its part of the cores that this process may use.

    Every command that computes has this option. The process is its own, so that it also keeps freed memory for the next tensor.
    """
    keep_heap()
    return asked or max(1, available() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


Threads = Annotated[
    int | None,
    typer.Option(min=1, callback=_threads, help="By default every core that this process may use."),
]
Column = Annotated[
    str,
    typer.Option(
        "--text",
        help="The field or column of a file that has some; several are joined: subject,body.",
    ),
]
Encoding = Annotated[
    str | None, typer.Option(help="The file's encoding, where it isn't UTF-8: cp1252, utf-16 ...")
]
Missing = Annotated[
    list[str],
    typer.Option(
        metavar="WORD",
        help="A label that stands for none, as nan: such rows are left out; may be given again.",
    ),
]
Form = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="What the input is, standard input too: lines of text, csv, tsv, jsonl; by default as it looks.",
    ),
]
Overlong = Annotated[
    Long,
    typer.Option(
        "--long", help="A text longer than the model reads: cut it, slide over it, or stop."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output.")]
Config = Annotated[
    Path | None,
    typer.Option(
        callback=_configure,
        is_eager=True,
        expose_value=True,
        help="Settings from a TOML file; options given here win.",
    ),
]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        callback=_override,
        is_eager=True,
        help="One setting, as in the TOML file.",
    ),
]
