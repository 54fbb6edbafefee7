"""What a training takes from the process that it runs in, and gives back."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from firth.base.errors import FirthError
from firth.folders.bundle import use_threads
from firth.train.run import Run

_training = threading.RLock()
_temporary = ContextVar("temporary", default=False)


@contextmanager
def training(threads: int | None) -> Iterator[None]:
    """Train in one thread of the process at a time; torch's generator and thread count are restored at the end.

    Two trainings at once would seed the same generator and take each other's random numbers.
    """
    if not _training.acquire(blocking=False):
        raise FirthError(
            "another thread of this process is training: wait for its end, or start a process for each training"
        )
    try:
        # Only the generator of the CPU: no other is seeded.
        with torch.random.fork_rng(devices=[]), use_threads(threads):
            yield
    finally:
        _training.release()


@contextmanager
def temporary_runs() -> Iterator[None]:
    """Train without a word about the folders of runs: whoever calls removes them."""
    before = _temporary.set(True)
    try:
        yield
    finally:
        _temporary.reset(before)


def removable(run: Run) -> list[str]:
    """Say where a finished run's folder is and how large, unless it goes by itself."""
    return [] if _temporary.get() else [run.removable()]
