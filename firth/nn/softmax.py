"""Output layers of language models: how likely each word of a vocabulary is, given a vector.

T vectors, D width, V vocabulary, S draws. Each has `log_probability(hidden, targets)`, the natural
log-probability of a word for each vector, to train with, and `scores(hidden)`, those of all words.
One word, `never`, has no probability: the mark before a sentence, which is read and never written.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.nn.draws import generator_on
from firth.nn.linear import linear
from firth.nn.vocab import log_probs, target_log_probs

EPS = 1e-30  # the least probability of a draw, so that its logarithm is a number


class FullSoftmax(nn.Module):
    """A logit for every word.

    Give the embedding's table as `table` to tie the two (Press and Wolf, 2016).
    """

    def __init__(
        self, width: int, vocab: int, never: int, spread: float = 0.1, table: Tensor | None = None
    ) -> None:
        super().__init__()
        self.never = never
        if table is None:
            table = torch.empty(vocab, width).uniform_(-spread, spread)
        self.table = table if isinstance(table, nn.Parameter) else nn.Parameter(table)
        self.bias = nn.Parameter(torch.zeros(vocab))

    def log_probability(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return that of each target (T) after each vector (T, D)."""
        return target_log_probs(hidden, self.table, targets, self._open_bias())

    def scores(self, hidden: Tensor) -> Tensor:
        """Return the log-probabilities of all words, (T, V)."""
        return log_probs(hidden, self.table, self._open_bias())

    def _open_bias(self) -> Tensor:
        """Return the bias, minus infinity for the one word that is never written."""
        never = torch.tensor([self.never], device=self.bias.device)
        return self.bias.index_fill(0, never, -torch.inf)


class ClassSoftmax(nn.Module):
    """The adaptive softmax: frequent words have a logit each, others share classes.

    "Efficient softmax approximation for GPUs", Grave et al., 2016. A class ends before each of the
    ranks of frequency `cutoffs`; the rarer ones have narrower vectors.
    Ids are taken to be in the order of frequency until `rank` is told otherwise. The products are
    those of torch's own module and don't go through nn/linear.py.
    """

    order: Tensor  # (V - 1) words, the most frequent first
    place: Tensor  # (V) where they stand

    def __init__(self, width: int, vocab: int, never: int, cutoffs: Sequence[int]) -> None:
        super().__init__()
        self.never = never
        self.layers = nn.AdaptiveLogSoftmaxWithLoss(width, vocab - 1, list(cutoffs), head_bias=True)
        self.register_buffer("order", torch.empty(vocab - 1, dtype=torch.long))
        self.register_buffer("place", torch.empty(vocab, dtype=torch.long))
        if not self.order.is_meta:  # a layer without memory is given its order later
            self.rank(torch.arange(vocab, 0, -1))

    def rank(self, counts: Tensor) -> None:
        """Order the words by how often each occurs (V), before training."""
        by_count = counts.argsort(descending=True, stable=True)
        written = by_count[by_count != self.never]
        self.order.copy_(written)
        ranks = torch.arange(len(self.order), device=self.order.device)
        self.place[self.order] = ranks
        self.place[self.never] = 0  # any: it is never asked for

    @torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator] # in bf16 torch's fails
    def log_probability(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Return that of each target (T) after each vector (T, D)."""
        places = self.place[targets]
        found: Tensor = self.layers(hidden.float(), places).output
        is_never = targets == self.never
        return found.masked_fill(is_never, -torch.inf)

    def scores(self, hidden: Tensor) -> Tensor:
        """Return the log-probabilities of all words, (T, V)."""
        by_rank: Tensor = self.layers.log_prob(hidden)
        by_word = by_rank[:, self.place]
        never = torch.tensor([self.never], device=hidden.device)
        return by_word.index_fill(1, never, -torch.inf)


class SampledSoftmax(FullSoftmax):
    """The full layer, trained to tell the target from a few words drawn anew each time.

    "On Using Very Large Target Vocabulary for Neural Machine Translation", Jean et al., 2015. The
    logit of a word is corrected for how likely it is to be drawn, so that the probabilities of
    the full layer are learned. Words are drawn as log-uniform in their id, as words in the order of
    frequency occur, until `rank` is told how often they do.
    """

    share: Tensor  # (V) how likely each word is to be drawn

    def __init__(
        self,
        width: int,
        vocab: int,
        never: int,
        samples: int,
        spread: float = 0.1,
        table: Tensor | None = None,
    ) -> None:
        super().__init__(width, vocab, never, spread, table)
        self.samples = samples
        self.register_buffer("share", torch.empty(vocab))
        if not self.share.is_meta:
            self.rank(1 / torch.arange(1, vocab + 1))

    def rank(self, counts: Tensor) -> None:
        """Draw words as often as they occur (V), before training."""
        # None is left out: what is never drawn is never pushed down.
        share = counts.double().clamp(min=1 / len(counts))
        share[self.never] = 0
        self.share.copy_(share / share.sum())

    def log_probability(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """In training return that of the target among the words drawn, in evaluation among all."""
        if not self.training:
            return super().log_probability(hidden, targets)
        # Each word once, because one that is drawn again and again is no more of a rival than one
        # that is there for certain.
        generator = generator_on(self.share.device)
        drawn = torch.multinomial(self.share, self.samples, True, generator=generator)
        drawn = drawn.unique()  # (S)
        words = torch.cat([targets, drawn])  # (T + S)
        count = len(targets)

        never_drawn = self.samples * torch.log1p(-self.share[words])  # as a logarithm
        drawn_at_all = -torch.expm1(never_drawn)
        correction = drawn_at_all.clamp(min=EPS).log()
        rows = F.embedding(words, self.table)  # (T + S, D)
        bias = self._open_bias()[words] - correction

        own = (hidden * rows[:count]).sum(1) + bias[:count]  # (T)
        others = linear(hidden, rows[count:], bias[count:])  # (T, S)
        # A target that is drawn is no rival of its own.
        is_target = targets[:, None] == drawn
        others = others.masked_fill(is_target, -torch.inf)
        logits = torch.cat([own[:, None], others], 1)  # (T, 1 + S)
        return logits.log_softmax(1)[:, 0]
