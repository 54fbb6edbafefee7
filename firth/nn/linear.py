"""The one door for products of matrices: by the faster of torch's two libraries on this processor.

M rows, K inputs, N outputs. Torch multiplies with MKL, which keeps its widest instructions for
Intel's processors: on AMD's, oneDNN, which is in the same torch, is about twice as fast. Where MKL
isn't held back the two are alike, and MKL prepares nothing for a shape that is new.
"""

import os
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

FEW = 8  # rows below which MKL is as fast
LEAST = 1 << 23  # multiplications below which a call of oneDNN costs more than it gains
# oneDNN keeps what it prepared for the last thousand shapes, a megabyte each, and torch keeps as
# many once more. A stream has another length in each batch, so that hardly any comes again; a step
# has a dozen.
CACHES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
KEPT = 32


@cache
def by_onednn() -> bool:
    """Return whether products go to oneDNN.

    A matter of the processor alone, so that the same one always gives the same bits.
    """
    # An older torch has no list of capabilities.
    about: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
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
    """Return the rows x (M, K) times the transpose of weight (N, K), plus bias (N): (M, N).

    Without a gradient: where autograd records, call `linear`.
    """
    if _fits(x, weight):
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
        return found
    return F.linear(x, weight, bias)


def step_product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the product for a step of generation: few rows, once for every token.

    Layers that read whole texts don't ask for the size: their large products decide.
    """
    if len(x) < FEW or len(x) * weight.numel() < LEAST:
        return F.linear(x, weight, bias)
    return product(x, weight, bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the same product with its gradient."""
    if torch.is_grad_enabled() and _fits(x, weight):
        found: Tensor = _Product.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return found
    return product(x, weight, bias)


def _fits(x: Tensor, weight: Tensor) -> bool:
    """Return whether oneDNN takes a product and is the faster; the quickest questions first."""
    return (
        x.ndim == 2
        and len(x) >= FEW
        and by_onednn()
        and x.shape[1] > 0
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
    )


class Linear(nn.Linear):
    """torch's linear layer over rows (M, K), by the faster library, with its gradient."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (M, N)."""
        return linear(x, self.weight, self.bias)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        context.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = context.saved_tensors
        of_x, of_weight, of_bias = context.needs_input_grad
        dx = product(grad, weight.t()) if of_x else None
        dweight = product(grad.t(), x.t()) if of_weight else None
        dbias = grad.sum(0) if of_bias else None
        return dx, dweight, dbias
