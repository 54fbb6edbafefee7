"""Options that stand before or after a command's name, read before its own options are made."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]
Plugin = Annotated[
    list[Path],
    typer.Option(
        "--plugin",
        metavar="FILE",
        help="A Python file with a task or model family of your own; may be given again.",
    ),
]


def plugin_files(words: Sequence[str]) -> list[str]:
    """Return the files that --plugin names; one without a file is left for typer to refuse."""
    files: list[str] = []
    for number, word in enumerate(words):
        if word == "--":
            break
        if word == "--plugin":
            files += words[number + 1 : number + 2]
        elif word.startswith("--plugin="):
            files.append(word.removeprefix("--plugin="))
    return files
