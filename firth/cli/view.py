"""`firth view`: which page is asked for, and the page of a text."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from firth.base.errors import InputError
from firth.cli.show_example import show_example
from firth.cli.show_look import show_look
from firth.cli.show_projector import show_projector
from firth.cli.show_report import show_report
from firth.cli.show_runs import are_runs, refuse_runs, view_runs

PAGE = "view.html"  # where nobody says otherwise


class Kind(NamedTuple):
    """A kind of page: what it is about, and the options that no other has."""

    about: str
    asking: tuple[str, ...] = ()  # which alone say that this page is meant
    more: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """Return all options that no other page has."""
        return self.asking + self.more


REPORT = Kind(
    "a file of examples (--data)", ("data",), ("target", "second", "label", "missing", "long")
)
EXAMPLE = Kind("a picture of textbooks (--example)", ("example",))
POINTS = Kind("points (--projector or --words)", ("projector", "sought"), ("axes",))
RUNS = Kind("runs", ("follow", "port"))
TEXT = Kind("one model and a text in quotes", (), ("pair", "with_model"))
LOOK = Kind("how far back language models look")
# In the order in which their options are looked for.
KINDS = (REPORT, EXAMPLE, POINTS, RUNS, TEXT)
# Options whose names on the command line are others.
TYPED = {"sought": "words", "field": "text", "form": "format"}


def view(
    words: list[str],
    as_json: bool,
    out: str | None,
    force: bool,
    threads: int | None,
    field: str | None,
    encoding: str | None,
    form: Any,
    **options: Any,
) -> None:
    """Look inside a model: write a page that shows what it computes for a text.

    Of a translator also what it makes of the text, step by step. With --data: how good a model is
    on examples, and which it gets wrong. With --projector or --words: many texts, or words in
    their sentences, as points on two axes. Of runs: how training went, or goes on. Of language
    models and a file: how far back each looks, as a table and as a page. With --example: a picture
    that textbooks print, with numbers that are computed anew.

    Example: firth view minilm "The animal didn't cross the street because it was too tired."
    """
    kind = _kind(words, as_json, options)
    _refuse_others(kind, options)
    reading = {"field": field, "encoding": encoding, "form": form}
    if kind in (EXAMPLE, RUNS, TEXT):
        _refuse_given(reading, "a file", kind)
    of_file = {**reading, "threads": threads}
    target = out or (None if as_json else PAGE)
    if kind is REPORT:
        read = {name: options[name] for name in REPORT.options}
        show_report(words, target, as_json, force=force, **read, **of_file)
    elif kind is EXAMPLE:
        show_example(options["example"], words, target, as_json, force, threads)
    elif kind is POINTS:
        show_projector(
            words, options["sought"], target, as_json, axes=options["axes"], force=force, **of_file
        )
    elif kind is RUNS:
        view_runs(words, out, options["follow"], options["port"], as_json, force)
    elif kind is TEXT:
        show_text(words, out or PAGE, options["pair"], options["with_model"], force, threads)
    else:
        show_look(words, out, as_json, force=force, **of_file)


def _kind(words: Sequence[str], as_json: bool, options: Mapping[str, Any]) -> Kind:
    """Return the kind of page that is asked for, by the options and then by the words."""
    for kind in KINDS:
        if any(options[name] is not None and options[name] is not False for name in kind.asking):
            return kind
    if are_runs(words):
        return RUNS
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
    if _is_word(source) and not os.path.exists(source):  # noqa: PTH110
        raise InputError(
            f"there is no file {source!r}; a text of one word has a blank after it: "
            f"{source + ' '!r}"
        )

    from firth.reading.asked import is_text

    return TEXT if is_text(source) and len(models) == 1 and not as_json else LOOK


def _is_word(source: str) -> bool:
    """Tell what was meant as a text of one word from a file, which has an ending or a folder."""
    is_named = "." in source.rstrip(".") or "/" in source
    return not is_named and " " not in source and any(map(str.isalpha, source))


def _refuse_others(asked: Kind, options: Mapping[str, Any]) -> None:
    """Refuse options that are for another page, which would be left out without a word."""
    for kind in KINDS:
        if kind is not asked:
            _refuse_given({name: options[name] for name in kind.options}, kind.about, asked)


def _refuse_given(options: Mapping[str, Any], about: str, asked: Kind) -> None:
    """Refuse options that are about something else than the page that is asked for."""
    for name, value in options.items():
        if value:
            typed = "--" + TYPED.get(name, name).replace("_", "-")
            raise InputError(
                f"{typed} is for {about}, and this is about {asked.about}: leave {typed} out"
            )


def show_text(
    words: Sequence[str],
    out: str,
    pair: str | None,
    with_model: bool,
    force: bool,
    threads: int | None,
) -> None:
    """Write the page of a text, and say where it is and what is in it."""
    from firth.verbs.view import view as run

    model, text = words
    found = run(model, text, out, pair=pair, with_model=with_model, threads=threads, force=force)
    headings = ", ".join(heading.lower() for heading in found.sections)
    print(f"{found.path}: {headings} ({found.tokens:,} tokens); open it in a browser")
