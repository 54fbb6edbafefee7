"""What the training loop trains: a module, and the objective that it is trained for."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from torch import Tensor, nn

from firth.data.batch import Batch


class Objective(Protocol):
    """What is minimised and measured: losses are sums, named like the counts that divide them."""

    @property
    def sums(self) -> tuple[str, ...]:
        """The names that `tally` gives, so that processes with different batches agree."""
        ...

    def counts(self, batch: Batch) -> Mapping[str, float]:
        """Return over how many targets of a batch each loss is summed."""
        ...

    def losses(self, encoder: Any, head: Any, batch: Batch) -> dict[str, Tensor]:
        """Run a model on a batch and sum each loss over its targets."""
        ...

    def tally(self, encoder: Any, head: Any, batch: Batch) -> dict[str, float]:
        """Return the sums over a batch that `metrics` needs, without gradients."""
        ...

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return published metrics, and the loss, from the sums over all batches."""
        ...

    def select_value(self, metrics: Mapping[str, float]) -> float:
        """Return the figure that is highest for the best model."""
        ...


class Learner(nn.Module):
    """An encoder, its head and their objective: the one module that the loop calls and saves."""

    def __init__(self, encoder: Any, head: nn.Module | None, objective: Objective) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.objective = objective
        self.carried: dict[str, Tensor] = {}  # what the next step begins with beside the weights

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Sum each loss over a batch."""
        return self.objective.losses(self.encoder, self.head, batch)

    def share(self, add: Callable[[Tensor], Tensor]) -> None:
        """Tell every process what the others carry on; `add` sums a tensor over all of them."""
