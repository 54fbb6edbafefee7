"""Pretraining the n-gram: count a text part by part, and keep on disk what is counted, so that a killed run loses one part."""

import re
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from firth.base import files
from firth.base.errors import InputError, Stopped
from firth.base.progress import Progress
from firth.base.signals import StopRequest
from firth.corpus.shards import Shards
from firth.corpus.stream import Rows, Stream, by_frequency, hold_out, line_marks
from firth.folders.bundle import Bundle
from firth.models.counts import Counts, NGramSettings, count, merge
from firth.models.counts import Rows as Sentences
from firth.models.ngram import NGram, estimate
from firth.recipes.settings import PretrainSettings
from firth.tasks.language import Continue
from firth.text.tokenizer import Tokenizer
from firth.train.evaluate import some

ORDER, ROOM = 5, 512  # words of an n-gram; tokens of a row that is measured on
TOKENS = 1 << 22  # in a part, about
NAME = re.compile(r"(\d{12})-(\d{12})\.([0-9a-f]{64})\.safetensors")


class Pile(NamedTuple):
    """The counts of a stretch of the text, and the file that keeps them."""

    first: int  # place in the stream
    stop: int
    counts: Counts
    path: Path | None


class Counting:
    """Counts of a stream, part by part."""

    def __init__(self, stream: Stream, settings: NGramSettings, folder: Path) -> None:
        self.stream, self.settings, self.folder = stream, settings, folder
        lines = np.append(stream.lines(), stream.size)
        wanted = np.arange(0, stream.size, TOKENS)
        self.cuts = np.unique(
            np.append(lines[np.searchsorted(lines, wanted)], stream.size)
        ).tolist()

    def fit(self) -> NGram:
        """Count what no file has yet, and smooth all of it."""
        self.folder.mkdir(exist_ok=True)
        kept = {pile.first: pile for pile in self._found()}
        piles: list[Pile] = []
        with StopRequest() as stop, Progress("counting", "tokens", self.stream.size) as progress:
            done = 0
            while done < self.stream.size:
                pile = kept.get(done) or self._keep(self._count(done))
                done = pile.stop
                piles.append(pile)
                # Only piles of like size are merged, so that no n-gram is moved more often than the logarithm of their number.
                while len(piles) > 1 and piles[-1].counts.size * 2 > piles[-2].counts.size:
                    piles[-2:] = [self._merge(*piles[-2:])]
                progress(done)
                if stop.asked and done < self.stream.size:
                    raise Stopped(
                        f"stopped after {done:,} of {self.stream.size:,} tokens as asked; --resume goes on from there"
                    )
        return estimate(merge([pile.counts for pile in piles]))

    def _count(self, first: int) -> Pile:
        stop = self.cuts[self.cuts.index(first) + 1]
        ids = self.stream.read(first, stop)
        return Pile(first, stop, count(Sentences(ids, np.array([len(ids)])), self.settings), None)

    def _merge(self, one: Pile, two: Pile) -> Pile:
        merged = self._keep(Pile(one.first, two.stop, merge([one.counts, two.counts]), None))
        for old in (one, two):
            if old.path:
                old.path.unlink(missing_ok=True)
        return merged

    def _keep(self, pile: Pile) -> Pile:
        """Write a pile to a file whose name says what it is of and what its bytes are."""
        fresh = self.folder / ".fresh"
        written = files.write_arrays(fresh, pile.counts.arrays())
        path = self.folder / f"{pile.first:012}-{pile.stop:012}.{written.sha256}.safetensors"
        fresh.replace(path)
        files.sync(self.folder)
        return pile._replace(path=path)

    def _found(self) -> list[Pile]:
        """The piles that earlier processes left, of overlapping ones the largest; damaged ones are counted again."""
        found: list[Pile] = []
        for path in sorted(self.folder.iterdir()):
            name = NAME.fullmatch(path.name)
            if not name or not {int(name[1]), int(name[2])} <= {*self.cuts}:
                continue
            try:
                found.append(Pile(int(name[1]), int(name[2]), self._read(path, name[3]), path))
            except InputError as error:
                print(f"note: {error}; it is counted again", file=sys.stderr, flush=True)
                path.unlink()
        largest = sorted(found, key=lambda pile: pile.first - pile.stop)
        apart: list[Pile] = []
        for pile in largest:
            if all(pile.stop <= other.first or pile.first >= other.stop for other in apart):
                apart.append(pile)
        return apart

    def _read(self, path: Path, expected: str) -> Counts:
        if files.sha256(path) != expected:
            raise InputError(
                f"{path} was damaged after it was written: its sha256 differs from its name"
            )
        try:
            counts = Counts.of(load_file(path))
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is damaged: {str(error).splitlines()[0]}") from error
        if counts.settings != self.settings:
            raise InputError(f"{path} has the counts of another vocabulary or order")
        return counts


class Counted(NamedTuple):
    """What came of counting."""

    bundle: Bundle
    held_out: int  # tokens
    metrics: dict[str, float]  # on held-out text
    baseline: dict[str, float | None]


def counted(
    settings: PretrainSettings,
    tokenizer: Tokenizer,
    text: Shards,
    held: Shards | None,
    folder: Path,
    most: int,
) -> Counted:
    """Count a text, and measure on at most so many tokens of held-out text."""
    start, end = line_marks(tokenizer)
    whole = Stream(text, end)
    kept, chosen = (whole, Stream(held, end)) if held else hold_out(whole)
    sizes = NGramSettings(vocab=tokenizer.size, order=settings.order or ORDER, start=start, end=end)
    model = Counting(kept, sizes, folder).fit()
    rows, lesson, metrics = Rows(chosen, tokenizer, ROOM), Continue(), {}
    if chosen.size:
        metrics = lesson.metrics(lesson.right(model, None, rows.batch(0, some(rows, most))))
    baseline = {"token_perplexity": by_frequency(kept.counts(tokenizer.size), rows, most)}
    return Counted(
        Bundle(model, tokenizer, "firth-ngram", "continue"), chosen.size, metrics, baseline
    )
