"""Tasks that encode a text and read it in windows: from texts to rows, and from rows to answers.

Training and prediction take the same way from a text to its rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from firth.base.errors import InputError
from firth.data.examples import Candidates, Example, is_pair
from firth.data.window import Long, Window, windows
from firth.tasks.task import Answered, OpenModel, Progress, Task

if TYPE_CHECKING:
    from torch import nn

    from firth.data.batch import Batch
    from firth.text.tokenizer import Encoding, Tokenizer

# Tokens in a batch: enough for the matrix kernels, few enough for the layer's intermediate values
# to stay near the cores.
TOKENS_PER_BATCH = 3072

A = TypeVar("A")  # an answer
S = TypeVar("S")  # what a model says of one row: logits
Finish = Callable[[Example, "Sequence[Encoding]", Sequence[S], int], A]


class EncodedTask(Task[A], Generic[S, A]):
    """A task that encodes an example once or several times and reads each encoding in windows."""

    single = False  # whether it answers single texts only

    def model(self, bundle: OpenModel) -> Any:
        """Return what is asked: by default what the head stands on."""
        return bundle.reader

    def check(self, example: Example, bundle: OpenModel) -> None:
        """Refuse one text where pairs were learned, or a pair where single texts were."""
        if self.single and is_pair(example):
            raise InputError("it is a pair, and this model answers single texts")
        refuse_unseparated(example, bundle)
        pairs = bundle.settings.get("pairs")
        if pairs is None or pairs == is_pair(example):
            return
        if pairs:
            raise InputError(
                "the model learned from pairs of texts, and this one has no second text"
            )
        raise InputError("the model learned from single texts, and this one has a second one")

    @abstractmethod
    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[Encoding]]:
        """Encode examples, whole: one or several encodings of each."""

    def windows(self, encoding: Encoding, length: int | None, long: Long) -> list[Window]:
        """Cut an encoding into rows that the model can read."""
        if not len(encoding):
            raise InputError(
                "it has no tokens: this model's tokenizer puts none around an empty text"
            )
        return windows(encoding, length, long)

    @abstractmethod
    def logits(
        self, model: Any, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[S]:
        """Run a model on a batch and return the logits of each of its rows, on the CPU."""

    @abstractmethod
    def combine(self, rows: Sequence[Window], logits: Sequence[S]) -> S:
        """Join the logits of all windows of one encoding."""

    @abstractmethod
    def answer(
        self, example: Example, encodings: Sequence[Encoding], logits: Sequence[S], truncated: int
    ) -> A:
        """Turn the logits of an example, one for each encoding, into the answer a person reads."""

    def answers(
        self,
        bundle: OpenModel,
        examples: Sequence[Example],
        long: Long,
        first: int,
        progress: Progress | None,
    ) -> list[Answered[A]]:
        """Encode, cut, batch by length, run the model, combine and answer."""
        return run(self, bundle, examples, long, first, progress, self.answer)


@dataclass
class Finished(Generic[S, A]):
    """A task with another last step: its logits as they are, or what is compared with the truth."""

    task: EncodedTask[S, Any]
    finish: Finish[S, A]

    @property
    def at_once(self) -> int:
        """How many examples are encoded together."""
        return self.task.at_once

    def check_long(self, long: Long) -> None:
        """Refuse a way to read long texts that makes no sense here."""
        self.task.check_long(long)

    def cure(self, long: Long) -> str:
        """Say what would let the model read what was cut off."""
        return self.task.cure(long)

    def answers(
        self,
        bundle: OpenModel,
        examples: Sequence[Example],
        long: Long,
        first: int,
        progress: Progress | None,
    ) -> list[Answered[A]]:
        """Answer some examples with the other last step."""
        return run(self.task, bundle, examples, long, first, progress, self.finish)


def refuse_unseparated(example: Example, bundle: OpenModel) -> None:
    """Refuse a pair that the tokenizer would join into one text, unless that was learned."""
    if not is_pair(example) or bundle.settings.get("pairs"):
        return
    if not bundle.tokenizer.separates_pairs:
        raise InputError(
            "it is a pair, and this model's tokenizer puts no mark between two texts: join them "
            "yourself"
        )


class Encoded(NamedTuple):
    """An example's encodings, and the windows of each."""

    encodings: list[Encoding]
    windows: list[list[Window]]
    truncated: int  # tokens that no window has


