"""What a page of a model's answers holds: the right examples, whole texts, and counts that add up."""

import random
from array import array

import numpy as np
import pytest

from firth.base.notes import collected, note
from firth.data.examples import GoldAnswer, Question, Span, Tagged
from firth.metrics.classes import LabelCounts
from firth.metrics.decisions import Confidences
from firth.metrics.entities import Entities
from firth.reports import kept as kept_file
from firth.reports.answers import AnswerReport
from firth.reports.case import BEFORE, LONGEST, Case, Passage, SpanMark, passage
from firth.reports.decided import MOST_POINTS, Answers
from firth.reports.kept import WORST, Kept
from firth.reports.numbers import spread_out
from firth.reports.report import OTHERS, CountTable, frequent
from firth.reports.spans import SpanReport
from firth.samples.tickets import all_tickets
from firth.tasks.answer import QuestionAnswer
from firth.tasks.tag import EntityScoring, TokenTags, true_tags


def shown(one: Passage) -> str:
    """What stands on the page of a text."""
    return "".join(piece.text for piece in one.pieces)


def made(number: int, draw: random.Random) -> Case:
    """An example with an answer in one of a few cells, most of which are right."""
    right = draw.random() < 0.7
    cell = (f"class {draw.randint(1, 4)}", "right" if right else f"class {draw.randint(1, 4)}")
    return Case(number, right, draw.random(), (cell,), (passage("a text"),), *cell)


@pytest.mark.parametrize("count", [0, 3, 90, 91, 1000])
def test_as_they_come_the_same_are_kept_as_of_all(count: int, seed: int) -> None:
    """Those that are dropped on the way would not be among those of the page at its end either."""
    draw = random.Random(seed)
    cases = [made(number, draw) for number in range(count)]
    streamed, whole = Kept(120), Kept(120)
    whole._cases = list(cases)
    for case in cases:
        streamed.add(case)
        assert len(streamed._cases) < 240
    assert streamed.cases() == whole.cases()
    assert streamed.seen == count
    found = streamed.cases()
    assert len(found) == min(count, 120)
    worst = sorted(cases, key=lambda case: (case.right, -case.badness))[:WORST]
    assert worst == found[: len(worst)]
    assert {case.cells for case in found} == {case.cells for case in cases}


def test_many_characters_are_fewer_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_file, "MOST_CHARACTERS", 10_000)
    held = Kept()
    for number in range(50):
        text = passage(f"{number:3}" + "a" * 997)
        held.add(Case(number, False, float(number), (), (text,), "a", "b"))
    assert [case.line for case in held.cases()] == list(range(49, 39, -1))


def test_a_text_stands_whole_in_its_pieces() -> None:
    for ticket in all_tickets()[:100]:
        marks = [SpanMark(one.start, one.end, "true", one.label) for one in ticket.names]
        marks += [SpanMark(one.start, one.end + 4, "predicted", "x") for one in ticket.names]
        one = passage(ticket.text, "", marks)
        assert shown(one) == ticket.text
        assert (one.before, one.after) == (0, 0)
        for name in ticket.names:
            inside = [piece.text for piece in one.pieces if "true" in piece.kinds]
            assert ticket.text[name.start : name.end] in "".join(inside)
        ending = [end for piece in one.pieces for end in piece.ending]
        assert sorted(ending) == sorted((mark.kind, mark.label) for mark in marks)


def test_of_a_long_text_the_part_with_the_first_mistake_is_shown() -> None:
    text = "".join(chr(ord("a") + number % 26) for number in range(20 * LONGEST))
    right, wrong = SpanMark(5, 9, "right"), SpanMark(15_000, 15_007, "true")
    one = passage(text, "", [right, wrong])
    assert one.size == LONGEST
    assert one.before == 15_000 - BEFORE
    assert one.before + one.size + one.after == len(text)
    assert shown(one) == text[one.before : one.before + LONGEST]
    assert [piece.text for piece in one.pieces if piece.kinds] == [text[15_000:15_007]]
    assert passage(text, "", [right]).before == 0
    assert passage(text).after == len(text) - LONGEST
    assert passage("").pieces == []


def test_rare_names_share_a_row() -> None:
    counts = {("a", "a"): 5, ("a", "c"): 1, ("d", "a"): 2, ("d", "c"): 7}
    right = frozenset({("a", "a"), ("d", "d")})
    table = CountTable(["a", "b"], ["a", "b"], counts, right, "true", "predicted")
    page = table.page()
    assert page["rows"] == page["columns"] == ["a", "b", OTHERS]
    assert page["counts"] == [[5, 0, 1], [0, 0, 0], [2, 0, 7]]
    assert page["right"] == [(0, 0)]
    assert table.place(("d", "c")) == (2, 2)


def test_the_most_frequent_labels_keep_their_order() -> None:
    true, predicted, both = np.array([[5.0, 1, 7, 0], [0, 1, 0, 3], [0, 0, 0, 0]])
    labels = ["z", "rare", "a", "b"]
    assert frequent(labels, LabelCounts(true, predicted, both), 3) == ["z", "a", "b"]
    assert frequent(labels, LabelCounts(true, predicted, both), 4) == labels


