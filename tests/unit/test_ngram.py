"""The n-gram model: every probability is that of the formulas, however the text is cut, carried over or kept on disk."""

import gzip
import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from firth.base.errors import InputError
from firth.models.counts import NGramCounts, NGramSettings, Sentences, count, merge
from firth.models.ngram import FALLBACK, NGram, estimate
from firth.samples.library import documents
from firth.samples.texts import MONEY, RIVER, TEXTS
from firth.samples.tickets import tickets

START, END = "<s>", "</s>"
Texts = list[list[str]]
Arrays = dict[str, np.ndarray[Any, Any]]


def words(text: str) -> list[str]:
    return [*re.findall(r"\w+|[^\w\s]", text.lower()), END]


LINES = [
    *(ticket.text for ticket in tickets()),
    *RIVER,
    *MONEY,
    *(line for lines in TEXTS.values() for line in lines),
]
LINES += [paragraph for document in islice(documents(), 3) for paragraph in document]
TEXT = [words(part) for line in LINES for part in re.split(r"(?<=[.?!;:]) ", line)]
TRAIN = [sentence for number, sentence in enumerate(TEXT) if number % 8]
HELD_OUT = [sentence for number, sentence in enumerate(TEXT) if not number % 8]
VOCABULARY = sorted({word for sentence in TEXT for word in sentence})
IDS = {word: number for number, word in enumerate(VOCABULARY)}


def settings(order: int, **changes: int | None) -> NGramSettings:
    return NGramSettings(
        **({"vocab": len(IDS), "order": order, "start": len(IDS), "end": IDS[END]} | changes)
    )


def rows(sentences: Texts, ids: dict[str, int] = IDS) -> Sentences:
    lengths = np.array([len(sentence) for sentence in sentences], np.int64)
    return Sentences(
        np.array([ids[word] for sentence in sentences for word in sentence], np.int64), lengths
    )


def tensors(sentences: Texts, ids: dict[str, int] = IDS) -> tuple[Tensor, Tensor]:
    made = rows(sentences, ids)
    return torch.from_numpy(made.ids), torch.from_numpy(made.lengths)


@cache
def fitted(order: int) -> NGram:
    return NGram.fit([rows(TRAIN)], settings(order))


def same(a: Arrays, b: Arrays) -> bool:
    return a.keys() == b.keys() and all(
        a[name].dtype == b[name].dtype and np.array_equal(a[name], b[name]) for name in a
    )


class Slow:
    """The formulas of Chen and Goodman, word for word, over dictionaries."""

    def __init__(self, sentences: Texts, order: int, vocabulary: list[str]) -> None:
        self.order, self.vocabulary = order, vocabulary
        seen: list[Counter[tuple[str, ...]]] = [Counter() for _ in range(order + 1)]
        for sentence in sentences:
            marked = [START, *sentence]
            for last in range(1, len(marked)):
                for n in range(1, min(order, last + 1) + 1):
                    seen[n][tuple(marked[last - n + 1 : last + 1])] += 1
        self.follow: dict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
        self.discounts = [FALLBACK]
        for n in range(1, order + 1):
            before = defaultdict(set)
            for gram in seen[n + 1] if n < order else ():
                before[gram[1:]].add(gram[0])
            times = {
                gram: c if n == order or gram[0] == START else len(before[gram])
                for gram, c in seen[n].items()
            }
            for gram, c in times.items():
                self.follow[gram[:-1]][gram[-1]] = c
            self.discounts.append(self.estimated(Counter(times.values())))
        self.sums = {
            context: (sum(counts.values()), Counter(min(c, 3) for c in counts.values()))
            for context, counts in self.follow.items()
        }

    @staticmethod
    def estimated(n: Counter[int]) -> tuple[float, ...]:
        if not (n[1] and n[2] and n[3] and n[4]):
            return FALLBACK
        y = n[1] / (n[1] + 2 * n[2])
        found = 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]
        return found if min(found) > 0 else FALLBACK

    def chance(self, word: str, context: tuple[str, ...]) -> float:
        context = context[max(0, len(context) - self.order + 1) :]
        shorter = self.chance(word, context[1:]) if context else 1 / len(self.vocabulary)
        if context not in self.follow:
            return shorter
        discount, own = (0.0, *self.discounts[len(context) + 1]), self.follow[context].get(word, 0)
        total, n = self.sums[context]
        left = (discount[1] * n[1] + discount[2] * n[2] + discount[3] * n[3]) / total
        return (own - discount[min(own, 3)]) / total + left * shorter


