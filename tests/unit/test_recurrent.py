"""Recurrent layers against torch's own cells, which read a token at a time: vectors, memory and every gradient."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from firth.nn.recurrent import CELLS, BidirectionalRecurrent, Lstm, Recurrent, pack, reversal

LENGTHS = {
    "ragged": [3, 0, 7, 1, 7, 12, 0, 2],
    "sorted": [9, 6, 6, 5, 1],
    "equal": [6] * 5,
    "one row": [11],
    "one token a row": [1, 1, 1],
    "all rows empty": [0, 0],
}
ORDER = {"tanh": [0], "gru": [0, 1, 2], "lstm": [1, 2, 0, 3]}  # where torch's gates stand in ours
OWN = {"tanh": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}


def problem(
    cell: str, lengths: list[int], seed: int = 0, dropout: float = 0.0
) -> tuple[Recurrent, Tensor, Tensor, Tensor]:
    """Three layers, a stream, its lengths and what is remembered from before."""
    torch.manual_seed(seed)
    layers = Recurrent(cell, 5, 8, 3, dropout)
    memory = torch.randn_like(layers.start(len(lengths)))
    return layers, torch.randn(sum(lengths), 5), torch.tensor(lengths, dtype=torch.long), memory


def gates(weight: Tensor, cell: str) -> Tensor:
    """A matrix or bias of ours in torch's order of gates."""
    return weight.view(len(ORDER[cell]), -1, *weight.shape[1:])[ORDER[cell]].flatten(0, 1)


def looped(
    layers: Recurrent, cell: str, x: Tensor, lengths: Tensor, memory: Tensor
) -> tuple[Tensor, Tensor]:
    """The same by torch's cells, row by row and token by token, with weights that lead back to ours."""
    rows, after = list(x.split(lengths.tolist())), []
    for layer, states in zip(layers.layers, memory, strict=True):
        take, keep = gates(layer.take.weight, cell), gates(layer.keep.weight, cell)
        bias, kept = gates(layer.take.bias, cell), torch.zeros(len(keep))
        if cell == "gru":
            kept = torch.cat([kept[: -len(layer.bias)], layer.bias])
        own = OWN[cell](take.shape[1], keep.shape[1])
        weights = {"weight_ih": take, "weight_hh": keep, "bias_ih": bias, "bias_hh": kept}
        done, ends = [], []
        for row, state in zip(rows, states.unbind(1), strict=True):
            outputs = [row.new_zeros(0, keep.shape[1])]
            now = tuple(part[None] for part in state)
            for token in row:
                given = now if cell == "lstm" else now[0]
                found = torch.func.functional_call(own, weights, (token[None], given))
                now = found if cell == "lstm" else (found,)
                outputs.append(now[0])
            done.append(torch.cat(outputs))
            ends.append(torch.cat(now))
        rows = done
        after.append(torch.stack(ends, 1))
    return torch.cat(rows), torch.stack(after)


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    if ours.numel():
        assert (ours - theirs).abs().max() <= 1e-5 * max(1.0, theirs.abs().max().item())


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("cell", CELLS)
def test_they_equal_cells_that_read_a_token_at_a_time(cell: str, lengths: list[int]) -> None:
    layers, x, sizes, memory = problem(cell, lengths)
    x.requires_grad_(True)
    memory.requires_grad_(True)
    weigh = torch.randn(len(x), 8), torch.randn_like(memory)
    inputs = [x, memory, *layers.parameters()]
    results = []
    for vectors, after in (layers(x, sizes, memory), looped(layers, cell, x, sizes, memory)):
        loss = (vectors * weigh[0]).sum() + (after * weigh[1]).sum()
        results.append(
            [
                vectors,
                after,
                *torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True),
            ]
        )
    whole = max(gradient.norm().item() for gradient in results[1][2:])
    for number, (ours, theirs) in enumerate(zip(*results, strict=True)):
        close(ours, theirs)
        if number > 1:
            assert (ours - theirs).norm() <= 1e-5 * max(theirs.norm().item(), 1e-3 * whole)


def test_what_a_forget_gate_keeps_by_hand() -> None:
    """With weights of one, no bias, h = 1 and x = 0.2 the gate is sigmoid(1.2) = 0.77, and of c = 2 it keeps 1.54."""
    layer = Lstm(1, 1)
    with torch.no_grad():
        layer.take.weight.copy_(torch.tensor([[0.0], [0.0], [1.0], [0.0]]))
        layer.keep.weight.copy_(layer.take.weight)
        layer.take.bias.copy_(
            torch.tensor([0.0, -200.0, 0.0, 200.0])
        )  # the input gate is shut and the output gate is open
        h, after = layer(
            torch.tensor([[0.2]]), torch.tensor([[[1.0]], [[2.0]]]), pack(torch.tensor([1]))
        )
    assert after[1].item() / 2 == pytest.approx(0.77, abs=0.005)
    assert after[1].item() == pytest.approx(1.54, abs=0.005)
    assert (
        h.item() == after[0].item() == pytest.approx(torch.tensor(1.5370).tanh().item(), abs=1e-4)
    )


