"""Classes of texts and of pairs of texts: one of two or many, or any number at once.

B rows, K classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from firth.base.errors import InputError
from firth.data.examples import Example, Label, Labelled, written
from firth.data.record import Fault, on_a_line, refuse_nul, shortened
from firth.data.window import Window
from firth.reading.columns import TableHead
from firth.reading.labels import LabelSurvey, Met, NameSurvey
from firth.reading.layout import Cell
from firth.reading.rowreader import LabelReader, RowReader
from firth.tasks.task import Answer, OpenModel
from firth.tasks.texts import TextTask, encoding_logits, row_logits
from firth.tasks.trained import Scoring, TrainingData
from firth.text.repair import repair

if TYPE_CHECKING:
    from torch import Tensor, nn

    from firth.data.batch import Batch
    from firth.data.rows import Targets
    from firth.models.protocols import Backbone
    from firth.text.tokenizer import Encoding

SEVERAL = "several"  # the kind of a model that gives any number of labels
UNSURE = "unsure"  # what is said below the threshold


@dataclass(frozen=True)
class Classification(Answer):
    """The class of a text, how sure the model is, and the probability of every class.

    `label` is a tuple where a text may have several labels, and None where the model is not sure
    enough. Labels have the type that they had in the data.
    """

    label: Label | tuple[Label, ...] | None
    confidence: float
    probabilities: dict[Label, float]

    def as_json(self) -> dict[str, object]:
        """Return the answer as a JSON object."""
        label = list(self.label) if isinstance(self.label, tuple) else self.label
        return {
            "label": UNSURE if label is None else label,
            "confidence": self.confidence,
            "shares": {written(name): value for name, value in self.probabilities.items()},
            "truncated_tokens": self.truncated_tokens,
        }

    def figures(self) -> dict[str, float]:
        """Return the probability of every class."""
        return {written(name): value for name, value in self.probabilities.items()}


class ClassReader(LabelReader):
    """Reads rows whose label is a class, or a list of classes."""

    classes = True

    def learn(self, table: TableHead) -> None:
        """Learn whether a label is a list."""
        values = self.given_labels(table)
        lists = [value for value in values if isinstance(value, list)]
        self.several = 2 * len(lists) > len(values)

    def label(self, value: Any, line: int) -> str | tuple[str, ...]:
        """Read a class, or classes none of which is given twice."""
        is_list = isinstance(value, list)
        if is_list and not self.several:
            raise Fault("label", "has a list of labels where other rows have one label")
        if self.several and not is_list:
            raise Fault("label", "has one label where other rows have a list of labels")
        if not is_list:
            return self._class(value, line)

        for one in value:
            if self.is_missing_word(one):
                stands = f"{shortened(one)}, which stands for no label (--missing)"
                raise Fault("label", f"has {stands}, among its labels")

        labels = tuple(self._class(one, line) for one in value)
        if len(set(labels)) < len(labels):
            raise Fault("label", f"has a label twice: {shortened(value)}")
        return labels

    def _class(self, value: Any, line: int) -> str:
        """Return the written form of a class, whose type is the same in all rows."""
        label = _written_class(value)
        if not self.typed:
            return label

        repaired = value
        if isinstance(value, str):
            repaired, _ = repair(value)
        met = self.met.setdefault(label, Met(repaired, line))
        if not met.agrees(value):
            other = f"where line {met.line} has {shortened(met.value)}"
            said = f"has the label {shortened(value)} {other}: write them alike"
            raise Fault("types", said)
        return label

    def survey(self, path: object) -> LabelSurvey:
        """Count the classes."""
        return NameSurvey(path)


def _written_class(value: Any) -> str:
    """Return how a class is written, or refuse what can't be one."""
    if isinstance(value, float) and math.isfinite(value):
        return written(value)
    is_name = isinstance(value, int | str) and str(value).strip()
    if not is_name:
        raise Fault("label", f"has {shortened(value)} where a label belongs")

    label, _ = repair(written(value))
    refuse_nul(label)
    return label


