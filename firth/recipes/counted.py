"""Counting an n-gram model: part by part, each kept on disk, so that a killed run loses one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from firth.base.errors import InputError
from firth.corpus.shards import Shards
from firth.corpus.stream import LineRows, line_marks, unigram_perplexity
from firth.data.feed import Numbers, evenly_spread
from firth.families.ngram import NGramSettings
from firth.families.registry import by_name
from firth.folders.bundle import Bundle
from firth.models.counts import NGramCounts, Sentences, count, merge
from firth.models.ngram import estimate
from firth.recipes.lines import read_lines, refuse_start
from firth.recipes.objectives import CausalObjective
from firth.recipes.piles import Arrays, Counter, Piles
from firth.recipes.recipe import DEV_TOKENS, Trained
from firth.recipes.session import Session
from firth.recipes.settings import PretrainSettings
from firth.text.tokenizer import Tokenizer
from firth.train.loop import Outcome

ROOM = 512  # tokens of a row that is measured on
TOKENS = 1 << 22  # in a part, about


def counter(settings: NGramSettings) -> Counter[NGramCounts]:
    """Return how n-grams of these settings are counted."""

    def of_part(ids: Numbers) -> NGramCounts:
        lengths = np.array([len(ids)])  # one row: the ends of lines are in it
        return count(Sentences(ids, lengths), settings)

    def read(arrays: Arrays) -> NGramCounts:
        counts = NGramCounts.of(arrays)
        if counts.settings != settings:
            raise InputError("the counts are of another vocabulary or order")
        return counts

    return Counter(of_part, merge, read)


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
        folder = session.run.folder / "counts"
        counted = Piles(self.lines.kept, counter(settings), folder, TOKENS).total()
        model = estimate(counted)
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
