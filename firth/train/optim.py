"""AdamW, the rate at every moment of a run, and the optimizer's state by the names of the weights.

"Decoupled Weight Decay Regularization", Loshchilov and Hutter, 2017.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

MOMENTS = ("exp_avg", "exp_avg_sq")


def make_optimizer(
    model: nn.Module,
    decay: float,
    first_moment: float = 0.9,
    second_moment: float = 0.98,
    tiny: float = 1e-6,
) -> torch.optim.AdamW:
    """Biases and norms, which have one dimension, don't decay."""
    chosen = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.AdamW(
        [
            {"params": [p for p in chosen if p.ndim > 1], "weight_decay": decay},
            {"params": [p for p in chosen if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=0.0,
        betas=(first_moment, second_moment),
        eps=tiny,
        fused=True,
    )


def rate_at(progress: float, peak: float, warmup: float) -> float:
    """Rise in a line over the share `warmup` of a run, then fall in a line to nothing; `progress` goes from 0 to 1."""
    if progress < warmup:
        return peak * progress / warmup
    return peak * max(0.0, 1.0 - progress) / (1.0 - warmup)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Use a rate for the next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def clip(model: nn.Module, most: float) -> float:
    """Scale the gradients down to a norm of at most `most`, and return the norm that they had."""
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = float(nn.utils.get_total_norm(gradients))
    if norm > most:  # torch's own multiplies even by 1
        torch._foreach_mul_(gradients, most / norm)
    return norm


def state_of(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's memory by the names of the weights that it is about."""
    named = {
        name: optimizer.state[p] for name, p in model.named_parameters() if p in optimizer.state
    }
    return {
        f"{kind}.{name}": state[kind]
        for kind in (*MOMENTS, "step")
        for name, state in named.items()
    }


def restore(
    optimizer: torch.optim.Optimizer, model: nn.Module, state: Mapping[str, Tensor]
) -> None:
    """Give the optimizer its memory back."""
    for name, parameter in model.named_parameters():
        if f"step.{name}" in state:
            optimizer.state[parameter] = {
                kind: state[f"{kind}.{name}"].clone() for kind in (*MOMENTS, "step")
            }
