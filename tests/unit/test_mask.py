"""MaskedText words: how many, which, and what stands in their place, over a million tokens of real text."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firth.base.errors import InputError
from firth.base.seeds import Purpose, generator
from firth.corpus.mask import MaskedText, Masker
from firth.corpus.shards import WORD
from firth.text.tokenizer import Tokenizer
from tests.parity.test_bert import PIECES
from tests.unit.corpora import Made, make, topics, vocabulary

TOKENS = 1_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("text"), topics(), vocabulary())


class Tally:
    """What was hidden, and what took its place."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.special = np.array(
            sorted({tokenizer.cls, tokenizer.sep, tokenizer.mask, tokenizer.pad, tokenizer.unk})
        )
        self.mask = tokenizer.mask
        self.tokens = self.hidden = self.masked = self.kept = self.changed = 0

    def add(self, before: np.ndarray, after: MaskedText) -> None:
        """Count one text, and check that nothing but the hidden places was touched."""
        shown = after.ids[after.places]
        assert (before[after.places] == after.words).all()
        assert not np.isin(after.words, self.special).any()
        assert not np.isin(shown, self.special[self.special != self.mask]).any()
        assert (np.diff(after.places) > 0).all()
        rest = np.ones(len(before), bool)
        rest[after.places] = False
        assert (after.ids[rest] == before[rest]).all()
        self.tokens += int((~np.isin(before, self.special)).sum())
        self.hidden += len(after.places)
        self.masked += int((shown == self.mask).sum())
        self.kept += int((shown == after.words).sum())
        self.changed += int(((shown != self.mask) & (shown != after.words)).sum())

    def check(self) -> None:
        """Hold the shares to what is promised."""
        assert self.tokens >= TOKENS
        assert 100 * self.hidden / self.tokens == pytest.approx(15, abs=0.1)
        assert 100 * self.masked / self.hidden == pytest.approx(80, abs=0.5)
        assert 100 * self.changed / self.hidden == pytest.approx(10, abs=0.5)
        assert 100 * self.kept / self.hidden == pytest.approx(10, abs=0.5)


@pytest.mark.parametrize("whole", [False, True], ids=["pieces", "words"])
def test_the_shares_over_a_million_tokens(made: Made, whole: bool, seed: int) -> None:
    masker, tally = Masker(made.tokenizer, whole), Tally(made.tokenizer)
    (shard,) = made.shards.shards
    ids, starts = np.asarray(shard.ids, np.int64), (np.asarray(shard.marks) & WORD) > 0
    sep, edge = np.array([made.tokenizer.sep]), np.array([True])
    for epoch in range(-(-TOKENS // (made.shards.tokens - made.shards.unknown))):
        for number in range(len(made.where.size)):
            place = slice(
                made.where.start[number], made.where.start[number] + made.where.size[number]
            )
            text, begins = (
                np.concatenate([sep, ids[place], sep]),
                np.concatenate([edge, starts[place], edge]),
            )
            hidden = masker.hide(text, begins, generator(Purpose.PAIR, seed, epoch, number))
            tally.add(text, hidden)
            if whole:
                word = np.cumsum(begins)
                assert not np.isin(np.delete(word, hidden.places), word[hidden.places]).any()
    tally.check()


def test_whole_words_of_many_pieces_are_hidden_often_enough(tmp_path: Path) -> None:
    """Where a word is longer than all that may be hidden of a text, it is hidden seldom rather than never."""
    tokenizer = Tokenizer.train(["a b c d e f g h"] * 9, size=64)
    ids = np.array(tokenizer.encode(["abcdefgh abcdefgh"], special=False)[0].ids)
    assert len(ids) == 16
    starts = np.arange(16) % 8 == 0
    masker = Masker(tokenizer, whole=True)
    sizes = [len(masker.hide(ids, starts, np.random.default_rng(n)).places) for n in range(4000)]
    assert set(sizes) == {0, 8}
    assert np.mean(sizes) / 16 == pytest.approx(0.15, abs=0.015)


@given(
    st.lists(st.tuples(st.integers(0, len(PIECES) - 1), st.booleans()), max_size=60),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_any_text_keeps_its_special_tokens_and_its_words(
    tokens: list[tuple[int, bool]], whole: bool, number: int
) -> None:
    tokenizer = Tokenizer.train(["abcdefghijklmnopqrstuvwxyz"] * 3, size=80)
    ids = np.array([i for i, _ in tokens], np.int64)
    starts = np.array([begins for _, begins in tokens], bool)
    before = ids.copy()
    hidden = Masker(tokenizer, whole).hide(ids, starts, np.random.default_rng(number))
    assert (ids == before).all()
    special = np.isin(ids, list(range(5)))
    assert not special[hidden.places].any()
    if not whole:
        assert abs(len(hidden.places) - 0.15 * (~special).sum()) < 1


def test_a_text_of_special_tokens_hides_nothing() -> None:
    tokenizer = vocabulary()
    ids = np.array([tokenizer.cls, tokenizer.sep, tokenizer.unk, tokenizer.sep])
    for whole in (False, True):
        hidden = Masker(tokenizer, whole).hide(ids, np.ones(4, bool), np.random.default_rng(0))
        assert hidden.ids.tolist() == ids.tolist()
        assert len(hidden.places) == len(hidden.words) == 0


def test_every_piece_may_take_the_place_of_another() -> None:
    tokenizer = Tokenizer.train(["the cat sat on the mat"] * 3, size=64)
    ids = np.full(20_000, tokenizer.id("c"))
    hidden = Masker(tokenizer).hide(ids, np.ones(len(ids), bool), np.random.default_rng(0))
    shown = set(hidden.ids.tolist())
    assert shown == set(range(tokenizer.size)) - {
        tokenizer.cls,
        tokenizer.sep,
        tokenizer.pad,
        tokenizer.unk,
    }


def test_a_vocabulary_without_a_mask_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n")
    with pytest.raises(InputError, match="no mask token"):
        Masker(Tokenizer.open(tmp_path))
