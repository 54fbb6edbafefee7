"""Text that no encoding of Unicode can hold, mended in place; and UTF-8 that was read in a wrong encoding.

`python -m firth.text.repair < OLD > NEW` repairs the second kind.
"""

import re
import sys

SURROGATE = re.compile("[\ud800-\udfff]")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Letters of UTF-8 that were once read as Latin-1 or Windows-1252: å, ä, ö and their like as two signs.
GARBLED = re.compile("Ã[\u0080-\u00bf„…–‰]|Â[\u00a0-\u00bf]|â€")
# Every byte above 0x7f as Windows-1252 reads it, or Latin-1 where that has no sign.
SIGNS = {bytes([code]).decode("cp1252", "ignore") or chr(code): code for code in range(0x80, 0x100)}
SIGNS |= {chr(code): code for code in range(0x80, 0xA0)}


def _class(first: int, last: int) -> str:
    return f"[{''.join(re.escape(sign) for sign, code in SIGNS.items() if first <= code <= last)}]"


# The bytes of one character: a leading one, and as many of those that follow as it asks for.
LATER = _class(0x80, 0xBF)
CHARACTER = re.compile(
    f"{_class(0xC2, 0xDF)}{LATER}|{_class(0xE0, 0xEF)}{LATER}{{2}}|{_class(0xF0, 0xF4)}{LATER}{{3}}"
)


def repair(text: str) -> tuple[str, int]:
    """Replace each lone surrogate by U+FFFD, one for one so that offsets still hold, and count them."""
    if text.isascii():
        return text, 0
    return SURROGATE.subn(REPLACEMENT, text)


def garbled(text: str) -> str | None:
    """Return the first signs of a text that look like UTF-8 read in another encoding, such as `Ã¤`."""
    found = None if text.isascii() else GARBLED.search(text)
    return found[0] if found else None


def ungarble(text: str) -> str:
    """Return a text in which signs that are UTF-8 read as Windows-1252 or Latin-1 are the characters that they were."""
    return CHARACTER.sub(_decoded, text)


def _decoded(signs: re.Match[str]) -> str:
    try:
        return bytes(SIGNS[sign] for sign in signs[0]).decode()
    except UnicodeDecodeError:  # an overlong form, or half of a surrogate pair
        return signs[0]


if __name__ == "__main__":
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(
            ungarble(line.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        )