def test_the_text_is_large_enough_to_tell_its_discounts() -> None:
    assert len(TEXT) >= 200
    assert FALLBACK not in map(tuple, fitted(3).discounts)
    assert tuple(fitted(20).discounts[19]) == FALLBACK


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6])
def test_every_probability_is_that_of_the_formulas(order: int) -> None:
    model, slow = fitted(order), Slow(TRAIN, order, VOCABULARY)
    assert model.discounts == pytest.approx(np.array(slow.discounts[1:]), abs=1e-14)
    found, _ = model.score(*tensors(TRAIN + HELD_OUT))
    expected = [slow.chance(s[i], (START, *s[:i])) for s in TRAIN + HELD_OUT for i in range(len(s))]
    assert np.exp(found.numpy()) == pytest.approx(np.array(expected), rel=1e-12, abs=1e-12)
    assert found.numpy() == pytest.approx(np.log(expected), abs=1e-12)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_step_gives_every_word_its_probability(order: int) -> None:
    model, slow = fitted(order), Slow(TRAIN, order, VOCABULARY)
    contexts = [["the"], ["my", "copper", "kettle"], ["kettle", "kettle", "the"], ["you"]]
    for context in contexts:
        _, state = model.score(*tensors([context[:-1]]), model.start(1))
        scores, _ = model.step(torch.tensor([IDS[context[-1]]]), state)
        expected = [slow.chance(word, (START, *context)) for word in VOCABULARY]
        assert scores[0].exp().numpy() == pytest.approx(np.array(expected), abs=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 5, 6])
def test_the_next_words_add_up_to_one(order: int, seed: int) -> None:
    """After every context of the text, seen and held out, and after words drawn at random."""
    model, draw = fitted(order), np.random.default_rng(seed)
    longest = max(map(len, HELD_OUT + TRAIN))
    real = [
        [IDS[word] for word in (sentence * longest)[:longest]] for sentence in HELD_OUT + TRAIN[:20]
    ]
    made = draw.integers(0, len(IDS), (20, longest)).tolist()
    grid = torch.tensor(real + made)
    state = model.start(len(grid))
    for column in (torch.full((len(grid),), len(IDS)), *grid.T[:12]):
        scores, state = model.step(column, state)
        assert scores.shape == (len(grid), len(IDS))
        assert (scores.exp().sum(1) - 1).abs().max() < 1e-9
        assert scores.isfinite().all()


WORDS = st.lists(st.sampled_from("a b c d".split()), max_size=7).map(
    lambda sentence: [*sentence, END]
)
FEW = {"a": 0, "b": 1, "c": 2, "d": 3, END: 4, START: 5}


def few(order: int) -> NGramSettings:
    return NGramSettings(vocab=5, order=order, start=5, end=4)


@given(
    st.lists(WORDS, max_size=30),
    st.lists(st.integers(0, 30), max_size=4),
    st.integers(1, 9),
    st.randoms(),
)
def test_shards_merged_are_the_whole(
    sentences: Texts, cuts: list[int], order: int, chance: Any
) -> None:
    bounds = [0, *sorted(cuts), len(sentences)]
    shards = [rows(sentences[a:b], FEW) for a, b in pairwise(bounds)]
    whole = count(rows(sentences, FEW), few(order))
    parts = [NGramCounts.of(count(shard, few(order)).arrays()) for shard in shards]
    chance.shuffle(parts)
    assert same(merge(parts).arrays(), whole.arrays())
    assert same(merge([merge(parts[:2]), *parts[2:]]).arrays(), whole.arrays())
    assert same(NGram.fit(shards, few(order)).arrays(), estimate(whole).arrays())


