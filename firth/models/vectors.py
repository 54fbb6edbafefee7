"""Word vectors: a word has one vector, whatever stands around it.

T tokens in the stream, B texts, D width, V vocabulary. How the vectors are trained is the business
of recipes; as an encoder all families are one: a table, and the mean over a text's words.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from firth.families.vectors import VectorSettings
from firth.models.protocols import Encoder, Hidden
from firth.nn.dropout import drop
from firth.nn.pool import pool


class WordVectors(Encoder):
    """The table as an encoder without layers."""

    settings: VectorSettings
    depth = 0
    length = None

    def __init__(self, settings: VectorSettings) -> None:
        super().__init__()
        self.settings = settings
        self.width = settings.width
        self.words = nn.Embedding(settings.vocab, settings.width)
        self.initialise(self.words)

    @property
    def table(self) -> nn.Parameter:
        """Return the vectors, (V, D)."""
        assert isinstance(self.words.weight, nn.Parameter)
        return self.words.weight

    def replace_table(self, rows: Tensor, trainable: bool = True) -> None:
        """Read vectors from another table."""
        self.words = nn.Embedding.from_pretrained(rows, freeze=not trainable)

    def initialise(self, module: nn.Module) -> None:
        """Give a layer small uniform weights, as the published word vectors begin with."""
        if isinstance(module, nn.Embedding | nn.Linear):
            bound = 0.5 / module.weight.shape[1]
            nn.init.uniform_(module.weight, -bound, bound)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def top_layers(self, count: int) -> Sequence[nn.Module]:
        """Return no layer: there is none above the table."""
        return []

    def set_dropout(self, probability: float) -> None:
        """Drop numbers of the words' vectors with a probability, and let the settings say so."""
        update = {"dropout": probability}
        self.settings = self.settings.model_copy(update=update)

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        segments: Tensor,
        lengths: Tensor,
        *,
        layers: bool = False,
        weights: bool = False,
    ) -> Hidden:
        """Look up each token of a stream (T), and average those of each text."""
        x = self.words(ids)  # (T, D)
        x = drop(x, self.settings.dropout, self.training)
        pooled = pool(x, lengths, "mean")
        # A text without a word has no mean.
        pooled = torch.where((lengths > 0).to(x.device)[:, None], pooled, 0)
        every = (x,) if layers else ()
        return Hidden(x, pooled, every)
