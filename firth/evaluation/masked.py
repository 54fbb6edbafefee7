"""How well masked language models guess masked words and next sentences of a text.

Words are masked and passages paired as pretraining does with its dev set, from a fixed seed: the
same text always asks the same. M masked tokens, B rows, V vocabulary.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from firth.base.errors import InputError
from firth.base.files import read_json
from firth.base.notes import note
from firth.base.progress import Progress
from firth.corpus.files import corpus_files, passed_over
from firth.corpus.mask import Masker
from firth.corpus.pairs import DEV_SEED, LENGTH, NOT_ASKED, SPECIAL, Pairs, passages, several
from firth.corpus.shards import Shards, open_shards
from firth.data.batch import Batch
from firth.data.feed import evenly_spread, micro_batches
from firth.evaluation.report import Compared, Evaluation, MaskedAmount, Measured
from firth.folders.find import RECORD, find
from firth.metrics.masked import MaskedTally
from firth.predictor import Predictor, say_unmatched
from firth.tasks.fill import PRETRAIN, pretrain_logits

MOST_TOKENS = 200_000  # of a text that are read: some 30,000 masked words
TOKENS_PER_BATCH = 4096


class MaskedSetup(NamedTuple):
    """How a text is cut and masked for a model."""

    tokenizer: str  # its fingerprint
    length: int
    whole_words: bool
    pairs: bool


class Guessed(NamedTuple):
    """What a model made of a text."""

    tally: MaskedTally
    tokens: int


def evaluate_masked(
    names: Sequence[str],
    predictors: Sequence[Predictor],
    data: str | Path,
    *,
    text: str | None = None,
    encoding: str | None = None,
) -> Evaluation:
    """Return masked and next-sentence accuracy on a text, with intervals over its passages.

    Later models are compared with the first.
    """
    setups = [_setup(name, one) for name, one in zip(names, predictors, strict=True)]
    for name, setup in zip(names, setups, strict=True):
        if setup != setups[0]:
            raise InputError(
                f"{name} and {names[0]} would not be asked for the same masked words: they differ "
                "in vocabulary, length or whole words; evaluate one at a time"
            )
    source = [Path(data)]
    paths = corpus_files(source)
    left_out = passed_over(source)
    if left_out:
        note(left_out)

    found: list[Guessed] = []
    with tempfile.TemporaryDirectory(prefix="firth-") as folder:
        tokenizer = predictors[0].bundle.tokenizer
        shards = open_shards(Path(folder), paths, tokenizer, text or "text", encoding)
        feed = _feed(shards, predictors[0], setups[0], str(data))
        for name, predictor in zip(names, predictors, strict=True):
            whose = f"{name}: " if len(names) > 1 else ""
            say_unmatched(predictor, whose)
            found.append(_guess(predictor, feed, whose))

    measured = tuple(_measured(name, one) for name, one in zip(names, found, strict=True))
    first = found[0].tally
    compared = []
    for name, one in zip(names[1:], found[1:], strict=True):
        differences = one.tally.against(first)
        compared.append(Compared(name, names[0], differences))
    return Evaluation(str(data), first.sums.count, 0, measured, tuple(compared))


def _setup(name: str, predictor: Predictor) -> MaskedSetup:
    """Return how a model was pretrained, or the default where it isn't known."""
    bundle = predictor.bundle
    made: dict[str, Any] = {}
    record = find(name) / RECORD
    if record.exists():
        page = read_json(record)
        made = page.get("made", {}).get("settings", {})

    most = bundle.encoder.length
    length = made.get("length") or LENGTH
    return MaskedSetup(
        bundle.tokenizer.fingerprint,
        length=min(length, most or length),
        whole_words=bool(made.get("whole_words")),
        pairs=bundle.kind == PRETRAIN,
    )


def _feed(shards: Shards, predictor: Predictor, setup: MaskedSetup, data: str) -> Pairs:
    """Cut a text into passages, and say what of it is not asked."""
    room = setup.length - SPECIAL
    where = passages(shards, room)
    pairs = setup.pairs and several(where)
    if setup.pairs and not pairs:
        note(
            f"{data} is a single document, and next-sentence pairs need a second one to draw from: "
            "only masked words are measured (a blank line parts documents)"
        )
    if shards.tokens > MOST_TOKENS:
        note(
            f"{data} has {shards.tokens:,} tokens: about {MOST_TOKENS:,} are read, in passages "
            "spread evenly over it"
        )
    tokenizer = predictor.bundle.tokenizer
    masker = Masker(tokenizer, setup.whole_words)
    return Pairs(shards, where, tokenizer, room, DEV_SEED, masker, pairs)


def _guess(predictor: Predictor, feed: Pairs, whose: str) -> Guessed:
    """Let a model guess what was masked in each passage."""
    numbers = evenly_spread(feed, MOST_TOKENS)
    tally = MaskedTally()
    tokens = 0
    with (
        Progress(f"{whose}evaluating", "passages", len(numbers)) as progress,
        predictor.computing(),
        torch.inference_mode(),
    ):
        for chosen in micro_batches(feed.sizes[numbers], TOKENS_PER_BATCH):
            batch = feed.batch(0, numbers[chosen])
            _count(predictor, batch, tally)
            tokens += len(batch.ids)
            progress(tally.sums.count)
    return Guessed(tally, tokens)


def _count(predictor: Predictor, batch: Batch, tally: MaskedTally) -> None:
    """Add up a batch, row by row."""
    bundle = predictor.bundle
    places = batch.targets["places"]
    words = batch.targets["words"]
    random_next = batch.targets.get("random_next")
    asks_next = random_next is not None
    logits, next_logits = pretrain_logits(bundle.reader, bundle.head, batch, places, asks_next)
    right = logits.argmax(-1) == words  # (M)
    scores = logits.log_softmax(-1).gather(1, words[:, None])
    scores = scores[:, 0].double()  # (M)

    size = len(batch.lengths)
    ends = batch.lengths.cumsum(0)
    row_of = torch.searchsorted(ends, places, right=True)  # (M)
    counts = torch.bincount(row_of, minlength=size)
    rights = torch.bincount(row_of[right], minlength=size)
    sums = torch.zeros(size, dtype=scores.dtype)
    sums.index_add_(0, row_of, scores)
    asked = torch.zeros(size, dtype=torch.int)
    answered = asked
    if random_next is not None and next_logits is not None:
        asked = (random_next != NOT_ASKED).int()
        answered = (next_logits.argmax(-1) == random_next).int()
    columns = (column.tolist() for column in (counts, rights, sums, asked, answered))
    for row in zip(*columns, strict=True):
        tally.add(*row)


def _measured(name: str, found: Guessed) -> Measured:
    tally = found.tally
    amount = MaskedAmount(found.tokens, tally.words, tally.pairs)
    return Measured(name, tally.scores(), None, 0, masked=amount)
