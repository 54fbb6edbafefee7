"""A number for a text or a pair of texts.

B rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from firth.base.errors import InputError
from firth.data.examples import LOOK_MISSING, Example, Labelled
from firth.data.record import Fault, figure, shortened
from firth.data.window import Window
from firth.reading.columns import TableHead
from firth.reading.labels import LabelSurvey, NumberSurvey
from firth.reading.rowreader import LabelReader, are_measures, parsed_number
from firth.reading.spread import Spread
from firth.tasks.task import Answer, OpenModel
from firth.tasks.texts import TextTask, encoding_logits, row_logits
from firth.tasks.trained import Scoring, TrainingData

if TYPE_CHECKING:
    from torch import Tensor, nn

    from firth.data.batch import Batch
    from firth.data.rows import Targets
    from firth.models.protocols import Backbone, Encoder
    from firth.text.tokenizer import Encoding

SUMS = ("count", "x", "y", "xx", "yy", "xy", "error")


@dataclass(frozen=True)
class Number(Answer):
    """The number of a text, in the unit of the data."""

    value: float

    def figures(self) -> dict[str, float]:
        """Return the number."""
        return {"number": self.value}


class NumberReader(LabelReader):
    """Reads rows whose label is a number."""

    def fits(self, table: TableHead) -> bool:
        """Return whether labels are measured."""
        return are_measures(self.given_labels(table))

    def is_missing(self, value: Any) -> bool:
        """Return whether a value is no label; a written NaN is none either."""
        if super().is_missing(value):
            return True
        number = parsed_number(value) if isinstance(value, str) else None
        return number is not None and math.isnan(number)

    def label(self, value: Any, line: int) -> float:
        """Read a number."""
        number = parsed_number(value)
        if number is not None and math.isfinite(number):
            return number
        said = f"has the label {shortened(value)}, which is not a number"
        word = value.strip() if isinstance(value, str) else ""
        if word.lower() in LOOK_MISSING:
            said += f" (--missing {word} leaves such rows out)"
        raise Fault("number", said)

    def survey(self, path: object) -> LabelSurvey:
        """Add up the numbers."""
        return NumberSurvey(path)


class Regress(TextTask[Number]):
    """Learn numbers by how many standard deviations they lie from their mean.

    A head that starts near 0 then has as far to go whatever the unit. All that is measured is in
    the user's unit; `finish` brings the head there too.
    """

    name = "regress"
    help = "A number for each text or pair of texts."
    kinds = {name: "a number"}
    reader = NumberReader
    twins = {"value": "predicted_value"}
    selectable = {name: ("pearson", "mse")}
    sums = SUMS
    columns = {"predicted_value": "number"}

    def __init__(self, mean: float = 0.0, spread: float = 1.0, select: str | None = None) -> None:
        self.mean = mean
        self.spread = spread  # the standard deviation
        self.select = select or self.selectable[self.name][0]

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task of a folder, whose head answers in the user's unit."""
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
        """Return the task with the mean and the standard deviation of the examples' numbers."""
        numbers = Spread()
        for example in examples:
            if isinstance(example, Labelled) and isinstance(example.label, float):
                numbers.add(example.label)
        if not numbers.count:
            return cls(select=select)
        complaint = numbers.complaint()
        if complaint:
            raise InputError(f"the examples have {complaint}")
        return cls(numbers.mean, numbers.deviation, select)

    @classmethod
    def plan(cls, data: TrainingData) -> tuple[str, tuple[str, ...]]:
        """Return that a number has no labels."""
        return cls.name, ()

    @classmethod
    def outputs(cls, labels: Sequence[str]) -> int:
        """Return one: the number itself."""
        return 1

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[Tensor],
        truncated: int,
    ) -> Number:
        """Return the number."""
        return Number(float(logits[0][0]), truncated_tokens=truncated)

    def line(self, example: Example, answer: Number) -> str:
        """Return the number with four digits, or more where they would all be 0."""
        return figure(answer.value)

    def cells(self, example: Example, answer: Number) -> dict[str, Any]:
        """Return the number as a column."""
        return {"predicted_value": answer.value}

    def targets(
        self, example: Example, encodings: Sequence[Encoding], number: int, window: Window
    ) -> Targets:
        """Return the standardised number of a row."""
        import numpy as np

        assert isinstance(example, Labelled)
        if not isinstance(example.label, float):
            raise InputError(f"the label {example.label!r} is not a number")
        standardised = (example.label - self.mean) / self.spread
        return {"value": np.array([standardised], np.float32)}

    def counts(self, batch: Batch) -> dict[str, float]:
        """Count texts."""
        return {"value": float(batch.targets["weight"].sum())}

    def losses(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sum squared errors in the user's unit.

        Their gradient is that of the standardised ones, which learning rate and clipping suit.
        """
        logits = row_logits(encoder, head, batch)  # (B, 1)
        missed = logits[:, 0] - batch.targets["value"]
        weighted = missed.square() * batch.targets["weight"]
        total = weighted.sum()
        rest = total * (self.spread**2 - 1)  # up to the user's unit
        return {"value": total + rest.detach()}

    def tally(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Count a batch; windows of a text are in one batch."""
        import torch

        each_row = row_logits(encoder, head, batch)
        logits, first = encoding_logits(each_row, batch)
        # From the mean on, which no metric depends on, so that squares don't swallow differences.
        truth = batch.targets["value"][first]
        x = self.spread * truth.double()
        y = self.spread * logits[:, 0].double()
        error = (x - y).square()
        figures = [torch.ones_like(x), x, y, x * x, y * y, x * y, error]
        sums = [float(figure.sum()) for figure in figures]
        return dict(zip(SUMS, sums, strict=True))

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return Pearson's correlation, and the mean squared error as the loss."""
        import numpy as np

        from firth.metrics.numbers import FEWEST, number_scores

        figures = np.array([sums[name] for name in SUMS])
        found = number_scores(figures)
        # Where there are too few for a correlation, the loss is what tells steps apart.
        pearson = 0.0
        if sums["count"] >= FEWEST:
            pearson = float(found["pearson"])
        return {"loss": float(found["mse"]), "pearson": pearson}

    def select_value(self, metrics: Mapping[str, float]) -> float:
        """Return Pearson's correlation, or minus the mean squared error."""
        if self.select != "mse":
            return metrics[self.select]
        # While training, the loss is the mean squared error.
        name = "mse" if "mse" in metrics else "loss"
        return -metrics[name]

    def prepare(self, encoder: Encoder, head: nn.Module | None) -> None:
        """Bring a head that answers in the user's unit to that of these examples' numbers."""
        import torch

        from firth.nn.heads import LinearHead

        assert isinstance(head, LinearHead)
        weight, *bias = head.linear.parameters()
        with torch.no_grad():
            size = float(weight.square().sum())
            if bias:
                bias[0].sub_(self.mean).div_(self.spread)
            elif size:  # a head of zeros moves nothing
                shift = weight[0] * (self.mean / size)
                encoder.shift_summary(-shift)
            weight.div_(self.spread)

    def finish(self, encoder: Encoder, head: nn.Module | None) -> None:
        """Let a trained head answer in the user's unit."""
        import torch

        from firth.nn.heads import LinearHead

        assert isinstance(head, LinearHead)
        weight, *bias = head.linear.parameters()
        with torch.no_grad():
            weight.mul_(self.spread)
            if bias:
                bias[0].mul_(self.spread).add_(self.mean)
            else:
                # The summary moves along the weights until they add the mean.
                size = weight.square().sum()
                encoder.shift_summary(weight[0] * (self.mean / size))

    def scoring(
        self, others: Iterable[str] = (), positive: str | None = None, keep: bool = True
    ) -> Scoring:
        """Return what adds up numbers."""
        return NumberScoring()


class NumberScoring(Scoring):
    """Adds up numbers."""

    def __init__(self) -> None:
        from firth.metrics.numbers import Numbers

        self.tally: Numbers = Numbers()

    def add(self, example: Example, graded: Number) -> None:
        """Count an answer."""
        assert isinstance(example, Labelled)
        assert isinstance(example.label, float)
        self.tally.add(example.label, graded.value)


TASK = Regress
