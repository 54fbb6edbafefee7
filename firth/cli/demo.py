"""`firth demo`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firth.verbs.demo import Part


def demo(minutes: float, kill: bool, files: str | None, threads: int | None) -> None:
    """Show the whole story on built-in samples.

    Example: firth demo
    """
    if files is not None:
        from firth.samples.files import write_samples

        for sample in write_samples(Path(files)):
            print(f"{sample.path}: {sample.content}")
        return

    from firth.verbs import demo as verb

    parts: Iterator[Part] = verb.demo(minutes, threads)
    if kill:
        parts = verb.demo_kills(threads)
    for part in parts:
        _show(part)


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
