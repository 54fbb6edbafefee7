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
from firth.metrics.numbers import number_scores
from firth.models.protocols import Encoder
from firth.tasks.texts import encode, mean, row_scores, text_scores
from firth.text.tokenizer import Encoding, Tokenizer

SUMS = ("count", "x", "y", "xx", "yy", "xy", "error")


class Regress:
    """Learn numbers as they are: the head has one output, and the loss is the square of what it misses by."""

    sums = SUMS

    def features(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Encoding]:
        """Encode texts or pairs, whole."""
        return encode(examples, tokenizer)

    def scores(self, encoder: Encoder, head: nn.Module | None, batch: Batch, rows: Sequence[Window]) -> list[Tensor]:
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
        return {"value": np.array([example.label], np.float32)}

    def counts(self, batch: Batch) -> dict[str, float]:
        """Texts."""
        return {"value": float(batch.targets["weight"].sum())}

    def losses(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Squared errors."""
        missed = row_scores(encoder, head, batch)[:, 0] - batch.targets["value"]
        return {"value": (missed.square() * batch.targets["weight"]).sum()}

    def right(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Count a batch; windows of a text are in one batch."""
        scores, first = text_scores(row_scores(encoder, head, batch), batch.owner)
        x, y = batch.targets["value"][first].double(), scores[:, 0].double()
        figures = [torch.ones_like(x), x, y, x * x, y * y, x * y, (x - y).square()]
        return dict(zip(SUMS, [float(figure.sum()) for figure in figures], strict=True))

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Pearson's correlation, and the mean squared error as the loss."""
        found = number_scores(np.array([sums[name] for name in SUMS]))
        return {"loss": float(found["mse"]), "pearson": float(found["pearson"])}

    def worth(self, metrics: Mapping[str, float]) -> float:
        """Pearson's correlation."""
        return metrics["pearson"]
