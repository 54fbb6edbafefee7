"""What to do with a text that is longer than the model takes: cut it, slide over it, or stop."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from firth.base.errors import InputError
from firth.text.tokenizer import Encoding

Long = Literal["cut", "slide", "error"]


class Window(NamedTuple):
    """A row of at most the model's length, with special tokens, and where its text's tokens stood in the whole."""

    row: Encoding
    first: int  # number of the text's token that it begins with


def windows(
    encoding: Encoding,
    length: int | None,
    long: Long,
    stride: int | None = None,
    part: int | None = None,
) -> list[Window]:
    """Cut one part of an encoding into rows of at most `length` tokens, if there is a limit; everything else is repeated in each.

    `stride` is how many tokens two neighbouring windows share, by default a quarter of the room. Of a pair that is cut, the longer
    part loses first. Where no part is named, the longer one slides, and the other keeps at most half of the room.
    """
    if long not in get_args(Long):
        raise InputError(
            f"a long text is cut, slid over, or an error: long is one of {', '.join(get_args(Long))}, not {long!r}"
        )
    if length is None or len(encoding) <= length:
        return [Window(encoding, 0)]
    if long == "cut" and 1 in encoding.parts:
        return [Window(_trimmed(encoding, length), 0)]
    if long == "error":
        raise InputError(
            f"a text has {len(encoding)} tokens where the model takes {length}; --long cut or --long slide accepts it"
        )
    if part is None:
        sizes = [encoding.parts.count(one) for one in (0, 1)]
        part = int(sizes[1] > sizes[0])
        encoding = _shortened(encoding, 1 - part, (length - (len(encoding) - sum(sizes))) // 2)
    body = [i for i, owner in enumerate(encoding.parts) if owner == part]
    room = length - (len(encoding) - len(body))
    if room < 1:
        raise InputError(
            f"a text has {len(encoding) - len(body)} tokens that every window must repeat; the model takes {length}"
        )
    shared = room // 4 if stride is None else stride
    if not 0 <= shared < room:
        raise InputError(f"a stride of {shared} doesn't fit in windows with room for {room} tokens")
    starts = range(0, 1 if long == "cut" else max(1, len(body) - shared), room - shared)
    return [Window(_pick(encoding, body[0], body[-1] + 1, body[s : s + room]), s) for s in starts]


def onward(encoding: Encoding, length: int | None, long: Long) -> list[Window]:
    """Cut an encoding into rows for a model that reads from left to right; no token is lost and none is repeated in every row.

    A row begins with the second half of the one before it, or with `cut` where that one ended.
    """
    size = len(encoding)
    if length is None or size <= length:
        return [Window(encoding, 0)]
    if long == "error":
        raise InputError(
            f"a text has {size} tokens where the model takes {length}; --long slide or --long cut accepts it"
        )
    shared = length // 2 if long == "slide" else 0
    starts = range(0, size - shared, length - shared)
    return [
        Window(_chosen(encoding, list(range(first, min(first + length, size)))), first)
        for first in starts
    ]


def inmost(rows: Sequence[Window]) -> list[tuple[int, int]]:
    """For each token of a text, in order: the window in which it is furthest from an edge, and its place among that one's own."""
    best: dict[int, tuple[int, int, int]] = {}
    for number, (row, first) in enumerate(rows):
        size = sum(part is not None for part in row.parts)
        for at in range(size):
            room = min(at, size - 1 - at)
            if first + at not in best or best[first + at][0] < room:
                best[first + at] = (room, number, at)
    return [(number, at) for _, (_, number, at) in sorted(best.items())]


def _trimmed(encoding: Encoding, length: int) -> Encoding:
    """A pair with the ends of its parts cut off, so that they are as equal as they can be."""
    sizes = [encoding.parts.count(part) for part in (0, 1)]
    room = length - (len(encoding) - sum(sizes))
    if room < 2:
        raise InputError(
            f"a pair has {len(encoding) - sum(sizes)} special tokens where the model takes {length}"
        )
    kept = [
        min(size, room - min(other, room // 2))
        for size, other in zip(sizes, reversed(sizes), strict=True)
    ]
    if sum(kept) > room:  # both are long, and one token is odd: the longer keeps it
        kept[0 if sizes[0] <= sizes[1] else 1] -= 1
    for part, most in enumerate(kept):
        encoding = _shortened(encoding, part, most)
    return encoding


def _shortened(encoding: Encoding, part: int, most: int) -> Encoding:
    """An encoding whose one part has so many tokens at most."""
    lost = set(
        [place for place, owner in enumerate(encoding.parts) if owner == part][max(0, most) :]
    )
    return (
        _chosen(encoding, [place for place in range(len(encoding)) if place not in lost])
        if lost
        else encoding
    )


def _pick(encoding: Encoding, begin: int, end: int, body: list[int]) -> Encoding:
    return _chosen(encoding, [*range(begin), *body, *range(end, len(encoding))])


def _chosen(encoding: Encoding, keep: list[int]) -> Encoding:
    return Encoding(
        [encoding.ids[i] for i in keep],
        [encoding.segments[i] for i in keep],
        [encoding.offsets[i] for i in keep],
        [encoding.words[i] for i in keep],
        [encoding.parts[i] for i in keep],
    )
