"""The contract between a task and everything that runs one: prediction, the server, and training."""

from collections.abc import Sequence
from typing import Any, Protocol

from torch import nn

from firth.data.batch import Batch
from firth.data.examples import Example
from firth.data.window import Window
from firth.text.tokenizer import Encoding, Tokenizer


class Task(Protocol):
    """What is done with an encoder. It has no weights of its own; its head, if any, is a module that the bundle holds."""

    def features(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Encoding]:
        """Encode examples, whole."""
        ...

    def scores(self, encoder: Any, head: nn.Module | None, batch: Batch, rows: Sequence[Window]) -> list[Any]:
        """Run a model on a batch and give the scores of each of its rows, on the CPU."""
        ...

    def combine(self, rows: Sequence[Window], scores: Sequence[Any]) -> Any:
        """Join the scores of all windows of one text."""
        ...

    def answer(self, example: Example, encoding: Encoding, scores: Any) -> Any:
        """Turn the scores of one text into the typed answer that a person reads."""
        ...
