"""What a model reaches on the tasks of GLUE, beside the majority class and what was published."""

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from firth.evaluation.figures import Scores
from firth.metrics.classes import class_scores
from firth.metrics.sums import Interval


class PaperTable(NamedTuple):
    """A paper's table: its columns, and what was published, in per cent."""

    title: str
    columns: tuple[tuple[str, str], ...]  # a set to measure on and its metric
    published: Mapping[str, tuple[float, ...]]
    averages: Mapping[str, float]  # as published
    averaged: int  # sets that these are over; of one with two metrics it is their mean


# "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", Devlin and
# others, 2019, table 1.
GLUE = PaperTable(
    "GLUE",
    (
        ("MNLI-m", "accuracy"),
        ("MNLI-mm", "accuracy"),
        ("QQP", "f1"),
        ("QNLI", "accuracy"),
        ("SST-2", "accuracy"),
        ("CoLA", "matthews"),
        ("STS-B", "spearman"),
        ("MRPC", "f1"),
        ("RTE", "accuracy"),
    ),
    {
        "Pre-OpenAI SOTA": (80.6, 80.1, 66.1, 82.3, 93.2, 35.0, 81.0, 86.0, 61.7),
        "BiLSTM+ELMo+Attn": (76.4, 76.1, 64.8, 79.8, 90.4, 36.0, 73.3, 84.9, 56.8),
        "OpenAI GPT": (82.1, 81.4, 70.3, 87.4, 91.3, 45.4, 80.0, 82.3, 56.0),
        "BERT-base": (84.6, 83.4, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4),
        "BERT-large": (86.7, 85.9, 72.1, 92.7, 94.9, 60.5, 86.5, 89.3, 70.1),
    },
    {
        "Pre-OpenAI SOTA": 74.0,
        "BiLSTM+ELMo+Attn": 71.0,
        "OpenAI GPT": 75.1,
        "BERT-base": 79.6,
        "BERT-large": 82.1,
    },
    averaged=9,
)
# "SuperGLUE: A Stickier Benchmark for General-Purpose Language Understanding Systems", Wang and
# others, 2019; "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
# Transformer", Raffel and others, 2020.
SUPERGLUE = PaperTable(
    "SuperGLUE",
    (
        ("BoolQ", "accuracy"),
        ("CB", "macro_f1"),
        ("CB", "accuracy"),
        ("COPA", "accuracy"),
        ("RTE", "accuracy"),
    ),
    {"people": (89.0, 95.8, 98.9, 100.0, 93.6), "T5": (91.2, 93.9, 96.8, 94.8, 92.5)},
    {"people": 89.8, "T5": 89.3},
    averaged=8,
)


class GlueCell(NamedTuple):
    """A model that was fine-tuned with one seed, measured on one set."""

    seed: int
    model: str
    steps: int
    seconds: float  # of its training; 0 for a further set of the same model
    scores: Scores

    def as_json(self) -> dict[str, object]:
        """Return the cell as a JSON object."""
        scores = {metric: interval._asdict() for metric, interval in self.scores.items()}
        return self._asdict() | {"scores": scores}


class GlueScore(NamedTuple):
    """A metric on a set: its mean over the seeds and, of one seed, its interval."""

    metric: str
    mean: float
    majority: float  # of whoever always gives the label that train has most
    deviation: float | None  # over several seeds
    interval: Interval | None  # of one seed, 95 %

    def as_json(self) -> dict[str, object]:
        """Return the metric as a JSON object."""
        interval = self.interval._asdict() if self.interval else None
        return self._asdict() | {"interval": interval}


