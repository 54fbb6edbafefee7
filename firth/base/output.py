"""Standard output that its reader may close: `firth ... | head -1` ends quietly."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# What a shell reports of a command that wrote to a pipe that nobody reads: 128 + SIGPIPE.
PIPE_CLOSED = 141


class Unread(BrokenPipeError):
    """Nobody read the report of work that is saved to its end, which doesn't undo the work."""


@contextmanager
def reported() -> Iterator[None]:
    """Turn a pipe that closes while the report of saved work is printed into `Unread`."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise Unread(*error.args) from error


def discard_output() -> None:
    """Discard what is still to be written: it would fail again as the process ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
