"""When a classifier may decide alone: the share of texts on which it is right as often as is asked, and how sure that is."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_expit, log_softmax
from scipy.stats import beta

PRECISIONS = (0.90, 0.95, 0.98, 0.99)
LEVEL = 0.95  # of the intervals
ROUNDING, TINY = 1e-12, 1e-300
HEATS = np.linspace(-6.0, 6.0, 49)  # logarithms of temperatures that are looked at first
SLACK = 1e-5  # below the confidence of a text at the edge: the texts beside it in a batch move its last digits
Answer = tuple[
    frozenset[str], frozenset[str], float
]  # the labels that are true, those that were said, and the confidence


class Share(NamedTuple):
    """A count of a count, with its exact interval (Clopper and Pearson, 1934)."""

    value: float
    low: float
    high: float


class Decided(NamedTuple):
    """What is decided alone above a threshold of confidence."""

    precision: float  # asked for
    threshold: float | None  # None where no threshold reaches it
    decided: Share  # of all texts
    right: Share  # of those decided


class Sheet(NamedTuple):
    """What is decided alone at each precision: of all texts, and of those that are given each label."""

    all: list[Decided]
    labels: dict[str, list[Decided]]

    @classmethod
    def read(cls, page: dict[str, Any]) -> "Sheet":
        """From its page."""
        return cls(_read(page["all"]), {label: _read(row) for label, row in page["labels"].items()})

    def page(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "all": _page(self.all),
            "labels": {label: _page(row) for label, row in self.labels.items()},
        }


def _page(row: Sequence[Decided]) -> list[dict[str, Any]]:
    return [
        decided._asdict() | {"decided": decided.decided._asdict(), "right": decided.right._asdict()}
        for decided in row
    ]


def _read(row: Sequence[dict[str, Any]]) -> list[Decided]:
    return [
        Decided(one["precision"], one["threshold"], Share(**one["decided"]), Share(**one["right"]))
        for one in row
    ]


def share(part: int, whole: int) -> Share:
    """A share with its interval."""
    if whole == 0:
        return Share(0.0, 0.0, 1.0)
    tail = (1 - LEVEL) / 2
    low = float(beta.ppf(tail, part, whole - part + 1)) if part else 0.0
    high = float(beta.ppf(1 - tail, part + 1, whole - part)) if part < whole else 1.0
    return Share(part / whole, low, high)


def decide(confidences: Sequence[float], right: Sequence[bool], precision: float) -> Decided:
    """The lowest threshold above which answers are right as often as asked; texts of one confidence stand or fall together."""
    order = np.argsort(-np.asarray(confidences), kind="stable")
    sure, good = np.asarray(confidences, float)[order], np.cumsum(np.asarray(right, bool)[order])
    counts = np.arange(1, len(sure) + 1)
    last_of_its_kind = np.append(sure[1:] != sure[:-1], True) if len(sure) else np.zeros(0, bool)
    able = np.flatnonzero(last_of_its_kind & (good >= precision * counts * (1 - ROUNDING)))
    if not len(able):
        return Decided(precision, None, share(0, len(sure)), share(0, 0))
    at = int(able[-1])
    half_way = (sure[at] + sure[at + 1]) / 2 if at + 1 < len(sure) else 0.0
    threshold = float(max(half_way, sure[at] - SLACK))
    return Decided(precision, threshold, share(at + 1, len(sure)), share(int(good[at]), at + 1))


def sheet(
    answers: Sequence[Answer], labels: Sequence[str], precisions: Sequence[float] = PRECISIONS
) -> Sheet:
    """For all texts, and for those that are given each label, what can be decided alone at each precision."""
    each = {label: [answer for answer in answers if label in answer[1]] for label in labels}
    return Sheet(
        _row(answers, precisions), {label: _row(own, precisions) for label, own in each.items()}
    )


def _row(answers: Sequence[Answer], precisions: Sequence[float]) -> list[Decided]:
    return [
        decide([c for _, _, c in answers], [t == s for t, s, _ in answers], precision)
        for precision in precisions
    ]


def temperature(scores: NDArray[np.float64], truth: NDArray[np.int64]) -> float:
    """What to divide scores by so that confidence is right as often as it says ("On Calibration ...", Guo et al., 2017)."""
    slip = _slip(len(scores))
    target = np.full(scores.shape, slip / (scores.shape[1] - 1))
    target[np.arange(len(truth)), truth] = 1 - slip
    return _coolest(lambda heat: -float((target * log_softmax(scores / heat, axis=1)).sum()))


def label_temperature(scores: NDArray[np.float64], truth: NDArray[np.bool_]) -> float:
    """The same for any number of labels, where confidence is that all of a text's are right.

    It is their product, as if one said nothing of another; some of what that gets wrong the temperature mends too.
    """
    slip = _slip(len(scores))
    target = np.where(((scores > 0) == truth).all(1), 1 - slip, slip)

    def loss(heat: float) -> float:
        sure = np.minimum(log_expit(np.abs(scores) / heat).sum(1), -TINY)  # its logarithm
        return -float((target * sure + (1 - target) * np.log(-np.expm1(sure))).sum())

    return _coolest(loss)


def _slip(texts: int) -> float:
    """How often the next text is wrong where all of so many were right ("Probabilistic Outputs ...", Platt, 1999)."""
    return 1 / (texts + 2)


def _coolest(loss: Callable[[float], float]) -> float:
    best = min(HEATS, key=lambda logarithm: loss(np.exp(logarithm)))
    step = HEATS[1] - HEATS[0]
    found = minimize_scalar(
        lambda logarithm: loss(np.exp(logarithm)),
        bounds=(best - step, best + step),
        method="bounded",
    )
    return float(np.exp(found.x))


class Confidences:
    """How sure a model was and how often it was right, added up over bins of equal width as the answers come."""

    def __init__(self, bins: int = 10) -> None:
        self._bins = np.zeros((bins, 3))  # answers, confidence, right
        self._given = np.zeros(
            2, int
        )  # answers that the model was sure enough to give, and the right ones among them

    def add(self, confidence: float, right: bool, given: bool = True) -> None:
        """Count one answer."""
        self._bins[min(int(confidence * len(self._bins)), len(self._bins) - 1)] += (
            1,
            confidence,
            right,
        )
        self._given += (given, given and right)

    @property
    def mean(self) -> float:
        """How sure it was on average."""
        count, confidence, _ = self._bins.sum(0)
        return float(confidence / max(1.0, count))

    @property
    def error(self) -> float:
        """How far confidence lies from the share of right answers (ECE, "On Calibration ...", Guo et al., 2017)."""
        count, confidence, right = self._bins.T
        return float(np.abs(confidence - right).sum() / max(1.0, count.sum()))

    @property
    def given(self) -> Share:
        """The share of texts on which it was sure enough to answer."""
        return share(int(self._given[0]), int(self._bins[:, 0].sum()))

    @property
    def right(self) -> Share:
        """The share of right answers among those."""
        return share(int(self._given[1]), int(self._given[0]))
