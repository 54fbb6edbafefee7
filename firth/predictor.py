"""Text in, typed answers out: batches by token budget, sorted by length, answers in the order asked."""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import numpy as np
import torch

from firth.base.arguments import (
    MOST_THREADS,
    as_path,
    as_real,
    as_strings,
    as_whole,
    as_whole_numbers,
    check_choice,
    check_string,
)
from firth.base.errors import InputError
from firth.data.batch import make_batch, plan
from firth.data.examples import Example, Labelled, Line, is_pair
from firth.data.given import given_examples, given_strings
from firth.data.task import Task
from firth.data.window import Long, Window, onward, windows
from firth.folders.bundle import Bundle, cant_use, load, use_threads
from firth.tasks.classify import Classify
from firth.tasks.embed import Combine, Embed, Pool
from firth.tasks.pretrain import Pretrain
from firth.tasks.rate import Candidate, Rate, Rated, rank
from firth.tasks.regress import Regress
from firth.tasks.tag import Tag
from firth.tasks.write import NARROWEST, Completion, Continued, Manner, Prompt, Writer
from firth.text.tokenizer import Encoding

# Tokens in a batch: enough for the matrix kernels, few enough for the layer's intermediate values to stay near the cores.
TOKENS_PER_BATCH = 3072
# Texts that are encoded and sorted together; what bounds memory when a file is larger than it.
TEXTS_AT_ONCE, CHARACTERS_AT_ONCE = 4096, 4 << 20
# Texts that are continued together; each of several beams counts as one.
WRITTEN_AT_ONCE = 64
MOST_ANSWERS = 1000  # pieces for a blank, or ends of a line
READ_ALL = "(long='slide', on the command line --long slide, reads them all)"
HALF = "(of a pair of long texts the shorter has at most half of each window)"
FILLING = ("pretrain", "fill")  # kinds with a head for hidden words
KEEP_END = "(the ends were kept; fewer new tokens leave more room)"

Progress = Callable[[int], None]  # told how many texts are done
Texts = Iterable[str] | Iterable[tuple[str, str]]
T = TypeVar("T")


@dataclass
class Coverage:
    """How much of the texts the model saw."""

    texts: int = 0
    cut: int = 0
    unseen: int = 0  # tokens
    cure: str = READ_ALL

    def __str__(self) -> str:
        return (
            f"{self.cut:,} of {self.texts:,} texts were longer than the model reads and were cut: {self.unseen:,} tokens unseen "
            f"{self.cure}"
        )

    def add(self, unseen: int) -> None:
        """Count a text of which so many tokens were not seen."""
        self.texts += 1
        self.cut += unseen > 0
        self.unseen += unseen


