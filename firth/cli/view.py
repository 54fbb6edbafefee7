"""`firth view`."""

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from firth.base.errors import InputError
from firth.cli.show_example import show_example
from firth.cli.show_projector import show_projector
from firth.cli.show_runs import are_runs, refuse_runs, view_runs

if TYPE_CHECKING:
    from firth.verbs.projector import PlaneAxes
    from firth.verbs.view import Look

PAGE = "view.html"  # where nobody says otherwise
NARROWEST = 9  # characters of a column


def view(
    words: list[str],
    as_json: bool,
    projector: bool,
    sought: str | None,
    axes: "PlaneAxes | None",
    pair: str | None,
    with_model: bool,
    example: str | None,
    out: str | None,
    follow: bool,
    port: int | None,
    force: bool,
    **options: Any,
) -> None:
    """Look inside a model: write a page that shows what it computes for a text.

    Of a translator also what it makes of the text, step by step. Of language models and a file:
    how far back each looks, as a table and as a page. With --projector or --words: many texts, or
    words in their sentences, as points on two axes. Of runs: how training went, or goes on. With
    --example: a picture that textbooks print, with numbers that are computed anew.

    Example: firth view minilm "The animal didn't cross the street because it was too tired."
    """
    is_projector = projector or sought is not None
    if is_projector and (example is not None or pair is not None or with_model):
        raise InputError("a projector draws the texts of a file: leave out what is for one text")
    if axes is not None and not is_projector:
        raise InputError("--axes is for points: say --projector for texts, or --words for words")
    if is_projector:
        target = out or (None if as_json else PAGE)
        show_projector(words, sought, target, as_json, axes=axes, force=force, **options)
        return
    if example is not None:
        if pair is not None or with_model:
            option = "--with-model" if pair is None else "--pair"
            raise InputError(f"{option} is for a text of your own, and --example has its own")
        if follow or port is not None:
            raise InputError("--follow is for runs, and --example draws a picture of textbooks")
        target = out or (None if as_json else PAGE)
        show_example(example, words, target, as_json, force, options["threads"])
        return
    if follow or port is not None or are_runs(words):
        refused = {"pair": pair, "with-model": with_model, "json": as_json}
        view_runs(words, out, follow, port, force, refused)
        return
    *models, source = words or [""]
    # Not by pathlib, which refuses a text that is too long for a name.
    if not models or os.path.isdir(source):  # noqa: PTH112
        raise InputError(
            "which text? Name model folders and then a file, a text in quotes, "
            "or - for standard input; or name runs that have a journal"
        )
    refuse_runs(models)
    if not source:
        raise InputError("the text is empty: there is nothing to look at")
    if source.isalpha() and not os.path.exists(source):  # noqa: PTH110
        raise InputError(
            f"there is no file {source!r}; a text of one word has a blank after it: '{source} '"
        )

    from firth.reading.asked import is_text

    if is_text(source) and len(models) == 1 and not as_json:
        threads = options["threads"]
        _write(models[0], source, out or PAGE, pair, with_model, force, threads)
        return
    if pair is not None or with_model:
        option = "--with-model" if pair is None else "--pair"
        raise InputError(f"{option} is for a page of one model and a text in quotes")

    from firth.verbs.view import gradients

    looks = gradients(models, source, out, force=force, **options)
    if as_json:
        print(json.dumps({"models": [_as_json(look) for look in looks]}))
    else:
        _print_table(looks)


def _write(
    model: str,
    text: str,
    out: str,
    pair: str | None,
    with_model: bool,
    force: bool,
    threads: int | None,
) -> None:
    """Write the page of a text, and say where it is and what is in it."""
    from firth.verbs.view import view as run

    found = run(model, text, out, pair=pair, with_model=with_model, threads=threads, force=force)
    headings = ", ".join(heading.lower() for heading in found.sections)
    print(f"{found.path}: {headings} ({found.tokens:,} tokens); open it in a browser")


def _print_table(looks: "Sequence[Look]") -> None:
    """Print what is left of the gradient at each distance."""
    from firth.pages.gradient import gradient_rows

    width = max(NARROWEST, *(len(look.model) for look in looks))
    curves = {look.model: look.gradient.relative.geometric for look in looks}
    print("what is left of the gradient, by distance in tokens (geometric mean)")
    for first, cells in [("distance", list(curves)), *gradient_rows(curves)]:
        print(" ".join([f"{first:>10}", *(f"{cell:>{width}}" for cell in cells)]))


def _as_json(look: "Look") -> dict[str, object]:
    """Return how far back a model looks as a JSON object."""
    distances = []
    for distance, row in enumerate(zip(*look.gradient.relative, strict=True), 1):
        pairs, mean, geometric = row
        figures = {"pairs": pairs, "mean": mean, "geometric": geometric}
        distances.append({"distance": distance, **figures})
    nearest = {"mean": look.gradient.mean[0], "geometric": look.gradient.geometric[0]}
    return {
        "model": look.model,
        "tokens": look.tokens,
        "nearest": nearest,
        "distances": distances,
    }
