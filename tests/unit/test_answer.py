"""Questions on contexts: windows, targets, the best span over all windows, and hostile input."""

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from firth.base.errors import InputError
from firth.data.examples import GoldAnswer, Labelled, Line, Question
from firth.data.rows import EncodedExample, ExampleFeed
from firth.data.window import Window, context_windows
from firth.folders.bundle import Bundle
from firth.models.bert import Bert, BertSettings
from firth.nn.span_logits import (
    LONGEST,
    SpanLogits,
    WindowLogits,
    span_logits,
    span_loss,
)
from firth.predictor import Predictor
from firth.tasks.answer import AnswerQuestion, QuestionAnswer, token_logits
from firth.tasks.encoded import ExampleError, encode_examples
from firth.text.tokenizer import Encoding, Tokenizer

CONTEXT = (
    "In meteorology, precipitation is any product of the condensation of atmospheric water vapor "
    "that falls under gravity."
)
LENGTH = 24
QUESTION = "What causes it to fall?"


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return Tokenizer.train([f"{CONTEXT} {QUESTION}"] * 3, size=300)


@pytest.fixture(scope="module")
def bundle(words: Tokenizer) -> Bundle:
    torch.manual_seed(1)
    sizes = {"vocab": words.size, "width": 32, "depth": 2, "heads": 2, "inner": 64}
    encoder = Bert(
        BertSettings(**sizes, length=LENGTH, spread=0.3, dropout=0.0, pooler=False)
    ).eval()
    head = AnswerQuestion.make_head(encoder, "answer", ())
    assert head is not None
    assert head.dropout == 0.0
    torch.nn.init.normal_(head.linear.weight, std=1.0)
    return Bundle(encoder, words, kind="answer", head=head.eval(), settings={"stride": 8})


def pair(words: Tokenizer, question: str, context: str) -> Encoding:
    return words.encode([question], [context])[0]


def body(row: Encoding) -> list[int]:
    return [place for place, part in enumerate(row.parts) if part == 1]


# Windows


