"""What a page shows of multiple choice: which number was chosen for which, options with both."""

from collections import Counter
from collections.abc import Iterator
from heapq import nlargest

from firth.data.examples import Example
from firth.data.options import Options
from firth.pages.page import PageSection
from firth.reports.case import Bar, Case, Cell, clipped, passage, unread
from firth.reports.report import MOST_NAMES, CountTable, TaskReport, calibration_section
from firth.tasks.choice import Choice, ChoiceScoring

MOST_BARS = 20  # options of an example that are shown


class ChoiceReport(TaskReport):
    """Looks at which option was chosen."""

    bars = "Options"
    open_bars = True

    def __init__(self, scoring: ChoiceScoring) -> None:
        super().__init__()
        self.scoring = scoring
        self.counts: Counter[Cell] = Counter()

    def case(self, line: int, example: Example, graded: Choice) -> Case:
        """Return a context with its options and their probabilities."""
        assert isinstance(example, Options)
        assert example.right is not None
        right = graded.choice == example.right
        cell = (str(example.right), str(graded.choice))
        self.counts[cell] += 1
        return Case(
            line,
            right,
            1 - graded.probability if right else graded.probability,
            (cell,),
            (passage(example.text),),
            _named(example, example.right),
            _named(example, graded.choice),
            _bars(example, example.right, graded),
            (f"probability {graded.probability:.4f}", *unread(graded.truncated_tokens)),
        )

    def sections(self) -> Iterator[PageSection]:
        """Yield the options by their numbers, with the contexts, and the calibration."""
        met = {int(number) for cell in self.counts for number in cell if number is not None}
        numbers = [str(number) for number in sorted(met)[:MOST_NAMES]]
        right = frozenset((number, number) for number in numbers)
        note = "Options by their numbers, from 0: a model should not prefer one of them."
        table = CountTable(
            numbers, numbers, self.counts, right, "right option", "chosen option", note=note
        )
        yield self.cases_section("Options and contexts", table)
        yield calibration_section(self.scoring.confidences)


def _named(example: Options, number: int) -> str:
    return f"{number}: {clipped(example.candidates[number])}"


def _bars(example: Options, right: int, graded: Choice) -> tuple[Bar, ...]:
    """Return the options in their order; of very many the likeliest, the right one among them."""
    probabilities = graded.probabilities
    best = nlargest(MOST_BARS - 1, range(len(probabilities)), key=lambda at: probabilities[at])
    shown = {right, *best}
    return tuple(
        Bar(
            _named(example, number), probabilities[number], number == right, number == graded.choice
        )
        for number in sorted(shown)
    )
