"""Rating and writing: figures are those of a model stepped through by hand, for texts of any length and in any company."""

import math
from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
import torch

import firth.evaluation.long_text
import firth.tasks.likelihood
from firth.base.errors import InputError
from firth.evaluation.long_text import line_likelihoods
from firth.folders.bundle import Bundle
from firth.metrics.perplexity import BANDS, Perplexity, ScoredLine, perplexity
from firth.models.counts import NGramSettings, Sentences
from firth.models.gpt import Gpt
from firth.models.ngram import NGram
from firth.predictor import Predictor
from firth.tasks.likelihood import Likelihood
from firth.text.tokenizer import Tokenizer
from tests.unit.speakers import CARRYING, HELD_OUT, LENGTH, NAMES, TRAIN, bundle, tokenizer

SHORT = ["The value of the expression", "a class", "", "Traceback (most recent call last)"]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _threads() -> None:
    torch.set_num_threads(1)


def predictor(name: str) -> Predictor:
    return Predictor(bundle(name), 1)


def stepped(found: Bundle, ids: list[int]) -> list[float]:
    """The log-probability of each token by single steps from the start mark."""
    model = found.language
    state, read, scores = model.start(1), model.settings.start, []
    for token in ids:
        with torch.inference_mode():
            every, state = model.step(torch.tensor([read]), state)  # type: ignore[arg-type]
        scores.append(float(every[0, token]))
        read = token
    return scores


def ids_of(found: Bundle, text: str) -> list[int]:
    return found.tokenizer.encode([text], special=False)[0].ids


def scores_of(rated: Likelihood) -> list[float]:
    return [piece.score for piece in rated.pieces]


def test_a_rating_is_that_of_the_model_stepped_through(name: str) -> None:
    found = bundle(name)
    for text, rated in zip(SHORT, predictor(name).score(SHORT), strict=True):
        ids, first = ids_of(found, text), found.language.opening(found.end)
        expected = stepped(found, [*first, *ids, found.end])[len(first) :]
        assert scores_of(rated) == pytest.approx(expected, abs=1e-4)
        assert (rated.text, rated.tokens, rated.words) == (text, len(ids), len(text.split()))
        assert rated.score == pytest.approx(sum(expected), abs=1e-3)
        assert rated.perplexity == pytest.approx(
            math.exp(-sum(expected) / (len(text.split()) + 1)), rel=1e-3
        )


def test_every_piece_has_its_characters(name: str) -> None:
    for text, rated in zip(SHORT, predictor(name).score(SHORT), strict=True):
        *own, end = rated.pieces
        assert (end.start, end.end) == (len(text), len(text))
        if name != "gpt":
            assert [text[piece.start : piece.end] for piece in own] == text.split()
        assert all(one.end <= two.start for one, two in pairwise(own))


def test_batch_mates_and_pieces_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = predictor(name)
    texts = [*HELD_OUT[:20], " ".join(HELD_OUT)]
    together = model.score(texts)
    monkeypatch.setattr(firth.tasks.likelihood, "PIECE", 7)
    for one, text in zip(together, texts, strict=True):
        alone = model.score([text])[0]
        assert scores_of(alone) == pytest.approx(scores_of(one), abs=2e-3)
    assert not any(one.truncated_tokens for one in together)


