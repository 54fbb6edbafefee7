"""How well a forward and a backward language model foretell a text, line by line."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from firth.base.progress import Progress
from firth.evaluation.report import Amount, Compared, Evaluation, Measured
from firth.evaluation.text import TextLines
from firth.metrics.perplexity import perplexities
from firth.metrics.sums import Figures, Sums, Tally
from firth.predictor import Predictor, say_unmatched
from firth.tasks.bidirectional import Bidirectional, BidirectionalLikelihood


class BothPerplexities(Tally):
    """What the likelihoods of lines add up to; the end of a line counts as a word."""

    def __init__(self) -> None:
        self.words = 0
        self.tokens = 0
        self.unknown = 0
        self.sums = Sums(3)

    def add(self, line: BidirectionalLikelihood) -> None:
        """Count a line."""
        self.words += line.words
        self.tokens += line.tokens
        self.unknown += line.unknown
        self.sums.add(np.array([line.forward, line.backward, line.words + 1.0]))

    def score(self, sums: Figures) -> dict[str, Figures]:
        """Return the perplexity of both models, and their mean."""
        words = sums[..., 2]
        forward = perplexities(sums[..., 0], words)
        backward = perplexities(sums[..., 1], words)
        return {
            "forward_perplexity": forward,
            "backward_perplexity": backward,
            "mean_perplexity": (forward + backward) / 2,
        }


def evaluate_both_ways(
    names: Sequence[str],
    predictors: Sequence[Predictor],
    data: str | Path,
    *,
    text: str | None = None,
    encoding: str | None = None,
) -> Evaluation:
    """Return the perplexity of both models of each folder on a text, with intervals over its lines.

    Later folders are compared with the first.
    """
    lines = TextLines(Path(data), text or "text", encoding)
    count = lines.settle()
    tallies = []
    for name, predictor in zip(names, predictors, strict=True):
        whose = f"{name}: " if len(names) > 1 else ""
        say_unmatched(predictor, whose)
        with Progress(f"{whose}rating", "lines", count) as progress:
            tallies.append(_tally(predictor, lines, progress))

    measured = []
    for name, tally in zip(names, tallies, strict=True):
        amount = Amount(tally.words, tally.tokens, tally.unknown, ())
        measured.append(Measured(name, tally.scores(), None, 0, amount))
    compared = []
    for name, tally in zip(names[1:], tallies[1:], strict=True):
        compared.append(Compared(name, names[0], tally.against(tallies[0])))
    return Evaluation(str(data), count, 0, tuple(measured), tuple(compared))


def _tally(predictor: Predictor, lines: TextLines, progress: Progress) -> BothPerplexities:
    """Let the models of one folder read the lines."""
    tally = BothPerplexities()
    task = Bidirectional.of_bundle(predictor.bundle)
    for answer in predictor.stream(task, iter(lines), progress=progress):
        tally.add(answer)
    return tally
