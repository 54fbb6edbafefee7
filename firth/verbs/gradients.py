"""How far back language models look: gradients by distance, as records and as a page."""

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
from firth.models.protocols import NeuralLanguageModel
from firth.pages.gradient import page
from firth.predictor import load_predictor, say_unmatched
from firth.probes.gradient import Gradient, cut, gradient
from firth.reading.asked import is_text
from firth.reading.format import Format
from firth.reading.source import Source, opened

MOST = 1 << 20  # characters of a text that are looked at, the same for models with any vocabularies


class Look(NamedTuple):
    """How far back one model looks."""

    model: str
    tokens: int  # of the text, by the model's own vocabulary
    gradient: Gradient


def gradients(
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
    """Return what earlier tokens do to later ones in a text, or in a file with one text a line.

    `out` is a page that shows it.
    """
    names = as_paths("models", models, "there is no model to look at")
    source = str(source) if isinstance(source, Path) else source
    out = as_path("out", out, optional=True)
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
        curves = {look.model: look.gradient.relative.geometric for look in found}
        shown = page(curves, "How far back it looks")
        with new_file(target, force) as path:
            path.write_text(shown, encoding="utf-8")
    return found


def _first(texts: Iterable[str]) -> list[str]:
    """Return what is looked at of a text, without its empty lines."""
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
    """Return how far back one model looks."""
    predictor = load_predictor(name, threads)
    say_unmatched(predictor, f"{name}: ")
    bundle = predictor.bundle
    if not bundle.is_language_model:
        raise InputError(
            f"{name} is no language model; of a file, firth view shows how far back language "
            "models look: give a text in quotes to look inside other models"
        )
    model = bundle.language
    if not isinstance(model, NeuralLanguageModel):
        raise InputError(f"{name} is an n-gram model, which counts: it has no gradient to look at")
    ids = _read(bundle, lines)
    windows = cut(ids)
    before = model.opening(bundle.end)
    looking = Progress(f"{name}: looking back", "places", len(windows))
    with predictor.computing(), looking as progress:
        found = gradient(model, windows, before, progress=progress)
    return Look(name, len(ids), found)


def _read(bundle: Bundle, lines: Iterable[str]) -> Tensor:
    """Return the tokens of lines with the end of each."""
    ids: list[int] = []
    for encoding in bundle.tokenizer.encode(list(lines), special=False):
        ids += [*encoding.ids, bundle.end]
    return torch.tensor(ids, dtype=torch.long)
