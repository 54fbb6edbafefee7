"""What a training takes from the process that it runs in, and gives back."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TypeVar

import torch

from firth.folders.weights import use_threads
from firth.train.run import Run

T = TypeVar("T")
_setting = threading.Lock()
_temporary = ContextVar("temporary", default=False)


@contextmanager
def training(threads: int | None) -> Iterator[None]:
    """Train with so many of torch's threads, None for as many as there are; others keep theirs.

    Torch keeps a number for each thread, but a thread that begins takes the one that was set last,
    which would be this training's: so it is set back by a thread that does nothing else.
    """
    if threads is None:
        yield
        return
    with ExitStack() as stack:
        with _setting:
            host = _in_new_thread(torch.get_num_threads)
            stack.enter_context(use_threads(threads))
            _in_new_thread(lambda: torch.set_num_threads(host))
        yield


def _in_new_thread(work: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


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
