"""`firth view`."""

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from firth.base.errors import InputError
from firth.cli.show_example import show_example
from firth.cli.show_report import refuse_without_data, show_report

if TYPE_CHECKING:
    from firth.verbs.view import Look

PAGE = "view.html"  # where nobody says otherwise
NARROWEST = 9  # characters of a column


def view(
    words: list[str],
    as_json: bool,
    pair: str | None,
    with_model: bool,
    example: str | None,
    data: str | None,
    out: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Look inside a model: write a page that shows what it computes for a text.

    With --data: how good it is on examples, and which it gets wrong. Of language models and a file:
    how far back each looks, as a table and as a page. With --example: a picture that textbooks
    print, with numbers that are computed anew.

    Example: firth view minilm "The animal didn't cross the street because it was too tired."
    """
    option = "--pair" if pair is not None else "--with-model" if with_model else None
    if data is not None:
        _refuse_beside_data(option, example, as_json)
        show_report(words, data, out or PAGE, {**options, "force": force})
        return
    refuse_without_data(options)
    if example is not None:
        if option is not None:
            raise InputError(f"{option} is for a text of your own, and --example has its own")
        target = out or (None if as_json else PAGE)
        show_example(example, words, target, as_json, force, options["threads"])
        return
    *models, source = words or [""]
    # Not by pathlib, which refuses a text that is too long for a name.
    if not models or os.path.isdir(source):  # noqa: PTH112
        raise InputError(
            "which text? Name model folders and then a file, a text in quotes, "
            "or - for standard input"
        )

    from firth.reading.asked import is_text

    if is_text(source) and len(models) == 1 and not as_json:
        threads = options["threads"]
        _write(models[0], source, out or PAGE, pair, with_model, force, threads)
        return
    if option is not None:
        raise InputError(f"{option} is for a page of one model and a text in quotes")

    from firth.verbs.view import gradients

    of_file = {name: options[name] for name in ("field", "encoding", "form", "threads")}
    looks = gradients(models, source, out, force=force, **of_file)
    if as_json:
        print(json.dumps({"models": [_as_json(look) for look in looks]}))
    else:
        _print_table(looks)


def _refuse_beside_data(option: str | None, example: str | None, as_json: bool) -> None:
    """Refuse what has no place beside a file of examples."""
    if option is not None:
        raise InputError(f"{option} is for a text of your own, and --data names a file of examples")
    if example is not None:
        raise InputError("--example and --data ask for different pages; say one of them")
    if as_json:
        raise InputError("--data writes a page; firth evaluate --json prints its figures")


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
