"""What `firth view --data` prints."""

from collections.abc import Sequence
from typing import Any

from firth.base.errors import InputError


def show_report(
    words: Sequence[str],
    out: str | None,
    as_json: bool,
    data: str,
    field: str | None,
    **options: Any,
) -> None:
    """Write the page of a model's answers to a file, and say where it is and what is in it."""
    if as_json:
        raise InputError("--data writes a page; firth evaluate --json prints its figures")
    if len(words) != 1:
        raise InputError(
            f"--data takes one model, and there are {len(words)}: firth evaluate compares several"
        )
    (model,) = words

    from firth.recipes.inputs import refuse_missing_models, refuse_missing_texts

    refuse_missing_texts([data])
    refuse_missing_models([model])
    from firth.verbs.report import report

    found = report(model, data, out, text=field, **options)
    headings = ", ".join(heading.lower() for heading in found.sections)
    counted = f"{found.evaluation.examples:,} {found.evaluation.unit}"
    if found.examples:
        counted += f", {found.examples:,} of them in the page"
    print(f"{found.path}: {headings} ({counted}); open it in a browser")
