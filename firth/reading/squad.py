"""Questions on contexts: SQuAD's files, and rows with a question, a context and its answers."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from firth.base.errors import InputError
from firth.base.files import parse_json
from firth.data.examples import Example, GoldAnswer, Question
from firth.data.record import LONGEST_RECORD, Fault, Numbered, Record, refuse_nul, shortened
from firth.reading.columns import Columns, Named, TableHead
from firth.reading.labels import Doubt, LabelSurvey
from firth.reading.objects import MARK
from firth.reading.rowreader import RowReader, no_columns, row_text, unlabelled
from firth.text.repair import repair

QUESTION, CONTEXT, ANSWERS = "question", "context", "answers"  # the usual names of the columns
# The file begins with an object of few fields, of which one is the list of articles.
BEGINS = re.compile(r'\s*\{\s*(?:"\w+"\s*:\s*(?:"[^"]*"|[\d.]+|null)\s*,\s*)*"data"\s*:\s*\[')
PARAGRAPHS = re.compile(r'"paragraphs"\s*:\s*\[')
DEPTH = 5  # brackets around what a paragraph holds: file, articles, article, paragraphs, paragraph


def looks_like_squad(head: Sequence[str]) -> bool:
    """Return whether the first lines of a file are SQuAD's: articles with paragraphs."""
    start = "\n".join(head)
    return BEGINS.match(start) is not None and PARAGRAPHS.search(start) is not None


def squad_rows(lines: Numbered) -> Iterator[Record]:
    """Yield each question of a file of SQuAD's, one paragraph in memory at a time.

    The line is that on which its paragraph begins.
    """
    depth = 0
    begun = 0  # the line on which the paragraph begins that is open
    size = 0
    held: list[str] = []
    name = ""  # the last string outside of paragraphs: the name of a list that follows
    listed = ""  # the name of the list that is open
    for line in lines:
        start = 0
        for mark in MARK.finditer(line):
            sign = mark[0]
            if sign[0] == '"':
                name = sign if depth < DEPTH else name
                continue
            if sign in "{[":
                depth += 1
                listed = name if depth == DEPTH - 1 else listed
                if depth == DEPTH and sign == "{" and listed == '"paragraphs"':
                    begun = lines.number
                    start = mark.start()
                    held = [""]
                continue
            if depth == DEPTH and held:
                held.append(line[start : mark.end()])
                yield from _questions("\n".join(held), begun)
                held = []
                size = 0
            depth -= 1
        if held:
            held.append(line[start:])
            size += len(line)
            if size > LONGEST_RECORD:
                break
    if depth:
        said = "is not valid JSON: the file ends before its lists do"
        yield Record(begun if held else lines.number, Fault("json", said))


def _questions(text: str, line: int) -> Iterator[Record]:
    """Yield the questions of a paragraph as rows."""
    try:
        refuse_nul(text)
        paragraph: dict[str, Any] = parse_json(text, "it")
    except Fault as fault:
        yield Record(line, fault)
        return
    except InputError as error:
        yield Record(line, Fault("json", str(error).removeprefix("it ")))
        return
    questions = paragraph.get("qas")
    if not isinstance(questions, list) or not all(isinstance(one, dict) for one in questions):
        said = "has a paragraph whose questions (qas) are not a list of objects"
        yield Record(line, Fault("json", said))
        return
    for one in questions:
        row = {name: one[name] for name in ("id", QUESTION) if name in one}
        row[CONTEXT] = paragraph.get(CONTEXT)
        if ANSWERS in one:
            row[ANSWERS] = one[ANSWERS]
        yield Record(line, row)


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
