"""Metrics of classes: accuracy, F1 and Matthews' correlation.

K classes. Matthews' correlation for more than two classes is the R_K of "Comparing two K-category
assignments by a K-category correlation coefficient", Gorodkin, 2004; for two it is the usual one.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from firth.metrics.sums import Figures, Interval, Sums, Tally, ratio


class LabelCounts(NamedTuple):
    """How often each class is true, is predicted, and both, (..., K)."""

    true: Figures
    predicted: Figures
    both: Figures

    @classmethod
    def of(cls, sums: Figures, size: int) -> "LabelCounts":
        """Take the first 3 K sums apart."""
        true = sums[..., :size]
        predicted = sums[..., size : 2 * size]
        both = sums[..., 2 * size : 3 * size]
        return cls(true, predicted, both)

    def f1(self) -> Figures:
        """Return the F1 of each class (..., K)."""
        return ratio(2 * self.both, self.true + self.predicted)

    def macro_f1(self) -> Figures:
        """Return the mean of the classes' F1.

        A class that is neither true nor predicted anywhere is none of them, as in scikit-learn.
        """
        total = self.f1().sum(-1)
        occurs = (self.true + self.predicted) > 0
        return ratio(total, occurs.sum(-1))

    def micro_f1(self) -> Figures:
        """Return the F1 over all classes together."""
        true = self.true.sum(-1)
        predicted = self.predicted.sum(-1)
        right = self.both.sum(-1)
        return ratio(2 * right, true + predicted)

    def matthews(self, count: Figures) -> Figures:
        """Return Matthews' correlation over so many texts."""
        right = self.both.sum(-1)
        by_chance = (self.true * self.predicted).sum(-1)
        covariance = right * count - by_chance
        variance_predicted = count**2 - (self.predicted**2).sum(-1)
        variance_true = count**2 - (self.true**2).sum(-1)
        spread = np.sqrt(variance_predicted * variance_true)
        return ratio(covariance, spread)


class Classes(Tally):
    """One class for each text."""

    def __init__(self, labels: Sequence[str], positive: str | None = None) -> None:
        size = len(labels)
        self.labels = list(labels)
        self.number = {label: number for number, label in enumerate(labels)}
        # GLUE's F1 of two classes is that of the second, called 1 or yes.
        self.positive = size - 1
        if positive is not None:
            self.positive = self.number[positive]
        self.sums = Sums(3 * size + 1)

    def add(self, truth: str, answer: str | None) -> None:
        """Count one answer; None, or a class that isn't known, is a wrong one."""
        size = len(self.labels)
        figures = np.zeros(3 * size + 1)
        true = self.number.get(truth)
        predicted = None
        if answer is not None:
            predicted = self.number.get(answer)

        if true is not None:
            figures[true] = 1
        if predicted is not None:
            figures[size + predicted] = 1
            if predicted == true:
                figures[2 * size + predicted] = 1
        figures[-1] = 1
        self.sums.add(figures)

    def score(self, sums: Figures) -> dict[str, Figures]:
        """Return the metrics of sums."""
        return class_scores(sums, len(self.labels), self.positive)

    def scores(self) -> dict[str, Interval]:
        """Return each metric with its interval."""
        totals = self.sums.totals[0]
        counts = LabelCounts.of(totals, len(self.labels))
        right = counts.both.sum()
        accuracy = exact_share(right, totals[-1])
        return super().scores() | {"accuracy": accuracy}


def exact_share(part: float, whole: float) -> Interval:
    """Return a share of texts with its exact interval.

    Resampled sets of texts that are all right are all right too, and would say nothing.
    """
    # Imported here, because it needs scipy, which those who only count do without.
    from firth.metrics.decisions import share

    value, low, high = share(round(part), round(whole))
    return Interval(value, low, high)


def class_scores(sums: Figures, size: int, positive: int) -> dict[str, Figures]:
    """Return accuracy, macro F1, Matthews' correlation and, of two classes, F1 of the positive.

    The sums are, for each class, how often it is true, was predicted, and both; and the number of
    texts.
    """
    counts = LabelCounts.of(sums, size)
    texts = sums[..., -1]
    right = counts.both.sum(-1)
    found = {
        "accuracy": ratio(right, texts),
        "macro_f1": counts.macro_f1(),
        "matthews": counts.matthews(texts),
    }
    if size == 2:
        f1 = counts.f1()
        found["f1"] = f1[..., positive]
    return found


class LabelSets(Tally):
    """Any number of labels for each text."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = list(labels)
        self.sums = Sums(3 * len(labels) + 2)

    def add(self, truth: Collection[str], answer: Collection[str]) -> None:
        """Count one set of answers."""
        true = np.array([label in truth for label in self.labels], float)
        predicted = np.array([label in answer for label in self.labels], float)
        both = true * predicted
        exact = float(set(truth) == set(answer))
        figures = np.concatenate([true, predicted, both, [exact, 1.0]])
        self.sums.add(figures)

    def score(self, sums: Figures) -> dict[str, Figures]:
        """Return the metrics of sums."""
        return label_set_scores(sums, len(self.labels))

    def scores(self) -> dict[str, Interval]:
        """Return each metric with its interval."""
        right, texts = self.sums.totals[0, -2:]
        exact = exact_share(right, texts)
        return super().scores() | {"exact": exact}


def label_set_scores(sums: Figures, size: int) -> dict[str, Figures]:
    """Return micro and macro F1, and the share of texts whose labels are all right.

    The sums are, for each label, how often it is true, was predicted, and both; then the texts that
    are all right, and all texts.
    """
    counts = LabelCounts.of(sums, size)
    right = sums[..., -2]
    texts = sums[..., -1]
    return {
        "micro_f1": counts.micro_f1(),
        "macro_f1": counts.macro_f1(),
        "exact": ratio(right, texts),
    }
