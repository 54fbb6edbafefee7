"""The sections of a translator: each step of a target, and the one vector between the sides."""

from collections.abc import Mapping, Sequence
from typing import Any

from firth.pages.page import Array, PageSection
from firth.pages.sections import NextBars, step_data
from firth.pages.textbook import NumberSheet, sheets_section


def translation_section(
    source: Sequence[str],
    tokens: Sequence[str],
    parts: Sequence[int | None],
    steps: Sequence[NextBars],
    attention: Mapping[str, Any] | None,
    note: str,
) -> PageSection:
    """Return what is expected at each step of a target, and what of its source is looked at."""
    data = {
        "source": list(source),
        "tokens": list(tokens),
        "parts": list(parts),
        "places": list(map(step_data, steps)),
        "attention": attention,
        "note": note,
    }
    return PageSection("translation", "The target, step by step", data)


def vector_section(vector: Array) -> PageSection:
    """Return the one vector (D) that stands between the two sides."""
    columns = [f"number {number + 1}" for number in range(len(vector))]
    note = "Blue is above 0, orange below."
    sheet = NumberSheet("The vector of the source", note, ["the source"], columns, vector[None])
    return sheets_section("The one vector between the two sides", [sheet])
