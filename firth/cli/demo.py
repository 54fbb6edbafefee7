"""`firth demo`."""

from pathlib import Path
from typing import Annotated

import typer

from firth.cli.options import Threads


def demo(
    minutes: Annotated[float, typer.Option(min=0.05, max=60, help="How long to pretrain.")] = 1.0,
    kill: Annotated[
        bool,
        typer.Option(
            "--kill", help="Instead: kill a run three times and show that no bit is lost."
        ),
    ] = False,
    files: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Instead: write the sample texts and tickets into a folder, to try commands on.",
        ),
    ] = None,
    threads: Threads = None,
) -> None:
    """Show the whole story on built-in samples.

    Example: firth demo
    """
    if files is not None:
        from firth.verbs.sample_files import write_samples

        for sample in write_samples(files):
            print(f"{sample.path}: {sample.content}")
        return

    from firth.verbs.demo import run_demo
    from firth.verbs.rehearsal import show_kills

    if kill:
        show_kills(threads)
    else:
        run_demo(minutes, threads)
