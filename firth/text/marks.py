"""Marks that belong to the character before them: accents, vowel signs, inner letters of Hangul."""

import re
from functools import cache
from itertools import chain
from unicodedata import category

Offsets = list[tuple[int, int]]  # the first character and the end of each piece in a text

HANGUL = range(0x1160, 0x1200)
# Where Unicode has marks; beyond these there are none.
BLOCKS = (range(0x300, 0x20000), range(0xE0100, 0xE01F0))


def with_marks(offsets: Offsets, text: str) -> Offsets:
    """Extend each piece over the marks that were composed into it or stripped from it.

    The library counts these to no piece.
    """
    if not offsets or text.isascii():
        return offsets
    if not any(pattern.search(text) for pattern in _patterns()):
        return offsets

    marks = _marks()
    starts = [first for first, _ in offsets]
    limits = [*starts[1:], len(text)]
    found = []
    for (first, last), limit in zip(offsets, limits, strict=True):
        end = last
        while end < limit and text[end] in marks:
            end += 1
        found.append((first, end))
    return found


@cache
def _marks() -> frozenset[str]:
    """Return every mark; collected when first needed, because that takes a while."""
    found = []
    for code in chain(*BLOCKS):
        sign = chr(code)
        if category(sign).startswith("M") or code in HANGUL:
            found.append(sign)
    return frozenset(found)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns that quickly tell a text without marks.

    `re` is quick for sets below U+10000 only, so beyond it every sign counts.
    """
    below = [sign for sign in sorted(_marks()) if sign < "\U00010000"]
    marks = re.compile(f"[{''.join(below)}]")
    beyond = re.compile("[\U00010000-\U0010ffff]")
    return marks, beyond
