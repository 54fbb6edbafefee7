"""What `firth view` prints of language models and a file: how far back they look."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firth.verbs.view import Look

NARROWEST = 9  # characters of a column


def show_look(words: Sequence[str], out: str | None, as_json: bool, **options: Any) -> None:
    """Print how far back models look, as a table or as one JSON object, and write the page."""
    from firth.verbs.view import gradients

    *models, source = words
    looks = gradients(models, source, out, **options)
    if as_json:
        print(json.dumps({"models": [_as_json(look) for look in looks]}))
    else:
        _print_table(looks)


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
