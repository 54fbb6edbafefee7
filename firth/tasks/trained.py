"""Tasks that are learned from examples: how they are read, trained and scored."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeVar

from firth.data.examples import Example
from firth.data.window import Window
from firth.reading.rowreader import RowReader
from firth.tasks.encoded import EncodedTask

if TYPE_CHECKING:
    from torch import Tensor, nn

    from firth.data.batch import Batch
    from firth.data.rows import Targets
    from firth.metrics.decisions import Confidences, GradedAnswer
    from firth.metrics.sums import Difference, Interval, Tally
    from firth.models.protocols import Encoder
    from firth.nn.heads import LinearHead
    from firth.text.tokenizer import Encoding

A = TypeVar("A")  # an answer
S = TypeVar("S")  # what a model says of one row: logits


class TrainingData(NamedTuple):
    """What a model is to be fine-tuned on, as the task is told of it."""

    train: Sequence[Example]
    dev: Sequence[Example]
    train_name: str
    dev_name: str | None
    options: Mapping[str, Any]  # of `finetune`, that are the task's own

    @property
    def train_names(self) -> set[str]:
        """The labels to learn."""
        return {name for example in self.train for name in example.names}

    @property
    def dev_names(self) -> set[str]:
        """The labels to measure on."""
        return {name for example in self.dev for name in example.names}


class Scoring(ABC):
    """Adds up the metrics of one task as graded answers come, of one model or of several.

    All is sums, but for `answers`, which are kept only where they are asked for.
    """

    tally: Tally
    misaligned = 0  # spans that begin or end inside a word
    positive: str | None = None  # the class that `f1` is of, where there is one
    confidences: Confidences | None = None  # where answers have them
    answers: Sequence[GradedAnswer] = ()
    signatures: Mapping[str, str] = {}  # of metrics that are computed in several ways

    @abstractmethod
    def add(self, example: Example, graded: Any) -> None:
        """Count what the task's `graded` gave for an example."""

    @property
    def count(self) -> int:
        """How many answers were counted."""
        return self.tally.sums.count

    def scores(self) -> dict[str, Interval]:
        """Return every published metric, with its interval."""
        return self.tally.scores()

    def against(self, other: Scoring) -> dict[str, Difference]:
        """Return how much higher each metric is than another model's on the same examples."""
        return self.tally.against(other.tally)