class ExampleError(InputError):
    """What is wrong with one of several examples; whoever knows its place says where it stands."""

    def __init__(self, number: int, example: Example, said: str, reason: str | None = None) -> None:
        super().__init__(said)
        self.number = number  # among those that were encoded together, or of the whole call
        self.example = example
        self.reason = reason or said  # without a place


def encode_examples(
    task: EncodedTask[Any, Any], examples: Sequence[Example], bundle: OpenModel, long: Long
) -> list[Encoded]:
    """Encode examples and cut them into windows; one that the model can't read is refused."""
    for number, example in enumerate(examples):
        try:
            task.check(example, bundle)
        except InputError as error:
            raise ExampleError(number, example, str(error)) from error
    every = task.encode(examples, bundle.tokenizer)
    found = []
    for number, (example, encodings) in enumerate(zip(examples, every, strict=True)):
        try:
            found.append(_cut(task, example, encodings, bundle, long))
        except InputError as error:
            raise ExampleError(number, example, str(error)) from error
    return found


def encode_numbered(
    task: EncodedTask[Any, Any],
    examples: Sequence[Example],
    bundle: OpenModel,
    long: Long,
    first: int,
) -> list[Encoded]:
    """Encode examples of which the first has a number in the whole call, which a refusal names."""
    try:
        return encode_examples(task, examples, bundle, long)
    except ExampleError as error:
        number = first + error.number
        said = f"text {number + 1}: {error}"
        raise ExampleError(number, error.example, said, error.reason) from error


def _cut(
    task: EncodedTask[Any, Any],
    example: Example,
    encodings: list[Encoding],
    bundle: OpenModel,
    long: Long,
) -> Encoded:
    """Cut the encodings of an example into windows; of candidates, name the one at fault."""
    known = getattr(bundle.model, "segments", None)
    windows = []
    truncated = 0
    for number, encoding in enumerate(encodings, 1):
        if known and max(encoding.segments, default=0) >= known:
            raise InputError(
                f"it is a pair, and this model knows {known} segment: it reads single texts"
            )
        try:
            rows = task.windows(encoding, bundle.length, long)
        except InputError as error:
            if not isinstance(example, Candidates):
                raise
            raise InputError(f"candidate {number}: {error}") from error
        windows.append(rows)
        last = rows[-1]
        truncated += len(encoding) - last.first - len(last.row)
    return Encoded(encodings, windows, truncated)


class _Place(NamedTuple):
    """Which window this is, of which encoding of which example."""

    example: int
    encoding: int
    window: Window


def run(
    task: EncodedTask[S, Any],
    bundle: OpenModel,
    examples: Sequence[Example],
    long: Long,
    first: int,
    progress: Progress | None,
    finish: Finish[S, A],
) -> list[Answered[A]]:
    """Answer examples with `finish`, the task's last step; `first` is the number of the first."""
    import torch

    encoded = encode_numbered(task, examples, bundle, long, first)
    with torch.inference_mode():
        logits = iter(_logits(task, bundle, encoded, first, progress))
        answers = []
        for example, one in zip(examples, encoded, strict=True):
            combined = []  # a result for each encoding of the example
            for rows in one.windows:
                of_windows = list(islice(logits, len(rows)))
                combined.append(task.combine(rows, of_windows))
            answer = finish(example, one.encodings, combined, one.truncated)
            answers.append(Answered(answer, one.truncated))
    return answers


def _logits(
    task: EncodedTask[S, Any],
    bundle: OpenModel,
    encoded: Sequence[Encoded],
    first: int,
    progress: Progress | None,
) -> list[S]:
    """Return the logits of every window, in order, by batches of rows of like length."""
    from firth.data.batch import make_batch, plan

    model = task.model(bundle)
    places: list[_Place] = []
    for example, one in enumerate(encoded):
        for encoding, rows in enumerate(one.windows):
            places += [_Place(example, encoding, window) for window in rows]

    lengths = [len(place.window.row) for place in places]
    found: dict[int, S] = {}  # by the number of the window
    for picked in plan(lengths, TOKENS_PER_BATCH):
        chosen = [places[number] for number in picked]
        windows = [place.window for place in chosen]
        batch = make_batch(
            [window.row for window in windows],
            [place.example for place in chosen],
            encodings=[place.encoding for place in chosen],
        )
        logits = task.logits(model, bundle.head, batch, windows)
        found.update(zip(picked, logits, strict=True))
        if progress:
            examples = len(found) * len(encoded) // len(places)
            progress(first + examples)
    return [found[number] for number in range(len(places))]
