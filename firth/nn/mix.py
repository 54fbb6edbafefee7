"""Several layers of an encoder as one vector a token.

T tokens in the stream, L layers, D width. Learned weights as in "Deep contextualized word
representations", Peters et al., 2018.
"""

import torch
from torch import Tensor, nn


class Mix(nn.Module):
    """Layers side by side (`concat`), their sum (`sum`), or their learned average (`weights`)."""

    def __init__(self, layers: int, how: str) -> None:
        super().__init__()
        self.how = how
        if how == "weights":
            # Logits: at first all layers count the same.
            self.shares = nn.Parameter(torch.zeros(layers))
            self.scale = nn.Parameter(torch.ones(1))

    @property
    def learned(self) -> bool:
        """Whether training changes what comes out."""
        return self.how == "weights"

    def __str__(self) -> str:
        """Return the learned weights as in the paper."""
        shares = ", ".join(f"{share:.3f}" for share in self.shares.softmax(0).tolist())
        return f"gamma sum_j s_j h_j with gamma {self.scale.item():.3f} and s = ({shares})"

    def forward(self, x: Tensor) -> Tensor:
        """Mix (T, L, D) to (T, D), or to (T, L * D) side by side."""
        if self.how == "concat":
            return x.flatten(1)
        if self.how == "sum":
            return x.sum(1)
        return self.scale * torch.einsum("l,tld->td", self.shares.softmax(0), x)
