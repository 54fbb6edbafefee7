"""What a classifier may decide alone: coverage by precision, and the thresholds that are stored."""

from array import array
from typing import Any

import numpy as np

from firth.evaluation.thresholds import stored_sheet
from firth.metrics.decisions import Decided, Share, share
from firth.pages.page import PageSection
from firth.tasks.classify import UNSURE

MOST_POINTS = 300  # of the curve


class Answers:
    """How sure a model was of each answer and whether it was right, nine bytes an answer."""

    def __init__(self) -> None:
        self._confidences = array("d")
        self._right = array("b")

    def add(self, confidence: float, right: bool) -> None:
        """Note an answer."""
        self._confidences.append(confidence)
        self._right.append(right)

    def above(self, threshold: float) -> tuple[Share, Share]:
        """Return the share of answers that are as sure, and the share of right ones among them."""
        confidences = np.array(self._confidences)
        given = confidences >= threshold
        right = np.array(self._right, bool) & given
        decided = int(given.sum())
        return share(decided, len(confidences)), share(int(right.sum()), decided)

    def curve(self) -> list[tuple[float, float, float]]:
        """Return coverage, precision and threshold, from the surest answer to all of them."""
        confidences = np.array(self._confidences)
        order = np.argsort(-confidences, kind="stable")
        sure = confidences[order]
        given = np.arange(1, len(sure) + 1)
        precision = np.cumsum(np.array(self._right)[order]) / given
        # Answers of one confidence stand or fall together.
        ends = np.flatnonzero(np.append(sure[1:] != sure[:-1], True))
        chosen = np.unique(np.linspace(0, len(ends) - 1, MOST_POINTS).round().astype(int))
        shown = ends[chosen]
        coverage = given[shown] / len(sure)
        columns = (coverage.tolist(), precision[shown].tolist(), sure[shown].tolist())
        return list(zip(*columns, strict=True))


def thresholds_section(answers: Answers, model: str, own: float) -> PageSection:
    """Return coverage by precision, with the folder's thresholds; `own` is the one that it uses."""
    rows = _stored(answers, model)
    if own:
        rows.append(_row(answers, "without --target-precision", own, None))
    data = {"curve": answers.curve(), "thresholds": rows}
    return PageSection("thresholds", "Coverage against precision", data)


def _stored(answers: Answers, model: str) -> list[dict[str, Any]]:
    """Return the thresholds by which `firth predict --target-precision` answers."""
    sheet = stored_sheet(model)
    if sheet is None or UNSURE in sheet.labels:
        return []
    rows = []
    for asked in sheet.all:
        threshold = sheet.threshold(asked.precision)
        found = next(one for one in sheet.all if one.threshold == threshold)
        name = f"--target-precision {asked.precision:g}"
        rows.append(_row(answers, name, threshold, found))
    return rows


def _row(
    answers: Answers, name: str, threshold: float | None, held_out: Decided | None
) -> dict[str, Any]:
    """Return what is decided alone above a threshold: on the texts that it is from, and here."""
    row: dict[str, Any] = {"name": name, "threshold": threshold, "heldOut": None, "here": None}
    if threshold is None:
        return row
    coverage, precision = answers.above(threshold)
    row["here"] = [coverage, precision if coverage.value else None]
    if held_out is not None:
        row["heldOut"] = [held_out.decided, held_out.right]
    return row
