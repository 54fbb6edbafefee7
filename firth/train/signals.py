"""A request to stop is kept until the step is done; a second one is obeyed at once."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from firth.base.errors import Stopped


class StopRequest:
    """Listens for SIGTERM and SIGINT while a run goes on."""

    asked = False

    def __enter__(self) -> "StopRequest":
        self._before = {}
        if threading.current_thread() is threading.main_thread():
            self._before = {kind: signal.signal(kind, self._hear) for kind in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for which, handler in self._before.items():
            signal.signal(which, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            os._exit(Stopped.exit_code)
        self.asked = True


@contextmanager
def deaf() -> Iterator[None]:
    """Ignore SIGTERM for a moment."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)
