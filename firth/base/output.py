"""Standard output that may be closed: `firth ... | head -1` ends quietly."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PIPE_CLOSED = (
    141  # what a shell says of a command that wrote to a pipe that nobody reads: 128 + SIGPIPE
)


class Unread(BrokenPipeError):
    """Nobody read the report of work that is saved to its end, which doesn't undo the work."""


@contextmanager
def reported() -> Iterator[None]:
    """Print the report of work that is saved: a pipe that is closed is told from one that was closed before."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise Unread(*error.args) from error


def discard_output() -> None:
    """Send what is still to be written to nowhere: it would fail again as the process ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
