"""`firth env`."""

from typing import Annotated

import typer


def env(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show versions, threads and what this machine can do.

    Example: firth env --json
    """
    from firth.verbs.env import print_env

    print_env(json)