@given(st.lists(WORDS, max_size=30), st.lists(WORDS, max_size=5), st.integers(1, 9))
def test_any_text_gives_the_probabilities_of_the_formulas(
    train: Texts, test: Texts, order: int
) -> None:
    model, slow = NGram.fit([rows(train, FEW)], few(order)), Slow(train, order, [*"abcd", END])
    found, _ = model.score(*tensors(test, FEW))
    expected = [slow.chance(s[i], (START, *s[:i])) for s in test for i in range(len(s))]
    assert found.exp().tolist() == pytest.approx(expected, abs=1e-12)
    state, read = model.start(1), 5
    for word in [0, 1, 1, 4, 2]:
        scores, state = model.step(torch.tensor([read]), state)
        assert scores.exp().sum().item() == pytest.approx(1, abs=1e-12)
        read = word


@given(st.lists(WORDS, min_size=1, max_size=12), st.integers(1, 6))
def test_sentences_in_one_row_count_as_sentences_apart(sentences: Texts, order: int) -> None:
    apart = rows(sentences, FEW)
    together = Sentences(apart.ids.astype(np.uint16), np.array([0, len(apart.ids), 0], np.uint8))
    assert same(count(apart, few(order)).arrays(), count(together, few(order)).arrays())


def test_a_row_knows_nothing_of_the_row_before() -> None:
    """Rows may end inside a sentence, without an end mark."""
    model = fitted(4)
    parts = [["my", "copper"], ["kettle"], ["the", "kettle", "the"]]
    together, state = model.score(*tensors(parts))
    apart = [model.score(*tensors([part])) for part in parts]
    assert together.equal(torch.cat([scores for scores, _ in apart]))
    assert state.places.tolist() == [row for _, one in apart for row in one.places.tolist()]
    whole, _ = model.score(*tensors([["my", "copper", "kettle"]]))
    assert whole[2] > together[2] + 1  # after the other row's words it would be likelier by far


def test_rows_are_counted_apart() -> None:
    parts = [["a", "b"], ["c", "d"], ["a", "b", END], ["c"]]
    together = count(rows(parts, FEW), few(3))
    apart = merge([count(rows([part], FEW), few(3)) for part in parts])
    assert same(together.arrays(), apart.arrays())


def test_without_text_all_words_are_alike() -> None:
    for model in (NGram.fit([], few(3)), NGram.fit([rows([], FEW), rows([[]], FEW)], few(3))):
        scores, state = model.score(*tensors([["a", "b", END], []], FEW))
        assert scores.exp().tolist() == pytest.approx([0.2] * 3)
        assert model.score(*tensors([[], []], FEW), state)[0].tolist() == []
        assert [(one.order, one.parts) for one in model.explain(torch.tensor([0]))] == [
            (0, (0.2, 0, 0, 0))
        ]


def test_one_sentence_by_hand() -> None:
    """Bigrams of `a b </s>`: each follows once, so that half of its count is freed for what stands alone."""
    model = NGram.fit([rows([["a", "b", END]], FEW)], few(2))
    alone = 0.5 / 3 + 0.5 / 5
    found, _ = model.score(*tensors([["a", "b", END], ["c"]], FEW))
    assert found.exp().tolist() == pytest.approx([0.5 + 0.5 * alone] * 3 + [0.5 * 0.5 / 5])


def test_an_order_beyond_every_sentence_adds_nothing() -> None:
    short = [sentence for sentence in TRAIN if len(sentence) < 9]
    right, beyond = (NGram.fit([rows(short)], settings(order)) for order in (9, 11))
    assert [len(keys) for keys in beyond.counts.keys[-3:]] == [len(right.counts.keys[-1]), 0, 0]
    text = tensors(HELD_OUT)
    assert right.score(*text)[0].equal(beyond.score(*text)[0])
    assert NGram.of(beyond.arrays()).score(*text)[0].equal(beyond.score(*text)[0])


def test_after_what_was_never_seen_words_stand_alone() -> None:
    model, slow = fitted(4), Slow(TRAIN, 4, VOCABULARY)
    first, second = sorted(set(VOCABULARY) - {word for sentence in TRAIN for word in sentence})[:2]
    scores, state = model.step(torch.tensor([IDS[first], IDS[second]]), model.start(2))
    assert state.places[:, 2:].tolist() == [[-1, -1], [-1, -1]]
    assert scores[0].equal(scores[1])
    assert scores[0].exp().numpy() == pytest.approx(
        np.array([slow.chance(word, ()) for word in VOCABULARY]), abs=1e-12
    )


