"""Scores equal the published ones, their intervals hold what they promise, and memory doesn't grow."""

import tracemalloc

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from firth.evaluation.figures import named
from firth.metrics.classes import Classes, LabelSets
from firth.metrics.entities import Entities, Entity, entities
from firth.metrics.numbers import Numbers
from firth.metrics.sums import BLOCK, Interval, Sums, ratio

LABELS = ["billing", "delivery", "praise"]


def answers(seed: int, count: int, labels: list[str]) -> list[tuple[str, str]]:
    draw = np.random.default_rng(seed)
    truth = draw.choice(labels, count)
    said = np.where(draw.random(count) < 0.6, truth, draw.choice(labels, count))
    return list(zip(truth.tolist(), said.tolist(), strict=True))


@pytest.mark.parametrize("labels", [LABELS, ["no", "yes"]])
def test_classes_equal_scikit_learn(labels: list[str]) -> None:
    pairs = answers(1, 700, labels)
    scorer = Classes(labels)
    for truth, said in pairs:
        scorer.add(truth, said)
    truth, said = zip(*pairs, strict=True)
    found = scorer.sums.scores(scorer.score)
    assert found["accuracy"].value == pytest.approx(
        sklearn.metrics.accuracy_score(truth, said), abs=1e-12
    )
    assert found["matthews"].value == pytest.approx(
        sklearn.metrics.matthews_corrcoef(truth, said), abs=1e-12
    )
    assert found["macro_f1"].value == pytest.approx(
        sklearn.metrics.f1_score(truth, said, average="macro"), abs=1e-12
    )
    if len(labels) == 2:
        assert found["f1"].value == pytest.approx(
            sklearn.metrics.f1_score(truth, said, pos_label="yes"), abs=1e-12
        )
    for low_to_high in found.values():
        assert low_to_high.low < low_to_high.value < low_to_high.high


def test_a_class_that_never_occurs_changes_nothing() -> None:
    pairs = answers(1, 300, LABELS)
    one, more = Classes(LABELS), Classes([*LABELS, "weather"])
    for truth, said in pairs:
        one.add(truth, said)
        more.add(truth, said)
    assert one.scores() == more.scores()


def test_no_answer_is_a_wrong_answer() -> None:
    scorer = Classes(LABELS)
    scorer.add("praise", "praise")
    scorer.add("billing", None)
    scorer.add("billing", "a class that nobody knows")
    assert scorer.sums.scores(scorer.score)["accuracy"].value == pytest.approx(1 / 3)


def test_one_class_everywhere_has_no_correlation() -> None:
    scorer = Classes(["no", "yes"])
    for _ in range(10):
        scorer.add("no", "no")
    found = scorer.sums.scores(scorer.score)
    assert found["matthews"] == Interval(0.0, 0.0, 0.0)
    assert found["f1"].value == 0.0


def test_answers_that_are_all_right_have_an_exact_interval() -> None:
    classes, sets = Classes(["no", "yes"]), LabelSets(LABELS)
    for _ in range(40):
        classes.add("no", "no")
        sets.add(LABELS[:2], LABELS[:2])
    expected = scipy.stats.binomtest(40, 40).proportion_ci(0.95, "exact")
    assert classes.scores()["accuracy"] == pytest.approx((1.0, expected.low, 1.0))
    assert sets.scores()["exact"] == pytest.approx((1.0, expected.low, 1.0))


def test_label_sets_equal_scikit_learn() -> None:
    draw = np.random.default_rng(2)
    true, said = draw.random((300, 3)) < 0.4, draw.random((300, 3)) < 0.4
    scorer = LabelSets(LABELS)
    for a, b in zip(true, said, strict=True):
        scorer.add([LABELS[i] for i in np.flatnonzero(a)], [LABELS[i] for i in np.flatnonzero(b)])
    found = scorer.sums.scores(scorer.score)
    assert found["micro_f1"].value == pytest.approx(
        sklearn.metrics.f1_score(true, said, average="micro"), abs=1e-12
    )
    assert found["macro_f1"].value == pytest.approx(
        sklearn.metrics.f1_score(true, said, average="macro"), abs=1e-12
    )
    assert found["exact"].value == pytest.approx(
        sklearn.metrics.accuracy_score(true, said), abs=1e-12
    )


@pytest.mark.parametrize("far", [0.0, 1e7])
def test_numbers_equal_scipy(far: float) -> None:
    draw = np.random.default_rng(3)
    truth = np.round(draw.random(500) * 5, 1) + far  # with ties
    said = truth + draw.normal(size=500)
    scorer = Numbers()
    for a, b in zip(truth.tolist(), said.tolist(), strict=True):
        scorer.add(a, b)
    found = scorer.sums.scores(scorer.score)
    assert found["pearson"].value == pytest.approx(scipy.stats.pearsonr(truth, said)[0], abs=1e-9)
    assert found["mse"].value == pytest.approx(((truth - said) ** 2).mean(), rel=1e-9)
    rank = scorer.spearman()
    assert rank.value == pytest.approx(scipy.stats.spearmanr(truth, said)[0], abs=1e-12)
    assert rank.low < rank.value < rank.high


