"""Run a frozen encoder once over all examples, and let training read from the table that this gives.

T tokens in the stream, L layers, D width.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from firth.base.errors import FirthError
from firth.base.progress import Progress
from firth.data.batch import make_batch, plan
from firth.data.rows import Ready, Rows
from firth.data.window import Window
from firth.models.features import Features, Stored
from firth.nn.pool import pool
from firth.text.tokenizer import Encoding

TOKENS_PER_BATCH = 3072
SPARE = 1.05  # of the disk's room, beyond the table itself


def store(features: Features, parts: Sequence[Rows], path: Path, whole_texts: bool) -> tuple[Stored, list[Rows]]:
    """A table of what the head is to read, in a file, and the same examples as numbers of its rows.

    For whole texts a row is the mean over a window, otherwise a token. What is learned about mixing layers is left out.
    """
    cut = [window for part in parts for one in part.ready for window in one.windows]
    sizes = np.array([1 if whole_texts else len(window.row) for window in cut])
    starts = sizes.cumsum() - sizes
    shape = (len(features.layers), features.encoder.width) if features.mix.learned else (features.width,)
    _check_space(path, 4 * int(sizes.sum()) * int(np.prod(shape)))
    table = np.lib.format.open_memmap(path, "w+", np.float32, (int(sizes.sum()), *shape))
    features.eval()
    done = 0
    with torch.inference_mode(), Progress("reading the layers", "texts", len(cut)) as say:
        for picked in plan([len(window.row) for window in cut], TOKENS_PER_BATCH):
            batch = make_batch([cut[i].row for i in picked])
            x = features.chosen(*batch.stream)  # (T, L, D)
            x = pool(x.flatten(1), batch.lengths, "mean").view(-1, *x.shape[1:]) if whole_texts else x
            x = x if features.mix.learned else features.mix(x)
            for i, piece in zip(picked, x.split([int(sizes[i]) for i in picked]), strict=True):
                table[starts[i] : starts[i] + sizes[i]] = piece.numpy()
            done += len(picked)
            say(done)
    numbered = zip(cut, starts, sizes, strict=True)
    return Stored(table, features.mix), [_numbered(part, numbered) for part in parts]


def _numbered(rows: Rows, windows: Iterator[tuple[Window, int, int]]) -> Rows:
    """The same examples, their tokens numbered as in the table."""
    ready = []
    for one in rows.ready:
        own = [next(windows) for _ in one.windows]
        ready.append(
            Ready([window._replace(row=_row(window.row, int(start), int(size))) for window, start, size in own], one.targets)
        )
    return Rows(ready, rows.texts)


def _row(row: Encoding, start: int, size: int) -> Encoding:
    return replace(row, ids=list(range(start, start + size)), segments=[0] * size)


def _check_space(path: Path, needed: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if free < SPARE * needed:
        raise FirthError(
            f"{path} needs {needed / 1e6:,.0f} MB for the layers of all examples, and the disk has {free / 1e6:,.0f} MB left"
        )