def test_longer_contexts_and_more_of_the_same_make_a_text_likelier() -> None:
    text = tensors(TRAIN)
    means = [fitted(order).score(*text)[0].mean().item() for order in range(1, 6)]
    assert means == sorted(means)
    scores = [NGram.fit([rows(TRAIN + HELD_OUT[:1] * times)], settings(3)) for times in (0, 1, 5)]
    sums = [model.score(*tensors(HELD_OUT[:1]))[0].sum().item() for model in scores]
    assert sums[0] < sums[1] < sums[2]


def test_the_start_mark_is_never_predicted() -> None:
    """A mark inside the vocabulary gives the same model as one outside, and no probability to itself."""
    ids = {START: 0} | {word: number + 1 for word, number in IDS.items()}
    inside = NGram.fit([rows(TRAIN, ids)], settings(3, vocab=len(ids), start=0, end=ids[END]))
    text = tensors(HELD_OUT, ids)
    assert inside.score(*text)[0].equal(fitted(3).score(*tensors(HELD_OUT))[0])
    first, _ = inside.step(torch.tensor([0]), inside.start(1))
    assert first[0, 0] == -math.inf
    assert first.exp().sum().item() == pytest.approx(1, abs=1e-12)
    assert first[0, 1:].equal(fitted(3).step(torch.tensor([len(IDS)]), fitted(3).start(1))[0][0])
    assert inside.score(torch.tensor([0]), torch.tensor([1]))[0].item() == -math.inf
    with pytest.raises(InputError, match="start mark"):
        count(Sentences(np.array([3, 0, 4]), np.array([3])), inside.settings)
    for name, index, value in (
        ("times.1", 0, 1),
        ("keys.2", 0, 0),
        ("keys.2", -1, (len(ids) + 1) ** 2 - 1),
    ):
        with pytest.raises(InputError, match="predicts its start mark"):
            NGram.of(changed(name, put(index, value))(inside.arrays()))


def test_discounts_are_never_negative() -> None:
    """Of one word seen once, one twice, five thrice and one four times, the formula would add three to counts of two."""
    times = [1, 2, 3, 3, 3, 3, 3, 4]
    ids = np.repeat(np.arange(8), times)
    model = NGram.fit(
        [Sentences(ids, np.array([len(ids)]))], NGramSettings(vocab=9, order=1, start=9)
    )
    assert tuple(model.discounts[0]) == FALLBACK == Slow.estimated(Counter(times))
    assert model.step(torch.tensor([9]), model.start(1))[0].exp()[0, 1].item() == pytest.approx(
        (2 - 1) / 22 + 10.5 / 22 / 9
    )


def test_backing_off_is_shown_for_each_word() -> None:
    model = fitted(3)
    unseen = min(set(VOCABULARY) - {word for sentence in TRAIN for word in sentence})
    ids, _ = tensors([["the", "copper", "kettle", unseen, END]])
    shown = model.explain(ids)
    assert [one.score for one in shown] == model.score(ids, torch.tensor([len(ids)]))[0].tolist()
    assert [one.order for one in shown] == [2, 3, 3, 0, 1]
    for one in shown:
        assert len(one.parts) == 4
        assert sum(one.parts) == pytest.approx(math.exp(one.score), rel=1e-12)
        assert all(part == 0 for part in one.parts[one.order + 1 :])
        assert one.order == 0 or one.parts[one.order] > 0


def test_a_model_is_what_its_arrays_hold(tmp_path: Path) -> None:
    model = fitted(4)
    np.savez(tmp_path / "model.npz", **model.arrays())
    with np.load(tmp_path / "model.npz", allow_pickle=False) as kept:
        again = NGram.of(kept)
    assert same(again.arrays(), model.arrays())
    assert again.settings == model.settings
    text = tensors(HELD_OUT)
    assert again.score(*text)[0].equal(model.score(*text)[0])
    assert {array.dtype.kind for name, array in model.arrays().items() if name != "discounts"} == {
        "i"
    }


