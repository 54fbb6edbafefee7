"""Dropout and the gradients of attention: rates, seeds, and the same numbers as the plain formulas."""

import math
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from firth.nn.attention import Attention, attend
from firth.nn.block import Block
from firth.nn.dropout import drop, drop_factors
from firth.nn.ragged import Group, groups

LAYOUTS = [[1], [7], [1, 1, 1], [5, 5, 3, 1], [4, 1, 9, 9, 2], [12, 11, 11, 11, 1, 1]]


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.3, 0.5, 0.9])
def test_the_rate_and_the_mean_are_kept(rate: float, seed: int) -> None:
    torch.manual_seed(seed)
    x = torch.full((1000, 1001), 3.0)
    dropped = drop(x, rate, training=True)
    zeros = (dropped == 0).double().mean().item()
    spread = math.sqrt(rate * (1 - rate) / x.numel())
    assert zeros == pytest.approx(rate, abs=4.5 * spread + 1 / 65_536)
    assert dropped.double().mean().item() == pytest.approx(3, abs=4.5 * 3 * spread / (1 - rate))
    kept = dropped[dropped != 0]
    assert kept.unique().numel() == 1
    assert kept[0].item() == pytest.approx(3 / (1 - rate), rel=1e-4)


def test_elements_are_dropped_each_by_itself(seed: int) -> None:
    """A number of 64 bits serves four neighbours; none of them tells of another."""
    torch.manual_seed(seed)
    zero = (drop_factors(torch.ones(250_000, 4), 0.5) == 0).double()
    table = torch.corrcoef(zero.T) - torch.eye(4)
    assert table.abs().max() < 0.01
    assert (zero.mean(0) - 0.5).abs().max() < 0.006


def test_the_seed_decides() -> None:
    x = torch.ones(33, 7)
    torch.manual_seed(5)
    first, second = drop(x, 0.5, True), drop(x, 0.5, True)
    torch.manual_seed(5)
    assert torch.equal(drop(x, 0.5, True), first)
    assert torch.equal(drop(x, 0.5, True), second)
    assert not torch.equal(first, second)


def test_evaluation_is_untouched() -> None:
    x = torch.randn(50, 4)
    assert drop(x, 0.5, training=False) is x
    assert drop(x, 0.0, training=True) is x
    state = torch.get_rng_state()
    drop(x, 0.5, training=False)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 1), (2, 3, 7), (0, 4)])
def test_any_shape_and_precision(shape: tuple[int, ...]) -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        factors = drop_factors(torch.ones(shape, dtype=dtype), 0.25)
        assert factors.shape == shape
        assert factors.dtype == dtype
        assert set(factors.flatten().tolist()) <= {0.0, torch.tensor(4 / 3, dtype=dtype).item()}


def layer(causal: bool, dropout: float = 0.0, width: int = 12, heads: int = 3) -> Attention:
    torch.manual_seed(3)
    made = Attention(width, heads, dropout, causal).double()
    with torch.no_grad():
        made.qkv.weight.mul_(4)  # attention that is far from even
    return made


def stream(lengths: list[int], seed: int, width: int = 12) -> tuple[Tensor, list[Group]]:
    maker = torch.Generator().manual_seed(seed)
    return torch.randn(sum(lengths), width, generator=maker, dtype=torch.float64), groups(lengths)


def slopes(module: nn.Module, out: Tensor, x: Tensor, seed: int) -> list[Tensor]:
    """The gradients of a sum with fixed random weights."""
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed), dtype=out.dtype)
    return list(torch.autograd.grad((out * weights).sum(), [x, *module.parameters()]))


