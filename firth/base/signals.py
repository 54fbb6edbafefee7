"""Requests to stop a run: on the command line one is kept until the step is done, and a second is obeyed at once.

A host that imports Firth keeps its own handlers: there nothing is installed, and a KeyboardInterrupt is raised where it happens.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from firth.base.errors import Stopped, is_command_line


def _may_install() -> bool:
    return is_command_line() and threading.current_thread() is threading.main_thread()


class StopRequest:
    """Listens for SIGTERM and SIGINT while a run goes on."""

    asked = False

    def __enter__(self) -> "StopRequest":
        self._before = {}
        if _may_install():
            self._before = {
                kind: signal.signal(kind, self._hear) for kind in (signal.SIGTERM, signal.SIGINT)
            }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for which, handler in self._before.items():
            signal.signal(which, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            os._exit(Stopped.exit_code)
        self.asked = True


@contextmanager
def stoppable(said: str) -> Iterator[None]:
    """Where nothing has to be finished first, obey SIGTERM and SIGINT at once; say what was stopped."""

    def stop(*_: object) -> None:
        raise Stopped(said)

    if not _may_install():
        yield
        return
    before = {kind: signal.signal(kind, stop) for kind in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


@contextmanager
def deaf() -> Iterator[None]:
    """Ignore SIGTERM for a moment."""
    if not _may_install():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)
