"""Look inside models: a page for a text, textbooks' pictures, and how far back models look."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from firth.base.arguments import as_path, as_paths, check_flags, check_names, check_string
from firth.base.errors import InputError
from firth.base.files import new_file, refuse_existing
from firth.base.notes import warn
from firth.base.progress import Progress
from firth.folders.bundle import Bundle
from firth.models.protocols import NeuralLanguageModel
from firth.output.page import page_sections
from firth.pages.gradient import page as gradient_page
from firth.pages.page import frame, write_page
from firth.predictor import load_predictor, say_unmatched
from firth.probes.gradient import Gradient, cut, gradient
from firth.probes.row import read_row
from firth.reading.asked import is_text
from firth.reading.format import Format
from firth.reading.source import Source, opened
from firth.textbook.drawing import PrintedNumber
from firth.textbook.names import PICTURES, Picture, find_picture
from firth.textbook.registry import BY_HAND, BY_MODEL

SUFFIX = ".html"
USUAL = "minilm"  # the model of examples that need one
MOST = 1 << 20  # characters of a text that are looked at, the same for models with any vocabularies


@dataclass(frozen=True)
class View:
    """A page that shows what a model computes for a text; a notebook displays it."""

    page: str  # the whole file
    sections: tuple[str, ...]  # their headings
    tokens: int
    truncated_tokens: int  # which the model didn't read
    path: Path | None = None  # where it was written

    def _repr_html_(self) -> str:
        """Return the page as a part of a notebook."""
        return frame(self.page)


@dataclass(frozen=True)
class ExampleView(View):
    """A page with a picture of textbooks; a notebook displays it."""

    name: str = ""
    numbers: Sequence[PrintedNumber] = ()  # as they come out, beside those of the book
    notes: Sequence[str] = ()  # what to look at, and where the book errs

    def as_json(self) -> dict[str, object]:
        """Return the numbers as a JSON object."""
        numbers = [number.as_json() for number in self.numbers]
        return {"example": self.name, "numbers": numbers, "notes": list(self.notes)}


def view(
    model: str | Path,
    text: str,
    out: str | Path | None = None,
    *,
    pair: str | None = None,
    with_model: bool = False,
    threads: int | None = None,
    force: bool = False,
) -> View:
    """Return a page of what a model computes for a text, and write it to `out`, an .html file.

    `pair` is a second text that the model reads after the first. `with_model` puts a small BERT
    into the page, which then shows what it computes for any text that is typed there.
    """
    model = as_path("model", model)
    check_string("text", text, empty=False)
    check_names(pair=pair)
    check_flags(force=force, with_model=with_model)
    if with_model and pair is not None:
        raise InputError("a page with its model reads single texts: leave --pair out")
    target = checked_target(out, force)
    predictor = load_predictor(model, threads)
    say_unmatched(predictor)
    row = read_row(predictor, text, pair)
    if row.truncated:
        warn(f"the text was cut: {row.truncated:,} tokens are not in the page")

    sections = page_sections(predictor, row, with_model)
    title = text if pair is None else f"{text} | {pair}"
    lead = [f"{_shown_name(model)}, {predictor.bundle.family}, {len(row.tokens):,} tokens"]
    page = write_page(title, lead, sections)
    _save(page, target, force)
    names = tuple(section.title for section in sections)
    return View(page, names, len(row.tokens), row.truncated, target)


def example(
    name: str,
    model: str | Path | None = None,
    out: str | Path | None = None,
    *,
    threads: int | None = None,
    force: bool = False,
) -> ExampleView:
    """Return a page with a picture of textbooks, and write it to `out`, an .html file.

    `model` is for those that need one; without it they take minilm.
    """
    check_string("name", name, empty=False)
    model = as_path("model", model, optional=True)
    check_flags(force=force)
    picture = find_picture(name)
    target = checked_target(out, force)
    if picture.name in BY_HAND:
        if model is not None:
            raise InputError(f"the example {name} is worked out by hand: leave {model} out")
        drawing = BY_HAND[picture.name]()
        lead = [picture.help]
    else:
        model = model or USUAL
        predictor = load_predictor(model, threads)
        say_unmatched(predictor)
        with predictor.computing():
            drawing = BY_MODEL[picture.name](predictor, model)
        lead = [picture.help, f"{_shown_name(model)}, {predictor.bundle.family}"]

    sections = drawing.page_sections()
    page = write_page(picture.title, lead, sections)
    _save(page, target, force)
    headings = tuple(section.title for section in sections)
    return ExampleView(
        page, headings, drawing.tokens, 0, target, picture.name, drawing.numbers, drawing.notes
    )


def examples() -> list[Picture]:
    """Return the pictures that can be drawn, with what each needs."""
    return list(PICTURES)


def _shown_name(model: str) -> str:
    """Return a model's name on a page, which may be sent to others: not the place of its folder."""
    return Path(model).name or model


def _save(page: str, target: Path | None, force: bool) -> None:
    """Write a page, if it is to be written."""
    if target is not None:
        with new_file(target, force) as path:
            path.write_text(page, encoding="utf-8")


def checked_target(out: str | Path | None, force: bool) -> Path | None:
    """Return where a page goes; what is no .html file, or is there already, is refused."""
    name = as_path("out", out, optional=True)
    if name is None:
        return None
    target = Path(name)
    if target.suffix != SUFFIX:
        raise InputError(f"{target}: a page is written to {SUFFIX}")
    refuse_existing(target, force)
    return target


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
    field: str | None = None,
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
    check_string("source", source)
    check_names(field=field, encoding=encoding)
    check_flags(force=force)
    target = checked_target(out, force)
    if is_text(source):
        lines = _first([source])
    else:
        with opened(Source(source, field or "text", encoding, form=form)) as texts:
            lines = _first(texts)
            texts.say()

    found = [_look(name, lines, threads) for name in names]
    if target is not None:
        curves = {look.model: look.gradient.relative.geometric for look in found}
        shown = gradient_page(curves, "How far back it looks")
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
            "models look: give a text in quotes to look inside other models, or --data FILE to see "
            "how good they are"
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
