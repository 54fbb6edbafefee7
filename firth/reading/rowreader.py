"""How a row of a file becomes an example: what tasks share. A task has a reader of its own kind."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

from firth.base.errors import InputError
from firth.data.examples import Example, Labelled, written
from firth.data.record import Fault, refuse_nul, shortened
from firth.reading.columns import Columns, Named, TableHead, find_label, find_texts, unclear
from firth.reading.labels import LabelSurvey, Met
from firth.text.repair import repair

UNLABELLED = "unlabelled"  # the kind of fault of a row that is sound but for its missing label
TOKENS = "tokens"  # the usual name of a column of words


class RowReader(ABC):
    """Reads the rows of one file as the examples of one task.

    `missing` are words, in small letters, that stand for no label; in a `typed` file 0 and "0" are
    two things.
    """

    classes: ClassVar[bool] = False  # whether labels are classes, as which "nan" would count too
    several = False  # whether a label is a list of classes
    # The columns of a .tsv without a header, where such a file can be read.
    headless: ClassVar[tuple[str, ...]] = ()
    columns = Columns()

    def __init__(self, missing: Collection[str] = (), typed: bool = False) -> None:
        self.missing = missing
        self.typed = typed
        self.met: dict[str, Met] = {}  # classes with their types, by written form

    @abstractmethod
    def find(self, table: TableHead, named: Named) -> Columns | None:
        """Return the columns that it reads; None where the file has none for its task."""

    @abstractmethod
    def refusal(self, table: TableHead, named: Named) -> str:
        """Say what a file lacks in which no columns were found."""

    def fits(self, table: TableHead) -> bool:
        """Return whether the labels look like those of its task, where no task was named."""
        return True

    def learn(self, table: TableHead) -> None:  # noqa: B027 - most learn nothing
        """Learn from the first rows how labels are written; `columns` are there."""

    def begin(self) -> None:
        """Forget what was met: the file is read anew."""
        self.met = {}

    @abstractmethod
    def example(self, row: dict[str, Any], line: int) -> Example:
        """Make an example of a row, or raise the fault that it has."""

    def survey(self, path: object) -> LabelSurvey:
        """Return what counts the labels for `check`."""
        return LabelSurvey(path)

    def lacks(self) -> str:
        """Say what rows have, or haven't, of which nothing is learned."""
        return f"no label in column {self.columns.label!r}"

    def is_missing(self, value: Any) -> bool:
        """Return whether a value is no label: null, NaN, white space, or a word for none."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return True
        if isinstance(value, list):
            return bool(value) and all(self.is_missing_word(one) for one in value)
        if isinstance(value, str) and not value.strip():
            return True
        return self.is_missing_word(value)

    def is_missing_word(self, value: Any) -> bool:
        """Return whether a value is a word that stands for no label."""
        if not self.missing or not isinstance(value, str | int | float):
            return False
        return written(value).strip().lower() in self.missing


class TextReader(RowReader):
    """Reads texts or pairs of texts, and no labels."""

    def find(self, table: TableHead, named: Named) -> Columns | None:
        """Return the columns of the text and its second."""
        found = find_texts(table, named)
        return found if found.text else None

    def refusal(self, table: TableHead, named: Named) -> str:
        """Ask for the text."""
        texts = find_texts(table, named)
        label = find_label(table, named, texts)
        return unclear(table, texts, label, labelled=False)

    def example(self, row: dict[str, Any], line: int) -> Example:
        """Make an example without a label."""
        return Labelled(*self._texts(row))

    def _texts(self, row: dict[str, Any]) -> tuple[str, None, str | None]:
        text, second = row_texts(row, self.columns)
        return text, None, second


class LabelReader(RowReader):
    """Reads texts or pairs of texts with the label that stands in one column."""

    def find(self, table: TableHead, named: Named) -> Columns | None:
        """Return the columns of the texts and of the label."""
        texts = find_texts(table, named)
        label = find_label(table, named, texts)
        if not texts.text or label is None:
            return None
        return Columns(texts.text, texts.second, label)

    def refusal(self, table: TableHead, named: Named) -> str:
        """Ask for the text or the label."""
        texts = find_texts(table, named)
        label = find_label(table, named, texts)
        return unclear(table, texts, label, labelled=True)

    def given_labels(self, table: TableHead) -> list[Any]:
        """Return the labels of the first rows, without those that are missing."""
        assert self.columns.label is not None
        values = [row.get(self.columns.label) for row in table.rows]
        return [value for value in values if not RowReader.is_missing(self, value)]

    def example(self, row: dict[str, Any], line: int) -> Example:
        """Make an example with its label."""
        name = self.columns.label
        if name is None:
            raise no_columns()
        text, second = row_texts(row, self.columns)
        value = row.get(name)
        if self.is_missing(value):
            raise unlabelled(name)
        return Labelled(text, self.label(value, line), second)

    @abstractmethod
    def label(self, value: Any, line: int) -> str | float | tuple[str, ...]:
        """Read a label that is there."""


def choose_reader(
    readers: dict[str, RowReader], table: TableHead, named: Named
) -> tuple[str | None, RowReader]:
    """Return the task whose reader a file suits, and that reader with its columns.

    Where there is one reader, the file must suit it. Where none of several does, and the file has a
    text, it is read without labels.
    """
    table.refuse_unknown(named)
    for task, reader in readers.items():
        columns = reader.find(table, named)
        if columns is None:
            if len(readers) == 1:
                raise InputError(reader.refusal(table, named))
            continue
        reader.columns = columns
        if len(readers) == 1 or reader.fits(table):
            reader.learn(table)
            return task, reader
    reader = TextReader()
    columns = reader.find(table, named)
    if columns is None:
        texts = find_texts(table, named)
        label = find_label(table, named, texts)
        raise InputError(unclear(table, texts, label, labelled=True))
    reader.columns = columns
    return None, reader


def row_texts(row: dict[str, Any], columns: Columns) -> tuple[str, str | None]:
    """Return the text and the second text of a row; several columns are joined by a line break."""
    if not columns.text:
        raise no_columns()
    first = [row_text(row, name) for name in columns.text]
    text = "\n".join(first)
    if not columns.second:
        return text, None
    second = [row_text(row, name) for name in columns.second]
    return text, "\n".join(second)


def row_text(row: dict[str, Any], name: str) -> str:
    """Return the text in a column."""
    value = row.get(name)
    if value is None:
        raise Fault("text", f"has no text ({name})")
    if not isinstance(value, str):
        raise Fault("text", f"has {shortened(value)} where a text belongs ({name})")
    refuse_nul(value)
    text, _ = repair(value)
    return text


def unpacked(value: Any) -> Any:
    """Return what a cell of a table says that holds JSON, a list or an object; others as they are.

    Tables have no lists, so people's tools write them as text.
    """
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def row_strings(row: dict[str, Any], name: str) -> list[str]:
    """Return the list of words in a column."""
    values = unpacked(row.get(name))
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise Fault("text", f"has {shortened(values)} where a list of words belongs ({name})")
    for value in values:
        refuse_nul(value)
    return [repair(value)[0] for value in values]


def parsed_number(value: Any) -> float | None:
    """Return a number as tables have it; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and "_" in value:
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def are_measures(values: Sequence[Any]) -> bool:
    """Return whether labels are numbers that are measured; whole numbers are classes.

    Some then have a fraction, or are written as if they could have one.
    """
    if not values or any(parsed_number(value) is None for value in values):
        return False
    return any(map(_may_have_fraction, values))


def _may_have_fraction(value: Any) -> bool:
    """Return whether a number has a fraction, or is written as if it could have one."""
    if isinstance(value, float) or "." in str(value):
        return True
    return not float(value).is_integer()


def unlabelled(name: str) -> Fault:
    """Return the fault of a row without a label."""
    return Fault(UNLABELLED, f"has no label ({name})")


def no_columns() -> Fault:
    """Return the fault of a row of a file of which nothing is known."""
    return Fault("text", "comes after so many faults that no columns could be told")
