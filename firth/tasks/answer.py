"""Answers to questions: the span of a context that answers each, or that there is none.

T tokens in the stream, B rows, C tokens of a context, L tokens of an answer at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from firth.base.errors import InputError
from firth.data.examples import Example, GoldAnswer, Question
from firth.data.record import on_a_line, shortened
from firth.data.window import Long, Window, context_windows
from firth.nn.span_logits import (
    LONGEST,
    SpanLogits,
    WindowLogits,
    span_logits,
    span_loss,
    window_logits,
)
from firth.reading.squad import QuestionReader
from firth.tasks.encoded import ExampleError
from firth.tasks.task import Answer, OpenModel
from firth.tasks.texts import encode_texts
from firth.tasks.trained import Scoring, TrainedTask, TrainingData

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from firth.data.batch import Batch
    from firth.data.rows import Targets
    from firth.models.protocols import Backbone
    from firth.text.tokenizer import Encoding, Tokenizer

CONTEXT = 1  # the part of a pair that is the context
STRIDE = 128  # tokens that neighbouring windows share
TOP = 5  # candidates
MOST_GOLD = 8  # true answers of a question that are compared while training


@dataclass(frozen=True)
class AnswerSpan:
    """Characters of a context that may be the answer, and how probable that is."""

    answer: str
    start: int
    end: int
    probability: float


@dataclass(frozen=True)
class QuestionAnswer(Answer):
    """What of a context answers a question, and the likeliest spans, best first.

    `answer`, `start` and `end` are None where the context doesn't answer it. The probabilities of
    all spans of the context and that of no answer come to 1.
    """

    answer: str | None
    start: int | None
    end: int | None
    probability: float  # of the answer, or that there is none
    no_answer_probability: float
    candidates: tuple[AnswerSpan, ...]

    def as_json(self) -> dict[str, object]:
        """Return the answer as a JSON object."""
        candidates = [asdict(one) for one in self.candidates]
        return super().as_json() | {"candidates": candidates}

    def figures(self) -> dict[str, float]:
        """Return the probability of each of the likeliest spans, and of no answer."""
        found = {"no answer": self.no_answer_probability}
        for one in self.candidates:
            found.setdefault(one.answer, one.probability)
        return found


class AnswerQuestion(TrainedTask[tuple[WindowLogits, ...], QuestionAnswer]):
    """Learn and find the span of a context that answers a question.

    No answer is given where the best one's logit is not `margin` above that of none; without a
    margin there always is one. `top` is how many candidates are named.
    """

    name = "answer"
    help = "The answer to a question, as a span of a context."
    kinds = {name: "answers to questions"}
    reader = QuestionReader
    options = {"stride": "questions on contexts", "tune_no_answer": "questions on contexts"}
    predict_options = ("top",)
    asked_by = "--question"
    usual_long = "slide"
    twins = {"answer": "predicted_answer", "start": "predicted_start", "end": "predicted_end"}
    extra_fields = ("candidates",)
    selectable = {name: ("f1", "exact")}
    pooled = False
    head_dropout = False
    sums = ("exact", "f1", "count", "loss", "targets")
    columns = {
        "predicted_answer": "text",
        "predicted_start": "whole",
        "predicted_end": "whole",
        "probability": "number",
        "no_answer_probability": "number",
    }

    def __init__(
        self,
        stride: int = STRIDE,
        margin: float | None = None,
        top: int | None = None,
        select: str | None = None,
        calibrates: bool = False,
    ) -> None:
        self.stride = stride
        self.margin = margin
        self.top = top
        self.select = select or self.selectable[self.name][0]
        self.calibrates = calibrates

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task of a folder; the option `top` is how many candidates are named."""
        return cls(
            stride=bundle.settings.get("stride", STRIDE),
            margin=bundle.settings.get("answer_margin"),
            top=options.get("top"),
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
        """Return the task; some questions without an answer let the model say that of others."""
        given = options or {}
        margin = 0.0 if _unanswerable(examples) else None
        stride = given.get("stride") or STRIDE
        calibrates = bool(given.get("tune_no_answer"))
        return cls(stride, margin, select=select, calibrates=calibrates)

    @classmethod
    def plan(cls, data: TrainingData) -> tuple[str, tuple[str, ...]]:
        """Return that answers have no labels."""
        if _unanswerable(data.train) == len(data.train):
            raise InputError(f"{data.train_name} has no answer in any row: nothing can be learned")
        return cls.name, ()

    @classmethod
    def check_dev(cls, dev: Sequence[Example], name: str, options: Mapping[str, Any]) -> None:
        """Refuse to tune on a dev set without a question that has no answer."""
        if options.get("tune_no_answer") and not _unanswerable(dev):
            raise InputError(
                "--tune-no-answer chooses on held-out questions without an answer how sure the "
                f"model must be, and {name} has none; leave it out or give others with --dev"
            )

    @classmethod
    def outputs(cls, labels: Sequence[str]) -> int:
        """Return two: that an answer begins with a token, and that it ends with it."""
        return 2

    def settings(self) -> dict[str, Any]:
        """Return how the windows overlap, and when no answer is given."""
        found: dict[str, Any] = {"stride": self.stride}
        if self.margin is not None:
            found["answer_margin"] = self.margin
        return found

    def check(self, example: Example, bundle: OpenModel) -> None:
        """Refuse a question without a context."""
        if example.second is None:
            cure = "(--question with --context asks one)"
            raise InputError(f"it has no context: a question is asked together with one {cure}")
        super().check(example, bundle)

    def cure(self, long: Long) -> str:
        """Say what would let the model read what was cut off."""
        if long == "slide":
            return "(a question has at most half of each window)"
        return super().cure(long)

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[Encoding]]:
        """Encode each question with its context, whole."""
        return [[encoding] for encoding in encode_texts(examples, tokenizer)]

    def windows(self, encoding: Encoding, length: int | None, long: Long) -> list[Window]:
        """Cut the context into windows, each with the question before it."""
        return context_windows(encoding, length, long, self.stride)

    def logits(
        self, model: Any, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[tuple[WindowLogits, ...]]:
        """Return the logits of the context of each row."""
        every = token_logits(model, head, batch).cpu()  # (T, 2)
        by_row = every.split(batch.lengths.tolist())
        found: list[tuple[WindowLogits, ...]] = []
        for logits, window in zip(by_row, rows, strict=True):
            row = window.row
            places = _context(row)
            none = row.parts.index(None)
            offsets = [row.offsets[place] for place in places]
            one = window_logits(logits, window.first, places, none, offsets)
            found.append((one,))
        return found

    def combine(
        self, rows: Sequence[Window], logits: Sequence[tuple[WindowLogits, ...]]
    ) -> tuple[WindowLogits, ...]:
        """Keep all windows: the answer is the best span of any of them."""
        windows: list[WindowLogits] = []
        for found in logits:
            windows += found
        return tuple(windows)

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[tuple[WindowLogits, ...]],
        truncated: int,
    ) -> QuestionAnswer:
        """Return the likeliest span, or that there is none, with the spans that come next."""
        windows = logits[0]
        context = example.second or ""
        found = span_logits(windows)
        total = found.log_sum
        none = _share(found.none, total)
        candidates = self._candidates(context, windows, found, total)
        if not candidates or self._is_silent(found.margin):
            return QuestionAnswer(
                answer=None,
                start=None,
                end=None,
                probability=none,
                no_answer_probability=none,
                candidates=candidates,
                truncated_tokens=truncated,
            )

        best = candidates[0]
        return QuestionAnswer(
            answer=best.answer,
            start=best.start,
            end=best.end,
            probability=best.probability,
            no_answer_probability=none,
            candidates=candidates,
            truncated_tokens=truncated,
        )

    def _is_silent(self, margin: float) -> bool:
        """Return whether no answer is given."""
        return self.margin is not None and margin < self.margin

    def _candidates(
        self, context: str, windows: Sequence[WindowLogits], found: SpanLogits, total: float
    ) -> tuple[AnswerSpan, ...]:
        """Return the likeliest spans; pieces of one character would give some of them twice."""
        import numpy as np

        offsets: dict[int, tuple[int, int]] = {}
        for window in windows:
            offsets |= enumerate(window.offsets, window.first)

        flat = found.spans.ravel()
        best_first = np.argsort(-flat, kind="stable").tolist()
        most = self.top or TOP
        spans: dict[tuple[int, int], AnswerSpan] = {}
        for place in best_first:
            logit = float(flat[place])
            if len(spans) == most or logit == -np.inf:
                break
            first, more = divmod(place, LONGEST)
            start, _ = offsets[first]
            _, end = offsets[first + more]
            if (start, end) not in spans:
                answer = context[start:end]
                probability = _share(logit, total)
                spans[start, end] = AnswerSpan(answer, start, end, probability)
        return tuple(spans.values())

    def line(self, example: Example, answer: QuestionAnswer) -> str:
        """Return the probability and the answer; with `top` the candidates below."""
        said = "no answer"
        if answer.answer is not None:
            said = on_a_line(answer.answer)
        lines = [f"{answer.probability:7.2%}  {said}"]
        if self.top is not None:
            for one in answer.candidates:
                said = on_a_line(one.answer)
                lines.append(f"    {one.probability:7.2%}  {said}")
        return "\n".join(lines)

    def record(self, example: Example, answer: QuestionAnswer) -> dict[str, Any]:
        """Return an answer as a JSON object, with the question and its context."""
        return {"question": example.text, "context": example.second} | answer.as_json()

    def cells(self, example: Example, answer: QuestionAnswer) -> dict[str, Any]:
        """Return the answer as columns."""
        return {
            "predicted_answer": answer.answer,
            "predicted_start": answer.start,
            "predicted_end": answer.end,
            "probability": answer.probability,
            "no_answer_probability": answer.no_answer_probability,
        }

    def targets(
        self, example: Example, encodings: Sequence[Encoding], number: int, window: Window
    ) -> Targets:
        """Return where the first answer begins and ends in a row, or the mark of none.

        The other answers are there to compare with, as numbers of tokens of the whole context.
        """
        import numpy as np

        assert isinstance(example, Question)
        row = window.row
        places = _context(row)
        none = row.parts.index(None)
        gold = np.full((1, MOST_GOLD, 2), -1)
        compared = example.answers[:MOST_GOLD]
        for at, answer in enumerate(compared):
            gold[0, at] = _tokens(example, answer, encodings[0])

        # An answer that is not whole in this window has its target at the mark of none.
        span = [none, none]
        in_window = gold[0, 0] - window.first
        first, last = in_window.tolist()
        if example.answers and first >= 0 and last < len(places):
            span = [places[first], places[last]]

        numbers = np.arange(len(row))
        return {
            "span": np.array([span]),
            "none": np.array([none]),
            "gold": gold,
            "first": np.array([window.first]),
            "context": np.isin(numbers, places),
        }

    def counts(self, batch: Batch) -> dict[str, float]:
        """Count the starts and ends of all windows, each of which counts alike."""
        return {"span": 2.0 * len(batch.lengths)}

    def losses(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sum the cross-entropy of starts and ends over the tokens of each row."""
        logits = token_logits(encoder, head, batch)
        return {"span": span_loss(logits, batch.lengths, batch.targets["span"])}

    def tally(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Count exact matches and F1 by tokens; windows of a context are in one batch."""
        import numpy as np

        every = token_logits(encoder, head, batch)  # (T, 2)
        loss = float(span_loss(every, batch.lengths, batch.targets["span"]))

        targets = batch.targets
        lengths = batch.lengths.tolist()
        contexts = targets["context"].split(lengths)
        by_row = every.cpu().split(lengths)
        windows: dict[int, list[WindowLogits]] = {}  # by the number of the question
        gold: dict[int, NDArray[Any]] = {}
        for row, logits in enumerate(by_row):
            places = contexts[row].nonzero()[:, 0].tolist()
            first = int(targets["first"][row])
            none = int(targets["none"][row])
            window = window_logits(logits, first, places, none)
            owner = batch.owner[row]
            windows.setdefault(owner, []).append(window)
            gold[owner] = targets["gold"][row].numpy()

        scores = np.zeros(2)  # exact match and F1
        for owner, parts in windows.items():
            found = span_logits(parts)
            said = None
            if found.spans.size and not self._is_silent(found.margin):
                said = found.best
            scores += _token_scores(gold[owner], said)
        exact, f1 = scores.tolist()
        return {
            "exact": exact,
            "f1": f1,
            "count": float(len(windows)),
            "loss": loss,
            "targets": 2.0 * len(lengths),
        }

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return exact match and F1 of tokens, and the loss."""
        count = max(1.0, sums["count"])
        targets = max(1.0, sums["targets"])
        return {
            "loss": sums["loss"] / targets,
            "exact": sums["exact"] / count,
            "f1": sums["f1"] / count,
        }

    def calibrate(
        self, examples: Sequence[Example], logits: Sequence[Sequence[tuple[WindowLogits, ...]]]
    ) -> dict[str, float]:
        """Return the margin above no answer from which on answering is best."""
        import numpy as np

        from firth.metrics.spans import answer_f1, best_threshold, exact_match

        metric = exact_match if self.select == "exact" else answer_f1
        always = AnswerQuestion(top=1)  # without a margin it always answers
        rows = []
        for example, (windows,) in zip(examples, logits, strict=True):
            assert isinstance(example, Question)
            found = always.answer(example, (), [windows], 0)
            truth = [answer.text for answer in example.answers]
            margin = span_logits(windows).margin
            answered = metric(truth, found.answer or "")
            silent = metric(truth, "")
            rows.append((margin, answered, silent))
        margins, answered_scores, silent_scores = np.array(rows).T
        threshold = best_threshold(margins, answered_scores, silent_scores)
        return {"answer_margin": threshold}

    def scoring(
        self, others: Iterable[str] = (), positive: str | None = None, keep: bool = True
    ) -> Scoring:
        """Return what adds up answers."""
        return AnswerScoring()


class AnswerScoring(Scoring):
    """Adds up answers by SQuAD's rules."""

    def __init__(self) -> None:
        from firth.metrics.spans import AnswerTally

        self.tally: AnswerTally = AnswerTally()

    def add(self, example: Example, graded: QuestionAnswer) -> None:
        """Count an answer."""
        assert isinstance(example, Question)
        truth = [answer.text for answer in example.answers]
        self.tally.add(truth, graded.answer)


def token_logits(model: Backbone, head: nn.Module | None, batch: Batch) -> Tensor:
    """Return the logits of each token (T, 2): that an answer begins and that it ends with it."""
    if head is None:
        raise InputError("this model has no head for answers")
    tokens = model(*batch.stream).tokens  # (T, D)
    return head(tokens)  # type: ignore[no-any-return]


def _share(logit: float, total: float) -> float:
    """Return the probability that a logit stands for."""
    import math

    return math.exp(logit - total)


def _context(row: Encoding) -> list[int]:
    """Return where the tokens of the context stand."""
    return [place for place, part in enumerate(row.parts) if part == CONTEXT]


def _tokens(example: Question, answer: GoldAnswer, encoding: Encoding) -> tuple[int, int]:
    """Return the first and the last token, by its number in the context, that an answer has."""
    touched = []
    for number, place in enumerate(_context(encoding)):
        start, end = encoding.offsets[place]
        if start < answer.end and end > answer.start:
            touched.append(number)
    if not touched:
        said = f"the tokenizer leaves nothing of its answer {shortened(answer.text)}"
        raise ExampleError(0, example, said)
    return touched[0], touched[-1]


def _token_scores(gold: NDArray[Any], said: tuple[int, int] | None) -> tuple[float, float]:
    """Return exact match and F1 of a span of tokens against the true ones; the best counts."""
    truth = [(int(first), int(last)) for first, last in gold if first >= 0]
    if said is None or not truth:
        right = float(said is None and not truth)
        return right, right

    first, last = said
    length = last - first + 1
    best_f1 = 0.0
    for true_first, true_last in truth:
        true_length = true_last - true_first + 1
        begin = max(first, true_first)
        end = min(last, true_last)
        shared = max(0, end - begin + 1)
        f1 = 2 * shared / (length + true_length)
        best_f1 = max(best_f1, f1)
    exact = float(said in truth)
    return exact, best_f1


def _unanswerable(examples: Sequence[Example]) -> int:
    """Count the questions without an answer."""
    questions = [one for one in examples if isinstance(one, Question)]
    return sum(not one.answers for one in questions)


TASK = AnswerQuestion
