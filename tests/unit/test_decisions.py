"""What a classifier may decide alone is what held-out texts say, and confidence means what it says after calibration."""

import json

import numpy as np
import pytest
from scipy.stats import binomtest

from firth.metrics.decisions import (
    PRECISIONS,
    SLACK,
    Confidences,
    Sheet,
    decide,
    label_temperature,
    share,
    sheet,
    temperature,
)


@pytest.mark.parametrize(("part", "whole"), [(0, 10), (3, 10), (10, 10), (95, 100), (1, 1)])
def test_intervals_are_exact(part: int, whole: int) -> None:
    found, expected = share(part, whole), binomtest(part, whole).proportion_ci(0.95, "exact")
    assert found == pytest.approx((part / whole, expected.low, expected.high), abs=1e-9)


def test_the_threshold_by_hand() -> None:
    confidences = [0.99, 0.9, 0.8, 0.7, 0.6, 0.5]
    right = [True, True, False, True, True, False]
    found = decide(confidences, right, 0.8)
    assert found.threshold == pytest.approx(0.6, abs=SLACK)  # 4 of 5
    assert found.decided.value == pytest.approx(5 / 6)
    assert found.right.value == pytest.approx(4 / 5)
    assert decide(confidences, right, 0.99).threshold == pytest.approx(0.9, abs=SLACK)
    assert decide([0.9, 0.8], [False, True], 0.9).threshold is None
    assert decide([], [], 0.9).threshold is None


def test_equal_confidences_stand_or_fall_together() -> None:
    assert decide([0.9, 0.9, 0.9, 0.8], [True, True, False, True], 0.9).threshold is None
    assert decide([0.9, 0.9, 0.9, 0.8], [True, True, False, True], 0.7).threshold == pytest.approx(
        0.8, abs=SLACK
    )


def test_the_threshold_leaves_room_for_the_last_digits() -> None:
    """Beside other texts in a batch the same text's confidence differs by some millionths: it is decided all the same."""
    found = decide([0.9, 0.7, 0.6], [True, True, False], 0.95).threshold
    assert found is not None
    assert 0.7 - 2e-5 < found < 0.7 - 5e-6
    close = decide([0.9, 0.7000010, 0.7], [True, True, False], 0.95).threshold
    assert close == pytest.approx(0.7000005, abs=1e-9)  # half way to the next text, which was wrong


def test_what_is_promised_is_kept_on_the_texts_it_was_found_on() -> None:
    draw = np.random.default_rng(1)
    confidences = draw.random(500)
    right = draw.random(500) < confidences
    for precision in PRECISIONS:
        found = decide(confidences.tolist(), right.tolist(), precision)
        if found.threshold is not None:
            chosen = confidences >= found.threshold
            assert right[chosen].mean() >= precision
            assert found.decided.value == pytest.approx(chosen.mean())


def test_a_sheet_has_a_row_for_all_and_for_each_class() -> None:
    a, b = frozenset("a"), frozenset("b")
    found = sheet([(a, a, 0.9), (b, b, 0.8), (a, b, 0.7)], ["a", "b"])
    assert list(found.labels) == ["a", "b"]
    assert found.labels["a"][0].threshold == pytest.approx(0.9, abs=SLACK)
    assert found.labels["b"][0].threshold == pytest.approx(0.8, abs=SLACK)
    assert found.all[0].decided.value == pytest.approx(2 / 3)


def test_a_class_called_all_has_a_row_of_its_own_and_a_page_gives_the_sheet_back() -> None:
    every, none = frozenset({"all"}), frozenset({"none"})
    found = sheet([(every, every, 0.9), (none, every, 0.8), (none, none, 0.7)], ["all", "none"])
    assert found.labels["all"][0].decided.value == pytest.approx(1 / 2)
    assert found.all[0].decided.value == pytest.approx(1 / 3)
    assert Sheet.read(json.loads(json.dumps(found.page()))) == found


