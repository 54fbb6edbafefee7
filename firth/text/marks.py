"""Marks that belong to the character before them: accents of every script, vowel signs, the inner letters of Hangul."""

import re
from functools import cache
from itertools import chain
from unicodedata import category

HANGUL = range(0x1160, 0x1200)
PLACES = (range(0x300, 0x20000), range(0xE0100, 0xE01F0))


def stretched(offsets: list[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """Let each piece cover the marks that were composed into it or stripped from it, which the library counts to no piece."""
    if not offsets or text.isascii() or not any(pattern.search(text) for pattern in _patterns()):
        return offsets
    marks = _marks()
    limits = [first for first, _ in offsets[1:]] + [len(text)]
    found = []
    for (first, last), limit in zip(offsets, limits, strict=True):
        end = last
        while end < limit and text[end] in marks:
            end += 1
        found.append((first, end))
    return found


@cache
def _marks() -> frozenset[str]:
    """Every mark; asked of Unicode when first needed, because that takes a while."""
    return frozenset(
        sign for sign in map(chr, chain(*PLACES)) if category(sign)[0] == "M" or ord(sign) in HANGUL
    )


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A quick look for texts without marks; `re` is quick for sets below U+10000 only, so beyond it every sign counts."""
    below = "".join(sorted(sign for sign in _marks() if sign < "\U00010000"))
    return re.compile(f"[{below}]"), re.compile("[\U00010000-\U0010ffff]")
