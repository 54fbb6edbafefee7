"""Answers beside the rows of the input that they answer, in a file."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firth.base.notes import note
from firth.output.answers import answers_file, refuse_twins
from firth.reading.asked import Asked
from firth.reading.columns import USUAL
from firth.reading.layout import Cell, TableLayout
from firth.reading.source import Given

if TYPE_CHECKING:
    from firth.tasks.registry import AnyTask


@contextmanager
def answers_beside(
    target: Path, force: bool, task: "AnyTask", asked: Asked, columns: Mapping[str, Cell]
) -> Iterator[Callable[[Given, Any], None]]:
    """Open a file for answers; yield a function that writes an answer beside its row.

    `columns` are those of the answers.
    """
    joining = _Joining(target, task, asked, columns)
    layout = asked.layout
    if layout is None:
        layout = TableLayout(0, {})
    else:
        joining.check(layout.columns)
    with answers_file(target, force, layout, columns) as add:

        def write(one: Given, answer: Any) -> None:
            add(joining.row(one, answer))

        yield write


class _Joining:
    """Joins each answer to its row, whose own columns stay as they are."""

    def __init__(
        self, target: Path, task: "AnyTask", asked: Asked, columns: Mapping[str, Cell]
    ) -> None:
        self.target = target
        self.task = task
        self.asked = asked
        self.objects = target.suffix == ".jsonl"
        self.own = self._own_columns(columns)
        self.kept: set[str] = set()  # columns that were said to stay

    def _own_columns(self, columns: Mapping[str, Cell]) -> list[str]:
        """Return the columns and fields of the answers that an input must not have already."""
        if not self.objects:
            return [*columns]
        if self.task.replaces:
            return []
        return [*columns, *self.task.extra_fields]

    def check(self, given: Collection[str]) -> None:
        """Refuse an input with a column of the answers; say which of its columns are kept."""
        title = self.asked.title
        refuse_twins(self.target, given, self.own, title)
        if not self.objects:
            return
        for name, column in self.task.twins.items():
            if name in given and name not in self.kept:
                self.kept.add(name)
                has = f"{title} has a column {name!r}, which is kept"
                note(f"{has}: the answers are in {column!r}")

    def row(self, one: Given, answer: Any) -> dict[str, Any]:
        """Return a row of the input with its answer."""
        if self.asked.layout is None:
            self.check(one.row)
        if not self.objects:
            return one.row | self.task.cells(one.example, answer)

        fields = self.task.record(one.example, answer)
        if self.task.replaces:
            return one.row | fields
        taken = self._taken(one)
        new = {name: value for name, value in fields.items() if name not in taken}
        return one.row | new | self.task.cells(one.example, answer)

    def _taken(self, one: Given) -> Collection[str]:
        """Return the fields of the input, which answers leave alone, also where a row lacks them.

        Standard input is read once: a later object may have a field that this one lacks.
        """
        if self.asked.layout is not None:
            return self.asked.layout.columns
        is_line = list(one.row) == [USUAL]
        if is_line:
            return one.row
        return {*one.row, *self.task.twins, USUAL, "second"}
