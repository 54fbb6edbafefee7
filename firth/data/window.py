"""What to do with a text that is longer than the model takes: cut it, slide over it, or stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from firth.base.errors import InputError

if TYPE_CHECKING:
    from firth.text.tokenizer import Encoding

Long = Literal["cut", "slide", "error"]


class Window(NamedTuple):
    """A row of at most the model's length, with special tokens, and where its text begins."""

    row: Encoding
    first: int  # number, in the whole text, of the token that it begins with


def windows(
    encoding: Encoding,
    length: int | None,
    long: Long,
    stride: int | None = None,
    part: int | None = None,
) -> list[Window]:
    """Cut one part of an encoding into rows of at most `length` tokens, if there is a limit.

    Everything else is repeated in each. `stride` is how many tokens two neighbouring windows share,
    by default a quarter of the room. Where no part is named, of a pair that is cut the longer part
    loses first; of one that is slid over, the longer one slides and the other keeps at most half
    of the room.
    """
    if long not in get_args(Long):
        raise InputError(
            "a long text is cut, slid over, or an error: "
            f"long is one of {', '.join(get_args(Long))}, not {long!r}"
        )
    if length is None or len(encoding) <= length:
        return [Window(encoding, 0)]
    if long == "cut" and part is None and 1 in encoding.parts:
        return [Window(_trimmed(encoding, length), 0)]
    if long == "error":
        raise InputError(
            f"a text has {len(encoding)} tokens where the model takes {length}; "
            "--long cut or --long slide accepts it"
        )
    if part is None:
        first, second = part_sizes(encoding)
        part = int(second > first)
        special = len(encoding) - first - second
        encoding = _shortened(encoding, 1 - part, (length - special) // 2)

    body = _places(encoding, part)
    repeated = len(encoding) - len(body)
    room = length - repeated
    if room < 1:
        raise InputError(
            f"a text has {repeated} tokens that every window must repeat; the model takes {length}"
        )
    shared = room // 4 if stride is None else stride
    if not 0 <= shared < room:
        raise InputError(f"a stride of {shared} doesn't fit in windows with room for {room} tokens")

    before = range(body[0])
    after = range(body[-1] + 1, len(encoding))
    stop = 1 if long == "cut" else max(1, len(body) - shared)
    found = []
    for start in range(0, stop, room - shared):
        places = [*before, *body[start : start + room], *after]
        found.append(Window(_chosen(encoding, places), start))
    return found


def context_windows(
    encoding: Encoding, length: int | None, long: Long, stride: int
) -> list[Window]:
    """Cut the second text of a pair into rows that all have the first, a question.

    The question keeps at most half of the room, or what the context leaves. Neighbouring rows share
    `stride` tokens, where that is no more than half of the room for the context.
    """
    if length is None or long == "error":
        return windows(encoding, length, long)
    question, context = part_sizes(encoding)
    room = length - (len(encoding) - question - context)
    encoding = _shortened(encoding, 0, max(room // 2, room - context))
    left = room - encoding.parts.count(0)
    return windows(encoding, length, long, min(stride, left // 2), part=1)


def causal_windows(encoding: Encoding, length: int | None, long: Long) -> list[Window]:
    """Cut an encoding into rows for a model that reads from left to right.

    No token is lost and none is repeated in every row. A row begins with the second half of the one
    before it, or with `cut` where that one ended.
    """
    size = len(encoding)
    if length is None or size <= length:
        return [Window(encoding, 0)]
    if long == "error":
        raise InputError(
            f"a text has {size} tokens where the model takes {length}; "
            "--long slide or --long cut accepts it"
        )
    shared = length // 2 if long == "slide" else 0
    found = []
    for first in range(0, size - shared, length - shared):
        places = list(range(first, min(first + length, size)))
        found.append(Window(_chosen(encoding, places), first))
    return found


def most_context(rows: Sequence[Window]) -> list[tuple[int, int]]:
    """Return for each token of a text the window that gives it most context, and its place there.

    That is the window in which it is furthest from an edge.
    """
    best: dict[int, tuple[int, int]] = {}
    context: dict[int, int] = {}  # tokens between the token and the nearer edge, so far
    for number, (row, first) in enumerate(rows):
        size = sum(part is not None for part in row.parts)
        for at in range(size):
            token = first + at
            room = min(at, size - 1 - at)
            if room > context.get(token, -1):
                context[token] = room
                best[token] = (number, at)
    return [best[token] for token in sorted(best)]


def _trimmed(encoding: Encoding, length: int) -> Encoding:
    """Cut off the ends of a pair's parts, so that they are as equal as they can be."""
    first, second = part_sizes(encoding)
    special = len(encoding) - first - second
    room = length - special
    if room < 2:
        raise InputError(f"a pair has {special} special tokens where the model takes {length}")
    half = room // 2
    most_first = min(first, room - min(second, half))
    most_second = min(second, room - min(first, half))
    if most_first + most_second > room:  # both are long, and one token is odd
        if first <= second:  # the longer keeps it
            most_first -= 1
        else:
            most_second -= 1
    return _shortened(_shortened(encoding, 0, most_first), 1, most_second)


def keep_second(encoding: Encoding, length: int) -> Encoding:
    """Cut a pair to `length` tokens so that its second text stays whole where it fits.

    The first keeps its end, which stands beside the second.
    """
    first, second = part_sizes(encoding)
    room = length - (len(encoding) - first - second)
    if room < 1:
        raise InputError(
            f"a pair has {length - room} special tokens where the model takes {length}"
        )
    encoding = _shortened(encoding, 1, room)
    lost = _places(encoding, 0)[: max(0, len(encoding) - length)]
    return _chosen(encoding, [place for place in range(len(encoding)) if place not in set(lost)])


def part_sizes(encoding: Encoding) -> tuple[int, int]:
    """Return how many tokens the first and the second text have."""
    return encoding.parts.count(0), encoding.parts.count(1)


def _places(encoding: Encoding, part: int) -> list[int]:
    """Return where the tokens of one part stand."""
    return [place for place, owner in enumerate(encoding.parts) if owner == part]


def _shortened(encoding: Encoding, part: int, most: int) -> Encoding:
    """Cut off the end of one part, so that it has so many tokens at most."""
    lost = set(_places(encoding, part)[max(0, most) :])
    if not lost:
        return encoding
    return _chosen(encoding, [place for place in range(len(encoding)) if place not in lost])


def _chosen(encoding: Encoding, keep: list[int]) -> Encoding:
    """Return the tokens at some places."""
    return replace(
        encoding,
        ids=[encoding.ids[i] for i in keep],
        segments=[encoding.segments[i] for i in keep],
        offsets=[encoding.offsets[i] for i in keep],
        words=[encoding.words[i] for i in keep],
        parts=[encoding.parts[i] for i in keep],
    )
