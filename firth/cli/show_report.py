"""What `firth view --data` prints."""

from collections.abc import Mapping, Sequence
from typing import Any

from firth.base.errors import InputError

# Options that are for a file of examples alone, with how they are typed.
OF_DATA = ("target", "second", "label", "missing", "long")


def refuse_without_data(options: Mapping[str, Any]) -> None:
    """Refuse options that say how a file of examples is read, where there is none."""
    for name in OF_DATA:
        if options[name]:
            raise InputError(f"--{name} is for a file of examples: name it with --data")


def show_report(words: Sequence[str], data: str, out: str, options: Mapping[str, Any]) -> None:
    """Write the page of a model's answers to a file, and say where it is and what is in it."""
    if len(words) != 1:
        raise InputError(
            f"--data takes one model, and there are {len(words)}: firth evaluate compares several"
        )
    (model,) = words

    from firth.recipes.inputs import refuse_missing_models, refuse_missing_texts

    refuse_missing_texts([data])
    refuse_missing_models([model])
    from firth.verbs.report import report

    given = dict(options)
    text = given.pop("field")
    found = report(model, data, out, text=text, **given)
    headings = ", ".join(heading.lower() for heading in found.sections)
    counted = f"{found.evaluation.examples:,} {found.evaluation.unit}"
    if found.examples:
        counted += f", {found.examples:,} of them in the page"
    print(f"{found.path}: {headings} ({counted}); open it in a browser")
