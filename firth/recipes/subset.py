"""While a model is taught, its table holds only the pieces of its examples; the others wait as they are.

A piece that no example has gets no gradient, so that nothing is lost. The table is half of a small model, and two thirds of one for
a hundred languages: what waits takes no gradient, no memory of the optimizer's, no room in checkpoints and no time.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from firth.data.rows import Packed, Rows
from firth.models.bert import Bert
from firth.models.gpt import Gpt
from firth.nn.embedding import Embedding


class Waiting(NamedTuple):
    """A whole table, and the pieces that are taught."""

    table: Tensor  # (V, D)
    taught: NDArray[np.int64]  # in order


def narrow(encoder: Bert | Gpt, parts: Sequence[Rows]) -> tuple[Waiting, list[Rows]]:
    """Leave the pieces of these examples in a model's table, and number them anew in the examples."""
    taught = np.unique(
        np.concatenate([row.ids for part in parts for one in part.ready for row in one.rows])
    ).astype(np.int64)
    holder = _holder(encoder)
    table = holder.token.weight.detach()
    holder.token = nn.Embedding.from_pretrained(table[torch.from_numpy(taught)], freeze=False)
    return Waiting(table, taught), [_numbered(part, taught) for part in parts]


def widen(encoder: Bert | Gpt, waiting: Waiting) -> None:
    """Put what was taught back among the others."""
    holder = _holder(encoder)
    waiting.table[torch.from_numpy(waiting.taught)] = holder.token.weight.detach()
    holder.token = nn.Embedding.from_pretrained(waiting.table)


def _holder(encoder: Bert | Gpt) -> Embedding | Gpt:
    return encoder.embedding if isinstance(encoder, Bert) else encoder


def _numbered(rows: Rows, taught: NDArray[np.int64]) -> Rows:
    def numbered(row: Packed) -> Packed:
        return Packed(np.searchsorted(taught, row.ids).astype(np.int32), row.segments)

    return Rows(
        [one._replace(rows=[numbered(row) for row in one.rows]) for one in rows.ready], rows.texts
    )
