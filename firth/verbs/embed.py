"""Embed a file of texts."""

import sys
from itertools import tee
from pathlib import Path
from typing import get_args

from firth.base.arguments import as_path, check_choice, check_flags, check_names, check_string
from firth.base.progress import Progress
from firth.data.window import Long
from firth.output.vectors import check_target, writer
from firth.predictor import load_predictor, say_coverage, say_unmatched
from firth.reading.format import Format
from firth.reading.source import Source, opened
from firth.tasks.embed import Combine, Pool, parse_layers


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
        with (
            Progress("embedding", "texts", total) as progress,
            writer(target, sys.stdout, force) as add,
        ):
            for text, answer in zip(
                shown, predictor.stream(task, given, long, progress), strict=True
            ):
                add(text, answer)
        texts.say()
    say_coverage(predictor)
