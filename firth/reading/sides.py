"""Rows of text to text: a source and the target that is to be made of it."""

from typing import Any

from firth.base.errors import option
from firth.data.examples import Example, Line, TextToText
from firth.data.record import Fault
from firth.reading.columns import SOURCES, TARGETS, Columns, Named, TableHead, first_known
from firth.reading.labels import LabelSurvey
from firth.reading.pairsurvey import PairSurvey
from firth.reading.rowreader import (
    UNLABELLED,
    RowReader,
    TextReader,
    no_columns,
    row_text,
    unlabelled,
)


class PairReader(RowReader):
    """Reads a source and its target; a .tsv of two columns needs no header."""

    headless = (SOURCES[0], TARGETS[0])

    def find(self, table: TableHead, named: Named) -> Columns | None:
        """Return the columns as named or by usual names."""
        known = table.known
        source = named.text or first_known(SOURCES, known, named.label)
        target = (named.label,) if named.label else first_known(TARGETS, known, *source)
        if not source or not target:
            return None
        return Columns(source, label=target[0])

    def refusal(self, table: TableHead, named: Named) -> str:
        """Say what is missing."""
        wanted = "no columns src and tgt with source and target"
        cure = "--text and --label name them"
        if len(table.columns) == 2 and not named.names:
            source, target = table.columns
            cure = f"perhaps {option('text', source)} {option('label', target)}"
        return f"{table.where} has {wanted}; it has {table.listed()}: {cure}"

    def fits(self, table: TableHead) -> bool:
        """Return whether both columns have usual names: any two texts may be a pair."""
        usual = {*SOURCES, *TARGETS}
        names = {*self.columns.text, self.columns.label or ""}
        return all(name.strip().lower() in usual for name in names)

    def example(self, row: dict[str, Any], line: int) -> Example:
        """Make a pair; nothing is learned of one with an empty side."""
        name = self.columns.label
        if name is None or not self.columns.text:
            raise no_columns()
        source = "\n".join(row_text(row, column) for column in self.columns.text)
        if row.get(name) is None:
            raise unlabelled(name)
        target = row_text(row, name)
        if not source.strip():
            raise Fault(UNLABELLED, f"has an empty source ({', '.join(self.columns.text)})")
        if not target.strip():
            raise Fault(UNLABELLED, f"has an empty target ({name})")
        return TextToText(source, target)

    def lacks(self) -> str:
        """Say what rows have that nothing is learned of."""
        return "an empty side"

    def survey(self, path: object) -> LabelSurvey:
        """Count words, and find sides that don't fit each other."""
        return PairSurvey(path)


class SourceReader(TextReader):
    """Reads the sources, whatever stands beside them."""

    headless = PairReader.headless

    def find(self, table: TableHead, named: Named) -> Columns | None:
        """Return the column of the source, as named or by a usual name."""
        source = named.text or first_known(SOURCES, table.known)
        return Columns(source) if source else super().find(table, named)

    def example(self, row: dict[str, Any], line: int) -> Example:
        """Make a text of several columns or one."""
        if not self.columns.text:
            raise no_columns()
        return Line("\n".join(row_text(row, column) for column in self.columns.text))
