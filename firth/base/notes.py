"""Messages of the library: log records and warnings in Python, lines of standard error in commands.

A Python program sees notes with `logging.basicConfig(level=logging.INFO)` and chooses what to do
with each category of warning by `warnings.filterwarnings`. A command prints all of them.
"""

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from firth.base.errors import FirthWarning, for_caller

LOGGER = logging.getLogger("firth")
_COLLECTED: ContextVar[list[str] | None] = ContextVar("collected", default=None)


@contextmanager
def collected() -> Iterator[list[str]]:
    """Collect the notes and warnings of a block, which are logged and issued as ever.

    A handler of the logger would miss those that the host's level keeps from it.
    """
    said: list[str] = []
    before = _COLLECTED.set(said)
    try:
        yield said
    finally:
        _COLLECTED.reset(before)


def note(text: str) -> None:
    """Log what was left out or decided; a command prints `note: text`."""
    LOGGER.info(_collect(for_caller(text)), extra={"prefix": "note: "}, stacklevel=2)


def progress_line(text: str) -> None:
    """Log how far the work has come; a command prints the text alone."""
    LOGGER.info(for_caller(text), extra={"prefix": ""}, stacklevel=2)


def warn(text: str, category: type[FirthWarning] = FirthWarning) -> None:
    """Issue a warning at the line outside this package that called it."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame.f_globals):
        level += 1
        frame = frame.f_back
    warnings.warn(_collect(for_caller(text)), category, stacklevel=level)


def _collect(text: str) -> str:
    """Add a message to those that are collected, if any are, and return it."""
    said = _COLLECTED.get()
    if said is not None:
        said.append(text)
    return text


def _is_ours(names: dict[str, Any]) -> bool:
    """Tell by its global names whether a frame belongs to this package."""
    module: str = names.get("__name__", "")
    return module.partition(".")[0] == "firth"


class _StandardErrorHandler(logging.Handler):
    """Print each record as a line on standard error.

    The stream is looked up for each record, because a progress bar takes its place for a while.
    A failure to write is raised, not swallowed, so that the command ends with the right exit code.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        prefix = getattr(record, "prefix", "")
        print(f"{prefix}{record.getMessage()}", file=sys.stderr, flush=True)


@contextmanager
def on_standard_error() -> Iterator[None]:
    """Print notes and warnings on standard error, as a command does; each warning once."""
    handler = _StandardErrorHandler()
    level = LOGGER.level
    propagate = LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False  # a root handler would print every line a second time
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", FirthWarning)
            usual = warnings.showwarning

            def show(
                message: Warning | str, category: type[Warning], *where: Any, **more: Any
            ) -> None:
                if issubclass(category, FirthWarning):
                    print(f"{category.prefix}{message}", file=sys.stderr)
                else:
                    usual(message, category, *where, **more)

            warnings.showwarning = show
            yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        LOGGER.propagate = propagate
