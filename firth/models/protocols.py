"""The contracts that models keep, so that nothing else needs to know which model it holds.

T tokens in the stream, B texts, D width, H heads, L tokens of a text, V vocabulary; of pairs: S
source tokens, U target tokens, O words that are written.

A network is an `nn.Module`, and a type that is both a module and a protocol can't be written in
Python. So what all networks have is a base class with defaults, and a contract that a model may
keep without being a network (an n-gram keeps counts) is a protocol.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.nn.attention import Attention
from firth.nn.cross import Crossed


class Hidden(NamedTuple):
    """What an encoder makes of a stream of texts."""

    tokens: Tensor  # (T, D) of the last layer
    pooled: Tensor | None  # (B, D), where the model has a summary of a text
    layers: tuple[Tensor, ...] = ()  # embedding and every layer, (T, D) each, if asked for
    weights: tuple[list[Tensor], ...] = ()  # a list a layer with (H, L, L) a text, if asked for

    def chosen(self, layers: Sequence[int]) -> list[Tensor]:
        """Return some of the layers, to be mixed; all have one width but perhaps the embedding."""
        found = [self.layers[layer] for layer in layers]
        width = self.tokens.shape[1]
        other = next((x.shape[1] for x in found if x.shape[1] != width), None)
        if other is not None:
            raise InputError(
                f"layer 0 has vectors of {other} numbers, and the layers above it of {width}: "
                "choose layers from 1 on"
            )
        return found


class LayerSteps(NamedTuple):
    """All that a recurrent layer computes for a text, step by step."""

    name: str
    values: dict[str, Tensor]  # (T, D) each, by the letters of the papers
    before: dict[str, Tensor]  # (D) what it held before its first step, h and perhaps c


class TokenCost(NamedTuple):
    """What one token costs a network, to estimate a training before it is begun."""

    products: int  # weights that a token is multiplied by
    pairs: int  # multiplications for each token that it attends to
    kept: int  # numbers that are kept for its gradient
    kept_pairs: int  # and for each token that it attends to
    layer: tuple[int, int]  # shape of a typical layer, by which the machine's speed is measured


class Backbone(nn.Module):
    """What a task's head stands on: an encoder, or features of one that is frozen.

    It is called with a stream, that is ids, positions and segments (T) and, on the CPU, the length
    of each text (B); `layers=True` and `weights=True` ask for every layer and for attention.
    """

    width: int
    __call__: Callable[..., Hidden]


class Network(nn.Module, ABC):
    """A model that is trained by gradient descent."""

    settings: Any  # of the family's settings class; `vocab` and `dropout` are among them
    gradient: ClassVar[bool] = True

    @property
    def body(self) -> nn.Module:
        """Return the layers that every token passes through, where they are a part of the whole."""
        return self

    @abstractmethod
    def set_dropout(self, probability: float) -> None:
        """Let every layer drop with one probability, and the settings say so."""

    def saved_tensors(self) -> list[str]:
        """Return the names of the tensors that a folder holds."""
        return list(self.state_dict())

    def finish_loading(self) -> None:
        """Tie what is one tensor, and refuse tensors that don't fit each other."""


class Encoder(Backbone, Network):
    """A network that gives every token a vector that depends on its text."""

    depth: int  # layers
    length: int | None  # tokens that a text may have; None for any number
    marks: int = 0  # the ids below it keep their numbers: some are known to the network
    segments: int | None = None  # kinds of segment that it tells apart; None if it ignores them
    eps: float = 1e-12  # of its norms, which a head over the vocabulary has too
    activation: str = "gelu"  # of a head over the vocabulary
    text_head_bias: ClassVar[bool] = True  # whether a head over whole texts has a bias
    # Whether its layers are a forward and a backward language model side by side.
    is_bilm: ClassVar[bool] = False

    @property
    @abstractmethod
    def table(self) -> nn.Parameter:
        """Return the token embedding, (V, D) or of a width of its own."""

    @abstractmethod
    def replace_table(self, rows: Tensor, trainable: bool = True) -> None:
        """Read token vectors from another table, of as many rows as it has."""

    @abstractmethod
    def initialise(self, module: nn.Module) -> None:
        """Give a module that stands on the encoder fresh weights, as the encoder's own are."""

    @abstractmethod
    def top_layers(self, count: int) -> Sequence[nn.Module]:
        """Return the last layers and whatever stands above them."""

    def attention_layers(self) -> Sequence[Attention]:
        """Return the attention of each layer, from the first on; nothing where there is none."""
        return ()

    def attention_bias(self, length: int) -> Tensor | None:
        """Return what all layers add to the logits of attention (H, L, L); None for nothing."""
        return None

    def recurrent_steps(self, ids: Tensor) -> Sequence[LayerSteps]:
        """Return what each recurrent layer computes for a text (T); nothing where there is none."""
        return ()

    def recurrent_weights(self) -> Sequence[Tensor]:
        """Return the matrices that a layer's state is multiplied by at every step."""
        return ()

    def layer_weights(self) -> Tensor | None:
        """Return how much of each layer is in a token's vector, where layers are mixed."""
        return None

    @property
    def position_table(self) -> Tensor | None:
        """Return the vectors of positions, the first text's first token first, if it has such."""
        return None

    def initialise_masked(self) -> None:
        """Change fresh weights to those that masked pretraining begins with."""

    def take_vectors(self, rows: Tensor) -> None:
        """Begin with these token vectors in place of new ones."""
        with torch.no_grad():
            self.table[: len(rows)] = rows

    def drop_output(self) -> None:
        """Remove what only a language model needs."""

    def set_pooler(self, wanted: bool) -> None:
        """Add a fresh layer that summarises a text, or remove it, where the network has such."""

    def shift_summary(self, vector: Tensor) -> None:
        """Add a vector to the summary of every text, where a head over texts has no bias."""
        raise NotImplementedError(f"{type(self).__name__} has heads with a bias")

    def token_cost(self) -> TokenCost:
        """Return what a token costs; a rough guess where a network doesn't say."""
        weights = sum(parameter.numel() for parameter in self.body.parameters())
        return TokenCost(weights, 0, 10 * self.width * self.depth, 0, (self.width, self.width))


