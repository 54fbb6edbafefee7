"""Rows of multiple choice: a context, its options and which of them is right; SWAG's csv too."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from firth.data.examples import Example
from firth.data.options import Options, wrong_options
from firth.data.record import Fault, shortened
from firth.reading.columns import Columns, Named, TableHead, first_known
from firth.reading.labels import Doubt, LabelSurvey
from firth.reading.rowreader import RowReader, no_columns, row_strings, row_text, unlabelled

CONTEXTS = ("context", "sent1")  # the second is SWAG's
QUESTION = "question"  # follows the context where a row has one
OPTIONS = ("choices", "options", "endings")  # a list in each row
ENDING = re.compile(r"ending(\d+)")  # SWAG's columns, an option each
STEM = "sent2"  # how each of SWAG's options begins
LABEL = "label"
NUMBER = re.compile(r"-?\d{1,9}")


class ChoiceReader(RowReader):
    """Reads a context, its options and which of them is right: a number from 0, or its text.

    Options are a list in one column, or a column each.
    """

    stem: str | None = None  # the column with which each option begins

    def find(self, table: TableHead, named: Named) -> Columns | None:
        """Return the columns as named or by usual names; there may be no labels yet."""
        known = table.known
        options = named.second or _usual_options(known)
        if not options or not _hold_options(table, options):
            return None
        contexts = named.text or _usual_contexts(known)
        if not contexts:
            return None
        label = named.label or known.get(LABEL, LABEL)
        return Columns(contexts, options, label)

    def refusal(self, table: TableHead, named: Named) -> str:
        """Say what is missing."""
        wanted = "a context and choices, a list of texts in each row (or ending0, ending1, ...)"
        cure = "--text names the context, --second the options"
        return f"{table.where} lacks {wanted}; it has {table.listed()} ({cure})"

    def fits(self, table: TableHead) -> bool:
        """Return whether options are told by what they are: several columns may be one text."""
        options = self.columns.second
        return len(options) == 1 or all(map(ENDING.fullmatch, map(str.lower, options)))

    def learn(self, table: TableHead) -> None:
        """Learn with which column SWAG's endings begin."""
        if all(map(ENDING.fullmatch, map(str.lower, self.columns.second))):
            stem = table.known.get(STEM)
            self.stem = None if stem in self.columns.text else stem

    def example(self, row: dict[str, Any], line: int) -> Example:
        """Make an example of a row that says which option is right."""
        context, options = self._asked(row)
        name = self.columns.label
        assert name is not None
        value = row.get(name)
        if self.is_missing(value):
            raise unlabelled(name)
        right = self._right(value, options)
        return Options(context, self._begun(row, options), right)

    def survey(self, path: object) -> LabelSurvey:
        """Count options, and where the right one stands."""
        return ChoiceSurvey(path)

    def _asked(self, row: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Return the context of a row, and its options as they were written."""
        columns = self.columns
        if not columns.text:
            raise no_columns()
        first, *more = columns.text
        parts = [row_text(row, first)]
        parts += [row_text(row, name) for name in more if row.get(name) is not None]
        context = "\n".join(part for part in parts if part.strip())
        if len(columns.second) == 1:
            options = tuple(row_strings(row, columns.second[0]))
        else:
            options = tuple(row_text(row, name) for name in columns.second)
        if said := wrong_options(options):
            raise Fault("options", said)
        return context, options

    def _begun(self, row: dict[str, Any], options: tuple[str, ...]) -> tuple[str, ...]:
        """Return options with what all of them begin with, in SWAG's files."""
        if self.stem is None or row.get(self.stem) is None:
            return options
        stem = row_text(row, self.stem)
        return tuple(f"{stem} {option}".strip() for option in options)

    def _right(self, value: Any, options: Sequence[str]) -> int:
        """Return the number that a label gives, or that of the option whose text it is.

        In files with types a text is never a number where it is an option.
        """
        number = _number(value)
        text = _place(value, options)
        possible = number is not None and 0 <= number < len(options)
        if text is not None and (self.typed or not possible):
            return text
        if number is None:
            said = f"has the label {shortened(value)}, which is neither a number nor an option"
            raise Fault("label", said)
        if not possible:
            numbered = f"its {len(options)} options are numbered from 0 to {len(options) - 1}"
            raise Fault("label", f"has the label {number}, where {numbered}")
        if text is not None and text != number:
            both = f"the number of one option and the text of number {text}"
            raise Fault("label", f"has the label {shortened(value)}, which is {both}")
        return number


class AskedChoiceReader(ChoiceReader):
    """Reads a context and its options, whatever stands beside them."""

    def example(self, row: dict[str, Any], line: int) -> Example:
        """Make an example without a label."""
        context, options = self._asked(row)
        return Options(context, self._begun(row, options))


class ChoiceSurvey(LabelSurvey):
    """Count the options of rows, and at which number the right one stands."""

    def __init__(self, path: object) -> None:
        super().__init__(path)
        self.sizes: Counter[int] = Counter()
        self.places: Counter[int] = Counter()

    def add(self, line: int, example: Example) -> None:
        """Count the options of an example."""
        if isinstance(example, Options) and example.right is not None:
            self.sizes[len(example.candidates)] += 1
            self.places[example.right] += 1

    def facts(self) -> dict[str, Any]:
        """Return how many rows have how many options, and how often each number is right."""
        if not self.sizes:
            return {}
        rows = self.sizes.total()
        return {
            "options": {str(size): self.sizes[size] for size in sorted(self.sizes)},
            "right": {str(place): self.places[place] for place in sorted(self.places)},
            "chance": sum(count / size for size, count in self.sizes.items()) / rows,
        }

    def summary(self) -> str:
        """Return how many options rows have, and how many guesses are right by chance."""
        if not self.sizes:
            return ""
        least = min(self.sizes)
        most = max(self.sizes)
        many = f"{least}" if least == most else f"{least} to {most}"
        return f", {many} options a row, {self.facts()['chance']:.1%} right by chance"

    def doubts(self, train: LabelSurvey | None) -> Iterator[Doubt]:
        """Yield that the right option stands at one number in all rows."""
        if len(self.places) == 1 and self.places.total() > 1:
            said = f"has the right option at number {min(self.places)} in every row"
            yield Doubt("warning", "single", None, said)


def _usual_options(known: dict[str, str]) -> tuple[str, ...]:
    """Return the column of a list of options, or SWAG's columns in the order of their numbers."""
    found = first_known(OPTIONS, known)
    if found:
        return found
    numbers = sorted(int(name[1]) for name in map(ENDING.fullmatch, known) if name)
    names = [f"ending{number}" for number in range(len(numbers))]
    if not all(name in known for name in names):
        return ()
    return tuple(known[name] for name in names)


def _usual_contexts(known: dict[str, str]) -> tuple[str, ...]:
    """Return the columns of the context and of the question; there may be only one of them."""
    return (*first_known(CONTEXTS, known), *first_known((QUESTION,), known))


def _hold_options(table: TableHead, names: Sequence[str]) -> bool:
    """Return whether several columns hold an option each, or one column lists of them."""
    if len(names) > 1 or not table.rows:
        return True
    return any(isinstance(row.get(names[0]), list) for row in table.rows)


def _number(value: Any) -> int | None:
    """Return a label that is a whole number; None for any other."""
    if isinstance(value, str):
        return int(value) if NUMBER.fullmatch(value.strip()) else None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if type(value) is int else None


def _place(value: Any, options: Sequence[str]) -> int | None:
    """Return the number of the option whose text a label is, but for white space."""
    if not isinstance(value, str):
        return None
    wanted = value.split()
    return next((at for at, option in enumerate(options) if option.split() == wanted), None)
