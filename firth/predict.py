"""Text in, typed answers out: batches by token budget, sorted by length, answers in the order asked."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from firth.base.errors import InputError
from firth.base.threads import available, keep_heap
from firth.bundle import Bundle, load
from firth.data.batch import make_batch, plan
from firth.data.examples import Example, Line
from firth.data.task import Task
from firth.data.window import Long, windows
from firth.tasks.classify import Classify
from firth.tasks.embed import Combine, Embed, Pool
from firth.tasks.pretrain import Pretrain
from firth.tasks.regress import Regress
from firth.tasks.tag import Tag
from firth.text.tokenizer import Encoding

# Tokens in a batch: enough for the matrix kernels, few enough for the layer's intermediate values to stay near the cores.
TOKENS_PER_BATCH = 3072
# Texts that are encoded and sorted together; what bounds memory when a file is larger than it.
TEXTS_AT_ONCE, CHARACTERS_AT_ONCE = 4096, 4 << 20

Progress = Callable[[int], None]  # told how many texts are done


@dataclass
class Coverage:
    """How much of the texts the model saw."""

    texts: int = 0
    cut: int = 0
    unseen: int = 0  # tokens

    def __str__(self) -> str:
        return (
            f"{self.cut:,} of {self.texts:,} texts were longer than the model reads and were cut: {self.unseen:,} tokens unseen "
            "(long='slide', on the command line --long slide, reads them all)"
        )


class Predictor:
    """A loaded model that answers; the command line, the server and notebooks all use this one."""

    def __init__(self, bundle: Bundle, threads: int | None = None) -> None:
        keep_heap()
        torch.set_num_threads(threads or available())
        self.bundle = bundle
        self.coverage = Coverage()

    def embed(
        self,
        texts: Sequence[str],
        *,
        pool: Pool | None = None,
        layers: Sequence[int] = (-1,),
        combine: Combine = "mean",
        long: Long = "cut",
    ) -> Any:
        """One vector a text as an array (texts, width), or with pool `words` or `none` a list of `Spans`, one a text."""
        _refuse_single(texts)
        task = self.embedder(pool, layers, combine)
        answers = list(self._warned(task, texts, long))
        if task.pooling in ("words", "none"):
            return answers
        width = self.bundle.encoder.width * (len(task.layers) if combine == "concat" else 1)
        return np.stack(answers) if answers else np.zeros((0, width), np.float32)

    def predict(self, texts: Sequence[str], *, top: int = 5, long: Long = "cut") -> list[Any]:
        """What the model was made for, for each text: a decision, a number, named spans, or the blanks filled with `top` pieces."""
        _refuse_single(texts)
        return list(self._warned(self.task(top), texts, long))

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
            return Classify(labels, kind == "several", None, settings.get("temperature", 1.0), settings.get("threshold", 0.0))
        if kind == "regress":
            return Regress()
        if kind == "tag":
            return Tag(labels)
        return self.filler(top)

    def embedder(self, pool: Pool | None = None, layers: Sequence[int] = (-1,), combine: Combine = "mean") -> Embed:
        """The task of embedding, as the folder says unless told otherwise."""
        depth = self.bundle.encoder.depth
        if not layers or not all(-depth - 1 <= layer <= depth for layer in layers):
            raise InputError(f"layers go from 0 (the embedding) to {depth} (the last), or from -1 (the last) to -{depth + 1}")
        sentence = self.bundle.sentence
        return Embed(pool or (sentence.pooling if sentence else "mean"), layers, combine, bool(sentence and sentence.normalise))

    def filler(self, top: int = 5) -> Pretrain:
        """The task of filling blanks, for a model that has a head for it."""
        if self.bundle.kind not in ("pretrain", "fill"):
            does = f"is for the task {self.bundle.kind!r}" if self.bundle.kind else "is an encoder without a head"
            raise InputError(
                f"this model {does}; predict fills blanks with a model that has a head for hidden words (firth embed gives vectors)"
            )
        return Pretrain(self.bundle.tokenizer, top)

    def stream(
        self, task: Task, texts: Iterable[str | Example], long: Long = "cut", progress: Progress | None = None
    ) -> Iterator[Any]:
        """Answer a stream of texts or examples of any length in bounded memory, in order."""
        done = 0
        for chunk in _chunks(Line(text) if isinstance(text, str) else text for text in texts):
            yield from self._answer(task, chunk, long, done, progress)
            done += len(chunk)

    def _warned(self, task: Task, texts: Sequence[str], long: Long) -> Iterator[Any]:
        self.coverage = Coverage()
        yield from self.stream(task, texts, long)
        if self.coverage.cut:
            warnings.warn(str(self.coverage), stacklevel=3)

    def _answer(self, task: Task, examples: list[Example], long: Long, done: int, progress: Progress | None) -> list[Any]:
        encodings = task.features(examples, self.bundle.tokenizer)
        rows, owner = [], []
        for number, encoding in enumerate(encodings):
            if not len(encoding):
                raise InputError(f"text {done + number + 1} has no tokens: this model's tokenizer puts none around an empty text")
            try:
                cut = windows(encoding, self.bundle.length, long)
            except InputError as error:
                raise InputError(f"text {done + number + 1}: {error}") from error
            rows += cut
            owner += [number] * len(cut)
            self.coverage.texts += 1
            if long == "cut" and len(encoding) > len(cut[0].row):
                self.coverage.cut += 1
                self.coverage.unseen += len(encoding) - len(cut[0].row)
        scores: list[Any] = [None] * len(rows)
        finished = 0
        model = self.bundle.encoder if isinstance(task, Embed) else self.bundle.reader
        with torch.inference_mode():
            for picked in plan([len(window.row) for window in rows], TOKENS_PER_BATCH):
                chosen = [rows[i] for i in picked]
                batch = make_batch([window.row for window in chosen], [owner[i] for i in picked])
                for i, score in zip(picked, task.scores(model, self.bundle.head, batch, chosen), strict=True):
                    scores[i] = score
                finished += len(picked)
                if progress:
                    progress(done + finished * len(examples) // len(rows))
            answers, start = [], 0
            for number, example in enumerate(examples):
                stop = start
                while stop < len(rows) and owner[stop] == number:
                    stop += 1
                answers.append(task.answer(example, encodings[number], task.combine(rows[start:stop], scores[start:stop])))
                start = stop
        return answers


class _Raw:
    """A task whose answers are its scores."""

    def __init__(self, task: Task) -> None:
        self.features, self.scores, self.combine = task.features, task.scores, task.combine

    def answer(self, example: Example, encoding: Encoding, scores: Any) -> Any:
        """As they are."""
        return scores


def _refuse_single(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise InputError("give a list of texts, not one string: every character would count as a text")


def _chunks(examples: Iterable[Example]) -> Iterator[list[Example]]:
    chunk: list[Example] = []
    characters = 0
    for example in examples:
        chunk.append(example)
        characters += len(example.text)
        if len(chunk) >= TEXTS_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def load_predictor(model: str | Path, threads: int | None = None) -> Predictor:
    """Open a model folder, or `minilm`, ready to answer."""
    return Predictor(load(model), threads)
