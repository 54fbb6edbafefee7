"""Measure models on held-out examples, and say whether one is better or only luckier."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, get_args

from firth.base.arguments import as_beside, as_path, as_paths, check_choice, check_names
from firth.base.errors import InputError
from firth.base.notes import note
from firth.base.progress import Progress
from firth.data.examples import Example
from firth.data.record import listed, shortened
from firth.data.window import Long
from firth.data.wordtests import Analogies, WordTest
from firth.evaluation.bidirectional import evaluate_both_ways
from firth.evaluation.long_text import Way
from firth.evaluation.masked import evaluate_masked
from firth.evaluation.report import Compared, Confidence, Evaluation, Measured
from firth.evaluation.text import evaluate_text
from firth.evaluation.words import evaluate_analogies, evaluate_pairs, open_words
from firth.folders.find import find
from firth.folders.heads import refuse_unusable_head
from firth.predictor import (
    Coverage,
    Predictor,
    load_predictor,
    say_coverage,
    say_unmatched,
)
from firth.reading.columns import Named
from firth.reading.format import KINDS, Format
from firth.reading.readers import Reading
from firth.reading.trained import Hashes, read_trained, was_trained_on
from firth.reading.usable import Usable, warn_of_missing
from firth.reading.wordtests import read_word_test
from firth.tasks.registry import (
    find_kind,
    find_trained,
    gives,
    has_kind,
    is_trained_kind,
    readers,
)
from firth.tasks.trained import Scoring

MOST_UNKNOWN = 1000  # labels that no model knows: each takes memory, and so many are another column
SHOWN = 8  # labels in a note


class Watcher(Protocol):
    """Who looks on while one model is measured on labelled examples."""

    def begin(self, predictor: Predictor, scoring: Scoring) -> None:
        """Learn which model is measured, and what adds up its answers."""
        ...

    def add(self, line: int, example: Example, graded: Any) -> None:
        """See a graded answer, and the line of its example."""
        ...


class LabelledFile(NamedTuple):
    """A file of labelled examples, and how it is read."""

    data: str
    columns: Named
    missing: set[str]  # words that stand for no label
    encoding: str | None
    form: Format | None  # what it is, whatever it looks like
    beside: Path | None  # the file with its targets


def evaluate(
    models: str | Path | Sequence[str | Path],
    data: str | Path,
    *,
    target: str | Path | None = None,
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    missing: str | Sequence[str] = (),
    encoding: str | None = None,
    long: Way | None = None,
    counts: str | Path | None = None,
    threads: int | None = None,
) -> Evaluation:
    """Return the metrics of models on a file of examples, with intervals.

    Later models are compared with the first. Language models, masked ones too, are measured on
    plain text; `counts` is a training text, by the frequency of whose words perplexity is also
    given. `target` is a file whose lines are the targets of those of `data`, for models that make a
    text of a text. On a test of word vectors, which is told by what stands in it, any model with an
    embedding table is measured.
    """
    return evaluate_watched(
        models,
        data,
        target=target,
        text=text,
        second=second,
        label=label,
        missing=missing,
        encoding=encoding,
        long=long,
        counts=counts,
        threads=threads,
    )


def evaluate_watched(
    models: str | Path | Sequence[str | Path],
    data: str | Path,
    *,
    target: str | Path | None = None,
    text: str | None = None,
    second: str | None = None,
    label: str | None = None,
    missing: str | Sequence[str] = (),
    encoding: str | None = None,
    form: Format | None = None,
    long: Way | None = None,
    counts: str | Path | None = None,
    threads: int | None = None,
    watcher: Watcher | None = None,
) -> Evaluation:
    """Return what `evaluate` does; a watcher is shown every graded answer of a single model."""
    names = as_paths("models", models, "there is no model to evaluate")
    data = as_path("data", data)
    counts = as_path("counts", counts, optional=True)
    beside = as_beside("target", target)
    check_names(text=text, second=second, label=label, encoding=encoding)
    check_choice("long", long, get_args(Way), optional=True)
    check_choice("form", form, get_args(Format), optional=True)
    test = None
    if beside is None and Path(data).is_file():
        test = read_word_test(Path(data), encoding)
    if test is not None:
        options = {"text": text, "second": second, "label": label, "missing": missing or None}
        options |= {"format": form, "long": long, "counts": counts}
        _refuse(options, f"{data}, a test of word vectors")
        return _evaluate_words(names, data, test, threads)
    for name in names:
        refuse_unusable_head(name)
    predictors = [load_predictor(name, threads) for name in names]
    kind = _kind(names, predictors)
    measured_on = find_kind(kind).measured_on
    labels = {"second": second, "label": label, "missing": missing or None, "target": beside}
    labels["format"] = form
    unwanted: dict[str, dict[str, Any]] = {
        "examples": {"counts": counts},
        "text": labels,
        "masked text": {**labels, "long": long, "counts": counts},
        "text both ways": {**labels, "long": long, "counts": counts},
    }
    _refuse(unwanted[measured_on], f"models that give {gives(kind)}")

    if measured_on == "text":
        return evaluate_text(
            names, predictors, data, text=text, encoding=encoding, long=long, counts=counts
        )
    if measured_on == "masked text":
        return evaluate_masked(names, predictors, data, text=text, encoding=encoding)
    if measured_on == "text both ways":
        return evaluate_both_ways(names, predictors, data, text=text, encoding=encoding)
    if long == "carry":
        raise InputError(f"--long carry is not for models that give {gives(kind)}")
    # A word that stands for no label in what one model learned from does so for all of them.
    words = {missing} if isinstance(missing, str) else set(missing)
    for predictor in predictors:
        words.update(predictor.bundle.settings.get("missing", ()))
    columns = Named.of(text, second, label)
    file = LabelledFile(data, columns, words, encoding, form, beside)
    return _evaluate_labelled(names, predictors, kind, file, long, watcher)


def _refuse(options: Mapping[str, Any], what: str) -> None:
    """Refuse options that mean nothing here."""
    for name, value in options.items():
        if value is not None:
            raise InputError(f"--{name} is not for {what}")


def _evaluate_words(
    names: Sequence[str], data: str, test: WordTest, threads: int | None
) -> Evaluation:
    """Measure the vectors of words."""
    predictors = [load_predictor(name, threads) for name in names]
    models = open_words(names, predictors)
    if isinstance(test, Analogies):
        return evaluate_analogies(models, data, test)
    return evaluate_pairs(models, data, test)


def _evaluate_labelled(
    names: Sequence[str],
    predictors: Sequence[Predictor],
    kind: str,
    file: LabelledFile,
    long: Long | None,
    watcher: Watcher | None,
) -> Evaluation:
    """Measure models on labelled examples."""
    data = file.data
    reading = _reading(file, names, predictors, kind)
    predictors[0].trained_task().check_reader(reading.reader, data, names[0])
    usable = Usable(reading)
    trained = [_Trained(read_trained(find(name))) for name in names]
    known: set[str] = set()
    for predictor in predictors:
        known.update(_known(predictor))
    labels = _labels(_watched(usable, trained), known, data)
    usable.settle()
    if reading.reader.classes:
        warn_of_missing(data, labels)
    count = reading.counts.usable
    left_out = reading.counts.rejected
    unlabelled = reading.counts.unlabelled
    for name, predictor in zip(names, predictors, strict=True):
        _say_unknown(labels, _known(predictor), name, data)

    first = predictors[0].bundle.labels
    # One class for all models, whatever the order of their labels.
    positive = first[-1] if first else None
    prefixes = [f"{name}: " if len(names) > 1 else "" for name in names]  # of messages
    scorings = []
    coverages = []
    for prefix, predictor in zip(prefixes, predictors, strict=True):
        say_unmatched(predictor, prefix)
        scoring = predictor.trained_task().scoring(labels, positive, keep=False)
        coverage = Coverage()
        way = long or predictor.bundle.long
        counting = _Counted(scoring, watcher)
        if watcher is not None:
            watcher.begin(predictor, scoring)
        with Progress(f"{prefix}evaluating", "texts", count) as progress:
            predictor.grade(counting, counting.noted(usable), way, progress, coverage)
        if scoring.count != count:
            then = f"it had {count:,} examples and then {scoring.count:,}"
            raise InputError(f"{data} changed while it was read: {then}")
        say_coverage(coverage, prefix)
        _say_misaligned(scoring.misaligned, labels.total(), prefix)
        scorings.append(scoring)
        coverages.append(coverage)

    for prefix, one in zip(prefixes, trained, strict=True):
        _say_trained_on(one, count, prefix)
    found = zip(names, predictors, scorings, coverages, trained, strict=True)
    measured = [_measured(*one) for one in found]
    compared = []
    for name, scoring in zip(names[1:], scorings[1:], strict=True):
        differences = scoring.against(scorings[0])
        compared.append(Compared(name, names[0], differences))
    return Evaluation(
        data,
        count,
        left_out,
        tuple(measured),
        tuple(compared),
        unlabelled,
    )


def _reading(
    file: LabelledFile, names: Sequence[str], predictors: Sequence[Predictor], kind: str
) -> Reading:
    """Open a file by the columns that were named, or those that the models were trained with."""
    remembered = None if file.columns.names else _trained_columns(names, predictors)
    task = find_kind(kind).name
    if file.beside is not None and not find_trained(task).reader.headless:
        raise InputError(f"--target is not for models that give {gives(kind)}")
    reading = Reading(
        Path(file.data),
        file.columns,
        file.encoding,
        readers(task),
        file.missing,
        KINDS[file.form] if file.form else None,
        remembered,
        beside=file.beside,
    )
    if reading.note:
        note(reading.note)
    return reading


class _Counted:
    """Counts graded answers, and shows each to the watcher with the line of its example."""

    def __init__(self, scoring: Scoring, watcher: Watcher | None) -> None:
        self.scoring = scoring
        self.watcher = watcher
        self._lines: deque[int] = deque()  # of the examples that are being answered, in order

    def noted(self, usable: Usable) -> Iterator[Example]:
        """Yield the examples of a file, whose lines are noted."""
        for line, example in usable.numbered():
            self._lines.append(line)
            yield example

    def add(self, example: Example, graded: Any) -> None:
        """Count an answer."""
        self.scoring.add(example, graded)
        line = self._lines.popleft()
        if self.watcher is not None:
            self.watcher.add(line, example, graded)


class _Trained:
    """How many examples are texts that a model was trained on, where its folder tells."""

    def __init__(self, hashes: Hashes | None) -> None:
        self.hashes = hashes
        self.met = None if hashes is None else 0

    def add(self, example: Example) -> None:
        """Count an example."""
        if self.hashes is not None and self.met is not None:
            self.met += was_trained_on(self.hashes, example)


def _watched(examples: Iterable[Example], trained: Sequence[_Trained]) -> Iterator[Example]:
    """Yield examples, each counted as it comes."""
    for example in examples:
        for one in trained:
            one.add(example)
        yield example


def _trained_columns(names: Sequence[str], predictors: Sequence[Predictor]) -> Named | None:
    """Return the columns that the models were trained with; where they differ, None."""
    different: set[Named] = set()
    models = []
    for name, predictor in zip(names, predictors, strict=True):
        columns = predictor.bundle.columns
        if columns:
            different.add(columns)
            models.append(f"{name} with {columns}")
    if len(different) > 1:
        said = ", ".join(models[:SHOWN])
        note(f"the models were trained with different columns: {said}; all read the same ones now")
        return None
    return next(iter(different), None)


def _known(predictor: Predictor) -> list[str]:
    """Return the labels that a model can give."""
    task = predictor.trained_task()
    return task.label_names(predictor.bundle.labels)


def _say_misaligned(count: int, spans: int, prefix: str) -> None:
    """Say how many spans don't begin or end where words do."""
    if count:
        inside = f"{count:,} of {spans:,} spans begin or end inside a word"
        note(f"{prefix}{inside}; each is compared as the whole words that it touches")


