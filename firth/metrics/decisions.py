"""Decision thresholds and calibration: which share of texts a classifier may decide alone.

A threshold of confidence is chosen so that the answers above it are right as often as is asked (the
target precision); the share of texts above it is the coverage.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_expit, log_softmax
from scipy.stats import beta

PRECISIONS = (0.90, 0.95, 0.98, 0.99)
LEVEL = 0.95  # of the intervals
ROUNDING = 1e-12
TINY = 1e-300
LOG_TEMPERATURES = np.linspace(-6.0, 6.0, 49)  # that are looked at first
# Below the confidence of a text at the edge: the texts beside it in a batch move its last digits.
SLACK = 1e-5
Logits = NDArray[np.float64]
# The labels that are true, those that were predicted, and the confidence.
GradedAnswer = tuple[frozenset[str], frozenset[str], float]


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
    """What is decided alone at each precision: of all texts, and of those given each label."""

    all: list[Decided]
    labels: dict[str, list[Decided]]

    @classmethod
    def read(cls, page: dict[str, Any]) -> "Sheet":
        """Read what `page` gave."""
        labels = {}
        for label, row in page["labels"].items():
            labels[label] = _read(row)
        return cls(_read(page["all"]), labels)

    def threshold(self, precision: float) -> float | None:
        """Return the lowest threshold at which held-out answers were right at least so often.

        None where no threshold of the sheet reaches it.
        """
        right = [decided for decided in self.all if decided.precision >= precision]
        able = [decided.threshold for decided in right if decided.threshold is not None]
        return min(able, default=None)

    def page(self) -> dict[str, Any]:
        """Return the sheet as JSON has it."""
        labels = {label: _page(row) for label, row in self.labels.items()}
        return {"all": _page(self.all), "labels": labels}


def _page(row: Sequence[Decided]) -> list[dict[str, Any]]:
    pages = []
    for decided in row:
        page = decided._asdict()
        page["decided"] = decided.decided._asdict()
        page["right"] = decided.right._asdict()
        pages.append(page)
    return pages


def _read(row: Sequence[dict[str, Any]]) -> list[Decided]:
    found = []
    for page in row:
        precision = page["precision"]
        threshold = page["threshold"]
        decided = Share(**page["decided"])
        right = Share(**page["right"])
        found.append(Decided(precision, threshold, decided, right))
    return found


def share(part: int, whole: int) -> Share:
    """Return a share with its interval."""
    if whole == 0:
        return Share(0.0, 0.0, 1.0)

    # Quantiles of beta distributions, of which there is none below no answer or above them all.
    tail = (1 - LEVEL) / 2
    rest = whole - part
    low = 0.0
    if part:
        low = float(beta.ppf(tail, part, rest + 1))
    high = 1.0
    if rest > 0:
        high = float(beta.ppf(1 - tail, part + 1, rest))
    return Share(part / whole, low, high)


def decide(confidences: Sequence[float], right: Sequence[bool], precision: float) -> Decided:
    """Return the lowest threshold above which answers are right as often as asked.

    Texts of one confidence stand or fall together.
    """
    count = len(confidences)
    nothing = share(0, 0)
    if not count:
        return Decided(precision, None, nothing, nothing)

    given = np.asarray(confidences, float)
    order = np.argsort(-given, kind="stable")  # the surest first
    sure = given[order]
    rights = np.cumsum(np.asarray(right, bool)[order])

    texts = np.arange(1, count + 1)
    needed = precision * texts * (1 - ROUNDING)
    changes = sure[1:] != sure[:-1]
    last_of_its_confidence = np.append(changes, True)
    able = np.flatnonzero(last_of_its_confidence & (rights >= needed))
    if not len(able):
        return Decided(precision, None, share(0, count), nothing)

    # Half way to the next text, but hardly below the last that is decided.
    last = int(able[-1])
    half_way = 0.0
    if last + 1 < count:
        half_way = (sure[last] + sure[last + 1]) / 2
    threshold = float(max(half_way, sure[last] - SLACK))

    decided = last + 1
    return Decided(
        precision,
        threshold,
        decided=share(decided, count),
        right=share(int(rights[last]), decided),
    )


def sheet(
    answers: Sequence[GradedAnswer], labels: Sequence[str], precisions: Sequence[float] = PRECISIONS
) -> Sheet:
    """Return what can be decided alone at each precision, of all texts and of each label's."""
    rows = {}
    for label in labels:
        own = [answer for answer in answers if label in answer[1]]
        rows[label] = _row(own, precisions)
    all_labels = _row(answers, precisions)
    return Sheet(all_labels, rows)


def _row(answers: Sequence[GradedAnswer], precisions: Sequence[float]) -> list[Decided]:
    confidences = [confidence for _, _, confidence in answers]
    right = [true == predicted for true, predicted, _ in answers]
    return [decide(confidences, right, precision) for precision in precisions]


