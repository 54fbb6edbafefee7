"""The one place where encodings become tensors: a stream of real tokens and its texts' lengths.

T tokens in the stream, B rows (a row is a text, or one window of a long text).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

TARGET = "target"  # of text to text: the tokens of the target, row after row


class TokenRow(Protocol):
    """One text, or one window of it: an `Encoding`, or the same as arrays."""

    @property
    def ids(self) -> Any:
        """Piece of each token."""
        ...

    @property
    def segments(self) -> Any:
        """Which of two texts each token belongs to."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Batch:
    """A ragged stream; no padding, no attention mask."""

    ids: Tensor  # (T)
    positions: Tensor  # (T) within the row
    segments: Tensor  # (T)
    lengths: Tensor  # (B) on the CPU
    owner: list[int]  # (B) which example each row belongs to
    targets: dict[str, Tensor] = field(default_factory=dict)  # by the task's own names
    encodings: list[int] = field(default_factory=list)  # (B) which of its example's each row is of

    @property
    def tokens(self) -> int:
        """How many tokens a model reads: those of the stream and, if there are, of the targets."""
        return len(self.ids) + len(self.targets.get(TARGET, ()))

    @property
    def stream(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What an encoder takes."""
        return self.ids, self.positions, self.segments, self.lengths


def make_batch(
    rows: Sequence[TokenRow],
    owner: Sequence[int] | None = None,
    targets: Mapping[str, NDArray[Any]] | None = None,
    device: str = "cpu",
    encodings: Sequence[int] | None = None,
) -> Batch:
    """Lay rows one after another.

    Each is the only one of the example with its own number, unless `owner` and `encodings` say
    otherwise.
    """
    # Arithmetic in NumPy: a parallel operation of torch's in a worker's thread starts a second team
    # of threads, and from then on every team of the process waits asleep instead of awake, which
    # makes a training step half as long again.
    lengths = np.array([len(row) for row in rows])  # (B)
    starts = (lengths.cumsum() - lengths).repeat(lengths)  # (T)
    return Batch(
        ids=torch.from_numpy(np.concatenate([np.asarray(row.ids, np.int64) for row in rows])).to(
            device
        ),
        positions=torch.from_numpy(np.arange(len(starts)) - starts).to(device),
        segments=torch.from_numpy(
            np.concatenate([np.asarray(row.segments, np.int64) for row in rows])
        ).to(device),
        lengths=torch.from_numpy(lengths),
        owner=list(range(len(rows)) if owner is None else owner),
        targets={
            name: torch.from_numpy(values).to(device) for name, values in (targets or {}).items()
        },
        encodings=list([0] * len(rows) if encodings is None else encodings),
    )


def plan(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Sort rows by length, longest first, and cut them into batches of at most `budget` tokens.

    A row that is longer has a batch of its own.
    """
    batches: list[list[int]] = []
    used = budget
    for row in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if used + lengths[row] > budget:
            batches.append([])
            used = 0
        batches[-1].append(row)
        used += lengths[row]
    return batches