def test_a_text_with_several_labels_is_in_the_row_of_each() -> None:
    both, one = frozenset({"a", "b"}), frozenset({"a"})
    found = sheet(
        [(both, both, 0.9), (one, one, 0.8), (one, both, 0.7), (frozenset(), frozenset(), 0.6)],
        ["a", "b"],
    )
    assert found.all[0].threshold == pytest.approx(
        0.8, abs=SLACK
    )  # the set of labels is right as a whole or wrong
    assert found.labels["a"][0].decided.value == pytest.approx(2 / 3)
    assert found.labels["b"][0].decided.value == pytest.approx(1 / 2)


def test_texts_that_are_all_right_do_not_make_it_sure_beyond_them() -> None:
    truth = np.arange(40) % 3
    scores = 2.0 * np.eye(3)[truth]
    shares = np.exp(scores / temperature(scores, truth))
    assert (shares.max(1) / shares.sum(1)) == pytest.approx(
        1 - 1 / 42, abs=1e-3
    )  # the next text, Platt's 1 of 42, may be wrong
    has = np.eye(3)[truth] > 0
    heat = label_temperature(np.where(has, 2.0, -2.0), has)
    assert (1 / (1 + np.exp(-2.0 / heat))) ** 3 == pytest.approx(
        1 - 1 / 42, abs=1e-3
    )  # all three labels of it


@pytest.mark.parametrize("labels", [1, 8, 40])
def test_confidence_in_several_labels_is_how_often_all_are_right(labels: int) -> None:
    draw = np.random.default_rng(labels)
    for texts, near in ((4000, 0.02), (60, 0.15)):
        honest = draw.normal(size=(texts, labels)) * 4
        truth = draw.random((texts, labels)) < 1 / (1 + np.exp(-honest))
        heat = label_temperature(5 * honest, truth)
        shares = 1 / (1 + np.exp(-np.abs(5 * honest) / heat))
        assert shares.prod(1).mean() == pytest.approx(
            ((honest > 0) == truth).all(1).mean(), abs=near
        )


def test_a_share_of_exactly_the_precision_is_enough() -> None:
    assert decide([0.9] * 100, [True] * 55 + [False] * 45, 0.55).decided.value == 1.0
    assert decide([0.9] * 100, [True] * 54 + [False] * 46, 0.55).threshold is None


def test_labels_that_are_each_for_themselves_have_a_temperature() -> None:
    draw = np.random.default_rng(4)
    honest = draw.normal(size=(4000, 3)) * 2
    truth = draw.random((4000, 3)) < 1 / (1 + np.exp(-honest))
    assert label_temperature(honest, truth) == pytest.approx(1.0, abs=0.1)
    assert label_temperature(honest * 3, truth) == pytest.approx(3.0, abs=0.3)


def test_a_temperature_undoes_what_made_scores_too_bold() -> None:
    draw = np.random.default_rng(2)
    honest = draw.normal(size=(4000, 3)) * 2
    shares = np.exp(honest) / np.exp(honest).sum(1, keepdims=True)
    truth = np.array([draw.choice(3, p=row) for row in shares])
    assert temperature(honest, truth) == pytest.approx(1.0, abs=0.1)
    assert temperature(honest * 3, truth) == pytest.approx(3.0, abs=0.3)
    bold = np.exp(honest * 3) / np.exp(honest * 3).sum(1, keepdims=True)
    right = shares.argmax(1) == truth
    assert confidences(bold.max(1), right).error > 0.1
    assert confidences(shares.max(1), right).error < 0.04


def confidences(sure: np.ndarray, right: np.ndarray, threshold: float = 0.0) -> Confidences:
    found = Confidences()
    for one, good in zip(sure.tolist(), right.tolist(), strict=True):
        found.add(one, good, one >= threshold)
    return found


def test_confidence_by_hand() -> None:
    found = confidences(np.array([0.95, 0.97, 0.55, 1.0]), np.array([True, False, True, True]), 0.9)
    # Three in the last bin, sure by 2.92 and right twice; one in the sixth.
    assert found.error == pytest.approx((2.92 - 2 + 1 - 0.55) / 4)
    assert found.mean == pytest.approx(3.47 / 4)
    assert found.given == share(3, 4)
    assert found.right == share(2, 3)
