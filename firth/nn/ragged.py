"""A ragged stream of texts, cut into rectangles that one kernel call can take.

B texts or rows of the stream; within a group: N texts of L tokens.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor


class Group(NamedTuple):
    """Neighbouring texts of one length: a rectangle as it stands in the stream."""

    start: int  # first token in the stream
    texts: int
    length: int

    def of(self, stream: Tensor) -> Tensor:
        """Return the group's tokens, a view of the stream (N L, ...)."""
        return stream.narrow(0, self.start, self.texts * self.length)


class Stretch(NamedTuple):
    """Neighbouring rows with the same number of tokens read before and of new tokens."""

    group: Group  # their new tokens in the stream
    row: int  # the first of them
    past: int  # tokens that each has read


def groups(lengths: Sequence[int]) -> list[Group]:
    """Cut a stream into runs of equal length; few where it is sorted by length, right in any order.

    Padding near-equal lengths into one rectangle was measured and never paid: a call costs less
    than the copies and the mask.
    """
    found = []
    start = 0
    for length, run in groupby(lengths):
        group = Group(start, len(list(run)), length)
        found.append(group)
        start += group.texts * length
    return found


def stretches(past: Sequence[int], lengths: Sequence[int]) -> list[Stretch]:
    """Cut a stream into runs of like rows (B); rows without new tokens are left out."""
    found = []
    start = 0
    row = 0
    for (read, length), run in groupby(zip(past, lengths, strict=True)):
        rows = len(list(run))
        if length:
            found.append(Stretch(Group(start, rows, length), row, read))
        start += rows * length
        row += rows
    return found


def shifted(ids: Tensor, lengths: Tensor, start: int) -> Tensor:
    """Return what a decoder reads to name each token of rows (B), none empty: the one before it."""
    read = ids.roll(1)
    first = lengths.cumsum(0) - lengths
    read[first.to(ids.device)] = start
    return read


def row_places(lengths: Tensor, rows: Tensor) -> Tensor:
    """Return where the tokens (T) of rows stand that are put in another order (B)."""
    stop = lengths.cumsum(0)
    sizes = lengths[rows]
    moved = stop[rows] - sizes.cumsum(0)  # how far each row comes from
    return moved.repeat_interleave(sizes) + torch.arange(int(sizes.sum()))
