"""A task of its own for the contract tests: pick the right one of several ends of a text.

It has several encodings an example, which no built-in task has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from firth.base.errors import InputError
from firth.data.examples import Candidates, Example
from firth.data.record import Fault, shortened
from firth.data.window import Window
from firth.reading.columns import Columns, Named, TableHead
from firth.reading.rowreader import RowReader, row_strings, row_text
from firth.tasks.task import Answer, OpenModel
from firth.tasks.texts import TextTask, encoding_logits, row_logits
from firth.tasks.trained import Scoring, TrainingData
from firth.text.tokenizer import Encoding, Tokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from firth.data.batch import Batch
    from firth.data.rows import Targets


@dataclass(frozen=True, slots=True)
class Pickable(Candidates):
    """A text, its possible ends, and the number of the right one."""

    right: int

    @property
    def annotation(self) -> int:
        """The number of the right one."""
        return self.right


@dataclass(frozen=True)
class Picked(Answer):
    """The number of the end that was picked, and how probable each is."""

    choice: int
    probabilities: tuple[float, ...]


class PickReader(RowReader):
    """Reads a context, a list of ends and the number of the right one."""

    def find(self, table: TableHead, named: Named) -> Columns | None:
        """Return the three columns."""
        names = ("context", "ends", "right")
        if not all(name in table.columns for name in names):
            return None
        return Columns(("context",), ("ends",), "right")

    def refusal(self, table: TableHead, named: Named) -> str:
        """Say what is missing."""
        return f"{table.where} has no context, ends and right; it has {table.listed()}"

    def example(self, row: dict[str, Any], line: int) -> Example:
        """Make an example."""
        ends = tuple(row_strings(row, "ends"))
        right = row.get("right")
        if type(right) is not int or not 0 <= right < len(ends):
            raise Fault("label", f"has {shortened(right)} where the number of an end belongs")
        return Pickable(row_text(row, "context"), ends, right)


class Pick(TextTask[Picked]):
    """Pick the right one of several ends of a text."""

    name = "pick"
    help = "The right one of several ends of a text."
    kinds = {name: "the right end"}
    reader = PickReader
    selectable = {name: ("accuracy",)}
    select = "accuracy"
    sums = ("right", "count", "loss")
    columns = {"predicted_choice": "whole"}

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task; a folder says nothing of it."""
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
        """Return the task; examples say nothing of it."""
        return cls()

    @classmethod
    def plan(cls, data: TrainingData) -> tuple[str, tuple[str, ...]]:
        """Return that it has no labels."""
        return cls.name, ()

    @classmethod
    def outputs(cls, labels: Sequence[str]) -> int:
        """Return one: how good an end is."""
        return 1

    def check(self, example: Example, bundle: OpenModel) -> None:
        """Refuse a text without ends."""
        if not isinstance(example, Candidates):
            raise InputError("it has no ends to pick from")

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[Encoding]]:
        """Encode the text with each of its ends."""
        found = []
        for example in examples:
            assert isinstance(example, Candidates)
            texts = [example.text] * len(example.candidates)
            found.append(tokenizer.encode(texts, list(example.candidates)))
        return found

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[Tensor],
        truncated: int,
    ) -> Picked:
        """Return the best end."""
        import torch

        probabilities = torch.cat(list(logits)).softmax(0).tolist()
        best = probabilities.index(max(probabilities))
        return Picked(best, tuple(probabilities), truncated_tokens=truncated)

    def cells(self, example: Example, answer: Picked) -> dict[str, Any]:
        """Return the number as a column."""
        return {"predicted_choice": answer.choice}

    def targets(
        self, example: Example, encodings: Sequence[Encoding], number: int, window: Window
    ) -> Targets:
        """Return whether this is the right end."""
        import numpy as np

        assert isinstance(example, Pickable)
        return {"right": np.array([example.right == number])}

    def counts(self, batch: Batch) -> dict[str, float]:
        """Count examples."""
        return {"pick": float(len(set(batch.owner)))}

    def losses(self, encoder: Any, head: Any, batch: Batch) -> dict[str, Tensor]:
        """Sum the cross-entropy over the ends of each example."""
        return {
            "pick": -sum(own.log_softmax(0)[right] for own, right in _groups(encoder, head, batch))
        }

    def tally(self, encoder: Any, head: Any, batch: Batch) -> dict[str, float]:
        """Count right picks."""
        groups = _groups(encoder, head, batch)
        right = sum(int(own.argmax()) == place for own, place in groups)
        loss = -sum(float(own.log_softmax(0)[place]) for own, place in groups)
        return {"right": right, "count": len(groups), "loss": loss}

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return accuracy and the loss."""
        count = max(1.0, sums["count"])
        return {"loss": sums["loss"] / count, "accuracy": sums["right"] / count}

    def scoring(
        self, others: Iterable[str] = (), positive: str | None = None, keep: bool = True
    ) -> Scoring:
        """Return what adds up picks."""
        return PickScoring()


class PickScoring(Scoring):
    """Adds up picks as if they were classes."""

    def __init__(self) -> None:
        from firth.metrics.classes import Classes

        self.tally = Classes(["wrong", "right"])

    def add(self, example: Example, graded: Picked) -> None:
        """Count a pick."""
        assert isinstance(example, Pickable)
        self.tally.add("right", "right" if graded.choice == example.right else "wrong")


def _groups(encoder: Any, head: Any, batch: Batch) -> list[tuple[Tensor, int]]:
    """Return the logits of each example's ends, in their order, and the place of the right one."""
    import torch

    logits, first = encoding_logits(row_logits(encoder, head, batch), batch)
    places: dict[int, list[tuple[int, int]]] = {}
    for number, row in enumerate(first):
        places.setdefault(batch.owner[row], []).append((batch.encodings[row], number))
    found = []
    for every in places.values():
        numbers = [number for _, number in sorted(every)]
        right = torch.stack([batch.targets["right"][first[number]] for number in numbers])
        found.append((logits[numbers, 0], int(right.int().argmax())))
    return found


TASK = Pick
