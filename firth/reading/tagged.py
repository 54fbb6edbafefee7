"""Rows with named spans: tokens with a tag each, or a text with its spans."""

from collections.abc import Collection
from typing import Any

from firth.data.examples import Example, Tagged
from firth.data.record import Fault
from firth.reading.columns import LABELS, TEXTS, Columns, Named, TableHead, first_known
from firth.reading.conll import Scheme, scheme_of, spans_of
from firth.reading.labels import LabelSurvey, NameSurvey
from firth.reading.rowreader import (
    TOKENS,
    RowReader,
    TextReader,
    no_columns,
    row_strings,
    row_text,
    unlabelled,
)
from firth.reading.spans import read_spans

TAGS = ("tags", "ner_tags", "labels")
SPANS = ("spans", "entities")
OUTSIDE = "O"


class TagReader(RowReader):
    """Reads tokens and tags, or a text and its spans."""

    def __init__(self, missing: Collection[str] = (), typed: bool = False) -> None:
        super().__init__(missing, typed)
        self.scheme: Scheme = "plain"

    def find(self, table: TableHead, named: Named) -> Columns | None:
        """Return the columns of tokens and tags or, if there are none, of a text and its spans."""
        return _find(table, named)

    def refusal(self, table: TableHead, named: Named) -> str:
        """Say that there is neither."""
        has = table.listed()
        return f"{table.where} has no tokens and tags and no text with spans; it has {has}"

    def learn(self, table: TableHead) -> None:
        """Learn by which scheme tags name entities."""
        name = self.columns.label
        if self.columns.tokens and name:
            tags = [row[name] for row in table.rows if isinstance(row.get(name), list)]
            self.scheme = scheme_of(tags)

    def example(self, row: dict[str, Any], line: int) -> Example:
        """Make a text with its spans."""
        columns = self.columns
        if columns.label is None or not (columns.tokens or columns.text):
            raise no_columns()
        if columns.tokens:
            tokens = row_strings(row, columns.tokens)
            if row.get(columns.label) is None:
                raise unlabelled(columns.label)
            return tagged(tokens, row_strings(row, columns.label), self.scheme)
        text = "\n".join(row_text(row, name) for name in columns.text)
        if row.get(columns.label) is None:
            raise unlabelled(columns.label)
        return Tagged(text, read_spans(text, row.get(columns.label)))

    def survey(self, path: object) -> LabelSurvey:
        """Count the names of spans."""
        return NameSurvey(path, what="entity", classes=False)


class TokenTextReader(TextReader):
    """Reads texts whatever stands beside them, also where they are given as tokens."""

    def find(self, table: TableHead, named: Named) -> Columns | None:
        """Return the columns of tokens, of a text with spans, or of texts."""
        labelled = _find(table, named)
        if labelled is not None:
            return Columns(labelled.text, tokens=labelled.tokens)
        known = table.known
        if TOKENS in known and not named.text and not first_known(TEXTS, known):
            return Columns(tokens=known[TOKENS])
        return super().find(table, named)

    def example(self, row: dict[str, Any], line: int) -> Example:
        """Make an example without labels; tokens are joined."""
        if not self.columns.tokens:
            return super().example(row, line)
        tokens = row_strings(row, self.columns.tokens)
        return tagged(tokens, [OUTSIDE] * len(tokens), "plain")


def _find(table: TableHead, named: Named) -> Columns | None:
    known = table.known
    tags = (named.label,) if named.label else first_known(TAGS, known)
    if TOKENS in known and tags and not named.text:
        return Columns(tokens=known[TOKENS], label=tags[0])

    text = named.text or first_known(TEXTS, known)
    names = [*first_known(SPANS, known), *first_known(LABELS, known)]
    for name in [named.label] if named.label else names:
        if text and _holds_spans(table, name):
            return Columns(text, label=name)
    return None


def _holds_spans(table: TableHead, name: str) -> bool:
    """Return whether lists of lists or objects stand there; of empty lists the name decides."""
    values = [row[name] for row in table.rows if isinstance(row.get(name), list)]
    parts = [part for value in values for part in value]
    if not parts:
        return bool(values) and name.lower() in SPANS
    return 2 * sum(isinstance(part, list | dict) for part in parts) > len(parts)


def tagged(tokens: list[str], tags: list[str], scheme: Scheme) -> Tagged:
    """Join tokens by one space, and read the spans that their tags name."""
    if len(tokens) != len(tags):
        raise Fault("tags", f"has {len(tags)} tags for {len(tokens)} tokens")
    places = []
    start = 0
    for at, token in enumerate(tokens):
        if not token.strip():
            raise Fault("text", f"has an empty token, its number {at + 1}", at)
        places.append((start, start + len(token)))
        start += len(token) + 1
    return Tagged(" ".join(tokens), spans_of(tags, places, scheme), tuple(places))
