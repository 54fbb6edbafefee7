"""Look inside models; so far, at how far back language models look."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from firth.base.arguments import as_path, as_paths, check_flags, check_names, check_string
from firth.base.errors import InputError
from firth.base.files import new_file, refuse_existing
from firth.base.progress import Progress
from firth.folders.bundle import Bundle
from firth.models.ngram import NGram
from firth.pages.gradient import page, table
from firth.predictor import load_predictor, say_unmatched
from firth.probes.gradient import Gradient, cut, gradient
from firth.reading.format import Format
from firth.reading.source import Source, opened
from firth.tasks.language import opening
from firth.verbs.predict import is_text

MOST = 1 << 20  # characters of a text that are looked at, the same for models with any vocabularies


class Look(NamedTuple):
    """How far back one model looks."""

    model: str
    tokens: int  # of the text, by the model's own vocabulary
    gradient: Gradient


def view(
    models: str | Path | Sequence[str | Path],
    source: str | Path,
    out: str | Path | None = None,
    *,
    field: str = "text",
    encoding: str | None = None,
    form: Format | None = None,
    threads: int | None = None,
    force: bool = False,
) -> list[Look]:
    """What earlier tokens do to later ones in a text or in a file with one text a line, and a page that shows it."""
    names = as_paths("models", models, "there is no model to look at")
    source, out = (
        str(source) if isinstance(source, Path) else source,
        as_path("out", out, optional=True),
    )
    check_string("source", source)
    check_string("field", field, empty=False)
    check_names(encoding=encoding)
    check_flags(force=force)
    target = Path(out) if out is not None else None
    if target is not None:
        if target.suffix != ".html":
            raise InputError(f"{target}: a page is written to .html")
        refuse_existing(target, force)
    if is_text(source):
        lines = _first([source])
    else:
        with opened(Source(source, field, encoding, form=form)) as texts:
            lines = _first(texts)
            texts.say()
    found = [_look(name, lines, threads) for name in names]
    if target is not None:
        shown = page(
            {look.model: look.gradient.relative.geometric for look in found},
            "How far back it looks",
        )
        with new_file(target, force) as path:
            path.write_text(shown, encoding="utf-8")
    return found


def _first(texts: Iterable[str]) -> list[str]:
    """What is looked at of a text, without its empty lines."""
    found: list[str] = []
    left = MOST
    for text in texts:
        if text.strip():
            found.append(text[:left])
            left -= len(found[-1])
        if not left:
            break
    return found


def _look(name: str, lines: Iterable[str], threads: int | None) -> Look:
    predictor = load_predictor(name, threads)
    say_unmatched(predictor, f"{name}: ")
    bundle = predictor.bundle
    if bundle.kind != "continue":
        raise InputError(
            f"{name} is no language model; firth view shows how far back language models look, and nothing of others yet"
        )
    model = bundle.language
    if isinstance(model, NGram):
        raise InputError(f"{name} is an n-gram model, which counts: it has no gradient to look at")
    ids = _read(bundle, lines)
    windows = cut(ids)
    with (
        predictor.computing(),
        Progress(f"{name}: looking back", "places", len(windows)) as progress,
    ):
        return Look(
            name, len(ids), gradient(model, windows, opening(model, bundle.end), progress=progress)
        )


def _read(bundle: Bundle, lines: Iterable[str]) -> Tensor:
    """The tokens of lines with the end of each."""
    ids = [
        token
        for found in bundle.tokenizer.encode(list(lines), special=False)
        for token in (*found.ids, bundle.end)
    ]
    return torch.tensor(ids, dtype=torch.long)


def show(found: Sequence[Look], as_json: bool) -> None:
    """Print what is left of the gradient at each distance."""
    if as_json:
        print(json.dumps({"models": [_page(look) for look in found]}))
        return
    width = max(len(look.model) for look in found)
    print("what is left of the gradient, by distance in tokens (geometric mean)")
    print(" ".join([f"{'distance':>10}", *(f"{look.model:>{max(width, 9)}}" for look in found)]))
    for distance, shares in table({look.model: look.gradient.relative.geometric for look in found}):
        print(" ".join([f"{distance:>10}", *(f"{share:>{max(width, 9)}}" for share in shares)]))


def _page(look: Look) -> dict[str, object]:
    rows = zip(*look.gradient.relative, strict=True)
    return {
        "model": look.model,
        "tokens": look.tokens,
        "nearest": {"mean": look.gradient.mean[0], "geometric": look.gradient.geometric[0]},
        "distances": [
            {"distance": distance, "pairs": count, "mean": mean, "geometric": geometric}
            for distance, (count, mean, geometric) in enumerate(rows, 1)
        ],
    }
