"""How far long work has come: a bar on a terminal, a plain line now and then elsewhere; always on standard error."""

import os
import sys
import time
from types import TracebackType
from typing import Any, TextIO, cast

SECONDS_BETWEEN_LINES = 10.0
ERASE = "\r\x1b[2K"  # the line of the terminal that the cursor is in, which is the bar's


class _AboveBar:
    """A stream to the terminal that shows a bar: each whole line is written in place of the bar, which is drawn again below it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.shown = False  # whether the bar is on the screen
        self._line = ""  # a line that has not ended

    def write(self, text: str) -> int:
        """Write what ends with a line break, and keep the rest until its line ends."""
        if not self.shown:
            return self.stream.write(text)
        lines, end, self._line = (self._line + text).rpartition("\n")
        if end:
            # In one call, since a thread draws the bar.
            self.stream.write(f"{ERASE}{lines}{end}")
            self.stream.flush()
        return len(text)

    def release(self) -> None:
        """Write what is kept: the bar is gone."""
        self.shown = False
        line, self._line = self._line, ""
        if line:
            self.stream.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _same_terminal(one: TextIO, other: TextIO) -> bool:
    """Return whether two streams go to one terminal."""
    try:
        return one.isatty() and os.path.samestat(os.fstat(one.fileno()), os.fstat(other.fileno()))
    except (OSError, ValueError):  # a stream that is no file, or closed
        return False


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
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                rate,
                TimeRemainingColumn(),
            )
            self._streams = (sys.stdout, sys.stderr)
            screen = sys.stderr.stream if isinstance(sys.stderr, _AboveBar) else sys.stderr
            # rich would take standard output to the screen, wrapped, wherever it goes: a pipe or a file would get nothing.
            console = Console(file=screen)
            self.bar = Bar(
                *columns,
                console=console,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self.row = self.bar.add_task(self.what, total=self.total, rate="")
            self._above = [_AboveBar(screen)]
            sys.stderr = cast("TextIO", self._above[0])
            if _same_terminal(sys.stdout, screen):
                self._above.append(_AboveBar(sys.stdout))
                sys.stdout = cast("TextIO", self._above[1])
        return self

    def _draw(self) -> None:
        """Show the bar; not before there is something to show, since a person may be typing the texts."""
        if not self._above[0].shown:
            for stream in self._above:
                stream.flush()
                stream.shown = True
            self.bar.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.on_terminal:
            try:
                self.bar.stop()
            finally:
                sys.stdout, sys.stderr = self._streams
                for stream in self._above:
                    stream.release()

    def __call__(self, done: int, note: str = "") -> None:
        """Say that so many pieces are done; `note` is shown in place of their rate."""
        now = time.monotonic()
        rate = (done - self.before) / max(now - self.begun, 1e-9)
        if self.on_terminal:
            self._draw()
            self.bar.update(self.row, completed=done, rate=note or f"{rate:,.0f} {self.unit}/s")
        elif now - self.said >= SECONDS_BETWEEN_LINES:
            self.said = now
            of = f" of {self.total:,}" if self.total is not None else ""
            left = (
                f", {(self.total - done) / rate:,.0f} s left"
                if self.total is not None and rate
                else ""
            )
            print(
                f"{self.what}: {done:,}{of} {self.unit}, {note or f'{rate:,.0f}/s'}{left}",
                file=sys.stderr,
                flush=True,
            )
