"""Where sentences end, by rule; good on English and Swedish prose."""

import re

# A full stop after one of these doesn't end a sentence, unless a line ends with it.
ABBREVIATIONS = frozenset(
    # English
    "mr mrs ms dr prof rev gen col lt sgt capt gov sen rep st mt jr sr vs etc no vol fig eq ch sec pp ed eds al e.g i.e cf viz "
    "approx jan feb mar apr jun jul aug sep sept oct nov dec a.m p.m u.s u.k inc ltd co corp dept univ "
    # Swedish
    "bl.a t.ex m.fl m.m o.s.v osv d.v.s dvs s.k f.d f.n t.o.m fr.o.m ev ca kl nr st tel resp jfr enl bla tex mfl mm sk fd kap prop "
    "f.kr e.kr t.v p.g.a pga i.st.f o.d dyl".split()
)
# A mark, what closes with it, white space, and something that can begin a sentence.
# Possessive and looked behind, so that no run of marks or spaces is read twice.
OPENING = r"[\"'“‘”’«»(\[¿¡–—-]*+\s?+"
END = re.compile(
    rf"(?<![.!?…])(?P<mark>[.!?…]++)[\"'”’»)\]]*+(?=\s++{OPENING}(?:\d|[^\W\d_a-zà-öø-ÿ]))|\n"
)
WORD_BEFORE = re.compile(r"[^\s\"'“”‘’«»(\[]*$")
LONGEST_WORD = 40  # characters that are looked back over for an abbreviation


def sentences(text: str) -> list[tuple[int, int]]:
    """The first and last character of each sentence, white space around it left out."""
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
    """Whether a mark belongs to an abbreviation, an initial, a numbered heading or an ellipsis inside a sentence."""
    if match["mark"] != ".":
        return False
    stop = match.start()
    word = WORD_BEFORE.search(text[max(0, stop - LONGEST_WORD) : stop])
    before = word[0] if word else ""
    initial = len(before) == 1 and before.isalpha() and before.isupper() and before != "I"
    chain = re.fullmatch(r"(?:[^\W\d_]\.)+[^\W\d_]", before) is not None
    numbered = (
        before.isdigit()
        and len(before) <= 2
        and (stop == len(before) or text[stop - len(before) - 1] == "\n")
    )
    return initial or numbered or chain or before.lower() in ABBREVIATIONS


def _add(found: list[tuple[int, int]], text: str, start: int, stop: int) -> None:
    while start < stop and text[start].isspace():
        start += 1
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    if start < stop:
        found.append((start, stop))
