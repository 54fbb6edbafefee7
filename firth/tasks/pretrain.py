"""Pretraining's two questions: which word was hidden here, and does this text follow that one?

M hidden words, B texts, V vocabulary.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.corpus.pairs import NOT_ASKED
from firth.data.batch import Batch
from firth.data.examples import Example
from firth.data.window import Window, inmost
from firth.models.protocols import Encoder, Hidden
from firth.nn.heads import PretrainHead
from firth.nn.loss import table_loss
from firth.text.tokenizer import Encoding, Tokenizer


class Choice(NamedTuple):
    """A word piece and how probable the model finds it."""

    piece: str
    probability: float


class Blank(NamedTuple):
    """One `[MASK]` of a text: its characters, and the most probable pieces, best first (none if the text was cut before it)."""

    start: int
    end: int
    choices: tuple[Choice, ...]


class Filled(NamedTuple):
    """A text with its blanks."""

    text: str
    blanks: tuple[Blank, ...]


class Ranked(NamedTuple):
    """The best pieces of one blank, before they have a text."""

    probabilities: Tensor
    ids: Tensor


class Hide:
    """The lesson of pretraining: guess hidden words and, where a batch asks, whether the second text follows the first."""

    sums = ("masked", "masked_loss", "masked_right", "next", "next_loss", "next_right")

    def counts(self, batch: Batch) -> dict[str, int]:
        """Hidden words, and pairs of texts."""
        counts = {"masked": len(batch.targets["words"])}
        if "stranger" in batch.targets:
            counts["next"] = int((batch.targets["stranger"] != NOT_ASKED).sum())
        return counts

    def losses(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy of both questions."""
        assert isinstance(head, PretrainHead)
        hidden = encoder(*batch.stream)
        masked = head.masked
        places = masked.prepare(hidden.tokens[batch.targets["places"]])  # (M, D)
        losses = {"masked": table_loss(places, masked.table, masked.bias, batch.targets["words"])}
        if "stranger" in batch.targets:
            losses["next"] = F.cross_entropy(
                _next(head, hidden),
                batch.targets["stranger"],
                ignore_index=NOT_ASKED,
                reduction="sum",
            )
        return losses

    def right(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Losses and right answers, with their numbers."""
        assert isinstance(head, PretrainHead)
        hidden = encoder(*batch.stream)
        words = batch.targets["words"]
        logits = head.masked(hidden.tokens[batch.targets["places"]])  # (M, V)
        sums = {
            "masked": len(words),
            "masked_loss": float(F.cross_entropy(logits, words, reduction="sum")),
            "masked_right": float((logits.argmax(-1) == words).sum()),
        }
        if "stranger" in batch.targets:
            asked = batch.targets["stranger"] != NOT_ASKED
            answers, truth = _next(head, hidden)[asked], batch.targets["stranger"][asked]
            sums |= {
                "next": len(truth),
                "next_loss": float(F.cross_entropy(answers, truth, reduction="sum")),
                "next_right": float((answers.argmax(-1) == truth).sum()),
            }
        return sums

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Masked accuracy, perplexity over hidden words, accuracy of next sentences, and the loss that is trained."""
        loss = sums["masked_loss"] / max(1, sums["masked"])
        found = {
            "loss": loss,
            "masked_accuracy": sums["masked_right"] / max(1, sums["masked"]),
            "masked_perplexity": math.exp(min(loss, 700)),
        }
        if sums.get("next"):
            found["loss"] += sums["next_loss"] / sums["next"]
            found["next_accuracy"] = sums["next_right"] / sums["next"]
        return found

    def worth(self, metrics: Mapping[str, float]) -> float:
        """A low loss."""
        return -metrics["loss"]


def _next(head: PretrainHead, hidden: Hidden) -> Tensor:
    """Scores of the two answers to whether the second text is a stranger (B, 2)."""
    assert head.next is not None
    assert hidden.pooled is not None
    return head.next(hidden.pooled)  # type: ignore[no-any-return]


class Pretrain:
    """Fill the blanks of a text with the `top` most probable pieces."""

    def __init__(self, tokenizer: Tokenizer, top: int = 5) -> None:
        if tokenizer.mask is None:
            raise InputError(
                "this model's tokenizer has no mask token, so there are no blanks to fill"
            )
        self.tokenizer = tokenizer
        self.mask = tokenizer.mask
        self.top = top

    def features(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Encoding]:
        """Encode each text whole; a text without a blank is refused."""
        encodings = tokenizer.encode([example.text for example in examples])
        for example, encoding in zip(examples, encodings, strict=True):
            if self.mask not in encoding.ids:
                raise InputError(
                    f"no {tokenizer.piece(self.mask)} to fill in {_shortened(example.text)!r}"
                )
        return encodings

    def scores(
        self, encoder: Encoder, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[dict[int, Ranked]]:
        """Rank the vocabulary at each blank of each row, keyed by the blank's token number in the whole text."""
        if not isinstance(head, PretrainHead):
            raise InputError("this model has no head for hidden words, so it can't fill blanks")
        hidden = encoder(*batch.stream)
        places = (batch.ids == self.mask).nonzero()[:, 0]
        logits = head.masked(hidden.tokens[places])  # (blanks, V)
        best = logits.softmax(-1).topk(min(self.top, logits.shape[-1]))
        found: list[dict[int, Ranked]] = [{} for _ in rows]
        row_of = torch.repeat_interleave(torch.arange(len(rows)), batch.lengths)
        for i, place in enumerate(places.tolist()):
            row = int(row_of[place])
            body = rows[row].first + int(batch.positions[place]) - _leading(rows[row].row)
            found[row][body] = Ranked(best.values[i].cpu(), best.indices[i].cpu())
        return found

    def combine(
        self, rows: Sequence[Window], scores: Sequence[dict[int, Ranked]]
    ) -> dict[int, Ranked]:
        """Take each blank from the window in which it is furthest from an edge."""
        return {
            token: scores[number][token]
            for token, (number, _) in enumerate(inmost(rows))
            if token in scores[number]
        }

    def answer(self, example: Example, encoding: Encoding, scores: dict[int, Ranked]) -> Filled:
        """Name the pieces."""
        blanks = []
        for place, token in enumerate(encoding.ids):
            if token == self.mask:
                start, end = encoding.offsets[place]
                blanks.append(
                    Blank(start, end, self._choices(scores.get(place - _leading(encoding))))
                )
        return Filled(example.text, tuple(blanks))

    def _choices(self, ranked: Ranked | None) -> tuple[Choice, ...]:
        if ranked is None:
            return ()
        pairs = zip(ranked.ids.tolist(), ranked.probabilities.tolist(), strict=True)
        return tuple(Choice(self.tokenizer.piece(i), probability) for i, probability in pairs)


def _leading(encoding: Encoding) -> int:
    """How many special tokens stand before the text."""
    return next((i for i, part in enumerate(encoding.parts) if part is not None), 0)


def _shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def as_json(filled: Filled) -> dict[str, Any]:
    """The answer as a JSON object."""
    blanks = [
        {
            "start": b.start,
            "end": b.end,
            "choices": [{"piece": c.piece, "probability": c.probability} for c in b.choices],
        }
        for b in filled.blanks
    ]
    return {"text": filled.text, "blanks": blanks}
