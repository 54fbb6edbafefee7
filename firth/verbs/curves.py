"""See how training went, or goes on: a page of the curves of one or several runs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from firth.base.arguments import as_paths, check_flags
from firth.base.errors import InputError
from firth.output.pagefile import checked_target, save_page
from firth.output.runs import FoundRun, curves_of, find_runs
from firth.output.server import PageServer
from firth.pages.curves import RunCurves, curves_news, curves_page
from firth.pages.page import frame


@dataclass(frozen=True)
class CurvesView:
    """A page of the curves of training runs; a notebook displays it."""

    page: str  # the whole file
    runs: tuple[str, ...]  # their names; each seed and fold is one
    steps: tuple[int, ...]  # the last that each has noted
    path: Path | None = None  # where it was written

    def _repr_html_(self) -> str:
        """Return the page as a part of a notebook."""
        return frame(self.page)


def curves(
    runs: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    *,
    force: bool = False,
) -> CurvesView:
    """Return a page of how runs were trained, and write it to `out`, an .html file.

    A run is its folder, `OUT.run`, its journal, or the model folder that came of it.
    """
    paths = as_paths("runs", runs, "there is no run to look at")
    check_flags(force=force)
    target = checked_target(out, force)
    with _opened(paths) as found:
        shown = curves_of(found)
        _refuse_empty(found, shown)
        page = curves_page(shown)
    save_page(page, target, force)
    names = tuple(run.name for run in shown)
    return CurvesView(page, names, tuple(run.records.last_step for run in shown), target)


@contextmanager
def followed(paths: Sequence[str], port: int | None = None) -> Iterator[PageServer]:
    """Serve the page of runs, with what they note from now on, until `serve_forever` is left."""
    with _opened(paths) as found:
        lock = Lock()  # each browser is answered by a thread of its own

        def read() -> list[RunCurves]:
            for run in found:
                run.update()
            return curves_of(found)

        def page() -> str:
            with lock:
                return curves_page(read(), follows=True)

        def news() -> str:
            with lock:
                return curves_news(read())

        read()  # what can't be shown is refused before anybody asks
        with PageServer(port, page, news) as server:
            yield server


@contextmanager
def _opened(paths: Sequence[str]) -> Iterator[list[FoundRun]]:
    """Find runs and read them; close their journals at the end."""
    found = find_runs(paths)
    try:
        for run in found:
            run.update()
            for damage in run.damages:
                raise InputError(damage)
        yield found
    finally:
        for run in found:
            run.close()


def _refuse_empty(found: Sequence[FoundRun], shown: Sequence[RunCurves]) -> None:
    """Refuse runs of which there is nothing to draw."""
    if any(run.records.started for run in shown):
        return
    first = found[0].path
    if found[0].is_counted:
        raise InputError(f"{first}: {shown[0].remark}; firth view {first} TEXT looks inside it")
    raise InputError(
        f"{first}: {shown[0].remark}; firth view {first} --follow shows it as it comes"
    )