def test_numbers_without_spread_have_no_correlation() -> None:
    scorer = Numbers()
    for truth in (1.0, 2.0, 3.0):
        scorer.add(truth, 2.5)
    assert scorer.scores()["pearson"].value == 0.0
    assert scorer.spearman() == Interval(0.0, -1.0, 1.0)  # three pairs say nothing


@pytest.mark.parametrize("count", [4, 40])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_perfect_order_may_be_luck(count: int, sign: int) -> None:
    scorer = Numbers()
    for truth in range(count):
        scorer.add(float(truth), float(sign * truth**3))
    found = scorer.spearman()
    assert found.value == pytest.approx(sign)
    far, near = sorted((sign * found.low, sign * found.high))
    assert near == pytest.approx(1.0)
    assert far < {4: 0.0, 40: 0.9999}[count]


def test_ranks_are_compared_on_the_same_sets() -> None:
    draw = np.random.default_rng(9)
    truth = np.round(draw.random(400) * 5, 1)
    near, far = truth + draw.normal(size=400), truth + 3 * draw.normal(size=400)
    better, worse, same = Numbers(), Numbers(), Numbers()
    for a, b, c in zip(truth.tolist(), near.tolist(), far.tolist(), strict=True):
        better.add(a, b)
        worse.add(a, c)
        same.add(a, 2 * c + 7)  # in the same order
    gain = better.against(worse)["spearman"]
    assert gain.value == pytest.approx(better.spearman().value - worse.spearman().value, abs=1e-12)
    assert 0 < gain.low < gain.value < gain.high
    assert gain.chance < 0.01
    assert same.against(worse)["spearman"] == (0.0, 0.0, 0.0, 1.0)
    # Sets drawn with replacement, as most people would do it, spread as much.
    gaps = []
    for _ in range(300):
        chosen = draw.integers(0, 400, 400)
        gaps.append(
            np.subtract(
                *(scipy.stats.spearmanr(truth[chosen], said[chosen])[0] for said in (near, far))
            )
        )
    assert np.percentile(gaps, [2.5, 97.5]) == pytest.approx([gain.low, gain.high], abs=0.03)


# What conlleval.pl makes of well-formed and of broken tags.
@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O", []),
        ("B-PER I-PER O", [(0, 2, "PER")]),
        ("B-PER B-PER", [(0, 1, "PER"), (1, 2, "PER")]),
        ("I-PER I-PER", [(0, 2, "PER")]),  # IOB1, or broken IOB2: it begins all the same
        ("O I-LOC", [(1, 2, "LOC")]),
        ("B-PER I-LOC", [(0, 1, "PER"), (1, 2, "LOC")]),  # another type begins another entity
        ("B-PER O I-PER", [(0, 1, "PER"), (2, 3, "PER")]),
        ("I-PER B-PER I-PER", [(0, 1, "PER"), (1, 3, "PER")]),
        ("B-MISC I-MISC I-MISC", [(0, 3, "MISC")]),
        ("S-ORG B-ORG E-ORG O", [(0, 1, "ORG"), (1, 3, "ORG")]),  # IOBES
        ("U-ORG B-ORG I-ORG L-ORG U-ORG", [(0, 1, "ORG"), (1, 4, "ORG"), (4, 5, "ORG")]),  # BILOU
        ("E-PER E-PER", [(0, 1, "PER"), (1, 2, "PER")]),
        (
            "[-NP ]-NP",
            [(0, 1, "NP"), (1, 2, "NP")],
        ),  # the scorer's brackets are entities of one word
        ("B-NP ]-NP I-NP [-NP", [(0, 1, "NP"), (1, 2, "NP"), (2, 3, "NP"), (3, 4, "NP")]),
        ("U-ORG I-ORG", [(0, 1, "ORG"), (1, 2, "ORG")]),
        ("B-NP-SBJ I-NP-SBJ", [(0, 2, "NP-SBJ")]),  # the first hyphen parts letter and type
        ("", []),
    ],
)
def test_entities_are_conllevals(tags: str, expected: list[tuple[int, int, str]]) -> None:
    assert entities(tags.split()) == [Entity(*entity) for entity in expected]


def test_entity_scores_by_hand() -> None:
    scorer = Entities(["LOC", "MISC", "PER"])
    scorer.add(
        "B-PER I-PER O B-LOC".split(), "B-PER I-PER O B-PER".split()
    )  # 1 of 2 right, 1 wrong type
    scorer.add("O B-LOC I-LOC".split(), "O B-LOC O".split())  # wrong end
    found = scorer.scores()
    assert found["precision"].value == pytest.approx(1 / 3)
    assert found["recall"].value == pytest.approx(1 / 3)
    assert found["f1"].value == pytest.approx(1 / 3)
    assert found["f1 PER"].value == pytest.approx(2 / 3)
    assert found["f1 LOC"].value == 0.0
    assert found["accuracy"].value == pytest.approx(5 / 7)
    assert "f1 MISC" not in found  # neither true nor said


