"""Which columns of a file are the text and its label, as a person named them or by usual names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from firth.base.errors import InputError, option
from firth.data.record import shortened

USUAL = "text"  # the field of an object; in a table, whichever column has one of the usual names
PAIRS = (
    ("text_a", "text_b"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("#1 string", "#2 string"),  # MRPC
    ("question", "sentence"),
    ("question", "context"),  # SQuAD
)
TEXTS = ("text", "sentence", "review", "content", "comment", "message", "document")
LABELS = (
    "label",
    "labels",
    "gold_label",
    "is_duplicate",
    "score",
    "quality",
    "class",
    "category",
    "target",
)
SOURCES = ("src", "source")  # of text to text
TARGETS = ("tgt", "target")
MOST_LISTED = 20  # columns in a message


@dataclass(frozen=True)
class Named:
    """The columns that a person named; several texts are joined by a line break."""

    text: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    label: str | None = None

    @classmethod
    def of(
        cls, text: str | None = None, second: str | None = None, label: str | None = None
    ) -> "Named":
        """Read the words of a command line: subject,body."""
        return cls(_names(text), _names(second), label)

    def __str__(self) -> str:
        parts = [
            ("text", ",".join(self.text)),
            ("second", ",".join(self.second)),
            ("label", self.label),
        ]
        return " ".join(f"--{option} {name}" for option, name in parts if name)

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that were named."""
        names = (*self.text, *self.second)
        if self.label:
            names += (self.label,)
        return names


def _names(given: str | None) -> tuple[str, ...]:
    """Return the names between commas."""
    if not given:
        return ()
    return tuple(part.strip() for part in given.split(","))


@dataclass(frozen=True)
class Columns:
    """Where a task's reader finds what: a text or tokens, a second text, and what is learned."""

    text: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    label: str | None = None
    tokens: str | None = None

    @property
    def named(self) -> Named:
        """The same as a person would name them."""
        return Named(self.text, self.second, self.label)


class TableHead(NamedTuple):
    """What is known of a file before it is read: its columns and its first rows."""

    where: str
    columns: Sequence[str]
    rows: Sequence[dict[str, Any]]

    @property
    def known(self) -> dict[str, str]:
        """The columns by their names in small letters; of two that differ by case the first."""
        return {name.strip().lower(): name for name in reversed(self.columns)}

    def refuse_unknown(self, named: Named) -> None:
        """Refuse columns that the file doesn't have."""
        for name in named.names:
            if name not in self.columns:
                raise InputError(f"{self.where} has no column {name!r}; it has {self.listed()}")

    def listed(self) -> str:
        """The columns as they may stand in a sentence."""
        names = [shortened(name)[1:-1] for name in self.columns[:MOST_LISTED]]
        shown = ", ".join(names) or "none"
        if len(self.columns) > MOST_LISTED:
            shown += " ..."
        return shown


def find_texts(table: TableHead, named: Named) -> Columns:
    """Find the text or the pair of texts, as named or by usual names; there may be none."""
    known = table.known
    pair = None
    if not named.text and not named.second:
        pair = known_pair(list(known))
    if pair:
        taken = [named.label, *named.second]
        return Columns(first_known(pair, known, *taken), (known[pair[1]],))
    text = named.text or first_known(TEXTS, known, named.label, *named.second)
    return Columns(text, named.second)


def find_label(table: TableHead, named: Named, texts: Columns) -> str | None:
    """Find the label, as named or by usual names, among the columns that are no text."""
    if named.label:
        return named.label
    found = first_known(LABELS, table.known, *texts.text, *texts.second)
    return found[0] if found else None


def known_pair(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the pair of texts that these names, in small letters, are usual for."""
    for first, second in PAIRS:
        if first in names and second in names:
            return first, second
    return None


def first_known(names: Sequence[str], known: dict[str, str], *taken: str | None) -> tuple[str, ...]:
    """Return the first of some usual names that a file has and that isn't taken, if any."""
    for name in names:
        if name in known and known[name] not in taken:
            return (known[name],)
    return ()


def unclear(table: TableHead, texts: Columns, label: str | None, labelled: bool) -> str:
    """Ask for the column that wasn't found, with a guess at what to type."""
    plain = [name for name in table.columns if not _is_nested(table, name)]
    likely_text = texts.text[0] if texts.text else None
    if likely_text is None:
        likely_text = max(plain, key=lambda name: _length(table, name), default=None)
    likely_label = label
    if labelled and label is None:
        rest = [name for name in plain if name != likely_text]
        likely_label = min(rest, key=lambda name: _variety(table, name), default=None)

    what = "label" if texts.text else "text"
    guesses = (("text", likely_text), ("label", likely_label if labelled else None))
    flags = " ".join(option(flag, name) for flag, name in guesses if name)
    advice = "it is empty"
    if len(plain) < len(table.columns):
        nested = next(name for name in table.columns if name not in plain)
        advice = f"{nested!r} holds lists or objects: write what they hold as columns of their own"
    elif flags:
        advice = f"perhaps {flags} (several texts are joined: --text subject,body)"
    return f"{table.where}: which column holds the {what}? It has {table.listed()}; {advice}"


def _length(table: TableHead, name: str) -> float:
    return sum(len(row[name]) for row in table.rows if isinstance(row.get(name), str))


def _is_nested(table: TableHead, name: str) -> bool:
    """Return whether a column holds lists or objects."""
    return any(isinstance(row.get(name), list | dict) for row in table.rows)


def _variety(table: TableHead, name: str) -> float:
    values = {shortened(row.get(name)) for row in table.rows}
    return len(values) if len(values) > 1 else float("inf")
