"""Rate a file of texts with a language model, or choose among the texts of each list."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, tee
from pathlib import Path
from typing import Any, NamedTuple

from firth.base.errors import InputError
from firth.data.examples import Example, Labelled, Line
from firth.data.window import Long
from firth.predictor import Predictor, Progress
from firth.reading.layout import Cell, TableLayout, columns_of
from firth.reading.source import Given, Source
from firth.tasks.rate import Candidate, Rated, as_json, rank, summary_json
from firth.text.lines import Report, is_jsonl, joined, lines, objects
from firth.text.repair import repair

LISTS = "candidates"  # the usual name of a list of texts


class Choices(NamedTuple):
    """Texts of which one is right, and what is read before each."""

    context: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """The rows of a .jsonl file: a text or a list of texts each, with or without a context."""

    path: Path
    name: str
    text: str = "text"
    encoding: str | None = None
    report: Report = field(default_factory=Report)

    @classmethod
    def of(cls, source: Source) -> "Asked | None":
        """The rows of a source that is such a file."""
        if (
            source.path is None
            or source.second
            or not (source.form == "jsonl" or (not source.form and is_jsonl(source.path)))
        ):
            return None
        return cls(source.path, source.title, source.fields, source.encoding)

    def given(self) -> Iterator[Given]:
        """Each row as it is asked and as it was written."""
        self.report.clear()
        for number, row in objects(lines(self.path, self.encoding, self.report), self.name):
            yield Given(self._row(row, f"{self.name}:{number}"), row)

    def _row(self, row: dict[str, Any], where: str) -> Line | Labelled | Choices:
        name = LISTS if self.text == "text" and "text" not in row and LISTS in row else self.text
        if "," in name:
            row = row | {name: joined(row, name, where, self.report)}
        if name not in row:
            raise InputError(
                f"{where} has no field {name!r}; it has {', '.join(map(str, row)) or 'none'} (--text names the field)"
            )
        texts, context = row[name], row.get("context", "")
        if not isinstance(context, str):
            raise InputError(
                f"{where}: the field 'context' holds {type(context).__name__}, not a text"
            )
        if isinstance(texts, str):
            return (
                Labelled(self._mended(context), None, self._mended(texts))
                if context
                else Line(self._mended(texts))
            )
        if (
            not isinstance(texts, list)
            or not texts
            or not all(isinstance(text, str) for text in texts)
        ):
            raise InputError(
                f"{where}: the field {name!r} holds neither a text nor a list of texts"
            )
        return Choices(self._mended(context), tuple(self._mended(text) for text in texts))

    def _mended(self, text: str) -> str:
        text, replaced = repair(text)
        self.report.replaced += replaced
        return text

    def count(self) -> int:
        """How many texts there will be; reading them once also finds whatever is wrong before any work is done."""
        return sum(len(_examples(one.example)) for one in self.given())

    def layout(self) -> TableLayout:
        """What columns the rows have."""
        return TableLayout(*columns_of(one.row for one in self.given()))

    def say(self) -> None:
        """Say how many characters could not be read and were replaced."""
        if self.report.replaced:
            print(f"note: {self.name}: {self.report}", file=sys.stderr)


def _examples(row: Example | Choices) -> list[Example]:
    if not isinstance(row, Choices):
        return [row]
    return [Labelled(row.context, None, text) if row.context else Line(text) for text in row.texts]


class Rating:
    """How likely each text is, and which of a list is likeliest; only JSON shows every token."""

    replaces = True

    def __init__(self, predictor: Predictor, long: Long, lines: bool, lists: bool) -> None:
        self.predictor, self.long = predictor, long
        columns: dict[str, Cell] = {
            "score": "number",
            "tokens": "whole",
            "words": "whole",
            "perplexity": "number",
        }
        self.columns: Mapping[str, Cell] = columns | (
            {"best": "text", "ranked": "json"} if lists else {}
        )
        self.task = predictor.rater(orders=lines)

    def answers(
        self, asked: Iterable[Example | Choices], progress: Progress
    ) -> Iterator[Rated | tuple[Candidate, ...]]:
        """A rating of each text, and the ranks of each list."""
        shown, given = tee(asked)
        rated = self.predictor.stream(
            self.task, (one for row in given for one in _examples(row)), self.long, progress
        )
        for row in shown:
            found = list(islice(rated, len(_examples(row))))
            yield rank(found) if isinstance(row, Choices) else found[0]

    def table(self, asked: Example | Choices, answer: Rated | tuple[Candidate, ...]) -> str:
        """A line for a text; the choice and then the candidates for a list."""
        if isinstance(answer, Rated):
            figures = f"{answer.score:12.4f}  {answer.tokens:5} tokens  {answer.words:5} words  perplexity {answer.perplexity:10.2f}"
            return f"{figures}  {answer.text}"
        listed = [
            f"    {one.share:7.2%}  {one.rated.score:12.4f}  {one.rated.text}" for one in answer
        ]
        return "\n".join([answer[0].rated.text, *listed])

    def record(
        self, asked: Example | Choices, answer: Rated | tuple[Candidate, ...]
    ) -> dict[str, Any]:
        """The figures with what was asked."""
        context = (
            asked.context
            if isinstance(asked, Choices)
            else asked.text
            if isinstance(asked, Labelled)
            else ""
        )
        before = {"context": context} if context else {}
        if isinstance(answer, Rated):
            return before | as_json(answer)
        ranked = [
            summary_json(one.rated) | {"place": one.place, "share": one.share} for one in answer
        ]
        return before | {"best": answer[0].rated.text, "candidates": ranked}

    def cells(
        self, asked: Example | Choices, answer: Rated | tuple[Candidate, ...]
    ) -> dict[str, Any]:
        """The figures of a text, or the best text of a list and the others as they rank."""
        found: dict[str, Any] = dict.fromkeys(self.columns)
        record = self.record(asked, answer)
        if isinstance(answer, Rated):
            return found | {name: value for name, value in record.items() if name in found}
        return found | {"best": record["best"], "ranked": record["candidates"]}
