"""How far long work has come: a bar on a terminal, a plain line now and then elsewhere; always on standard error."""

import sys
import time
from types import TracebackType

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Count finished pieces of work; `total` may be unknown, and `before` were done by an earlier process."""

    def __init__(self, what: str, unit: str, total: int | None = None, before: int = 0) -> None:
        self.what, self.unit, self.total, self.before = what, unit, total, before
        self.begun = self.said = time.monotonic()
        self.on_terminal = sys.stderr.isatty()

    def __enter__(self) -> "Progress":
        if self.on_terminal:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            rate = TextColumn("{task.fields[rate]}")
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
            self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self.row = self.bar.add_task(self.what, total=self.total, rate="")
            self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.on_terminal:
            self.bar.stop()

    def __call__(self, done: int, note: str = "") -> None:
        """Say that so many pieces are done; `note` is shown in place of their rate."""
        now = time.monotonic()
        rate = (done - self.before) / max(now - self.begun, 1e-9)
        if self.on_terminal:
            self.bar.update(self.row, completed=done, rate=note or f"{rate:,.0f} {self.unit}/s")
        elif now - self.said >= SECONDS_BETWEEN_LINES:
            self.said = now
            of = f" of {self.total:,}" if self.total is not None else ""
            left = f", {(self.total - done) / rate:,.0f} s left" if self.total is not None and rate else ""
            print(f"{self.what}: {done:,}{of} {self.unit}, {note or f'{rate:,.0f}/s'}{left}", file=sys.stderr, flush=True)
