"""What a page shows of classes: who is taken for whom, and each label's precision and recall."""

from collections import Counter
from collections.abc import Iterator
from heapq import nlargest

from firth.data.examples import Example, written
from firth.metrics.classes import Classes, LabelCounts, LabelSets
from firth.pages.page import PageSection
from firth.reports.case import Bar, Case, Cell, clipped, passage, unread
from firth.reports.decided import Answers, thresholds_section
from firth.reports.report import (
    CountTable,
    TaskReport,
    calibration_section,
    frequent,
    label_section,
)
from firth.tasks.classify import UNSURE, Classification, ClassScoring

MOST_BARS = 6  # probabilities of an example
NO_LABEL = "no label"
FOUND, MISSED, WRONG = "true positive", "false negative", "false positive"


class ClassReport(TaskReport):
    """Looks at classes, one for each text or any number of them."""

    def __init__(self, model: str, scoring: ClassScoring) -> None:
        super().__init__()
        self.model = model
        self.scoring = scoring
        self.task = scoring.task
        self.answers = Answers()
        self.counts: Counter[Cell] = Counter()

    def case(self, line: int, example: Example, graded: Classification) -> Case:
        """Return a text with its labels and their probabilities."""
        truth = example.names
        likeliest = self.task.likeliest(graded.probabilities)
        predicted = tuple(map(written, likeliest))
        right = set(predicted) == set(truth)
        cells = _label_cells(truth, predicted) if self.task.several else ((truth[0], predicted[0]),)
        self.counts.update(cells)
        self.answers.add(graded.confidence, right)
        notes = unread(graded.truncated_tokens)
        if graded.label is None:
            notes = (f"below the threshold: {UNSURE}", *notes)
        return Case(
            line,
            right,
            1 - graded.confidence if right else graded.confidence,
            tuple(cells),
            tuple(passage(text) for text in example.texts),
            _listed(truth),
            _listed(predicted),
            _bars(graded, truth, predicted),
            (f"confidence {graded.confidence:.4f}", *notes),
        )

    def sections(self) -> Iterator[PageSection]:
        """Yield a table of counts with its texts, each label, calibration and thresholds."""
        tally = self.scoring.tally
        assert isinstance(tally, Classes | LabelSets)
        counts = LabelCounts.of(tally.sums.totals[0], len(tally.labels))
        shown = frequent(tally.labels, counts)
        if self.task.several:
            yield self.cases_section("Labels and texts", _label_table(shown, self.counts))
            yield label_section("Each label", tally.labels, counts)
        else:
            yield self.cases_section("Confusion matrix and texts", _matrix(shown, self.counts))
            yield label_section("Each class", tally.labels, counts)
        yield calibration_section(self.scoring.confidences)
        yield thresholds_section(self.answers, self.model, self.task.threshold)


def _matrix(shown: list[str], counts: Counter[Cell]) -> CountTable:
    """Return the confusion matrix."""
    right = frozenset((label, label) for label in shown)
    return CountTable(shown, shown, counts, right, "true class", "predicted class")


def _label_table(shown: list[str], counts: Counter[Cell]) -> CountTable:
    """Return how often each label was found, missed and wrongly predicted."""
    right = frozenset((label, FOUND) for label in shown)
    columns = (FOUND, MISSED, WRONG)
    return CountTable(shown, columns, counts, right, "label", "outcome")


def _label_cells(truth: tuple[str, ...], predicted: tuple[str, ...]) -> tuple[Cell, ...]:
    """Return what became of each label of a text."""
    cells: list[Cell] = []
    for label in dict.fromkeys((*truth, *predicted)):
        if label not in predicted:
            cells.append((label, MISSED))
        elif label not in truth:
            cells.append((label, WRONG))
        else:
            cells.append((label, FOUND))
    return tuple(cells)


def _listed(labels: tuple[str, ...]) -> str:
    return ", ".join(map(clipped, labels)) or NO_LABEL


def _bars(
    graded: Classification, truth: tuple[str, ...], predicted: tuple[str, ...]
) -> tuple[Bar, ...]:
    """Return the largest probabilities, and those of true labels."""
    named = {written(label): value for label, value in graded.probabilities.items()}
    chosen = nlargest(MOST_BARS, named, key=lambda label: named[label])
    chosen += [label for label in truth if label in named and label not in chosen]
    return tuple(
        Bar(clipped(label), named[label], label in truth, label in predicted) for label in chosen
    )
