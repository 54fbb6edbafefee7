"""What a training takes from the process and the disk that it runs on, and what may be given back."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from firth.base.errors import FirthError
from firth.bundle import use_threads
from firth.train.run import Run

_training = threading.RLock()


@contextmanager
def training(threads: int | None) -> Iterator[None]:
    """Train in one thread of the process at a time; torch's generator and thread count are restored at the end.

    Two trainings at once would seed the same generator and take each other's random numbers.
    """
    if not _training.acquire(blocking=False):
        raise FirthError("another thread of this process is training: wait for its end, or start a process for each training")
    try:
        # Only the generator of the CPU: no other is seeded.
        with torch.random.fork_rng(devices=[]), use_threads(threads):
            yield
    finally:
        _training.release()


def say_removable(out: str | Path) -> None:
    """Name the run's folder and its size on standard error, where there is one: a finished model doesn't need it."""
    folder = Run.beside(out)[1].folder
    leads = int(os.environ.get("RANK", "0")) == 0  # of several processes one speaks
    if not leads or not folder.is_dir():
        return
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    megabytes = max(1, round(size / 1e6))
    print(f"{folder} ({megabytes:,} MB) may be removed: the model doesn't need it", file=sys.stderr)