class SearchState(Protocol):
    """What a model remembers of the tokens that it has read, a row for each text."""

    def pick(self, rows: Tensor) -> Self:
        """Return the state of the rows named, in that order; a beam drops some, repeats others."""
        ...


class State(SearchState, Protocol):
    """What a language model remembers: a text may be cut and read on from it."""

    def latest(self, most: int) -> Self:
        """Return the state with at most so many tokens remembered, where it remembers tokens."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """Return what reading on needs, a row first and without a gradient."""
        ...


class Backoff(NamedTuple):
    """How a word came by its probability in a model that backs off to shorter contexts."""

    order: int  # words of the longest n-gram found, 0 for a word that was never seen
    score: float  # natural log-probability
    parts: tuple[float, ...]  # what the uniform distribution and each order from 1 on add


class Marks(Protocol):
    """The settings that every language model has."""

    @property
    def vocab(self) -> int:
        """Return the number of tokens."""
        ...

    @property
    def start(self) -> int:
        """Return the mark that is read before a text."""
        ...

    @property
    def end(self) -> int | None:
        """Return the token that ends a text, where the model knows one."""
        ...


R = TypeVar("R", bound=SearchState)
S = TypeVar("S", bound=State)


class NextTokenModel(Protocol[R]):
    """What a search needs of a language model: the probabilities of the next token."""

    def start(self, rows: int) -> R:
        """Return the state before the first token."""
        ...

    def step(self, ids: Tensor, state: R) -> tuple[Tensor, R]:
        """Read a token a row (B), at first the start mark.

        Return the log-probability of every next one, (B, V), and the state after it.
        """
        ...


@runtime_checkable
class PrefillModel(NextTokenModel[R], Protocol[R]):
    """A model that also reads rows of any lengths at once, without a probability for each token."""

    def read(self, ids: Tensor, lengths: Tensor, state: R) -> R:
        """Return the state after a stream of tokens (T) in rows (B)."""
        ...


class LanguageModel(NextTokenModel[S], Protocol[S]):
    """A model that says how likely each token is after those before it."""

    @property
    def settings(self) -> Marks:
        """Return its sizes and the ids of its marks."""
        ...

    @property
    def vocab(self) -> int:
        """Return the number of tokens that it knows."""
        ...

    @property
    def gradient(self) -> bool:
        """Say whether it is a `Network`; a model that counts has `fit` instead."""
        ...

    @property
    def length(self) -> int | None:
        """Return how many tokens a row may have, the start mark included; None for any number.

        A model with a limit reads a long text in windows.
        """
        ...

    @property
    def reads_prompts(self) -> bool:
        """Say whether it has `read(ids, lengths, state)`, which reads rows without scoring them."""
        ...

    @property
    def backs_off(self) -> bool:
        """Say whether it has `explain(ids)`, which gives the `Backoff` of each token."""
        ...

    def opening(self, end: int) -> list[int]:
        """Return what stands before a text that begins anew, beside the start mark.

        `score` reads the start mark by itself. A model that carries its memory from line to line
        has hardly ever seen it: to such a model lines begin after the end of another.
        """
        ...

    def score(self, ids: Tensor, lengths: Tensor, state: S | None = None) -> tuple[Tensor, S]:
        """Return the natural log-probability of each token of a stream (T), and the state after it.

        Without a state, a row (B) begins as a sentence does.
        """
        ...

    def state(self, tensors: Mapping[str, Tensor]) -> S:
        """Return a state made of the tensors of another."""
        ...


class NeuralLanguageModel(Network):
    """A language model that is a network: what such a model has beside `LanguageModel`."""

    vocab: int
    length: int | None
    score: Callable[..., tuple[Tensor, Any]]
    reads_prompts: ClassVar[bool] = False
    backs_off: ClassVar[bool] = False

    @property
    @abstractmethod
    def token_layer(self) -> nn.Module:
        """Return the layer that turns ids into vectors, in whatever order they are read."""

    @abstractmethod
    def places(self, lengths: Tensor, far: int) -> Tensor:
        """Say where the tokens before each row's last one stand among the vectors of `token_layer`.

        Given the lengths of rows (B) that begin anew, return (B, far) numbers, that of the token
        next to the last one first, and -1 for tokens that the model doesn't see.
        """

    def learn_frequencies(self, counts: Tensor) -> None:
        """Take note of how often each token (V) occurs in the text to learn from."""

    def forgets(self, ids: Tensor) -> Tensor:
        """Say of each token whether nothing before it counts for what follows."""
        return torch.zeros_like(ids, dtype=torch.bool)


class Output(NamedTuple):
    """The layer that names the next token: the logits are `x @ weight.T + bias`."""

    weight: Tensor  # (O, D)
    bias: Tensor | None  # (O)


class EncoderDecoder(Network):
    """A network that reads a source text and says how likely each token of a target is.

    Sources and targets are two streams of as many texts each (B), text n of one belonging to text n
    of the other, in any order. No side is empty: a target has its end mark at least.

    The output layer has rows for the ids from `first` on: row r is the id `first` + r. Special
    tokens that are read and never written stand before it in the vocabulary.
    """

    length: int | None  # tokens that a side may have; None for any number
    width: int  # of the vectors that the output layer reads
    start: int  # the id that is read before the first target token
    end: int  # the id that ends a target
    aligned: int = 0  # the layer whose attention between the sides is most like an alignment
    __call__: Callable[..., Tensor]  # `teacher_forced`, by the call that training wraps

    @property
    def first(self) -> int:
        """Return the id of the output layer's first row: the end mark, unless a model says else."""
        return self.end

    @property
    @abstractmethod
    def output(self) -> Output:
        """Return the output layer, which may be a part of the table of target tokens."""

    @abstractmethod
    def teacher_forced(
        self, ids: Tensor, lengths: Tensor, target_ids: Tensor, target_lengths: Tensor
    ) -> Tensor:
        """Return a vector for each target token, from which the output layer names it: (U, D).

        Streams of ids (S and U) with, on the CPU, the lengths of their texts (B). Targets have
        their end mark and no start mark: the decoder reads the start mark and all but the last.
        """

    @abstractmethod
    def begin(self, ids: Tensor, lengths: Tensor) -> SearchState:
        """Read sources (S) of these lengths (B); return the state before the start mark."""

    @abstractmethod
    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read a target token a row (B), at first the start mark.

        Return the log-probabilities of the output layer's rows (B, O), and the state after it.
        """

    @abstractmethod
    def cross_attention(
        self, ids: Tensor, lengths: Tensor, target_ids: Tensor, target_lengths: Tensor
    ) -> Iterator[list[Crossed]]:
        """Yield layer by layer how each target attends to its source, given pairs as in training.

        A row is what the decoder attended to as it named that target token. Nothing for a model
        without attention between the sides.
        """

    def align(
        self, ids: Tensor, lengths: Tensor, target_ids: Tensor, target_lengths: Tensor
    ) -> list[Tensor] | None:
        """Return how each pair's target tokens weigh the source's, (target, source) numbers each.

        The mean of the heads of one layer (`aligned`), of which each row sums to 1. None for a
        model without attention.
        """
        layers = self.cross_attention(ids, lengths, target_ids, target_lengths)
        for layer in islice(layers, self.aligned, None):
            return [pair.weights.mean(0) for pair in layer]
        return None

    def attention_layers(self) -> tuple[Sequence[Attention], Sequence[Attention]]:
        """Return the self-attention of each layer of the encoder and of the decoder, if any."""
        return (), ()

    def recurrent_steps(
        self, ids: Tensor, target_ids: Tensor
    ) -> tuple[Sequence[LayerSteps], Sequence[LayerSteps]]:
        """Return what recurrent layers compute for a source (S) and for its target (U)."""
        return (), ()

    def context_vector(self, ids: Tensor) -> Tensor | None:
        """Return the one vector (D) that is known of a source (S), where nothing is attended to."""
        return None

    @property
    def position_table(self) -> Tensor | None:
        """Return the vectors of positions, the first token's first, if it has such."""
        return None

    def token_cost(self) -> TokenCost:
        """Return what a token of each side costs together; a guess where a network doesn't say."""
        weights = sum(parameter.numel() for parameter in self.parameters())
        return TokenCost(weights, 0, 20 * self.width, 0, (self.width, self.width))
