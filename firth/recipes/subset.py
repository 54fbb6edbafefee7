"""A subset of the embedding table: while a model is fine-tuned, only the rows of its examples.

A piece that no example has gets no gradient, so that nothing is lost. The table is half of a small
model, and two thirds of one for a hundred languages: what waits takes no gradient, no memory of the
optimizer's, no room in checkpoints and no time.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.data.rows import ExampleFeed, PackedRow
from firth.models.protocols import Encoder


class Waiting(NamedTuple):
    """A whole table, and the pieces that are taught."""

    table: Tensor  # (V, D)
    taught: NDArray[np.int64]  # in order


def narrow_table(
    encoder: Encoder, parts: Sequence[ExampleFeed]
) -> tuple[Waiting, list[ExampleFeed]]:
    """Leave the pieces of these examples in a model's table, and number them anew."""
    ids = [row.ids for part in parts for one in part.examples for row in one.rows]
    marks = np.arange(encoder.marks)
    taught = np.unique(np.concatenate([marks, *ids])).astype(np.int64)
    table = encoder.table.detach()
    trainable = encoder.table.requires_grad
    encoder.replace_table(table[torch.from_numpy(taught)], trainable)
    return Waiting(table, taught), [_numbered(part, taught) for part in parts]


def restore_table(encoder: Encoder, waiting: Waiting) -> None:
    """Put what was taught back among the others."""
    waiting.table[torch.from_numpy(waiting.taught)] = encoder.table.detach()
    encoder.replace_table(waiting.table, trainable=False)


def _numbered(rows: ExampleFeed, taught: NDArray[np.int64]) -> ExampleFeed:
    def numbered(row: PackedRow) -> PackedRow:
        return PackedRow(np.searchsorted(taught, row.ids).astype(np.int32), row.segments)

    return ExampleFeed(
        [one._replace(rows=[numbered(row) for row in one.rows]) for one in rows.examples],
        rows.texts,
    )
