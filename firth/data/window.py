"""What to do with a text that is longer than the model takes: cut it, slide over it, or stop."""

from typing import Literal, NamedTuple

from firth.base.errors import InputError
from firth.text.tokenizer import Encoding

Long = Literal["cut", "slide", "error"]


class Window(NamedTuple):
    """A row of at most the model's length, with special tokens, and where its text's tokens stood in the whole."""

    row: Encoding
    first: int  # number of the text's token that it begins with


def windows(encoding: Encoding, length: int, long: Long, stride: int | None = None, part: int = 0) -> list[Window]:
    """Cut one part of an encoding into rows of at most `length` tokens; everything else is repeated in each.

    `stride` is how many tokens two neighbouring windows share, by default a quarter of the room.
    """
    if len(encoding) <= length:
        return [Window(encoding, 0)]
    body = [i for i, owner in enumerate(encoding.parts) if owner == part]
    room = length - (len(encoding) - len(body))
    if long == "error":
        raise InputError(f"a text has {len(encoding)} tokens where the model takes {length}; --long cut or --long slide accepts it")
    if room < 1:
        raise InputError(f"a text has {len(encoding) - len(body)} tokens that every window must repeat; the model takes {length}")
    shared = room // 4 if stride is None else stride
    if not 0 <= shared < room:
        raise InputError(f"a stride of {shared} doesn't fit in windows with room for {room} tokens")
    starts = range(0, 1 if long == "cut" else max(1, len(body) - shared), room - shared)
    return [Window(_pick(encoding, body[0], body[-1] + 1, body[s : s + room]), s) for s in starts]


def _pick(encoding: Encoding, begin: int, end: int, body: list[int]) -> Encoding:
    keep = [*range(begin), *body, *range(end, len(encoding))]
    return Encoding(
        [encoding.ids[i] for i in keep],
        [encoding.segments[i] for i in keep],
        [encoding.offsets[i] for i in keep],
        [encoding.words[i] for i in keep],
        [encoding.parts[i] for i in keep],
    )
