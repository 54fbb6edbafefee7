"""GPT-2: a stack of Transformer blocks that reads a text from left to right and says what comes next.

T tokens in the stream, B rows, D width, V vocabulary. "Language Models are Unsupervised Multitask Learners", Radford et al., 2019.

Positions are learned, one vector for each, so that a row has no more tokens than the model has positions, the start mark and what
a state remembers included. What goes beyond is refused. A state may forget its oldest tokens (`latest`) to make room; positions
then go on in the round, which a model only understands if it was trained so (pretraining's `--carry`). For others a window that
slides has to read its tokens again, because no cached key or value is the same at another position.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.base.settings import Settings
from firth.models.protocols import Hidden
from firth.nn.attention import groups
from firth.nn.decoder import Cache, DecoderBlock, Plain, scores_of, scores_of_all, stretches
from firth.nn.dropout import drop

Rate = Annotated[float, Field(ge=0, lt=1)]


class GptSettings(Settings):
    """The sizes of a GPT-2 and the ids of its marks, which may be the same."""

    vocab: int = Field(gt=0, le=1 << 24)
    width: int = Field(gt=0, le=1 << 16)
    depth: int = Field(gt=0, le=1024)
    heads: int = Field(gt=0, le=1024)
    inner: int = Field(gt=0, le=1 << 18)
    length: int = Field(default=1024, gt=0, le=1 << 20)
    start: int = Field(ge=0)  # the mark that is read before a text
    end: int | None = Field(default=None, ge=0)  # the token that ends a text
    dropout: Rate = 0.1
    embedding_dropout: Rate = 0.1
    attention_dropout: Rate = 0.1
    eps: float = Field(default=1e-5, gt=0, lt=1)
    activation: Literal["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"] = "gelu_new"
    spread: float = Field(default=0.02, gt=0, lt=10)  # standard deviation of fresh weights

    @model_validator(mode="after")
    def _sizes_fit(self) -> "GptSettings":
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        if max(self.start, self.end or 0) >= self.vocab:
            raise ValueError(f"a mark is beyond the vocabulary of {self.vocab}")
        return self


@dataclass(frozen=True, eq=False)
class GptState:
    """What each row has read: keys and values of its tokens, and the vector of the last one.

    It holds no gradient: the text before is given, not learned from.
    """

    cache: Cache
    read: Tensor  # (B) tokens in all, also those that the cache has forgotten
    last: Tensor  # (B, D), of no meaning before the first token
    blocks: tuple[Plain, ...]  # the model's own, for steps

    def pick(self, rows: Tensor) -> "GptState":
        """The state of the rows named, in that order."""
        return GptState(self.cache.pick(rows), self.read[rows], self.last[rows], self.blocks)

    def latest(self, most: int) -> "GptState":
        """The same with at most so many tokens of each row remembered."""
        return replace(self, cache=self.cache.latest(most))

    def tensors(self) -> dict[str, Tensor]:
        """What reading on needs, a row first, to be kept between two steps of training; all rows have read as much."""
        return {
            "cache": self.cache.store.tensor[:, :, :, : self.cache.end].movedim(2, 0),
            "read": self.read,
            "last": self.last,
        }


class Gpt(nn.Module):
    """The network, an encoder and a language model at once; its output is tied to the embedding."""

    gradient = True

    def __init__(self, settings: GptSettings) -> None:
        super().__init__()
        s = settings
        self.settings = s
        self.vocab, self.width, self.depth, self.length = s.vocab, s.width, s.depth, s.length
        self.token = nn.Embedding(s.vocab, s.width)
        self.position = nn.Embedding(s.length, s.width)
        self.blocks = nn.ModuleList(
            DecoderBlock(
                s.width, s.heads, s.inner, s.dropout, s.attention_dropout, s.eps, s.activation
            )
            for _ in range(s.depth)
        )
        self.norm = nn.LayerNorm(s.width, s.eps)
        self.apply(self.fresh)

    def fresh(self, module: nn.Module) -> None:
        """Give a module fresh weights, as GPT-2 does: small normal matrices, smaller where they add to what all layers add to."""
        s = self.settings
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=s.spread)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, DecoderBlock):
            for layer in (module.attention.out, module.down):
                nn.init.normal_(layer.weight, std=s.spread / (2 * s.depth) ** 0.5)

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
        """Encode a stream as it is, without a start mark; GPT-2 knows no segments.

        A text's summary is the vector of its last token, the only one that has read it all. `layers` and `weights` also return
        every layer, the last one normalised, and every head's attention.
        """
        layout = groups(lengths.tolist())
        x = self._embed(ids, positions)  # (T, D)
        states, shares = [x], []
        for block in self.blocks:
            assert isinstance(block, DecoderBlock)
            if weights:
                x, seen = block.explain(x, layout)
                shares.append(seen)
            else:
                x = block(x, layout)
            if layers:
                states.append(x)
        x = self.norm(x)
        pooled = x[(lengths.cumsum(0) - 1).to(x.device)]  # (B, D)
        return Hidden(x, pooled, (*states[:-1], x) if layers else (), tuple(shares))

    def start(self, rows: int) -> GptState:
        """The state before the first token."""
        table = self.token.weight.detach()
        blocks = tuple(block.plain() for block in self.blocks if isinstance(block, DecoderBlock))
        empty = Cache.empty(table, self.depth, rows, self.settings.heads)
        return GptState(empty, empty.lengths, table.new_zeros(rows, self.width), blocks)

    def state(self, tensors: Mapping[str, Tensor]) -> GptState:
        """A state from the tensors of another."""
        kept, fresh = tensors["cache"].movedim(0, 2), self.start(len(tensors["read"]))
        cache = Cache.make(kept.contiguous(), kept.shape[3], torch.zeros_like(tensors["read"]))
        return replace(fresh, cache=cache, read=tensors["read"], last=tensors["last"])

    def score(
        self, ids: Tensor, lengths: Tensor, state: GptState | None = None
    ) -> tuple[Tensor, GptState]:
        """The natural log-probability of each token (T), and the state at the end of each row.

        A row begins with the start mark, or goes on after what its state has read.
        """
        state = state or self.start(len(lengths))
        ids = self._check(ids, lengths, state)
        if state.cache.end:
            x, after = self._read(ids, lengths, state)  # (T, D)
            before = torch.cat([state.last, x]).index_select(0, _before(lengths).to(ids.device))
        else:
            marked, places = _mark(ids, lengths, self.settings.start)
            x, after = self._read(marked, lengths + 1, state)  # (T + B, D)
            before = x.index_select(0, places - 1)
        return scores_of(before, self.token.weight, ids), after

    @torch.no_grad()
    def read(self, ids: Tensor, lengths: Tensor, state: GptState) -> GptState:
        """The state after more tokens, which are read as they are: no start mark is put before them, and no score is made."""
        ids = self._check(ids, lengths, state)
        return self._read(ids, lengths, state)[1]

    @torch.no_grad()
    def step(self, ids: Tensor, state: GptState) -> tuple[Tensor, GptState]:
        """Read a token a row (B), at first the start mark, and give the log-probability of every next one, (B, V)."""
        if len(ids) != len(state.last):
            raise InputError(f"a state of {len(state.last)} rows can't go on with {len(ids)}")
        if state.cache.end >= self.length:
            raise InputError(
                f"a row is longer than the {self.length} tokens that the model has positions for"
            )
        cache = state.cache.room()
        x = self.token(ids.to(state.last.device)) + self.position(
            state.read % self.length
        )  # (B, D)
        for number, block in enumerate(state.blocks):
            x = block.step(x, cache, number)
        x = self.norm(x)
        return scores_of_all(x, self.token.weight), GptState(
            cache.onward(), state.read + 1, x, state.blocks
        )

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        return drop(
            self.token(ids) + self.position(positions),
            self.settings.embedding_dropout,
            self.training,
        )

    def _read(self, ids: Tensor, lengths: Tensor, state: GptState) -> tuple[Tensor, GptState]:
        """The vectors of a stream (T, D) that goes on after a state, and the state after it."""
        before, past, read, stop = (
            state.cache,
            state.cache.lengths.cpu(),
            state.read.cpu(),
            lengths.cumsum(0),
        )
        longest = max((past + lengths).tolist(), default=0)
        if longest > self.length:
            raise InputError(
                f"a row of {longest} tokens is longer than the {self.length} that the model has positions for"
            )
        after = before.longer(lengths.to(before.blank))
        parts = stretches(past.tolist(), lengths.tolist())
        positions = torch.arange(len(ids)) - (stop - lengths - read).repeat_interleave(lengths)
        x = self._embed(ids, (positions % self.length).to(ids.device))  # (T, D)
        for number, block in enumerate(self.blocks):
            assert isinstance(block, DecoderBlock)
            x = block.read(x, parts, before, after, number)
        x = self.norm(x)
        last = state.last.clone()
        rows = lengths.nonzero()[:, 0].to(last.device)
        last[rows] = x.detach()[(stop - 1).to(last.device)[rows]]
        return x, GptState(after, (read + lengths).to(state.read), last, state.blocks)

    def _check(self, ids: Tensor, lengths: Tensor, state: GptState) -> Tensor:
        """Refuse rows that don't fit each other, the state or the vocabulary; else the tokens where the model is."""
        if len(lengths) != len(state.last):
            raise InputError(f"a state of {len(state.last)} rows can't go on with {len(lengths)}")
        if (lengths < 0).any() or lengths.sum() != len(ids):
            raise InputError(f"the rows' lengths don't add up to {len(ids)} tokens")
        wrong = (ids < 0) | (ids >= self.vocab)
        if wrong.any():
            raise InputError(
                f"the id {ids[wrong][0]} is not in the model's vocabulary of {self.vocab}"
            )
        return ids.to(state.last.device)


def _mark(ids: Tensor, lengths: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """A stream with the start mark before every row, and where its other tokens stand (T)."""
    rows = torch.arange(1, len(lengths) + 1).repeat_interleave(
        lengths
    )  # as many marks come before a token
    places = (torch.arange(len(ids)) + rows).to(ids.device)
    marked = ids.new_full((len(ids) + len(lengths),), start)
    marked[places] = ids
    return marked, places


def _before(lengths: Tensor) -> Tensor:
    """For each token (T) where the one before it stands among the last ones of the rows' states (B) and the stream's own."""
    rows = lengths.nonzero()[:, 0]
    places = torch.arange(int(lengths.sum())) + len(lengths) - 1
    places[(lengths.cumsum(0) - lengths)[rows]] = rows
    return places
