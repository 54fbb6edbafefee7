"""The contracts between a task and what runs it: prediction and the server ask for answers, training for losses."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor, nn

from firth.data.batch import Batch
from firth.data.examples import Example
from firth.data.window import Window
from firth.text.tokenizer import Encoding, Tokenizer


class Task(Protocol):
    """What is done with an encoder. It has no weights of its own; its head, if any, is a module that the bundle holds."""

    def features(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Encoding]:
        """Encode examples, whole."""
        ...

    def scores(
        self, encoder: Any, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[Any]:
        """Run a model on a batch and give the scores of each of its rows, on the CPU."""
        ...

    def combine(self, rows: Sequence[Window], scores: Sequence[Any]) -> Any:
        """Join the scores of all windows of one text."""
        ...

    def answer(self, example: Example, encoding: Encoding, scores: Any) -> Any:
        """Turn the scores of one text into the typed answer that a person reads."""
        ...


class Lesson(Protocol):
    """What can be learned: losses are sums, named like the counts that the loop divides them by."""

    @property
    def sums(self) -> tuple[str, ...]:
        """What `right` gives, so that processes with different batches agree."""
        ...

    def counts(self, batch: Batch) -> Mapping[str, float]:
        """How many answers each loss of a batch is the sum over."""
        ...

    def losses(self, encoder: Any, head: Any, batch: Batch) -> dict[str, Tensor]:
        """Run a model on a batch and sum each loss over its answers."""
        ...

    def right(self, encoder: Any, head: Any, batch: Batch) -> dict[str, float]:
        """Sums for `metrics` over a batch, without gradients."""
        ...

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Published figures from the sums over all batches, and the loss."""
        ...

    def worth(self, metrics: Mapping[str, float]) -> float:
        """What the best model has most of."""
        ...


class Learner(nn.Module):
    """An encoder, its head and what they learn: the one module that the loop calls, wraps for many processes and saves."""

    def __init__(self, encoder: Any, head: nn.Module | None, lesson: Lesson) -> None:
        super().__init__()
        self.encoder, self.head, self.lesson = encoder, head, lesson
        self.carried: dict[str, Tensor] = {}  # what the next step begins with beside the weights

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Sum each loss over a batch."""
        return self.lesson.losses(self.encoder, self.head, batch)

    def share(self, add: Callable[[Tensor], Tensor]) -> None:
        """Let every process know what the others carry on; `add` sums a tensor over all of them."""
