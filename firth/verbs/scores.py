"""Official scores of a model on examples, from the answers that a user would get."""

from collections.abc import Sequence

from firth.base.errors import InputError
from firth.data.examples import Example, Labelled, Tagged
from firth.data.window import Long
from firth.metrics.classes import Classes, LabelSets
from firth.metrics.entities import Entities
from firth.metrics.numbers import Numbers
from firth.metrics.sums import Interval
from firth.predict import Predictor
from firth.tasks.classify import Decision
from firth.tasks.tag import Tag, words

Scores = dict[str, Interval]
Answers = list[tuple[str, str, float]]  # for classes: the truth, what was said, and the confidence


def score(predictor: Predictor, examples: Sequence[Example], long: Long = "cut") -> tuple[Scores, Answers]:
    """Every published score that fits the model, with intervals; for classes also the answers themselves."""
    kind = predictor.bundle.kind
    if kind == "classify":
        return _classes(predictor, examples, long)
    if kind == "several":
        return _label_sets(predictor, examples, long), []
    if kind == "regress":
        return _numbers(predictor, examples, long), []
    if kind == "tag":
        return _entities(predictor, examples, long), []
    raise InputError(f"a model for {kind or 'vectors'} has no scores on labelled examples")


def _classes(predictor: Predictor, examples: Sequence[Example], long: Long) -> tuple[Scores, Answers]:
    scorer = Classes(predictor.bundle.labels)
    answers: Answers = []
    for example, decision in zip(examples, predictor.answers(examples, long), strict=True):
        assert isinstance(example, Labelled)
        assert isinstance(decision, Decision)
        said = max(decision.shares, key=lambda label: decision.shares[label])  # also where it would say that it is unsure
        scorer.add(str(example.label), said)
        answers.append((str(example.label), said, decision.confidence))
    return scorer.sums.scores(scorer.score), answers


def _label_sets(predictor: Predictor, examples: Sequence[Example], long: Long) -> Scores:
    scorer = LabelSets(predictor.bundle.labels)
    for example, decision in zip(examples, predictor.answers(examples, long), strict=True):
        assert isinstance(example, Labelled)
        scorer.add(example.label if isinstance(example.label, tuple) else (str(example.label),), decision.label)
    return scorer.sums.scores(scorer.score)


def _numbers(predictor: Predictor, examples: Sequence[Example], long: Long) -> Scores:
    scorer = Numbers()
    for example, value in zip(examples, predictor.answers(examples, long), strict=True):
        assert isinstance(example, Labelled)
        assert isinstance(example.label, float)
        scorer.add(example.label, value)
    return scorer.sums.scores(scorer.score) | {"spearman": scorer.spearman()}


def _entities(predictor: Predictor, examples: Sequence[Example], long: Long) -> Scores:
    """On the tokens that the user gave or, where the text is all there is, on the tokenizer's words."""
    task = predictor.task()
    assert isinstance(task, Tag)
    given = [example for example in examples if isinstance(example, Tagged)]
    types = {tag.partition("-")[2] for tag in predictor.bundle.labels} | {span.label for example in given for span in example.spans}
    scorer = Entities(sorted(types - {""}))
    encodings = task.features(given, predictor.bundle.tokenizer)
    for example, encoding, scores in zip(given, encodings, predictor.raw(given, long), strict=True):
        if not example.tokens:
            example = Tagged(example.text, example.spans, tuple((word.start, word.end) for word in words(encoding)))  # noqa: PLW2901
        scorer.add(token_truth(example), task.token_tags(example, encoding, scores))
    return scorer.sums.scores(scorer.score)


def token_truth(example: Tagged) -> list[str]:
    """The tags of a text's tokens by its spans."""
    tags = ["O"] * len(example.tokens)
    for span in example.spans:
        inside = [at for at, (start, end) in enumerate(example.tokens) if start < span.end and end > span.start]
        for at in inside:
            tags[at] = f"{'B' if at == inside[0] else 'I'}-{span.label}"
    return tags
