"""BLEU and chrF of translations, as sacreBLEU has them, with intervals.

"BLEU: a Method for Automatic Evaluation of Machine Translation", Papineni et al., 2002; "chrF:
character n-gram F-score for automatic MT evaluation", Popović, 2015; "A Call for Clarity in
Reporting BLEU Scores", Post, 2018.
"""

from typing import Any

import numpy as np

from firth.base.errors import InputError
from firth.metrics.sums import Figures, Sums, Tally

NEEDED = "translations are measured by sacreBLEU; get it with: pip install 'firth[translate]'"


class TranslationTally(Tally):
    """BLEU and chrF, from 0 to 100: functions of sums of n-grams over all sentences."""

    def __init__(self) -> None:
        self.metrics = sacrebleu_metrics()
        self.sizes = [len(_figures(metric, "", "")) for metric in self.metrics.values()]
        self.sums = Sums(sum(self.sizes))

    def add(self, reference: str, translation: str) -> None:
        """Count one translation."""
        parts = [_figures(metric, reference, translation) for metric in self.metrics.values()]
        self.sums.add(np.concatenate(parts))

    def score(self, sums: Figures) -> dict[str, Figures]:
        """Return the metrics of sums."""
        ends = np.cumsum(self.sizes)[:-1]
        found = {}
        parts = np.split(sums, ends, axis=-1)
        for (name, metric), part in zip(self.metrics.items(), parts, strict=True):
            rows = part.reshape(-1, part.shape[-1]).astype(int).tolist()
            # Rounding may carry a score beyond 100.
            values = [min(100.0, metric._compute_score_from_stats(row).score) for row in rows]
            found[name] = np.array(values).reshape(part.shape[:-1])
        return found

    @property
    def signatures(self) -> dict[str, str]:
        """Return how each metric was computed, as sacreBLEU writes it."""
        return {name: str(metric.get_signature()) for name, metric in self.metrics.items()}


def sacrebleu_metrics() -> dict[str, Any]:
    """Return sacreBLEU's metrics by name; without the library say how to get it."""
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise InputError(NEEDED) from None
    # The corpus score never needs the effective order that single sentences are scored by.
    return {"bleu": BLEU(), "chrf": CHRF()}


def _figures(metric: Any, reference: str, translation: str) -> Figures:
    """Return what a sentence adds to the sums of a metric."""
    (figures,) = metric._extract_corpus_statistics([translation], [[reference]])
    return np.asarray(figures, np.float64)