def _say_trained_on(trained: _Trained, count: int, prefix: str) -> None:
    """Say how many texts a model was trained on."""
    if trained.met:
        percent = 100 * trained.met / count
        rows = f"{trained.met:,} of {count:,} rows ({percent:.0f} %)"
        said = f"{prefix}{rows} are texts that the model was trained on"
        note(f"{said}; its metrics on them say little")


def _kind(names: Sequence[str], predictors: Sequence[Predictor]) -> str:
    """Return what all the models do."""
    if not names:
        raise InputError("there is no model to evaluate")
    for name, predictor in zip(names, predictors, strict=True):
        kind = predictor.bundle.kind
        first = predictors[0].bundle.kind
        if not _is_measured(kind):
            raise InputError(
                f"{name} has {_head(kind)}; evaluate takes models that firth finetune made, "
                "language models and masked ones, and any table of words where the file has "
                "pairs of words with a number or analogies"
            )
        if kind != first:
            both = f"{name} gives {gives(kind)} and {names[0]} {gives(first)}"
            raise InputError(f"{both}; models are compared on one task")
    return str(predictors[0].bundle.kind)


def _is_measured(kind: str | None) -> bool:
    """Return whether models that folders say do this are measured on anything."""
    if kind is None or not has_kind(kind):
        return False
    return is_trained_kind(kind) or find_kind(kind).measured_on != "examples"


