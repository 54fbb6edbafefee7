"""Scores of classes: accuracy, F1 and Matthews' correlation.

K classes. Matthews' correlation for more than two classes is the R_K of "Comparing two K-category assignments by a K-category
correlation coefficient", Gorodkin, 2004; for two it is the usual one.
"""

from collections.abc import Collection, Sequence

import numpy as np

from firth.metrics.sums import Figures, Interval, Sums, Tally, ratio


class Classes(Tally):
    """One class for each text."""

    def __init__(self, labels: Sequence[str], positive: str | None = None) -> None:
        self.labels = list(labels)
        self.number = {label: number for number, label in enumerate(labels)}
        # GLUE's F1 of two classes is that of the second, called 1 or yes.
        self.positive = self.number[positive] if positive is not None else len(labels) - 1
        self.sums = Sums(3 * len(labels) + 1)

    def add(self, truth: str, answer: str | None) -> None:
        """Count one answer; None, or a class that isn't known, is a wrong one."""
        size = len(self.labels)
        figures = np.zeros(3 * size + 1)
        right = self.number.get(truth)
        said = None if answer is None else self.number.get(answer)
        if right is not None:
            figures[right] = 1  # true
        if said is not None:
            figures[size + said] = 1  # said
            if said == right:
                figures[2 * size + said] = 1  # both
        figures[-1] = 1
        self.sums.add(figures)

    def score(self, sums: Figures) -> dict[str, Figures]:
        """The scores of sums."""
        return class_scores(sums, len(self.labels), self.positive)

    def scores(self) -> dict[str, Interval]:
        """Each score with its interval."""
        size, totals = len(self.labels), self.sums.totals[0]
        return super().scores() | {
            "accuracy": _exact(totals[2 * size : 3 * size].sum(), totals[-1])
        }


def _exact(part: float, whole: float) -> Interval:
    """A share of texts with its exact interval; resampled sets of texts that are all right are all right too."""
    from firth.metrics.decisions import share  # with scipy, which those who only count do without

    return Interval(*share(round(part), round(whole)))


def class_scores(sums: Figures, size: int, positive: int) -> dict[str, Figures]:
    """Accuracy, F1 of the positive class where there are two, the mean F1 of the classes that occur, and Matthews' correlation.

    The sums are, for each class, how often it is true, was said, and both; and the number of texts.
    """
    true, said, both = sums[..., :size], sums[..., size : 2 * size], sums[..., 2 * size : 3 * size]
    count = sums[..., -1]
    product = both.sum(-1) * count - (true * said).sum(-1)
    spread = np.sqrt((count**2 - (said**2).sum(-1)) * (count**2 - (true**2).sum(-1)))
    macro = _mean_f1(true, said, both)
    found = {
        "accuracy": ratio(both.sum(-1), count),
        "macro_f1": macro,
        "matthews": ratio(product, spread),
    }
    own = ratio(2 * both[..., positive], true[..., positive] + said[..., positive])
    return found | ({"f1": own} if size == 2 else {})


class LabelSets(Tally):
    """Any number of labels for each text."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = list(labels)
        self.sums = Sums(3 * len(labels) + 2)

    def add(self, truth: Collection[str], answer: Collection[str]) -> None:
        """Count one set of answers."""
        true = np.array([label in truth for label in self.labels], float)
        said = np.array([label in answer for label in self.labels], float)
        self.sums.add(
            np.concatenate([true, said, true * said, [float(set(truth) == set(answer)), 1.0]])
        )

    def score(self, sums: Figures) -> dict[str, Figures]:
        """The scores of sums."""
        return label_set_scores(sums, len(self.labels))

    def scores(self) -> dict[str, Interval]:
        """Each score with its interval."""
        return super().scores() | {"exact": _exact(*self.sums.totals[0, -2:])}


def label_set_scores(sums: Figures, size: int) -> dict[str, Figures]:
    """Micro and macro F1, and the share of texts whose labels are all right; the mean is over the labels that occur.

    The sums are, for each label, how often it is true, was said, and both; then the texts that are all right, and all texts.
    """
    true, said, both = sums[..., :size], sums[..., size : 2 * size], sums[..., 2 * size : 3 * size]
    micro = ratio(2 * both.sum(-1), true.sum(-1) + said.sum(-1))
    macro = _mean_f1(true, said, both)
    return {"micro_f1": micro, "macro_f1": macro, "exact": ratio(sums[..., -2], sums[..., -1])}


def _mean_f1(true: Figures, said: Figures, both: Figures) -> Figures:
    """The mean of the F1 of each class; one that is neither true nor said anywhere is none of them, as in scikit-learn."""
    return ratio(ratio(2 * both, true + said).sum(-1), ((true + said) > 0).sum(-1))