class TrainedTask(EncodedTask[S, A]):
    """A task that is learned from examples, and an `Objective` of the training loop.

    `single` and what `reader` reads are told of a class; the rest is told of an instance.
    """

    reader: ClassVar[type[RowReader]]  # of the rows of a file
    # Options of `finetune` that are its own, and what they are for: --balance is for classes.
    options: ClassVar[Mapping[str, str]] = {}
    # Metrics by which the best model of a kind may be selected, the default first.
    selectable: ClassVar[Mapping[str, tuple[str, ...]]]
    # What the models are that learn it: an encoder with a head, or an encoder-decoder as it is.
    contract: ClassVar[Literal["encoder", "encoder-decoder"]] = "encoder"
    usual: ClassVar[Mapping[str, Any]] = {}  # settings of `finetune`, where nobody says otherwise
    unused: ClassVar[frozenset[str]] = frozenset()  # options of `finetune` that mean nothing to it
    most_epochs: ClassVar[float] = 10.0  # passes over few examples
    pooled: ClassVar[bool] = True  # whether its head reads a summary of the text, or each token
    head_dropout: ClassVar[bool] = True  # whether what its head reads is dropped in training
    calibrates: bool = False  # whether its confidences are calibrated after training
    select: str  # the metric by which the best model is selected

    @classmethod
    @abstractmethod
    def plan(cls, data: TrainingData) -> tuple[str, tuple[str, ...]]:
        """Return the kind of model that examples ask for, and its labels in order."""

    @classmethod
    @abstractmethod
    def of_examples(
        cls,
        kind: str,
        labels: Sequence[str],
        examples: Sequence[Example] = (),
        select: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the task of a model that is to learn from examples."""

    @classmethod
    def check_dev(cls, dev: Sequence[Example], name: str, options: Mapping[str, Any]) -> None:
        """Refuse held-out examples on which what was asked for can't be measured."""

    @classmethod
    def metric(
        cls, asked: str | None, kind: str, labels: Sequence[str], options: Mapping[str, Any]
    ) -> str:
        """Return the metric that selects the best model: the one asked for, or the task's own."""
        known = cls.selectable[kind]
        return asked or known[0]

    @classmethod
    def outputs(cls, labels: Sequence[str]) -> int:
        """Return how many logits the head gives."""
        return len(labels)

    @classmethod
    def make_head(
        cls,
        encoder: Encoder,
        kind: str,
        labels: tuple[str, ...],
        tied: bool = True,
        width: int | None = None,
    ) -> nn.Module | None:
        """Make a fresh linear head."""
        head = linear_head(encoder, cls.outputs(labels), cls.pooled, width)
        if not cls.head_dropout:
            head.dropout = 0.0
        return head

    @classmethod
    def label_names(cls, labels: Iterable[str]) -> list[str]:
        """Return the names that a model tells apart, of which its labels are made."""
        return list(labels)

    @abstractmethod
    def targets(
        self, example: Example, encodings: Sequence[Encoding], number: int, window: Window
    ) -> Targets:
        """Return what a row is to say: a window of the encoding with this number."""

    @property
    @abstractmethod
    def sums(self) -> tuple[str, ...]:
        """The names that `tally` gives."""

    @abstractmethod
    def counts(self, batch: Batch) -> dict[str, float]:
        """Return over how many targets of a batch each loss is summed."""

    @abstractmethod
    def losses(self, encoder: Any, head: Any, batch: Batch) -> dict[str, Tensor]:
        """Run a model on a batch and sum each loss over its targets."""

    @abstractmethod
    def tally(self, encoder: Any, head: Any, batch: Batch) -> dict[str, float]:
        """Return the sums over a batch that `metrics` needs; all rows of an example are in it."""

    @abstractmethod
    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return published metrics, and the loss, from the sums over all batches."""

    def select_value(self, metrics: Mapping[str, float]) -> float:
        """Return the figure that is highest for the best model."""
        return metrics[self.select]

    def settings(self) -> dict[str, Any]:
        """Return what the folder keeps of the task beside its labels."""
        return {}

    def misaligned(self, example: Example, encoding: Encoding) -> int:
        """Count the named spans that begin or end inside a word, where a task has spans."""
        return 0

    def prepare(self, encoder: Encoder, head: nn.Module | None) -> None:
        """Bring a head that has learned before to where it learns on."""

    def finish(self, encoder: Encoder, head: nn.Module | None) -> None:
        """Change a trained head so that its folder is one like any other."""

    def calibrate(
        self, examples: Sequence[Example], logits: Sequence[Sequence[S]]
    ) -> dict[str, float]:
        """Return settings that make confidences true, from the logits of held-out examples."""
        return {}

    def graded(
        self, example: Example, encodings: Sequence[Encoding], logits: Sequence[S], truncated: int
    ) -> Any:
        """Return what is compared with the truth: by default the answer."""
        return self.answer(example, encodings, logits, truncated)

    @abstractmethod
    def scoring(
        self, others: Iterable[str] = (), positive: str | None = None, keep: bool = True
    ) -> Scoring:
        """Return what adds up this model's graded answers.

        `others` are labels of the examples, of which the model may know only some; `positive` is
        the class whose F1 is given where there are two; `keep` keeps the answers.
        """

    def check_reader(self, reader: RowReader, data: object, model: str) -> None:
        """Refuse a file to measure a model on whose labels are of another kind."""


def linear_head(
    encoder: Encoder, outputs: int, pooled: bool, width: int | None = None
) -> LinearHead:
    """Make a fresh linear head, over a summary of the text or over each token."""
    from firth.nn.heads import LinearHead

    bias = encoder.text_head_bias or width is not None or not pooled
    return LinearHead(width or encoder.width, outputs, encoder.settings.dropout, bias=bias)
