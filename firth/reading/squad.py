"""Questions on contexts: rows with a question, a context and the answers that it holds."""

from collections.abc import Iterator
from typing import Any

from firth.data.examples import Example, GoldAnswer, Question
from firth.data.record import Fault, shortened
from firth.reading.columns import Columns, Named, TableHead
from firth.reading.labels import Doubt, LabelSurvey
from firth.reading.rowreader import RowReader, no_columns, row_text, unlabelled
from firth.text.repair import repair

QUESTION, CONTEXT, ANSWERS = "question", "context", "answers"  # the usual names of the columns


class QuestionReader(RowReader):
    """Reads a question, its context, and the answers that the context holds; [] says none."""

    def find(self, table: TableHead, named: Named) -> Columns | None:
        """Return the columns of the question, the context and the answers."""
        known = table.known
        question = named.text or _known(QUESTION, known)
        context = named.second or _known(CONTEXT, known)
        if not question or not context:
            return None
        # Where no row has answers, all of them are unlabelled.
        return Columns(question, context, named.label or known.get(ANSWERS, ANSWERS))

    def refusal(self, table: TableHead, named: Named) -> str:
        """Say what is missing."""
        wanted = "no question and context (--text and --second name the columns)"
        return f"{table.where} has {wanted}; it has {table.listed()}"

    def fits(self, table: TableHead) -> bool:
        """Return whether answers stand there, and not labels."""
        values = [row[self.columns.label or ""] for row in table.rows if self._has_answers(row)]
        return any(isinstance(value, list | dict) for value in values)

    def _has_answers(self, row: dict[str, Any]) -> bool:
        return row.get(self.columns.label or "") is not None

    def example(self, row: dict[str, Any], line: int) -> Example:
        """Make a question; an answer must stand in the context where it is said to."""
        name = self.columns.label
        if name is None or not self.columns.text:
            raise no_columns()
        question = "\n".join(row_text(row, column) for column in self.columns.text)
        context = "\n".join(row_text(row, column) for column in self.columns.second)
        if not self._has_answers(row):
            raise unlabelled(name)
        try:
            answers = read_answers(context, row[name])
        except Fault as fault:
            raise Fault(fault.kind, f"{fault.said}{_identified(row)}") from fault
        return Question(question, context, answers)

    def survey(self, path: object) -> LabelSurvey:
        """Count questions with and without an answer."""
        return AnswerSurvey(path)


def _known(name: str, known: dict[str, str]) -> tuple[str, ...]:
    return (known[name],) if name in known else ()


def _identified(row: dict[str, Any]) -> str:
    """Name the question, because one line may have many."""
    number = row.get("id")
    return f" (question {shortened(number)})" if isinstance(number, str | int) else ""


def read_answers(context: str, given: Any) -> tuple[GoldAnswer, ...]:
    """Return the answers, given as a list of objects or as an object of two lists."""
    if isinstance(given, dict):
        given = _from_columns(given)
    if not isinstance(given, list):
        raise Fault(ANSWERS, f"has {shortened(given)} where a list of answers belongs")
    return tuple(_answer(context, one) for one in given)


def _from_columns(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the answers of two lists, of texts and of starts, one by one."""
    texts = given.get("text")
    starts = given.get("answer_start", given.get("start"))
    if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
        said = "where a list of texts and a list of as many starts belong"
        raise Fault(ANSWERS, f"has {shortened(given)} {said}")
    pairs = zip(texts, starts, strict=True)
    return [{"text": text, "start": start} for text, start in pairs]


def _answer(context: str, given: Any) -> GoldAnswer:
    """Return one answer, or raise what is wrong with it."""
    if not isinstance(given, dict):
        raise Fault(ANSWERS, f"has {shortened(given)} where an answer belongs")
    text = given.get("text")
    starts = [given[name] for name in ("start", "answer_start") if name in given]
    # The type itself is asked for, since True and False are instances of int.
    if not isinstance(text, str) or not starts or type(starts[0]) is not int:
        said = "has an answer that is not a text and the number of its first character"
        raise Fault(ANSWERS, f"{said}: {shortened(given)}")
    start = starts[0]
    if starts[-1] != start:
        raise Fault(ANSWERS, f"has an answer with two starts: {shortened(given)}")
    if not text.strip():
        said = "has an empty answer; a question without an answer has an empty list"
        raise Fault(ANSWERS, f"{said}: {shortened(given)}")

    answer = GoldAnswer(repair(text)[0], start)
    if start < 0 or answer.end > len(context):
        said = f"has the answer {shortened(text)} at {start}"
        raise Fault(ANSWERS, f"{said}, and its context has {len(context)} characters")
    there = context[start : answer.end]
    if there != answer.text:
        said = f"has the answer {shortened(text)} at {start}"
        raise Fault(ANSWERS, f"{said}, where its context has {shortened(there)}")
    return answer


class AnswerSurvey(LabelSurvey):
    """Count questions with and without an answer, and their contexts."""

    def __init__(self, path: object) -> None:
        super().__init__(path)
        self.answerable = 0
        self.unanswerable = 0
        self.contexts: dict[int, int] = {}  # the line of each context, by its hash

    def add(self, line: int, example: Example) -> None:
        """Count a question."""
        if not isinstance(example, Question):
            return
        if example.answers:
            self.answerable += 1
        else:
            self.unanswerable += 1
        self.contexts.setdefault(hash(" ".join(example.context.split())), line)

    def facts(self) -> dict[str, Any]:
        """Return how many questions have an answer, and how many contexts there are."""
        return {
            "answerable": self.answerable,
            "unanswerable": self.unanswerable,
            "contexts": len(self.contexts),
        }

    def summary(self) -> str:
        """Return the same as it ends a sentence."""
        counts = f", {self.answerable:,} answerable and {self.unanswerable:,} unanswerable"
        return f"{counts} questions on {len(self.contexts):,} contexts"

    def misfits(self, train: LabelSurvey | None) -> Iterator[str]:
        """Yield that there is no answer to learn."""
        if train is None and not self.answerable:
            yield "has no answer in any row"

    def doubts(self, train: LabelSurvey | None) -> Iterator[Doubt]:
        """Yield that contexts to measure on are also learned from."""
        if not isinstance(train, AnswerSurvey):
            return
        shared = self.contexts.keys() & train.contexts.keys()
        if shared:
            first = min(self.contexts[one] for one in shared)
            said = f"has the first of {len(shared):,} contexts that {train.path} has too"
            yield Doubt("warning", "context", first, said)
