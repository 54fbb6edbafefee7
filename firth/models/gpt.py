"""GPT-2: a stack of causal Transformer blocks that predicts the next token.

T tokens in the stream, B rows, D width, V vocabulary. "Language Models are Unsupervised Multitask
Learners", Radford et al., 2019.

Positions are learned, one vector for each, so that a row has no more tokens than the model has
positions, the start mark and what a state remembers included. What goes beyond is refused. A state
may forget its oldest tokens (`latest`) to make room; positions then go on in the round, which a
model only understands if it was trained so (pretraining's `--carry`). For others a window that
slides has to read its tokens again, because no cached key or value is the same at another position.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.families.gpt import GptSettings
from firth.models.cost import transformer_cost
from firth.models.protocols import Encoder, Hidden, NeuralLanguageModel, TokenCost
from firth.nn.attention import Attention
from firth.nn.block import Block
from firth.nn.cache import Cache
from firth.nn.dropout import drop
from firth.nn.ragged import groups, stretches
from firth.nn.vocab import log_probs, target_log_probs


@dataclass(frozen=True, eq=False)
class GptState:
    """What each row has read: keys and values of its tokens, and the vector of the last one.

    It holds no gradient: the text before is given, not learned from.
    """

    cache: Cache
    read: Tensor  # (B) tokens in all, also those that the cache has forgotten
    last: Tensor  # (B, D), of no meaning before the first token

    def pick(self, rows: Tensor) -> "GptState":
        """Return the state of the rows named, in that order."""
        cache = self.cache.pick(rows)
        return GptState(cache, self.read[rows], self.last[rows])

    def latest(self, most: int) -> "GptState":
        """Return the state with at most so many tokens of each row remembered, the last."""
        cache = self.cache.latest(most)
        return replace(self, cache=cache)

    def tensors(self) -> dict[str, Tensor]:
        """Return what reading on needs, a row first, to be kept between two steps of training.

        All rows have read the same number of tokens.
        """
        filled = self.cache.store.tensor[:, :, :, : self.cache.end]
        return {
            "cache": filled.movedim(2, 0),
            "read": self.read,
            "last": self.last,
        }


class Gpt(Encoder, NeuralLanguageModel):
    """The network, an encoder and a language model at once; its output is tied to the embedding."""

    settings: GptSettings
    length: int
    text_head_bias = False
    reads_prompts = True

    def __init__(self, settings: GptSettings) -> None:
        super().__init__()
        s = settings
        self.settings = s
        self.vocab = s.vocab
        self.width = s.width
        self.depth = s.depth
        self.length = s.length
        self.eps = s.eps
        self.activation = s.activation
        self.token = nn.Embedding(s.vocab, s.width)
        self.position = nn.Embedding(s.length, s.width)
        self.blocks = nn.ModuleList(
            Block(
                s.width,
                s.heads,
                s.inner,
                s.dropout,
                s.attention_dropout,
                s.eps,
                s.activation,
                causal=True,
                norm="pre",
            )
            for _ in range(s.depth)
        )
        self.norm = nn.LayerNorm(s.width, s.eps)
        self.apply(self.initialise)

    @property
    def table(self) -> nn.Parameter:
        """Return the token embedding, (V, D)."""
        table = self.token.weight
        assert isinstance(table, nn.Parameter)
        return table

    @property
    def position_table(self) -> Tensor:
        """Return the vectors of positions."""
        return self.position.weight

    def replace_table(self, rows: Tensor, trainable: bool = True) -> None:
        """Read token vectors from another table, of as many rows as it has."""
        self.token = nn.Embedding.from_pretrained(rows, freeze=not trainable)

    @property
    def body(self) -> nn.Module:
        """Return the blocks."""
        return self.blocks

    def top_layers(self, count: int) -> list[nn.Module]:
        """Return the last blocks and the norm above them."""
        return [*self.blocks[-count:], self.norm]

    def attention_layers(self) -> list[Attention]:
        """Return the attention of each block."""
        found = []
        for block in self.blocks:
            assert isinstance(block, Block)
            found.append(block.attention)
        return found

    def set_dropout(self, probability: float) -> None:
        """Let every layer drop with one probability, and the settings say so."""
        names = ("dropout", "embedding_dropout", "attention_dropout")
        update = dict.fromkeys(names, probability)
        self.settings = self.settings.model_copy(update=update)
        for block in self.blocks:
            assert isinstance(block, Block)
            block.dropout = probability
            block.attention.dropout = probability

    def shift_summary(self, vector: Tensor) -> None:
        """Add a vector to what the last norm gives: GPT-2's head over whole texts has no bias."""
        with torch.no_grad():
            self.norm.bias.add_(vector)

    def token_cost(self) -> TokenCost:
        """Return what a token costs."""
        return transformer_cost(self.settings)

    def opening(self, end: int) -> list[int]:
        """Return nothing: a text begins with the start mark alone."""
        return []

    @property
    def token_layer(self) -> nn.Module:
        """Return the token embedding."""
        return self.token

    def places(self, lengths: Tensor, far: int) -> Tensor:
        """Say where earlier tokens stand in what is read: a start mark comes before each row."""
        marks = torch.arange(len(lengths))
        last = lengths.cumsum(0) + marks  # (B)
        distance = torch.arange(1, far + 1)
        places = last[:, None] - distance  # (B, far)
        return places.clamp(min=-1)

    def initialise(self, module: nn.Module) -> None:
        """Give a module fresh weights, as GPT-2 does: normal matrices and zero biases.

        The layers that write into the residual stream begin smaller, the more so the deeper it is.
        """
        s = self.settings
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=s.spread)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, Block):
            additions = 2 * s.depth  # each block adds to the stream twice
            std = s.spread / additions**0.5
            for layer in (module.attention.out, module.down):
                nn.init.normal_(layer.weight, std=std)

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

        A text's summary is the vector of its last token, the only one that has read it all.
        `layers` and `weights` also return every layer, the last one normalised, and every head's
        attention.
        """
        layout = groups(lengths.tolist())
        x = self._embed(ids, positions)  # (T, D)
        states = [x]
        attention = []
        for block in self.blocks:
            assert isinstance(block, Block)
            if weights:
                x, seen = block.explain(x, layout)
                attention.append(seen)
            else:
                x = block(x, layout)
            if layers:
                states.append(x)
        x = self.norm(x)

        last = (lengths.cumsum(0) - 1).to(x.device)
        pooled = x[last]  # (B, D)
        every: tuple[Tensor, ...] = ()
        if layers:
            every = (*states[:-1], x)
        return Hidden(x, pooled, every, tuple(attention))

    def start(self, rows: int) -> GptState:
        """Return the state before the first token."""
        table = self.token.weight.detach()
        empty = Cache.empty(table, self.depth, rows, self.settings.heads)
        nothing = table.new_zeros(rows, self.width)
        return GptState(empty, empty.lengths, nothing)

    def state(self, tensors: Mapping[str, Tensor]) -> GptState:
        """Return a state made of the tensors of another."""
        read = tensors["read"]
        kept = tensors["cache"].movedim(0, 2).contiguous()
        cache = Cache.make(kept, kept.shape[3], torch.zeros_like(read))
        return GptState(cache, read, tensors["last"])

    def score(
        self, ids: Tensor, lengths: Tensor, state: GptState | None = None
    ) -> tuple[Tensor, GptState]:
        """Return the natural log-probability of each token (T), and the state after each row.

        A row begins with the start mark, or goes on after what its state has read.
        """
        if state is None:
            state = self.start(len(lengths))
        ids = self._check(ids, lengths, state)
        if state.cache.end:
            x, after = self._read(ids, lengths, state)  # (T, D)
            places = _before(lengths).to(ids.device)
            vectors = torch.cat([state.last, x])  # (B + T, D)
            before = vectors.index_select(0, places)
        else:
            marked, places = _mark(ids, lengths, self.settings.start)
            x, after = self._read(marked, lengths + 1, state)  # (T + B, D)
            before = x.index_select(0, places - 1)
        found = target_log_probs(before, self.token.weight, ids)
        return found, after

    @torch.no_grad()
    def read(self, ids: Tensor, lengths: Tensor, state: GptState) -> GptState:
        """Return the state after more tokens, without their probabilities.

        They are read as they are: no start mark is put before them.
        """
        ids = self._check(ids, lengths, state)
        _, after = self._read(ids, lengths, state)
        return after

    @torch.no_grad()
    def step(self, ids: Tensor, state: GptState) -> tuple[Tensor, GptState]:
        """Read a token a row (B), at first the start mark; return log-probabilities (B, V)."""
        rows = len(state.last)
        if len(ids) != rows:
            raise InputError(f"a state of {rows} rows can't go on with {len(ids)}")
        if state.cache.end >= self.length:
            raise InputError(
                f"a row is longer than the {self.length} tokens that the model has positions for"
            )
        cache = state.cache.room()
        ids = ids.to(state.last.device)
        positions = state.read % self.length
        x = self.token(ids) + self.position(positions)  # (B, D)
        for number, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            x = block.step(x, cache, number)
        x = self.norm(x)
        after = GptState(cache.advance(), state.read + 1, x)
        return log_probs(x, self.token.weight), after

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        x = self.token(ids) + self.position(positions)
        return drop(x, self.settings.embedding_dropout, self.training)

    def _read(self, ids: Tensor, lengths: Tensor, state: GptState) -> tuple[Tensor, GptState]:
        """Return the vectors of a stream (T, D) after a state, and the state after it."""
        before = state.cache
        past = before.lengths.cpu()
        read = state.read.cpu()
        longest = max((past + lengths).tolist(), default=0)
        if longest > self.length:
            room = f"the {self.length} that the model has positions for"
            raise InputError(f"a row of {longest} tokens is longer than {room}")

        # A row's positions go on after all that it has read, also what the cache has forgotten.
        stop = lengths.cumsum(0)
        start = stop - lengths
        offset = (start - read).repeat_interleave(lengths)  # (T)
        positions = (torch.arange(len(ids)) - offset) % self.length

        after = before.longer(lengths.to(before.blank))
        parts = stretches(past.tolist(), lengths.tolist())
        x = self._embed(ids, positions.to(ids.device))  # (T, D)
        for number, block in enumerate(self.blocks):
            assert isinstance(block, Block)
            x = block.read(x, parts, before, after, number)
        x = self.norm(x)

        last = state.last.clone()
        rows = lengths.nonzero()[:, 0].to(last.device)  # an empty row keeps what it had
        ends = (stop - 1).to(last.device)[rows]
        last[rows] = x.detach()[ends]
        total = (read + lengths).to(state.read)
        return x, GptState(after, total, last)

    def _check(self, ids: Tensor, lengths: Tensor, state: GptState) -> Tensor:
        """Refuse rows that don't fit each other, the state or the vocabulary.

        Return the tokens on the model's device.
        """
        rows = len(state.last)
        if len(lengths) != rows:
            raise InputError(f"a state of {rows} rows can't go on with {len(lengths)}")
        if (lengths < 0).any() or lengths.sum() != len(ids):
            raise InputError(f"the rows' lengths don't add up to {len(ids)} tokens")
        wrong = (ids < 0) | (ids >= self.vocab)
        if wrong.any():
            vocabulary = f"the model's vocabulary of {self.vocab}"
            raise InputError(f"the id {ids[wrong][0]} is not in {vocabulary}")
        return ids.to(state.last.device)


def _mark(ids: Tensor, lengths: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Return a stream with the start mark before every row, and the places of its tokens (T)."""
    tokens = len(ids)
    rows = len(lengths)
    marks_before = torch.arange(1, rows + 1).repeat_interleave(lengths)  # (T)
    places = (torch.arange(tokens) + marks_before).to(ids.device)
    marked = ids.new_full((tokens + rows,), start)
    marked[places] = ids
    return marked, places


def _before(lengths: Tensor) -> Tensor:
    """Return the place of the token before each (T), among the states' last (B) and the stream."""
    tokens = int(lengths.sum())
    places = torch.arange(tokens) + len(lengths) - 1
    # Before a row's first token stands the last one that its state has read.
    rows = lengths.nonzero()[:, 0]
    start = lengths.cumsum(0) - lengths
    places[start[rows]] = rows
    return places
