"""How well vectors of words agree with people, and how many analogies they complete."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch

from firth.base.errors import InputError
from firth.base.progress import Progress
from firth.data.wordtests import Analogies, Analogy, RatedPair, RatedPairs
from firth.evaluation.report import Compared, Evaluation, Measured, Section, WordAmount
from firth.metrics.choices import Choices
from firth.metrics.numbers import Numbers
from firth.metrics.sums import Difference, Interval
from firth.predictor import Predictor
from firth.probes.words import WordTable

CORRELATIONS = ("spearman", "pearson")
AT_ONCE = 1024  # analogies that are answered together


class OpenedWords(NamedTuple):
    """A model whose words are measured."""

    name: str
    predictor: Predictor
    table: WordTable

    def computing(self) -> AbstractContextManager[None]:
        """Compute with the threads that were asked for."""
        return self.predictor.computing()

    def several(self, words: Iterable[str]) -> int:
        """Count different words that the model reads in several pieces."""
        return sum(len(self.table.find(word)) > 1 for word in set(words))


def open_words(names: Sequence[str], predictors: Sequence[Predictor]) -> list[OpenedWords]:
    """Return models with the tables of their words."""
    return [
        OpenedWords(name, predictor, WordTable(predictor.bundle, name))
        for name, predictor in zip(names, predictors, strict=True)
    ]


def evaluate_pairs(models: Sequence[OpenedWords], data: str, test: RatedPairs) -> Evaluation:
    """Correlate the cosines of words with people's ratings, over pairs that all models know."""
    pairs = [pair for pair in test.pairs if all(_knows_pair(one.table, pair) for one in models)]
    if not pairs:
        raise InputError(f"{data}: no pair has both words in {_all(models)}")
    left_out = len(test.pairs) - len(pairs)
    measured = []
    tallies = []
    for one in models:
        tally = Numbers()
        for pair in pairs:
            cosine = float(one.table.unit(pair.first) @ one.table.unit(pair.second))
            tally.add(pair.rating, cosine)
        several = one.several(word for pair in pairs for word in pair[:2])
        metrics = _correlations(tally.scores())
        measured.append(Measured(one.name, metrics, None, 0, words=WordAmount("pairs", several)))
        tallies.append(tally)
    compared = []
    for one, tally in zip(models[1:], tallies[1:], strict=True):
        differences = _correlation_differences(tally.against(tallies[0]))
        compared.append(Compared(one.name, models[0].name, differences))
    return Evaluation(data, len(pairs), left_out, tuple(measured), tuple(compared))


def _knows_pair(table: WordTable, pair: RatedPair) -> bool:
    return bool(table.find(pair.first) and table.find(pair.second))


def _correlations(scores: dict[str, Interval]) -> dict[str, Interval]:
    """Leave out the error: a cosine is not on the scale of the ratings."""
    return {name: scores[name] for name in CORRELATIONS}


def _correlation_differences(found: dict[str, Difference]) -> dict[str, Difference]:
    return {name: found[name] for name in CORRELATIONS}


def evaluate_analogies(models: Sequence[OpenedWords], data: str, test: Analogies) -> Evaluation:
    """Measure how often the nearest of all words completes an analogy, section by section."""
    asked: list[Analogy] = []
    sections: list[int] = []  # the section of each question
    left_out = [0] * len(test.sections)
    for section, questions in enumerate(test.sections.values()):
        known = [one for one in questions if all(_can_answer(model.table, one) for model in models)]
        asked += known
        sections += [section] * len(known)
        left_out[section] = len(questions) - len(known)
    if not asked:
        raise InputError(f"{data}: no analogy has all its words in {_all(models)}")

    measured = []
    tallies = []
    for one in models:
        words = one.table.count
        whole = Choices()
        parts = [Choices() for _ in test.sections]
        for section, right in zip(sections, _answered(one, asked), strict=True):
            for tally in (whole, parts[section]):
                tally.add(right, words)
        found = zip(test.sections, parts, left_out, strict=True)
        several = one.several(word for question in asked for word in question)
        amount = WordAmount("questions", several, tuple(_section(*part) for part in found))
        measured.append(Measured(one.name, whole.scores(), None, 0, words=amount))
        tallies.append(whole)
    compared = []
    for one, whole in zip(models[1:], tallies[1:], strict=True):
        compared.append(Compared(one.name, models[0].name, whole.against(tallies[0])))
    return Evaluation(data, len(asked), sum(left_out), tuple(measured), tuple(compared))


def _can_answer(table: WordTable, question: Analogy) -> bool:
    """Say whether a model knows the words; the answer must be one of its whole words."""
    answer = table.find(question.answer)
    return len(answer) == 1 and answer[0] in table.words and all(map(table.find, question.words))


def _section(name: str, tally: Choices, left_out: int) -> Section:
    """Return what was measured of a section, which may be nothing."""
    accuracy = tally.scores()["accuracy"] if tally.sums.count else None
    return Section(name, accuracy, tally.sums.count, left_out)


def _answered(one: OpenedWords, questions: Sequence[Analogy]) -> Iterable[bool]:
    """Yield of each analogy whether the nearest word that is not given is the answer."""
    table = one.table
    with Progress(f"{one.name}: answering", "analogies", len(questions)) as progress:
        for first in range(0, len(questions), AT_ONCE):
            part = questions[first : first + AT_ONCE]
            with one.computing():
                vectors = [
                    table.unit(second) - table.unit(one) + table.unit(third)
                    for one, second, third, _ in part
                ]
                without = [{row for word in q.words for row in table.find(word)} for q in part]
                best = list(table.best(torch.stack(vectors), without))
            for question, row in zip(part, best, strict=True):
                yield (row,) == table.find(question.answer)
            progress(first + len(part))


def _all(models: Sequence[OpenedWords]) -> str:
    """Name the models whose words are compared."""
    return " and ".join(one.name for one in models)