class Predictor:
    """A loaded model that answers; the command line, the server and notebooks all use this one."""

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        self.bundle = bundle
        self.threads = as_whole("threads", threads, 1, MOST_THREADS, optional=True)
        self.coverage = Coverage()

    def computing(self) -> AbstractContextManager[None]:
        """Let torch use this model's threads; outside of it the host's number stands."""
        return use_threads(self.threads)

    def embed(
        self,
        texts: Texts,
        *,
        pool: Pool | None = None,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        long: Long = "cut",
    ) -> Any:
        """One vector a text, or pair of texts, as an array (texts, width); with pool `words` or `none` a list of `Spans`.

        A pair becomes one vector, and has no words or pieces of its own.
        """
        task = self.embedder(pool, layers, combine)
        answers = list(self._warned(task, texts, long))
        if task.pooling in ("words", "none"):
            return answers
        width = self.bundle.encoder.width * (len(task.layers) if combine == "concat" else 1)
        return np.stack(answers) if answers else np.zeros((0, width), np.float32)

    def predict(
        self, texts: Texts, *, top: int | None = None, long: Long | None = None
    ) -> list[Any]:
        """What the model was made for, for each text or pair of texts.

        A decision, a number, named spans, the blanks filled with `top` pieces (5), or of a language model the text continued. What
        `long` leaves open is as the folder says.
        """
        check_choice("long", long, get_args(Long), optional=True)
        top = as_whole("top", top, 1, MOST_ANSWERS, optional=True)
        if self.bundle.kind == "continue" and long not in (None, "cut"):
            raise InputError(
                f"--long {long} is not for continuing a text: of one that is too long the end is read"
            )
        if top is not None and self.bundle.kind not in (None, *FILLING):
            raise InputError("top is for filling blanks, and for complete() of a language model")
        if self.bundle.kind == "continue":
            return list(self.write(cast("Sequence[str]", texts)))
        return list(self._warned(self.task(top or 5), texts, long or self.bundle.long))

    def score(
        self, texts: Iterable[str], *, context: str = "", long: Long = "slide"
    ) -> list[Rated]:
        """How likely a language model finds each text and each of its tokens, after a context that is read and not rated."""
        check_string("context", context)
        self.coverage = Coverage()
        lines = (
            Labelled(context, None, text) if context else Line(text)
            for text in given_strings(texts)
        )
        return list(self.stream(self.rater(), lines, long))

    def rank(
        self, texts: Iterable[str], *, context: str = "", long: Long = "slide"
    ) -> tuple[Candidate, ...]:
        """Texts of which one is right, the likeliest first, with the share of the probability that each has."""
        return rank(self.score(texts, context=context, long=long))

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
    ) -> list[Continued]:
        """Each text continued by a language model, by the likeliest token each time or, with a temperature, by draws."""
        tokens, top_k = (
            as_whole(name, value, 1, optional=True)
            for name, value in (("tokens", tokens), ("top_k", top_k))
        )
        temperature, top_p = as_real("temperature", temperature), as_real("top_p", top_p, most=1.0)
        manner = Manner(
            tokens, temperature, top_k, top_p, as_strings("stop", stop), as_whole("seed", seed)
        )
        return list(self._told(self.writing(texts, manner)))

    def complete(
        self, texts: Iterable[str], *, top: int = 5, tokens: int | None = None
    ) -> list[tuple[Completion, ...]]:
        """For each text the likeliest ends of the line that it begins, best first, found by beam search."""
        top, tokens = (
            as_whole("top", top, 1, MOST_ANSWERS),
            as_whole("tokens", tokens, 1, optional=True),
        )
        return list(self._told(self.completing(texts, top, tokens)))

    def answers(self, examples: Sequence[Example], long: Long = "cut") -> Iterator[Any]:
        """The same for examples, which may be pairs."""
        return self.stream(self.task(), examples, long)

    def raw(self, examples: Sequence[Example], long: Long = "cut") -> Iterator[Any]:
        """The scores behind the answers."""
        return self.stream(_Raw(self.task()), examples, long)

    def task(self, top: int = 5) -> Task:
        """What the model was made for."""
        kind, labels, settings = self.bundle.kind, self.bundle.labels, self.bundle.settings
        if kind in ("classify", "several"):
            calibrated = settings.get("temperature", 1.0), settings.get("threshold", 0.0)
            return Classify(labels, kind == "several", None, *calibrated, values=self.bundle.values)
        if kind == "regress":
            return Regress()
        if kind == "tag":
            return Tag(labels)
        return self.filler(top)

    def embedder(
        self, pool: Pool | None = None, layers: Sequence[int] = (-1,), combine: Combine = "mean"
    ) -> Embed:
        """The task of embedding, as the folder says unless told otherwise."""
        check_choice("pool", pool, get_args(Pool), optional=True)
        check_choice("combine", combine, get_args(Combine))
        layers = as_whole_numbers("layers", layers)
        depth = self.bundle.encoder.depth
        if not all(-depth - 1 <= layer <= depth for layer in layers):
            raise InputError(
                f"layers go from 0 (the embedding) to {depth} (the last), or from -1 (the last) to -{depth + 1}"
            )
        sentence = self.bundle.sentence
        return Embed(
            pool or (sentence.pooling if sentence else "mean"),
            layers,
            combine,
            bool(sentence and sentence.normalise),
        )

    def filler(self, top: int = 5) -> Pretrain:
        """The task of filling blanks, for a model that has a head for it."""
        if self.bundle.kind not in FILLING:
            if self.bundle.unusable:
                raise InputError(cant_use("this model", self.bundle.unusable))
            does = (
                f"is for the task {self.bundle.kind!r}"
                if self.bundle.kind
                else "is an encoder without a head"
            )
            raise InputError(
                f"this model {does}; predict fills blanks with a model that has a head for hidden words (firth embed gives vectors)"
            )
        return Pretrain(self.bundle.tokenizer, top)

    def rater(self, orders: bool = True) -> Rate:
        """The task of rating texts; `orders` asks an n-gram which n-grams it used."""
        return Rate(self.bundle.language, self.bundle.end, self.bundle.length, orders)

    def writing(
        self, texts: Iterable[str], manner: Manner, progress: Progress | None = None
    ) -> Iterator[Continued]:
        """Continue a stream of texts, in order."""
        manner.check()
        writer = self._writer()
        most = writer.most(manner.tokens)
        return self._prompted(
            writer,
            texts,
            most,
            WRITTEN_AT_ONCE,
            lambda prompts, first: writer.write(prompts, manner, first),
            progress,
        )

    def completing(
        self,
        texts: Iterable[str],
        top: int,
        tokens: int | None = None,
        progress: Progress | None = None,
    ) -> Iterator[tuple[Completion, ...]]:
        """Name the likeliest ends of a stream of lines, in order."""
        Manner(tokens).check()
        writer = self._writer()
        most, many = writer.most(tokens), max(1, WRITTEN_AT_ONCE // max(top, NARROWEST))
        return self._prompted(
            writer,
            texts,
            most,
            many,
            lambda prompts, _: writer.complete(prompts, top, most),
            progress,
        )

    def _writer(self) -> Writer:
        self.coverage = Coverage(cure=KEEP_END)
        return Writer(
            self.bundle.language, self.bundle.tokenizer, self.bundle.end, self.bundle.length
        )

    def _prompted(
        self,
        writer: Writer,
        texts: Iterable[str],
        tokens: int,
        many: int,
        answer: Callable[[list[Prompt], int], list[T]],
        progress: Progress | None,
    ) -> Iterator[T]:
        """Answer prompts, so many at once."""
        rest, done = given_strings(texts), 0
        while chunk := list(islice(rest, many)):
            prompts = writer.prompts(chunk, tokens)
            for prompt in prompts:
                self.coverage.add(prompt.lost)
            with self.computing():  # not while the caller has the answers
                answers = answer(prompts, done)
            yield from answers
            done += len(chunk)
            if progress:
                progress(done)

    def stream(
        self,
        task: Task,
        texts: Texts | Iterable[Example],
        long: Long = "cut",
        progress: Progress | None = None,
    ) -> Iterator[Any]:
        """Answer a stream of texts or examples of any length in bounded memory, in order."""
        check_choice("long", long, get_args(Long))
        return self._stream(task, given_examples(texts), long, progress)

    def _stream(
        self, task: Task, examples: Iterator[Example], long: Long, progress: Progress | None
    ) -> Iterator[Any]:
        done = 0
        for chunk in _chunks(examples):
            with self.computing():
                answers = self._answer(task, chunk, long, done, progress)
            yield from answers
            done += len(chunk)

    def _warned(self, task: Task, texts: Texts, long: Long) -> Iterator[Any]:
        self.coverage = Coverage()
        return self._told(self.stream(task, texts, long))

    def _told(self, answers: Iterator[T]) -> Iterator[T]:
        """Answers, and a warning if texts were cut."""
        yield from answers
        if self.coverage.cut:
            warnings.warn(str(self.coverage), stacklevel=3)

    def _windows(self, task: Task, encoding: Encoding, long: Long) -> list[Window]:
        """The rows of a text, of which what is lost is counted; one that is rated loses nothing."""
        if isinstance(task, Rate):
            self.coverage.add(0)
            return onward(encoding, task.room, long)
        if not len(encoding):
            raise InputError(
                "it has no tokens: this model's tokenizer puts none around an empty text"
            )
        rows = windows(encoding, self.bundle.length, long)
        self.coverage.add(len(encoding) - rows[-1].first - len(rows[-1].row))
        self.coverage.cure = READ_ALL if long == "cut" else HALF
        return rows

    def _refuse_other_shape(self, task: Task, example: Example) -> None:
        """Refuse one text where pairs were learned, or a pair where single texts were; any text has a vector."""
        pairs = None if isinstance(task, Embed) else self.bundle.settings.get("pairs")
        if is_pair(example) and isinstance(task, Pretrain | Tag):
            raise InputError("it is a pair, and this model answers single texts")
        if is_pair(example) and isinstance(task, Embed):
            self._refuse_pair(task)
        if pairs is not None and pairs != is_pair(example):
            learned, given = (
                ("pairs of texts", "has no second text")
                if pairs
                else ("single texts", "has a second one")
            )
            raise InputError(f"the model learned from {learned}, and this one {given}")

    def _refuse_pair(self, task: Embed) -> None:
        """Refuse a vector for a pair that the model can't tell from one text, or for the words of a pair."""
        if task.pooling in ("words", "none"):
            raise InputError(
                f"it is a pair, and pool={task.pooling!r} gives the places of words in one text"
            )
        if not self._parts_pairs:
            raise InputError(
                "it is a pair, and this model's tokenizer puts no mark between two texts: join them yourself"
            )

    @cached_property
    def _parts_pairs(self) -> bool:
        """Whether the tokenizer puts a mark between two texts, or the model was trained on pairs without one."""
        parts = self.bundle.tokenizer.encode(["a"], ["a"])[0].parts
        between = parts[parts.index(0) : parts.index(1)] if {0, 1} <= set(parts) else []
        return bool(self.bundle.settings.get("pairs")) or None in between

    def _refuse_segments(self, encoding: Encoding) -> None:
        """Refuse a second text for which a model has no segment; one without segments reads it as it is."""
        known = getattr(self.bundle.model.settings, "segments", 0)
        if known and max(encoding.segments, default=0) >= known:
            raise InputError(
                f"it is a pair, and this model knows {known} segment: it reads single texts"
            )

    def _model(self, task: Task) -> Any:
        """What a task asks."""
        if isinstance(task, Rate):
            return self.bundle.language
        return self.bundle.encoder if isinstance(task, Embed) else self.bundle.reader

    def _answer(
        self, task: Task, examples: list[Example], long: Long, done: int, progress: Progress | None
    ) -> list[Any]:
        for number, example in enumerate(examples, done + 1):
            with _numbered(number):
                self._refuse_other_shape(task, example)
        encodings = task.features(examples, self.bundle.tokenizer)
        rows, owner = [], []
        for number, encoding in enumerate(encodings):
            with _numbered(done + number + 1):
                self._refuse_segments(encoding)
                cut = self._windows(task, encoding, long)
            rows += cut
            owner += [number] * len(cut)
        scores: list[Any] = [None] * len(rows)
        finished = 0
        model = self._model(task)
        with torch.inference_mode():
            for picked in plan([len(window.row) for window in rows], TOKENS_PER_BATCH):
                chosen = [rows[i] for i in picked]
                batch = make_batch([window.row for window in chosen], [owner[i] for i in picked])
                for i, score in zip(
                    picked, task.scores(model, self.bundle.head, batch, chosen), strict=True
                ):
                    scores[i] = score
                finished += len(picked)
                if progress:
                    progress(done + finished * len(examples) // len(rows))
            answers, start = [], 0
            for number, example in enumerate(examples):
                stop = start
                while stop < len(rows) and owner[stop] == number:
                    stop += 1
                answers.append(
                    task.answer(
                        example,
                        encodings[number],
                        task.combine(rows[start:stop], scores[start:stop]),
                    )
                )
                start = stop
        return answers


class _Raw:
    """A task whose answers are its scores."""

    def __init__(self, task: Task) -> None:
        self.features, self.scores, self.combine = task.features, task.scores, task.combine

    def answer(self, example: Example, encoding: Encoding, scores: Any) -> Any:
        """As they are."""
        return scores


@contextmanager
def _numbered(number: int) -> Iterator[None]:
    """Name the text that an error is about."""
    try:
        yield
    except InputError as error:
        raise InputError(f"text {number}: {error}") from error


def _chunks(examples: Iterable[Example]) -> Iterator[list[Example]]:
    chunk: list[Example] = []
    characters = 0
    for example in examples:
        chunk.append(example)
        characters += len(example.text) + (
            len(example.second or "") if isinstance(example, Labelled) else 0
        )
        if len(chunk) >= TEXTS_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def load_predictor(model: str | Path, threads: int | None = None) -> Predictor:
    """Open a model folder, or `minilm`, ready to answer."""
    as_whole("threads", threads, 1, MOST_THREADS, optional=True)  # before the folder is read
    return Predictor(load(as_path("model", model)), threads)


def say_unmatched(predictor: Predictor, whose: str = "") -> None:
    """Name the weights that a folder lacked; `whose` is said where there are several. Weights to spare are a warning of `load`."""
    if names := predictor.bundle.unmatched.missing:
        print(f"note: {whose}weights missing from the folder: {', '.join(names)}", file=sys.stderr)


def say_coverage(predictor: Predictor, whose: str = "") -> None:
    """Say how much text was cut off; `whose` is said where there are several."""
    if predictor.coverage.cut:
        print(f"note: {whose}{predictor.coverage}", file=sys.stderr)
