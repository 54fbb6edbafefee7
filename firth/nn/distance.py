"""How far apart two tokens are, as what attention adds to its logits.

H heads, L tokens of a text. "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
Transformer", Raffel et al., 2020.
"""

import math

import torch
from torch import Tensor, nn

BUCKETS = 32
FARTHEST = 128  # tokens; all that are further apart share a bucket


class DistanceBias(nn.Module):
    """A number for each head and bucket of distances: near ones have buckets of their own."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.table = nn.Embedding(BUCKETS, heads)

    def forward(self, length: int) -> Tensor:
        """Return the bias (H L L) of each key for each query of a text."""
        places = torch.arange(length, device=self.table.weight.device)
        bias: Tensor = self.table(buckets(places - places[:, None]))  # (L L H)
        return bias.permute(2, 0, 1).contiguous()


def buckets(ahead: Tensor) -> Tensor:
    """Return the bucket of keys that stand so many tokens after the query.

    Half of the buckets are for keys before it and itself, half for those after it; of each half the
    first half is for one distance each, the others for ranges that grow by one factor.
    """
    half = BUCKETS // 2
    exact = half // 2
    distance = ahead.abs()
    # Distances below `exact` don't take this way; as it they are kept from the logarithm of zero.
    octaves = torch.log(distance.clamp(min=exact).float() / exact) / math.log(FARTHEST / exact)
    grown = exact + (octaves * (half - exact)).long()
    bucket = torch.where(distance < exact, distance, grown.clamp(max=half - 1))
    return bucket + half * (ahead > 0)
