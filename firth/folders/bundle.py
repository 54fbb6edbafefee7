"""The bundle: a model in memory, with all that its folder holds beside the weights."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from torch import nn

from firth.base.errors import InputError
from firth.data.examples import Label
from firth.data.window import Long
from firth.families.family import Family
from firth.families.layout import LANGUAGE_MODEL, TRANSLATOR
from firth.families.registry import by_model_type
from firth.folders.features import Features
from firth.folders.sentence import Sentence
from firth.models.protocols import Backbone, Encoder, EncoderDecoder, LanguageModel, Network
from firth.reading.columns import Named
from firth.tasks.head import is_tied
from firth.tasks.registry import find_kind, has_kind
from firth.text.tokenizer import Tokenizer


class Unmatched(NamedTuple):
    """Weights that a folder lacks, and weights that the model has no place for, by their names."""

    missing: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


@dataclass
class Bundle:
    """A model in memory: what a folder holds and what is passed between commands.

    `kind` is what the model does: the task of its head, `continue` for a language model and
    `translate` for an encoder-decoder; None for a bare encoder. `settings` are the task's own:
    answer_margin, length, long, missing, pairs, stride, temperature, threshold.
    """

    model: Encoder | LanguageModel[Any] | EncoderDecoder
    tokenizer: Tokenizer
    family: str = "bert"  # the model_type of its folder
    kind: str | None = None
    head: nn.Module | None = None
    labels: tuple[str, ...] = ()
    sentence: Sentence | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    unmatched: Unmatched = field(default_factory=Unmatched)
    features: Features | None = None  # layers that the head reads of an encoder left as it was
    unusable: str | None = None  # the architecture of a head that Firth can't answer with
    values: tuple[Label, ...] = ()  # the labels as the data had them, where not all were strings
    columns: Named | None = None  # of the file that the head was trained with
    target_tokenizer: Tokenizer | None = None  # where targets have a vocabulary of their own
    writes_spans: bool = False  # whether an encoder-decoder has learned span corruption alone

    @property
    def record(self) -> Family:
        """Return the record of the model's family."""
        return by_model_type(self.family, "this model")

    @property
    def encoder(self) -> Encoder:
        """Return the model as one that gives every token a vector."""
        if not isinstance(self.model, Encoder):
            does = "translates" if self.record.is_encoder_decoder else "says what comes next"
            raise InputError(f"a {self.family} model gives no vectors: it only {does}")
        return self.model

    @property
    def gives_vectors(self) -> bool:
        """Say whether the model gives every token a vector."""
        return isinstance(self.model, Encoder)

    @property
    def language(self) -> LanguageModel[Any]:
        """Return the model as one that says what comes next."""
        predicts = self.record.predicts(self.model.settings)
        if not predicts or self.kind != LANGUAGE_MODEL:
            does = f" for the task {self.kind!r}" if self.kind else ""
            raise InputError(
                f"a {self.family} model{does} is no language model: it does not say what comes next"
            )
        return cast("LanguageModel[Any]", self.model)

    @property
    def translator(self) -> EncoderDecoder:
        """Return the model as one that makes a target of a source."""
        if not isinstance(self.model, EncoderDecoder):
            raise InputError(f"a {self.family} model is no encoder-decoder: it doesn't translate")
        return self.model

    @property
    def is_language_model(self) -> bool:
        """Say whether the model is for what comes next."""
        return self.kind == LANGUAGE_MODEL

    @property
    def targets(self) -> Tokenizer:
        """Return the tokenizer of targets: their own, or that of both sides."""
        return self.target_tokenizer or self.tokenizer

    @property
    def network(self) -> Network:
        """Return the model as one that is trained by gradient descent."""
        if not isinstance(self.model, Network):
            raise InputError(f"a {self.family} model is counted: it has no weights to train")
        return self.model

    @property
    def end(self) -> int:
        """Return the token that ends a line of text to a language model."""
        mark = self.language.settings.end
        if mark is None:
            mark = self.tokenizer.sep
        if mark is None:
            raise InputError("neither the model nor its tokenizer has a mark for the end of a line")
        return mark

    @property
    def reader(self) -> Backbone:
        """Return what the head stands on."""
        return self.features or self.encoder

    @property
    def length(self) -> int | None:
        """Return how many tokens of a text the folder says to read; None if there is no limit."""
        of_sentence = self.sentence.length if self.sentence else None
        chosen = self.settings.get("length")
        if chosen is None and self.model.length is None and isinstance(self.model, EncoderDecoder):
            # T5 reads any length: how much it has learned to read, its tokenizer says.
            chosen = self.tokenizer.length
        limits = (self.model.length, chosen, of_sentence)
        lengths = [length for length in limits if length]
        return min(lengths, default=None)

    @property
    def long(self) -> Long:
        """Return what the folder says to do with a text that is longer."""
        usual: Long = "cut"
        if has_kind(self.kind):
            usual = find_kind(str(self.kind)).usual_long
        chosen: Long = self.settings.get("long", usual)
        return chosen

    @property
    def tied(self) -> bool:
        """Say whether a head over the vocabulary shares the embedding's table."""
        return self.head is None or is_tied(self.head, self.encoder)

    @property
    def own_head(self) -> bool:
        """Say whether the head is one that the family's layout has no place for."""
        if self.kind in (None, LANGUAGE_MODEL, TRANSLATOR):
            return False
        return self.features is not None or self.kind not in self.record.layout.heads

    @property
    def reads_segments(self) -> bool:
        """Say whether the model tells the two texts of a pair apart by segments."""
        if not isinstance(self.model, Encoder):
            return False
        segments = self.model.segments or 0
        return segments > 1
