"""Official scores of a model on examples, from the answers that a user would get, added up as they come."""

from collections.abc import Iterable, Sequence
from itertools import tee
from typing import Any

from firth.base.errors import InputError
from firth.data.examples import Example, Labelled, Tagged, labels_of, written
from firth.data.record import on_a_line
from firth.data.window import Long
from firth.data.words import torn, words
from firth.metrics.classes import Classes, LabelSets
from firth.metrics.decisions import Answer, Confidences
from firth.metrics.entities import Entities, entities
from firth.metrics.numbers import Numbers
from firth.metrics.sums import Difference, Interval
from firth.predictor import Predictor, Progress
from firth.tasks.classify import Decision, likeliest
from firth.tasks.tag import OUTSIDE, Tag
from firth.text.tokenizer import Encoding

Scores = dict[str, Interval]


def names_of(kind: str | None, labels: Iterable[str]) -> list[str]:
    """The classes that a model tells apart or, of a tagger, the names that it gives to spans."""
    return list(
        labels
        if kind != "tag"
        else dict.fromkeys(tag.partition("-")[2] for tag in labels if tag != OUTSIDE)
    )


class Scorer:
    """The scores of one kind of answers, each counted as it comes: of one model, or of several on examples of their own.

    `others` are labels of the examples, of which the model may know only some. `positive` is the class whose F1 is given where
    there are two, by default the last. Answers are kept (of classes, and only where they are asked for), all else is sums.
    """

    def __init__(
        self,
        kind: str | None,
        labels: Sequence[str],
        others: Iterable[str] = (),
        positive: str | None = None,
        keep: bool = True,
    ) -> None:
        known = names_of(kind, labels)
        every = [*known, *sorted(set(others) - set(known))]
        self.tally: Classes | LabelSets | Numbers | Entities
        if kind == "classify":
            self.tally = Classes(every, positive if positive in every else known[-1])
        elif kind == "several":
            self.tally = LabelSets(every)
        elif kind == "regress":
            self.tally = Numbers()
        elif kind == "tag":
            self.tally = Entities(sorted(every))
        else:
            raise InputError(f"a model for {kind or 'vectors'} has no scores on labelled examples")
        self.confidences = Confidences()  # of classes and labels
        self.answers: list[Answer] = []
        self.torn = 0  # spans that begin or end inside a word
        self._keep = keep

    def read(
        self,
        predictor: Predictor,
        examples: Iterable[Example],
        long: Long = "cut",
        progress: Progress | None = None,
    ) -> None:
        """Let a model answer examples, and count the answers."""
        task = predictor.task()
        shown, given = tee(examples)
        tags = _TokenTags(task) if isinstance(task, Tag) else None
        for example, answer in zip(
            shown, predictor.stream(tags or task, given, long, progress), strict=True
        ):
            self._count(example, answer)
        self.torn += tags.torn if tags else 0

    def _count(self, example: Example, answer: Any) -> None:
        match self.tally:
            case Classes() | LabelSets():
                self._count_decision(labels_of(example), answer)
            case Entities():
                self.tally.add(*answer)
            case Numbers():
                assert isinstance(example, Labelled)
                assert isinstance(example.label, float)
                self.tally.add(example.label, answer)

    def _count_decision(self, labels: Sequence[str], decision: Decision) -> None:
        said = tuple(map(written, likeliest(decision.shares, isinstance(self.tally, LabelSets))))
        if isinstance(self.tally, LabelSets):
            self.tally.add(labels, said)
        elif isinstance(self.tally, Classes):
            self.tally.add(labels[0], said[0])
        self.confidences.add(
            decision.confidence, set(said) == set(labels), decision.label is not None
        )
        if self._keep:
            self.answers.append((frozenset(labels), frozenset(said), decision.confidence))

    @property
    def positive(self) -> str | None:
        """The class that `f1` is of, where there is one."""
        return self.tally.labels[self.tally.positive] if isinstance(self.tally, Classes) else None

    @property
    def count(self) -> int:
        """How many answers were counted."""
        return self.tally.sums.count

    def scores(self) -> Scores:
        """Every published score, with its interval."""
        return self.tally.scores()

    def against(self, other: "Scorer") -> dict[str, Difference]:
        """How much higher each score is than another model's on the same examples, where both have it."""
        return self.tally.against(other.tally)


class _TokenTags:
    """Tagging whose answers are the true and the found tags of a text's tokens.

    They are the tokens that the user gave or, where the text is all there is, the tokenizer's words.
    """

    def __init__(self, task: Tag) -> None:
        self.features, self.scores, self.combine = task.features, task.scores, task.combine
        self.task = task
        self.torn = 0
        self.foreign = {tag.partition("-")[0] for tag in task.tags} - {OUTSIDE} != {"B", "I"}

    def answer(
        self, example: Example, encoding: Encoding, scores: Any
    ) -> tuple[list[str], list[str]]:
        """Both rows of tags."""
        assert isinstance(example, Tagged)
        self.torn += torn(example, encoding)
        if not example.tokens:
            example = Tagged(
                example.text,
                example.spans,
                tuple((word.start, word.end) for word in words(encoding)),
            )
        truth, said = token_truth(example), self.task.token_tags(example, encoding, scores)
        if self.foreign:
            said = in_two_letters(said)
        return truth, said + [OUTSIDE] * (len(truth) - len(said))


def in_two_letters(tags: Sequence[str]) -> list[str]:
    """The same entities in IOB2, B- and then I-, as those of the examples are written: models from elsewhere have other letters."""
    written = [OUTSIDE] * len(tags)
    for start, end, kind in entities(tags):
        written[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return written


def token_truth(example: Tagged) -> list[str]:
    """The tags of a text's tokens by its spans, each token in the first that it shares a character with.

    A span that is left without a token can't be found: it is missed at a place of its own behind the tokens.
    """
    tags = [OUTSIDE] * len(example.tokens)
    missed = []
    for span in sorted(example.spans):
        touched = (
            at
            for at, (start, end) in enumerate(example.tokens)
            if start < span.end and end > span.start
        )
        own = [at for at in touched if tags[at] == OUTSIDE]
        for at in own:
            tags[at] = f"{'B' if at == own[0] else 'I'}-{span.label}"
        if not own:
            missed.append(f"B-{span.label}")
    return tags + missed


def named(score: str, positive: str | None) -> str:
    """A score's name as a person reads it, of F1 with the class that it is of."""
    return on_a_line(
        f"f1 ({positive})" if score == "f1" and positive is not None else score.replace("_", " ")
    )


def figure(value: float) -> str:
    """A number as a person reads it: four places, more where they would all be 0."""
    return f"{value:.4f}" if abs(value) >= 1e-3 or value == 0 else f"{value:.3g}"


def table(scores: Scores, positive: str | None = None) -> list[str]:
    """Scores as a person reads them, one a line."""
    return [
        f"  {named(name, positive):14} {figure(value):>8}   {figure(low)} to {figure(high)}"
        for name, (value, low, high) in scores.items()
    ]
