"""Sentence ends by rule; good on English and Swedish prose."""

import re

# A full stop after one of these doesn't end a sentence, unless a line ends with it.
ABBREVIATIONS = frozenset(
    # English
    "mr mrs ms dr prof rev gen col lt sgt capt gov sen rep st mt jr sr vs etc no vol fig eq ch sec "
    "pp ed eds al e.g i.e cf viz approx jan feb mar apr jun jul aug sep sept oct nov dec a.m p.m "
    "u.s u.k inc ltd co corp dept univ "
    # Swedish
    "bl.a t.ex m.fl m.m o.s.v osv d.v.s dvs s.k f.d f.n t.o.m fr.o.m ev ca kl nr st tel resp jfr "
    "enl bla tex mfl mm sk fd kap prop f.kr e.kr t.v p.g.a pga i.st.f o.d dyl".split()
)
# A mark, what closes with it, white space, and something that can begin a sentence.
# Possessive and looked behind, so that no run of marks or spaces is read twice.
OPENING = r"[\"'“‘”’«»(\[¿¡–—-]*+\s?+"
END = re.compile(
    rf"(?<![.!?…])(?P<mark>[.!?…]++)[\"'”’»)\]]*+(?=\s++{OPENING}(?:\d|[^\W\d_a-zà-öø-ÿ]))|\n"
)
WORD_BEFORE = re.compile(r"[^\s\"'“”‘’«»(\[]*$")
LETTERS_WITH_POINTS = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")
LONGEST_WORD = 40  # characters that are looked back over for an abbreviation


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return the first character and the end of each sentence, without white space around it."""
    found: list[tuple[int, int]] = []
    start = 0
    for match in END.finditer(text):
        if match["mark"] and _goes_on(text, match):
            continue
        _add(found, text, start, match.end())
        start = match.end()
    _add(found, text, start, len(text))
    return found


def _goes_on(text: str, match: re.Match[str]) -> bool:
    """Return whether a sentence goes on after a full stop.

    It does after an abbreviation, an initial and the number of a heading.
    """
    if match["mark"] != ".":
        return False
    stop = match.start()
    before = text[max(0, stop - LONGEST_WORD) : stop]
    found = WORD_BEFORE.search(before)
    word = found[0] if found else ""
    if word.lower() in ABBREVIATIONS or LETTERS_WITH_POINTS.fullmatch(word):
        return True
    if len(word) == 1 and word.isalpha() and word.isupper():
        return word != "I"

    begin = stop - len(word)
    begins_line = begin == 0 or text[begin - 1] == "\n"
    return word.isdigit() and len(word) <= 2 and begins_line


def _add(found: list[tuple[int, int]], text: str, start: int, stop: int) -> None:
    """Add a span without the white space at its ends, unless nothing is left of it."""
    while start < stop and text[start].isspace():
        start += 1
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    if start < stop:
        found.append((start, stop))
