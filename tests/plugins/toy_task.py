"""A task in one file: how many stars, 1 to 5, a review gives, learned as ordered classes.

B rows, K thresholds between stars.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import firth
from firth.data.batch import Batch
from firth.data.examples import Example, Labelled
from firth.data.record import Fault, shortened
from firth.data.rows import Targets
from firth.data.window import Window
from firth.metrics.numbers import Numbers
from firth.models.protocols import Backbone
from firth.reading.columns import Columns, Named, TableHead, find_texts
from firth.reading.rowreader import LabelReader, parsed_number
from firth.tasks.task import Answer, OpenModel
from firth.tasks.texts import TextTask, encoding_logits, row_logits
from firth.tasks.trained import Scoring, TrainingData
from firth.text.tokenizer import Encoding

MOST = 5


@dataclass(frozen=True)
class Stars(Answer):
    """The stars of a review."""

    stars: int


class StarReader(LabelReader):
    """Reads the column `stars`."""

    def find(self, table: TableHead, named: Named) -> Columns | None:
        """Return the columns of the text and of the stars."""
        texts = find_texts(table, named)
        label = named.label or "stars"
        if not texts.text or label not in table.columns:
            return None
        return Columns(texts.text, texts.second, label)

    def label(self, value: Any, line: int) -> float:
        """Read a number of stars."""
        stars = parsed_number(value)
        if stars not in range(1, MOST + 1):
            raise Fault("stars", f"has {shortened(value)} where 1 to {MOST} stars belong")
        return float(stars)


class StarScoring(Scoring):
    """Adds up stars."""

    def __init__(self) -> None:
        self.tally: Numbers = Numbers()

    def add(self, example: Example, graded: Stars) -> None:
        """Count an answer."""
        assert isinstance(example, Labelled)
        assert isinstance(example.label, float)
        self.tally.add(example.label, graded.stars)


@firth.register
class Review(TextTask[Stars]):
    """Say for each number of stars whether the review has more."""

    name = "stars"
    help = "1 to 5 stars for each text."
    kinds = {name: "stars"}
    reader = StarReader
    selectable = {name: ("mse",)}
    select = "mse"
    sums = ("count", "loss", "error")
    columns = {"predicted_stars": "number"}
    twins = {"stars": "predicted_stars"}

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task of a folder."""
        return cls()

    @classmethod
    def of_examples(
        cls,
        kind: str,
        labels: Sequence[str],
        examples: Sequence[Example] = (),
        select: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the task."""
        return cls()

    @classmethod
    def plan(cls, data: TrainingData) -> tuple[str, tuple[str, ...]]:
        """Return that stars have no labels."""
        return cls.name, ()

    @classmethod
    def outputs(cls, labels: Sequence[str]) -> int:
        """Return the number of thresholds."""
        return MOST - 1

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[Tensor],
        truncated: int,
    ) -> Stars:
        """Count the thresholds that are passed."""
        return Stars(1 + int((logits[0] > 0).sum()), truncated_tokens=truncated)

    def line(self, example: Example, answer: Stars) -> str:
        """Return the stars."""
        return "*" * answer.stars

    def cells(self, example: Example, answer: Stars) -> dict[str, Any]:
        """Return the stars as a column."""
        return {"predicted_stars": answer.stars}

    def targets(
        self, example: Example, encodings: Sequence[Encoding], number: int, window: Window
    ) -> Targets:
        """Return which thresholds are passed."""
        assert isinstance(example, Labelled)
        passed = [example.label > stars for stars in range(1, MOST)]
        return {"passed": np.array([passed], np.float32)}

    def counts(self, batch: Batch) -> dict[str, float]:
        """Count texts."""
        return {"stars": float(batch.targets["weight"].sum())}

    def losses(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sum the cross-entropy of all thresholds."""
        logits = row_logits(encoder, head, batch)
        each = F.binary_cross_entropy_with_logits(logits, batch.targets["passed"], reduction="none")
        return {"stars": (each.sum(1) * batch.targets["weight"]).sum()}

    def tally(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Add up loss and squared errors."""
        logits, first = encoding_logits(row_logits(encoder, head, batch), batch)
        passed = batch.targets["passed"][first]
        missed = (logits > 0).sum(1) - passed.sum(1)
        loss = F.binary_cross_entropy_with_logits(logits, passed, reduction="sum")
        figures = (torch.tensor(len(logits)), loss, missed.square().sum())
        return dict(zip(self.sums, map(float, figures), strict=True))

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return the loss and the mean squared error."""
        count = max(1.0, sums["count"])
        return {"loss": sums["loss"] / count, "mse": sums["error"] / count}

    def select_value(self, metrics: Mapping[str, float]) -> float:
        """Return minus the mean squared error."""
        return -metrics["mse"]

    def scoring(
        self, others: Iterable[str] = (), positive: str | None = None, keep: bool = True
    ) -> Scoring:
        """Return what adds up stars."""
        return StarScoring()
