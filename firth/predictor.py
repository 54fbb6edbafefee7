"""Text in, typed answers out, in the order asked and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, get_args, overload

import numpy as np

from firth.base.arguments import (
    MOST_THREADS,
    as_path,
    as_real,
    as_scores,
    as_strings,
    as_weight,
    as_whole,
    as_whole_numbers,
    check_choice,
    check_flags,
    check_string,
)
from firth.base.errors import InputError, for_caller
from firth.base.notes import note, warn
from firth.data.examples import Candidates, Example, Labelled, Line, ScoredCandidates
from firth.data.given import given_examples, given_strings
from firth.data.options import Options
from firth.data.window import Long
from firth.folders.bundle import Bundle
from firth.folders.heads import cant_use
from firth.folders.read import load
from firth.folders.weights import use_threads
from firth.tasks.across import AttendAcross
from firth.tasks.answer import AnswerQuestion, QuestionAnswer
from firth.tasks.attention import Attend, AttentionMap
from firth.tasks.choice import Choice, Choose
from firth.tasks.complete import MOST_ANSWERS, Complete, Completed
from firth.tasks.decoding import Decoding, GeneratedText
from firth.tasks.embed import Combine, Embed, Pool, Spans, TextPool, TokenPool, Vectors
from firth.tasks.encoded import EncodedTask, Finished
from firth.tasks.generate import Generate, make_generator
from firth.tasks.likelihood import Likelihood, MeasureLikelihood, Ranking
from firth.tasks.registry import find_kind, gives, has_kind
from firth.tasks.task import Answer, Answered, OpenModel, Progress
from firth.tasks.trained import TrainedTask
from firth.tasks.translate import MOST_BEAM, Translate, Translation

if TYPE_CHECKING:
    from firth.tasks.registry import AnyTask, AnyTrainedTask

CHARACTERS_AT_ONCE = 4 << 20  # of texts that are encoded together, which bounds memory

Texts = Iterable[str] | Iterable[tuple[str, str]] | Iterable[Example]
A = TypeVar("A")


@dataclass
class Coverage:
    """How much of some texts the model read."""

    texts: int = 0
    cut: int = 0
    unseen: int = 0  # tokens
    cure: str = ""

    def __str__(self) -> str:
        cut = f"{self.cut:,} of {self.texts:,} texts were longer than the model reads and were cut"
        return for_caller(f"{cut}: {self.unseen:,} tokens unseen {self.cure}")

    def add(self, truncated: int) -> None:
        """Count a text of which so many tokens were not read."""
        self.texts += 1
        self.cut += truncated > 0
        self.unseen += truncated


class Answering(Protocol[A]):
    """What the predictor asks of a task."""

    @property
    def at_once(self) -> int:
        """How many examples are answered together."""
        ...

    def check_long(self, long: Long) -> None:
        """Refuse a way to read long texts that makes no sense here."""
        ...

    def cure(self, long: Long) -> str:
        """Say what would let the model read what was cut off."""
        ...

    def answers(
        self,
        bundle: OpenModel,
        examples: Sequence[Example],
        long: Long,
        first: int,
        progress: Progress | None,
    ) -> list[Answered[A]]:
        """Answer some examples."""
        ...


class Counting(Protocol):
    """What is told of every graded answer: a `Scoring`, or what has one."""

    def add(self, example: Example, graded: Any) -> None:
        """Count an answer."""
        ...


class Predictor:
    """A loaded model that answers; the command line, the server and notebooks all use this one.

    It keeps nothing of a call, so that threads may share it.
    """

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        self.bundle = bundle
        self.threads = as_whole("threads", threads, 1, MOST_THREADS, optional=True)

    def computing(self) -> AbstractContextManager[None]:
        """Let torch use this model's threads; outside of it the host's number stands."""
        return use_threads(self.threads)

    @overload
    def embed(
        self,
        texts: Texts,
        *,
        pool: TextPool | None = None,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        long: Long = "cut",
        report: Literal[False] = False,
    ) -> Vectors: ...

    @overload
    def embed(
        self,
        texts: Texts,
        *,
        pool: TextPool | None = None,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        long: Long = "cut",
        report: Literal[True],
    ) -> tuple[Vectors, Coverage]: ...

    @overload
    def embed(
        self,
        texts: Texts,
        *,
        pool: TokenPool,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        long: Long = "cut",
        report: Literal[False] = False,
    ) -> list[Spans]: ...

    @overload
    def embed(
        self,
        texts: Texts,
        *,
        pool: TokenPool,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        long: Long = "cut",
        report: Literal[True],
    ) -> tuple[list[Spans], Coverage]: ...

    def embed(
        self,
        texts: Texts,
        *,
        pool: Pool | None = None,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        long: Long = "cut",
        report: bool = False,
    ) -> Vectors | list[Spans] | tuple[Vectors | list[Spans], Coverage]:
        """Return a vector for each text, or pair of texts, as an array (texts, width).

        With pool `words` or `none` that is a list of `Spans`; a pair becomes one vector, and has no
        words or pieces of its own. With `report` a report of how much was read comes with it, in
        place of a warning where texts were cut.
        """
        task = self.embedder(pool, layers, combine)
        coverage = Coverage()
        answers = list(self.stream(task, texts, long, coverage=coverage))
        if not report:
            _warn(coverage)
        found: Vectors | list[Spans]
        if task.of_tokens:
            found = [answer for answer in answers if isinstance(answer, Spans)]
        elif answers:
            vectors = [answer for answer in answers if not isinstance(answer, Spans)]
            found = np.stack(vectors)
        else:
            width = self.bundle.encoder.width
            if combine == "concat":
                width *= len(task.layers)
            found = np.zeros((0, width), np.float32)
        if report:
            return found, coverage
        return found

    def predict(
        self, texts: Texts, *, top: int | None = None, long: Long | None = None
    ) -> list[Answer]:
        """Return what the model was made for, for each text or pair of texts.

        That is a classification, a number, named spans, the blanks filled with `top` pieces (5), or
        of a language model the text continued. What `long` leaves open is as the folder says.
        """
        check_choice("long", long, get_args(Long), optional=True)
        top = as_whole("top", top, 1, MOST_ANSWERS, optional=True)
        options = {} if top is None else {"top": top}
        if options and "top" not in self.task_class.predict_options:
            raise InputError(
                "top is for filling blanks, for answers to questions, and for complete() of a "
                "language model"
            )
        task = self.task(**options)
        if task.takes_prompts:
            texts = map(Line, given_strings(texts))
        coverage = Coverage()
        answers = list(self.stream(task, texts, long or self.bundle.long, coverage=coverage))
        _warn(coverage)
        return answers

    def answer(
        self, question: str, context: str, *, top: int | None = None, long: Long | None = None
    ) -> QuestionAnswer:
        """Return what of a context answers a question, with the `top` likeliest spans (5)."""
        check_string("question", question)
        check_string("context", context)
        (answer,) = self.answer_all([(question, context)], top=top, long=long)
        return answer

    def answer_all(
        self,
        questions: Iterable[tuple[str, str]],
        *,
        top: int | None = None,
        long: Long | None = None,
    ) -> list[QuestionAnswer]:
        """Return what answers each question; each is given with its context."""
        if not issubclass(self.task_class, AnswerQuestion):
            raise InputError(f"this model answers no questions: it gives {gives(self.bundle.kind)}")
        found = self.predict(questions, top=top, long=long)
        return [answer for answer in found if isinstance(answer, QuestionAnswer)]

    def choose(self, context: str, choices: Iterable[str], *, long: Long | None = None) -> Choice:
        """Return which of several options is right after a context, with their probabilities."""
        check_string("context", context)
        check_choice("long", long, get_args(Long), optional=True)
        if not issubclass(self.task_class, Choose):
            raise InputError(f"this model doesn't choose: it gives {gives(self.bundle.kind)}")
        question = Options(context, tuple(given_strings(choices)))
        coverage = Coverage()
        way = long or self.bundle.long
        (answer,) = self.stream(self.task(), [question], way, coverage=coverage)
        _warn(coverage)
        assert isinstance(answer, Choice)
        return answer

    def translate(
        self,
        texts: Iterable[str],
        *,
        beam: int | None = None,
        top: int | None = None,
        align: bool = False,
        long: Long | None = None,
    ) -> list[Translation]:
        """Return what an encoder-decoder makes of each text, with the `top` candidates (1).

        `beam` beginnings are kept at every length (4; 1 takes the likeliest token each time), and
        `align` says which word of the source each word comes from.
        """
        check_choice("long", long, get_args(Long), optional=True)
        check_flags(align=align)
        if not issubclass(self.task_class, Translate):
            raise InputError(f"this model doesn't translate: it gives {gives(self.bundle.kind)}")
        task = self.task(
            beam=as_whole("beam", beam, 1, MOST_BEAM, optional=True),
            top=as_whole("top", top, 1, MOST_BEAM, optional=True),
            align=align,
        )
        coverage = Coverage()
        sources = map(Line, given_strings(texts))
        found = list(self.stream(task, sources, long or self.bundle.long, coverage=coverage))
        _warn(coverage)
        return found

    def score(
        self, texts: Iterable[str], *, context: str = "", long: Long = "slide"
    ) -> list[Likelihood]:
        """Return how likely a language model finds each text and each of its tokens.

        A context is read before each and is not measured.
        """
        check_string("context", context)
        lines: Iterator[Example] = (
            Labelled(context, None, text) if context else Line(text)
            for text in given_strings(texts)
        )
        answers = self.stream(self.likelihood(), lines, long)
        return [answer for answer in answers if isinstance(answer, Likelihood)]

    def rank(
        self,
        texts: Iterable[str],
        *,
        scores: Sequence[float] | None = None,
        weight: float | None = None,
        context: str = "",
        long: Long = "slide",
    ) -> Ranking:
        """Return texts of which one is right, the likeliest first, with their probabilities.

        With the `scores` of whatever proposed them, log-probabilities, a text's total is its score
        plus `weight` (1) times its log-likelihood.
        """
        check_string("context", context)
        candidates = tuple(given_strings(texts))
        if scores is None:
            if weight is not None:
                raise InputError("weight is for candidates with scores of their own: give scores")
            asked = Candidates(context, candidates)
        else:
            own = as_scores("scores", scores, len(candidates))
            asked = ScoredCandidates(context, candidates, own)
        task = self.likelihood(weight=as_weight(weight))
        (answer,) = self.stream(task, [asked], long)
        assert isinstance(answer, Ranking)
        return answer

    def write(
        self,
        texts: Iterable[str],
        *,
        tokens: int | None = None,
        temperature: float = 0.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        stop: Sequence[str] = (),
        seed: int = 0,
    ) -> list[GeneratedText]:
        """Continue each text by the likeliest token each time or, with a temperature, by draws."""
        decoding = Decoding(
            as_whole("tokens", tokens, 1, optional=True),
            as_real("temperature", temperature),
            as_whole("top_k", top_k, 1, optional=True),
            as_real("top_p", top_p, most=1.0),
            as_strings("stop", stop),
            as_whole("seed", seed),
        )
        decoding.check()
        task = Generate(make_generator(self.bundle), decoding)
        return self._prompted(task, texts)

    def complete(
        self, texts: Iterable[str], *, top: int = 5, tokens: int | None = None
    ) -> list[Completed]:
        """Return for each text the likeliest ends of its line, best first, by beam search."""
        top = as_whole("top", top, 1, MOST_ANSWERS)
        tokens = as_whole("tokens", tokens, 1, optional=True)
        task = Complete(make_generator(self.bundle), top, tokens)
        return self._prompted(task, texts)

    def _prompted(self, task: Answering[A], texts: Iterable[str]) -> list[A]:
        """Return what a task makes of prompts, which are never pairs."""
        coverage = Coverage()
        prompts = map(Line, given_strings(texts))
        answers = list(self.stream(task, prompts, coverage=coverage))
        _warn(coverage)
        return answers

    def attention(self, texts: Texts, *, long: Long | None = None) -> list[AttentionMap]:
        """Return the attention weights of each text or pair; of a long text, of each window.

        Of a translator those between each text and its translation, or the target that it is
        paired with; a long text is cut.
        """
        check_choice("long", long, get_args(Long), optional=True)
        kind = AttendAcross if self.bundle.record.is_encoder_decoder else Attend
        task = kind.of_bundle(self.bundle)
        coverage = Coverage()
        every = list(self.stream(task, texts, long or task.usual_long, coverage=coverage))
        _warn(coverage)
        return [window for windows in every for window in windows]

    def answers(self, examples: Sequence[Example], long: Long = "cut") -> Iterator[Answer]:
        """Answer examples, which may be pairs."""
        return self.stream(self.task(), examples, long)

    def raw(self, examples: Sequence[Example], long: Long = "cut") -> Iterator[list[Any]]:
        """Return the logits behind the answers: one for each encoding of an example."""
        task = self.task()
        assert isinstance(task, EncodedTask)
        raw = Finished(task, lambda _, __, logits, ___: list(logits))
        return self.stream(raw, examples, long)

    def grade(
        self,
        scoring: Counting,
        examples: Iterable[Example],
        long: Long = "cut",
        progress: Progress | None = None,
        coverage: Coverage | None = None,
    ) -> None:
        """Answer examples that have labels, and add up how good the answers are."""
        task = self.trained_task()

        def grade(example: Example, *found: Any) -> None:
            graded = task.graded(example, *found)
            scoring.add(example, graded)

        grading = Finished(task, grade)
        for _ in self.stream(grading, iter(examples), long, progress, coverage):
            pass

    @property
    def task_class(self) -> type[AnyTask]:
        """The task that the model was made for, whatever its options."""
        if self.bundle.kind is not None and has_kind(self.bundle.kind):
            return find_kind(self.bundle.kind)
        if self.bundle.unusable:
            raise InputError(cant_use("this model", self.bundle.unusable))
        does = "is an encoder without a head"
        if self.bundle.kind:
            does = f"is for the task {self.bundle.kind!r}"
        raise InputError(
            f"this model {does}; predict fills blanks with a model that has a head for hidden "
            "words (firth embed gives vectors)"
        )

    def task(self, **options: Any) -> AnyTask:
        """Return the task of this model; the options are the task's own."""
        if self.bundle.writes_spans:
            warn(
                "this model was pretrained and not trained on pairs yet: it writes what it takes "
                "to be missing in a text, and no translation; "
                "firth finetune translate --model FOLDER --train PAIRS -o OUT trains it"
            )
        return self.task_class.of_bundle(self.bundle, **options)

    def trained_task(self) -> AnyTrainedTask:
        """Return the task that the model has learned from examples."""
        task = self.task()
        if not isinstance(task, TrainedTask):
            kind = self.bundle.kind or "vectors"
            raise InputError(f"a model for {kind} has no scores on labelled examples")
        return task

    def embedder(
        self, pool: Pool | None = None, layers: Sequence[int] = (-1,), combine: Combine = "mean"
    ) -> Embed:
        """Return the task of embedding, as the folder says unless told otherwise."""
        check_choice("pool", pool, get_args(Pool), optional=True)
        check_choice("combine", combine, get_args(Combine))
        layers = as_whole_numbers("layers", layers)
        depth = self.bundle.encoder.depth
        if not all(-depth - 1 <= layer <= depth for layer in layers):
            first = f"layers go from 0 (the embedding) to {depth} (the last)"
            raise InputError(f"{first}, or from -1 (the last) to -{depth + 1}")
        sentence = self.bundle.sentence
        if sentence is None:
            return Embed(pool or "mean", layers, combine, normalise=False)
        return Embed(pool or sentence.pooling, layers, combine, sentence.normalise)

    def likelihood(
        self, orders: bool = True, lists: bool = False, weight: float = 1.0
    ) -> MeasureLikelihood:
        """Return the task of measuring likelihoods.

        `orders` asks an n-gram model which n-grams it used, `lists` expects candidates, and
        `weight` is that of the log-likelihood beside scores of their own.
        """
        return MeasureLikelihood.of_bundle(self.bundle, orders=orders, lists=lists, weight=weight)

    def stream(
        self,
        task: Answering[A],
        texts: Texts,
        long: Long = "cut",
        progress: Progress | None = None,
        coverage: Coverage | None = None,
    ) -> Iterator[A]:
        """Answer a stream of texts or examples in order; `coverage` counts what was not read."""
        check_choice("long", long, get_args(Long))
        task.check_long(long)
        return self._stream(task, given_examples(texts), long, progress, coverage or Coverage())

    def _stream(
        self,
        task: Answering[A],
        examples: Iterator[Example],
        long: Long,
        progress: Progress | None,
        coverage: Coverage,
    ) -> Iterator[A]:
        coverage.cure = task.cure(long)
        done = 0
        for chunk in _chunks(examples, task.at_once):
            with self.computing():  # not while the caller has the answers
                answered = task.answers(self.bundle, chunk, long, done, progress)
            for answer, truncated in answered:
                coverage.add(truncated)
                yield answer
            done += len(chunk)


