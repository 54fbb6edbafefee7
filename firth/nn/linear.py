"""Linear layers, by whichever of torch's two libraries of matrix products is the faster on this processor.

M rows, K inputs, N outputs. Torch multiplies with MKL, which keeps its widest instructions for Intel's processors: on AMD's,
oneDNN, which is in the same torch, is about twice as fast. Where MKL isn't held back the two are alike, and MKL prepares
nothing for a shape that is new.
"""

import os
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

FEW = 8  # rows below which MKL is as fast
# oneDNN keeps what it prepared for the last thousand shapes, a megabyte each, and torch keeps as many once more. A stream has
# another length in each batch, so that hardly any comes again; a step has a dozen.
CACHES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
KEPT = 32


@cache
def by_onednn() -> bool:
    """Whether products go to oneDNN; a matter of the processor alone, so that the same one always gives the same bits."""
    about: dict[str, Any] = getattr(
        torch.cpu, "get_capabilities", dict
    )()  # which an older torch doesn't have
    amd = str(about.get("cpu_name", "")).startswith("AMD")
    chosen = (
        amd
        and torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
    for name in CACHES if chosen else ():
        os.environ.setdefault(name, str(KEPT))
    return chosen


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The rows x (M, K) times the transpose of weight (N, K), plus bias (N): (M, N). Not for where autograd looks on."""
    if _fits(x, weight):
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")  # type: ignore[no-any-return]
    return F.linear(x, weight, bias)


def _fits(x: Tensor, weight: Tensor) -> bool:
    return (
        by_onednn()
        and x.ndim == 2
        and len(x) >= FEW
        and x.shape[1] > 0
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
    )


class Linear(nn.Linear):
    """torch's linear layer over rows (M, K), by the faster library, with its gradient."""

    def forward(self, x: Tensor) -> Tensor:
        """Give (M, N)."""
        if torch.is_grad_enabled() and _fits(x, self.weight):
            return _Product.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call, no-any-return]
        return product(x, self.weight, self.bias)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        context.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(context: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = context.saved_tensors
        of_x, of_weight, of_bias = context.needs_input_grad
        return (
            product(slope, weight.t()) if of_x else None,
            product(slope.t(), x.t()) if of_weight else None,
            slope.sum(0) if of_bias else None,
        )
