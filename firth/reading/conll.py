"""Words in columns with a tag each, as in CoNLL's shared tasks, and the schemes by which tags name entities."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from firth.data.examples import Span
from firth.data.record import Fault, Numbered, Record, refuse_nul, shortened

Scheme = Literal["iob1", "iob2", "iobes", "plain"]
TAG = re.compile(r"O|[BIESLU]-\S+")
PREFIXES = {"iob1": "BI", "iob2": "BI", "iobes": "BIESLU"}
SPACE = re.compile(r"[ \t]+")
DOCUMENT = "-DOCSTART-"
MOST_WORDS = 100_000  # of a sentence: a file without blank lines is none of CoNLL's
LIKELY = 0.9


def looks_like(head: Sequence[str]) -> bool:
    """Whether nearly all of these lines are blank or end with a tag of an entity."""
    rows = [_columns(line) for line in head if line.strip() and not line.startswith(DOCUMENT)]
    tags = [row[-1] for row in rows if len(row) > 1 and TAG.fullmatch(row[-1])]
    return len(tags) >= LIKELY * len(rows) > 0 and any(tag != "O" for tag in tags)


def sentences(lines: Numbered) -> Iterator[Record]:
    """Sentences as rows of tokens and tags; the word is the first column and the tag the last, and a blank line parts them."""
    rows: list[str] = []
    for line in lines:
        document = line.startswith(DOCUMENT)
        if line.strip() and not document:
            rows.append(line)
        if rows and (document or not line.strip() or len(rows) == MOST_WORDS):
            yield _sentence(rows, lines.number - len(rows) + (line is rows[-1]))
            rows = []
    if rows:
        yield _sentence(rows, lines.number - len(rows) + 1)


def _sentence(rows: list[str], line: int) -> Record:
    tokens, tags = [], []
    width = len(_columns(rows[0]))
    for below, row in enumerate(rows):
        columns = _columns(row)
        try:
            refuse_nul(row)
        except Fault as fault:
            return Record(line, Fault(fault.kind, fault.said, below))
        if len(columns) < 2:
            return Record(
                line, Fault("fields", f"has no tag: {shortened(row.strip())} stands alone", below)
            )
        if len(columns) != width:
            return Record(
                line,
                Fault(
                    "fields",
                    f"has {len(columns)} columns where the sentence began with {width}",
                    below,
                ),
            )
        tokens.append(columns[0])
        tags.append(columns[-1])
    return Record(line, {"tokens": tokens, "tags": tags})


def _columns(line: str) -> list[str]:
    line = line.rstrip(" \r")
    return line.split("\t") if "\t" in line else SPACE.split(line)


class _Chunk(NamedTuple):
    """What a tag says: a sign for its place in an entity, and the entity's name."""

    sign: str
    label: str


def scheme_of(sentences: Iterable[Sequence[object]]) -> Scheme:
    """The scheme that most of these tags keep to."""
    signs: Counter[str] = Counter()
    for tags in sentences:
        before = _Chunk("O", "")
        for tag in tags:
            found = _parsed(tag) if isinstance(tag, str) and TAG.fullmatch(tag) else _Chunk("?", "")
            signs[found.sign] += 1
            signs[f"{found.sign} alone"] += found.label != before.label
            before = found
    if signs["?"] and not any(signs[sign] for sign in "BIES"):
        return "plain"
    # IOBES marks the last word of an entity; the others mark where it begins, IOB1 mostly by an I that nothing goes before.
    if 2 * (signs["E"] + signs["S"]) > signs["B"] + signs["I alone"]:
        return "iobes"
    return "iob1" if signs["I alone"] > signs["B alone"] else "iob2"


def spans_of(
    tags: Sequence[str], places: Sequence[tuple[int, int]], scheme: Scheme
) -> tuple[Span, ...]:
    """The entities that tags name, as characters of the text that the tokens were joined to; a tag out of place is a fault."""
    if scheme == "plain":
        return tuple(
            Span(*place, tag) for tag, place in zip(tags, places, strict=True) if tag != "O"
        )
    spans: list[Span] = []
    before = _Chunk("O", "")
    for at, tag in enumerate(tags):
        if tag != "O" and (not TAG.fullmatch(tag) or tag[0] not in PREFIXES[scheme]):
            signs = ", ".join(PREFIXES[scheme])
            raise Fault(
                "tag",
                f"has the tag {shortened(tag)}, which is neither O nor one of {signs} with a name",
                at,
            )
        now = _parsed(tag)
        _refuse_broken(before, now, scheme, tag, at)
        if now.sign != "O" and _begins(before, now, scheme):
            spans.append(Span(*places[at], now.label))
        elif now.sign != "O":
            spans[-1] = spans[-1]._replace(end=places[at][1])
        before = now
    if scheme == "iobes" and before.sign in "BI":
        said = f"ends inside an entity: {before.sign}-{before.label} is not followed by E-{before.label}"
        raise Fault("bio", said, len(tags) - 1)
    return tuple(spans)


def _parsed(tag: str) -> _Chunk:
    sign, _, label = tag.partition("-")
    return _Chunk({"L": "E", "U": "S"}.get(sign, sign), label)


def _begins(before: _Chunk, now: _Chunk, scheme: Scheme) -> bool:
    return now.sign in "BS" or (scheme == "iob1" and now.label != before.label)


def _refuse_broken(before: _Chunk, now: _Chunk, scheme: Scheme, tag: str, at: int) -> None:
    """Refuse a tag that what stands before it does not allow."""
    goes_on = before.label == now.label and (scheme != "iobes" or before.sign in "BI")
    orphan = now.sign == "B" if scheme == "iob1" else now.sign in "IE"
    if (orphan and not goes_on) or (
        scheme == "iobes" and before.sign in "BI" and now.sign not in "IE"
    ):
        last = f"{before.sign}-{before.label}" if before.label else "O"
        raise Fault(
            "bio",
            f"has {shortened(tag)} after {last if at else 'nothing'}, which {scheme.upper()} does not allow",
            at,
        )
