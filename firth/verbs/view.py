"""Look inside models: a page for a text, textbooks' pictures, and how far back models look."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from firth.base.arguments import as_path, as_paths, check_flags, check_names, check_string
from firth.base.errors import InputError
from firth.base.notes import warn
from firth.base.progress import Progress
from firth.folders.bundle import Bundle
from firth.models.protocols import NeuralLanguageModel
from firth.output.page import page_sections
from firth.output.pagefile import checked_target, save_page
from firth.output.pairpage import pair_sections
from firth.pages.gradient import page as gradient_page
from firth.pages.page import PageSection, frame, write_page
from firth.predictor import Predictor, load_predictor, say_unmatched
from firth.probes.gradient import Gradient, cut, gradient
from firth.probes.pair import read_pair
from firth.probes.portable import refuse_unportable
from firth.probes.row import read_row
from firth.reading.asked import is_text
from firth.reading.format import Format
from firth.reading.source import Source, opened
from firth.tasks.translate import BEAM
from firth.textbook.drawing import PrintedNumber
from firth.textbook.names import PICTURES, Picture, find_picture
from firth.textbook.registry import BY_HAND, BY_MODEL

USUAL = "minilm"  # the model of examples that need one
TITLE = 240  # characters of a text in the title of its page
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

    `pair` is a second text that the model reads after the first, or the target to look at in place
    of a translator's own. `with_model` puts a small BERT into the page, which then shows what it
    computes for any text that is typed there.
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
    if with_model:
        refuse_unportable(predictor.bundle)
    if predictor.bundle.record.is_encoder_decoder:
        found = _look_at_pair(predictor, text, pair)
    else:
        found = _look_at_text(predictor, text, pair, with_model)
    if found.truncated:
        warn(f"the text was cut: {found.truncated:,} tokens are not in the page")

    first, *others = found.lead
    lead = [f"{shown_name(model)}, {predictor.bundle.family}, {first}", *others]
    page = write_page(_in_title(found.title), lead, found.sections)
    save_page(page, target, force)
    names = tuple(section.title for section in found.sections)
    return View(page, names, found.tokens, found.truncated, target)


class _Looked(NamedTuple):
    """What a page shows of a text."""

    title: str
    lead: list[str]
    sections: list[PageSection]
    tokens: int
    truncated: int


def _in_title(text: str) -> str:
    """Return the beginning of a text that is too long for a title."""
    return text if len(text) <= TITLE else f"{text[:TITLE].rstrip()} …"


def _look_at_text(predictor: Predictor, text: str, pair: str | None, with_model: bool) -> _Looked:
    """Return what is shown of a text, or of a pair that is read as one."""
    row = read_row(predictor, text, pair)
    title = text if pair is None else f"{text} | {pair}"
    count = len(row.tokens)
    sections = page_sections(predictor, row, with_model)
    return _Looked(title, [f"{count:,} tokens"], sections, count, row.truncated)


def _look_at_pair(predictor: Predictor, text: str, target: str | None) -> _Looked:
    """Return what is shown of a source and its target."""
    pair = read_pair(predictor, text, target)
    source = pair.source
    counts = [len(source.tokens), len(pair.tokens)]
    lead = [f"{counts[0]:,} tokens of the source and {counts[1]:,} of the target"]
    own = f"the model's own, by a beam search of width {BEAM}" if target is None else "given"
    lead.append(f"The target is {own}.")
    title = f"{text} → {pair.target}"
    return _Looked(title, lead, pair_sections(predictor, pair), sum(counts), source.truncated)


def example(
    name: str,
    model: str | Path | None = None,
    out: str | Path | None = None,
    *,
    threads: int | None = None,
    force: bool = False,
) -> ExampleView:
    """Return a page with a picture of textbooks, and write it to `out`, an .html file.

    `model` is for those that need one, which take minilm without it, and for those that show
    what a model makes of their numbers.
    """
    check_string("name", name, empty=False)
    model = as_path("model", model, optional=True)
    check_flags(force=force)
    picture = find_picture(name)
    target = checked_target(out, force)
    if model is not None and picture.name not in BY_MODEL:
        raise InputError(f"the example {name} is worked out by hand: leave {model} out")
    if model is None and picture.name in BY_HAND:
        drawing = BY_HAND[picture.name]()
        lead = [picture.help]
    else:
        model = model or USUAL
        predictor = load_predictor(model, threads)
        say_unmatched(predictor)
        with predictor.computing():
            drawing = BY_MODEL[picture.name](predictor, model)
        lead = [picture.help, f"{shown_name(model)}, {predictor.bundle.family}"]

    sections = drawing.page_sections()
    page = write_page(picture.title, lead, sections)
    save_page(page, target, force)
    headings = tuple(section.title for section in sections)
    return ExampleView(
        page, headings, drawing.tokens, 0, target, picture.name, drawing.numbers, drawing.notes
    )


def examples() -> list[Picture]:
    """Return the pictures that can be drawn, with what each needs."""
    return list(PICTURES)


def shown_name(model: str) -> str:
    """Return a model's name on a page, which may be sent to others: not the place of its folder."""
    return Path(model).name or model


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
    check_string("source", source, empty=False)
    check_names(field=field, encoding=encoding)
    check_flags(force=force)
    target = checked_target(out, force)
    is_file = not is_text(source)
    if not is_file:
        lines = _first([source])
    else:
        with opened(Source(source, field or "text", encoding, form=form)) as texts:
            lines = _first(texts)
            texts.say()

    found = [_look(name, lines, threads, is_file) for name in names]
    if target is not None:
        curves = {look.model: look.gradient.relative.geometric for look in found}
        shown = gradient_page(curves, "How far back it looks")
        save_page(shown, target, force)
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


def _look(name: str, lines: Iterable[str], threads: int | None, is_file: bool) -> Look:
    """Return how far back one model looks."""
    predictor = load_predictor(name, threads)
    say_unmatched(predictor, f"{name}: ")
    bundle = predictor.bundle
    if not bundle.is_language_model and is_file:
        raise InputError(
            f"{name} is no language model; of a file, firth view shows how far back language "
            "models look: give a text in quotes to look inside other models, --projector to draw "
            "the file's texts as points, or --data FILE to see how good they are"
        )
    if not bundle.is_language_model:
        raise InputError(
            f"{name} is no language model; firth view with --json, or of several models, says how "
            "far back these look; firth view MODEL TEXT writes a page about any model"
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
