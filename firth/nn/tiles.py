"""Words in tiles, so that all scores of a step are a few batched products of matrices.

N words of a block, T tiles, C words of a tile, W window, G groups, K noise words of a group,
V vocabulary, D width.

A block is a stretch of text. Each word of a tile is scored against the tile and W words on either
side of it; a band keeps those that are in the word's window. Words drawn as noise are shared by
the words of a group, and each counts for as many as the model asks for. The table has two vectors
for each word, side by side, so that both are found in one place in memory.
"""

from typing import NamedTuple

import torch
from torch import Tensor

TILE = 16  # words, or as many as the window has
TILES_OF_GROUP = 2
NOISE = 32  # words of a group


class WordBlock(NamedTuple):
    """The words of a step, and how many words to the left and right are in each one's window.

    Rows are padded to whole groups with words that have no window.
    """

    words: Tensor  # (N,) int64
    left: Tensor  # (N,) int8
    right: Tensor  # (N,) int8
    noise: Tensor  # (G * K,) int64


def tile_size(window: int) -> int:
    """Return the words of a tile: not fewer than the window, which so ends in the next one."""
    return TILE * -(-window // TILE)


def group_size(window: int) -> int:
    """Return the words that share their noise."""
    return tile_size(window) * TILES_OF_GROUP


class Tiles:
    """The vectors of a block and their gradients, in memory that is used again for each step."""

    def __init__(self, width: int, window: int) -> None:
        self.width = width
        self.window = window
        self.tile = tile_size(window)
        self.group = group_size(window)
        self.count = 0  # words
        self._values = torch.zeros(0)
        self._gradients = torch.zeros(0)
        place = torch.arange(self.tile + 2 * window)
        self.distance = (place - torch.arange(self.tile)[:, None] - window).to(torch.int8)

    def read(self, table: Tensor, words: Tensor) -> None:
        """Take the two vectors of each word (N) from a table (V, 2 D)."""
        self.count = len(words)
        padded = self.count + 2 * self.window
        if len(self._values) < padded:
            self._values = table.new_zeros(padded, 2 * self.width)
            self._gradients = table.new_zeros(padded, 2 * self.width)
        torch.index_select(table, 0, words, out=self.values)

    def own(self, half: int, size: int | None = None) -> Tensor:
        """Return one vector of each word, (T, C, D) or in parts of another size."""
        return self._view(self._values, half, size or self.tile, self.window)

    def around(self, half: int) -> Tensor:
        """Return one vector of each word of a tile and around it, (T, C + 2 W, D)."""
        return self._view(self._values, half, self.tile, 0, self.tile + 2 * self.window)

    def gradient(self, half: int) -> Tensor:
        """Return the place for the gradient of one vector of each word, (T, C, D)."""
        return self._view(self._gradients, half, self.tile, self.window)

    @property
    def values(self) -> Tensor:
        """Return both vectors of each word, (N, 2 D)."""
        return self._values[self.window : self.window + self.count]

    @property
    def gradients(self) -> Tensor:
        """Return the gradients of both vectors of each word, (N, 2 D)."""
        return self._gradients[self.window : self.window + self.count]

    def band(self, block: WordBlock) -> Tensor:
        """Return which words around a tile are in the window of each of its words, (T, C, C + 2 W).

        A word is not in its own window.
        """
        shape = (-1, self.tile, 1)
        inside = self.distance >= block.left.view(shape).neg()
        inside &= self.distance <= block.right.view(shape)
        inside &= self.distance != 0
        return inside

    def fold(self, around: Tensor, half: int) -> None:
        """Add up the gradients of the words around tiles (T, C + 2 W, D), which overlap."""
        size = self.tile
        window = self.window
        edges = self._gradients[:, half * self.width : (half + 1) * self.width]
        edges[:window] = 0
        edges[window + self.count : self.count + 2 * window] = 0
        self.gradient(half).copy_(around[:, window : window + size])
        before = self._view(self._gradients, half, size, 0, window)
        before += around[:, :window]
        after = self._view(self._gradients, half, size, window + size, window)
        after += around[:, window + size :]

    def _view(
        self, rows: Tensor, half: int, step: int, first: int, length: int | None = None
    ) -> Tensor:
        """Return one half of the rows as parts that begin every `step` rows."""
        row = 2 * self.width
        shape = (self.count // step, length or step, self.width)
        return rows.as_strided(shape, (step * row, row, 1), first * row + half * self.width)
