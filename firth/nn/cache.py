"""The key-value cache: keys and values of the tokens that each row has read.

M layers, B rows, C columns of the cache, H heads, K head width, D width, T tokens in the stream;
within a stretch: N rows of L new tokens after P old ones.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.nn.ragged import Stretch

COLUMNS = 64  # of the smallest cache


class Store:
    """Memory that several caches share, each up to its own end; the last writer may go on."""

    def __init__(self, tensor: Tensor, filled: int) -> None:
        self.tensor = tensor  # (M, 2, B, C, H, K)
        self.filled = filled  # columns
        # Each layer whole (2, B, C, H, K), its keys and its values (B H C K): views, made once for
        # many steps.
        self.layers = []
        for layer in tensor.unbind(0):
            keys, values = layer.transpose(2, 3).unbind(0)
            self.layers.append((layer, keys, values))


class Cache(NamedTuple):
    """Keys and values of rows that end at the same column, so that a step writes one column."""

    store: Store
    end: int  # the first free column: as many as the longest row has tokens
    blank: Tensor  # (B) columns before each row's first token, zeros in memory
    mask: Tensor | None  # (B, 1, 1, C) minus infinity on blank columns; None if there are none

    @classmethod
    def make(cls, tensor: Tensor, end: int, blank: Tensor) -> "Cache":
        """Make a cache over memory of its own, filled up to its end."""
        mask = None
        if blank.any():
            columns = torch.arange(tensor.shape[3], device=blank.device)
            hidden = columns < blank[:, None]  # (B, C)
            mask = tensor.new_zeros(hidden.shape)
            mask = mask.masked_fill_(hidden, -torch.inf)[:, None, None]
        return cls(Store(tensor, end), end, blank, mask)

    @classmethod
    def empty(cls, like: Tensor, layers: int, rows: int, heads: int) -> "Cache":
        """Make a cache without tokens, for vectors of the type and width of a table (V, D)."""
        width = like.shape[-1] // heads
        tensor = like.new_empty(layers, 2, rows, 0, heads, width)  # no column yet
        blank = torch.zeros(rows, dtype=torch.int64, device=like.device)
        return cls.make(tensor, 0, blank)

    @property
    def lengths(self) -> Tensor:
        """Tokens that each row has read (B)."""
        return self.end - self.blank

    def pick(self, rows: Tensor) -> "Cache":
        """Return the cache of the rows named, in that order."""
        rows = rows.to(self.blank.device)
        old = self.store.tensor
        blank = self.blank[rows]
        # Columns that are blank in all the rows that stay are dropped.
        first = 0
        if len(rows):
            first = int(blank.min())
        end = self.end - first
        new = old.new_empty(*old.shape[:2], len(rows), *old.shape[3:])
        filled = old[:, :, :, first : self.end]
        torch.index_select(filled, 2, rows, out=new[:, :, :, :end])
        return Cache.make(new, end, blank - first)

    def room(self) -> "Cache":
        """Return the same with a free column.

        In place, unless the memory is full or another cache has gone on in it: two continuations
        of one prompt share its columns until the second one writes.
        """
        old = self.store.tensor
        columns = old.shape[3]
        if self.end == self.store.filled < columns:
            return self
        if self.end == columns:
            columns = max(COLUMNS, 2 * columns)
        new = old.new_empty(*old.shape[:3], columns, *old.shape[4:])
        new[:, :, :, : self.end] = old[:, :, :, : self.end]
        return Cache.make(new, self.end, self.blank)

    def advance(self) -> "Cache":
        """Return the cache after its free column was written."""
        self.store.filled = self.end + 1
        return self._replace(end=self.end + 1)

    def attend(
        self, qkv: Tensor, layer: int, bias: Tensor | None = None, scale: float | None = None
    ) -> Tensor:
        """Attend one token a row with its queries, keys and values (B, 3 D); return (B, D).

        The token's keys and values go to the free column. A bias (1 H 1 C) of the columns up to it
        is added to the logits of all rows.
        """
        memory, keys, values = self.store.layers[layer]
        stop = self.end + 1
        qkv = qkv.view(len(qkv), 3, *memory.shape[3:])  # (B, 3, H, K)
        memory[:, :, self.end].copy_(qkv[:, 1:].transpose(0, 1))

        query = qkv[:, 0, :, None]  # (B H 1 K)
        keys = keys[:, :, :stop]
        values = values[:, :, :stop]
        mask = bias
        if self.mask is not None:
            mask = self.mask[..., :stop]
            if bias is not None:
                mask = mask + bias
        mixed = F.scaled_dot_product_attention(query, keys, values, mask, scale=scale)
        return mixed.flatten(1)

    def longer(self, lengths: Tensor) -> "Cache":
        """Return a copy in which each row has so many more tokens (B), still to be written.

        Rows must end at the same column, so old tokens move: each row's to before its new ones.
        """
        after = self.lengths + lengths
        end = 0
        if len(after):
            end = int(after.max())
        columns = COLUMNS
        while columns <= end:
            columns *= 2

        old = self.store.tensor
        new = old.new_zeros(*old.shape[:3], columns, *old.shape[4:])
        if self.end:
            stops = (end - lengths).tolist()
            sizes = self.lengths.tolist()
            for row, (size, stop) in enumerate(zip(sizes, stops, strict=True)):
                kept = old[:, :, row, self.end - size : self.end]
                new[:, :, row, stop - size : stop] = kept
        return Cache.make(new, end, end - after)

    def latest(self, most: int) -> "Cache":
        """Return a copy with at most so many tokens of each row, the last."""
        first = max(0, self.end - most)
        kept = self.store.tensor[:, :, :, first : self.end].clone()
        blank = (self.blank - first).clamp(min=0)
        return Cache.make(kept, self.end - first, blank)

    def write(self, layer: int, qkv: Tensor, parts: list[Stretch]) -> None:
        """Keep a layer's keys and values of a stream (T, 3 D) in the last columns."""
        memory = self.store.tensor[layer]  # (2, B, C, H, K)
        heads, head_width = memory.shape[3:]
        for group, row, _ in parts:
            new = group.of(qkv).view(group.texts, group.length, 3, heads, head_width)
            keys_values = new[:, :, 1:].permute(2, 0, 1, 3, 4)  # (2, N, L, H, K)
            rows = slice(row, row + group.texts)
            columns = slice(self.end - group.length, self.end)
            memory[:, rows, columns] = keys_values

    def past(self, layer: int, part: Stretch) -> tuple[Tensor, Tensor]:
        """Return a layer's keys and values of what a stretch's rows have read, (N H P K) each."""
        rows = slice(part.row, part.row + part.group.texts)
        columns = slice(self.end - part.past, self.end)
        kept = self.store.tensor[layer, :, rows, columns]  # (2, N, P, H, K)
        keys, values = kept.transpose(2, 3).unbind(0)
        return keys, values
