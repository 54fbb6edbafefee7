"""The errors that Firth raises on purpose; their text is one sentence that a person can act on."""

import copyreg
import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LONGEST = 2000  # characters of a message; a name or a value in it may have any length

# Options without a value, as arguments of the Python functions.
FLAGS = {
    **{
        name: f"{name.replace('-', '_')}=True"
        for name in ("balance", "carry", "complete", "force", "new-head", "resume", "score")
    },
    "no-nsp": "nsp=False",
    "whole-words": "whole_words=True",
}
# In a message `--long cut` has a value and `--long is ...` has none, so what may be a value is listed: choices, encodings, columns.
VALUE = (
    r"(?:auto|bert|carry|classify|csv|cut|error|ffnn|gpt|ngram|parquet|punctuation|regress|rnn|slide|spaces|tag|tsv"
    r"|[a-z]+[-_]?\d[\w-]*|\w+(?:,\w+)+)(?![\w-])"
)
# What a person would type into a shell stays as it is, and so does what stands in quotes: it is the user's own.
OPTION = re.compile(
    r"(?P<shell>\b(?:firth|pip|python|torchrun|grep) [^;()]*|(?<!\w)'(?:[^'\\]|\\.)*')"
    rf"|(?<![^\s(])--(?P<name>[a-z]+(?:-[a-z]+)*)(?: (?P<value>{VALUE}))?(?!\w|[-./]\w)"
)
_shell = False  # whether the command line is running


@contextmanager
def on_command_line() -> Iterator[None]:
    """Say that the process is the command line's own: runs may install signal handlers, and messages name options as typed."""
    global _shell  # noqa: PLW0603 - a process is either, and its threads too
    before, _shell = _shell, True
    try:
        yield
    finally:
        _shell = before


def is_command_line() -> bool:
    """Tell the command line's own process from a host that imports Firth."""
    return _shell


def option(name: str, value: str | None = None) -> str:
    """Return an option as the caller would give it: `--encoding latin-1`, or from Python `encoding='latin-1'`."""
    if _shell:
        return (
            f"--{name}"
            if value is None
            else f"--{name} {shlex.quote(value if value.isprintable() else repr(value)[1:-1])}"
        )
    if value is None and name in FLAGS:
        return FLAGS[name]
    return f"{name.replace('-', '_')}={'' if value is None else repr(value)}"


def bounded(message: str) -> str:
    """Return a message without its middle where it is longer than a person reads."""
    return (
        message
        if len(message) <= LONGEST
        else f"{message[: LONGEST // 2]} … {message[-LONGEST // 2 + 3 :]}"
    )


def for_caller(message: str) -> str:
    """Return a message, written with options as the command line has them, in the words of whoever made the call."""
    return (
        message
        if _shell
        else OPTION.sub(
            lambda found: found["shell"] or option(found["name"], found["value"]), message
        )
    )


class FirthError(Exception):
    """The work failed."""

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(for_caller(bounded(message)))

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew without calling __init__, which in a subclass may take other arguments.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class InputError(FirthError, ValueError):
    """The call, the data or the model folder is wrong; the message names the file and the reason."""

    exit_code = 2


class Stopped(FirthError):
    """The run was stopped on request and can be resumed."""

    exit_code = 3


class FirthWarning(UserWarning):
    """Something was left out or is other than it seems, and the work goes on; the command line prints it as a note."""


def warn(message: str) -> None:
    """Issue a FirthWarning at the caller's line that is outside of this package."""
    level = 2
    frame = sys._getframe(1)
    while (
        frame.f_back is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] == "firth"
    ):
        level += 1
        frame = frame.f_back
    warnings.warn(message, FirthWarning, stacklevel=level)
