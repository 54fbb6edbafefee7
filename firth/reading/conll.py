"""Words in columns with a tag each, as in CoNLL's shared tasks, and the schemes of their tags."""

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
    """Return whether nearly all of these lines are blank or end with a tag of an entity."""
    rows = [_columns(line) for line in head if line.strip() and not line.startswith(DOCUMENT)]
    last = [row[-1] for row in rows if len(row) > 1]
    tags = [tag for tag in last if TAG.fullmatch(tag)]
    # A table whose last column is a bare O in every row need not be CoNLL's.
    if set(tags) <= {"O"}:
        return False
    return len(tags) >= LIKELY * len(rows)


def conll_rows(lines: Numbered) -> Iterator[Record]:
    """Yield sentences as records of tokens and tags; a blank line ends a sentence.

    The word is the first column and the tag the last.
    """
    rows: list[str] = []
    first = 0  # line of the sentence that is open
    for line in lines:
        if line.strip() and not line.startswith(DOCUMENT):
            if not rows:
                first = lines.number
            rows.append(line)
            if len(rows) < MOST_WORDS:
                continue
        if rows:
            yield _sentence(rows, first)
            rows = []
    if rows:
        yield _sentence(rows, first)


def _sentence(rows: list[str], line: int) -> Record:
    """Return the rows of a sentence, which begins at `line`, as one record."""
    tokens = []
    tags = []
    width = len(_columns(rows[0]))
    for below, row in enumerate(rows):
        columns = _columns(row)
        try:
            refuse_nul(row)
        except Fault as fault:
            return Record(line, Fault(fault.kind, fault.said, below))
        if len(columns) < 2:
            said = f"has no tag: {shortened(row.strip())} stands alone"
            return Record(line, Fault("fields", said, below))
        if len(columns) != width:
            said = f"has {len(columns)} columns where the sentence began with {width}"
            return Record(line, Fault("fields", said, below))
        tokens.append(columns[0])
        tags.append(columns[-1])
    return Record(line, {"tokens": tokens, "tags": tags})


def _columns(line: str) -> list[str]:
    """Return the columns of a line: between tabs if it has any, else between blanks."""
    line = line.rstrip(" \r")
    if "\t" in line:
        return line.split("\t")
    return SPACE.split(line)


class _Chunk(NamedTuple):
    """What a tag says: a sign for its place in an entity, and the entity's name."""

    sign: str
    label: str


def scheme_of(sentences: Iterable[Sequence[object]]) -> Scheme:
    """Return the scheme that most of these tags keep to."""
    signs: Counter[str] = Counter()
    alone: Counter[str] = Counter()  # signs of tags whose entity is not that of the tag before
    for tags in sentences:
        before = _Chunk("O", "")
        for tag in tags:
            found = _Chunk("?", "")
            if isinstance(tag, str) and TAG.fullmatch(tag):
                found = _parsed(tag)
            signs[found.sign] += 1
            if found.label != before.label:
                alone[found.sign] += 1
            before = found
    if signs["?"] and not any(signs[sign] for sign in "BIES"):
        return "plain"

    # IOBES marks the last word of an entity; the others mark where it begins, IOB1 mostly by an I
    # that nothing goes before.
    ends = signs["E"] + signs["S"]
    begins = signs["B"] + alone["I"]
    if 2 * ends > begins:
        return "iobes"
    if alone["I"] > alone["B"]:
        return "iob1"
    return "iob2"


def spans_of(
    tags: Sequence[str], places: Sequence[tuple[int, int]], scheme: Scheme
) -> tuple[Span, ...]:
    """Return the entities that tags name, as characters of the text that the tokens make.

    A tag out of place is a fault.
    """
    spans: list[Span] = []
    if scheme == "plain":
        for (start, end), tag in zip(places, tags, strict=True):
            if tag != "O":
                spans.append(Span(start, end, tag))
        return tuple(spans)

    before = _Chunk("O", "")
    for at, tag in enumerate(tags):
        _refuse_unknown(tag, scheme, at)
        now = _parsed(tag)
        _refuse_broken(before, now, scheme, tag, at)
        if now.sign != "O":
            start, end = places[at]
            if _begins(before, now, scheme):
                spans.append(Span(start, end, now.label))
            else:
                spans[-1] = spans[-1]._replace(end=end)
        before = now
    if scheme == "iobes" and before.sign in "BI":
        last = f"{before.sign}-{before.label}"
        said = f"ends inside an entity: {last} is not followed by E-{before.label}"
        raise Fault("bio", said, len(tags) - 1)
    return tuple(spans)


def _parsed(tag: str) -> _Chunk:
    """Take a tag apart; BILOU's L and U are what IOBES calls E and S."""
    sign, _, label = tag.partition("-")
    sign = {"L": "E", "U": "S"}.get(sign, sign)
    return _Chunk(sign, label)


def _begins(before: _Chunk, now: _Chunk, scheme: Scheme) -> bool:
    """Return whether a tag is the first of its entity."""
    if now.sign in "BS":
        return True
    return scheme == "iob1" and now.label != before.label


def _refuse_unknown(tag: str, scheme: Scheme, at: int) -> None:
    """Refuse a tag that the scheme doesn't have."""
    if tag == "O" or (TAG.fullmatch(tag) and tag[0] in PREFIXES[scheme]):
        return
    signs = ", ".join(PREFIXES[scheme])
    said = f"has the tag {shortened(tag)}, which is neither O nor one of {signs} with a name"
    raise Fault("unknown tag", said, at)


def _refuse_broken(before: _Chunk, now: _Chunk, scheme: Scheme, tag: str, at: int) -> None:
    """Refuse a tag that what stands before it does not allow."""
    # Only IOBES says whether the entity before is still open.
    open_before = before.sign in "BI"
    same_entity = before.label == now.label
    if scheme == "iobes":
        same_entity = same_entity and open_before
        unfinished = open_before and now.sign not in "IE"
    else:
        unfinished = False
    # IOB1 has B only between two entities of one name; elsewhere I and E go on with an entity.
    needs_before = "B" if scheme == "iob1" else "IE"
    if unfinished or (now.sign in needs_before and not same_entity):
        last = "O"
        if not at:
            last = "nothing"
        elif before.label:
            last = f"{before.sign}-{before.label}"
        said = f"has {shortened(tag)} after {last}, which {scheme.upper()} does not allow"
        raise Fault("bio", said, at)