@pytest.mark.parametrize("lengths", LAYOUTS, ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_the_pass_with_gradients_is_the_others(lengths: list[int], causal: bool, seed: int) -> None:
    made = layer(causal)
    x, layout = stream(lengths, seed)
    x.requires_grad_(True)
    trained = made(x, layout)
    explained, weights = made.explain(x, layout)
    with torch.no_grad():
        fused = made(x, layout)
    torch.testing.assert_close(trained, explained, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(trained.detach(), fused, rtol=1e-12, atol=1e-12)
    for one, other in zip(
        slopes(made, trained, x, seed), slopes(made, explained, x, seed), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    assert [tuple(text.shape) for text in weights] == [(3, size, size) for size in lengths]
    if causal:
        assert all((text.triu(1) == 0).all() for text in weights)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_gradients_to_the_last_digit(causal: bool, seed: int) -> None:
    made = layer(causal, width=4, heads=2)
    x, layout = stream([3, 2, 2, 1], seed, width=4)
    assert torch.autograd.gradcheck(lambda given: made(given, layout), (x.requires_grad_(True),))


@pytest.mark.parametrize("lengths", LAYOUTS, ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_with_dropout_the_gradient_is_the_plain_formulas(
    lengths: list[int], causal: bool, seed: int
) -> None:
    made = layer(causal, dropout=0.4).train()
    x, layout = stream(lengths, seed)
    x.requires_grad_(True)
    torch.manual_seed(seed)
    found = made(x, layout)
    torch.manual_seed(seed)
    parts = []
    for group in layout:
        rows = made.qkv(x).narrow(0, group.start, group.texts * group.length)
        q, k, v = rows.view(group.texts, group.length, 3, 3, 4).permute(2, 0, 3, 1, 4)
        _, shares = attend(q, k, v, causal)
        factors = drop_factors(shares.flatten(0, 1), 0.4).view_as(shares)
        parts.append((shares * factors @ v).transpose(1, 2).reshape(-1, 12))
    expected = made.out(torch.cat(parts))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for one, other in zip(
        slopes(made, found, x, seed), slopes(made, expected, x, seed), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_dropout_acts_in_training_without_gradients_too() -> None:
    made = layer(False, dropout=0.5)
    x, layout = stream([6, 6, 2], 0)
    with torch.no_grad():
        calm = made.eval()(x, layout)
        torch.manual_seed(0)
        stirred = made.train()(x, layout)
        torch.manual_seed(0)
        assert torch.equal(made(x, layout), stirred)
        assert torch.equal(made.eval()(x, layout), calm)
    assert not torch.allclose(stirred, calm)


def test_attention_bears_autocast(without_onednn: None, seed: int) -> None:
    made = layer(False).float()
    x, layout = stream([9, 4, 4, 1], seed)
    x = x.float().requires_grad_(True)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = made(x, layout)
    for one, other in zip(
        slopes(made, rounded.float(), x, seed), slopes(made, made(x, layout), x, seed), strict=True
    ):
        assert one.dtype == torch.float32
        assert (one - other).norm() <= 0.05 * other.norm() + 0.05


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("part", ["attention", "wide layer"])
def test_a_block_drops_after_each_of_its_parts(norm: Literal["post", "pre"], part: str) -> None:
    """With the other part silent, only the dropout after this one can make two passes differ."""
    torch.manual_seed(0)
    block = Block(8, 2, 16, dropout=0.5, norm=norm)
    silent = block.down if part == "attention" else block.attention.out
    nn.init.zeros_(silent.weight)
    nn.init.zeros_(silent.bias)
    x, layout = torch.randn(6, 8), groups([4, 2])
    with torch.no_grad():
        first, second = (block.train()(x, layout) for _ in range(2))
        assert not torch.equal(first, second)
        block.dropout = 0.0
        assert torch.equal(block(x, layout), block.eval()(x, layout))


@pytest.mark.usefixtures("without_onednn")
def test_a_pre_norm_block_does_not_round_what_it_adds_to() -> None:
    """Under autocast layers give bf16; the sum of all layers' outputs stays in single precision."""
    torch.manual_seed(0)
    block = Block(8, 2, 16, norm="pre")
    for silent in (block.attention.out, block.down):
        nn.init.zeros_(silent.weight)
        nn.init.zeros_(silent.bias)
    x, layout = torch.randn(6, 8), groups([4, 2])
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(block(x, layout), x)
