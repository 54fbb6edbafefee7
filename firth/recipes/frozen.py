"""Run a frozen encoder once over all examples; training then reads from the table of its layers.

T tokens in the stream, L layers, D width.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.base.errors import FirthError
from firth.base.progress import Progress
from firth.data.batch import make_batch, plan
from firth.data.rows import ExampleFeed, PackedRow
from firth.folders.features import Features, read_features
from firth.models.protocols import Backbone, Hidden
from firth.nn.mix import Mix
from firth.nn.pool import pool
from firth.nn.recurrent import BidirectionalRecurrent

TOKENS_PER_BATCH = 3072
SPARE = 1.05  # of the disk's room, beyond the table itself


class Stored(Backbone):
    """A frozen encoder's features, from a table made once: a token's id is its row's number."""

    def __init__(
        self, table: NDArray[np.float32], mix: Mix, bilstm: BidirectionalRecurrent | None = None
    ) -> None:
        super().__init__()
        self.table, self.mix, self.bilstm = table, mix, bilstm

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        segments: Tensor,
        lengths: Tensor,
        *,
        layers: bool = False,
        weights: bool = False,
    ) -> Hidden:
        """Look a stream up."""
        tokens = torch.from_numpy(
            self.table[ids.numpy()]
        )  # (T, L, D), or (T, D) if it was mixed before
        tokens = self.mix(tokens) if self.mix.learned else tokens
        return read_features(tokens, lengths, self.bilstm)


def store(
    features: Features, parts: Sequence[ExampleFeed], path: Path, whole_texts: bool
) -> tuple[Stored, list[ExampleFeed]]:
    """A table of what the head is to read, in a file, and the same examples as numbers of its rows.

    For whole texts a row is the mean over a window, otherwise a token, as a biLSTM reads them too.
    What is learned about mixing layers is left out.
    """
    means = whole_texts and features.bilstm is None
    every = [row for part in parts for one in part.examples for row in one.rows]
    sizes = np.array([1 if means else len(row) for row in every])
    starts = sizes.cumsum() - sizes
    shape = (
        (len(features.layers), features.encoder.width)
        if features.mix.learned
        else (features.mixed,)
    )
    _check_space(path, 4 * int(sizes.sum()) * int(np.prod(shape)))
    table = np.lib.format.open_memmap(path, "w+", np.float32, (int(sizes.sum()), *shape))
    features.eval()
    done = 0
    with torch.inference_mode(), Progress("reading the layers", "texts", len(every)) as say:
        for picked in plan([len(row) for row in every], TOKENS_PER_BATCH):
            batch = make_batch([every[i] for i in picked])
            x = features.chosen(*batch.stream)  # (T, L, D)
            x = pool(x.flatten(1), batch.lengths, "mean").view(-1, *x.shape[1:]) if means else x
            x = x if features.mix.learned else features.mix(x)
            for i, piece in zip(picked, x.split([int(sizes[i]) for i in picked]), strict=True):
                table[starts[i] : starts[i] + sizes[i]] = piece.numpy()
            done += len(picked)
            say(done)
    places = iter(np.split(np.arange(sizes.sum()), starts[1:]))
    stored = Stored(table, features.mix, features.bilstm)
    return stored, [_numbered(part, places) for part in parts]


def _numbered(rows: ExampleFeed, places: Iterator[NDArray[np.int64]]) -> ExampleFeed:
    """The same examples, their tokens numbered as in the table."""
    return ExampleFeed(
        [one._replace(rows=[_row(next(places)) for _ in one.rows]) for one in rows.examples],
        rows.texts,
    )


def _row(places: NDArray[np.int64]) -> PackedRow:
    return PackedRow(places, np.zeros(len(places), np.int8))


def _check_space(path: Path, needed: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if free < SPARE * needed:
        raise FirthError(
            f"{path} needs {needed / 1e6:,.0f} MB for the layers of all examples, "
            f"and the disk has {free / 1e6:,.0f} MB left"
        )
