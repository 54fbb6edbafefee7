"""AdamW, its learning rate over a run, and its state by the names of the weights.

"Decoupled Weight Decay Regularization", Loshchilov and Hutter, 2017.
"""

import math
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor, nn

Schedule = Literal["linear", "constant", "inverse-sqrt"]
STATE = ("exp_avg", "exp_avg_sq", "step")  # what AdamW keeps of a weight, by torch's names


def make_optimizer(
    model: nn.Module,
    weight_decay: float,
    beta1: float = 0.9,
    beta2: float = 0.98,
    eps: float = 1e-6,
) -> torch.optim.AdamW:
    """Return AdamW over the trained weights; biases and norms, of one dimension, don't decay."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.ndim > 1]
    vectors = [parameter for parameter in trained if parameter.ndim <= 1]
    return torch.optim.AdamW(
        [
            {"params": matrices, "weight_decay": weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ],
        lr=0.0,
        betas=(beta1, beta2),
        eps=eps,
        fused=True,
    )


def lr_at(progress: float, peak: float, warmup: float, schedule: Schedule = "linear") -> float:
    """Return the learning rate at a moment of a run; `progress` goes from 0 to 1.

    It rises in a line over the share `warmup` of the run and then falls in a line to 0, stays, or
    falls as the inverse square root of the steps ("Attention Is All You Need", 2017).
    """
    if progress < warmup:
        return peak * progress / warmup
    if schedule == "constant":
        return peak
    if schedule == "inverse-sqrt":
        return peak * math.sqrt(warmup / progress)
    return peak * max(0.0, 1.0 - progress) / (1.0 - warmup)


def set_lr(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set the learning rate of the next step."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def clip_gradients(model: nn.Module, most: float) -> float:
    """Scale the gradients down to a norm of at most `most`, and return the norm that they had."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = float(nn.utils.get_total_norm(gradients))
    if norm > most:  # torch's own multiplies even by 1
        torch._foreach_mul_(gradients, most / norm)
    return norm


def state_of(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return the optimizer's state by the names of the weights that it is about."""
    known = {}
    for name, parameter in model.named_parameters():
        if parameter in optimizer.state:
            known[name] = optimizer.state[parameter]
    found = {}
    for kind in STATE:
        for name, state in known.items():
            found[f"{kind}.{name}"] = state[kind]
    return found


def restore(
    optimizer: torch.optim.Optimizer, model: nn.Module, state: Mapping[str, Tensor]
) -> None:
    """Give the optimizer its state back."""
    for name, parameter in model.named_parameters():
        if f"step.{name}" in state:
            own = {kind: state[f"{kind}.{name}"].clone() for kind in STATE}
            optimizer.state[parameter] = own
