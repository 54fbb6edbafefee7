"""How far apart two tokens are, as what attention adds to its logits.

H heads, L tokens of a text, P tokens read before one. "Exploring the Limits of Transfer Learning
with a Unified Text-to-Text Transformer", Raffel et al., 2020.
"""

import math

import torch
from torch import Tensor, nn

from firth.nn.ragged import Group

BUCKETS = 32
FARTHEST = 128  # tokens; all that are further apart share a bucket


class DistanceBias(nn.Module):
    """A number for each head and bucket of distances: near ones have buckets of their own.

    `causal` has all its buckets for keys before a query; what comes after it is not to be seen.
    """

    def __init__(self, heads: int, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal
        self.table = nn.Embedding(BUCKETS, heads)

    def forward(self, length: int) -> Tensor:
        """Return the bias (H L L) of each key for each query of a text."""
        places = torch.arange(length, device=self.table.weight.device)
        return self._of(places - places[:, None])

    def of_groups(self, layout: list[Group]) -> list[Tensor]:
        """Return the bias (H L L) of each group; groups of one length share it."""
        lengths = {group.length for group in layout}
        found = {length: self(length) for length in lengths}
        return [found[group.length] for group in layout]

    def last(self, past: int) -> Tensor:
        """Return the bias (1 H 1 P+1) of each key for a query after so many tokens."""
        places = torch.arange(-past, 1, device=self.table.weight.device)
        return self._of(places[None])[None]

    def _of(self, ahead: Tensor) -> Tensor:
        """Return the bias of keys that stand so many tokens after a query (queries, keys)."""
        bias: Tensor = self.table(buckets(ahead, self.causal))  # (queries, keys, H)
        return bias.permute(2, 0, 1).contiguous()


def buckets(ahead: Tensor, causal: bool = False) -> Tensor:
    """Return the bucket of keys that stand so many tokens after the query.

    Half of the buckets are for keys before it and itself, half for those after it; `causal` has all
    for the former, where the latter have that of the query itself. The first half of either is for
    one distance each, the others for ranges that grow by one factor.
    """
    count = BUCKETS if causal else BUCKETS // 2
    exact = count // 2
    distance = (-ahead).clamp(min=0) if causal else ahead.abs()
    # Distances below `exact` don't take this way; as it they are kept from the logarithm of zero.
    octaves = torch.log(distance.clamp(min=exact).float() / exact) / math.log(FARTHEST / exact)
    grown = exact + (octaves * (count - exact)).long()
    bucket = torch.where(distance < exact, distance, grown.clamp(max=count - 1))
    return bucket if causal else bucket + count * (ahead > 0)
