"""The records of an evaluation."""

from typing import NamedTuple

from firth.evaluation.figures import Scores
from firth.metrics.decisions import Share
from firth.metrics.perplexity import Band
from firth.metrics.sums import Difference, Interval


class Confidence(NamedTuple):
    """How sure a model is of classes or labels, and what that is worth."""

    mean: float
    calibration_error: float
    threshold: float | None  # below it the model is unsure; None where it always answers
    answered: Share | None  # of all texts, where there is a threshold
    right: Share | None  # of those


class Amount(NamedTuple):
    """How much text a language model read, and its perplexity by the frequency of words."""

    words: int
    tokens: int
    unknown: int  # tokens that stand for words that the vocabulary doesn't have
    bands: tuple[Band, ...]  # by how often words occur in a training text


class MaskedAmount(NamedTuple):
    """How much text a masked language model read, and how much of it was asked."""

    tokens: int
    masked: int  # words
    pairs: int  # passages with a second text


class Section(NamedTuple):
    """How many analogies of one section a model completes."""

    name: str
    accuracy: Interval | None  # None where no question could be asked
    questions: int
    left_out: int  # with words that a model lacks


class WordAmount(NamedTuple):
    """What the words of a model were measured on."""

    of: str  # pairs or questions
    several: int  # words that the model reads in several pieces, whose mean was taken
    sections: tuple[Section, ...] = ()  # of analogies


class Measured(NamedTuple):
    """How good one model is."""

    model: str
    metrics: Scores
    confidence: Confidence | None  # of classes and labels
    cut: int  # texts that were longer than the model reads
    text: Amount | None = None  # of a language model: what it read
    masked: MaskedAmount | None = None  # of a masked one: what it read
    positive: str | None = None  # the class that `f1` is of, where there are two
    # Rows whose text the model was trained on; None where its folder doesn't tell.
    trained_on: int | None = None
    words: WordAmount | None = None  # of a test of word vectors
    signatures: dict[str, str] = {}  # noqa: RUF012  # of BLEU and chrF: how they are computed


class Compared(NamedTuple):
    """How much higher a model's metrics are than those of the first, on the same examples."""

    model: str
    against: str
    metrics: dict[str, Difference]


class Evaluation(NamedTuple):
    """How good models are on the same data."""

    data: str
    examples: int  # of language models lines, of masked ones passages, of words pairs or analogies
    left_out: int  # rows that can't be used, or have words that a model lacks
    models: tuple[Measured, ...]
    differences: tuple[Compared, ...]  # of every model but the first
    unlabelled: int | None = None  # rows without a label, skipped; None for language models

    @property
    def unit(self) -> str:
        """What the figures are over."""
        if any(one.text for one in self.models):
            return "lines"
        if any(one.masked for one in self.models):
            return "passages"
        words = self.models[0].words
        return words.of if words else "examples"
