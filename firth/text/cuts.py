"""Long texts in pieces whose encodings, joined, are exactly the encoding of the whole.

The library's cost a character grows with the text, because what it keeps of each byte outgrows every cache; pieces keep it
level and let several threads share one text.
"""

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from tokenizers import AddedToken, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from firth.text.backend import LONGEST_WORD, steps
from firth.text.vocabulary import apart

LONG = 1 << 14  # characters from which a text is cut
PIECE = 1 << 13
# A run of these is one word for BERT's pre-tokenizer and for whitespace, and no normalizer below splits or drops one.
LETTERS = "0-9A-Za-zÀ-ÖØ-öø-ɏΑ-Ρα-ωА-яก-ฮぁ-ゖァ-ヺー가-힣"
KEPT = (
    LONGEST_WORD + 24
)  # characters of a run's either end: still a longer word than any model looks up
ACCENTS = "\u0300-\u036f"  # a normalizer that strips accents drops every one of these, whatever stands around it
BY_CHARACTER = {"BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"}
# Where a word always ends, cut before the sign: none of these composes with what stands before it, and none becomes a letter
# with what follows (as = does with a stroke through it).
SPACE = r" \t\n\r"
MARKS = r"!-/:;?@\[-`{-~‐-‧、-〃〈-】！，．：；？"
HAN = "一-鿿"
INNER_SPACE = r"(?<=\w)(?= \w)"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, with what brings offsets in it back to the whole; the middle of an endless word may be left out."""

    text: str
    start: int
    joints: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)  # characters left out before and at each joint

    def place(self, offset: int) -> int:
        """The place in the whole text of an offset in the piece."""
        if self.joints and (joint := bisect_left(self.joints, offset)):
            offset += self.missing[joint - 1]
        return offset + self.start

    def places(self, offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The places in the whole text of a list of offsets."""
        if self.joints:
            return [(self.place(first), self.place(last)) for first, last in offsets]
        return [(first + self.start, last + self.start) for first, last in offsets]


@dataclass(frozen=True, slots=True)
class Cutter:
    """Where a tokenizer lets a text be cut."""

    pattern: re.Pattern[str]
    whole: tuple[str, ...]  # added tokens that a cut may fall into
    runs: re.Pattern[str] | None  # of which the middle says nothing

    def pieces(self, text: str) -> Iterator[Piece]:
        """Cut a text into pieces of some PIECE characters, more where nothing may be cut."""
        start = 0
        while len(text) - start > PIECE:
            places = (match.start() for match in self.pattern.finditer(text, start + PIECE))
            cut = next((place for place in places if self._safe(text, place)), None)
            if cut is None:
                break
            yield self._piece(text[start:cut], start)
            start = cut
        yield self._piece(text[start:], start)

    def _safe(self, text: str, cut: int) -> bool:
        return all(
            text.find(token, max(0, cut - len(token) + 1), cut + len(token) - 1) < 0
            for token in self.whole
        )

    def _piece(self, text: str, start: int) -> Piece:
        """A word that is too long to be known stays one with its middle left out; so does a heap of accents to be dropped."""
        if not self.runs or len(text) <= 8 * KEPT:
            return Piece(text, start)
        kept, lost, last = [], [], 0
        for run in self.runs.finditer(text):
            kept.append(text[last : run.start() + KEPT])
            last = run.end() - KEPT
            lost.append(last - run.start() - KEPT)
        joints = list(accumulate(map(len, kept)))
        return Piece("".join([*kept, text[last:]]), start, joints, list(accumulate(lost)))


def cutter(backend: Backend) -> Cutter | None:
    """How texts may be cut for this tokenizer; nothing where that can't be known to be exact."""
    normal = [step for step in steps(spec(backend.normalizer)) if step["type"] != "Sequence"]
    first, *rest = [
        step for step in steps(spec(backend.pre_tokenizer)) if step["type"] != "Sequence"
    ] or [{"type": None}]
    added = list(backend.get_added_tokens_decoder().values())
    if any(step["type"] not in BY_CHARACTER for step in normal) or any(map(_binds, added)):
        return None
    if (
        first["type"] == "ByteLevel"
        and first["use_regex"]
        and not _prefixes(backend)
        and not normal
        and not rest
    ):
        missing = [
            sign
            for sign in pre_tokenizers.ByteLevel.alphabet()
            if backend.token_to_id(sign) is None
        ]
        return None if missing else Cutter(re.compile(INNER_SPACE), (), None)
    if first["type"] == "WhitespaceSplit" and rest == [spec(apart())]:
        rest = []  # it parts only what stands between white space, and no run of letters
    if rest or not isinstance(backend.model, models.WordPiece | models.WordLevel):
        return None
    strict = all(not (t.lstrip or t.normalized or t.single_word) for t in added)
    lettered = any(re.search(f"^[{LETTERS}]+$|[{ACCENTS}]", token.content) for token in added)
    runs = _runs(normal) if strict and not lettered and _longest(backend) <= LONGEST_WORD else None
    if first["type"] == "BertPreTokenizer" and strict:
        han = HAN if any(step.get("handle_chinese_chars") for step in normal) else ""
        pattern = re.compile(f"(?=[{SPACE}{MARKS}{han}])")
        return Cutter(pattern, tuple(token.content for token in added), runs)
    if first["type"] in ("BertPreTokenizer", "WhitespaceSplit"):
        # An added token may take the white space before it: then it must have all of it, so a letter stands before the cut.
        before = "" if strict else f"(?<=[{LETTERS}])"
        return Cutter(re.compile(f"{before}(?=[{SPACE}])"), (), runs)
    return None


def _runs(normal: list[dict[str, Any]]) -> re.Pattern[str]:
    """Runs of which only the ends matter to these normalizers; accents, where they are stripped before all else."""
    kinds = (LETTERS, ACCENTS) if normal and _strips(normal[0]) else (LETTERS,)
    return re.compile("|".join(f"[{signs}]{{{4 * KEPT},}}" for signs in kinds))


def _strips(step: dict[str, Any]) -> bool:
    """Whether a step is BERT's normalizer and strips accents, as it does by default where it brings texts to lower case."""
    return step["type"] == "BertNormalizer" and bool(
        step["lowercase" if step["strip_accents"] is None else "strip_accents"]
    )


def _binds(token: AddedToken) -> bool:
    """Whether an added token may reach over white space, or its normal form may."""
    return (
        token.rstrip
        or any(map(str.isspace, token.content))
        or (token.normalized and not token.content.isascii())
    )


def spec(part: Any) -> Any:
    """What the library writes of a normalizer, pre-tokenizer or post-processor."""
    return None if part is None else json.loads(part.__getstate__())


def _prefixes(backend: Backend) -> bool:
    """Whether a space is put before each text: then a piece's first space is mistaken for it."""
    parts = [*steps(spec(backend.pre_tokenizer)), *steps(spec(backend.post_processor))]
    return any(step.get("add_prefix_space") for step in parts)


def _longest(backend: Backend) -> int:
    """The length of the longest word that the model knows."""
    if isinstance(backend.model, models.WordPiece):
        return int(backend.model.max_input_chars_per_word)
    return max(map(len, backend.get_vocab(True)))
