"""Answers to questions: the span of a context that answers each, or that there is none.

T tokens in the stream, B rows, C tokens of a context, L tokens of an answer at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from firth.base.errors import InputError
from firth.data.examples import Example, GoldAnswer, Question
from firth.data.record import on_a_line, shortened
from firth.data.window import Long, Window, context_windows
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
LONGEST = 30  # tokens of an answer
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


class WindowLogits(NamedTuple):
    """What the head says of one window."""

    first: int  # number, in the whole context, of the token that it begins with
    starts: NDArray[Any]  # (C) that the answer begins with a token
    ends: NDArray[Any]  # (C) that it ends with one
    none: float  # that the window has no answer
    offsets: Sequence[tuple[int, int]]  # (C) characters of each token


class SpanLogits(NamedTuple):
    """The logits of all spans of a context, and that none of them is the answer."""

    spans: NDArray[Any]  # (C, L) of 1 to L tokens, from each token on; -inf where there is no span
    none: float

    @property
    def best(self) -> tuple[int, int]:
        """The first and the last token of the likeliest span."""
        first, more = divmod(int(self.spans.argmax()), LONGEST)
        return first, first + more

    @property
    def margin(self) -> float:
        """How much higher the logit of the likeliest span is than that of no answer."""
        return float(self.spans.max(initial=-float("inf"))) - self.none


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
        stride = bundle.settings.get("stride", STRIDE)
        return cls(stride, bundle.settings.get("answer_margin"), options.get("top"))

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
            raise InputError("it has no context: a question is asked together with one")
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
        every = token_logits(model, head, batch).cpu().split(batch.lengths.tolist())
        found: list[tuple[WindowLogits, ...]] = []
        for logits, window in zip(every, rows, strict=True):
            places = _context(window.row)
            offsets = [window.row.offsets[place] for place in places]
            none = window.row.parts.index(None)
            found.append((_window(logits, window.first, places, none, offsets),))
        return found

    def combine(
        self, rows: Sequence[Window], logits: Sequence[tuple[WindowLogits, ...]]
    ) -> tuple[WindowLogits, ...]:
        """Keep all windows: the answer is the best span of any of them."""
        return tuple(one for found in logits for one in found)

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[tuple[WindowLogits, ...]],
        truncated: int,
    ) -> QuestionAnswer:
        """Return the likeliest span, or that there is none, with the spans that come next."""
        found = span_logits(logits[0])
        total = _log_sum(found)
        none = _share(found.none, total)
        candidates = self._candidates(example.second or "", logits[0], found, total)
        if not candidates or self._is_silent(found.margin):
            return QuestionAnswer(
                None, None, None, none, none, candidates, truncated_tokens=truncated
            )
        best = candidates[0]
        return QuestionAnswer(
            best.answer,
            best.start,
            best.end,
            best.probability,
            none,
            candidates,
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
        spans: dict[tuple[int, int], AnswerSpan] = {}
        for place in np.argsort(-flat, kind="stable").tolist():
            if len(spans) == (self.top or TOP) or flat[place] == -np.inf:
                break
            first, more = divmod(place, LONGEST)
            start = offsets[first][0]
            end = offsets[first + more][1]
            probability = _share(float(flat[place]), total)
            spans.setdefault((start, end), AnswerSpan(context[start:end], start, end, probability))
        return tuple(spans.values())

    def line(self, example: Example, answer: QuestionAnswer) -> str:
        """Return the probability and the answer; with `top` the candidates below."""
        said = "no answer" if answer.answer is None else on_a_line(answer.answer)
        lines = [f"{answer.probability:7.2%}  {said}"]
        if self.top is not None:
            candidates = answer.candidates
            lines += [f"    {one.probability:7.2%}  {on_a_line(one.answer)}" for one in candidates]
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
        for at, answer in enumerate(example.answers[:MOST_GOLD]):
            gold[0, at] = _tokens(example, answer, encodings[0])

        start = end = none
        first, last = (gold[0, 0] - window.first).tolist()
        if example.answers and first >= 0 and last < len(places):
            start = places[first]
            end = places[last]
        return {
            "span": np.array([[start, end]]),
            "none": np.array([none]),
            "gold": gold,
            "first": np.array([window.first]),
            "context": np.isin(np.arange(len(row)), places),
        }

    def counts(self, batch: Batch) -> dict[str, float]:
        """Count the starts and ends of all windows, each of which counts alike."""
        return {"span": 2.0 * len(batch.lengths)}

    def losses(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sum the cross-entropy of starts and ends over the tokens of each row."""
        return {"span": span_loss(token_logits(encoder, head, batch), batch)}

    def tally(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Count exact matches and F1 by tokens; windows of a context are in one batch."""
        import numpy as np

        every = token_logits(encoder, head, batch)
        loss = float(span_loss(every, batch))
        windows: dict[int, list[WindowLogits]] = {}
        gold: dict[int, NDArray[Any]] = {}
        lengths = batch.lengths.tolist()
        contexts = batch.targets["context"].split(lengths)
        for row, logits in enumerate(every.cpu().split(lengths)):
            places = contexts[row].nonzero()[:, 0].tolist()
            first = int(batch.targets["first"][row])
            none = int(batch.targets["none"][row])
            owner = batch.owner[row]
            windows.setdefault(owner, []).append(_window(logits, first, places, none))
            gold[owner] = batch.targets["gold"][row].numpy()

        figures = np.zeros(len(self.sums))
        for owner, parts in windows.items():
            found = span_logits(parts)
            silent = not found.spans.size or self._is_silent(found.margin)
            figures[:2] += _token_scores(gold[owner], None if silent else found.best)
        figures[2:] = len(windows), loss, 2 * len(lengths)
        return dict(zip(self.sums, figures.tolist(), strict=True))

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return exact match and F1 of tokens, and the loss."""
        count = max(1.0, sums["count"])
        loss = sums["loss"] / max(1.0, sums["targets"])
        return {"loss": loss, "exact": sums["exact"] / count, "f1": sums["f1"] / count}

    def calibrate(
        self, examples: Sequence[Example], logits: Sequence[Sequence[tuple[WindowLogits, ...]]]
    ) -> dict[str, float]:
        """Return the margin above no answer from which on answering is best."""
        import numpy as np

        from firth.metrics.spans import answer_f1, best_threshold, exact_match

        metric = exact_match if self.select == "exact" else answer_f1
        rows = []
        for example, (windows,) in zip(examples, logits, strict=True):
            assert isinstance(example, Question)
            said = AnswerQuestion(top=1).answer(example, (), [windows], 0).answer or ""
            truth = [answer.text for answer in example.answers]
            margin = span_logits(windows).margin
            rows.append((margin, metric(truth, said), metric(truth, "")))
        return {"answer_margin": best_threshold(*np.array(rows).T)}

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
        self.tally.add([answer.text for answer in example.answers], graded.answer)


def token_logits(model: Any, head: nn.Module | None, batch: Batch) -> Tensor:
    """Return the logits of each token (T, 2): that an answer begins and that it ends with it."""
    if head is None:
        raise InputError("this model has no head for answers")
    return head(model(*batch.stream).tokens)  # type: ignore[no-any-return]


def span_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Return the sum over rows of the cross-entropy of start and end (T, 2)."""
    import torch

    rows = logits.split(batch.lengths.tolist())
    totals = torch.stack([row.logsumexp(0) for row in rows])  # (B, 2)
    begun = batch.lengths.cumsum(0) - batch.lengths  # (B)
    places = batch.targets["span"] + begun[:, None].to(logits.device)  # (B, 2)
    return (totals - logits.gather(0, places)).sum()


def span_logits(windows: Sequence[WindowLogits]) -> SpanLogits:
    """Return the logits of all spans; one that several windows have takes the highest.

    A window that sees an answer says so: that there is none is the lowest over all windows.
    """
    import numpy as np

    size = max(window.first + len(window.starts) for window in windows)
    spans = np.full((size, LONGEST), -np.inf)
    beyond = np.full(LONGEST - 1, -np.inf)
    for window in windows:
        if not len(window.starts):
            continue
        ends = np.concatenate([window.ends, beyond])
        found = window.starts[:, None] + np.lib.stride_tricks.sliding_window_view(ends, LONGEST)
        if window.offsets:
            # Pieces that stand for no character of the text.
            characters = np.array(window.offsets)
            last = np.concatenate([characters[:, 1], np.zeros(LONGEST - 1, np.int64)])
            reach = np.lib.stride_tricks.sliding_window_view(last, LONGEST)
            found = np.where(reach > characters[:, :1], found, -np.inf)
        own = spans[window.first : window.first + len(found)]
        np.maximum(own, found, out=own)
    return SpanLogits(spans, min(window.none for window in windows))


def _log_sum(found: SpanLogits) -> float:
    """Return the logarithm of the sum over all spans and no answer."""
    import numpy as np

    highest = max(found.none, found.none + found.margin)
    return highest + float(
        np.log(np.exp(found.spans - highest).sum() + np.exp(found.none - highest))
    )


def _share(logit: float, total: float) -> float:
    import math

    return math.exp(logit - total)


def _window(
    logits: Tensor,
    first: int,
    places: Sequence[int],
    none: int,
    offsets: Sequence[tuple[int, int]] = (),
) -> WindowLogits:
    """Return what the logits of a row (T, 2) say of its context, and of the mark of no answer."""
    own = logits[places].double().numpy()
    return WindowLogits(first, own[:, 0], own[:, 1], float(logits[none].double().sum()), offsets)


def _context(row: Encoding) -> list[int]:
    """Return where the tokens of the context stand."""
    return [place for place, part in enumerate(row.parts) if part == CONTEXT]


def _tokens(example: Question, answer: GoldAnswer, encoding: Encoding) -> tuple[int, int]:
    """Return the first and the last token, by its number in the context, that an answer has."""
    touched = []
    offsets = [encoding.offsets[place] for place in _context(encoding)]
    for number, (start, end) in enumerate(offsets):
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
    best = 0.0
    for one, other in truth:
        shared = max(0, min(last, other) - max(first, one) + 1)
        best = max(best, 2 * shared / (last - first + other - one + 2))
    return float(said in truth), best


def _unanswerable(examples: Sequence[Example]) -> int:
    """Count the questions without an answer."""
    return sum(isinstance(one, Question) and not one.answers for one in examples)


TASK = AnswerQuestion