@pytest.mark.parametrize("stride", [1, 3, 8])
@pytest.mark.parametrize("length", [16, 20, 24])
def test_every_window_has_the_question_and_all_of_the_context_is_read(
    words: Tokenizer, stride: int, length: int
) -> None:
    whole = pair(words, QUESTION, CONTEXT)
    rows = context_windows(whole, length, "slide", stride)
    assert len(rows) > 1
    context = body(whole)
    question = [place for place, part in enumerate(whole.parts) if part == 0]
    seen: set[int] = set()
    for row, first in rows:
        assert len(row) <= length
        places = body(row)
        kept = [place for place, part in enumerate(row.parts) if part == 0]
        shown = question[: len(kept)]
        assert [row.ids[place] for place in kept] == [whole.ids[place] for place in shown]
        assert len(kept) == min(len(question), (length - 3) // 2)
        own = context[first : first + len(places)]
        assert [row.offsets[place] for place in places] == [whole.offsets[place] for place in own]
        seen.update(range(first, first + len(places)))
    assert seen == set(range(len(context)))
    for one, other in itertools.pairwise(rows):
        room = len(body(one.row))
        assert one.first + room - other.first == min(stride, room // 2)


def test_a_cut_context_loses_its_end_and_an_error_says_how_long_it_is(words: Tokenizer) -> None:
    whole = pair(words, QUESTION, CONTEXT)
    (row,) = context_windows(whole, LENGTH, "cut", 8)
    assert len(row.row) == LENGTH
    assert row.row.offsets[body(row.row)[0]] == whole.offsets[body(whole)[0]]
    with pytest.raises(InputError, match=f"a text has {len(whole)} tokens where"):
        context_windows(whole, LENGTH, "error", 8)
    assert context_windows(whole, None, "slide", 8) == [Window(whole, 0)]
    assert context_windows(whole, len(whole), "cut", 8) == [Window(whole, 0)]


def test_a_very_long_question_leaves_half_of_the_room(words: Tokenizer, bundle: Bundle) -> None:
    question = "what causes it " * 200
    for context in (CONTEXT, "gravity", ""):
        with pytest.warns(UserWarning, match="a question has at most half of each window"):
            answer = Predictor(bundle, 1).answer(question, context)
        whole = pair(words, question, context)
        rows = context_windows(whole, LENGTH, "slide", 8)
        kept = rows[0].row.parts.count(0)
        assert answer.truncated_tokens == whole.parts.count(0) - kept > 300
        assert kept == max((LENGTH - 3) // 2, LENGTH - 3 - whole.parts.count(1))
        if context:
            assert answer.answer in context
        else:
            assert answer.answer is None


def test_what_was_not_read_is_counted(bundle: Bundle, words: Tokenizer) -> None:
    model = Predictor(bundle, 1)
    whole = pair(words, QUESTION, CONTEXT)
    with pytest.warns(UserWarning, match=r"tokens unseen \(long=.slide. reads them all\)"):
        cut = model.answer(QUESTION, CONTEXT, long="cut")
    assert cut.truncated_tokens == len(whole) - LENGTH
    assert model.answer(QUESTION, CONTEXT).truncated_tokens == 0  # it slides by itself
    with pytest.raises(InputError, match="text 1: a text has"):
        model.answer(QUESTION, CONTEXT, long="error")


# Targets


def spans(task: AnswerQuestion, bundle: Bundle, example: Question) -> list[str | None]:
    """What each window is to answer, as it stands in the context."""
    (one,) = encode_examples(task, [example], bundle, "slide")
    found: list[str | None] = []
    for window in one.windows[0]:
        target = task.targets(example, one.encodings, 0, window)
        start, end = target["span"][0].tolist()
        if (start, end) == (0, 0):
            found.append(None)
        else:
            offsets = window.row.offsets
            found.append(example.context[offsets[start][0] : offsets[end][1]])
    return found


@pytest.mark.parametrize(
    "text",
    ["In", "In meteorology", "gravity.", ".", "precipitation", "water vapor that", "condensation"],
)
def test_a_window_that_has_all_of_the_answer_learns_it_and_others_that_they_have_none(
    bundle: Bundle, text: str
) -> None:
    start = CONTEXT.rindex(text)
    example = Question(QUESTION, CONTEXT, (GoldAnswer(text, start),))
    task = AnswerQuestion(stride=8)
    found = spans(task, bundle, example)
    assert len(found) > 1
    assert text in found
    assert set(found) <= {text, None}
    (one,) = encode_examples(task, [example], bundle, "slide")
    for said, (row, _) in zip(found, one.windows[0], strict=True):
        offsets = [row.offsets[place] for place in body(row)]
        whole = offsets[0][0] <= start and offsets[-1][1] >= start + len(text)
        assert (said is not None) == whole


def test_an_answer_that_is_cut_by_every_window_is_learned_by_none(bundle: Bundle) -> None:
    text = CONTEXT[3:-1]
    example = Question(QUESTION, CONTEXT, (GoldAnswer(text, 3),))
    assert set(spans(AnswerQuestion(stride=2), bundle, example)) == {None}
    assert set(spans(AnswerQuestion(), bundle, Question(QUESTION, CONTEXT, ()))) == {None}


def test_an_answer_inside_a_word_is_learned_as_the_pieces_that_it_touches(bundle: Bundle) -> None:
    start = CONTEXT.index("cipit")
    example = Question(QUESTION, CONTEXT, (GoldAnswer("cipit", start),))
    (learned,) = set(spans(AnswerQuestion(), bundle, example)) - {None}
    assert learned is not None
    assert "cipit" in learned
    assert learned in "precipitation"


def test_an_answer_of_which_the_tokenizer_leaves_nothing_is_refused(bundle: Bundle) -> None:
    example = Question("What?", "a\u200b b", (GoldAnswer("\u200b", 1),))
    with pytest.raises(ExampleError, match="the tokenizer leaves nothing of its answer"):
        spans(AnswerQuestion(), bundle, example)


# The loss


def feed(task: AnswerQuestion, bundle: Bundle, examples: list[Question]) -> ExampleFeed:
    encoded = []
    for example, one in zip(
        examples, encode_examples(task, examples, bundle, "slide"), strict=True
    ):
        targets = [[task.targets(example, one.encodings, 0, row) for row in one.windows[0]]]
        encoded.append(EncodedExample.of(one.windows, targets))
    return ExampleFeed(encoded, [one.text for one in examples])


EXAMPLES = [
    Question(QUESTION, CONTEXT, (GoldAnswer("gravity", CONTEXT.index("gravity")),)),
    Question("Why?", "gravity falls", (GoldAnswer("gravity", 0), GoldAnswer("falls", 8))),
    Question("Why?", "water", ()),
]


def test_the_loss_is_a_sum_over_windows_of_start_and_end(bundle: Bundle) -> None:
    task = AnswerQuestion(stride=8)
    batch = feed(task, bundle, EXAMPLES).batch(0, np.arange(3))
    rows = len(batch.lengths)
    assert rows > 3
    assert task.counts(batch) == {"span": 2.0 * rows}
    with torch.inference_mode():
        logits = token_logits(bundle.encoder, bundle.head, batch)
    expected = 0.0
    for row, target in zip(
        logits.split(batch.lengths.tolist()), batch.targets["span"], strict=True
    ):
        expected += float(torch.nn.functional.cross_entropy(row.T, target, reduction="sum"))
    assert float(span_loss(logits, batch.lengths, batch.targets["span"])) == pytest.approx(
        expected, rel=1e-6
    )


def test_the_tally_is_what_the_answers_are(bundle: Bundle) -> None:
    """The figures of training are those of the answers, by tokens."""
    for margin in (None, 0.0, 1e6, -1e6):
        task = AnswerQuestion(stride=8, margin=margin)
        batch = feed(task, bundle, EXAMPLES).batch(0, np.arange(3))
        with torch.inference_mode():
            figures = task.tally(bundle.encoder, bundle.head, batch)
        settings = {"stride": 8} if margin is None else {"stride": 8, "answer_margin": margin}
        mine = Bundle(
            bundle.encoder, bundle.tokenizer, kind="answer", head=bundle.head, settings=settings
        )
        answers = list(Predictor(mine, 1).answers(EXAMPLES, "slide"))
        right = 0
        for example, answer in zip(EXAMPLES, answers, strict=True):
            assert isinstance(answer, QuestionAnswer)
            truth = [one.text for one in example.answers] or [None]
            right += answer.answer in truth
        assert figures["exact"] == right
        assert figures["count"] == 3
        assert figures["exact"] <= figures["f1"] <= 3
        assert task.metrics(figures)["loss"] > 0


# The best span


def naive(windows: list[WindowLogits]) -> dict[tuple[int, int], float]:
    """All allowed spans of tokens, with their logits."""
    found: dict[tuple[int, int], float] = {}
    for window in windows:
        size = len(window.starts)
        for first in range(size):
            for last in range(first, min(size, first + LONGEST)):
                if window.offsets[last][1] <= window.offsets[first][0]:
                    continue
                logit = float(window.starts[first] + window.ends[last])
                key = (window.first + first, window.first + last)
                found[key] = max(logit, found.get(key, -math.inf))
    return found


def random_windows(seed: int, tokens: int, room: int, stride: int) -> list[WindowLogits]:
    draw = np.random.default_rng(seed)
    found = []
    for first in range(0, max(1, tokens - stride), room - stride):
        size = min(room, tokens - first)
        offsets = [(2 * place, 2 * place + 1) for place in range(first, first + size)]
        starts, ends = draw.normal(size=(2, size))
        found.append(WindowLogits(first, starts, ends, float(draw.normal()), offsets))
    return found


@pytest.mark.parametrize(("tokens", "room", "stride"), [(1, 5, 2), (50, 60, 8), (80, 40, 16)])
def test_the_best_span_is_that_of_all_spans_of_all_windows(
    tokens: int, room: int, stride: int, seed: int
) -> None:
    windows = random_windows(seed % 1000, tokens, room, stride)
    found = span_logits(windows)
    expected = naive(windows)
    assert found.none == min(window.none for window in windows)
    assert found.best == max(expected, key=expected.__getitem__)
    assert np.isfinite(found.spans).sum() == len(expected)

    context = "ab" * tokens
    task = AnswerQuestion(top=3)
    answer = task.answer(Question("?", context, ()), (), [tuple(windows)], 0)
    total = math.fsum([math.exp(one) for one in expected.values()]) + math.exp(found.none)
    ranked = sorted(expected, key=expected.__getitem__, reverse=True)[:3]
    assert [(one.start, one.end) for one in answer.candidates] == [
        (2 * first, 2 * last + 1) for first, last in ranked
    ]
    for one, key in zip(answer.candidates, ranked, strict=True):
        assert one.probability == pytest.approx(math.exp(expected[key]) / total)
        assert one.answer == context[one.start : one.end]
    assert answer.no_answer_probability == pytest.approx(math.exp(found.none) / total)
    assert (answer.answer, answer.probability) == (
        answer.candidates[0].answer,
        answer.candidates[0].probability,
    )


def test_no_answer_where_the_margin_is_not_reached() -> None:
    offsets = [(0, 2), (3, 5)]
    window = WindowLogits(0, np.array([1.0, 0.0]), np.array([0.0, 2.0]), 2.5, offsets)
    example = Question("?", "ab cd", ())
    found = span_logits([window])
    assert (found.margin, found.best) == (0.5, (0, 1))
    for margin, said in [(None, "ab cd"), (0.5, "ab cd"), (0.6, None)]:
        answer = AnswerQuestion(margin=margin).answer(example, (), [(window,)], 0)
        assert answer.answer == said
        assert answer.candidates[0].answer == "ab cd"
        if said is None:
            assert (answer.start, answer.end) == (None, None)
            assert answer.probability == answer.no_answer_probability
            assert AnswerQuestion().line(example, answer).endswith("  no answer")
    # Of two windows the one that sees an answer says so.
    other = window._replace(none=-3.0)
    assert span_logits([window, other]).none == -3.0


def test_an_answer_is_at_most_thirty_tokens_and_never_ends_before_it_begins() -> None:
    starts = np.zeros(40)
    ends = np.zeros(40)
    starts[5] = 10.0
    ends[3] = ends[35] = 9.0
    ends[34] = 1.0
    offsets = [(place, place + 1) for place in range(40)]
    found = span_logits([WindowLogits(0, starts, ends, 0.0, offsets)])
    assert found.best == (5, 34)
    assert SpanLogits(found.spans, 0.0).margin == 11.0


def test_the_threshold_is_tuned_by_the_metric_that_selects() -> None:
    offsets = [(0, 2), (3, 5)]

    def window(margin: float) -> tuple[WindowLogits, ...]:
        return (WindowLogits(0, np.array([margin, -9.0]), np.array([0.0, -9.0]), 0.0, offsets),)

    known = Question("?", "ab cd", (GoldAnswer("ab", 0),))
    unknown = Question("?", "ab cd", ())
    examples = [known, known, unknown, unknown]
    logits = [[window(margin)] for margin in (5.0, 3.0, 2.0, -1.0)]
    assert AnswerQuestion().calibrate(examples, logits) == {"answer_margin": 2.5}
    assert AnswerQuestion(select="exact").calibrate(examples, logits) == {"answer_margin": 2.5}


# Hostile input


HOSTILE = [
    "",
    " ",
    "\t\n  ",
    "\0",
    "a\0b",
    "🙂🙃 " * 30,
    "👩‍👩‍👧‍👦",
    "שלום עולם, מה שלומך היום?",
    "\u202egravity\u202c",
    "e\u0301e\u0301 Å A\u030a",
    "\ud800 lone",
    "word " * 10_000,
    "x" * 5_000,
    "[CLS] [SEP] [MASK] [UNK] [PAD]",
    "\u200b\u200b",
    "ﬁ ﷺ ①",
]


@pytest.mark.filterwarnings("ignore:.*tokens unseen")
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_contexts_and_questions_are_answered(bundle: Bundle, text: str) -> None:
    model = Predictor(bundle, 1)
    for question, context in ((QUESTION, text), (text, CONTEXT), (text, text)):
        answer = model.answer(question, context)
        page = json.loads(json.dumps(answer.as_json(), allow_nan=False))
        assert 0 <= answer.no_answer_probability <= 1
        if answer.answer is not None:
            assert answer.answer == context[answer.start : answer.end] != ""
            assert answer.probability == answer.candidates[0].probability > 0
        else:
            assert not context.strip("\0 \t\n\u200b\u202e\u202c")
            assert page["candidates"] == []
            assert (page["answer"], page["start"], page["probability"]) == (None, None, 1.0)
        places = [(one.start, one.end) for one in answer.candidates]
        assert len(set(places)) == len(places)
        shares = [one.probability for one in answer.candidates]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) + answer.no_answer_probability <= 1 + 1e-9


def test_a_question_needs_a_context(bundle: Bundle) -> None:
    model = Predictor(bundle, 1)
    with pytest.raises(InputError, match="text 2: it has no context"):
        list(model.answers([Labelled("a", None, "b"), Line("What?")]))
    with pytest.raises(InputError, match="context"):
        model.answer("What?", None)  # type: ignore[arg-type]
    plain = Bundle(bundle.encoder, bundle.tokenizer)
    with pytest.raises(InputError):
        Predictor(plain, 1).answer("What?", "a")


def test_many_questions_are_answered_in_order(bundle: Bundle) -> None:
    model = Predictor(bundle, 1)
    asked = [(QUESTION, CONTEXT), ("Why?", "gravity"), ("What falls?", "water falls")]
    found = model.answer_all(asked, top=2)
    for (question, context), answer in zip(asked, found, strict=True):
        alone = model.answer(question, context, top=2)
        assert (answer.answer, len(answer.candidates)) == (alone.answer, len(alone.candidates))
        assert len(answer.candidates) <= 2
    assert model.answer_all([]) == []


def test_an_answer_is_the_same_whatever_the_windows_when_one_holds_all(words: Tokenizer) -> None:
    """A context that fits is one window: neither the stride nor `long` changes anything."""
    torch.manual_seed(2)
    sizes: dict[str, Any] = {"vocab": words.size, "width": 32, "depth": 1, "heads": 2, "inner": 64}
    encoder = Bert(BertSettings(**sizes, length=128, spread=0.3, pooler=False)).eval()
    head = AnswerQuestion.make_head(encoder, "answer", ())
    assert head is not None
    answers = []
    for stride in (1, 64):
        bundle = Bundle(
            encoder, words, kind="answer", head=head.eval(), settings={"stride": stride}
        )
        model = Predictor(bundle, 1)
        answers += [model.answer(QUESTION, CONTEXT, long=long) for long in ("cut", "slide")]
    assert all(answer == answers[0] for answer in answers)
