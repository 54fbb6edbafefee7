"""Positions as sinusoids: the published formula, and what a model knows of places with and without them."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from firth.families.transformer import TransformerSettings
from firth.models import transformer
from firth.models.transformer import Transformer
from firth.nn.position import sinusoids


def test_positions_are_the_formula() -> None:
    table = sinusoids(300, 16)
    assert table.shape == (300, 16)
    assert table[0].tolist() == [0.0, 1.0] * 8
    for place in (1, 7, 63, 64, 299):
        for pair in range(8):
            angle = place / 10_000 ** (2 * pair / 16)
            assert table[place, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[place, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_halves_are_the_same_in_another_order() -> None:
    for width in (16, 17):
        taking_turns = sinusoids(40, width)
        halves = sinusoids(40, width, interleaved=False)
        sines = (width + 1) // 2
        assert torch.equal(halves[:, :sines], taking_turns[:, 0::2])
        assert torch.equal(halves[:, sines:], taking_turns[:, 1::2])


def test_a_longer_table_begins_as_a_shorter_one() -> None:
    short = sinusoids(5, 22).clone()
    long = sinusoids(1000, 22)
    assert torch.equal(long[:5], short)
    assert sinusoids(5, 22).shape == (5, 22)


def test_positions_first_made_without_gradients_serve_training() -> None:
    with torch.inference_mode():
        sinusoids(4, 26)
    weight = torch.ones(26, requires_grad=True)
    (sinusoids(4, 26) * weight).sum().backward()
    assert weight.grad is not None


def encoded(model: Transformer, ids: list[int]) -> Tensor:
    with torch.no_grad():
        return model.encode(torch.tensor(ids), torch.tensor([len(ids)])).vectors


def test_only_positions_tell_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them a permuted sentence gives permuted vectors, with them it doesn't."""
    sizes: dict[str, Any] = {"vocab": 20, "start": 2, "end": 5, "width": 16}
    torch.manual_seed(0)
    model = Transformer(TransformerSettings(**sizes, depth=2, heads=2, inner=32)).eval()
    turn = [3, 0, 4, 1, 2]
    ids = [7, 8, 9, 10, 11]
    permuted = [ids[place] for place in turn]
    assert not torch.allclose(encoded(model, permuted), encoded(model, ids)[turn], atol=0.1)

    def nothing(count: int, width: int, interleaved: bool) -> Tensor:
        return torch.zeros(count, width)

    monkeypatch.setattr(transformer, "sinusoids", nothing)
    assert torch.allclose(encoded(model, permuted), encoded(model, ids)[turn], atol=1e-5)
