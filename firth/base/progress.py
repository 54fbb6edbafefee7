"""Progress of long work: a bar on a command's terminal, a line in a notebook, else log records."""

import os
import sys
import time
from types import TracebackType
from typing import Any, TextIO, cast

from firth.base.errors import is_command_line
from firth.base.notes import progress_line

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_NOTEBOOK_LINES = 0.5
ERASE = "\r\x1b[2K"  # the terminal's line that the cursor is in, which is the bar's


class Progress:
    """Show how many items are done; `before` of them were done by an earlier process."""

    def __init__(self, what: str, unit: str, total: int | None = None, before: int = 0) -> None:
        self.what = what
        self.unit = unit
        self.total = total
        self.before = before
        self._started = time.monotonic()
        self._last_shown = self._started
        # A host's terminal is the host's: there a bar would overwrite what the host prints.
        self._bar = _Bar(what, total) if is_command_line() and sys.stderr.isatty() else None
        self._notebook = _NotebookLine() if _in_notebook() else None

    def __enter__(self) -> "Progress":
        if self._bar is not None:
            self._bar.install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.remove()
        elif self._notebook is not None:
            self._notebook.end()

    def __call__(self, done: int, note: str = "") -> None:
        """Show that so many items are done; `note` is shown in place of their speed."""
        now = time.monotonic()
        speed = (done - self.before) / max(now - self._started, 1e-9)
        if self._bar is not None:
            self._bar.update(done, note or f"{speed:,.0f} {self.unit}/s")
            return

        waited = now - self._last_shown
        if self._notebook is not None and waited >= SECONDS_BETWEEN_NOTEBOOK_LINES:
            self._last_shown = now
            self._notebook.update(self._line(done, speed, note))
        elif self._notebook is None and waited >= SECONDS_BETWEEN_LINES:
            self._last_shown = now
            progress_line(self._line(done, speed, note))

    def _line(self, done: int, speed: float, note: str) -> str:
        """Describe the state of the work: how much is done, how fast, how long it will take."""
        line = f"{self.what}: {done:,}"
        if self.total is not None:
            line += f" of {self.total:,}"
        line += f" {self.unit}, {note or f'{speed:,.0f}/s'}"
        if self.total is not None and speed:
            line += f", {(self.total - done) / speed:,.0f} s left"
        return line


def _in_notebook() -> bool:
    """Tell whether a notebook's kernel runs this process; a command keeps its plain lines."""
    return "ipykernel" in sys.modules and not is_command_line()


class _NotebookLine:
    """One line in a notebook's output, written again over itself."""

    def __init__(self) -> None:
        self._width = 0

    def update(self, line: str) -> None:
        """Overwrite the line; a longer one before it is covered by blanks."""
        print(f"\r{line.ljust(self._width)}", end="", file=sys.stderr, flush=True)
        self._width = len(line)

    def end(self) -> None:
        """Let what is printed next begin on a line of its own."""
        if self._width:
            print(file=sys.stderr)


class _AboveBar:
    """A stream to the terminal that shows a bar.

    Each whole line is written in place of the bar, which is drawn again below it.
    """

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
        line = self._line
        self._line = ""
        if line:
            self.stream.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Bar:
    """A progress bar on standard error; lines printed meanwhile appear above it."""

    def __init__(self, what: str, total: int | None) -> None:
        self.what = what
        self.total = total

    def install(self) -> None:
        """Take the place of the streams that go to the bar's terminal."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._streams = (sys.stdout, sys.stderr)
        screen = sys.stderr.stream if isinstance(sys.stderr, _AboveBar) else sys.stderr
        # rich would take standard output to the screen, wrapped, wherever it goes: a pipe or a
        # file would get nothing.
        self._rich = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=Console(file=screen),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._row = self._rich.add_task(self.what, total=self.total, speed="")

        self._above = [_AboveBar(screen)]
        sys.stderr = cast("TextIO", self._above[0])
        if _same_terminal(sys.stdout, screen):
            self._above.append(_AboveBar(sys.stdout))
            sys.stdout = cast("TextIO", self._above[1])

    def update(self, done: int, speed: str) -> None:
        """Move the bar.

        It is first shown here, when there is something to show: before, a person may be typing.
        """
        if not self._above[0].shown:
            for stream in self._above:
                stream.flush()
                stream.shown = True
            self._rich.start()
        self._rich.update(self._row, completed=done, speed=speed)

    def remove(self) -> None:
        """Erase the bar and give the streams back."""
        try:
            self._rich.stop()
        finally:
            sys.stdout, sys.stderr = self._streams
            for stream in self._above:
                stream.release()


def _same_terminal(one: TextIO, other: TextIO) -> bool:
    """Return whether two streams go to one terminal."""
    try:
        return one.isatty() and os.path.samestat(os.fstat(one.fileno()), os.fstat(other.fileno()))
    except (OSError, ValueError):  # a stream that is no file, or closed
        return False
