"""Answer a file of texts with whatever the model does: classes, numbers, named spans, or blanks that it fills."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import tee
from pathlib import Path
from typing import Any, TextIO

from firth.base.errors import InputError
from firth.base.files import new_file, refuse_existing
from firth.base.progress import Progress
from firth.data.columns import Named
from firth.data.examples import Example, Labelled, Line
from firth.data.readers import Reading
from firth.data.window import Long
from firth.predict import load_predictor
from firth.tasks.classify import Decision
from firth.tasks.classify import as_json as decision_json
from firth.tasks.pretrain import Blank, Filled
from firth.tasks.pretrain import as_json as filled_json
from firth.tasks.tag import as_json as spans_json
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
    second: str | None = None,
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
    examples, total, texts = _source(source, field, second, encoding)
    predictor = load_predictor(model, threads)
    say_unmatched(predictor)
    task = predictor.task(top)
    shown, given = tee(examples)
    lines = as_lines or target is not None
    with Progress("predicting", "texts", total) as progress, _target(target, force) as file:
        for example, answer in zip(shown, predictor.stream(task, given, long, progress), strict=True):
            print(json.dumps(_record(example, answer), ensure_ascii=False) if lines else _table(answer), file=file)
    if texts:
        texts.say()
    say_coverage(predictor)


def _source(
    source: str, field: str, second: str | None, encoding: str | None
) -> tuple[Iterable[Example], int | None, Source | None]:
    """What to answer, how many there are, and what to say of the file afterwards; pairs come from a file with two columns."""
    if second:
        pairs = [row.example for row in Reading(Path(source), Named.of(field, second), encoding) if row.example is not None]
        return pairs, len(pairs), None
    if is_text(source):
        return [Line(source)], 1, None
    texts = Source(source, field, encoding)
    total = texts.count()
    return (Line(text) for text in texts), total, texts


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


def _table(answer: Any) -> str:
    """An answer as a person reads it."""
    match answer:
        case Filled(text, blanks):
            return "\n".join([text, *(line for blank in blanks for line in _blank(blank))])
        case Decision(label, confidence, _):
            said = " ".join(label) if isinstance(label, tuple) else label or "unsure"
            return f"{confidence:7.2%}  {said}"
        case float(value):
            return f"{value:.4f}"
        case found:
            return "\n".join(f"  {f.start}-{f.end}  {f.label}  {f.confidence:.2%}" for f in found) or "  nothing"


def _blank(blank: Blank) -> list[str]:
    choices = [f"    {choice.probability:7.2%}  {choice.piece}" for choice in blank.choices]
    return [f"  characters {blank.start}-{blank.end}", *(choices or ["    cut off before this blank"])]


def _record(example: Example, answer: Any) -> dict[str, Any]:
    """An answer as a JSON object, with what was asked."""
    asked = {"text": example.text} | ({"second": example.second} if isinstance(example, Labelled) and example.second else {})
    match answer:
        case Filled():
            return filled_json(answer)
        case Decision():
            return asked | decision_json(answer)
        case float(value):
            return asked | {"value": value}
        case found:
            return asked | {"spans": spans_json(example.text, found)}
