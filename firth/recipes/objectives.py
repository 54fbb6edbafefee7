"""The objectives of pretraining: masked words and next sentences, or tokens by what is beside them.

M masked tokens, B texts, V vocabulary.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.corpus.pairs import NOT_ASKED
from firth.data.batch import Batch
from firth.models.protocols import Encoder, Hidden, LanguageModel
from firth.nn.heads import PretrainHead
from firth.nn.vocab import cross_entropy
from firth.tasks.bidirectional import log_probabilities
from firth.train.learner import Learner

LARGEST_LOSS = 700  # of which a perplexity is still a number


class MaskedObjective:
    """Predict masked words and, where a batch asks, whether the second text follows the first."""

    sums = ("masked", "masked_loss", "masked_right", "next", "next_loss", "next_right")

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count masked words, and pairs of texts."""
        words = batch.targets["words"]
        counts = {"masked": len(words)}
        random_next = batch.targets.get("random_next")
        if random_next is not None:
            asked = random_next != NOT_ASKED
            counts["next"] = int(asked.sum())
        return counts

    def losses(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sum the cross-entropy of both questions."""
        assert isinstance(head, PretrainHead)
        hidden = encoder(*batch.stream)
        places = batch.targets["places"]
        words = batch.targets["words"]
        masked = head.masked
        vectors = masked.prepare(hidden.tokens[places])  # (M, D)
        losses = {"masked": cross_entropy(vectors, masked.table, words, masked.bias)}
        if "random_next" in batch.targets:
            losses["next"] = F.cross_entropy(
                _next_logits(head, hidden),
                batch.targets["random_next"],
                ignore_index=NOT_ASKED,
                reduction="sum",
            )
        return losses

    def tally(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Sum the losses and the right answers, with their numbers."""
        assert isinstance(head, PretrainHead)
        hidden = encoder(*batch.stream)
        places = batch.targets["places"]
        words = batch.targets["words"]
        logits = head.masked(hidden.tokens[places])  # (M, V)
        loss, right = _loss_and_right(logits, words)
        sums = {
            "masked": len(words),
            "masked_loss": loss,
            "masked_right": right,
        }
        random_next = batch.targets.get("random_next")
        if random_next is not None:
            asked = random_next != NOT_ASKED
            answers = _next_logits(head, hidden)[asked]
            truth = random_next[asked]
            loss, right = _loss_and_right(answers, truth)
            sums |= {
                "next": len(truth),
                "next_loss": loss,
                "next_right": right,
            }
        return sums

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return masked accuracy and perplexity, next-sentence accuracy, and the loss."""
        count = max(1, sums["masked"])
        loss = sums["masked_loss"] / count
        found = {
            "loss": loss,
            "masked_accuracy": sums["masked_right"] / count,
            "masked_perplexity": _perplexity(loss),
        }
        pairs = sums.get("next")
        if pairs:
            found["loss"] += sums["next_loss"] / pairs
            found["next_accuracy"] = sums["next_right"] / pairs
        return found

    def select_value(self, metrics: Mapping[str, float]) -> float:
        """Prefer a low loss."""
        return -metrics["loss"]


def _next_logits(head: PretrainHead, hidden: Hidden) -> Tensor:
    """Return the logits of whether the second text is a random one (B, 2)."""
    assert head.next is not None
    assert hidden.pooled is not None
    return head.next(hidden.pooled)  # type: ignore[no-any-return]


def _loss_and_right(logits: Tensor, truth: Tensor) -> tuple[float, float]:
    """Return the summed cross-entropy of answers, and how many of them are right."""
    loss = F.cross_entropy(logits, truth, reduction="sum")
    right = (logits.argmax(-1) == truth).sum()
    return float(loss), float(right)


def _perplexity(loss: float) -> float:
    """Return the perplexity that goes with a mean loss."""
    return math.exp(min(loss, LARGEST_LOSS))


class CausalObjective:
    """Predict each token from those before it."""

    sums = ("tokens", "loss")

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count tokens: each is a target."""
        return {"language": len(batch.ids)}

    def losses(self, model: LanguageModel[Any], head: None, batch: Batch) -> dict[str, Tensor]:
        """Sum the cross-entropy of rows, each of which begins anew."""
        scores, _ = model.score(batch.ids, batch.lengths)
        return {"language": -scores.sum()}

    def tally(self, model: LanguageModel[Any], head: None, batch: Batch) -> dict[str, float]:
        """Sum the loss and the number of tokens."""
        scores, _ = model.score(batch.ids, batch.lengths)
        loss = -float(scores.double().sum())
        return {"tokens": len(batch.ids), "loss": loss}

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return a token's loss and the perplexity over tokens (`evaluate`'s is over words)."""
        loss = sums["loss"] / max(1, sums["tokens"])
        return {"loss": loss, "token_perplexity": _perplexity(loss)}

    def select_value(self, metrics: Mapping[str, float]) -> float:
        """Prefer a low loss."""
        return -metrics["loss"]


class BidirectionalObjective:
    """Predict each token from those before it, and from those after it."""

    sums = ("tokens", "forward_loss", "backward_loss")

    def counts(self, batch: Batch) -> dict[str, int]:
        """Count what either model is to predict: a row begins with a mark that is given."""
        count = len(batch.ids) - len(batch.lengths)
        return {"forward": count, "backward": count}

    def losses(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sum the cross-entropy of both models."""
        forward, backward = log_probabilities(encoder, head, batch)
        return {"forward": -forward.sum(), "backward": -backward.sum()}

    def tally(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Sum the losses and the number of tokens."""
        forward, backward = log_probabilities(encoder, head, batch)
        return {
            "tokens": len(forward),
            "forward_loss": -float(forward.double().sum()),
            "backward_loss": -float(backward.double().sum()),
        }

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return the summed loss, the perplexity over tokens of both models, and their mean."""
        count = max(1, sums["tokens"])
        forward = sums["forward_loss"] / count
        backward = sums["backward_loss"] / count
        found = {
            "loss": forward + backward,
            "forward_perplexity": _perplexity(forward),
            "backward_perplexity": _perplexity(backward),
        }
        mean = (found["forward_perplexity"] + found["backward_perplexity"]) / 2
        return found | {"mean_perplexity": mean}

    def select_value(self, metrics: Mapping[str, float]) -> float:
        """Prefer a low loss."""
        return -metrics["loss"]


class StatefulLearner(Learner):
    """A model that reads lanes of text, and begins each span with its state after the one before.

    No gradient flows back over the edge of a span: back-propagation is cut there (Mikolov et al.,
    2010). A GPT keeps the keys and values of the last `kept` tokens (Dai et al., 2019).
    """

    def __init__(self, model: Any, lanes: int, kept: int = 0) -> None:
        super().__init__(model, None, CausalObjective())
        self.kept = kept
        self.read = torch.zeros(lanes)  # which lanes this process read since the last exchange

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Sum the loss over spans, and keep the state after each; all lanes begin together."""
        model = self.encoder
        lanes = batch.targets["lanes"]
        if bool(batch.targets["begins"][0]):
            before = model.start(len(lanes))
        else:
            own = {name: kept[lanes] for name, kept in self.carried.items()}
            before = model.state(own)
        scores, after = model.score(batch.ids, batch.lengths, before)

        after = after.latest(self.kept)
        for name, state in after.tensors().items():
            shape = (len(self.read), *state.shape[1:])
            whole = self.carried.get(name, state.new_zeros(shape))
            self.carried[name] = whole.index_copy(0, lanes, state)
        self.read[lanes] = 1
        return {"language": -scores.sum()}

    def share(self, add: Callable[[Tensor], Tensor]) -> None:
        """Take over the state of the lanes that other processes read."""
        anyone = add(self.read)
        for name, own in self.carried.items():
            others = [1] * (own.ndim - 1)
            shape = (-1, *others)  # a lane first, as in the state
            # One process reads a lane, the others add zeros: the sum is its state.
            read_here = self.read.view(shape).to(own.dtype)
            read_anywhere = anyone.view(shape) > 0
            told = add(own * read_here)
            self.carried[name] = torch.where(read_anywhere, told, own)
        self.read.zero_()