def temperature(
    scores: Sequence[NDArray[np.float64]] | NDArray[np.float64],
    truth: Sequence[int] | NDArray[np.int64],
) -> float:
    """Return what to divide logits by so that confidence is right as often as it says.

    Texts may have different numbers of classes. "On Calibration of Modern Neural Networks", Guo et
    al., 2017.
    """
    slip = _slip(len(scores))
    sizes = np.array([len(row) for row in scores])
    there = np.arange(sizes.max()) < sizes[:, None]  # (texts, most classes)
    padded = np.full(there.shape, -np.inf)
    padded[there] = np.concatenate(list(scores))
    target = np.where(there, slip / (sizes[:, None] - 1), 0.0)
    target[np.arange(len(truth)), truth] = 1 - slip

    def loss(temperature: float) -> float:
        shares = np.where(there, log_softmax(padded / temperature, axis=1), 0.0)
        return -float((target * shares).sum())

    return _best_temperature(loss)


def label_temperature(scores: Logits, truth: NDArray[np.bool_]) -> float:
    """Return the same for any number of labels, where confidence is that all of a text's are right.

    It is the product of theirs, as if one said nothing of another; some of what that gets wrong the
    temperature mends too.
    """
    slip = _slip(len(scores))
    predicted = scores > 0
    all_right = (predicted == truth).all(1)
    target = np.where(all_right, 1 - slip, slip)
    distance = np.abs(scores)  # from the edge between yes and no

    def loss(temperature: float) -> float:
        log_sure = log_expit(distance / temperature).sum(1)
        # A text that is wholly sure would have no logarithm of its doubt.
        log_sure = np.minimum(log_sure, -TINY)
        log_unsure = np.log(-np.expm1(log_sure))
        log_likelihood = target * log_sure + (1 - target) * log_unsure
        return -float(log_likelihood.sum())

    return _best_temperature(loss)


def _slip(texts: int) -> float:
    """Return how often the next text is wrong where all of so many were right.

    Without it a model that makes no mistake on these texts would be given a temperature of 0
    ("Probabilistic Outputs for Support Vector Machines", Platt, 1999).
    """
    return 1 / (texts + 2)


def _best_temperature(loss: Callable[[float], float]) -> float:
    """Return the temperature of the lowest loss: the best of a grid, then the best beside it."""

    def log_loss(log_temperature: float) -> float:
        return loss(np.exp(log_temperature))

    best = min(LOG_TEMPERATURES, key=log_loss)
    step = LOG_TEMPERATURES[1] - LOG_TEMPERATURES[0]
    around = (best - step, best + step)
    found = minimize_scalar(log_loss, bounds=around, method="bounded")
    return float(np.exp(found.x))


class Bin(NamedTuple):
    """Answers whose confidence is between two bounds."""

    low: float
    high: float
    answers: int
    confidence: float  # on average
    right: Share


class Confidences:
    """How sure a model was and how often it was right, added up in bins of equal width."""

    def __init__(self, bins: int = 10) -> None:
        self._bins = np.zeros((bins, 3))  # answers, confidence, right
        self._given = 0  # answers that the model was sure enough to give
        self._given_right = 0  # and the right ones among them

    def add(self, confidence: float, right: bool, given: bool = True) -> None:
        """Count one answer."""
        bins = len(self._bins)
        own = min(int(confidence * bins), bins - 1)
        self._bins[own] += (1, confidence, right)
        self._given += given
        self._given_right += given and right

    @property
    def bins(self) -> list[Bin]:
        """The bins in which there is an answer, the least confident first."""
        found = []
        bins = len(self._bins)
        for number, (count, confidence, right) in enumerate(self._bins.tolist()):
            if count:
                rights = share(int(right), int(count))
                mean = confidence / count
                found.append(Bin(number / bins, (number + 1) / bins, int(count), mean, rights))
        return found

    @property
    def mean(self) -> float:
        """How sure it was on average."""
        count, confidence, _ = self._bins.sum(0)
        return float(confidence / max(1.0, count))

    @property
    def error(self) -> float:
        """Expected calibration error: how far confidence lies from the share of right answers.

        "On Calibration of Modern Neural Networks", Guo et al., 2017.
        """
        count, confidence, right = self._bins.T
        gaps = np.abs(confidence - right)
        answers = max(1.0, count.sum())
        return float(gaps.sum() / answers)

    @property
    def given(self) -> Share:
        """The share of texts on which it was sure enough to answer."""
        count, _, _ = self._bins.sum(0)
        return share(self._given, int(count))

    @property
    def right(self) -> Share:
        """The share of right answers among those."""
        return share(self._given_right, self._given)
