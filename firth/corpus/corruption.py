"""Span corruption: spans are taken out of a text, and a model is to write them.

In the source a sentinel stands for each span; the target is each sentinel followed by its span,
then the end mark. 15 % of the tokens are taken, in spans of three on average. "Exploring the Limits
of Transfer Learning with a Unified Text-to-Text Transformer", Raffel et al., 2020.

Which spans are taken is drawn anew each epoch, from (seed, epoch, number) alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base.seeds import Purpose, generator
from firth.corpus.pairs import SHOWN, Passages
from firth.corpus.shards import Shards
from firth.data.batch import Batch
from firth.data.feed import Numbers
from firth.data.sides import EncodedPair, TokenIds, pair_batch
from firth.text.tokenizer import Tokenizer

CORRUPTED = 0.15  # share of the tokens
MEAN_SPAN = 3  # tokens
MARKS = 2  # around a source


class Taken(NamedTuple):
    """How much is taken out of texts of some sizes: arrays of as many numbers."""

    tokens: Numbers
    spans: Numbers


def taken_of(sizes: NDArray[Any]) -> Taken:
    """Return how many tokens are taken out of texts of these sizes, and in how many spans."""
    tokens = np.maximum(1, np.rint(CORRUPTED * sizes)).astype(np.int64)
    spans = np.maximum(1, np.rint(tokens / MEAN_SPAN)).astype(np.int64)
    return Taken(tokens, spans)


def longest_text(sentinels: int) -> int:
    """Return how many tokens a text may have for so many sentinels to be enough."""
    sizes = np.arange(1, int((sentinels + 1) * MEAN_SPAN / CORRUPTED) + 1)
    return int(sizes[taken_of(sizes).spans <= sentinels].max(initial=0))


class TakenSpans(NamedTuple):
    """TakenSpans of a text, in order, of which no two touch."""

    starts: Numbers
    sizes: Numbers


def draw_spans(size: int, draw: np.random.Generator) -> TakenSpans:
    """Draw spans of a text: every choice of places and of sizes is equally likely."""
    taken = taken_of(np.array([size]))
    tokens = int(taken.tokens[0])
    spans = int(taken.spans[0])
    cuts = 1 + np.sort(draw.choice(tokens - 1, spans - 1, replace=False))
    sizes = np.diff(cuts, prepend=0, append=tokens)
    kept = size - tokens
    kept_before = np.sort(draw.choice(kept + 1, spans, replace=False))
    taken_before = sizes.cumsum() - sizes
    return TakenSpans(kept_before + taken_before, sizes)


def corrupt(ids: Numbers, spans: TakenSpans, sentinels: Sequence[int]) -> EncodedPair:
    """Return a text with sentinels in place of spans, and the spans after their sentinels."""
    source: list[TokenIds] = []
    target: list[TokenIds] = []
    done = 0
    used = sentinels[: len(spans.starts)]
    for sentinel, start, size in zip(used, spans.starts, spans.sizes, strict=True):
        source += [ids[done:start], [sentinel]]
        done = start + size
        target += [[sentinel], ids[start:done]]
    source.append(ids[done:])
    return EncodedPair(np.concatenate(source), np.concatenate(target))


class CorruptedTexts:
    """A feed of passages with spans taken out, as pairs of a source and a target."""

    def __init__(
        self, shards: Shards, where: Passages, tokenizer: Tokenizer, start: int, end: int, seed: int
    ) -> None:
        self.shards = shards
        self.where = where
        self.tokenizer = tokenizer
        self.start = start
        self.end = end
        self.seed = seed
        # What is taken out stands in the target; each span has its sentinel on both sides.
        own = MARKS + 1
        self.sizes: NDArray[Any] = where.size + 2 * taken_of(where.size).spans + own

    def batch(self, epoch: int, numbers: Numbers) -> Batch:
        """Return pairs, those with the longest sources first."""
        pairs = [self.pair(epoch, int(number)) for number in numbers]
        return pair_batch(pairs, numbers, self.end)

    def pair(self, epoch: int, number: int) -> EncodedPair:
        """Return one passage as a pair, its source between marks as a text is encoded."""
        ids = self._text(number)
        draw = generator(Purpose.SPANS, self.seed, epoch, number)
        bare = corrupt(ids, draw_spans(len(ids), draw), self.tokenizer.sentinels)
        source = np.concatenate([[self.start], bare.source, [self.end]])
        return EncodedPair(source, np.append(bare.target, self.end))

    def describe(self, number: int) -> str:
        """Return a passage's number and how its text begins."""
        opening = self.tokenizer.decode(self._text(number)[:SHOWN].tolist())
        return f"{number} ({opening!r} ...)"

    def _text(self, number: int) -> Numbers:
        shard = self.shards.shards[self.where.shard[number]]
        start = int(self.where.start[number])
        stop = start + int(self.where.size[number])
        found: Numbers = shard.ids[start:stop].astype(np.int64)
        return found