@pytest.mark.parametrize(("long", "shared"), [("slide", (LENGTH - 1) // 2), ("cut", 0)])
def test_a_gpt_takes_each_token_from_the_window_with_most_text_before_it(
    long: str, shared: int
) -> None:
    found, text = bundle("gpt"), " ".join(HELD_OUT[:4])
    rated = predictor("gpt").score([text], long=long)[0]  # type: ignore[arg-type]
    assert scores_of(rated) == pytest.approx(
        windowed([*ids_of(found, text), found.end], shared), abs=2e-3
    )
    with pytest.raises(InputError, match=r"text 1: .* long='slide'"):
        predictor("gpt").score([text], long="error")


def windowed(ids: list[int], shared: int) -> list[float]:
    """Scores by windows of a GPT, by the plainest way."""
    model, room, found = bundle("gpt").model, LENGTH - 1, {}
    assert isinstance(model, Gpt)
    for first in range(0, len(ids), room - shared):
        row = torch.tensor(ids[first : first + room])
        with torch.inference_mode():
            scores = model.score(row, torch.tensor([len(row)]))[0].tolist()
        for place, score in enumerate(scores, first):
            found.setdefault(place, score)
    assert len(found) == len(ids)
    return [found[place] for place in range(len(ids))]


def test_a_context_is_read_and_not_rated(name: str) -> None:
    model, context, text = predictor(name), "The value of", "the expression is true"
    after = model.score([text], context=context)[0]
    whole = model.score([f"{context} {text}"])[0]
    count = len(after.pieces)
    assert scores_of(after) == pytest.approx(scores_of(whole)[-count:], abs=1e-4)
    assert [text[piece.start : piece.end] for piece in after.pieces] == [
        whole.text[piece.start : piece.end] for piece in whole.pieces[-count:]
    ]
    assert (after.text, after.words) == (text, 4)
    assert after.score != pytest.approx(model.score([text])[0].score, abs=1e-3)


def test_candidates_are_ranked_with_shares(name: str) -> None:
    model, texts = predictor(name), ["the value of a", "value the a of", "the value of a", "of"]
    found, rated = model.rank(texts).candidates, model.score(texts)
    weights = np.exp([one.score for one in rated])
    assert [one.likelihood.score for one in found] == sorted(
        (one.score for one in rated), reverse=True
    )
    for one in found:
        assert one.probability == pytest.approx(weights[one.place] / weights.sum(), rel=1e-4)
        assert one.likelihood.text == texts[one.place]
    assert model.rank([]).candidates == ()
    assert model.rank([]).as_json() == {"best": None, "candidates": [], "truncated_tokens": 0}


def test_scores_of_the_proposer_are_added(name: str) -> None:
    model, texts = predictor(name), ["the value of a", "value the a of", "of", "the value of a"]
    scores = np.array([-9.5, -2, -0.25, -9.5], np.float32)
    rated = [one.score for one in model.score(texts)]
    for weight in (0.0, 0.5, 1.0, 3.0):
        found = model.rank(texts, scores=scores, weight=weight)
        totals = scores + weight * np.array(rated)
        assert found.weight == weight
        assert [one.place for one in found.candidates] == np.argsort(
            -totals.round(4), kind="stable"
        ).tolist()
        shares = np.exp(totals - totals.max())
        for one in found.candidates:
            assert one.proposer_score == scores[one.place]
            assert one.likelihood.score == pytest.approx(rated[one.place], abs=1e-4)
            assert one.total == pytest.approx(totals[one.place], abs=1e-3)
            assert one.probability == pytest.approx(
                shares[one.place] / shares.sum(), rel=5e-3, abs=1e-9
            )
    usual = model.rank(texts, scores=scores.tolist())
    assert usual.weight == 1
    alone = model.rank(texts)
    assert alone.weight is None
    assert {(one.proposer_score, one.total) for one in alone.candidates} == {(None, None)}
    assert model.rank(texts, scores=[0] * 4).best == alone.best
    assert model.rank([], scores=[]).candidates == ()


def test_scores_that_are_none_are_refused() -> None:
    model, wanted = predictor("ngram"), "scores is a list of 2 finite numbers, one for each"
    wrong = ([-1], [-1, -2, -3], [-1, math.nan], [-1, -math.inf], [-1, "-2"], [-1, None], "ab", 1)
    for scores in (*wrong, {-1, -2}, [-1, 10**400], [True, -1], [[-1, -2]]):
        with pytest.raises(InputError, match=wanted):
            model.rank(["a", "b"], scores=scores)  # type: ignore[arg-type]
    for weight in (-1, math.nan, math.inf, 1001, 10**400, "1", True):
        with pytest.raises(InputError, match="weight is a number of at least 0"):
            model.rank(["a", "b"], scores=[-1, -2], weight=weight)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="give scores"):
        model.rank(["a", "b"], weight=1)


def test_totals_as_large_as_numbers_go_are_ranked() -> None:
    found = predictor("ngram").rank(["a", "b"], scores=[-1.7e308, 1.7e308], weight=1000)
    assert [one.probability for one in found.candidates] == [1, 0]


def test_a_candidate_at_fault_is_named() -> None:
    for scores in (None, [-1, -2, -3]):
        with pytest.raises(InputError, match=r"text 1: candidate 2: .* long='slide'"):
            predictor("gpt").rank(["a", "the value " * 200, "b"], scores=scores, long="error")


def test_an_n_gram_says_which_n_grams_it_used() -> None:
    rated = predictor("ngram").score([" ".join(TRAIN[0].split()[:4]) + " zyzzyva"])[0]
    assert [piece.order for piece in rated.pieces[:4]] == [2, 3, 4, 4]
    assert rated.pieces[4].order in (0, 1)  # as <unk>, which the text may hold
    assert all(piece.order is None for piece in predictor("rnn").score(["a b"])[0].pieces)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "gpt"])
