"""Long texts cut into chunks whose encodings, joined, are exactly the encoding of the whole.

The library's cost a character grows with the text, because what it keeps of each byte outgrows
every cache; chunks keep it level and let several threads share one text.
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

from firth.text.backend import LONGEST_WORD, pipeline_steps
from firth.text.marks import Offsets
from firth.text.vocabulary import punctuation_apart

Step = dict[str, Any]  # of a normalizer, pre-tokenizer or post-processor, as the library writes it

LONG = 1 << 14  # characters from which a text is cut
CHUNK = 1 << 13
# A run of these is one word for BERT's pre-tokenizer and for whitespace, and no normalizer below
# splits or drops one.
LETTERS = "0-9A-Za-zÀ-ÖØ-öø-ɏΑ-Ρα-ωА-яก-ฮぁ-ゖァ-ヺー가-힣"
# Characters of a run's either end: still a longer word than any model looks up.
KEPT = LONGEST_WORD + 24
# A normalizer that strips accents drops every one of these, whatever stands around it.
ACCENTS = "\u0300-\u036f"
LETTERS_OR_ACCENTS = re.compile(f"^[{LETTERS}]+$|[{ACCENTS}]")
BY_CHARACTER = {"BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"}
# Where a word always ends, cut before the sign: none of these composes with what stands before it,
# and none becomes a letter with what follows (as = does with a stroke through it).
SPACE = r" \t\n\r"
MARKS = r"!-/:;?@\[-`{-~‐-‧、-〃〈-】！，．：；？"
HAN = "一-鿿"
INNER_SPACE = r"(?<=\w)(?= \w)"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a text, with what brings offsets in it back to the whole.

    The middle of an endless word may be left out.
    """

    text: str
    start: int
    joints: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)  # characters left out before and at each joint

    def offset_in_text(self, offset: int) -> int:
        """Return the offset in the whole text of an offset in the chunk."""
        joint = bisect_left(self.joints, offset)
        if joint:
            offset += self.missing[joint - 1]
        return offset + self.start

    def spans_in_text(self, spans: Offsets) -> Offsets:
        """Return the spans in the whole text of spans in the chunk."""
        # The common case is spelled out: this is called for every piece of a long text.
        start = self.start
        if not self.joints:
            return [(first + start, last + start) for first, last in spans]
        moved = self.offset_in_text
        return [(moved(first), moved(last)) for first, last in spans]


@dataclass(frozen=True, slots=True)
class Cutter:
    """The rule that says where a tokenizer lets a text be cut."""

    pattern: re.Pattern[str]
    whole: tuple[str, ...]  # added tokens that a cut may fall into
    runs: re.Pattern[str] | None  # of which the middle says nothing

    def chunks(self, text: str) -> Iterator[Chunk]:
        """Cut a text into chunks of some CHUNK characters, more where nothing may be cut."""
        start = 0
        while len(text) - start > CHUNK:
            cut = self._next_cut(text, start + CHUNK)
            if cut is None:
                break
            yield self._chunk(text[start:cut], start)
            start = cut
        yield self._chunk(text[start:], start)

    def _next_cut(self, text: str, begin: int) -> int | None:
        """Find the first place from `begin` on where the text may be cut."""
        for match in self.pattern.finditer(text, begin):
            if not self._is_inside_token(text, match.start()):
                return match.start()
        return None

    def _is_inside_token(self, text: str, cut: int) -> bool:
        """Return whether a cut would fall into an added token."""
        for token in self.whole:
            begin = max(0, cut - len(token) + 1)
            end = cut + len(token) - 1
            if text.find(token, begin, end) >= 0:
                return True
        return False

    def _chunk(self, text: str, start: int) -> Chunk:
        """Make a chunk, without the middle of a run that is too long to matter.

        A word that is too long to be known stays one; so does a heap of accents to be dropped.
        """
        if not self.runs or len(text) <= 8 * KEPT:
            return Chunk(text, start)
        kept = []
        lost = []
        last = 0
        for run in self.runs.finditer(text):
            kept.append(text[last : run.start() + KEPT])
            last = run.end() - KEPT
            lost.append(last - run.start() - KEPT)
        joints = list(accumulate(map(len, kept)))
        kept.append(text[last:])
        return Chunk("".join(kept), start, joints, list(accumulate(lost)))


