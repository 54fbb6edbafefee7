"""MPNet: BERT's network in which every layer adds to attention how far apart two tokens are.

H heads, L tokens of a text. "MPNet: Masked and Permuted Pre-training for Language Understanding",
Song et al., 2020.
"""

from torch import Tensor

from firth.families.bert import BertSettings
from firth.models.bert import Bert
from firth.nn.distance import DistanceBias
from firth.nn.ragged import Group


class MpNet(Bert):
    """The encoder; all layers share one table of distances."""

    def __init__(self, settings: BertSettings) -> None:
        super().__init__(settings)
        self.distance = DistanceBias(settings.heads).apply(self.initialise)

    def biases(self, layout: list[Group]) -> list[Tensor]:
        """Return the bias (H L L) of each group."""
        return self.distance.of_groups(layout)

    def attention_bias(self, length: int) -> Tensor:
        """Return the bias of every layer for a text of a length."""
        bias: Tensor = self.distance(length)
        return bias