class GlueResult(NamedTuple):
    """What a model reaches on one set of one task."""

    name: str
    trained: int  # rows
    measured: int  # rows
    held_out: bool  # whether they were taken from the train file, for want of a dev file
    scores: tuple[GlueScore, ...]  # the published metrics, that of the paper's table first
    cells: tuple[GlueCell, ...]  # one a seed

    @property
    def seconds(self) -> float:
        """The time that training took, over all seeds."""
        return sum(cell.seconds for cell in self.cells)

    def as_json(self) -> dict[str, object]:
        """Return the result as a JSON object."""
        return self._asdict() | {
            "scores": [score.as_json() for score in self.scores],
            "cells": [cell.as_json() for cell in self.cells],
            "seconds": self.seconds,
        }


class GlueReport(NamedTuple):
    """What a model reaches on every task that a folder has."""

    out: str
    model: str
    results: tuple[GlueResult, ...]
    failed: dict[str, str]  # tasks that came to nothing, with reasons
    left_out: dict[str, str]  # tasks that can't be measured, with reasons
    submissions: tuple[str, ...]  # files that GLUE's site takes

    @property
    def seconds(self) -> float:
        """The time that training took, over all tasks."""
        return sum(result.seconds for result in self.results)

    def as_json(self) -> dict[str, object]:
        """Return the report as a JSON object, with what was published."""
        return self._asdict() | {
            "results": [result.as_json() for result in self.results],
            "seconds": self.seconds,
            "published": [table._asdict() for table in (GLUE, SUPERGLUE)],
        }

    def find_set(self, name: str) -> GlueResult | None:
        """Return what was reached on a set, where it was measured."""
        for result in self.results:
            if result.name == name:
                return result
        return None

    def find(self, name: str, metric: str) -> GlueScore | None:
        """Return a metric on a set, where there is one."""
        result = self.find_set(name)
        if result is None:
            return None
        for score in result.scores:
            if score.metric == metric:
                return score
        return None


def glue_scores(
    metrics: Sequence[str],
    cells: Sequence[GlueCell],
    trained: Mapping[str, int],
    measured: Mapping[str, int],
) -> tuple[GlueScore, ...]:
    """Return metrics over the seeds, with what the majority class reaches.

    `trained` and `measured` are how often each label occurs, empty where labels are numbers.
    """
    majority = majority_scores(trained, measured)
    found = []
    for metric in metrics:
        values = [cell.scores[metric] for cell in cells]
        numbers = [value.value for value in values]
        mean = statistics.fmean(numbers)
        common = majority.get(metric, 0.0)
        # Several seeds tell more of the spread than the interval of one.
        if len(values) > 1:
            deviation = statistics.stdev(numbers)
            score = GlueScore(metric, mean, common, deviation, interval=None)
        else:
            score = GlueScore(metric, mean, common, deviation=None, interval=values[0])
        found.append(score)
    return tuple(found)


def majority_scores(trained: Mapping[str, int], measured: Mapping[str, int]) -> dict[str, float]:
    """Return the metrics of always answering with the label that occurs most in training.

    Of two classes F1 is that of the second, as GLUE has it. Where labels are numbers, one number
    for all correlates with nothing, and there are no metrics.
    """
    if not trained:
        return {}
    labels = sorted({*trained, *measured})
    most = max(labels, key=lambda label: trained.get(label, 0))
    true = np.array([measured.get(label, 0) for label in labels], float)
    always = np.array([label == most for label in labels], float)
    count = true.sum()
    predicted = always * count
    both = always * true
    sums = np.concatenate([true, predicted, both, [count]])
    scores = class_scores(sums, len(labels), len(labels) - 1)
    return {metric: float(value) for metric, value in scores.items()}


def average(table: PaperTable, values: Sequence[float | None], kept: Collection[int]) -> float:
    """Return the mean of a row over some of a table's columns; each set counts once."""
    of_set: dict[str, list[float]] = {}
    for number in kept:
        value = values[number]
        assert value is not None
        name, _ = table.columns[number]
        of_set.setdefault(name, []).append(value)
    means = [statistics.fmean(values_of_set) for values_of_set in of_set.values()]
    return statistics.fmean(means)
