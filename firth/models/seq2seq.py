"""The recurrent encoder-decoder: what was read of a source is where the decoder begins.

S source tokens, U target tokens, B pairs, D width, N layers, K states of a cell, V vocabulary, O
words that are written. "Sequence to Sequence Learning with Neural Networks", Sutskever et al.,
2014; "Learning Phrase Representations using RNN Encoder-Decoder", Cho et al., 2014.

One vector stands between the two sides: what the top layer of the encoder holds at the end of a
source, where it reads both ways at both ends. A layer makes of it what each layer of the decoder
begins with.

With attention the decoder also looks back at every source token: what its layers hold is compared
with them, and joined with their mean, weighted by how alike they are. This is the global attention
of "Effective Approaches to Attention-based Neural Machine Translation", Luong et al., 2015, with
its general score, divided by the root of the width as in the Transformer. What was looked at isn't
read again by the layers in the next step: so they run over whole targets at once in training.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firth.families.seq2seq import Seq2SeqSettings
from firth.models.protocols import EncoderDecoder, LayerSteps, Output
from firth.models.steps import both_ways_steps, layer_steps
from firth.nn.cross import Arrangement, Crossed, LookBack, Sources, arrange, explain_cross
from firth.nn.dropout import drop
from firth.nn.linear import Linear
from firth.nn.ragged import shifted
from firth.nn.recurrent import BidirectionalRecurrent, Recurrent
from firth.nn.vocab import log_probs


@dataclass(frozen=True, eq=False)
class Seq2SeqState:
    """What the decoder holds of each row."""

    memory: Tensor  # (N, K, B, D)
    sources: Sources | None  # what it attends to, if it does

    def pick(self, rows: Tensor) -> "Seq2SeqState":
        """Return the state of the rows named, in that order."""
        sources = None if self.sources is None else self.sources.pick(rows)
        return Seq2SeqState(self.memory[:, :, rows], sources)


class Seq2Seq(EncoderDecoder):
    """The network."""

    settings: Seq2SeqSettings
    length = None

    def __init__(self, settings: Seq2SeqSettings) -> None:
        super().__init__()
        s = settings
        self.settings = s
        self.width = s.width
        self.start = s.start
        self.end = s.end
        self.source = nn.Embedding(s.vocab, s.width)
        self.target = nn.Embedding(s.target_vocab, s.width) if s.target_vocab else None
        self.encoder: BidirectionalRecurrent | Recurrent
        if s.bidirectional:
            self.encoder = BidirectionalRecurrent(s.cell, s.width, s.width // 2, s.depth, s.dropout)
        else:
            self.encoder = Recurrent(s.cell, s.width, s.width, s.depth, s.dropout)
        self.decoder = Recurrent(s.cell, s.width, s.width, s.depth, s.dropout)
        depth, states, width = self.decoder.shape
        self.bridge = Linear(width, depth * states * width)
        self.look = LookBack(width) if s.attends else None
        words = s.targets - self.first
        self.weight = None if s.tied else nn.Parameter(torch.empty(words, s.width))
        self.bias = nn.Parameter(torch.zeros(words))
        for table in (self.source, self.target):
            if table is not None:
                nn.init.normal_(table.weight, std=s.width**-0.5)
        if self.weight is not None:
            nn.init.normal_(self.weight, std=s.width**-0.5)

    @property
    def output(self) -> Output:
        """Return the output layer: rows of the table of target words, if it is tied to it."""
        if self.weight is not None:
            return Output(self.weight, self.bias)
        return Output(self._target_layer.weight[self.first :], self.bias)

    @property
    def _target_layer(self) -> nn.Embedding:
        return self.source if self.target is None else self.target

    def set_dropout(self, probability: float) -> None:
        """Let every layer drop with one probability, and the settings say so."""
        self.settings = self.settings.model_copy(update={"dropout": probability})
        self.encoder.dropout = probability
        self.decoder.dropout = probability

    def encode(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the vectors of source tokens (S, D), and one vector for each source (B, D)."""
        x = self._look_up(self.source, ids)
        stop = lengths.cumsum(0).to(x.device)
        last = stop - 1
        first = stop - lengths.to(x.device)
        if isinstance(self.encoder, BidirectionalRecurrent):
            x = self.encoder(x, lengths)[-1]
            ahead, behind = x.chunk(2, 1)  # (S, D / 2) each
            return x, torch.cat([ahead[last], behind[first]], 1)
        x, _ = self.encoder(x, lengths, self.encoder.start(len(lengths)))
        return x, x[last]

    def teacher_forced(
        self, ids: Tensor, lengths: Tensor, target_ids: Tensor, target_lengths: Tensor
    ) -> Tensor:
        """Return a vector for each target token (U, D)."""
        x, memory = self._read(ids, lengths, target_ids, target_lengths)
        if self.look is not None:
            order = self._arrange(lengths, target_lengths, ids.device)
            x = self.look(x[order.places], memory, order.pairs)[order.back]
        return drop(x, self.settings.dropout, self.training)

    forward = teacher_forced

    def _read(
        self, ids: Tensor, lengths: Tensor, target_ids: Tensor, target_lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return what the layers hold after target tokens (U, D) and source tokens (S, D)."""
        memory, summary = self.encode(ids, lengths)
        read = shifted(target_ids, target_lengths, self.start)
        x = self._look_up(self._target_layer, read)
        x, _ = self.decoder(x, target_lengths, self._opened(summary))
        return x, memory

    @torch.no_grad()
    def begin(self, ids: Tensor, lengths: Tensor) -> Seq2SeqState:
        """Read sources; return the state before the start mark."""
        vectors, summary = self.encode(ids, lengths)
        sources = None
        if self.look is not None:
            starts = lengths.cumsum(0) - lengths
            sources = Sources.make([self.look.read(vectors)], lengths, starts, heads=1)
        return Seq2SeqState(self._opened(summary), sources)

    @torch.no_grad()
    def step(self, ids: Tensor, state: Seq2SeqState) -> tuple[Tensor, Seq2SeqState]:
        """Read a target token a row (B); return log-probabilities (B, O) and the state after."""
        x = self._look_up(self._target_layer, ids)
        ones = torch.ones(len(ids), dtype=torch.long)
        x, memory = self.decoder(x, ones, state.memory)
        sources = state.sources
        if self.look is not None and sources is not None:
            x = self.look.joined(x, sources.attend(x, 0))
        return log_probs(x, *self.output), Seq2SeqState(memory, sources)

    @torch.no_grad()
    def cross_attention(
        self, ids: Tensor, lengths: Tensor, target_ids: Tensor, target_lengths: Tensor
    ) -> Iterator[list[Crossed]]:
        """Yield how each target attends to its source, if there is attention: in one layer."""
        if self.look is None:
            return
        x, memory = self._read(ids, lengths, target_ids, target_lengths)
        order = self._arrange(lengths, target_lengths, ids.device)
        read = self.look.read(memory)
        yield order.restore(explain_cross(x[order.places], read, order.pairs, heads=1))

    @torch.no_grad()
    def recurrent_steps(
        self, ids: Tensor, target_ids: Tensor
    ) -> tuple[list[LayerSteps], list[LayerSteps]]:
        """Return what the layers of both sides compute for a pair."""
        x = self._look_up(self.source, ids)
        if isinstance(self.encoder, BidirectionalRecurrent):
            encoder = both_ways_steps(self.encoder.forwards, self.encoder.backwards, x)
        else:
            encoder = layer_steps(self.encoder.layers, x)
        _, summary = self.encode(ids, torch.tensor([len(ids)]))
        read = shifted(target_ids, torch.tensor([len(target_ids)]), self.start)
        opened = self._opened(summary)[:, :, 0]  # (N, K, D)
        decoder = layer_steps(
            self.decoder.layers, self._look_up(self._target_layer, read), states=opened
        )
        return encoder, decoder

    @torch.no_grad()
    def context_vector(self, ids: Tensor) -> Tensor | None:
        """Return what the decoder begins with, unless it looks back too."""
        if self.look is not None:
            return None
        _, summary = self.encode(ids, torch.tensor([len(ids)]))
        return summary[0]

    @staticmethod
    def _arrange(lengths: Tensor, target_lengths: Tensor, device: torch.device) -> Arrangement:
        starts = lengths.cumsum(0) - lengths
        return arrange(target_lengths, starts, lengths, device)

    def _look_up(self, table: nn.Embedding, ids: Tensor) -> Tensor:
        """Return words' vectors, as large as layers like them: see `models/language.Table`."""
        x = table(ids) * self.width**0.5
        return drop(x, self.settings.dropout, self.training)

    def _opened(self, summary: Tensor) -> Tensor:
        """Return what the decoder's layers begin with (N, K, B, D), given summaries (B, D)."""
        depth, states, width = self.decoder.shape
        memory = torch.tanh(self.bridge(summary))
        return memory.view(-1, depth, states, width).permute(1, 2, 0, 3)