@given(st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B", "E-A", "S-B"]), max_size=12))
def test_entities_cover_just_the_words_with_a_name(tags: list[str]) -> None:
    covered = [place for entity in entities(tags) for place in range(entity.start, entity.end)]
    assert covered == [place for place, tag in enumerate(tags) if tag != "O"]
    for entity in entities(tags):
        assert {tag.partition("-")[2] for tag in tags[entity.start : entity.end]} == {entity.type}


def test_tags_of_different_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="can't be compared"):
        Entities(["A"]).add(["O"], ["O", "O"])


def test_an_interval_holds_the_truth_as_often_as_it_says() -> None:
    draw = np.random.default_rng(5)
    held, trials = 0, 300
    for trial in range(trials):
        sums = Sums(2, seed=trial)
        for right in draw.random(200) < 0.8:
            sums.add(np.array([float(right), 1.0]))
        found = sums.scores(lambda s: {"share": ratio(s[..., 0], s[..., 1])})["share"]
        held += found.low <= 0.8 <= found.high
    assert 0.91 <= held / trials <= 0.98  # 95 %, with the noise of 300 trials


def test_how_examples_come_changes_nothing() -> None:
    def tally(count: int, pauses: set[int]) -> np.ndarray:
        sums = Sums(1)
        for number in range(count):
            sums.add(np.array([float(number % 3)]))
            if number in pauses:
                _ = sums.totals
        return sums.totals

    assert (
        tally(2 * BLOCK + 7, set()) == tally(2 * BLOCK + 7, {0, 5, BLOCK - 1, BLOCK, 600})
    ).all()


def test_two_models_are_compared_on_the_same_sets() -> None:
    better, worse, same = Classes(LABELS), Classes(LABELS), Classes(LABELS)
    for number, (truth, said) in enumerate(answers(6, 400, LABELS)):
        worse.add(truth, said)
        same.add(truth, said)
        better.add(truth, truth if number % 10 == 0 else said)
    gain = better.against(worse)["accuracy"]
    assert gain.value > 0
    assert 0 < gain.low < gain.value < gain.high
    assert gain.chance < 0.01
    assert same.against(worse)["accuracy"] == (0.0, 0.0, 0.0, 1.0)
    turned = Classes([*reversed(LABELS), "weather"])
    for truth, said in answers(6, 400, LABELS):
        turned.add(truth, said)
    assert turned.against(worse)["matthews"].value == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match="same examples"):
        Classes(LABELS).against(worse)


def test_memory_does_not_grow_with_the_data() -> None:
    scorer = Classes(LABELS)
    for truth, said in answers(7, BLOCK * 4, LABELS):
        scorer.add(truth, said)
    tracemalloc.start()
    for truth, said in answers(8, BLOCK * 16, LABELS):
        scorer.add(truth, said)
    _ = scorer.sums.totals
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 3_000_000


def test_rare_labels_do_not_pull_the_interval_of_a_mean_away() -> None:
    """A label that a resampled set leaves out is none of its labels; no interval leaves its own score out."""
    names = [f"label {number}" for number in range(20)]
    perfect, useless = LabelSets(names), LabelSets(names)
    for name in names:
        perfect.add([name], [name])
        useless.add([name], [])
    assert perfect.scores()["macro_f1"] == Interval(1.0, 1.0, 1.0)
    gain = perfect.against(useless)["macro_f1"]
    assert gain.low <= gain.value <= gain.high
    assert gain.value == 1.0


def test_few_numbers_have_intervals_that_hold() -> None:
    """Of many sets of normal errors the mean squared error's interval has the truth in it nearly as often as it says."""
    trials, count = 150, 10
    draw = np.random.default_rng(count)
    held = chances = 0
    for _ in range(trials):
        one, other = Numbers(), Numbers()
        for _ in range(count):
            one.add(0.0, float(draw.normal()))
            other.add(0.0, float(draw.normal()))
        _, low, high = one.scores()["mse"]
        held += low <= 1.0 <= high
        chances += one.against(other)["mse"].chance < 0.05
    assert held >= 128  # 125 by the normal distribution
    assert chances <= 8  # 11 by it; 7.5 are due


def test_one_example_shows_no_difference() -> None:
    better, worse = Numbers(), Numbers()
    better.add(1.0, 1.0)
    worse.add(1.0, 3.0)
    assert better.against(worse)["mse"].chance == 1.0


def test_a_name_with_a_line_break_stays_on_its_line() -> None:
    assert named("f1", "två\nrader\t\\") == "f1 (två\\nrader\\t\\)"
    assert named("f1 B\rC", None) == "f1 B\\rC"
