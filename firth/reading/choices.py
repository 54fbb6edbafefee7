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
from firth.reading.rowreader import (
    RowReader,
    no_columns,
    row_strings,
    row_text,
    unlabelled,
    unpacked,
)

CONTEXTS = ("context", "sent1")  # the second is SWAG's
QUESTION = "question"  # follows the context where a row has one
OPTIONS = ("choices", "options", "endings")  # a list in each row
ENDING = re.compile(r"ending(\d+)")  # SWAG's columns, an option each
STEM = "sent2"  # how each of SWAG's options begins
LABEL = "label"
EXAMPLE = '{"context": "...", "choices": ["...", "..."], "label": 0}'
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
        """Say what is missing, or that options are no lists."""
        options = named.second or _usual_options(table.known)
        if options and not _hold_options(table, options):
            said = f"its column {options[0]!r} holds no list of texts in each row"
            return f"{table.where}: {said}; rows look like {EXAMPLE}"
        wanted = "a context and choices, a list of texts in each row (or ending0, ending1, ...)"
        cure = "--text names the context, --second the options"
        return f"{table.where} lacks {wanted}; it has {table.listed()} ({cure})"

    def fits(self, table: TableHead) -> bool:
        """Return whether options are told by what they are: several columns may be one text."""
        options = self.columns.second
        return len(options) == 1 or _are_endings(options)

    def learn(self, table: TableHead) -> None:
        """Learn with which column SWAG's endings begin."""
        if not _are_endings(self.columns.second):
            return
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
        candidates = self._begun(row, options)
        return Options(context, candidates, right)

    def survey(self, path: object) -> LabelSurvey:
        """Count options, and where the right one stands."""
        return ChoiceSurvey(path)

    def _asked(self, row: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
        """Return the context of a row, and its options as they were written."""
        columns = self.columns
        if not columns.text:
            raise no_columns()
        first, *more = columns.text
        # Not every context has a question.
        given = [name for name in more if row.get(name) is not None]
        parts = [row_text(row, name) for name in (first, *given)]
        filled = [part for part in parts if part.strip()]
        context = "\n".join(filled)

        if len(columns.second) == 1:
            options = tuple(row_strings(row, columns.second[0]))
        else:
            options = tuple(row_text(row, name) for name in columns.second)
        said = wrong_options(options)
        if said:
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
            count = len(options)
            numbered = f"its {count} options are numbered from 0 to {count - 1}"
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
        candidates = self._begun(row, options)
        return Options(context, candidates)


class ChoiceSurvey(LabelSurvey):
    """Count the options of rows, and at which number the right one stands."""

    def __init__(self, path: object) -> None:
        super().__init__(path)
        self.sizes: Counter[int] = Counter()
        self.places: Counter[int] = Counter()

    def add(self, line: int, example: Example) -> None:
        """Count the options of an example."""
        if isinstance(example, Options) and example.right is not None:
            size = len(example.candidates)
            self.sizes[size] += 1
            self.places[example.right] += 1

    def facts(self) -> dict[str, Any]:
        """Return how many rows have how many options, and how often each number is right."""
        if not self.sizes:
            return {}
        rows = self.sizes.total()
        by_chance = sum(count / size for size, count in self.sizes.items())  # rows that are right
        return {
            "options": _sorted_counts(self.sizes),
            "right": _sorted_counts(self.places),
            "chance": by_chance / rows,
        }

    def summary(self) -> str:
        """Return how many options rows have, and how many guesses are right by chance."""
        if not self.sizes:
            return ""
        least = min(self.sizes)
        most = max(self.sizes)
        many = f"{least}" if least == most else f"{least} to {most}"
        chance = self.facts()["chance"]
        return f", {many} options a row, {chance:.1%} right by chance"

    def doubts(self, train: LabelSurvey | None) -> Iterator[Doubt]:
        """Yield that the right option stands at one number in all rows."""
        if len(self.places) == 1 and self.places.total() > 1:
            (place,) = self.places
            said = f"has the right option at number {place} in every row"
            yield Doubt("warning", "single", None, said)


def _sorted_counts(counts: Counter[int]) -> dict[str, int]:
    """Return counts in the order of their numbers, which are names in JSON."""
    return {str(number): counts[number] for number in sorted(counts)}


def _are_endings(names: Sequence[str]) -> bool:
    """Return whether all columns are SWAG's, an option each."""
    return all(ENDING.fullmatch(name.lower()) for name in names)


def _usual_options(known: dict[str, str]) -> tuple[str, ...]:
    """Return the column of a list of options, or SWAG's columns in the order of their numbers."""
    found = first_known(OPTIONS, known)
    if found:
        return found
    endings = [name for name in known if ENDING.fullmatch(name)]
    names = [f"ending{number}" for number in range(len(endings))]
    if not all(name in known for name in names):
        return ()
    return tuple(known[name] for name in names)


def _usual_contexts(known: dict[str, str]) -> tuple[str, ...]:
    """Return the columns of the context and of the question; there may be only one of them."""
    context = first_known(CONTEXTS, known)
    question = first_known((QUESTION,), known)
    return (*context, *question)


def _hold_options(table: TableHead, names: Sequence[str]) -> bool:
    """Return whether several columns hold an option each, or one column lists of them."""
    if len(names) > 1 or not table.rows:
        return True
    values = [unpacked(row.get(names[0])) for row in table.rows]
    return any(isinstance(value, list) for value in values)


def _number(value: Any) -> int | None:
    """Return a label that is a whole number; None for any other."""
    if isinstance(value, str):
        is_whole = NUMBER.fullmatch(value.strip()) is not None
    elif isinstance(value, float):
        is_whole = value.is_integer()
    else:
        is_whole = type(value) is int  # True and False are no numbers here
    return int(value) if is_whole else None


def _place(value: Any, options: Sequence[str]) -> int | None:
    """Return the number of the option whose text a label is, but for white space."""
    if not isinstance(value, str):
        return None
    wanted = value.split()
    for number, option in enumerate(options):
        if option.split() == wanted:
            return number
    return None
