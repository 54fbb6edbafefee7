"""Show how good a model is on a page: its metrics, and the examples that it gets wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firth.base.arguments import as_path, check_flags
from firth.base.notes import collected
from firth.data.examples import Example
from firth.evaluation.long_text import Way
from firth.evaluation.report import Evaluation
from firth.folders.heads import head_of
from firth.output.pagefile import checked_target, save_page
from firth.pages.page import PageSection, frame, write_page
from firth.pages.sections import note_section
from firth.predictor import Predictor
from firth.reading.format import Format
from firth.reports.metrics import metrics_section
from firth.reports.registry import report_of
from firth.reports.report import TaskReport
from firth.tasks.registry import gives
from firth.tasks.trained import Scoring
from firth.verbs.evaluate import evaluate_watched


@dataclass(frozen=True)
class ReportView:
    """A page that shows how good a model is; a notebook displays it."""

    page: str  # the whole file
    sections: tuple[str, ...]  # their headings
    evaluation: Evaluation  # the figures that it shows
    examples: int  # how many the page holds
    path: Path | None = None  # where it was written

    def _repr_html_(self) -> str:
        """Return the page as a part of a notebook."""
        return frame(self.page)


def report(
    model: str | Path,
    data: str | Path,
    out: str | Path | None = None,
    *,
    target: str | Path | None = None,
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    missing: str | Sequence[str] = (),
    encoding: str | None = None,
    form: Format | None = None,
    long: Way | None = None,
    threads: int | None = None,
    force: bool = False,
) -> ReportView:
    """Return a page of how good a model is on a file, and write it to `out`, an .html file.

    The file is read and the model measured as `evaluate` does. Of a task with examples the page
    holds those that the model gets wrong.
    """
    model = as_path("model", model)
    data = as_path("data", data)
    check_flags(force=force)
    path = checked_target(out, force)
    watcher = _Watching(model)
    with collected() as said:
        found = evaluate_watched(
            model,
            data,
            target=target,
            text=text,
            second=second,
            label=label,
            missing=missing,
            encoding=encoding,
            form=form,
            long=long,
            threads=threads,
            watcher=watcher,
        )

    # A page may be sent to others: where folders are is nothing for them.
    names = {model: _name(model), data: _name(data)}
    sentences = [_renamed(sentence, names) for sentence in said]
    (measured,) = found.models
    sections = [metrics_section(measured, sentences)]
    shown = 0
    if watcher.report is None:
        sections.append(_without_examples(model, found))
    else:
        sections += watcher.report.sections()
        shown = len(watcher.report.kept.cases())
    lead = [f"{found.examples:,} {found.unit} of {names[data]}, with 95 % intervals"]
    page = write_page(f"How good {names[model]} is", lead, sections)
    save_page(page, path, force)
    headings = tuple(section.title for section in sections)
    return ReportView(page, headings, found, shown, path)


class _Watching:
    """Looks on while the model is measured, if its task has a report."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.report: TaskReport | None = None

    def begin(self, predictor: Predictor, scoring: Scoring) -> None:
        """Choose the report."""
        self.report = report_of(self.model, scoring)

    def add(self, line: int, example: Example, graded: Any) -> None:
        """Look at an answer."""
        if self.report is not None:
            self.report.add(line, example, graded)


def _without_examples(model: str, found: Evaluation) -> PageSection:
    """Return a section that says why there are no examples."""
    given = "word vectors"
    if found.models[0].words is None:
        given = f"models that give {gives(head_of(model).kind)}"
    return note_section("Examples", f"For {given}, metrics are all that a page shows.")


def _name(path: str) -> str:
    return Path(path).name or path


def _renamed(sentence: str, names: dict[str, str]) -> str:
    """Return a sentence with short names in it; a folder of a file is no part of its name."""
    for path in sorted(names, key=len, reverse=True):
        sentence = sentence.replace(path, names[path])
    return sentence
