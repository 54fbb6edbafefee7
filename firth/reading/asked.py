"""What `predict` is asked: a text, a pair or a question that was given as such, or a file."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from firth.base.errors import InputError
from firth.data.examples import Example, Labelled, Line
from firth.data.options import Options, wrong_options
from firth.data.record import shortened
from firth.reading.candidates import CandidateRows
from firth.reading.format import Format
from firth.reading.layout import Cell, TableLayout
from firth.reading.source import Given, Source

# What ends like the name of a file is one, also with a blank in it.
TABLE_ENDINGS = {".csv", ".tsv", ".tab", ".parquet", ".arrow", ".feather", ".xls", ".xlsx", ".ods"}
TEXT_ENDINGS = {".txt", ".json", ".jsonl", ".ndjson", ".conll", ".bio", ".iob", ".iob2"}
PACKED_ENDINGS = {".gz", ".zst", ".bz2", ".xz", ".zip"}
FILES = TABLE_ENDINGS | TEXT_ENDINGS | PACKED_ENDINGS


class Asked(NamedTuple):
    """The rows to answer, how many they are, and how the input was written, where that is known."""

    rows: Iterable[Given]
    total: int | None
    layout: TableLayout | None
    title: str


class GivenWords(NamedTuple):
    """The words of a call that say what is asked."""

    source: str
    field: str | None
    second: str | None
    pair: str | None
    question: str | None
    context: str | None
    choices: tuple[str, ...]
    form: Format | None

    @property
    def option(self) -> str | None:
        """The option that asks one question, or offers what to choose from, if any was given."""
        if self.choices:
            return "--choice"
        if self.question is not None:
            return "--question"
        return None

    def asked(self, score: bool, complete: bool) -> Asked | None:
        """Return the one text, pair or question that is asked; None where it is a file's."""
        if self.option is not None:
            self._refuse_beside(self.option, score, complete)
        if self.choices:
            return self._asked_options()
        if self.question is not None:
            return self._asked_question()

        if self.context is not None:
            raise InputError("--context goes with a --question, or with a --choice for each option")
        if self.pair is not None:
            _refuse_pair(self.source, score, complete)
        one_text = self.pair is not None or is_text(self.source)
        _refuse_name(self.source, one_text, self.field, self.second, self.form)
        if not one_text:
            return None
        return _asked_text(self.source, self.pair)

    def _asked_question(self) -> Asked:
        """Return the question that is asked, with its context."""
        if self.question is None or self.context is None:
            raise InputError("--question and --context go together: a question and what answers it")
        if not self.question.strip() or not self.context.strip():
            empty = "context" if self.question.strip() else "question"
            raise InputError(f"--{empty} is empty: there is nothing to answer")
        row = {"question": self.question, "context": self.context}
        columns: dict[str, Cell] = dict.fromkeys(row, "text")
        layout = TableLayout(1, columns)
        example = Labelled(self.question, None, self.context)
        return Asked([Given(example, row)], 1, layout, "the question")

    def _asked_options(self) -> Asked:
        """Return the context that is asked, with what to choose from."""
        if self.question is not None:
            raise InputError("--question is not for --choice: put the question into --context")
        if not self.context:
            raise InputError("--choice goes with a --context: the text that options are about")
        said = wrong_options(self.choices)
        if said:
            raise InputError(f"the question {said} (--choice, once for each)")
        asked = Options(self.context, self.choices)
        row = {"context": asked.text, "choices": list(self.choices)}
        layout = TableLayout(1, {"context": "text", "choices": "texts"})
        return Asked([Given(asked, row)], 1, layout, "the question")

    def _refuse_beside(self, option: str, score: bool, complete: bool) -> None:
        """Refuse another text beside a question, and what is for files or language models."""
        others = {
            "text": self.field,
            "second": self.second,
            "pair": self.pair,
            "format": self.form,
            "score": score,
            "complete": complete,
        }
        for name, value in others.items():
            if value:
                raise InputError(f"--{name} is not for one {option} with its --context")
        if self.source != "-":
            raise InputError(
                f"{option} is asked alone, and {shortened(self.source)} is another text or "
                "file: leave one of them out"
            )


def _asked_text(text: str, pair: str | None) -> Asked:
    """Return one text or pair that was given as such."""
    row = {"text": text}
    example: Example = Line(text)
    if pair is not None:
        row["second"] = pair
        example = Labelled(text, None, pair)
    columns: dict[str, Cell] = dict.fromkeys(row, "text")
    layout = TableLayout(1, columns)
    return Asked([Given(example, row)], 1, layout, "the text")


def asked_of_file(texts: Source, lists: CandidateRows | None, single: bool) -> Asked:
    """Return what to answer; reading a file once beforehand finds whatever is wrong."""
    if lists:
        columns = lists.layout()
        return Asked(lists.given(), columns.count, columns, texts.title)
    layout = texts.survey()
    rows = texts.given()
    if single:
        rows = map(texts.alone, rows)
    total = layout.count if layout else None
    return Asked(rows, total, layout, texts.title)


def _refuse_pair(source: str, score: bool, complete: bool) -> None:
    """Refuse a second text beside a file, or where texts are rated or continued."""
    if score:
        raise InputError("--pair is not for --score")
    if complete:
        raise InputError("--pair is not for --complete")
    if source == "-" or Path(source).suffix.lower() in FILES or _exists(source):
        what = "standard input" if source == "-" else f"{source!r}"
        raise InputError(
            f"--pair is the second text of a text, and {what} is a file: --second names the "
            "column of its second texts"
        )


def _exists(source: str) -> bool:
    """Return whether there is a file of this name."""
    try:
        return Path(source).exists()
    except OSError:  # too long to be a name
        return False


def _refuse_name(
    source: str, one_text: bool, field: str | None, second: str | None, form: Format | None
) -> None:
    """Refuse a source that is neither a text nor a file before anything is loaded."""
    if not source:
        raise InputError(
            "the text is empty; an empty text goes in as a line of a file, or of standard input"
        )
    if one_text:
        if second or field is not None:
            option = "second" if second else "text"
            raise InputError(
                f"--{option} names a column of a file, and {shortened(source)} is a text"
            )
        if form:
            raise InputError(
                f"--format is for a file or standard input, and {shortened(source)} is a text"
            )
    elif source != "-" and not Path(source).exists():
        missing = f"there is no file {source!r}"
        if not Path(source).suffix:
            raise InputError(
                f"{missing}; a text of one word goes in on standard input, with - for the file"
            )
        if " " in source:
            missing += (
                "; a text that ends like a file's name goes in on standard input, "
                "with - for the file"
            )
        raise InputError(missing)


def is_text(source: str) -> bool:
    """Tell a text from a file's name: a name exists, or looks like a path or like a file."""
    if source == "-":
        return False
    looks_like_text = " " in source or "[" in source
    try:
        path = Path(source)
        return not path.exists() and looks_like_text and path.suffix.lower() not in FILES
    except OSError:  # too long to be a name
        return True
