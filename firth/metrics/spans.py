"""Exact match and F1 of answers to questions, by the rules of SQuAD 2.0's evaluation.

Case, ASCII punctuation, the words a, an and the, and white space don't count. Of several true
answers the best counts. Where one is empty, and so where a question has no answer, both figures
say whether both are. ("Know What You Don't Know", Rajpurkar, Jia and Liang, 2018.)
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from firth.metrics.classes import exact_share
from firth.metrics.sums import Difference, Figures, Interval, Sums, Tally, ratio

T = TypeVar("T", Interval, Difference)

ARTICLES = re.compile(r"\b(?:a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)
FURTHEST = 1e6  # of a margin from 0
PARTS = ("has_answer_exact", "has_answer_f1", "no_answer_accuracy")
HALF = 3  # exact, F1 and count
SIZE = 2 * HALF  # of questions with an answer and of those without


def bare_answer(text: str) -> str:
    """Return what counts of an answer."""
    plain = text.lower().translate(PUNCTUATION)
    words = ARTICLES.sub(" ", plain).split()
    return " ".join(words)


def gold_answers(answers: Sequence[str]) -> list[str]:
    """Return what counts of the true answers; where nothing does, the answer is to be empty."""
    found = [bare for bare in map(bare_answer, answers) if bare]
    return found or [""]


def exact_match(answers: Sequence[str], said: str) -> float:
    """Return 1 where what was said is a true answer, else 0."""
    is_right = bare_answer(said) in gold_answers(answers)
    return float(is_right)


def answer_f1(answers: Sequence[str], said: str) -> float:
    """Return the F1 of the words that what was said shares with the nearest true answer."""
    words = bare_answer(said).split()
    scores = [_word_f1(answer.split(), words) for answer in gold_answers(answers)]
    return max(scores)


def _word_f1(truth: Sequence[str], said: Sequence[str]) -> float:
    """Return the F1 of the words that two answers share, a word as often as both have it."""
    if not truth or not said:
        return float(truth == said)
    shared = (Counter(truth) & Counter(said)).total()
    return 2 * shared / (len(truth) + len(said))


class AnswerTally(Tally):
    """Adds up answers to questions, those with an answer and those without apart."""

    def __init__(self) -> None:
        self.sums = Sums(SIZE)

    def add(self, answers: Sequence[str], said: str | None) -> None:
        """Count an answer; None says that there is none."""
        text = said or ""
        exact = exact_match(answers, text)
        f1 = answer_f1(answers, text)
        figures = np.zeros(SIZE)
        if answers:
            figures[:HALF] = [exact, f1, 1]
        else:
            figures[HALF:] = [exact, f1, 1]
        self.sums.add(figures)

    def score(self, sums: Figures) -> dict[str, Figures]:
        """Return exact match and F1 of all and of questions with an answer, and of the others."""
        answered = sums[..., :HALF]
        others = sums[..., HALF:]
        every = answered + others
        exact, f1 = _means(every)
        answered_exact, answered_f1 = _means(answered)
        others_exact, _ = _means(others)
        return {
            "exact": exact,
            "f1": f1,
            "has_answer_exact": answered_exact,
            "has_answer_f1": answered_f1,
            "no_answer_accuracy": others_exact,
        }

    def scores(self) -> dict[str, Interval]:
        """Return each metric with its interval; parts only where there are questions of both."""
        found = super().scores()
        answered = self.sums.totals[0, :HALF]
        others = self.sums.totals[0, HALF:]
        # Exact match is a share of questions, whose interval is exact.
        shares = {
            "exact": answered + others,
            "has_answer_exact": answered,
            "no_answer_accuracy": others,
        }
        for name, (exact, _, count) in shares.items():
            if count:
                found[name] = exact_share(exact, count)
        return self._with_parts(found)

    def against(self, other: Tally) -> dict[str, Difference]:
        """Return how much higher each metric is than another model's on the same questions."""
        return self._with_parts(super().against(other))

    def _with_parts(self, found: dict[str, T]) -> dict[str, T]:
        """Leave out the parts where all questions have an answer, or none has."""
        totals = self.sums.totals[0]
        _, _, answered = totals[:HALF]
        _, _, others = totals[HALF:]
        if answered and others:
            return found
        return {name: value for name, value in found.items() if name not in PARTS}


def _means(sums: Figures) -> tuple[Figures, Figures]:
    """Return mean exact match and mean F1 from sums (rows, 3), the first of which is of all.

    A resampled set that has no such question says nothing of them: it is taken as the whole.
    """
    count = sums[:, 2]
    exact = ratio(sums[:, 0], count)
    f1 = ratio(sums[:, 1], count)
    none = count == 0
    return np.where(none, exact[0], exact), np.where(none, f1[0], f1)


def best_threshold(margins: Figures, answered: Figures, silent: Figures) -> float:
    """Return the margin below which no answer is best, by the mean of some metric.

    A margin is how much more likely an answer is than none; `answered` is the metric of a question
    where it is given, `silent` where it is not.
    """
    margins = np.clip(margins, -FURTHEST, FURTHEST)  # an empty context has no answer at all
    order = np.argsort(margins, kind="stable")
    ordered = margins[order]
    gain_of_each = (silent - answered)[order]
    gains = np.cumsum(gain_of_each)  # of no answer up to a margin, against always answering

    # Between equal margins there is no threshold.
    is_below_next = ordered[1:] > ordered[:-1]
    has_threshold = np.append(is_below_next, True)
    gains = np.where(has_threshold, gains, -np.inf)

    best = int(gains.argmax())
    if gains[best] <= 0:
        return float(ordered[0]) - 1.0  # always answer
    if best + 1 == len(ordered):
        return float(ordered[-1]) + 1.0  # never answer
    next_margin = ordered[best + 1]
    return float(ordered[best] + next_margin) / 2
