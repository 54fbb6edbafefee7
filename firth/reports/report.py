"""What a page shows of a model's answers to examples: a class for each kind of answer."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from firth.data.examples import Example
from firth.metrics.classes import LabelCounts
from firth.metrics.decisions import Confidences, share
from firth.pages.page import PageSection
from firth.reports.case import Case, Cell, clipped
from firth.reports.kept import Kept

MOST_NAMES = 30  # rows and columns of a table of counts
MOST_ROWS = 300  # labels whose metrics are listed
OTHERS = "all others"


class TaskReport(ABC):
    """Looks at graded answers as they come, and holds no more of them than a page shows."""

    bars = "Probabilities"  # how the page calls those of an example
    open_bars = False  # whether they are seen unasked

    def __init__(self) -> None:
        self.kept = Kept()
        self.wrong = 0

    @abstractmethod
    def case(self, line: int, example: Example, graded: Any) -> Case:
        """Return an example as the page shows it, and count its answer."""

    @abstractmethod
    def sections(self) -> Iterator[PageSection]:
        """Yield the parts of the page, the examples among them."""

    def add(self, line: int, example: Example, graded: Any) -> None:
        """Look at an answer."""
        case = self.case(line, example, graded)
        self.wrong += not case.right
        self.kept.add(case)

    def cases_section(
        self, title: str, table: "CountTable | None" = None, plot: Mapping[str, Any] | None = None
    ) -> PageSection:
        """Return the examples of the page, with a table or a plot by which some are chosen."""
        cases = self.kept.cases()
        data = {
            "table": table.page() if table else None,
            "plot": plot,
            "seen": self.kept.seen,
            "wrong": self.wrong,
            "bars": {"title": self.bars, "open": self.open_bars},
            "cases": [_page(case, table) for case in cases],
        }
        return PageSection("cases", title, data)


class CountTable(NamedTuple):
    """How often each pair of names was met: what is true by what was predicted, for example."""

    rows: Sequence[str | None]
    columns: Sequence[str | None]
    counts: Mapping[Cell, int]
    right: frozenset[Cell]  # the cells of right answers
    down: str  # what the rows are
    across: str  # what the columns are
    nothing: str = ""  # what a name says that is None
    note: str = ""

    def place(self, cell: Cell) -> tuple[int, int]:
        """Return the row and the column of a cell; a name without one of its own is in the last."""
        return _place(self.rows, cell[0]), _place(self.columns, cell[1])

    def shown_right(self) -> list[Cell]:
        """Return the cells of right answers that have a row and a column of their own."""
        return [
            (row, column)
            for row in self.rows
            for column in self.columns
            if (row, column) in self.right
        ]

    def page(self) -> dict[str, Any]:
        """Return the table as a page has it."""
        row_names = _with_others(self.rows, {row for row, _ in self.counts}, self.nothing)
        column_names = _with_others(self.columns, {one for _, one in self.counts}, self.nothing)
        counts = [[0] * len(column_names) for _ in row_names]
        for cell, count in self.counts.items():
            row, column = self.place(cell)
            counts[row][column] += count
        return {
            "rows": row_names,
            "columns": column_names,
            "counts": counts,
            "right": [self.place((row, column)) for row, column in self.shown_right()],
            "down": self.down,
            "across": self.across,
            "note": self.note,
        }


def _place(names: Sequence[str | None], name: str | None) -> int:
    return names.index(name) if name in names else len(names)


def _with_others(names: Sequence[str | None], met: set[str | None], nothing: str) -> list[str]:
    """Return the names of rows or columns; with that of all others, where some were met."""
    shown = [nothing if name is None else clipped(name) for name in names]
    return [*shown, OTHERS] if met - set(names) else shown


def frequent(labels: Sequence[str], counts: LabelCounts, most: int = MOST_NAMES) -> list[str]:
    """Return the labels that are true or predicted most often, in their own order."""
    if len(labels) <= most:
        return list(labels)
    often = counts.true + counts.predicted
    chosen = sorted(range(len(labels)), key=lambda number: (-often[number], number))[:most]
    return [labels[number] for number in sorted(chosen)]


def label_section(
    title: str,
    labels: Sequence[str],
    counts: LabelCounts,
    more: Mapping[str, Mapping[str, int]] | None = None,
) -> PageSection:
    """Return precision, recall and F1 of each label that is true or predicted anywhere.

    `more` are further columns of counts.
    """
    f1 = counts.f1()
    listed = set(frequent(labels, counts, MOST_ROWS))
    rows = []
    left_out = 0
    for number, label in enumerate(labels):
        true, predicted, both = (int(each[number]) for each in counts)
        if not true and not predicted:
            continue
        if label not in listed:
            left_out += 1
            continue
        row = {
            "name": clipped(label),
            "precision": share(both, predicted) if predicted else None,
            "recall": share(both, true) if true else None,
            "f1": float(f1[number]),
            "counts": [true, predicted, both],
        }
        row["more"] = [of_label.get(label, 0) for of_label in (more or {}).values()]
        rows.append(row)
    data = {"rows": rows, "more": list(more or {}), "left_out": left_out}
    return PageSection("labels", title, data)


def calibration_section(found: Confidences) -> PageSection:
    """Return how often answers are right by how sure the model is."""
    data = {
        "bins": [one._asdict() for one in found.bins],
        "mean": found.mean,
        "error": found.error,
    }
    return PageSection("calibration", "Calibration", data)


def _page(case: Case, table: CountTable | None) -> dict[str, Any]:
    """Return an example as a page has it."""
    page = case._asdict()
    del page["badness"]
    page["cells"] = [table.place(cell) for cell in case.cells] if table else []
    return page
