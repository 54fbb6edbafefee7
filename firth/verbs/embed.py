"""Embed a file of texts."""

import re
import sys
from itertools import tee
from pathlib import Path
from typing import get_args

from firth.base.arguments import as_path, check_choice, check_flags, check_names, check_string
from firth.base.errors import InputError
from firth.base.progress import Progress
from firth.data.format import Format
from firth.data.window import Long
from firth.predict import Predictor, load_predictor
from firth.tasks.embed import Combine, Pool
from firth.verbs.source import Source, opened
from firth.verbs.vectors import check_target, writer


def embed_file(
    model: str | Path,
    source: str | Path = "-",
    out: str | Path | None = None,
    *,
    layers: str = "-1",
    combine: Combine = "mean",
    pool: Pool | None = None,
    long: Long = "cut",
    field: str = "text",
    encoding: str | None = None,
    form: Format | None = None,
    threads: int | None = None,
    force: bool = False,
) -> None:
    """Write a vector for each text of a file, or for each of its words or pieces, in order."""
    source, out = as_path("source", source), as_path("out", out, optional=True)
    check_string("layers", layers)
    check_choice("combine", combine, get_args(Combine))
    check_choice("pool", pool, get_args(Pool), optional=True)
    check_choice("long", long, get_args(Long))
    check_string("field", field, empty=False)
    check_names(encoding=encoding)
    check_flags(force=force)
    target = Path(out) if out is not None else None
    chosen = parse_layers(layers)
    check_target(target, pool not in ("words", "none"), force)
    with opened(Source(source, field, encoding, form=form)) as texts:
        total = texts.count()
        predictor = load_predictor(model, threads)
        say_unmatched(predictor)
        task = predictor.embedder(pool, chosen, combine)
        shown, given = tee(texts)
        with Progress("embedding", "texts", total) as progress, writer(target, sys.stdout, force) as add:
            for text, answer in zip(shown, predictor.stream(task, given, long, progress), strict=True):
                add(text, answer)
        texts.say()
    say_coverage(predictor)


def parse_layers(words: str) -> list[int]:
    """Read `-1`, `1,6` or `-4..-1`."""
    chosen: list[int] = []
    for word in words.split(","):
        match = re.fullmatch(r"\s*(-?\d{1,4})(?:\.\.(-?\d{1,4}))?\s*", word)
        if not match:
            raise InputError(f"layers {words!r} are not of the form -1, 1,6 or -4..-1")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or (first < 0) != (last < 0):
            raise InputError(f"the range of layers {word.strip()!r} runs backwards or mixes counting from both ends")
        chosen += range(first, last + 1)
    return chosen


def say_unmatched(predictor: Predictor, whose: str = "") -> None:
    """Name the weights that a folder lacked; `whose` is said where there are several. Weights to spare are a warning of `load`."""
    if names := predictor.bundle.unmatched.missing:
        print(f"note: {whose}weights missing from the folder: {', '.join(names)}", file=sys.stderr)


def say_coverage(predictor: Predictor, whose: str = "") -> None:
    """Say how much text was cut off; `whose` is said where there are several."""
    if predictor.coverage.cut:
        print(f"note: {whose}{predictor.coverage}", file=sys.stderr)
