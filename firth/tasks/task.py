"""The contract of a task: one class in one file says all that the rest of the package asks of it.

Its attributes are the task's record, which `--help`, `check` and refusals read without torch; an
instance is the task of one model, with its labels and settings. So a file of this folder imports
torch only inside the functions that compute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    Self,
    TypeVar,
)

from firth.data.examples import Example, Label
from firth.data.window import Long
from firth.reading.layout import Cell
from firth.reading.rowreader import RowReader
from firth.reading.tagged import TokenTextReader

if TYPE_CHECKING:
    from torch import nn

    from firth.models.protocols import Encoder, LanguageModel
    from firth.text.tokenizer import Tokenizer

EXAMPLES_AT_ONCE = 4096  # that are encoded and sorted together, which bounds memory
READ_ALL = "(--long slide reads them all)"
HALF = "(of a pair of long texts the shorter has at most half of each window)"

A = TypeVar("A")  # an answer
MeasuredOn = Literal["examples", "text", "masked text", "text both ways"]
Progress = Callable[[int], None]  # told how many examples are done


class OpenModel(Protocol):
    """What a task asks of an opened folder."""

    @property
    def kind(self) -> str | None:
        """What the model does, as its folder spells it."""
        ...

    @property
    def model(self) -> Any:
        """The network or the counts."""
        ...

    @property
    def encoder(self) -> Encoder:
        """The model that gives every token a vector."""
        ...

    @property
    def reader(self) -> Any:
        """What the head stands on: the encoder, or features of one that is frozen."""
        ...

    @property
    def language(self) -> LanguageModel[Any]:
        """The model that says what comes next."""
        ...

    @property
    def head(self) -> nn.Module | None:
        """What turns vectors into logits."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        ...

    @property
    def length(self) -> int | None:
        """How many tokens of a text are read; None if there is no limit."""
        ...

    @property
    def end(self) -> int:
        """The token that ends a line to a language model."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the head, in the order of its logits."""
        ...

    @property
    def values(self) -> tuple[Label, ...]:
        """The labels as the data had them, where they were not all strings."""
        ...

    @property
    def settings(self) -> dict[str, Any]:
        """The task's own settings: pairs, temperature, threshold ..."""
        ...


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a model says of one text; a task has a subclass of its own."""

    truncated_tokens: int = 0  # of the text, which the model didn't read

    def as_json(self) -> dict[str, object]:
        """Return the answer as a JSON object."""
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        truncated = own.pop("truncated_tokens")
        return own | {"truncated_tokens": truncated}

    def figures(self) -> dict[str, float]:
        """Return the numbers by which answers to one text are compared, by their names."""
        return {}


class Task(ABC, Generic[A]):
    """What is done with a model. It has no weights; its head, if any, is a module of the bundle."""

    name: ClassVar[str]
    help: ClassVar[str]  # a line for the command line
    # How firth.json spells what a model does, and what such a model gives.
    kinds: ClassVar[Mapping[str, str]] = {}
    heads: ClassVar[Mapping[str, str]] = {}  # how messages name the heads, where it has no labels
    asks: ClassVar[type[RowReader]] = TokenTextReader  # of the rows of a file that it answers
    takes_prompts: ClassVar[bool] = False  # whether it continues single texts
    asked_by: ClassVar[str | None] = None  # the option of `predict` that asks one question
    # What is done with a text that is longer than the model reads, where nobody says.
    usual_long: ClassVar[Long] = "cut"
    measured_on: ClassVar[MeasuredOn] = "examples"  # by `evaluate`, where it is measured at all
    predict_options: ClassVar[tuple[str, ...]] = ()  # of `predict`, that are the task's own
    replaces: ClassVar[bool] = False  # whether answers overwrite fields of the input in a .jsonl
    # Fields of a record that a column of the answers has too, by that column's name.
    twins: ClassVar[Mapping[str, str]] = {}
    extra_fields: ClassVar[tuple[str, ...]] = ()  # of a record, that no column has
    at_once: int = EXAMPLES_AT_ONCE
    columns: Mapping[str, Cell]  # of an answer in a table

    @classmethod
    @abstractmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task of an opened folder; `options` are `predict`'s own."""

    @classmethod
    def make_head(
        cls,
        encoder: Encoder,
        kind: str,
        labels: tuple[str, ...],
        tied: bool = True,
        width: int | None = None,
    ) -> nn.Module | None:
        """Make a fresh head, `width` wide where that isn't the encoder's; None if it needs none."""
        return None

    def check_long(self, long: Long) -> None:
        """Refuse a way to read long texts that makes no sense here."""

    def cure(self, long: Long) -> str:
        """Say what would let the model read what was cut off."""
        return READ_ALL if long == "cut" else HALF

    @abstractmethod
    def answers(
        self,
        bundle: OpenModel,
        examples: Sequence[Example],
        long: Long,
        first: int,
        progress: Progress | None,
    ) -> list[Answered[A]]:
        """Answer some examples; `first` is the number of the first in the whole call, from 0."""

    def columns_for(self, example: Example | None) -> Mapping[str, Cell]:
        """Return the columns of a table of answers to examples such as this one."""
        return self.columns

    def line(self, example: Example, answer: A) -> str:
        """Return an answer as a person reads it."""
        return str(answer)

    def record(self, example: Example, answer: A) -> dict[str, Any]:
        """Return an answer as a JSON object, with what was asked."""
        assert isinstance(answer, Answer)
        given = {"text": example.text}
        if example.second is not None:
            given["second"] = example.second
        return given | answer.as_json()

    def cells(self, example: Example, answer: A) -> dict[str, Any]:
        """Return an answer as the columns of a table."""
        record = self.record(example, answer)
        return {name: record[name] for name in self.columns_for(example)}


class Answered(NamedTuple, Generic[A]):
    """An answer, and how many tokens of the example the model didn't read."""

    answer: A
    truncated: int
