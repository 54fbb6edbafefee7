"""Counting an n-gram model: part by part, each kept on disk, so that a killed run loses one."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from firth.base import files
from firth.base.errors import InputError, Stopped
from firth.base.notes import note
from firth.base.progress import Progress
from firth.base.signals import StopRequest
from firth.corpus.shards import Shards
from firth.corpus.stream import LineRows, TokenStream, line_marks, unigram_perplexity
from firth.data.feed import evenly_spread
from firth.families.ngram import NGramSettings
from firth.families.registry import by_name
from firth.folders.bundle import Bundle
from firth.models.counts import NGramCounts, Sentences, count, merge
from firth.models.ngram import estimate
from firth.models.protocols import LanguageModel
from firth.recipes.lines import read_lines, refuse_start
from firth.recipes.objectives import CausalObjective
from firth.recipes.recipe import DEV_TOKENS, Trained
from firth.recipes.session import Session
from firth.recipes.settings import PretrainSettings
from firth.text.tokenizer import Tokenizer
from firth.train.loop import Outcome

ROOM = 512  # tokens of a row that is measured on
TOKENS = 1 << 22  # in a part, about
NAME = re.compile(r"(\d{12})-(\d{12})\.([0-9a-f]{64})\.safetensors")


class Pile(NamedTuple):
    """The counts of a stretch of the text, and the file that keeps them."""

    first: int  # place in the stream
    stop: int
    counts: NGramCounts
    path: Path | None


class Counting:
    """NGramCounts of a stream, part by part."""

    def __init__(self, stream: TokenStream, settings: NGramSettings, folder: Path) -> None:
        self.stream = stream
        self.settings = settings
        self.folder = folder
        # A part ends with the first line that ends no sooner than it should.
        lines = np.append(stream.lines(), stream.size)
        wanted = np.arange(0, stream.size, TOKENS)
        starts = lines[np.searchsorted(lines, wanted)]
        cuts = np.unique(np.append(starts, stream.size))
        self.cuts: list[int] = cuts.tolist()

    def fit(self) -> LanguageModel[Any]:
        """Count what no file has yet, and smooth all of it."""
        self.folder.mkdir(exist_ok=True)
        size = self.stream.size
        kept = {pile.first: pile for pile in self._found()}
        piles: list[Pile] = []
        with StopRequest() as stop, Progress("counting", "tokens", size) as progress:
            done = 0
            while done < size:
                pile = kept.get(done) or self._keep(self._count(done))
                done = pile.stop
                piles.append(pile)
                # Only piles of like size are merged: no n-gram is moved more often than the
                # logarithm of their number.
                while len(piles) > 1 and piles[-1].counts.size * 2 > piles[-2].counts.size:
                    last = piles.pop()
                    before = piles.pop()
                    piles.append(self._merge(before, last))
                progress(done)
                if stop.asked and done < size:
                    raise Stopped(
                        f"stopped after {done:,} of {size:,} tokens as asked; "
                        "--resume goes on from there"
                    )
        counts = merge([pile.counts for pile in piles])
        return estimate(counts)

    def _count(self, first: int) -> Pile:
        """Count the part that begins at a place."""
        part = self.cuts.index(first)
        stop = self.cuts[part + 1]
        ids = self.stream.read(first, stop)
        lengths = np.array([len(ids)])  # one row: the ends of lines are in it
        counts = count(Sentences(ids, lengths), self.settings)
        return Pile(first, stop, counts, None)

    def _merge(self, one: Pile, two: Pile) -> Pile:
        """Merge two piles that stand side by side; their files go once that of both is there."""
        counts = merge([one.counts, two.counts])
        merged = self._keep(Pile(one.first, two.stop, counts, None))
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
        """Return the piles that earlier processes left, of overlapping ones the largest.

        Damaged ones are counted again.
        """
        found: list[Pile] = []
        for path in sorted(self.folder.iterdir()):
            name = NAME.fullmatch(path.name)
            if not name:
                continue
            first = int(name[1])
            stop = int(name[2])
            if first not in self.cuts or stop not in self.cuts:
                continue
            try:
                counts = self._read(path, name[3])
            except InputError as error:
                note(f"{error}; it is counted again")
                path.unlink()
                continue
            found.append(Pile(first, stop, counts, path))

        largest = sorted(found, key=lambda pile: pile.first - pile.stop)
        apart: list[Pile] = []
        for pile in largest:
            if all(pile.stop <= other.first or pile.first >= other.stop for other in apart):
                apart.append(pile)
        return apart

    def _read(self, path: Path, expected: str) -> NGramCounts:
        """Read the counts of a file, and refuse what is damaged or of other settings."""
        if files.sha256(path) != expected:
            raise InputError(
                f"{path} was damaged after it was written: its sha256 differs from its name"
            )
        try:
            arrays = load_file(path)
            counts = NGramCounts.of(arrays)
        except (SafetensorError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{path} is damaged: {reason}") from error
        if counts.settings != self.settings:
            raise InputError(f"{path} has the counts of another vocabulary or order")
        return counts


class Counted:
    """The recipe of n-gram models: one pass over the text, and no loop."""

    def __init__(self, settings: PretrainSettings, tokenizer: Tokenizer) -> None:
        self.s = settings
        self.tokenizer = tokenizer
        self.family = by_name(settings.model)
        self.start, self.end = line_marks(tokenizer)

    def check(self, session: Session) -> None:
        """Refuse several processes: the counts of all would be in each."""
        if session.processes.count > 1:
            raise InputError("an n-gram is counted by one process: start it without torchrun")

    def read(self, text: Shards, held: Shards | None, plan: Mapping[str, Any] | None = None) -> int:
        """Take the lines of the text."""
        refuse_start(self.s, self.tokenizer, self.start, text, held)
        self.lines = read_lines(text, held, self.end)
        return self.lines.held.size

    def decide(self, session: Session) -> dict[str, Any]:
        """Decide nothing: the settings leave nothing open."""
        return {}

    def run(self, session: Session, plan: Mapping[str, Any]) -> Trained:
        """Count the text, and measure on held-out text."""
        vocab = self.tokenizer.size
        settings = self.family.settings_for(
            self.family.default_size,
            self.s.model_settings,
            vocab=vocab,
            order=self.s.order,
            start=self.start,
            end=self.end,
        )
        model = Counting(self.lines.kept, settings, session.run.folder / "counts").fit()
        rows = LineRows(self.lines.held, self.tokenizer, ROOM)
        metrics: dict[str, float] = {}
        if self.lines.held.size:
            objective = CausalObjective()
            batch = rows.batch(0, evenly_spread(rows, DEV_TOKENS))
            metrics = objective.metrics(objective.tally(model, None, batch))
        counts = self.lines.kept.counts(vocab)
        baseline = {"token_perplexity": unigram_perplexity(counts, rows, DEV_TOKENS)}
        bundle = Bundle(model, self.tokenizer, self.family.model_type, "continue")
        return Trained(bundle, Outcome(0, 0, metrics), baseline)
