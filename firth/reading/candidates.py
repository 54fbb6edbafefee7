"""Rows of a .jsonl file for likelihoods: a text or a list of texts each, and a context."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firth.base.arguments import as_scores
from firth.base.errors import InputError
from firth.base.notes import note
from firth.data.examples import Candidates, Example, Labelled, Line, ScoredCandidates
from firth.reading.columns import USUAL
from firth.reading.format import Format
from firth.reading.layout import TableLayout, columns_of
from firth.reading.source import Given, Source
from firth.text.lines import Report, is_jsonl, joined, lines, objects
from firth.text.repair import repair

LISTS = "candidates"  # the usual name of a list of texts
SCORES = "scores"  # of whatever proposed them, one for each
NOT_WEIGHTED = "and --weight is for candidates with scores of their own"


def has_objects(path: Path, form: Format | None) -> bool:
    """Return whether a file has an object a line, as is said or as its name says."""
    return form == "jsonl" or (form is None and is_jsonl(path))


@dataclass(frozen=True)
class CandidateRows:
    """The rows of a .jsonl file: a text or a list of texts each, with or without a context.

    `scored` says that every row must have a list with the scores of whatever proposed it.
    """

    path: Path
    name: str
    text: str = USUAL
    encoding: str | None = None
    scored: bool = False
    report: Report = field(default_factory=Report)

    @classmethod
    def of(cls, source: Source, scored: bool = False) -> "CandidateRows | None":
        """Return the rows of a source that is such a file."""
        if source.path is None or source.second or not has_objects(source.path, source.form):
            return None
        return cls(source.path, source.title, source.fields, source.encoding, scored)

    def given(self) -> Iterator[Given]:
        """Yield each row as it is asked and as it was written."""
        self.report.clear()
        for number, row in objects(lines(self.path, self.encoding, self.report), self.name):
            where = f"{self.name}:{number}"
            yield Given(self._example(row, where), row, where)

    def _example(self, row: dict[str, Any], where: str) -> Example:
        name = self.text
        if self.text == USUAL and USUAL not in row and LISTS in row:
            name = LISTS
        if "," in name:
            row = row | {name: joined(row, name, where, self.report)}
        if name not in row:
            has = ", ".join(map(str, row)) or "none"
            raise InputError(
                f"{where} has no field {name!r}; it has {has} (--text names the field)"
            )
        context = row.get("context", "")
        if not isinstance(context, str):
            kind = type(context).__name__
            raise InputError(f"{where}: the field 'context' holds {kind}, not a text")
        context = self._repaired(context)
        texts = row[name]
        if isinstance(texts, str):
            if self.scored:
                raise InputError(f"{where}: the field {name!r} holds one text, {NOT_WEIGHTED}")
            text = self._repaired(texts)
            return Labelled(context, None, text) if context else Line(text)
        if (
            not isinstance(texts, list)
            or not texts
            or not all(isinstance(text, str) for text in texts)
        ):
            wanted = "neither a text nor a list of texts"
            raise InputError(f"{where}: the field {name!r} holds {wanted}")
        candidates = tuple(self._repaired(text) for text in texts)
        given = row.get(SCORES)
        if given is None:
            if self.scored:
                raise InputError(f"{where} has no field {SCORES!r}, {NOT_WEIGHTED}")
            return Candidates(context, candidates)
        try:
            scores = as_scores(f"the field {SCORES!r}", given, len(candidates))
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
        return ScoredCandidates(context, candidates, scores)

    def _repaired(self, text: str) -> str:
        text, replaced = repair(text)
        self.report.replaced += replaced
        return text

    def layout(self) -> TableLayout:
        """Count the rows and name their columns; that also finds whatever is wrong beforehand."""
        return TableLayout(*columns_of(one.row for one in self.given()))

    def say(self) -> None:
        """Say how many characters could not be read and were replaced."""
        if self.report.replaced:
            note(f"{self.name}: {self.report}")
