"""`firth demo`."""

import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from firth.base.errors import InputError

if TYPE_CHECKING:
    from firth.verbs.demo import Part


def demo(
    minutes: float,
    kill: bool,
    files: str | None,
    out: str | None,
    threads: int | None,
    force: bool,
) -> None:
    """Show the whole story on built-in samples; end with a page of pictures.

    Example: firth demo
    """
    if out is not None and (kill or files is not None):
        option = "--kill" if kill else "--files"
        raise InputError(f"--out is for the demo's page, which {option} doesn't write")
    if files is not None:
        from firth.samples.files import write_samples

        for sample in write_samples(Path(files)):
            print(f"{sample.path}: {sample.content}")
        return
    for part in _parts(minutes, kill, out, threads, force):
        _show(part)


def _parts(
    minutes: float, kill: bool, out: str | None, threads: int | None, force: bool
) -> "Iterator[Part]":
    """Return the parts of the demo that was asked for."""
    if kill:
        from firth.verbs.kills import demo_kills

        return demo_kills(threads)

    from firth.verbs.demo import PAGE
    from firth.verbs.demo import demo as verb

    return verb(minutes, threads, out or PAGE, force, _command())


def _command() -> str:
    """Return what a person types for `firth`, which no shell finds where `make` puts it."""
    typed = Path(sys.argv[0])
    if shutil.which("firth") or typed.name != "firth" or typed.is_absolute():
        return "firth"
    return shlex.quote(str(typed))


def _show(part: "Part") -> None:
    """Print a line, or what a function returned as its command prints it."""
    from firth.cli.show_finetune import result_lines
    from firth.cli.vocab import report_sentences
    from firth.verbs.finetune import FinetuneResult

    if isinstance(part, str):
        print(part, flush=True)
    elif isinstance(part, FinetuneResult):
        print("\n".join(result_lines(part)), flush=True)
    else:
        print(report_sentences(part), flush=True)
