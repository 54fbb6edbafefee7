"""Which columns or fields of a file are the text and its label, as a person named them or by the names that are usual."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from firth.base.errors import InputError, option
from firth.data.record import shortened

Task = Literal["classify", "regress", "tag"]
USUAL = "text"  # the field of an object; in a table, whichever column has one of the usual names
PAIRS = (
    ("text_a", "text_b"),
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("#1 string", "#2 string"),  # MRPC
    ("question", "sentence"),
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
TAGS = ("tags", "ner_tags", "labels")
SPANS = ("spans", "entities")


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
        """From the words of a command line: subject,body."""
        first, other = (
            tuple(part.strip() for part in given.split(",")) if given else ()
            for given in (text, second)
        )
        return cls(first, other, label)

    def __str__(self) -> str:
        parts = [
            ("text", ",".join(self.text)),
            ("second", ",".join(self.second)),
            ("label", self.label),
        ]
        return " ".join(f"--{option} {name}" for option, name in parts if name)

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.text, *self.second, *([self.label] if self.label else []))


@dataclass(frozen=True)
class Columns:
    """Where to find what: tokens and tags, a text and its spans, or texts and their label."""

    text: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    label: str | None = None
    tokens: str | None = None
    tags: str | None = None
    spans: str | None = None

    @property
    def named(self) -> Named:
        """The same as a person would name them."""
        return Named(self.text, self.second, self.label or self.tags or self.spans)


Rows = Sequence[dict[str, Any]]


def find_columns(
    where: str,
    columns: Sequence[str],
    head: Rows,
    named: Named,
    task: Task | None,
    labels: bool = True,
) -> Columns:
    """Decide by the names of the columns and by the first rows; where they don't tell, say what there is and what to try."""
    found = _find(where, columns, head, named, task, labels)
    return found if labels else replace(found, label=None, tags=None, spans=None)


class Found(NamedTuple):
    """The columns of a file, and what is to be said of the choice where it may surprise."""

    columns: Columns
    note: str = ""


def find_trained(
    where: str, columns: Sequence[str], head: Rows, trained: Named, task: Task | None, labels: bool
) -> Found:
    """Find the columns that a model was trained with; in a file that lacks one, the columns with usual names."""
    trained = trained if labels else replace(trained, label=None)
    missing = [name for name in trained.names if name not in columns]
    usual = None
    try:
        usual = find_columns(where, columns, head, Named(), task, labels)
    except InputError as error:
        if not trained.text:
            raise
        if missing:
            raise InputError(f"{error}; the model was trained with {trained}") from error
    if usual is not None and (missing or not trained.text):
        lacks = (
            f"{where} has no column {missing[0]!r}, with which the model was trained"
            if missing
            else ""
        )
        return Found(usual, f"{lacks}; it is read with {usual.named}" if trained.text else "")
    found = find_columns(where, columns, head, trained, task, labels)
    other = usual is not None and usual.named != found.named
    return Found(found, f"{where} is read with {found.named}, as in training" if other else "")


def _find(
    where: str, columns: Sequence[str], head: Rows, named: Named, task: Task | None, labels: bool
) -> Columns:
    for name in named.names:
        if name not in columns:
            raise InputError(f"{where} has no column {name!r}; it has {_listed(columns)}")
    known = {name.strip().lower(): name for name in reversed(columns)}
    if task in (None, "tag"):
        tagged = _tagged(known, head, named)
        if tagged:
            return tagged
        if not labels and "tokens" in known and not named.text and not _first(TEXTS, known):
            return Columns(tokens=known["tokens"])
    if task == "tag":
        raise InputError(
            f"{where} has no tokens and tags and no text with spans; it has {_listed(columns)}"
        )
    pair = known_pair(list(known)) if not named.text and not named.second else None
    text = named.text or _first(pair or TEXTS, known, named.label, *named.second)
    second = (known[pair[1]],) if pair else named.second
    label = named.label or next(iter(_first(LABELS, known, *text, *second)), None)
    if not text or (label is None and task is not None):
        raise InputError(_unclear(where, columns, head, text, label, labels))
    return Columns(text, second, label)


def known_pair(names: Sequence[str]) -> tuple[str, str] | None:
    """The pair of texts that these names, in small letters, are usual for."""
    return next((pair for pair in PAIRS if pair[0] in names and pair[1] in names), None)


def _first(names: Sequence[str], known: dict[str, str], *taken: str | None) -> tuple[str, ...]:
    return next(
        ((known[name],) for name in names if name in known and known[name] not in taken), ()
    )


def _tagged(known: dict[str, str], head: Rows, named: Named) -> Columns | None:
    tags = (named.label,) if named.label else _first(TAGS, known)
    if "tokens" in known and tags and not named.text:
        return Columns(tokens=known["tokens"], tags=tags[0])
    text = named.text or _first(TEXTS, known)
    spans = (named.label,) if named.label else (*_first(SPANS, known), *_first(LABELS, known))
    name = next((name for name in spans if _holds_spans(head, name, name.lower() in SPANS)), None)
    if text and name:
        return Columns(text=text, spans=name)
    return None


def _holds_spans(head: Rows, name: str, by_name: bool) -> bool:
    """Whether lists stand there whose parts are lists or objects; where they are all empty the name decides."""
    values = [row[name] for row in head if isinstance(row.get(name), list)]
    parts = [part for value in values for part in value]
    if not parts:
        return bool(values) and by_name
    return 2 * sum(isinstance(part, list | dict) for part in parts) > len(parts)


def _unclear(
    where: str,
    columns: Sequence[str],
    head: Rows,
    text: tuple[str, ...],
    label: str | None,
    labels: bool,
) -> str:
    likely_text = (
        text[0] if text else max(columns, key=lambda name: _length(head, name), default=None)
    )
    rest = [name for name in columns if name != likely_text]
    likely_label = (
        label or min(rest, key=lambda name: _variety(head, name), default=None) if labels else None
    )
    what = "text" if not text else "label"
    flags = " ".join(
        option(flag, name)
        for flag, name in (("text", likely_text), ("label", likely_label))
        if name
    )
    advice = (
        f"perhaps {flags} (several texts are joined: --text subject,body)"
        if flags
        else "it is empty"
    )
    return f"{where}: which column holds the {what}? It has {_listed(columns)}; {advice}"


def _length(head: Rows, name: str) -> float:
    return sum(len(row[name]) for row in head if isinstance(row.get(name), str))


def _variety(head: Rows, name: str) -> float:
    values = {shortened(row.get(name)) for row in head}
    return len(values) if len(values) > 1 else float("inf")


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(shortened(name)[1:-1] for name in columns[:20])
    return f"{shown or 'none'}{' ...' if len(columns) > 20 else ''}"