def _head(kind: str | None) -> str:
    """Name the head of a model that can't be measured."""
    if kind is None:
        return "no head"
    unknown = f"a head for {kind!r}"
    if not has_kind(kind):
        return unknown
    return find_kind(kind).heads.get(kind, unknown)


def _labels(examples: Iterable[Example], known: set[str], data: str) -> Counter[str]:
    """Count each label; reading all once also finds what is wrong before any work is done."""
    found: Counter[str] = Counter()
    unknown: set[str] = set()
    for example in examples:
        for label in example.names:
            found[label] += 1
            if label not in known:
                unknown.add(label)
        if len(unknown) > MOST_UNKNOWN:
            raise InputError(
                f"{data} has more than {MOST_UNKNOWN:,} labels that are unknown; "
                "is it the right column (--label)?"
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
    counts = [f"{shortened(label)} {labels[label]:,}" for label in unknown[:SHOWN]]
    shown = ", ".join(counts)
    if len(unknown) > SHOWN:
        shown += f" and {len(unknown) - SHOWN:,} others"
    note(f"{data} has labels that {name} doesn't know, which count as wrong: {shown}")


def _measured(
    name: str, predictor: Predictor, scoring: Scoring, coverage: Coverage, trained: _Trained
) -> Measured:
    """Return the metrics of a model, with how sure it is and what was cut off."""
    threshold = predictor.bundle.settings.get("threshold") or None
    found = scoring.confidences
    sure = None
    if found is not None:
        sure = Confidence(
            found.mean,
            found.error,
            threshold,
            answered=found.given if threshold else None,
            right=found.right if threshold else None,
        )
    return Measured(
        name,
        scoring.scores(),
        sure,
        coverage.cut,
        positive=scoring.positive,
        trained_on=trained.met,
        signatures=dict(scoring.signatures),
    )