def test_a_text_with_the_mark_that_begins_one_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="'so <s> it is' holds the mark"):
        predictor(name).score(["so <s> it is"])


def test_perplexity_is_per_word_with_the_end() -> None:
    assert perplexity(-12.0, 4) == pytest.approx(math.exp(3))
    assert perplexity(-1e6, 1) == math.inf


@pytest.mark.parametrize("piece", [5, 4096])
def test_lines_are_read_as_one_text(name: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firth.evaluation.long_text, "PIECE", piece)
    monkeypatch.setattr(firth.tasks.likelihood, "PIECE", piece)
    found = bundle(name)
    lines = [ids_of(found, text) for text in HELD_OUT[:12]]
    ended = [[*line, found.end] for line in lines]
    flat = [token for line in ended for token in line]
    if name == "gpt":
        expected = windowed(flat, (LENGTH - 1) // 2)
    elif name in CARRYING:
        expected = stepped(found, [found.end, *flat])[1:]
    else:
        expected = [score for line in ended for score in stepped(found, line)]
    rated = list(line_likelihoods(found.language, found.end, found.length, iter(lines)))
    assert [len(line) for line in rated] == [len(line) for line in ended]
    assert np.concatenate(rated).tolist() == pytest.approx(expected, abs=2e-3)


def test_segments_of_a_gpt_need_not_overlap() -> None:
    found = bundle("gpt")
    lines = [ids_of(found, text) for text in HELD_OUT[:12]]
    rated = np.concatenate(
        list(line_likelihoods(found.language, found.end, found.length, iter(lines), "cut"))
    )
    assert rated.tolist() == pytest.approx(
        windowed([token for line in lines for token in [*line, found.end]], 0), abs=2e-3
    )
    with pytest.raises(InputError, match="slide, cut or carry"):
        next(line_likelihoods(found.language, found.end, found.length, iter(lines), "error"))


def test_a_gpt_carries_what_it_read_before() -> None:
    found, span = bundle("gpt"), LENGTH // 2
    model = found.model
    assert isinstance(model, Gpt)
    lines = [ids_of(found, text) for text in HELD_OUT[:12]]
    rated = np.concatenate(
        list(line_likelihoods(model, found.end, found.length, iter(lines), "carry"))
    )
    with torch.inference_mode():
        scores, state = model.step(torch.tensor([model.settings.start]), model.start(1))
        for place, token in enumerate(token for line in lines for token in [*line, found.end]):
            assert rated[place] == pytest.approx(scores[0, token].item(), abs=2e-3)
            state = state.latest(span) if place % span == 0 else state
            scores, state = model.step(torch.tensor([token]), state)
    assert len(rated) == place + 1 > 3 * LENGTH


def test_figures_of_a_text_are_those_of_the_formulas() -> None:
    texts = ["one two two", "", "drei  zwölf one "]
    counts = Counter({"one": 10, "two": 9, "drei": 1000})
    tally = Perplexity(True, counts)
    pieces = [
        [(0, 3), (3, 5), (5, 7), (7, 11)],
        [],
        [(0, 2), (2, 4), (4, 6), (6, 11), (11, 15), (15, 16)],
    ]
    scores = [[-1.0, -2, -3, -4, -0.5], [-7.0], [-1.5, -2.5, -0.25, -5, -6, -0.125, -1]]
    for text, offsets, found in zip(texts, pieces, scores, strict=True):
        tally.add(ScoredLine(text, np.array(found), [end for _, end in offsets]))
    total, words, size = sum(map(sum, scores)), 6, sum(len(text.encode()) + 1 for text in texts)
    assert (tally.words, tally.tokens) == (words, 10)
    found = tally.scores()
    assert found["perplexity"].value == pytest.approx(math.exp(-total / (words + 3)))
    assert found["bits_per_byte"].value == pytest.approx(-total / math.log(2) / size)
    # A piece of white space belongs to the word after it, that after the last word to none.
    expected = {"0": (5.25, 1), "1-9": (9, 2), "10-99": (7, 2), "1000+": (4, 1)}
    assert {band.times: band.words for band in tally.bands()} == {
        name: many for name, (_, many) in expected.items()
    }
    for band in tally.bands():
        assert band.perplexity.value == pytest.approx(
            math.exp(expected[band.times][0] / expected[band.times][1])
        )
        assert band.times in BANDS
    assert "bits_per_byte" not in Perplexity(False).scores()


def greedy(found: Bundle, text: str, count: int) -> tuple[list[int], float]:
    """The likeliest tokens that stand for text, or the end, by single steps."""
    model, words = found.language, found.tokenizer
    state, total, ids = model.start(1), 0.0, []
    closed = [words.unk, words.pad, words.mask, words.cls]
    for token in [model.settings.start, *model.opening(found.end), *ids_of(found, text)]:
        every, state = model.step(torch.tensor([token]), state)  # type: ignore[arg-type]
    while len(ids) < count and found.end not in ids:
        every[0, closed] = -math.inf
        ids.append(int(every[0].argmax()))
        total += float(every[0].max())
        every, state = model.step(torch.tensor([ids[-1]]), state)  # type: ignore[arg-type]
    return ids, total


@torch.inference_mode()
def test_the_likeliest_token_is_taken_each_time(name: str) -> None:
    found, texts = bundle(name), ["The value of", "a class that", ""]
    for text, written in zip(texts, predictor(name).write(texts, tokens=10), strict=True):
        ids, total = greedy(found, text, 10)
        assert written.text == text + written.continuation
        assert written.score == pytest.approx(total, abs=1e-3)
        assert written.ended == (ids[-1] == found.end)
        own = [token for token in ids if token != found.end]
        assert written.continuation.strip() == found.tokenizer.decode(own).strip()
        if name != "gpt" and text and own:
            assert written.continuation.startswith(" ")
    assert predictor(name).predict(texts[:1])[0].text.startswith(texts[0])


def test_draws_depend_on_the_seed_and_the_place_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, texts = predictor(name), ["The value of", "a", "The value of", "in"]
    first = model.write(texts, tokens=8, temperature=1.0, seed=3)
    monkeypatch.setattr("firth.tasks.generate.PromptTask.at_once", 1)
    again = model.write(texts, tokens=8, temperature=1.0, seed=3)
    assert [one.text for one in again] == [one.text for one in first]
    assert [one.score for one in again] == pytest.approx([one.score for one in first], abs=1e-3)
    assert (
        len(
            {
                one.continuation
                for seed in range(5)
                for one in model.write(texts[:1], tokens=8, temperature=1.0, seed=seed)
            }
        )
        > 1
    )
    if name != "ngram":  # whose words may be equally likely
        one = model.write(texts, tokens=8, temperature=1.0, top_k=1)
        assert [written.text for written in one] == [
            written.text for written in model.write(texts, tokens=8)
        ]


def test_a_stop_is_matched_on_the_text(name: str) -> None:
    model, text = predictor(name), "The value of"
    whole = model.write([text], tokens=16)[0].continuation
    stop = whole[6:9]
    found = model.write([text], tokens=16, stop=["never there", stop])[0]
    assert found.continuation == whole[: whole.index(stop)]
    assert found.ended
    shorter = [model.write([text], tokens=count)[0] for count in range(1, 17)]
    reached = next(one for one in shorter if stop in one.continuation)
    assert found.score == pytest.approx(reached.score, abs=1e-4)


def test_a_prompt_beyond_the_room_keeps_its_end() -> None:
    model, text = predictor("gpt"), " ".join(HELD_OUT[:2])
    with pytest.warns(
        UserWarning,
        match=r"1 of 2 texts were longer than the model reads and were cut: .* ends were kept",
    ):
        long, _ = model.write([text, "short"], tokens=10)
    kept = model.bundle.tokenizer.decode(ids_of(model.bundle, text)[-(LENGTH - 10) :])
    assert long.continuation == model.write([kept], tokens=10)[0].continuation
    assert long.text == text + long.continuation
    with pytest.raises(InputError, match=f"room for {LENGTH} tokens"):
        model.write(["a"], tokens=LENGTH)


def test_a_manner_that_makes_no_sense_is_refused() -> None:
    model = predictor("ngram")
    for wrong in (
        {"tokens": 0},
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"top_k": 3},
        {"top_p": 0.5},
        {"stop": [""]},
    ):
        with pytest.raises(InputError):
            model.write(["a"], **wrong)  # type: ignore[arg-type]
    for wrong in ({"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}):
        with pytest.raises(InputError):
            model.write(["a"], temperature=1.0, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="list of texts"):
        model.write("a")


def test_completions_are_the_likeliest_of_all() -> None:
    lines = [
        "we drank tea",
        "we drank tea",
        "we drank coffee",
        "we drank tea slowly",
        "you drank coffee",
        "we ran",
    ]
    words = Tokenizer.train(lines, "words", 40)
    rows = [[*encoding.ids, words.sep] for encoding in words.encode(lines, special=False)]
    sizes = NGramSettings(vocab=words.size, order=3, start=words.cls, end=words.sep)
    gram = NGram.fit(
        [
            Sentences(
                np.array([token for row in rows for token in row]),
                np.array([len(row) for row in rows]),
            )
        ],
        sizes,
    )
    model = Predictor(Bundle(gram, words, "firth-ngram", "continue"), 1)
    known = sorted({word for line in lines for word in line.split()})
    ends = ["", *(" ".join(some) for size in (1, 2, 3) for some in product(known, repeat=size))]
    chances = {
        end: math.exp(model.score([end], context="we drank")[0].score) for end in ends if end
    }
    chances[""] = math.exp(model.score(["we drank"])[0].pieces[-1].score)
    best = sorted(chances, key=lambda end: -chances[end])[:4]
    found = model.complete(["we drank"], top=4)[0].completions
    assert [one.continuation.strip() for one in found] == best
    assert [one.probability for one in found] == pytest.approx([chances[end] for end in best])
    assert found[0].text == "we drank tea"
    assert all(one.ended for one in found)
    assert not model.complete(["we drank"], top=8, tokens=1)[0].completions[0].ended


def test_completions_of_every_family(name: str) -> None:
    model, texts = predictor(name), ["The value of", "a class"]
    found = [one.completions for one in model.complete(texts, top=3, tokens=6)]
    for text, ends in zip(texts, found, strict=True):
        assert 0 < len(ends) <= 3
        assert len({one.text for one in ends}) == len(ends)
        assert all(one.text.startswith(text) for one in ends)
        assert [one.probability for one in ends] == sorted(
            (one.probability for one in ends), reverse=True
        )
    assert sum(one.probability for one in found[0]) <= 1


def test_a_half_typed_word_is_finished(name: str) -> None:
    """With a vocabulary of whole words: by those that begin so, with their chances among these."""
    found, model = bundle(name), predictor(name)
    if found.tokenizer.kind != "words":
        best = model.complete(["The express"], top=3)[0].completions[0]
        assert best.text.startswith("The express")
        return
    ends = model.complete(["The Expres"], top=4, tokens=3)[0].completions
    assert len(ends) == 4
    for end in ends:
        assert end.text.startswith("The Expres")
        assert found.tokenizer.id(("expres" + end.continuation).split()[0]) is not None
    words = [
        w for w in range(found.tokenizer.size) if found.tokenizer.piece(w).startswith("expres")
    ]
    ids = [
        *found.language.opening(found.end),
        *found.tokenizer.encode(["The"], special=False)[0].ids,
    ]
    chances = {}
    for word in words:
        row = torch.tensor([*ids, word])
        with torch.inference_mode():
            chances[found.tokenizer.piece(word)] = (
                found.language.score(row, torch.tensor([len(row)]))[0][-1].exp().item()
            )
    total: dict[str, float] = {}
    for end in model.complete(["The Expres"], top=1000, tokens=1)[0].completions:
        word = ("expres" + end.continuation).split()[0]
        total[word] = total.get(word, 0.0) + end.probability
    for word, share in total.items():
        assert share <= chances[word] / sum(chances.values()) + 1e-4
    (unknown,) = model.complete(["The xqzzy"], top=1)
    assert unknown.completions[0].text.startswith("The xqzzy")
    for text, plain in zip(
        ["The <", "The </", "The </s"],
        model.complete(["The xqzzy"] * 3, top=3, tokens=3),
        strict=True,
    ):
        (ours,) = model.complete([text], top=3, tokens=3)
        assert [end.continuation for end in ours.completions] == [
            end.continuation for end in plain.completions
        ]


def test_marks_are_never_written(name: str) -> None:
    marks = ["<unk>", "<pad>", "<mask>", "<s>"]
    for written in predictor(name).write([""] * 20, tokens=12, temperature=3.0):
        assert not any(mark in written.text for mark in marks)
    words = tokenizer("words")
    assert words.decode([words.unk or 0], special=True) == "<unk>"