def test_coverage_and_precision_are_counted(seed: int) -> None:
    draw = np.random.default_rng(seed)
    confidences = draw.integers(1, 40, 300) / 40
    right = draw.random(300) < confidences
    answers = Answers()
    for confidence, is_right in zip(confidences, right, strict=True):
        answers.add(confidence, bool(is_right))
    curve = answers.curve()
    assert [threshold for *_, threshold in curve] == sorted(set(confidences), reverse=True)
    for coverage, precision, threshold in curve:
        given = confidences >= threshold
        assert (coverage, precision) == pytest.approx((given.mean(), right[given].mean()))
        shares = answers.above(threshold)
        assert [one.value for one in shares] == pytest.approx([coverage, precision])
    covered, right_of_none = answers.above(2.0)
    assert (covered.value, right_of_none.value) == (0, 0)
    many = Answers()
    many._confidences = array("d", draw.random(20_000))
    many._right = array("b", bytes(20_000))
    assert len(many.curve()) <= MOST_POINTS
    assert many.curve()[-1][0] == 1


def test_bins_add_up_to_the_calibration_error(seed: int) -> None:
    draw = random.Random(seed)
    found = Confidences()
    for _ in range(200):
        confidence = draw.uniform(0.3, 1.0)
        found.add(confidence, draw.random() < confidence)
    bins = found.bins
    assert sum(one.answers for one in bins) == 200
    gaps = [one.answers * abs(one.confidence - one.right.value) for one in bins]
    assert sum(gaps) / 200 == pytest.approx(found.error)
    assert all(one.low <= one.confidence <= one.high for one in bins)


def test_points_are_spread_over_the_truths() -> None:
    truths = np.array([3.0, 1, 2, 5, 4])
    assert sorted(spread_out(truths).tolist()) == [0, 1, 2, 3, 4]
    assert truths[spread_out(truths, 3)].tolist() == [1, 3, 5]


def tags(text: str, spans: tuple[Span, ...]) -> tuple[Tagged, list[str]]:
    """A text in its words, and their tags."""
    places = []
    start = 0
    for word in text.split(" "):
        places.append((start, start + len(word)))
        start += len(word) + 1
    tagged = Tagged(text, spans, tuple(places))
    return tagged, true_tags(tagged)


def test_types_add_up_to_the_counts_of_the_metrics(seed: int) -> None:
    draw = random.Random(seed)
    types = ["product", "place", "person"]
    report = SpanReport(EntityScoring(types))
    tally: Entities = report.tally
    for line, ticket in enumerate(all_tickets()):
        spans = tuple(Span(*name) for name in ticket.names)
        example, truth = tags(ticket.text, spans)
        said = [
            Span(one.start, one.end + draw.choice([0, 0, 5]), draw.choice([one.label, *types]))
            for one in spans
            if draw.random() < 0.8
        ]
        predicted = tags(ticket.text, (*said, Span(0, 1, draw.choice(types))))[1]
        graded = TokenTags(truth, predicted[: len(truth)], 0, example.tokens, 0)
        tally.add(graded.truth, graded.predicted)
        report.add(line, example, graded)
    true, predicted_sums, both = LabelCounts.of(tally.sums.totals[0], len(types))
    for number, name in enumerate(types):
        row = sum(count for (kind, _), count in report.counts.items() if kind == name)
        column = sum(count for (_, kind), count in report.counts.items() if kind == name)
        assert (row, column) == (true[number], predicted_sums[number])
        assert report.counts[name, name] == both[number]
        assert report.edges[name] <= row - both[number]
    assert sum(report.edges.values()) > 0


def test_a_span_without_a_word_is_named() -> None:
    graded = TokenTags(["O", "B-place"], ["O", "O"], 0, ((0, 3),), 0)
    case = SpanReport(EntityScoring(["place"])).case(1, Tagged("Oh!", (), ((0, 3),)), graded)
    assert case.notes == ("a true place without a word",)
    assert not case.right


@pytest.mark.parametrize(
    ("answers", "said", "cell", "right"),
    [
        (["Malmö"], "in Malmö", ("has an answer", "shares words"), False),
        (["Malmö"], "Malmö", ("has an answer", "exact"), True),
        (["Malmö"], "Lund", ("has an answer", "other words"), False),
        (["Malmö"], None, ("has an answer", "no answer"), False),
        ([], None, ("has no answer", "no answer"), True),
        ([], "Lund", ("has no answer", "other words"), False),
    ],
)
def test_an_answer_misses_in_one_way(
    answers: list[str], said: str | None, cell: tuple[str, str], right: bool
) -> None:
    context = "We met in Malmö and not in Lund."
    gold = tuple(GoldAnswer(one, context.index(one)) for one in answers)
    start = None if said is None else context.index(said)
    end = None if start is None else start + len(said or "")
    graded = QuestionAnswer(said, start, end, 0.5, 0.25, ())
    case = AnswerReport().case(1, Question("Where?", context, gold), graded)
    assert (case.cells, case.right) == ((cell,), right)
    marked = [piece.text for piece in case.passages[1].pieces if piece.kinds]
    assert set("".join(marked)) <= set("".join([*answers, said or ""]))


def test_notes_are_collected_whatever_the_host_logs() -> None:
    note("before")
    with collected() as said:
        note("during")
        with collected() as inner:
            note("inside")
        note("and after")
    note("behind")
    assert (said, inner) == (["during", "and after"], ["inside"])