def cutter(backend: Backend) -> Cutter | None:
    """Return how texts may be cut for this tokenizer; None where no cut is known to be exact."""
    normal = _plain_steps(backend.normalizer)
    added = list(backend.get_added_tokens_decoder().values())
    if any(step["type"] not in BY_CHARACTER for step in normal):
        return None
    if any(map(_binds, added)):
        return None
    first, *rest = _plain_steps(backend.pre_tokenizer) or [{"type": None}]

    if first["type"] == "ByteLevel" and first["use_regex"]:
        exact = not normal and not rest and not _adds_space(backend) and _has_all_bytes(backend)
        if exact:
            return Cutter(re.compile(INNER_SPACE), (), None)

    if first["type"] == "WhitespaceSplit" and rest == [spec(punctuation_apart())]:
        rest = []  # it splits only what stands between white space, and no run of letters
    if rest or not isinstance(backend.model, models.WordPiece | models.WordLevel):
        return None
    return _word_cutter(backend, first["type"], normal, added)


def _word_cutter(
    backend: Backend, split: str | None, normal: list[Step], added: list[AddedToken]
) -> Cutter | None:
    """Return how texts may be cut for a tokenizer that looks up or splits whole words."""
    strict = not any(map(_depends_on_context, added))
    runs = None
    if strict and not any(map(_has_letters, added)) and _longest_word(backend) <= LONGEST_WORD:
        runs = _runs(normal)

    if split == "BertPreTokenizer" and strict:
        apart = SPACE + MARKS
        if any(step.get("handle_chinese_chars") for step in normal):
            apart += HAN
        pattern = re.compile(f"(?=[{apart}])")
        return Cutter(pattern, tuple(token.content for token in added), runs)

    if split in ("BertPreTokenizer", "WhitespaceSplit"):
        # An added token may take the white space before it: then it must have all of it, so a
        # letter stands before the cut.
        before = "" if strict else f"(?<=[{LETTERS}])"
        pattern = re.compile(f"{before}(?=[{SPACE}])")
        return Cutter(pattern, (), runs)
    return None


def _plain_steps(part: Any) -> list[Step]:
    """Return the steps of a normalizer or pre-tokenizer in order, without the sequences' own."""
    return [step for step in pipeline_steps(spec(part)) if step["type"] != "Sequence"]


def _has_all_bytes(backend: Backend) -> bool:
    """Return whether every byte has a piece of its own, so that nothing is unknown."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return all(backend.token_to_id(sign) is not None for sign in alphabet)


def _runs(normal: list[Step]) -> re.Pattern[str]:
    """Return the pattern of runs of which only the ends matter to these normalizers.

    Accents are among them where they are stripped before all else.
    """
    kinds = [LETTERS]
    if normal and _strips_accents(normal[0]):
        kinds.append(ACCENTS)
    least = 4 * KEPT
    return re.compile("|".join(f"[{signs}]{{{least},}}" for signs in kinds))


def _strips_accents(step: Step) -> bool:
    """Return whether a step is BERT's normalizer and strips accents.

    By default it does so where it brings texts to lower case.
    """
    if step["type"] != "BertNormalizer":
        return False
    asked = step["strip_accents"]
    if asked is None:
        asked = step["lowercase"]
    return bool(asked)


def _binds(token: AddedToken) -> bool:
    """Return whether an added token, or its normal form, may reach over white space."""
    if token.rstrip or any(map(str.isspace, token.content)):
        return True
    return bool(token.normalized) and not token.content.isascii()


def _depends_on_context(token: AddedToken) -> bool:
    """Return whether an added token is found by more than its own characters."""
    return bool(token.lstrip or token.normalized or token.single_word)


def _has_letters(token: AddedToken) -> bool:
    """Return whether an added token could stand inside a run of letters or accents."""
    return LETTERS_OR_ACCENTS.search(token.content) is not None


def spec(part: Any) -> Any:
    """Return what the library writes of a normalizer, pre-tokenizer or post-processor."""
    if part is None:
        return None
    return json.loads(part.__getstate__())


def _adds_space(backend: Backend) -> bool:
    """Return whether a space is put before each text: a chunk's first space is mistaken for it."""
    parts = (backend.pre_tokenizer, backend.post_processor)
    return any(
        step.get("add_prefix_space") for part in parts for step in pipeline_steps(spec(part))
    )


def _longest_word(backend: Backend) -> int:
    """Return the length of the longest word that the model knows."""
    if isinstance(backend.model, models.WordPiece):
        return int(backend.model.max_input_chars_per_word)
    return max(map(len, backend.get_vocab(True)))
