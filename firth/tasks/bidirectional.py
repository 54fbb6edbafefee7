"""How likely a forward and a backward language model find a text.

T tokens in the stream, B rows, D width of one direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import InputError
from firth.data.examples import Example
from firth.data.record import shortened
from firth.data.window import Long, Window
from firth.tasks.embed import own_tokens
from firth.tasks.encoded import EncodedTask
from firth.tasks.task import Answer, OpenModel

if TYPE_CHECKING:
    from torch import Tensor, nn

    from firth.data.batch import Batch
    from firth.models.protocols import Encoder
    from firth.text.tokenizer import Encoding, Tokenizer

KIND = "bidirectional"
LONGEST_QUOTE = 60  # characters of a text in a message


class BothWays(NamedTuple):
    """Natural log-probabilities of the tokens of a text, and of the edge where a model ends."""

    forward: NDArray[np.float32]
    backward: NDArray[np.float32]


@dataclass(frozen=True)
class BidirectionalLikelihood(Answer):
    """How likely two models find a text, an end included; tokens and words are its own."""

    text: str
    forward: float  # natural log-probability
    backward: float
    tokens: int
    unknown: int  # of those
    words: int  # between white space

    def figures(self) -> dict[str, float]:
        """Return the log-probability either way."""
        return {"forwards": self.forward, "backwards": self.backward}


class Bidirectional(EncodedTask[BothWays, BidirectionalLikelihood]):
    """Read a text forwards and backwards, and say how likely it is either way."""

    name = KIND
    help = "How likely a text is, read forwards and read backwards."
    kinds = {KIND: "how likely a text is, forwards and backwards"}
    heads = {KIND: "the output layer of a forward and a backward language model"}
    measured_on = "text both ways"
    columns = {
        "forward": "number",
        "backward": "number",
        "tokens": "whole",
        "unknown": "whole",
        "words": "whole",
    }
    single = True

    def __init__(self, start: int, unk: int | None = None) -> None:
        self.start = start
        self.unk = unk

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task, which has no options."""
        settings = bundle.encoder.settings
        check_marks(bundle.tokenizer, settings.start, settings.end)
        return cls(settings.start, bundle.tokenizer.unk)

    @classmethod
    def make_head(
        cls,
        encoder: Encoder,
        kind: str,
        labels: tuple[str, ...],
        tied: bool = True,
        width: int | None = None,
    ) -> nn.Module | None:
        """Make a fresh output layer, which both models share."""
        from firth.models.language import make_output

        if not encoder.is_bilm:
            raise InputError(
                f"the task {kind!r} is for two language models side by side, as elmo has them"
            )
        own = encoder.settings
        settings = own.model_copy(update={"tied": tied and own.tied})
        return make_output(settings, encoder.table.shape[1], encoder.table)

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[Encoding]]:
        """Encode each text whole, between its marks; one that holds the first mark is refused."""
        encodings = tokenizer.encode([example.text for example in examples])
        for example, encoding in zip(examples, encodings, strict=True):
            if encoding.ids.count(self.start) > 1:
                mark = tokenizer.piece(self.start)
                raise InputError(
                    f"{shortened(example.text, LONGEST_QUOTE)!r} holds {mark!r}, the mark before a "
                    "text, which has no probability inside it"
                )
        return [[encoding] for encoding in encodings]

    def windows(self, encoding: Encoding, length: int | None, long: Long) -> list[Window]:
        """Read a text whole, however long."""
        return [Window(encoding, 0)]

    def logits(
        self, model: Any, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[BothWays]:
        """Return the log-probabilities of each row."""
        sizes = (batch.lengths - 1).tolist()
        both = [one.cpu().split(sizes) for one in log_probabilities(model, head, batch)]
        return [BothWays(one.numpy(), other.numpy()) for one, other in zip(*both, strict=True)]

    def combine(self, rows: Sequence[Window], logits: Sequence[BothWays]) -> BothWays:
        """Return those of the only window."""
        return logits[0]

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[BothWays],
        truncated: int,
    ) -> BidirectionalLikelihood:
        """Add up the log-probabilities."""
        (found,) = logits
        (encoding,) = encodings
        own = [encoding.ids[place] for place in own_tokens(encoding)]
        return BidirectionalLikelihood(
            text=example.text,
            forward=float(found.forward.sum(dtype=np.float64)),
            backward=float(found.backward.sum(dtype=np.float64)),
            tokens=len(own),
            unknown=sum(number == self.unk for number in own),
            words=len(example.text.split()),
            truncated_tokens=truncated,
        )

    def line(self, example: Example, answer: BidirectionalLikelihood) -> str:
        """Return both log-probabilities before the text."""
        return f"{answer.forward:.2f} {answer.backward:.2f}  {answer.text}"


def check_marks(tokenizer: Tokenizer, start: int, end: int) -> None:
    """Refuse a tokenizer that doesn't put a text between the marks of a model."""
    (empty,) = tokenizer.encode([""])
    if empty.ids != [start, end]:
        raise InputError(
            f"this tokenizer doesn't put a text between {tokenizer.piece(start)!r} and "
            f"{tokenizer.piece(end)!r}, as an elmo needs it (firth vocab --kind words makes one)"
        )


def log_probabilities(model: Any, head: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return how likely each model finds what it is to predict, (T - B) natural logarithms each.

    A row begins and ends with a mark. The forward model's state after a token predicts the next
    one, to the end mark; the backward model's predicts the one before and, where that is the mark
    before the row, the end of a line, which is what stands before a line in a longer text.
    """
    import torch

    from firth.nn.dropout import drop
    from firth.nn.pool import first_tokens

    settings = model.settings
    top = model(*batch.stream, layers=True).layers[-1]
    top = drop(top, settings.dropout, model.training)
    after, before = top.chunk(2, 1)  # (T, D) each

    ids = batch.ids
    start = first_tokens(batch.lengths)
    first = torch.zeros_like(ids, dtype=torch.bool)
    last = first.clone()
    first[start] = True
    last[start + batch.lengths - 1] = True
    edge = ids.masked_fill(first, settings.end)  # (T)
    forward = head.log_probability(after[~last], ids[~first])
    backward = head.log_probability(before[~first], edge[~last])
    return forward, backward


TASK = Bidirectional
