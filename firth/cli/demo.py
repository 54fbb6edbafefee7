"""`firth demo`."""

from typing import Annotated

import typer

from firth.cli.options import Threads


def demo(
    minutes: Annotated[float, typer.Option(min=0.05, max=60, help="How long to pretrain.")] = 1.0,
    kill: Annotated[bool, typer.Option("--kill", help="Instead: kill a run three times and show that no bit is lost.")] = False,
    threads: Threads = None,
) -> None:
    """Show the whole story on built-in samples.

    Example: firth demo
    """
    from firth.verbs.demo import run_demo
    from firth.verbs.rehearsal import show_kills

    if kill:
        show_kills(threads)
    else:
        run_demo(minutes, threads)
