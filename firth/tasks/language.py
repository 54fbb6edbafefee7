"""What comes next? The one question of language models, from the n-gram to GPT."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from firth.data.batch import Batch
from firth.data.task import Learner
from firth.models.ffnn import Ffnn
from firth.models.gpt import Gpt
from firth.models.ngram import NGram
from firth.models.rnn import Rnn

Language = Gpt | Rnn | Ffnn | NGram


def opening(model: Language, end: int) -> list[int]:
    """What stands before a text that begins anew, beside the start mark, which `score` reads by itself.

    To a model that carries its memory from line to line, lines begin after the end of another: it has hardly ever seen the mark.
    """
    return [end] if isinstance(model, Rnn | Ffnn) and model.settings.end is None else []


class Continue:
    """The lesson: name each token after those before it."""

    sums = ("tokens", "loss")

    def counts(self, batch: Batch) -> dict[str, int]:
        """Every token is an answer."""
        return {"language": len(batch.ids)}

    def losses(self, model: Language, head: None, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy of rows that begin anew."""
        return {"language": -model.score(batch.ids, batch.lengths)[0].sum()}

    def right(self, model: Language, head: None, batch: Batch) -> dict[str, float]:
        """The loss and the number of tokens."""
        return {
            "tokens": len(batch.ids),
            "loss": -float(model.score(batch.ids, batch.lengths)[0].double().sum()),
        }

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """The loss of a token, and the perplexity over tokens; that over words, which all models share, is `firth evaluate`'s."""
        loss = sums["loss"] / max(1, sums["tokens"])
        return {"loss": loss, "token_perplexity": math.exp(min(loss, 700))}

    def worth(self, metrics: Mapping[str, float]) -> float:
        """A low loss."""
        return -metrics["loss"]


class Carrying(Learner):
    """A model that reads lanes of text, and begins each span with what it remembers of the one before.

    No gradient flows back over the edge of a span: back-propagation is cut there (Mikolov et al., 2010). A GPT remembers the keys
    and values of the last `kept` tokens (Dai et al., 2019).
    """

    def __init__(self, model: Gpt | Rnn | Ffnn, lanes: int, kept: int = 0) -> None:
        super().__init__(model, None, Continue())
        self.kept = kept
        self.read = torch.zeros(lanes)  # which lanes this process read since the last exchange

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Sum the loss over spans, and keep the state after each; all lanes begin together."""
        model, lanes = self.encoder, batch.targets["lanes"]
        begins = bool(batch.targets["begins"][0])
        before = (
            model.start(len(lanes))
            if begins
            else model.state({name: kept[lanes] for name, kept in self.carried.items()})
        )
        scores, after = model.score(batch.ids, batch.lengths, before)
        after = after.latest(self.kept) if isinstance(model, Gpt) else after
        for name, state in after.tensors().items():
            whole = self.carried.get(name, state.new_zeros(len(self.read), *state.shape[1:]))
            self.carried[name] = whole.index_copy(0, lanes, state)
        self.read[lanes] = 1
        return {"language": -scores.sum()}

    def share(self, add: Callable[[Tensor], Tensor]) -> None:
        """Take over the state of the lanes that other processes read."""
        anyone = add(self.read)
        for name, own in self.carried.items():
            shape = (-1, *[1] * (own.ndim - 1))
            told = add(own * self.read.view(shape).to(own.dtype))
            self.carried[name] = torch.where(anyone.view(shape) > 0, told, own)
        self.read.zero_()
