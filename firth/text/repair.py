"""Repair of text: lone surrogates are replaced, and mojibake is found and undone.

Mojibake is UTF-8 that was read in another encoding; `python -m firth.text.repair < OLD > NEW`
undoes it.
"""

import re
import sys

SURROGATE = re.compile("[\ud800-\udfff]")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Letters of UTF-8 that were once read as Latin-1 or Windows-1252: å, ä, ö and others as two signs.
GARBLED = re.compile("Ã[\u0080-\u00bf„…–‰]|Â[\u00a0-\u00bf]|â€")


def _bytes_by_sign() -> dict[str, int]:
    """Map each sign to the byte above 0x7f that Windows-1252 or Latin-1 reads as it."""
    found = {}
    for code in range(0x80, 0x100):
        sign = bytes([code]).decode("cp1252", "ignore")
        found[sign or chr(code)] = code
    for code in range(0x80, 0xA0):
        found[chr(code)] = code
    return found


SIGNS = _bytes_by_sign()


def _class(first: int, last: int) -> str:
    """Return the character class of the signs whose bytes lie between two."""
    signs = ""
    for sign, code in SIGNS.items():
        if first <= code <= last:
            signs += re.escape(sign)
    return f"[{signs}]"


# The bytes of one character: a leading one, and as many of those that follow as it asks for.
LATER = _class(0x80, 0xBF)
TWO_BYTES = _class(0xC2, 0xDF) + LATER
THREE_BYTES = _class(0xE0, 0xEF) + LATER * 2
FOUR_BYTES = _class(0xF0, 0xF4) + LATER * 3
CHARACTER = re.compile(f"{TWO_BYTES}|{THREE_BYTES}|{FOUR_BYTES}")


def repair(text: str) -> tuple[str, int]:
    """Replace each lone surrogate by U+FFFD, one for one so that offsets still hold; count them."""
    if text.isascii():
        return text, 0
    return SURROGATE.subn(REPLACEMENT, text)


def garbled(text: str) -> str | None:
    """Return the first signs of a text that look like mojibake, such as `Ã¤`, or None."""
    if text.isascii():
        return None
    found = GARBLED.search(text)
    if found is None:
        return None
    return found[0]


def ungarble(text: str) -> str:
    """Return a text in which mojibake is the characters that it was."""
    return CHARACTER.sub(_character, text)


def _character(signs: re.Match[str]) -> str:
    """Return the character that some signs were, or the signs where they were none."""
    data = bytes(SIGNS[sign] for sign in signs[0])
    try:
        return data.decode()
    except UnicodeDecodeError:  # an overlong form, or half of a surrogate pair
        return signs[0]


if __name__ == "__main__":
    for line in sys.stdin.buffer:
        fixed = ungarble(line.decode(errors="surrogateescape"))
        sys.stdout.buffer.write(fixed.encode(errors="surrogateescape"))
