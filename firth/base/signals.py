"""Requests to stop a run: the first is kept until the step is done, the second obeyed at once.

That is so on the command line. A host that imports Firth keeps its own handlers: there nothing is
installed, and a KeyboardInterrupt is raised where it happens.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from firth.base.errors import Stopped, is_command_line

STOPS = (signal.SIGTERM, signal.SIGINT)
Handlers = dict[signal.Signals, Any]


def _may_install() -> bool:
    """Return whether handlers are ours to change; Python lets only the main thread do so."""
    return is_command_line() and threading.current_thread() is threading.main_thread()


def _install(handler: Callable[[int, FrameType | None], None]) -> Handlers:
    """Install a handler for requests to stop, and return those before it."""
    return {kind: signal.signal(kind, handler) for kind in STOPS}


def _restore(handlers: Handlers) -> None:
    """Install again what was there before."""
    for kind, handler in handlers.items():
        signal.signal(kind, handler)


class StopRequest:
    """Listens for SIGTERM and SIGINT while a run goes on."""

    asked = False

    def __enter__(self) -> "StopRequest":
        self._before: Handlers = {}
        if _may_install():
            self._before = _install(self._hear)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _restore(self._before)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            os._exit(Stopped.exit_code)
        self.asked = True


@contextmanager
def stoppable(said: str) -> Iterator[None]:
    """Obey SIGTERM and SIGINT at once, where nothing has to be finished first.

    `said` is the message of the `Stopped` that is raised.
    """

    def stop(*_: object) -> None:
        raise Stopped(said)

    if not _may_install():
        yield
        return
    before = _install(stop)
    try:
        yield
    finally:
        _restore(before)


@contextmanager
def ignore_sigterm() -> Iterator[None]:
    """Ignore SIGTERM for a moment."""
    if not _may_install():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)