class Classify(TextTask[Classification]):
    """Decide the class of a text; with `several`, which of the classes it has, each for itself."""

    name = "classify"
    help = "Classes of texts or pairs of texts: one for each, or a list of labels."
    kinds = {name: "one class", SEVERAL: "several labels"}
    reader = ClassReader
    options = {"balance": "classes", "target_precision": "classes"}
    calibrates = True
    twins = {"label": "predicted_label"}
    extra_fields = ("shares",)
    selectable = {
        name: ("accuracy", "macro_f1", "matthews", "f1"),
        SEVERAL: ("micro_f1", "macro_f1", "exact"),
    }

    def __init__(
        self,
        labels: Sequence[str],
        several: bool = False,
        weights: Sequence[float] | None = None,
        temperature: float = 1.0,
        threshold: float = 0.0,
        values: Sequence[Label] = (),
        select: str | None = None,
    ) -> None:
        self.labels = list(labels)
        self.values: Sequence[Label] = values or self.labels  # as the data had them
        self.number = {label: number for number, label in enumerate(labels)}
        self.several = several
        kind = SEVERAL if several else self.name
        usual_metric = self.selectable[kind][0]
        self.select = select or usual_metric
        self.weights = weights
        self.temperature = temperature
        self.threshold = threshold
        label: Cell = "texts" if several else "label"
        self.columns = {"predicted_label": label, "best_label": label, "confidence": "number"}

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the classes of a folder, with the temperature and threshold that it has."""
        return cls(
            bundle.labels,
            several=bundle.kind == SEVERAL,
            temperature=bundle.settings.get("temperature", 1.0),
            threshold=bundle.settings.get("threshold", 0.0),
            values=bundle.values,
        )

    @classmethod
    def of_examples(
        cls,
        kind: str,
        labels: Sequence[str],
        examples: Sequence[Example] = (),
        select: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the classes to learn; with the option `balance` each counts the same in all."""
        given = options or {}
        several = kind == SEVERAL
        weights = None
        if given.get("balance") and not several:
            weights = balanced_weights(examples, labels)
        return cls(labels, several, weights, select=select)

    @classmethod
    def plan(cls, data: TrainingData) -> tuple[str, tuple[str, ...]]:
        """Return whether texts have one class or several, and the classes in their order."""
        several = _has_lists(data.train)
        known = data.train_names
        if several and not known:
            lacks = f"{data.train_name} has no label in any list"
            raise InputError(f"{lacks}: there is nothing to learn")
        if not several and len(known) < 2:
            only = next(iter(known), "none")
            raise InputError(f"there is only one class, {only!r}: nothing can be told apart")

        if several and data.options.get("balance"):
            lists = f"{data.train_name} has lists of labels"
            raise InputError(f"--balance is for one class a text, and {lists}; leave it out")
        if not several and _has_lists(data.dev):
            single = f"{data.train_name} has one class for each text"
            raise InputError(f"{data.dev_name} has lists of labels, where {single}")
        if data.options.get("target_precision") and UNSURE in known:
            why = "which --target-precision lets the model say instead of a class"
            raise InputError(f"a class is called {UNSURE!r}, {why}; give it another name")

        kind = SEVERAL if several else cls.name
        labels = sorted(known | data.dev_names)
        return kind, tuple(labels)

    @classmethod
    def metric(
        cls, asked: str | None, kind: str, labels: Sequence[str], options: Mapping[str, Any]
    ) -> str:
        """Return the metric asked for, with --balance macro F1, else accuracy or micro F1."""
        known = list(cls.selectable[kind])
        # F1 of one class is for two classes.
        if "f1" in known and len(labels) != 2:
            known.remove("f1")

        if asked is None and options.get("balance"):
            return "macro_f1"
        if asked is None:
            return known[0]
        if asked not in known:
            what = "lists of labels" if kind == SEVERAL else f"{len(labels)} classes"
            names = ", ".join(known)
            raise InputError(f"--select {asked} is not for {what}; there are: {names}")
        return asked

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[Tensor],
        truncated: int,
    ) -> Classification:
        """Return the class or classes, with the confidence that was calibrated in training."""
        import numpy as np

        scaled = logits[0] / self.temperature
        shares = scaled.sigmoid() if self.several else scaled.softmax(0)
        probabilities = shares.tolist()
        named = dict(zip(self.values, probabilities, strict=True))
        best = self.likeliest(named)

        label: Label | tuple[Label, ...] | None
        if self.several:
            label = best
            # As if one label said nothing of another: that all of them are right.
            right = [max(value, 1 - value) for value in probabilities]
            confidence = float(np.prod(right))
        else:
            label = best[0]
            confidence = max(probabilities)
        if confidence < self.threshold:
            label = None
        return Classification(label, confidence, named, truncated_tokens=truncated)

    def likeliest(self, probabilities: Mapping[Label, float]) -> tuple[Label, ...]:
        """Return the class or labels that are likeliest, also where that is not sure enough."""
        if self.several:
            return tuple(label for label, value in probabilities.items() if value > 0.5)
        best = max(probabilities, key=lambda label: probabilities[label])
        return (best,)

    def line(self, example: Example, answer: Classification) -> str:
        """Return the confidence and the label."""
        if answer.label is None:
            said = UNSURE
        elif isinstance(answer.label, tuple):
            names = map(written, answer.label)
            said = ", ".join(names) or "no label"
        else:
            said = written(answer.label)
        return f"{answer.confidence:7.2%}  {on_a_line(said)}"

    def cells(self, example: Example, answer: Classification) -> dict[str, Any]:
        """Return the columns of a table; a label that isn't sure enough is only the best one."""
        best: Label | tuple[Label, ...] | None = answer.label
        if best is None:
            likeliest = self.likeliest(answer.probabilities)
            best = likeliest if self.several else likeliest[0]
        return {
            "predicted_label": answer.label,
            "best_label": best,
            "confidence": answer.confidence,
        }

    def targets(
        self, example: Example, encodings: Sequence[Encoding], number: int, window: Window
    ) -> Targets:
        """Return the class of a row, or which classes it has."""
        import numpy as np

        assert isinstance(example, Labelled)
        given = example.label
        if self.several:
            has = given if isinstance(given, tuple) else (given,)
            row = [label in has for label in self.labels]
            return {"label": np.array([row], np.float32)}

        if not isinstance(given, str) or given not in self.number:
            known = ", ".join(self.labels)
            raise InputError(f"the label {given!r} is not one of {known}")
        number_of_class = self.number[given]
        return {"label": np.array([number_of_class])}

    def counts(self, batch: Batch) -> dict[str, float]:
        """Count texts, each with the weight of its class."""
        return {"class": float(self._weight(batch).sum())}

    def _weight(self, batch: Batch) -> Tensor:
        """Return the weight of each row (B)."""
        import torch

        weight = batch.targets["weight"]
        if self.weights is None or self.several:
            return weight
        of_class = torch.tensor(list(self.weights))  # (K)
        return weight * of_class[batch.targets["label"]]

    def losses(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sum the cross-entropy of the classes."""
        logits = row_logits(encoder, head, batch)  # (B, K)
        each = self._cross_entropy(logits, batch.targets["label"])  # (B)
        weighted = each * self._weight(batch)
        return {"class": weighted.sum()}

    def _cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the cross-entropy of each row (B), of several labels their mean."""
        import torch.nn.functional as F

        if self.several:
            each = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")  # (B, K)
            return each.mean(1)
        return F.cross_entropy(logits, labels, reduction="none")

    @property
    def sums(self) -> tuple[str, ...]:
        """True, predicted and both for each class; exact matches, texts, and their loss."""
        names = []
        for what in ("true", "said", "both"):
            names += [f"{what} {label}" for label in self.labels]
        return (*names, "exact", "count", "loss")

    def tally(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Count a batch; windows of a text are in one batch."""
        import torch
        import torch.nn.functional as F

        each_row = row_logits(encoder, head, batch)
        logits, first = encoding_logits(each_row, batch)
        labels = batch.targets["label"][first]
        loss = float(self._cross_entropy(logits, labels).sum())

        # Which classes each text has, and which the model gives it (texts, K).
        size = len(self.labels)
        if self.several:
            true = labels > 0.5
            said = logits > 0
        else:
            best = logits.argmax(1)
            true = F.one_hot(labels, size).bool()
            said = F.one_hot(best, size).bool()
        both = true & said

        by_class = [part.sum(0) for part in (true, said, both)]
        counts = torch.cat(by_class).tolist()
        is_exact = (true == said).all(1)
        exact = float(is_exact.sum())
        texts = float(len(logits))
        return dict(zip(self.sums, [*counts, exact, texts, loss], strict=True))

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return the published metrics, and the loss."""
        import numpy as np

        from firth.metrics.classes import class_scores, label_set_scores

        row = np.array([sums[name] for name in self.sums])
        size = len(self.labels)
        count = row[-2]
        if self.several:
            found = label_set_scores(row[:-1], size)
        else:
            by_class = row[: 3 * size]
            found = class_scores(np.append(by_class, count), size, size - 1)

        loss = float(row[-1] / max(1.0, count))
        metrics = {name: float(value) for name, value in found.items()}
        return {"loss": loss} | metrics

    def calibrate(
        self, examples: Sequence[Example], logits: Sequence[Sequence[Tensor]]
    ) -> dict[str, float]:
        """Return the temperature by which confidence is right as often as it says."""
        import numpy as np

        from firth.metrics.decisions import label_temperature, temperature

        rows = np.array([one[0].tolist() for one in logits])
        truth = np.zeros((len(examples), len(self.labels)), bool)
        for row, example in zip(truth, examples, strict=True):
            row[:] = [label in example.names for label in self.labels]

        if self.several:
            return {"temperature": label_temperature(rows, truth)}
        classes = truth.argmax(1)
        return {"temperature": temperature(rows, classes)}

    def scoring(
        self, others: Iterable[str] = (), positive: str | None = None, keep: bool = True
    ) -> Scoring:
        """Return what adds up classes, or sets of labels, and their confidences."""
        return ClassScoring(self, others, positive, keep)

    def check_reader(self, reader: RowReader, data: object, model: str) -> None:
        """Refuse lists of labels for a model that gives one class."""
        if reader.several and not self.several:
            raise InputError(f"{data} has lists of labels, where {model} gives one class")


class ClassScoring(Scoring):
    """Adds up classes or sets of labels."""

    def __init__(
        self, task: Classify, others: Iterable[str], positive: str | None, keep: bool
    ) -> None:
        from firth.metrics.classes import Classes, LabelSets
        from firth.metrics.decisions import Confidences

        unknown = set(others) - set(task.labels)
        every = [*task.labels, *sorted(unknown)]
        self.task = task
        self.confidences: Confidences = Confidences()
        self.answers: list[tuple[frozenset[str], frozenset[str], float]] = []
        self._keep = keep
        self.tally: Classes | LabelSets
        if task.several:
            self.tally = LabelSets(every)
        else:
            self.positive = positive if positive in every else task.labels[-1]
            self.tally = Classes(every, self.positive)

    def add(self, example: Example, graded: Classification) -> None:
        """Count an answer, also one that the model is not sure enough of."""
        from firth.metrics.classes import LabelSets

        truth = example.names
        likeliest = self.task.likeliest(graded.probabilities)
        said = tuple(map(written, likeliest))
        if isinstance(self.tally, LabelSets):
            self.tally.add(truth, said)
        else:
            self.tally.add(truth[0], said[0])

        right = set(said) == set(truth)
        sure = graded.label is not None
        self.confidences.add(graded.confidence, right, sure)
        if self._keep:
            self.answers.append((frozenset(truth), frozenset(said), graded.confidence))


def balanced_weights(examples: Sequence[Example], labels: Sequence[str]) -> list[float]:
    """Return weights of classes by which each counts the same in all."""
    names = [example.label for example in examples if isinstance(example, Labelled)]
    weights = []
    for label in labels:
        count = max(1, names.count(label))
        weights.append(len(names) / (len(labels) * count))
    return weights


def _has_lists(examples: Sequence[Example]) -> bool:
    """Return whether any example has a list of labels."""
    for example in examples:
        if isinstance(example, Labelled) and isinstance(example.label, tuple):
            return True
    return False


TASK = Classify