def _chunks(examples: Iterable[Example], most: int) -> Iterator[list[Example]]:
    """Yield examples some at a time, as many as are answered together and fit in memory."""
    chunk: list[Example] = []
    characters = 0
    for example in examples:
        chunk.append(example)
        characters += sum(map(len, example.texts))
        if len(chunk) >= most or characters >= CHARACTERS_AT_ONCE:
            yield chunk
            chunk = []
            characters = 0
    if chunk:
        yield chunk


def _warn(coverage: Coverage) -> None:
    """Warn of texts that were cut."""
    if coverage.cut:
        warn(str(coverage))


def load_predictor(model: str | Path, threads: int | None = None) -> Predictor:
    """Open a model folder, or `minilm`, ready to answer."""
    as_whole("threads", threads, 1, MOST_THREADS, optional=True)  # before the folder is read
    return Predictor(load(as_path("model", model)), threads)


def say_unmatched(predictor: Predictor, whose: str = "") -> None:
    """Name the weights that a folder lacked; `whose` is said where there are several.

    Weights to spare are a warning of `load`.
    """
    missing = predictor.bundle.unmatched.missing
    if missing:
        names = ", ".join(missing)
        note(f"{whose}weights missing from the folder: {names}")


def say_coverage(coverage: Coverage, whose: str = "") -> None:
    """Say how much text was cut off; `whose` is said where there are several."""
    if coverage.cut:
        note(f"{whose}{coverage}")
