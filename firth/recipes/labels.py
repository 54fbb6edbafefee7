"""Decide what a model is to give: its kind, its labels with their types, its metric, its head."""

from collections.abc import Sequence
from typing import NamedTuple

from firth.base.errors import InputError
from firth.base.notes import note
from firth.data.examples import Example, Label
from firth.data.record import listed
from firth.reading.labels import type_conflicts
from firth.reading.readers import Reading
from firth.recipes.examples import ExampleFile
from firth.recipes.finetune import metric_of, own_options
from firth.recipes.head import HeadChoice, choose_head
from firth.recipes.settings import FinetuneSettings
from firth.tasks.registry import find_trained
from firth.tasks.trained import TrainingData


class FinetuneGoal(NamedTuple):
    """What a model is to give, and the metric that selects the best."""

    kind: str
    labels: tuple[str, ...]
    values: tuple[Label, ...]  # the labels with their types; empty where all are strings
    metric: str
    head: HeadChoice


def decide_goal(s: FinetuneSettings, train: ExampleFile, dev: ExampleFile | None) -> FinetuneGoal:
    """Decide by the examples what kind of model they ask for, and with which labels."""
    dev_examples: Sequence[Example] = dev.examples if dev else []
    data = TrainingData(train.examples, dev_examples, s.train, s.dev, own_options(s))
    kind, labels = find_trained(s.task).plan(data)
    _say_unlearned(s, data.train_names, data.dev_names)

    metric = metric_of(s, kind, labels)
    head = choose_head(s, kind, labels)
    if head.kept:
        labels = head.head.labels
    if dev:
        _refuse_other_types(train.reading, dev.reading)
    values = _typed(labels, train, dev, head)
    return FinetuneGoal(kind, labels, values, metric, head)


def _say_unlearned(s: FinetuneSettings, known: set[str], measured: set[str]) -> None:
    """Name labels of the dev set that the train set lacks; if it lacks all, stop."""
    unlearned = sorted(measured - known)
    if not unlearned:
        return
    if len(unlearned) == len(measured):
        raise InputError(
            f"{s.dev} has none of the labels of {s.train}, {listed(sorted(known))}; "
            f"it has {listed(unlearned)}"
        )
    lacks = f"{s.dev} has labels that {s.train} lacks, so that none is learned"
    note(f"{lacks}: {listed(unlearned)}")


def _refuse_other_types(train: Reading, dev: Reading) -> None:
    """Stop where a label is a string in one file and a number in the other."""
    conflict = next(type_conflicts(train.path, train.met, dev.met), None)
    if conflict:
        raise InputError(f"{dev.path} {conflict}")


def _typed(
    labels: Sequence[str], train: ExampleFile, dev: ExampleFile | None, head: HeadChoice
) -> tuple[Label, ...]:
    """Return the labels with the types that they have in the data; none where all are strings.

    A .csv has no types: a head that is kept then has those of its folder.
    """
    known: dict[str, Label] = {}
    if head.kept:
        known = dict(zip(head.head.labels, head.head.values, strict=False))
    # The types of the train set count most; where it has none, those of the dev set are not asked.
    met = train.reading.met
    if met and dev:
        known |= {label: one.value for label, one in dev.reading.met.items()}
    known |= {label: one.value for label, one in met.items()}

    values = tuple(known.get(label, label) for label in labels)
    _refuse_equal(values, train.reading)
    if all(isinstance(value, str) for value in values):
        return ()
    return values


def _refuse_equal(values: Sequence[Label], train: Reading) -> None:
    """Refuse two labels that Python takes for one, as 1 and true."""
    for place, value in enumerate(values):
        before = values[:place]
        if value in before:
            equal = before[before.index(value)]
            raise InputError(
                f"{train.path} has the labels {equal!r} and {value!r}, which are equal: "
                "write one as text"
            )
