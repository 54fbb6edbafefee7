"""The record of a model family: everything that commands need to know of it, free of torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import TypeAdapter, ValidationError

from firth.base.arguments import nearest
from firth.base.errors import InputError
from firth.base.settings import Settings, complaint
from firth.families.layout import Layout, write_head

Contract = Literal["encoder", "language model", "encoder-decoder", "static vectors"]
Vocabulary = Literal["wordpiece", "bytes", "words"]


class Import(NamedTuple):
    """A class or function that is imported when it is first called.

    The network and the recipe of a family import torch, which `--help` and refusals must not.
    """

    module: str
    name: str

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call what the name stands for."""
        return self.load()(*given, **named)

    def load(self) -> Any:
        """Return what the name stands for."""
        return getattr(import_module(self.module), self.name)


MASKED = Import("firth.recipes.masked", "Masked")
CAUSAL = Import("firth.recipes.causal", "Causal")
COUNTED = Import("firth.recipes.counted", "Counted")
SPANS = Import("firth.recipes.corruption", "SpanCorruption")


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family of models: how it is called, built, pretrained, saved and described.

    A family whose layout names no keys is kept under names of our own. One without a `recipe` is
    only read.
    """

    name: str  # `--model NAME`
    model_type: str  # in config.json
    help: str  # one line, for `--help`
    settings: type[Settings]
    network: Import | Callable[..., Any]  # builds the model from its settings
    contracts: frozenset[Contract]
    layout: Layout = field(default_factory=Layout)
    layer: str | None = None  # one of our tensors of each layer, with # for its number
    optional: Mapping[str, str] = field(default_factory=dict)  # setting -> a part that may lack
    runs_in_page: bool = False  # whether a page can hold a small model and run it
    arrays: frozenset[str] = frozenset()  # number formats, of a model that is no network
    # What follows is for families that are pretrained.
    recipe: Import | Callable[..., Any] | None = None
    options: frozenset[str] = frozenset()  # options of `pretrain` that not all families have
    unused: frozenset[str] = frozenset()  # options of training that mean nothing to it
    epochs: float | None = None  # where nobody says how long to train
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    default_size: str = "mini"
    timed_sizes: tuple[str, ...] = ()  # those that `--minutes` chooses from, smallest first
    vocabulary: Vocabulary = "wordpiece"  # that is learned where none is given
    sentinels: int = 0  # of that vocabulary: tokens that stand for spans of a text
    dropout: float = 0.0
    one_mark: bool = False  # whether one token may both begin a text and end a line
    end_is_word: bool = False  # whether memory is carried over the end of a line
    # What follows is for families whose models `finetune` can begin with new weights.
    new_size: str | None = None  # of such a model; None where there is none
    vectors: str = "width"  # the setting that is the width of a token's vector
    finetune_options: frozenset[str] = frozenset()  # that not all of them have

    @property
    def is_encoder(self) -> bool:
        """Say whether its models give every token a vector."""
        return "encoder" in self.contracts

    @property
    def is_language_model(self) -> bool:
        """Say whether its models say what comes next."""
        return "language model" in self.contracts

    @property
    def is_encoder_decoder(self) -> bool:
        """Say whether its models make a target of a source."""
        return "encoder-decoder" in self.contracts

    def predicts(self, settings: Any) -> bool:
        """Say whether a model of these settings says what comes next."""
        return self.is_language_model

    @property
    def takes_heads(self) -> bool:
        """Say whether its models can be fine-tuned, and saved with a head for a task.

        Of a family that transformers knows, only heads that it knows too.
        """
        return self.is_encoder and (bool(self.layout.heads) or not self.layout.bare)

    @property
    def counts(self) -> bool:
        """Say whether its models are counted instead of trained by gradient descent."""
        return self.recipe == COUNTED

    @property
    def moves_vocabulary(self) -> bool:
        """Say whether pretraining can go on with another vocabulary."""
        return self.recipe == MASKED

    @property
    def network_class(self) -> Any:
        """Return the class of its models, which imports torch."""
        return self.network.load() if isinstance(self.network, Import) else self.network

    @property
    def has_length(self) -> bool:
        """Say whether a text may have only so many tokens."""
        return "length" in self.settings.model_fields

    @property
    def adjustable(self) -> dict[str, str]:
        """Return the settings that a user may set for a new model, with their descriptions."""
        fields = self.settings.model_fields.items()
        found = {name: known.description for name, known in fields if known.description}
        return {name: text for name, text in found.items() if name not in self.options}

    def refuse_value(self, name: str, value: object) -> None:
        """Raise a ValueError where a value can't be that of an adjustable setting."""
        field = self.settings.model_fields[name]
        kind: Any = Annotated[field.annotation, *field.metadata]
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        try:
            adapter.validate_python(value, strict=True)
        except ValidationError as error:
            reason = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise ValueError(f"--{name}: {reason}, not {value!r}") from error

    def settings_for(
        self, size: str, overrides: Mapping[str, Any] | None = None, **given: Any
    ) -> Any:
        """Return the settings of a new model of a named size.

        What is `given` and no setting of this family is left out; an override that is none is an
        error of the user's.
        """
        overrides = overrides or {}
        for name in overrides:
            if name not in self.adjustable:
                close = nearest(name, self.adjustable)
                raise InputError(f"{self.name} has no setting {name!r} to be set{close}")
        fields = self.settings.model_fields
        known = {name: value for name, value in given.items() if name in fields}
        values = self.complete({**self.sizes[size], **known, **overrides})
        try:
            return self.settings.model_validate(values)
        except ValidationError as error:
            raise InputError(f"{self.name}: {complaint(error)}") from error

    def card(self, model: Any) -> str:
        """Say in a few words what a model is, for its model card."""
        return f"A model of the family {self.name}"

    def complain(self, options: Mapping[str, Any]) -> str | None:
        """Say what is wrong with the options of `pretrain` for this family; None if nothing is."""
        return None

    def training(self, settings: Any) -> dict[str, float]:
        """Return the defaults of the training loop that suit a model of these settings."""
        return {}

    def fine_tuning_rate(self, settings: Any) -> float | None:
        """Return the learning rate that suits a model of these settings; None for one by width."""
        return None

    def layer_of(self, settings: Any) -> str | None:
        """Return one of our tensors of each layer, with # for its number."""
        return self.layer

    def layer_tensors(self, settings: Any) -> list[str]:
        """Return one of our tensors of every layer that the settings promise."""
        layer = self.layer_of(settings)
        if layer is None:
            return []
        return [layer.replace("#", str(number)) for number in range(settings.depth)]

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add the sizes that follow from others."""
        return values

    def read(self, config: Mapping[str, Any], where: str) -> Any:
        """Return the settings in a config.json, refusing what the network can't express."""
        for key, value in self.layout.fixed.items():
            given = config.get(key, value)
            if given != value:
                raise InputError(f"{where}: {key} is {given!r}; Firth runs {value!r} only")
        try:
            values = self.values(config, where)
            return self.settings.model_validate(values)
        except ValidationError as error:
            raise InputError(f"{where}: {self._reason(error)}") from error

    def values(self, config: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the settings in a config.json before they are checked."""
        names = self.layout.settings
        if not names:
            return {key: value for key, value in config.items() if key != "model_type"}
        return {ours: config[theirs] for ours, theirs in names.items() if theirs in config}

    def _reason(self, error: ValidationError) -> str:
        """Say what is wrong with a setting, by the name that it has in config.json."""
        reason = complaint(error)
        names = self.layout.settings
        if not names:
            return reason
        place = error.errors()[0]["loc"]
        name = str(place[0]) if place else ""
        theirs = names.get(name, name) or "sizes"
        reason = reason.removeprefix(f"{name}: ")
        return f"{theirs}: {reason}"

    def write(
        self,
        settings: Any,
        kind: str | None = None,
        labels: tuple[str, ...] = (),
        tied: bool = True,
        pad: int | None = None,
    ) -> dict[str, Any]:
        """Return the config.json of a model with a head of some kind."""
        names = self.layout.settings
        if not names:
            return {"model_type": self.model_type, **settings.model_dump(mode="json")}
        values = settings.model_dump()
        page = {theirs: values[ours] for ours, theirs in names.items()}
        page |= self.constants(settings, tied, pad)
        return page | write_head(self.layout, kind, labels)

    def constants(self, settings: Any, tied: bool, pad: int | None) -> dict[str, Any]:
        """Return what stands in config.json beside settings and head."""
        return {
            "model_type": self.model_type,
            "pad_token_id": 0,
            "tie_word_embeddings": tied,
            "dtype": "float32",
        }
