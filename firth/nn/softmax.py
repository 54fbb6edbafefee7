"""Output layers of language models: how likely each word of a vocabulary is, given a vector.

T vectors, D width, V vocabulary, S draws. Each has `log_probability(hidden, targets)`, the natural log-probability of a word for
each vector, to train with, and `scores(hidden)`, those of all words. One word, `never`, has no probability: the mark before a
sentence, which is read and never written.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from firth.nn.linear import product

TINY = 1e-30
ROWS = 32  # of scores that are finished together, while they are near the cores
PIECE = (
    1 << 23
)  # scores that are made together where no gradient is wanted, so that long texts fit in memory


class Full(nn.Module):
    """A score for every word; give the embedding's table as `table` to tie the two (Press and Wolf, 2016)."""

    def __init__(
        self, width: int, vocab: int, never: int, spread: float = 0.1, table: Tensor | None = None
    ) -> None:
        super().__init__()
        self.never = never
        fresh = torch.empty(vocab, width).uniform_(-spread, spread) if table is None else table
        self.table = fresh if isinstance(fresh, nn.Parameter) else nn.Parameter(fresh)
        self.bias = nn.Parameter(torch.zeros(vocab))

    def log_probability(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """That of each target (T) after each vector (T, D)."""
        if torch.is_grad_enabled():
            return _Chances.apply(hidden, self.table, self._open(), targets)  # type: ignore[no-untyped-call, no-any-return]
        rows = max(1, PIECE // len(self.table))
        pieces = zip(hidden.split(rows), targets.split(rows), strict=True)
        return torch.cat(
            [self.scores(some).gather(1, words[:, None])[:, 0] for some, words in pieces]
        )

    def scores(self, hidden: Tensor) -> Tensor:
        """The log-probabilities of all words, (T, V)."""
        return F.linear(hidden, self.table, self._open()).to(self.bias.dtype).log_softmax(1)

    def _open(self) -> Tensor:
        """The bias, which closes the one word that is never written."""
        return self.bias.index_fill(
            0, torch.tensor([self.never], device=self.bias.device), -torch.inf
        )


class _Chances(torch.autograd.Function):
    """Log-probabilities of targets, with one array (T, V) in memory: scores become probabilities and then their own gradient."""

    @staticmethod
    def forward(context: Any, x: Tensor, table: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        scores = product(x, table)  # (T, V)
        context.short = scores.dtype  # that of autocast, or the weights' own
        scores = scores.to(bias.dtype)
        place = targets[:, None]
        own = scores.gather(1, place) + bias[place]
        for some, result in zip(scores.split(ROWS), own.split(ROWS), strict=True):
            # By way of the best word, because the chance of a bad one may be too small for a number.
            result.sub_(some.add_(bias).amax(1, keepdim=True))
            torch.softmax(some, 1, out=some)
            result.add_(some.amax(1, keepdim=True).log_())
        scores.scatter_add_(1, place, torch.full_like(own, -1.0))  # probabilities less the truth
        context.save_for_backward(x, table, scores)
        return own[:, 0]

    @staticmethod
    @once_differentiable
    def backward(context: Any, slope: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, table, error = context.saved_tensors
        bias = -slope @ error
        error, rate = error.to(context.short), -slope[:, None]
        dx, dtable = (
            product(error, table.to(error).t()),
            product(error.t(), (x * rate).to(error).t()),
        )
        return dx.to(x).mul_(rate), dtable.to(table), bias, None


class Classes(nn.Module):
    """Frequent words have a score each, others by classes of like frequency, the rarer from narrower vectors (Grave et al., 2016).

    A class ends before each of the ranks `cutoffs`. Ids are taken to be in the order of frequency until `rank` is told otherwise.
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
        order = counts.argsort(descending=True, stable=True)
        self.order.copy_(order[order != self.never])
        self.place[self.order] = torch.arange(len(self.order), device=self.order.device)
        self.place[self.never] = 0  # any: it is never asked for

    @torch.autocast("cpu", enabled=False)  # type: ignore[untyped-decorator] # in bf16 torch's layers end with an error
    def log_probability(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """That of each target (T) after each vector (T, D)."""
        found: Tensor = self.layers(hidden.float(), self.place[targets]).output
        return found.masked_fill(targets == self.never, -torch.inf)

    def scores(self, hidden: Tensor) -> Tensor:
        """The log-probabilities of all words, (T, V)."""
        by_rank: Tensor = self.layers.log_prob(hidden)
        return by_rank[:, self.place].index_fill(
            1, torch.tensor([self.never], device=hidden.device), -torch.inf
        )


class Sampled(Full):
    """The full layer, trained to tell the target from a few words drawn anew each time instead of from all (Jean et al., 2015).

    The score of a word is corrected for how likely it is to be among them, so that the probabilities of the full layer are learned.
    Words are drawn as log-uniform in their id, as words in the order of frequency occur, until `rank` is told how often they do.
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
        share = counts.double().clamp(
            min=1 / len(counts)
        )  # none is left out: what is never drawn is never pushed down
        share[self.never] = 0
        self.share.copy_(share / share.sum())

    def log_probability(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """In training that of the target among the words drawn, in evaluation among all."""
        if not self.training:
            return super().log_probability(hidden, targets)
        # Each word once, because one that is drawn again and again is no more of a rival than one that is there for certain.
        drawn = torch.multinomial(self.share, self.samples, replacement=True).unique()  # (S)
        words, count = torch.cat([targets, drawn]), len(targets)
        there = -torch.expm1(
            self.samples * torch.log1p(-self.share[words])
        )  # (T + S) how likely each is to be drawn at all
        rows, bias = (
            F.embedding(words, self.table),
            self._open()[words] - there.clamp(min=TINY).log(),
        )  # (T + S, D), (T + S)
        own = (hidden * rows[:count]).sum(1) + bias[:count]  # (T)
        others = F.linear(hidden, rows[count:], bias[count:]).masked_fill(
            targets[:, None] == drawn, -torch.inf
        )  # (T, S)
        return torch.cat([own[:, None], others], 1).log_softmax(1)[:, 0]
