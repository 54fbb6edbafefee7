"""What the feed-forward and the recurrent language model share: marks, row layout, output layer.

T tokens in the stream, B rows, D width, V vocabulary. As in the n-gram model, a row begins after
one start mark or where its state left off, and the end of a sentence is a token like any other,
given by the caller.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.families.language import LanguageSettings
from firth.models.protocols import NeuralLanguageModel
from firth.nn.softmax import ClassSoftmax, FullSoftmax, SampledSoftmax

WRITTEN = "output.table"  # the table of words that are written, which may be that of words read
ROUNDING = 1e-3  # of a sum of many shares


def make_output(
    settings: LanguageSettings, width: int, table: Tensor
) -> FullSoftmax | ClassSoftmax:
    """Return the output layer over vectors of a width; `table` is the input embedding's."""
    s = settings
    tied = table if s.tied else None
    if s.output == "classes":
        return ClassSoftmax(width, s.symbols, s.start, s.cutoffs)
    if s.output == "sampled":
        return SampledSoftmax(width, s.symbols, s.start, s.samples, s.spread, tied)
    return FullSoftmax(width, s.symbols, s.start, s.spread, tied)


class Table(nn.Embedding):
    """The vectors of the words that are read.

    They leave the table larger than they stand in it, by the root of the width (Vaswani et al.,
    2017): small numbers suit the output, which may be tied to the table, but from vectors as small
    the layers learn next to nothing at first.
    """

    def __init__(self, settings: LanguageSettings, width: int) -> None:
        super().__init__(settings.symbols, width)
        nn.init.uniform_(self.weight, -settings.spread, settings.spread)

    def replace(self, rows: Tensor, trainable: bool) -> None:
        """Hold other vectors, of as many words as there are."""
        self.weight = nn.Parameter(rows, requires_grad=trainable)
        self.num_embeddings = len(rows)

    def forward(self, ids: Tensor) -> Tensor:
        """The vectors (..., D) of ids (...)."""
        return super().forward(ids) * self.factor

    @property
    def factor(self) -> float:
        """Return how many times larger the vectors are than their rows."""
        return math.sqrt(self.embedding_dim)


class RowLayout(NamedTuple):
    """Where the rows that are not empty stand in a stream."""

    rows: Tensor  # which they are
    first: Tensor  # where they begin
    last: Tensor  # and their last tokens


def lay_out(ids: Tensor, lengths: Tensor, held: int, settings: LanguageSettings) -> RowLayout:
    """Check a stream against the vocabulary and against the number of rows that a state holds."""
    tokens = len(ids)
    if held != len(lengths):
        raise InputError(f"a state of {held} rows can't go on with {len(lengths)}")
    negative = lengths < 0
    if negative.any() or int(lengths.sum()) != tokens:
        raise InputError(f"the rows' lengths don't add up to {tokens} tokens")
    outside = (ids < 0) | (ids >= settings.vocab)
    wrong = outside & (ids != settings.start)
    if wrong.any():
        first_wrong = int(ids[wrong][0])
        vocabulary = f"the model's vocabulary of {settings.vocab}"
        raise InputError(f"the id {first_wrong} is not in {vocabulary}")

    stop = lengths.cumsum(0)
    rows = lengths.nonzero()[:, 0]
    first = (stop - lengths)[rows]
    last = stop[rows] - 1
    device = ids.device
    return RowLayout(rows.to(device), first.to(device), last.to(device))


def begins(ids: Tensor, settings: LanguageSettings) -> Tensor:
    """Return whether a sentence begins after each token, so that nothing before counts."""
    found = ids == settings.start
    if settings.end is None:
        return found
    return found | (ids == settings.end)


class WordLanguageModel(NeuralLanguageModel):
    """A network over whole words: a table of those that are read, and an output layer."""

    settings: LanguageSettings
    length: int | None = None
    output: FullSoftmax | ClassSoftmax

    def __init__(self, settings: LanguageSettings, width: int) -> None:
        super().__init__()
        self.settings = settings
        self.vocab = settings.vocab
        # In folders the layer has the name that encoders have for its tensor.
        self._modules["table"] = Table(settings, width)

    def add_output(self, width: int) -> None:
        """Add the layer that finds the probabilities of words by vectors of a width."""
        self.output = make_output(self.settings, width, self.table)

    def set_dropout(self, probability: float) -> None:
        """Drop with a probability, and let the settings say so."""
        update = {"dropout": probability}
        self.settings = self.settings.model_copy(update=update)

    def opening(self, end: int) -> list[int]:
        """Return the end of a line, if the model remembers what was before it."""
        if self.settings.end is None:
            return [end]
        return []

    @property
    def token_layer(self) -> Table:
        """Return the layer of the words that are read."""
        layer = self._modules["table"]
        assert isinstance(layer, Table)
        return layer

    @property
    def table(self) -> nn.Parameter:
        """Return the vectors of the words that are read, (V, D)."""
        table = self.token_layer.weight
        assert isinstance(table, nn.Parameter)
        return table

    def forgets(self, ids: Tensor) -> Tensor:
        """Say of each token whether a sentence begins after it."""
        return begins(ids, self.settings)

    def learn_frequencies(self, counts: Tensor) -> None:
        """Rank words by how often they occur, where the output layer asks for it."""
        if isinstance(self.output, ClassSoftmax | SampledSoftmax):
            self.output.rank(counts)

    def saved_tensors(self) -> list[str]:
        """Return the names of the tensors that a folder holds: a tied table is there once."""
        names = list(self.state_dict())
        if not self.settings.tied:
            return names
        return [name for name in names if name != WRITTEN]

    def finish_loading(self) -> None:
        """Let tied tables be one again, and refuse ranks and shares of words that are none."""
        s = self.settings
        if s.tied:
            assert isinstance(self.output, FullSoftmax)
            self.output.table = self.table
        if s.output != "none":
            check_output(self.output, "output")


def check_output(output: nn.Module, name: str) -> None:
    """Refuse an output layer whose ranks or shares of words, read from a file, are none."""
    if isinstance(output, ClassSoftmax) and not _are_ranks(
        output.order, output.place, output.never
    ):
        raise InputError(
            f"{name}.order and {name}.place are not an order of the words and the way back"
        )
    if isinstance(output, SampledSoftmax) and not _are_shares(output.share, output.never):
        raise InputError(f"{name}.share does not hold shares of a whole")


def _are_ranks(order: Tensor, place: Tensor, never: int) -> bool:
    """Say whether an order (V - 1) has each word once but for the one that is never written.

    And whether the words stand at their places (V) in it.
    """
    words = torch.arange(len(place))
    written = words[words != never]
    if not torch.equal(order.sort().values, written):
        return False
    ranks = torch.arange(len(order))
    return torch.equal(place[order], ranks) and int(place[never]) == 0


def _are_shares(share: Tensor, never: int) -> bool:
    """Say whether shares (V) make a whole, of which the word that is never written has none."""
    if (share < 0).any():
        return False
    rest = 1 - float(share.sum())
    return abs(rest) < ROUNDING and float(share[never]) == 0
