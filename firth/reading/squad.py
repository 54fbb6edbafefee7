"""Questions on contexts: rows with a question, a context and the answers that it holds."""

from collections.abc import Iterator, Sequence
from typing import Any

from firth.data.examples import Example, GoldAnswer, Question
from firth.data.record import Fault, shortened
from firth.reading.columns import Columns, Named, TableHead
from firth.reading.labels import Doubt, LabelSurvey
from firth.reading.rowreader import RowReader, no_columns, row_text, unlabelled, unpacked
from firth.text.repair import repair

# The usual names of the columns.
QUESTION = "question"
CONTEXT = "context"
ANSWERS = "answers"


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
        answers = named.label or known.get(ANSWERS, ANSWERS)
        return Columns(question, context, answers)

    def refusal(self, table: TableHead, named: Named) -> str:
        """Say what is missing."""
        wanted = "no question and context (--text and --second name the columns)"
        return f"{table.where} has {wanted}; it has {table.listed()}"

    def fits(self, table: TableHead) -> bool:
        """Return whether answers stand there, and not labels."""
        name = self.columns.label or ""
        values = [unpacked(row.get(name)) for row in table.rows]
        return any(isinstance(value, list | dict) for value in values)

    def example(self, row: dict[str, Any], line: int) -> Example:
        """Make a question; an answer must stand in the context where it is said to."""
        name = self.columns.label
        if name is None or not self.columns.text:
            raise no_columns()
        question = _joined_text(row, self.columns.text)
        context = _joined_text(row, self.columns.second)
        given = unpacked(row.get(name))
        if given is None:
            raise unlabelled(name)
        try:
            answers = read_answers(context, given)
        except Fault as fault:
            said = f"{fault.said}{identified(row)}"
            raise Fault(fault.kind, said) from fault
        return Question(question, context, answers)

    def survey(self, path: object) -> LabelSurvey:
        """Count questions with and without an answer."""
        return AnswerSurvey(path)


def _known(name: str, known: dict[str, str]) -> tuple[str, ...]:
    """Return the column of a usual name, if the file has it."""
    return (known[name],) if name in known else ()


def _joined_text(row: dict[str, Any], columns: Sequence[str]) -> str:
    """Return the text of several columns, a line each."""
    texts = [row_text(row, column) for column in columns]
    return "\n".join(texts)


def identified(row: dict[str, Any]) -> str:
    """Name the question, because one line may have many."""
    number = row.get("id")
    if not isinstance(number, str | int):
        return ""
    return f" (question {shortened(number)})"


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

    answers = []
    for text, start in zip(texts, starts, strict=True):
        answers.append({"text": text, "start": start})
    return answers


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

    repaired, _ = repair(text)
    answer = GoldAnswer(repaired, start)
    said = f"has the answer {shortened(text)} at {start}"
    if start < 0 or answer.end > len(context):
        size = len(context)
        raise Fault(ANSWERS, f"{said}, and its context has {size} characters")
    there = context[start : answer.end]
    if there != answer.text:
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
        # Contexts that differ only in white space are the same one.
        words = example.context.split()
        self.contexts.setdefault(hash(" ".join(words)), line)

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
        if not shared:
            return
        first = min(self.contexts[one] for one in shared)
        said = f"has the first of {len(shared):,} contexts that {train.path} has too"
        yield Doubt("warning", "context", first, said)
