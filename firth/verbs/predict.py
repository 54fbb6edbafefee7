"""Answer a file of texts with whatever the model does; for now, fill blanks."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from firth.base.errors import InputError
from firth.base.files import new_file, refuse_existing
from firth.base.progress import Progress
from firth.data.window import Long
from firth.predict import load_predictor
from firth.tasks.pretrain import Filled, as_json
from firth.verbs.embed import say_coverage, say_unmatched
from firth.verbs.source import Source


def predict_file(
    model: str | Path,
    source: str = "-",
    out: str | Path | None = None,
    *,
    top: int = 5,
    long: Long = "cut",
    field: str = "text",
    encoding: str | None = None,
    threads: int | None = None,
    as_lines: bool = False,
    force: bool = False,
) -> None:
    """Write an answer for each text of a file, or for one text, in order."""
    target = Path(out) if out is not None else None
    if target is not None:
        if target.suffix != ".jsonl":
            raise InputError(f"{target}: answers are written to .jsonl")
        refuse_existing(target, force)
    texts = None if is_text(source) else Source(source, field, encoding)
    total = texts.count() if texts else 1
    predictor = load_predictor(model, threads)
    say_unmatched(predictor)
    task = predictor.filler(top)
    with Progress("predicting", "texts", total) as progress, _target(target, force) as file:
        for answer in predictor.stream(task, texts or [source], long, progress):
            lines = as_lines or target is not None
            print(json.dumps(as_json(answer), ensure_ascii=False) if lines else _table(answer), file=file)
    if texts:
        texts.say()
    say_coverage(predictor)


def is_text(source: str) -> bool:
    """Tell a text from a file's name: a name exists, or looks like a path."""
    if source == "-":
        return False
    try:
        return not Path(source).exists() and (" " in source or "[" in source)
    except OSError:  # too long to be a name
        return True


@contextmanager
def _target(target: Path | None, force: bool) -> Iterator[TextIO]:
    if target is None:
        yield sys.stdout
        return
    with new_file(target, force) as path, path.open("w", encoding="utf-8") as file:
        yield file


def _table(filled: Filled) -> str:
    lines = [filled.text]
    for blank in filled.blanks:
        lines.append(f"  characters {blank.start}-{blank.end}")
        choices = [f"    {choice.probability:7.2%}  {choice.piece}" for choice in blank.choices]
        lines += choices or ["    cut off before this blank"]
    return "\n".join(lines)
