"""Judge models on held-out examples: calibrate them, measure them, and fill the decision sheet."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from firth.data.examples import Example
from firth.data.window import Long
from firth.evaluation.figures import Scores
from firth.evaluation.thresholds import choose_threshold
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.metrics.decisions import PRECISIONS, Sheet, sheet
from firth.metrics.numbers import FEWEST
from firth.predictor import Predictor
from firth.tasks.trained import Scoring, TrainedTask

CORRELATIONS = ("pearson", "spearman")


class HeldOut(NamedTuple):
    """A model, or its folder, and examples that it was not trained on."""

    model: Bundle | Path
    examples: Sequence[Example]


class Judgement(NamedTuple):
    """How good a model is on held-out examples."""

    scores: Scores
    sheet: Sheet | None  # for classes and labels: what it may decide alone
    positive: str | None  # the class that `f1` is of, where there are two
    calibrated: dict[str, float]  # settings that make confidences true
    settings: dict[str, float]  # these and the threshold, for the model that is kept


class Judge:
    """Measures models of one task by the answers that a user would get.

    Several models with examples of their own, as of folds, are judged as one.
    """

    def __init__(
        self,
        task: TrainedTask[Any, Any],
        labels: Sequence[str],
        long: Long,
        target_precision: float | None,
        threads: int | None,
    ) -> None:
        self.task = task
        self.labels = labels
        self.long = long
        self.target_precision = target_precision
        self.threads = threads

    def judge(self, held_out: Sequence[HeldOut]) -> Judgement:
        """Return the metrics and, where the task has confidences, what may be decided alone.

        Confidences are calibrated first.
        """
        calibrated = self._calibrate(held_out)
        scoring = self._score(held_out, calibrated)

        settings = dict(calibrated)
        if self.target_precision:
            settings["threshold"] = choose_threshold(scoring.answers, self.target_precision)

        decisions = None
        if scoring.answers:
            precisions = {*PRECISIONS, self.target_precision or PRECISIONS[0]}
            decisions = sheet(scoring.answers, self.labels, sorted(precisions))
        return Judgement(scoring.scores(), decisions, scoring.positive, calibrated, settings)

    def metrics(self, one: HeldOut, calibrated: Mapping[str, float]) -> dict[str, float]:
        """Return the metrics of one model alone, by name."""
        found = values(self._score([one], calibrated).scores())
        if len(one.examples) < FEWEST:  # which say nothing of a correlation
            for name in CORRELATIONS:
                found.pop(name, None)
        return found

    def _calibrate(self, held_out: Sequence[HeldOut]) -> dict[str, float]:
        """Return the settings that make confidences true on held-out examples."""
        if not self.task.calibrates:
            return {}
        examples: list[Example] = []
        logits: list[list[Any]] = []
        for one in held_out:
            predictor = self._open(one.model, {})
            examples += one.examples
            logits += predictor.raw(one.examples, self.long)
        return self.task.calibrate(examples, logits)

    def _score(self, held_out: Sequence[HeldOut], calibrated: Mapping[str, float]) -> Scoring:
        """Add up the answers of calibrated models, which are opened one at a time."""
        scoring = self.task.scoring()
        for one in held_out:
            predictor = self._open(one.model, calibrated)
            predictor.grade(scoring, one.examples, self.long)
        return scoring

    def _open(self, model: Bundle | Path, calibrated: Mapping[str, float]) -> Predictor:
        """Open a model with the settings that make its confidences true."""
        bundle = load(model) if isinstance(model, Path) else model
        bundle.settings |= calibrated
        return Predictor(bundle, self.threads)


def values(scores: Scores) -> dict[str, float]:
    """Return metrics without their intervals."""
    return {name: interval.value for name, interval in scores.items()}