def test_a_stream_is_read_longest_row_first() -> None:
    packing = pack(torch.tensor([1, 0, 3, 2]))
    assert packing.sizes == [3, 2, 1]
    assert packing.rows.tolist() == [2, 3, 0, 1]
    assert packing.tokens.tolist() == [1, 4, 0, 2, 5, 3]
    assert packing.tokens[packing.back].tolist() == list(range(6))
    assert packing.before.tolist() == [0, 1, 2, 4, 5, 7]
    assert packing.last.tolist() == [6, 3, 9, 8]


@given(
    st.sampled_from(sorted(CELLS)),
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_memory_carries_rows_over_a_cut(
    cell: str, lengths: list[int], first: int, second: int
) -> None:
    layers, x, sizes, memory = problem(cell, lengths)
    with torch.no_grad():
        whole, end = layers(x, sizes, memory)
        bounds = [0, *sorted((first, second)), 9]
        rows, found = x.split(lengths), [[] for _ in lengths]
        for start, stop in pairwise(bounds):
            pieces = [row[start:stop] for row in rows]
            vectors, memory = layers(
                torch.cat(pieces), torch.tensor([len(piece) for piece in pieces]), memory
            )
            for row, part in zip(
                found, vectors.split([len(piece) for piece in pieces]), strict=True
            ):
                row.append(part)
    close(torch.cat([part for row in found for part in row]), whole)
    close(memory, end)


@pytest.mark.parametrize("cell", CELLS)
def test_batch_mates_change_nothing(cell: str) -> None:
    lengths = LENGTHS["ragged"]
    layers, x, sizes, memory = problem(cell, lengths)
    with torch.no_grad():
        together, after = layers(x, sizes, memory)
        for number, (row, vectors) in enumerate(
            zip(x.split(lengths), together.split(lengths), strict=True)
        ):
            alone, end = layers(row, sizes[number : number + 1], memory[:, :, number : number + 1])
            assert torch.allclose(alone, vectors, atol=2e-6, rtol=0)
            assert torch.allclose(end[:, :, 0], after[:, :, number], atol=2e-6, rtol=0)


def test_dropout_is_between_layers_and_only_in_training() -> None:
    layers, x, sizes, memory = problem("lstm", [4, 4], dropout=0.5)
    plain, _, _, _ = problem("lstm", [4, 4])
    torch.manual_seed(3)
    first, _ = layers(x, sizes, memory)
    torch.manual_seed(3)
    again, _ = layers(x, sizes, memory)
    other, after = layers(x, sizes, memory)
    usual, without = plain(x, sizes, memory)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(after[0], without[0])
    assert not torch.equal(after[1], without[1])
    layers.eval()
    assert torch.equal(layers(x, sizes, memory)[0], usual)


@pytest.mark.parametrize("cell", CELLS)
def test_products_in_bf16(without_onednn: None, cell: str) -> None:
    layers, x, sizes, memory = problem(cell, [4, 2])
    exact, _ = layers(x, sizes, memory)
    expected = torch.autograd.grad(exact.sum(), list(layers.parameters()))
    with torch.autocast("cpu", torch.bfloat16):
        rounded, _ = layers(x, sizes, memory)
    assert rounded.dtype == torch.float32
    assert 0 < (rounded - exact).abs().max() < 0.03
    for one, other in zip(
        torch.autograd.grad(rounded.sum(), list(layers.parameters())), expected, strict=True
    ):
        assert (one - other).abs().max() < 0.05 * max(1.0, other.abs().max().item())


def turned(x: Tensor, lengths: Tensor) -> Tensor:
    """A stream with every row the other way round."""
    return torch.cat([row.flip(0) for row in x.split(lengths.tolist())])


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_a_reversal_turns_every_row(lengths: list[int]) -> None:
    x = torch.randn(sum(lengths), 2)
    places = reversal(torch.tensor(lengths, dtype=torch.long))
    assert torch.equal(x[places], turned(x, torch.tensor(lengths)))
    assert torch.equal(places[places], torch.arange(sum(lengths)))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_both_ways_are_two_networks_side_by_side(cell: str, lengths: list[int]) -> None:
    torch.manual_seed(1)
    layers = BidirectionalRecurrent(cell, 5, 8, 2)
    x = torch.randn(sum(lengths), 5, requires_grad=True)
    sizes = torch.tensor(lengths, dtype=torch.long)
    found = layers(x, sizes)
    assert [tuple(one.shape) for one in found] == [(sum(lengths), 16)] * 2

    expected = x
    for ahead, behind in zip(layers.forwards, layers.backwards, strict=True):
        alone = Recurrent(cell, expected.shape[1], 8, 1)
        alone.layers[0] = ahead
        after, _ = alone(expected, sizes, alone.start(len(sizes)))
        alone.layers[0] = behind
        before, _ = alone(turned(expected, sizes), sizes, alone.start(len(sizes)))
        expected = torch.cat([after, turned(before, sizes)], 1)
    assert torch.allclose(found[-1], expected, atol=1e-6)
    slope = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad((one * slope).sum(), x)[0] for one in (found[-1], expected))
    assert torch.allclose(ours, theirs, atol=1e-6)
