"""What a page shows of answers to questions: how they miss, and contexts with both answers."""

from collections import Counter
from collections.abc import Iterator

from firth.data.examples import Example, Question
from firth.metrics.spans import answer_f1, exact_match
from firth.pages.page import PageSection
from firth.reports.case import Bar, Case, Cell, SpanMark, clipped, passage, unread
from firth.reports.report import CountTable, TaskReport
from firth.tasks.answer import QuestionAnswer

ANSWERED, UNANSWERABLE = "has an answer", "has no answer"
EXACT, SHARED, OTHER, SILENT = "exact", "shares words", "other words", "no answer"
NO_ANSWER = "no answer"


class AnswerReport(TaskReport):
    """Looks at answers by SQuAD's rules."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[Cell] = Counter()

    def case(self, line: int, example: Example, graded: QuestionAnswer) -> Case:
        """Return a question with its context, in which the answers are marked."""
        assert isinstance(example, Question)
        truth = [answer.text for answer in example.answers]
        said = graded.answer or ""
        exact = exact_match(truth, said) == 1
        f1 = answer_f1(truth, said)
        cell = (ANSWERED if truth else UNANSWERABLE, _outcome(graded.answer, exact, f1))
        self.counts[cell] += 1
        different = dict.fromkeys(map(clipped, truth))
        context = passage(example.context, "context", _marks(example, graded))
        return Case(
            line,
            exact,
            1 - graded.probability if exact else 1 - f1 + graded.probability,
            (cell,),
            (passage(example.text, "question"), context),
            " / ".join(different) or NO_ANSWER,
            NO_ANSWER if graded.answer is None else clipped(graded.answer),
            _bars(truth, graded),
            (f"F1 {f1:.4f}", *unread(graded.truncated_tokens)),
        )

    def sections(self) -> Iterator[PageSection]:
        """Yield how answers miss, with the questions and their contexts."""
        right = frozenset({(ANSWERED, EXACT), (UNANSWERABLE, EXACT), (UNANSWERABLE, SILENT)})
        rows = [
            row for row in (ANSWERED, UNANSWERABLE) if any(row == one for one, _ in self.counts)
        ]
        columns = (EXACT, SHARED, OTHER, SILENT)
        table = CountTable(rows, columns, self.counts, right, "question", "answer")
        yield self.cases_section("Answers in their contexts", table)


def _outcome(answer: str | None, exact: bool, f1: float) -> str:
    """Return how an answer misses; what is right of a question without an answer is silence."""
    if answer is None:
        return SILENT
    if exact:
        return EXACT
    return SHARED if f1 else OTHER


def _marks(example: Question, graded: QuestionAnswer) -> list[SpanMark]:
    """Return the true answers and the predicted one as spans of the context."""
    predicted = None
    if graded.start is not None and graded.end is not None:
        predicted = (graded.start, graded.end)
    true = {(answer.start, answer.end) for answer in example.answers}
    marks = [SpanMark(*span, "right" if span == predicted else "true") for span in sorted(true)]
    if predicted is not None and predicted not in true:
        marks.append(SpanMark(*predicted, "predicted"))
    return marks


def _bars(truth: list[str], graded: QuestionAnswer) -> tuple[Bar, ...]:
    """Return the probabilities of the likeliest spans, and that there is none."""
    bars = []
    for one in graded.candidates:
        said = graded.answer is not None and (one.start, one.end) == (graded.start, graded.end)
        bars.append(Bar(clipped(one.answer), one.probability, one.answer in truth, said))
    none = graded.no_answer_probability
    return (*bars, Bar(NO_ANSWER, none, not truth, graded.answer is None))
