"""The optimizer: which weights decay, and the learning rate over a run."""

import pytest
import torch
from torch import nn

from firth.models.bert import Bert, BertSettings
from firth.train.optim import lr_at, make_optimizer, set_lr


def test_matrices_decay_and_biases_and_norms_do_not() -> None:
    torch.manual_seed(0)
    model = Bert(BertSettings(vocab=20, width=8, depth=1, heads=2, inner=16, length=8))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)  # a bias of zero could not decay
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = make_optimizer(model, weight_decay=0.5)
    set_lr(optimizer, 0.1)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)  # so that only the decay moves anything
    optimizer.step()

    modules = dict(model.named_modules())
    norms = {f"{name}.weight" for name in modules if isinstance(modules[name], nn.LayerNorm)}
    assert len(norms) == 3
    for name, parameter in model.named_parameters():
        left = 1.0 if name in norms or name.endswith("bias") else 1 - 0.1 * 0.5
        torch.testing.assert_close(parameter.detach(), before[name] * left, msg=name)


@pytest.mark.parametrize("progress", [0.05, 0.1, 0.5, 0.9, 1.0])
def test_the_learning_rate_rises_and_then_falls_or_stays(progress: float) -> None:
    rising = progress < 0.1
    linear = lr_at(progress, 2.0, 0.1)
    assert linear == pytest.approx(2 * progress / 0.1 if rising else 2 * (1 - progress) / 0.9)
    assert lr_at(progress, 2.0, 0.1, "constant") == (linear if rising else 2.0)
    root = linear if rising else 2 * (0.1 / progress) ** 0.5
    assert lr_at(progress, 2.0, 0.1, "inverse-sqrt") == pytest.approx(root)
