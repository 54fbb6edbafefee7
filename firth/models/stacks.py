"""Two stacks of Transformer layers: a decoder that attends to what an encoder made of sources.

S source tokens, U target tokens, B pairs, D width, H heads, L tokens of a text, O words that are
written.

Texts may come in any order. Each side is sorted by length inside the network, so that attention
runs over few rectangles on both sides, which no order of the pairs alone could give.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.models.protocols import EncoderDecoder
from firth.nn.attention import Biases
from firth.nn.cache import Cache
from firth.nn.cross import Arrangement, CrossAttention, Crossed, Pairing, Sources, arrange
from firth.nn.ragged import Group, groups, row_places, shifted
from firth.nn.vocab import log_probs


class Memory(NamedTuple):
    """What the encoder made of sources, and where each stands in it."""

    vectors: Tensor  # (S, D)
    starts: Tensor  # (B)
    lengths: Tensor  # (B)


@dataclass(frozen=True, eq=False)
class StacksState:
    """Keys and values of the sources, and of the target tokens read so far."""

    cache: Cache
    sources: Sources

    def pick(self, rows: Tensor) -> "StacksState":
        """Return the state of the rows named, in that order."""
        return StacksState(self.cache.pick(rows), self.sources.pick(rows))


class DecoderLayer(Protocol):
    """A layer of the decoder."""

    cross: CrossAttention

    def decode(
        self,
        x: Tensor,
        layout: list[Group],
        memory: Tensor,
        pairs: list[Pairing],
        biases: Biases | None,
    ) -> Tensor:
        """Run the layer over a stream of targets (U, D) and the vectors of their sources (S, D)."""
        ...

    def explain_pairs(
        self,
        x: Tensor,
        layout: list[Group],
        memory: Tensor,
        pairs: list[Pairing],
        biases: Biases | None,
    ) -> tuple[Tensor, list[Crossed]]:
        """Run the layer and also return how each target attends to its source."""
        ...

    def step_pairs(
        self, x: Tensor, cache: Cache, sources: Sources, layer: int, bias: Tensor | None
    ) -> Tensor:
        """Run the layer for one token a row (B, D), without dropout or gradient."""
        ...


class Stacks(EncoderDecoder):
    """The network but for its layers, what they read, and its output layer."""

    source: nn.Embedding
    target: nn.Embedding | None  # None where both sides share a table
    encoder: nn.ModuleList
    decoder: nn.ModuleList

    @property
    def body(self) -> nn.Module:
        """Return the layers of both sides."""
        return nn.ModuleList([self.encoder, self.decoder])

    @abstractmethod
    def embed(self, table: nn.Embedding, ids: Tensor, lengths: Tensor) -> Tensor:
        """Return what the first layer reads of tokens, of texts of these lengths."""

    @abstractmethod
    def embed_step(self, ids: Tensor, place: int) -> Tensor:
        """Return what the decoder reads of one token a row (B), after so many (B, D)."""

    @abstractmethod
    def finish_encoder(self, x: Tensor) -> Tensor:
        """Return what the decoder attends to, given what the last layer of the encoder gives."""

    @abstractmethod
    def finish(self, x: Tensor) -> Tensor:
        """Return what the output layer reads, given what the last layer of the decoder gives."""

    def encoder_biases(self, layout: list[Group]) -> Biases | None:
        """Return what the encoder's layers add to the logits of attention; None for nothing."""
        return None

    def decoder_biases(self, layout: list[Group]) -> Biases | None:
        """Return what the decoder's layers add to those of their targets; None for nothing."""
        return None

    def step_bias(self, place: int) -> Tensor | None:
        """Return what they add for a token after so many (1, H, 1, place + 1)."""
        return None

    def encode(self, ids: Tensor, lengths: Tensor) -> Memory:
        """Return the vectors of source tokens, and where each source stands."""
        self._check(lengths, "source")
        rows = lengths.argsort(stable=True)
        ordered = lengths[rows]
        places = row_places(lengths, rows).to(ids.device)
        x = self.embed(self.source, ids[places], ordered)
        layout = groups(ordered.tolist())
        biases = self.encoder_biases(layout)
        for block in self.encoder:
            x = block(x, layout, biases)
        starts = torch.empty_like(lengths)
        starts[rows] = ordered.cumsum(0) - ordered
        return Memory(self.finish_encoder(x), starts, lengths)

    def teacher_forced(
        self, ids: Tensor, lengths: Tensor, target_ids: Tensor, target_lengths: Tensor
    ) -> Tensor:
        """Return a vector for each target token (U, D)."""
        memory = self.encode(ids, lengths)
        x, order = self._targets(target_ids, target_lengths, memory)
        layout = order.groups
        biases = self.decoder_biases(layout)
        for block in self._layers():
            x = block.decode(x, layout, memory.vectors, order.pairs, biases)
        return self.finish(x)[order.back]

    forward = teacher_forced

    @torch.no_grad()
    def begin(self, ids: Tensor, lengths: Tensor) -> StacksState:
        """Read sources; return the state before the start mark."""
        memory = self.encode(ids, lengths)
        blocks = list(self._layers())
        layers = [block.cross.kv(memory.vectors) for block in blocks]
        heads = blocks[0].cross.heads
        scale = blocks[0].cross.scale
        sources = Sources.make(layers, memory.lengths, memory.starts, heads, scale)
        keys, _ = layers[0].chunk(2, 1)
        cache = Cache.empty(keys, len(layers), len(lengths), heads)
        return StacksState(cache, sources)

    @torch.no_grad()
    def step(self, ids: Tensor, state: StacksState) -> tuple[Tensor, StacksState]:
        """Read a target token a row (B); return log-probabilities (B, O) and the state after."""
        cache = state.cache.room()
        place = cache.end
        if self.length is not None and place >= self.length:
            raise InputError(f"a target is longer than the {self.length} tokens that it may have")
        x = self.embed_step(ids, place)
        bias = self.step_bias(place)
        for number, block in enumerate(self._layers()):
            x = block.step_pairs(x, cache, state.sources, number, bias)
        after = StacksState(cache.advance(), state.sources)
        return log_probs(self.finish(x), *self.output), after

    @torch.no_grad()
    def cross_attention(
        self, ids: Tensor, lengths: Tensor, target_ids: Tensor, target_lengths: Tensor
    ) -> Iterator[list[Crossed]]:
        """Yield layer by layer how each target attends to its source."""
        memory = self.encode(ids, lengths)
        x, order = self._targets(target_ids, target_lengths, memory)
        layout = order.groups
        biases = self.decoder_biases(layout)
        for block in self._layers():
            x, crossed = block.explain_pairs(x, layout, memory.vectors, order.pairs, biases)
            yield order.restore(crossed)

    @property
    def target_layer(self) -> nn.Embedding:
        """Return the table of target tokens."""
        return self.source if self.target is None else self.target

    def _layers(self) -> Iterable[DecoderLayer]:
        return cast("Iterable[DecoderLayer]", self.decoder)

    def _targets(self, ids: Tensor, lengths: Tensor, memory: Memory) -> tuple[Tensor, Arrangement]:
        """Return the vectors of what the decoder reads (U, D), and its order."""
        self._check(lengths, "target")
        order = arrange(lengths, memory.starts, memory.lengths, ids.device)
        read = shifted(ids, lengths, self.start)[order.places]
        return self.embed(self.target_layer, read, order.lengths), order

    def _check(self, lengths: Tensor, side: str) -> None:
        """Refuse a text that is empty or longer than the model takes."""
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest < 1:
            raise InputError(f"a {side} has no token")
        if self.length is not None and longest > self.length:
            raise InputError(
                f"a {side} of {longest} tokens is longer than the {self.length} that it may have"
            )
