"""Measure models on examples that they did not learn from, and say whether one is better than another or only luckier."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from firth.base.arguments import as_path, as_paths, check_choice, check_names
from firth.base.errors import InputError
from firth.base.progress import Progress
from firth.data.examples import Example, labels_of
from firth.data.record import listed, shortened
from firth.data.window import Long
from firth.evaluation.report import Compared, Confidence, Evaluation, Measured
from firth.evaluation.scorer import Scorer, names_of
from firth.evaluation.text import evaluate_text
from firth.folders.bundle import find, refuse_unusable_head
from firth.predictor import Predictor, load_predictor, say_coverage, say_unmatched
from firth.reading.columns import Named, Task
from firth.reading.readers import Reading
from firth.reading.trained import Hashes, read_trained, was_trained_on
from firth.reading.usable import Usable, warn_of_missing
from firth.tasks.flow import Way

TASKS: dict[str | None, Task] = {
    "classify": "classify",
    "several": "classify",
    "regress": "regress",
    "tag": "tag",
}
GIVES: dict[str | None, str] = {
    "classify": "one class",
    "several": "several labels",
    "regress": "a number",
    "tag": "named spans",
    "continue": "the text that comes next",
}
MOST_UNKNOWN = 1000  # labels that no model knows: each takes memory, and so many are another column
SHOWN = 8  # labels in a note


def evaluate(
    models: str | Path | Sequence[str | Path],
    data: str | Path,
    *,
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    missing: str | Sequence[str] = (),
    encoding: str | None = None,
    long: Way | None = None,
    counts: str | Path | None = None,
    threads: int | None = None,
) -> Evaluation:
    """Official scores of models on a file of examples, with intervals; later models are compared with the first.

    Of language models they are those of a plain text; `counts` is a training text whose words are to be told by their frequency.
    """
    names, data = as_paths("models", models, "there is no model to evaluate"), as_path("data", data)
    counts = as_path("counts", counts, optional=True)
    check_names(text=text, second=second, label=label, encoding=encoding)
    check_choice("long", long, get_args(Way), optional=True)
    for name in names:
        refuse_unusable_head(name)
    predictors = [load_predictor(name, threads) for name in names]
    kind = _kind(names, predictors)
    odd = (
        {"second": second, "label": label, "missing": missing or None}
        if kind == "continue"
        else {"counts": counts}
    )
    if wrong := [name for name, value in odd.items() if value is not None]:
        raise InputError(f"--{wrong[0]} is not for models that give {GIVES[kind]}")
    if kind == "continue":
        return evaluate_text(
            names, predictors, data, text=text, encoding=encoding, long=long, counts=counts
        )
    if long == "carry":
        raise InputError(f"--long carry is not for models that give {GIVES[kind]}")
    words = {missing} if isinstance(missing, str) else set(missing)
    words.update(
        word for predictor in predictors for word in predictor.bundle.settings.get("missing", ())
    )
    return _evaluate_labelled(
        names, predictors, kind, data, Named.of(text, second, label), words, encoding, long
    )


def _evaluate_labelled(
    names: Sequence[str],
    predictors: Sequence[Predictor],
    kind: str,
    data: str | Path,
    columns: Named,
    missing: set[str],
    encoding: str | None,
    long: Long | None,
) -> Evaluation:
    """Scores on labelled examples."""
    remembered = None if columns.names else _trained_columns(names, predictors)
    reading = Reading(
        Path(data), columns, encoding, TASKS[kind], missing=missing, trained=remembered
    )
    if reading.note:
        print(f"note: {reading.note}", file=sys.stderr)
    if reading.several and kind == "classify":
        raise InputError(f"{data} has lists of labels, where {names[0]} gives one class")
    usable = Usable(reading)
    trained = [_Trained(read_trained(find(name))) for name in names]
    labels = _labels(
        _watched(usable, trained),
        {label for predictor in predictors for label in _known(predictor)},
        str(data),
    )
    usable.settle()
    if TASKS[kind] == "classify":
        warn_of_missing(data, labels)
    count, left_out, unlabelled = (
        reading.counts.usable,
        reading.counts.rejected,
        reading.counts.unlabelled,
    )
    for name, predictor in zip(names, predictors, strict=True):
        _say_unknown(labels, _known(predictor), name, str(data))
    first = predictors[0].bundle.labels
    positive = (
        first[-1] if first else None
    )  # one class for all models, whatever the order of their labels
    scorers = []
    for name, predictor in zip(names, predictors, strict=True):
        whose = f"{name}: " if len(names) > 1 else ""
        say_unmatched(predictor, whose)
        scorer = Scorer(kind, predictor.bundle.labels, labels, positive, keep=False)
        with Progress(f"{whose}evaluating", "texts", count) as progress:
            scorer.read(predictor, usable, long or predictor.bundle.long, progress)
        if scorer.count != count:
            raise InputError(
                f"{data} changed while it was read: it had {count:,} examples and then {scorer.count:,}"
            )
        say_coverage(predictor, whose)
        if scorer.torn:
            what = f"{scorer.torn:,} of {labels.total():,} spans begin or end inside a word"
            print(
                f"note: {whose}{what}; each is compared as the whole words that it touches",
                file=sys.stderr,
            )
        scorers.append(scorer)
    for name, one in zip(names, trained, strict=True):
        if one.met:
            whose = f"{name}: " if len(names) > 1 else ""
            what = f"{one.met:,} of {count:,} rows ({100 * one.met / count:.0f} %) are texts that the model was trained on"
            print(f"note: {whose}{what}; its metrics on them say little", file=sys.stderr)
    measured = tuple(
        _measured(*one) for one in zip(names, predictors, scorers, trained, strict=True)
    )
    later = zip(names[1:], scorers[1:], strict=True)
    compared = tuple(Compared(name, names[0], scorer.against(scorers[0])) for name, scorer in later)
    return Evaluation(str(data), count, left_out, measured, compared, unlabelled)


class _Trained:
    """How many examples are texts that a model was trained on, where its folder tells."""

    def __init__(self, hashes: Hashes | None) -> None:
        self.hashes, self.met = hashes, None if hashes is None else 0

    def add(self, example: Example) -> None:
        """Count an example."""
        if self.hashes is not None and self.met is not None:
            self.met += was_trained_on(self.hashes, example)


def _watched(examples: Iterable[Example], trained: Sequence[_Trained]) -> Iterator[Example]:
    """Examples, each counted as it comes."""
    for example in examples:
        for one in trained:
            one.add(example)
        yield example


def _trained_columns(names: Sequence[str], predictors: Sequence[Predictor]) -> Named | None:
    """Return the columns that the models were trained with; models that differ in them read the usual ones."""
    known = [
        (name, one.bundle.columns)
        for name, one in zip(names, predictors, strict=True)
        if one.bundle.columns
    ]
    if len({columns for _, columns in known}) > 1:
        said = ", ".join(f"{name} with {columns}" for name, columns in known[:SHOWN])
        print(
            f"note: the models were trained with different columns: {said}; all read the same ones now",
            file=sys.stderr,
        )
        return None
    return known[0][1] if known else None


def _known(predictor: Predictor) -> list[str]:
    return names_of(predictor.bundle.kind, predictor.bundle.labels)


def _kind(names: Sequence[str], predictors: Sequence[Predictor]) -> str:
    """What all the models do."""
    if not names:
        raise InputError("there is no model to evaluate")
    for name, predictor in zip(names, predictors, strict=True):
        kind, first = predictor.bundle.kind, predictors[0].bundle.kind
        if kind not in GIVES:
            has = {
                None: "no head",
                "fill": "a head for hidden words",
                "pretrain": "the heads of pretraining",
            }
            does = has.get(kind, f"a head for {kind!r}")
            raise InputError(
                f"{name} has {does}; evaluate takes models for classes, numbers or named spans (firth finetune makes them) "
                "and language models"
            )
        if kind != first:
            raise InputError(
                f"{name} gives {GIVES[kind]} and {names[0]} {GIVES[first]}; models are compared on one task"
            )
    return str(predictors[0].bundle.kind)


def _labels(examples: Iterable[Example], known: set[str], data: str) -> Counter[str]:
    """How often each label occurs; reading all once also finds whatever is wrong before any work is done."""
    found: Counter[str] = Counter()
    unknown: set[str] = set()
    for example in examples:
        for label in labels_of(example):
            found[label] += 1
            if label not in known:
                unknown.add(label)
        if len(unknown) > MOST_UNKNOWN:
            raise InputError(
                f"{data} has more than {MOST_UNKNOWN:,} labels that are unknown; is it the right column (--label)?"
            )
    return found


def _say_unknown(labels: Mapping[str, int], known: Sequence[str], name: str, data: str) -> None:
    """Say which labels a model can't give; one that can't give any was made for other data."""
    unknown = [label for label in labels if label not in known]
    if not unknown:
        return
    if len(unknown) == len(labels):
        raise InputError(
            f"{data} has none of the labels of {name}, {listed(known)}; it has {listed(unknown)}"
        )
    counts = ", ".join(f"{shortened(label)} {labels[label]:,}" for label in unknown[:SHOWN])
    more = f" and {len(unknown) - SHOWN:,} others" if len(unknown) > SHOWN else ""
    print(
        f"note: {data} has labels that {name} doesn't know, which count as wrong: {counts}{more}",
        file=sys.stderr,
    )


def _measured(name: str, predictor: Predictor, scorer: Scorer, trained: _Trained) -> Measured:
    found, threshold = scorer.confidences, predictor.bundle.settings.get("threshold") or None
    shares = (found.given, found.right) if threshold else (None, None)
    sure = (
        Confidence(found.mean, found.error, threshold, *shares)
        if TASKS[predictor.bundle.kind] == "classify"
        else None
    )
    return Measured(
        name,
        scorer.scores(),
        sure,
        predictor.coverage.cut,
        positive=scorer.positive,
        trained_on=trained.met,
    )