def changed(name: str, change: Callable[[Any], Any]) -> Callable[[Arrays], Arrays]:
    def damage(arrays: Arrays) -> Arrays:
        return arrays | {name: change(arrays[name].copy())}

    return damage


def put(index: Any, value: Any) -> Callable[[Any], Any]:
    def change(array: Any) -> Any:
        array[index] = value
        return array

    return change


DAMAGE: dict[str, Callable[[Arrays], Arrays]] = {
    "nothing at all": lambda arrays: {},
    "an order missing": lambda arrays: {
        name: array for name, array in arrays.items() if name != "keys.3"
    },
    "an order too many": lambda arrays: arrays | {"keys.4": arrays["keys.3"]},
    "no discounts": lambda arrays: {
        name: array for name, array in arrays.items() if name != "discounts"
    },
    "float sizes": changed("sizes", lambda a: a.astype(float)),
    "three sizes": changed("sizes", lambda a: a[:3]),
    "no vocabulary": changed("sizes", put(0, 0)),
    "another vocabulary": changed("sizes", put(0, 7)),
    "an endless order": changed("sizes", put(1, 1 << 40)),
    "a start mark beyond": changed("sizes", put(2, 1 << 20)),
    "a negative end mark": changed("sizes", put(3, -2)),
    "the same marks": changed("sizes", lambda a: put(2, a[3])(a)),
    "a start mark that is a word": changed("sizes", put(2, 0)),
    "float keys": changed("keys.2", lambda a: a.astype(float)),
    "narrow keys": changed("keys.2", lambda a: a.astype(np.int32)),
    "swapped bytes": changed("keys.2", lambda a: a.astype(">i8")),
    "square keys": changed("keys.2", lambda a: a[:, None]),
    "fewer keys": changed("keys.2", lambda a: a[:-1]),
    "unsorted keys": changed("keys.2", lambda a: a[::-1]),
    "a key twice": changed("keys.3", lambda a: put(1, a[0])(a)),
    "a negative key": changed("keys.2", put(0, -1)),
    "the least key": changed("keys.2", put(0, np.iinfo(np.int64).min)),
    "a key beyond": changed("keys.3", put(-1, np.iinfo(np.int64).max)),
    "a key of the start mark": changed("keys.2", put(-1, (len(IDS) + 1) ** 2 - 1)),
    "keys without contexts": lambda arrays: (
        arrays | {"keys.2": arrays["keys.2"][:0], "times.2": arrays["times.2"][:0]}
    ),
    "float counts": changed("times.2", lambda a: a.astype(float)),
    "no count": changed("times.2", put(0, 0)),
    "a negative count": changed("times.3", put(0, -1)),
    "a count too large": changed("times.3", lambda a: put(0, 1 << 60)(a.astype(np.int64))),
    "fewer words": changed("times.1", lambda a: a[:-1]),
    "a negative word": changed("times.1", put(0, -1)),
    "float words": changed("times.1", lambda a: a.astype(np.float32)),
    "a start mark counted": changed("times.1", put(-1, 1)),
    "short discounts": changed("discounts", lambda a: a.astype(np.float32)),
    "two discounts": changed("discounts", lambda a: a[:, :2]),
    "a discount of NaN": changed("discounts", put((1, 1), math.nan)),
    "a negative discount": changed("discounts", put((1, 1), -0.1)),
    "no discount": changed("discounts", put((0, 0), 0)),
    "a discount above its count": changed("discounts", put((2, 0), 1.1)),
    "an infinite discount": changed("discounts", put((2, 2), math.inf)),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_arrays_that_do_not_fit_are_refused(kind: str) -> None:
    arrays = fitted(3).arrays()
    with pytest.raises(InputError):
        NGram.of(DAMAGE[kind](arrays))


def test_counts_grow_beyond_four_bytes() -> None:
    kept = count(rows(TRAIN), settings(2)).arrays()
    assert kept["times.2"].dtype == np.int32
    many = NGramCounts.of(
        kept
        | {
            name: np.where(kept[name] > 0, 2**31 - 1, 0).astype(np.int32)
            for name in ("times.1", "times.2")
        }
    )
    assert [set(times.tolist()) for times in merge([many, many]).times] == [
        {0, 2**32 - 2},
        {2**32 - 2},
    ]


def test_counts_that_contradict_themselves_are_refused() -> None:
    kept = count(rows(TRAIN), settings(3)).arrays()
    with pytest.raises(InputError, match="'discounts'"):
        NGramCounts.of(fitted(3).arrays())
    with pytest.raises(InputError, match="discounts"):
        NGram.of(kept)
    last = NGramCounts.of(kept | {"keys.3": kept["keys.3"][-1:], "times.3": kept["times.3"][-1:]})
    with pytest.raises(InputError, match="nothing comes before"):
        estimate(last)
    lone = NGramCounts.of(
        NGram.fit([], settings(3)).counts.arrays()
        | {
            "keys.2": np.array([1]),
            "times.2": np.array([1]),
            "keys.3": np.array([2]),
            "times.3": np.array([1]),
        }
    )
    with pytest.raises(InputError, match="never counted"):
        estimate(lone)
    with pytest.raises(InputError, match="merged"):
        merge([count(rows(TRAIN), settings(3)), count(rows(TRAIN), settings(2))])
    with pytest.raises(InputError, match="merged"):
        merge([])


@pytest.mark.parametrize(
    ("ids", "lengths", "reason"),
    [
        ([1, 9], [2], "id 9"),
        ([-1], [1], "id -1"),
        ([1, 2], [1], "add up"),
        ([1, 2], [3, -1], "add up"),
        ([0.5], [1], "whole"),
        ([[1]], [1], "flat"),
    ],
)
def test_rows_that_do_not_fit_are_refused(ids: list[Any], lengths: list[int], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        count(Sentences(np.array(ids), np.array(lengths)), few(2))
    with pytest.raises(InputError, match=reason):
        NGram.fit([], few(2)).score(torch.tensor(ids), torch.tensor(lengths))


def test_a_state_of_other_rows_is_refused() -> None:
    with pytest.raises(InputError, match="2 rows"):
        fitted(2).step(torch.tensor([0]), fitted(2).start(2))


@pytest.mark.parametrize(
    "changes",
    [
        {"start": 99_999},
        {"end": 99_999},
        {"start": IDS[END]},
        {"vocab": 1, "start": 0, "end": None},
        {"order": 0},
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, int | None]) -> None:
    with pytest.raises(ValidationError):
        settings(**({"order": 2} | changes))


DATA = os.environ.get("FIRTH_DATA")


@pytest.mark.skipif(not DATA, reason="FIRTH_DATA names no folder of data sets")
def test_the_published_perplexity_of_the_penn_treebank(seed: int) -> None:
    """Mikolov et al., "Empirical Evaluation and Combination of Advanced Language Modeling Techniques", 2011: 141.2."""
    text: dict[str, Texts] = {}
    for part in ("train", "test"):
        with gzip.open(Path(DATA or "") / f"ptb/{part}.txt.gz", "rt", encoding="utf-8") as file:
            text[part] = [[*line.split(), END] for line in file]
    ids = {
        word: number
        for number, word in enumerate(sorted({word for line in text["train"] for word in line}))
    }
    half = len(text["train"]) // 2
    shards = [rows(text["train"][:half], ids), rows(text["train"][half:], ids)]
    model = NGram.fit(shards, NGramSettings(vocab=len(ids), order=5, start=len(ids), end=ids[END]))
    scores, _ = model.score(*tensors(text["test"], ids))
    perplexity = math.exp(-scores.mean().item())
    print(f"{model.counts.size} n-grams, perplexity {perplexity:.2f} over {len(scores)} tokens")
    assert (len(ids), len(scores)) == (10_000, 82_430)
    assert perplexity == pytest.approx(141.2, abs=0.1)
    draw = np.random.default_rng(seed)
    sentences = [text["test"][number] for number in draw.integers(0, len(text["test"]), 40)] + [
        ["the", "the", "zoo"]
    ]
    _, state = model.score(*tensors([sentence[:-1] for sentence in sentences], ids))
    following, _ = model.step(torch.from_numpy(draw.integers(0, len(ids), len(sentences))), state)
    assert (following.exp().sum(1) - 1).abs().max() < 1e-9
