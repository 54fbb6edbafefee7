"""The section that runs a model in the page: its weights, its rules and the first text."""

from collections.abc import Mapping
from typing import Any

from firth.pages.page import Array, PageSection


def live_section(
    text: str,
    tokenizer: Mapping[str, Any],
    settings: Mapping[str, Any],
    tensors: Mapping[str, Array],
) -> PageSection:
    """Return the section."""
    data = {
        "text": text,
        "tokenizer": dict(tokenizer),
        "settings": dict(settings),
        "tensors": dict(tensors),
    }
    return PageSection("live", "Try it", data)
