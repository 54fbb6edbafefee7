"""A number for a text or a pair of texts.

B rows.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.data.batch import Batch
from firth.data.examples import Example, Labelled
from firth.data.rows import Targets
from firth.data.window import Window
from firth.metrics.numbers import FEWEST, number_scores
from firth.models.bert import Bert
from firth.models.gpt import Gpt
from firth.models.protocols import Encoder
from firth.nn.heads import LinearHead
from firth.reading.spread import Spread
from firth.tasks.texts import encode, mean, row_scores, text_scores
from firth.text.tokenizer import Encoding, Tokenizer

SUMS = ("count", "x", "y", "xx", "yy", "xy", "error")


class Regress:
    """Learn numbers by how many spreads they lie from their mean: a head that starts near 0 has as far to go whatever the unit.

    All that is measured is in the user's unit; `fold` brings the head there too.
    """

    sums = SUMS

    def __init__(self, mean: float = 0.0, spread: float = 1.0, select: str | None = None) -> None:
        self.mean, self.spread = mean, spread
        self.select = select or "pearson"  # the metric by which the best model is told

    @classmethod
    def of(cls, examples: Sequence[Example], select: str | None = None) -> "Regress":
        """With the mean and the spread of these examples' numbers."""
        numbers = Spread()
        for example in examples:
            if isinstance(example, Labelled) and isinstance(example.label, float):
                numbers.add(example.label)
        if not numbers.count:
            return cls(select=select)
        if complaint := numbers.complaint():
            raise InputError(f"the examples have {complaint}")
        return cls(numbers.mean, numbers.deviation, select)

    def features(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Encoding]:
        """Encode texts or pairs, whole."""
        return encode(examples, tokenizer)

    def scores(
        self, encoder: Encoder, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[Tensor]:
        """The number of each row, (1)."""
        return list(row_scores(encoder, head, batch).cpu())

    def combine(self, rows: Sequence[Window], scores: Sequence[Tensor]) -> Tensor:
        """The mean over the windows of a text."""
        return mean(scores)

    def answer(self, example: Example, encoding: Encoding, scores: Tensor) -> float:
        """The number."""
        return float(scores[0])

    def targets(self, example: Example, encoding: Encoding, window: Window) -> Targets:
        """What a row is to say."""
        assert isinstance(example, Labelled)
        if not isinstance(example.label, float):
            raise InputError(f"the label {example.label!r} is not a number")
        return {"value": np.array([(example.label - self.mean) / self.spread], np.float32)}

    def counts(self, batch: Batch) -> dict[str, float]:
        """Texts."""
        return {"value": float(batch.targets["weight"].sum())}

    def losses(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Squared errors in the user's unit, whose gradient is that of the standardised ones: rate and clipping suit those."""
        missed = row_scores(encoder, head, batch)[:, 0] - batch.targets["value"]
        total = (missed.square() * batch.targets["weight"]).sum()
        return {"value": total + (total * (self.spread**2 - 1)).detach()}

    def right(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Count a batch; windows of a text are in one batch."""
        scores, first = text_scores(row_scores(encoder, head, batch), batch.owner)
        # From the mean on, which no score depends on, so that squares don't swallow differences.
        x, y = (
            self.spread * batch.targets["value"][first].double(),
            self.spread * scores[:, 0].double(),
        )
        figures = [torch.ones_like(x), x, y, x * x, y * y, x * y, (x - y).square()]
        return dict(zip(SUMS, [float(figure.sum()) for figure in figures], strict=True))

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Pearson's correlation, and the mean squared error as the loss."""
        found = number_scores(np.array([sums[name] for name in SUMS]))
        # Where there are too few for a correlation, the loss is what tells steps apart.
        return {
            "loss": float(found["mse"]),
            "pearson": float(found["pearson"]) if sums["count"] >= FEWEST else 0.0,
        }

    def worth(self, metrics: Mapping[str, float]) -> float:
        """The metric that was chosen: Pearson's correlation, or the mean squared error, of which less is better."""
        if self.select == "mse":
            return -metrics[
                "mse" if "mse" in metrics else "loss"
            ]  # which is the loss while training
        return metrics[self.select]

    def fold(self, encoder: Bert | Gpt, head: nn.Module | None) -> None:
        """Let a head that was taught answer in the user's unit, so that its folder is one like any other."""
        assert isinstance(head, LinearHead)
        weight, *bias = head.linear.parameters()
        with torch.no_grad():
            weight.mul_(self.spread)
            if bias:
                bias[0].mul_(self.spread).add_(self.mean)
            else:  # GPT-2's has none: the last norm before it moves along the weights, until they add the mean
                assert isinstance(encoder, Gpt)
                encoder.norm.bias.add_(weight[0] * (self.mean / weight.square().sum()))

    def unfold(self, encoder: Bert | Gpt, head: nn.Module | None) -> None:
        """Bring a head that answers in the user's unit back to where it learns, by these examples' mean and spread."""
        assert isinstance(head, LinearHead)
        weight, *bias = head.linear.parameters()
        with torch.no_grad():
            if bias:
                bias[0].sub_(self.mean).div_(self.spread)
            elif size := float(weight.square().sum()):  # a head of zeros moves nothing
                assert isinstance(encoder, Gpt)
                encoder.norm.bias.sub_(weight[0] * (self.mean / size))
            weight.div_(self.spread)
