"""Text that no encoding of Unicode can hold, mended so that every character keeps its place."""

import re

SURROGATE = re.compile("[\ud800-\udfff]")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def repair(text: str) -> tuple[str, int]:
    """Replace each lone surrogate by U+FFFD, one for one so that offsets still hold, and count them."""
    if text.isascii():
        return text, 0
    return SURROGATE.subn(REPLACEMENT, text)
