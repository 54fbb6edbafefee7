"""Errors and warnings that Firth raises on purpose; each text is one sentence to act on.

Messages are written with options as the command line has them (`--long cut`). Where the call came
from Python, they are turned into arguments (`long='cut'`).
"""

import copyreg
import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

LONGEST = 2000  # characters of a message; a name or a value in it may have any length

# Options without a value, as arguments of the Python functions.
FLAGS = {
    "balance": "balance=True",
    "carry": "carry=True",
    "complete": "complete=True",
    "force": "force=True",
    "new-head": "new_head=True",
    "no-nsp": "nsp=False",
    "resume": "resume=True",
    "score": "score=True",
    "tune-no-answer": "tune_no_answer=True",
    "whole-words": "whole_words=True",
}
# Options whose name is that of a function of Python's own, by their arguments.
ARGUMENTS = {"format": "form", "map": "mapping"}
# In a message `--long cut` has a value and `--long is ...` has none, so what may be a value is
# listed: choices, to which the registries add their names, encodings, columns.
_choices = {
    *("auto", "carry", "csv", "cut", "error", "keep", "lower", "parquet", "punctuation", "slide"),
    *("spaces", "tsv"),
}
NO_CHOICE = r"[a-z]+[-_]?\d[\w-]*|\w+(?:,\w+)+"
# What a person would type into a shell stays as it is, and so does what stands in quotes: it is
# the user's own.
SHELL = r"\b(?:firth|pip|python|torchrun|grep) [^;()]*|(?<!\w)'(?:[^'\\]|\\.)*'"
_command_line = False  # whether this process runs a command


@contextmanager
def on_command_line() -> Iterator[None]:
    """Declare this process a command's own.

    Then runs may install signal handlers, and messages name options as they are typed.
    """
    global _command_line  # noqa: PLW0603 - a process is either, and its threads too
    before = _command_line
    _command_line = True
    try:
        yield
    finally:
        _command_line = before


def is_command_line() -> bool:
    """Tell a command's own process from a host that imports Firth."""
    return _command_line


def option(name: str, value: str | None = None) -> str:
    """Return an option as the caller gives it: `--long cut`, or from Python `long='cut'`."""
    if _command_line:
        return _typed_option(name, value)
    if value is None and name in FLAGS:
        return FLAGS[name]
    argument = ARGUMENTS.get(name, name.replace("-", "_"))
    if value is None:
        return f"{argument}="
    return f"{argument}={value!r}"


def _typed_option(name: str, value: str | None) -> str:
    """Return an option as it is typed into a shell."""
    if value is None:
        return f"--{name}"
    if not value.isprintable():
        value = repr(value)[1:-1]
    return f"--{name} {shlex.quote(value)}"


def add_choices(names: Iterable[str]) -> None:
    """Let names follow an option as its value, where messages have them: `--task tag`."""
    _choices.update(names)
    _option_pattern.cache_clear()


@cache
def _option_pattern() -> re.Pattern[str]:
    """Return what finds the options of a message, with their values."""
    choices = "|".join(re.escape(choice) for choice in sorted(_choices))
    value = rf"(?:{choices}|{NO_CHOICE})(?![\w-])"
    option = rf"--(?P<name>[a-z]+(?:-[a-z]+)*)(?: (?P<value>{value}))?"
    return re.compile(rf"(?P<shell>{SHELL})|(?<![^\s(]){option}(?!\w|[-./]\w)")


def plugin_hint() -> str:
    """Say what may make an unknown task or family known."""
    by = "--plugin FILE" if _command_line else "firth.register(...)"
    return f"a plugin may bring it: {by}"


def bounded(message: str) -> str:
    """Return a message without its middle where it is longer than a person reads."""
    if len(message) <= LONGEST:
        return message
    return f"{message[: LONGEST // 2]} … {message[-LONGEST // 2 + 3 :]}"


def for_caller(message: str) -> str:
    """Return a message with its options in the words of whoever made the call."""
    if _command_line:
        return message
    return _option_pattern().sub(_as_argument, message)


def _as_argument(found: re.Match[str]) -> str:
    """Return an option of a message as a Python argument, a shell command as it is."""
    return found["shell"] or option(found["name"], found["value"])


class FirthError(Exception):
    """The work failed."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(for_caller(bounded(message)))

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew without calling __init__, which in a subclass may take other arguments.
        made_by = copyreg.__newobj__  # type: ignore[attr-defined]
        return made_by, (type(self), *self.args), self.__dict__


class InputError(FirthError, ValueError):
    """The call, the data or the model folder is wrong; the message names file and reason."""

    exit_code = 2


class Stopped(FirthError):
    """The run was stopped on request and can be resumed."""

    exit_code = 3


class FirthWarning(UserWarning):
    """Something was left out or is other than it seems, and the work goes on."""

    prefix = "note: "  # what the command line prints before the message


class DataWarning(FirthWarning):
    """The data is probably not what it was meant to be, so that metrics may say little."""

    prefix = "WARNING: "


class RunWarning(FirthWarning):
    """What an earlier process left of a run is damaged or incomplete."""

    prefix = "WARNING: "
