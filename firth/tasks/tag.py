"""Named spans of a text: the user gives and gets characters and never sees word pieces.

T tokens in the stream, K tags.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.data.batch import Batch
from firth.data.examples import Example, Tagged
from firth.data.rows import Targets
from firth.data.window import Window, inmost
from firth.data.words import Word, words
from firth.metrics.entities import entities
from firth.models.protocols import Encoder
from firth.text.tokenizer import Encoding, Tokenizer

NOT_SCORED = -1
OUTSIDE = "O"


class Found(NamedTuple):
    """A named span and how sure the model is of it."""

    start: int
    end: int
    label: str
    confidence: float


def tags_of(types: Sequence[str]) -> list[str]:
    """The tags that entity types need."""
    return [OUTSIDE, *(f"{letter}-{name}" for name in types for letter in "BI")]


class Tag:
    """Learn and find named spans: every word inside one is tagged, the first B- and the others I-, at its first piece."""

    sums = ("true", "said", "both", "right", "words", "loss")

    def __init__(self, tags: Sequence[str], select: str | None = None) -> None:
        self.tags = list(tags)
        self.select = select or "f1"  # the metric that the best model has most of
        self.number = {tag: number for number, tag in enumerate(tags)}
        if OUTSIDE not in self.number:
            raise InputError(
                f"the tags {', '.join(tags)} have no {OUTSIDE} for words outside every span"
            )

    def features(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Encoding]:
        """Encode each text whole, from the text itself."""
        return tokenizer.encode([example.text for example in examples])

    def scores(
        self, encoder: Encoder, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[Tensor]:
        """Scores of every token of each row that came from the text."""
        if head is None:
            raise InputError("this model has no head for tags")
        pieces = head(encoder(*batch.stream).tokens).cpu().split(batch.lengths.tolist())
        return [
            piece[[i for i, part in enumerate(window.row.parts) if part is not None]]
            for piece, window in zip(pieces, rows, strict=True)
        ]

    def combine(self, rows: Sequence[Window], scores: Sequence[Tensor]) -> Tensor:
        """Of a token seen in two windows, the scores of the one in which it is further from an edge."""
        if len(rows) == 1:
            return scores[0]
        return torch.stack([scores[number][at] for number, at in inmost(rows)])

    def answer(self, example: Example, encoding: Encoding, scores: Tensor) -> list[Found]:
        """The named spans of a text, in its characters; of a text cut short, those of what was read."""
        if not isinstance(example, Tagged) or not example.tokens:
            example = Tagged(
                example.text, (), tuple((word.start, word.end) for word in words(encoding))
            )
        places = _first_pieces(example, encoding, len(scores))
        sure = scores.softmax(-1).amax(-1).tolist()
        found = []
        for start, end, label in entities(self.token_tags(example, encoding, scores)):
            sures = [sure[place] for place in places[start:end] if place is not None]
            found.append(
                Found(
                    example.tokens[start][0],
                    example.tokens[end - 1][1],
                    label,
                    sum(sures) / len(sures),
                )
            )
        return found

    def token_tags(self, example: Tagged, encoding: Encoding, scores: Tensor) -> list[str]:
        """The tag of each token that the user gave, read at its first piece; one without pieces is outside."""
        best = scores.argmax(-1).tolist()
        places = _first_pieces(example, encoding, len(scores))
        return [OUTSIDE if place is None else self.tags[best[place]] for place in places]

    def targets(self, example: Example, encoding: Encoding, window: Window) -> Targets:
        """The tag of each word at its first piece, and which pieces are read when the model is measured."""
        assert isinstance(example, Tagged)
        row = window.row
        tags, read = np.full(len(row), NOT_SCORED), np.zeros(len(row), bool)
        firsts = {start for start, _ in example.tokens}
        for word, tag in _tagged(words(row), example):
            if tag not in self.number:
                raise InputError(f"the tag {tag!r} is not one of {', '.join(self.tags)}")
            tags[word.token] = self.number[tag]
            read[word.token] = not firsts or word.start in firsts
        return {"tags": tags, "read": read}

    def counts(self, batch: Batch) -> dict[str, float]:
        """Words, each as heavy as its row."""
        return {
            "tags": float((self._heaviness(batch) * (batch.targets["tags"] != NOT_SCORED)).sum())
        }

    def _heaviness(self, batch: Batch) -> Tensor:
        return batch.targets["weight"].repeat_interleave(batch.lengths)  # (T)

    def losses(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy of the tags."""
        scores = head(encoder(*batch.stream).tokens)  # (T, K)
        each = F.cross_entropy(
            scores, batch.targets["tags"], ignore_index=NOT_SCORED, reduction="none"
        )
        return {"tags": (each * self._heaviness(batch)).sum()}

    def right(self, encoder: Encoder, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Count the entities of a batch by conlleval's rules, on the tokens that the user gave."""
        scores = head(encoder(*batch.stream).tokens)
        truth, read = batch.targets["tags"], batch.targets["read"]
        loss = float(F.cross_entropy(scores[read], truth[read], reduction="sum"))
        rows = zip(
            truth.split(batch.lengths.tolist()),
            scores.argmax(-1).split(batch.lengths.tolist()),
            read.split(batch.lengths.tolist()),
            strict=True,
        )
        figures = np.zeros(3)
        right = 0
        for true, said, chosen in rows:
            gold = [self.tags[number] for number in true[chosen].tolist()]
            mine = [self.tags[number] for number in said[chosen].tolist()]
            a, b = set(entities(gold)), set(entities(mine))
            figures += [len(a), len(b), len(a & b)]
            right += sum(x == y for x, y in zip(gold, mine, strict=True))
        return dict(
            zip(self.sums, [*figures.tolist(), float(right), float(read.sum()), loss], strict=True)
        )

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Entity F1, and the share of words with the right tag."""
        both, count = sums["both"], max(1.0, sums["words"])
        f1 = 2 * both / max(1.0, sums["true"] + sums["said"])
        return {"loss": sums["loss"] / count, "f1": f1, "accuracy": sums["right"] / count}

    def worth(self, metrics: Mapping[str, float]) -> float:
        """The metric that was chosen; by default entity F1."""
        return metrics[self.select]


def _first_pieces(example: Tagged, encoding: Encoding, read: int) -> list[int | None]:
    """Where the first piece of each of a text's tokens stands among those that were read, if it has one."""
    body = [i for i, part in enumerate(encoding.parts) if part is not None]
    starts = [encoding.offsets[token][0] for token in body[:read]]
    places = np.searchsorted(starts, [start for start, _ in example.tokens]).tolist()
    ends = (end for _, end in example.tokens)
    return [
        at if at < len(starts) and starts[at] < end else None
        for at, end in zip(places, ends, strict=True)
    ]


def _tagged(seen: Sequence[Word], example: Tagged) -> Iterator[tuple[Word, str]]:
    """Each word with its tag: of the first span that it shares a character with, B- on the first such word and I- after it."""
    spans = iter(sorted(example.spans))
    span = next(spans, None)
    begun = False
    for word in seen:
        while span is not None and span.end <= word.start:
            span, begun = next(spans, None), False
        if span is None or word.end <= span.start:
            yield word, OUTSIDE
            continue
        # In a later window a span may have begun before its first word.
        letter = "I" if begun or (span.start < seen[0].start and word is seen[0]) else "B"
        yield word, f"{letter}-{span.label}"
        begun = True


def as_json(text: str, found: Sequence[Found]) -> list[dict[str, Any]]:
    """The answer as JSON objects, each with its words."""
    return [{**f._asdict(), "text": text[f.start : f.end]} for f in found]
