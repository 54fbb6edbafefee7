"""Look inside a model: a page that shows what it computes for a text."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from firth.base.arguments import as_path, check_flags, check_names, check_string
from firth.base.errors import InputError
from firth.base.files import new_file, refuse_existing
from firth.base.notes import warn
from firth.pages.attention import Heads, attention_section
from firth.pages.page import Section, frame, write_page
from firth.predictor import Predictor, load_predictor, say_unmatched
from firth.probes.inside import Inside, look_inside
from firth.probes.row import Row, read_row

SUFFIX = ".html"


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


def view(
    model: str | Path,
    text: str,
    out: str | Path | None = None,
    *,
    pair: str | None = None,
    threads: int | None = None,
    force: bool = False,
) -> View:
    """Return a page of what a model computes for a text, and write it to `out`, an .html file.

    `pair` is a second text that the model reads after the first.
    """
    model = str(as_path("model", model))
    check_string("text", text, empty=False)
    check_names(pair=pair)
    check_flags(force=force)
    target = checked_target(out, force)
    predictor = load_predictor(model, threads)
    say_unmatched(predictor)
    if pair is not None and predictor.bundle.is_language_model:
        raise InputError("a language model reads single texts: leave --pair out")
    row = read_row(predictor, text, pair)
    if row.truncated:
        warn(f"the text was cut: {row.truncated:,} tokens are not in the page")

    sections = _sections(predictor, row)
    title = text if pair is None else f"{text} | {pair}"
    lead = [f"{model}: {_what(predictor)}", f"{len(row.tokens):,} tokens"]
    page = write_page(title, lead, sections)
    if target is not None:
        with new_file(target, force) as path:
            path.write_text(page, encoding="utf-8")
    names = tuple(section.title for section in sections)
    return View(page, names, len(row.tokens), row.truncated, target)


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


def _what(predictor: Predictor) -> str:
    """Say what a model is."""
    encoder = predictor.bundle.encoder
    return f"{encoder.depth} layers of width {encoder.width}"


def _sections(predictor: Predictor, row: Row) -> list[Section]:
    """Return all that can be shown of a model and a text."""
    inside = look_inside(predictor, row)
    return [_attention(row, inside)]


def _attention(row: Row, inside: Inside) -> Section:
    heads = Heads(
        _numbers(inside.weights),
        _numbers(inside.queries),
        _numbers(inside.keys),
        _numbers(inside.values),
        _numbers(inside.sums),
        None if inside.bias is None else _numbers(inside.bias),
        inside.causal,
    )
    return attention_section(row.tokens, row.encoding.parts, heads)


def _numbers(tensor: Tensor) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    """Return a tensor as an array of single precision."""
    array: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = tensor.float().cpu().numpy()
    return array
