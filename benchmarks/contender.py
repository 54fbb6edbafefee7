"""The compared stand in processes of their own, so that nobody's settings help or hinder another."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO


class Contender:
    """One of the compared: a benchmark's own module, started with `--contender NAME` and asked over its standard input."""

    def __init__(self, module: str, name: str, *options: str) -> None:
        command = [sys.executable, "-m", module, "--contender", name, *options]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, what: str) -> float:
        """Put a question and wait for the number."""
        assert self.process.stdin
        assert self.process.stdout
        print(what, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def answering() -> TextIO:
    """Where answers go; whatever else is printed from here on goes to standard error."""
    answers = sys.stdout
    sys.stdout = sys.stderr
    return answers


def timed(work: Callable[[], object]) -> float:
    """Seconds that some work takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def peak_memory() -> float:
    """Megabytes at the most of this process; not getrusage, whose peak is inherited from the process that started it."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024
