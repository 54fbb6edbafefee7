"""Classes of texts and of pairs of texts: one of two or many, or any number at once.

B rows, K classes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.data.batch import Batch
from firth.data.examples import Example, Label, Labelled, written
from firth.data.rows import Targets
from firth.data.window import Window
from firth.metrics.classes import class_scores, label_set_scores
from firth.models.protocols import Encoder
from firth.tasks.texts import encode, mean, row_scores, text_scores
from firth.text.tokenizer import Encoding, Tokenizer


class Decision(NamedTuple):
    """What a text is, how sure the model is of it, and the share of every class; `label` is None where it is not sure enough.

    Labels have the type that they had in the data.
    """

    label: Label | tuple[Label, ...] | None
    confidence: float
    shares: dict[Label, float]


class Classify:
    """Decide the class of a text; with `several`, which of the classes it has, each for itself."""

    def __init__(
        self,
        labels: Sequence[str],
        several: bool = False,
        weights: Sequence[float] | None = None,
        temperature: float = 1.0,
        threshold: float = 0.0,
        values: Sequence[Label] = (),
        select: str | None = None,
    ) -> None:
        self.labels = list(labels)
        self.values: Sequence[Label] = values or self.labels  # as the data had them
        self.select = select or (
            "micro_f1" if several else "accuracy"
        )  # the metric that the best model has most of
        self.number = {label: number for number, label in enumerate(labels)}
        self.several = several
        self.weights = None if weights is None else torch.tensor(list(weights))
        self.temperature, self.threshold = temperature, threshold

    def features(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Encoding]:
        """Encode texts or pairs, whole."""
        return encode(examples, tokenizer)

    def scores(
        self, encoder: Encoder, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[Tensor]:
        """Scores of each row."""
        return list(row_scores(encoder, head, batch).cpu())

    def combine(self, rows: Sequence[Window], scores: Sequence[Tensor]) -> Tensor:
        """The mean over the windows of a text."""
        return mean(scores)

    def answer(self, example: Example, encoding: Encoding, scores: Tensor) -> Decision:
        """The class, or the classes, with the confidence that was calibrated when the model was made."""
        cooled = scores / self.temperature
        shares = (cooled.sigmoid() if self.several else cooled.softmax(0)).tolist()
        named = dict(zip(self.values, shares, strict=True))
        said = likeliest(named, self.several)
        sure = (
            float(np.prod([max(share, 1 - share) for share in shares]))
            if self.several
            else max(shares)
        )
        return Decision(
            None if sure < self.threshold else said if self.several else said[0], sure, named
        )

    def targets(self, example: Example, encoding: Encoding, window: Window) -> Targets:
        """What a row is to say."""
        assert isinstance(example, Labelled)
        if self.several:
            has = example.label if isinstance(example.label, tuple) else (example.label,)
            return {"label": np.array([[label in has for label in self.labels]], np.float32)}
        if not isinstance(example.label, str) or example.label not in self.number:
            raise InputError(f"the label {example.label!r} is not one of {', '.join(self.labels)}")
        return {"label": np.array([self.number[example.label]])}

    def counts(self, batch: Batch) -> dict[str, float]:
        """Texts, each as heavy as its class."""
        return {"class": float(self._heaviness(batch).sum())}

    def _heaviness(self, batch: Batch) -> Tensor:
        weight = batch.targets["weight"]
        return (
            weight
            if self.weights is None or self.several
            else weight * self.weights[batch.targets["label"]]
        )

    def losses(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy of the classes."""
        return {
            "class": (
                self._each(row_scores(encoder, head, batch), batch.targets["label"])
                * self._heaviness(batch)
            ).sum()
        }

    def _each(self, scores: Tensor, labels: Tensor) -> Tensor:
        if self.several:
            return F.binary_cross_entropy_with_logits(scores, labels, reduction="none").mean(1)
        return F.cross_entropy(scores, labels, reduction="none")

    @property
    def sums(self) -> tuple[str, ...]:
        """True, said and both for each class, texts that are all right, texts, and their loss."""
        each = (f"{what} {label}" for what in ("true", "said", "both") for label in self.labels)
        return (*each, "exact", "count", "loss")

    def right(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Count a batch; windows of a text are in one batch."""
        scores, first = text_scores(row_scores(encoder, head, batch), batch.owner)
        labels = batch.targets["label"][first]
        loss = float(self._each(scores, labels).sum())
        if self.several:
            true, said = labels > 0.5, scores > 0
        else:
            true = F.one_hot(labels, len(self.labels)).bool()
            said = F.one_hot(scores.argmax(1), len(self.labels)).bool()
        both = true & said
        figures = torch.cat([part.sum(0) for part in (true, said, both)]).tolist()
        return dict(
            zip(
                self.sums,
                [*figures, float((true == said).all(1).sum()), float(len(scores)), loss],
                strict=True,
            )
        )

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """The published figures, and the loss."""
        row = np.array([sums[name] for name in self.sums])
        size = len(self.labels)
        if self.several:
            found = label_set_scores(row[:-1], size)
        else:
            found = class_scores(np.append(row[: 3 * size], row[-2]), size, size - 1)
        return {
            "loss": float(row[-1] / max(1.0, row[-2])),
            **{name: float(value) for name, value in found.items()},
        }

    def worth(self, metrics: Mapping[str, float]) -> float:
        """The metric that was chosen; by default accuracy, or the F1 of several labels."""
        return metrics[self.select]


def likeliest(shares: Mapping[Label, float], several: bool) -> tuple[Label, ...]:
    """The class, or the labels, that the shares speak for, also where that is not sure enough to be given."""
    if several:
        return tuple(label for label, share in shares.items() if share > 0.5)
    return (max(shares, key=lambda label: shares[label]),)


def as_json(decision: Decision) -> dict[str, Any]:
    """The answer as a JSON object."""
    label = list(decision.label) if isinstance(decision.label, tuple) else decision.label
    shares = {written(name): share for name, share in decision.shares.items()}
    return {
        "label": "unsure" if label is None else label,
        "confidence": decision.confidence,
        "shares": shares,
    }


def as_text(decision: Decision) -> str:
    """The answer as a person reads it."""
    if isinstance(decision.label, tuple):
        return ", ".join(map(written, decision.label)) or "no label"
    return "unsure" if decision.label is None else written(decision.label)
