"""The Transformer's layers against torch's own, from the same weights: outputs and every gradient."""

import random
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from firth.nn.block import Block, DecoderBlock
from firth.nn.cross import arrange
from firth.nn.ragged import groups
from tests.parity.test_bert import check_gradients, close, shapes

WIDTH, HEADS, INNER = 32, 4, 48
ENCODER = {
    "attention.qkv": "self_attn.in_proj_",
    "attention.out": "self_attn.out_proj.",
    "up": "linear1.",
    "down": "linear2.",
    "attention_norm": "norm1.",
    "norm": "norm2.",
}
DECODER = ENCODER | {
    "cross_norm": "norm2.",
    "norm": "norm3.",
    "cross.out": "multihead_attn.out_proj.",
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# Where ReLU has its kink, rounding decides on a gradient: so it is compared in double precision.
PRECISE = {"relu": torch.float64, "gelu": torch.float32}


def shaken(module: nn.Module, seed: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Weights of which none is zero or one, norms and biases included."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in module.parameters():
            tensor.copy_(
                tensor.mean().round() + 0.2 * torch.randn(tensor.shape, generator=generator)
            )
    return module.to(dtype)


def in_theirs(tensors: dict[str, Tensor], names: dict[str, str]) -> dict[str, Tensor]:
    """Our layer's tensors under torch's names; cross-attention is two of ours and one of theirs."""
    found = {}
    for field in ("weight", "bias"):
        for ours, theirs in names.items():
            found[f"{theirs}{field}"] = tensors[f"{ours}.{field}"]
        if "cross.out" in names:
            parts = [tensors[f"cross.{part}.{field}"] for part in ("query", "kv")]
            found[f"multihead_attn.in_proj_{field}"] = torch.cat(parts)
    return found


def compare(ours: nn.Module, theirs: nn.Module, names: dict[str, str]) -> None:
    slopes = {name: tensor.grad for name, tensor in ours.named_parameters()}
    known = {name: tensor.grad for name, tensor in theirs.named_parameters()}
    check_gradients(in_theirs(slopes, names), known)


def padded(x: Tensor, lengths: list[int]) -> tuple[Tensor, Tensor]:
    """A stream as a rectangle, and which of its tokens are there."""
    rows = nn.utils.rnn.pad_sequence(list(x.split(lengths)), batch_first=True)
    there = torch.arange(rows.shape[1]) < torch.tensor(lengths)[:, None]
    return rows, there


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_encoder_layer_is_torchs(norm: str, activation: str, seed: int) -> None:
    dtype = PRECISE[activation]
    ours = shaken(
        Block(WIDTH, HEADS, INNER, eps=1e-5, activation=activation, norm=norm), seed, dtype
    )
    theirs = nn.TransformerEncoderLayer(
        WIDTH, HEADS, INNER, 0.0, activation, batch_first=True, norm_first=norm == "pre"
    )
    theirs.to(dtype)
    theirs.load_state_dict(in_theirs(ours.state_dict(), ENCODER))
    generator = torch.Generator().manual_seed(seed)
    for lengths in shapes(random.Random(seed), 5):
        x = torch.randn(sum(lengths), WIDTH, generator=generator, dtype=dtype)
        one, other = (x.clone().requires_grad_() for _ in range(2))
        found = ours(one, groups(lengths))
        rows, there = padded(other, lengths)
        known = theirs(rows, src_key_padding_mask=~there)[there]
        close(found, known)
        slope = torch.randn(found.shape, generator=generator, dtype=dtype)
        for module, result in ((ours, found), (theirs, known)):
            module.zero_grad()
            (result * slope).sum().backward()
        check_gradients({"x": one.grad}, {"x": other.grad})
        compare(ours, theirs, ENCODER)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_decoder_layer_is_torchs(norm: str, activation: str, seed: int) -> None:
    """Pairs of any two lengths in any order, and also where nothing wants a gradient."""
    dtype = PRECISE[activation]
    block = DecoderBlock(WIDTH, HEADS, INNER, eps=1e-5, activation=activation, norm=norm)
    ours = shaken(block, seed, dtype)
    theirs = nn.TransformerDecoderLayer(
        WIDTH, HEADS, INNER, 0.0, activation, batch_first=True, norm_first=norm == "pre"
    )
    theirs.to(dtype)
    theirs.load_state_dict(in_theirs(ours.state_dict(), DECODER))
    generator = torch.Generator().manual_seed(seed)
    draw = random.Random(seed)
    for lengths in shapes(draw, 5):
        sources = [draw.randint(1, 12) for _ in lengths]
        starts = torch.tensor(sources).cumsum(0) - torch.tensor(sources)
        order = arrange(torch.tensor(lengths), starts, torch.tensor(sources), torch.device("cpu"))
        x = torch.randn(sum(lengths), WIDTH, generator=generator, dtype=dtype)
        memory = torch.randn(sum(sources), WIDTH, generator=generator, dtype=dtype)
        x1, x2, m1, m2 = (one.clone().requires_grad_() for one in (x, x, memory, memory))
        found = ours.decode(x1[order.places], order.groups, m1, order.pairs)[order.back]

        rows, there = padded(x2, lengths)
        read, known_source = padded(m2, sources)
        later = nn.Transformer.generate_square_subsequent_mask(rows.shape[1]).isinf()
        known = theirs(
            rows, read, later, tgt_key_padding_mask=~there, memory_key_padding_mask=~known_source
        )[there]
        close(found, known)
        with torch.no_grad():
            plain = ours.decode(x[order.places], order.groups, memory, order.pairs)[order.back]
        close(plain, known)
        slope = torch.randn(found.shape, generator=generator, dtype=dtype)
        for module, result in ((ours, found), (theirs, known)):
            module.zero_grad()
            (result * slope).sum().backward()
        check_gradients({"x": x1.grad, "m": m1.grad}, {"x": x2.grad, "m": m2.grad})
        compare(ours, theirs, DECODER)


def test_weights_of_pairs_are_torchs(seed: int) -> None:
    """Of every head, and what is explained is what is computed."""
    ours = shaken(DecoderBlock(WIDTH, HEADS, INNER, eps=1e-5), seed).cross
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.kv.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.kv.bias]))
        theirs.out_proj.load_state_dict(ours.out.state_dict())
    lengths, sources = torch.tensor([3, 1, 3, 7]), torch.tensor([5, 2, 1, 9])
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(14, WIDTH, generator=generator)
    memory = torch.randn(17, WIDTH, generator=generator)
    order = arrange(lengths, sources.cumsum(0) - sources, sources, torch.device("cpu"))
    mixed, crossed = ours.explain(x[order.places], memory, order.pairs)
    pairs = zip(x.split(lengths.tolist()), memory.split(sources.tolist()), strict=True)
    mixed = mixed[order.back].split(lengths.tolist())
    for (q, kv), found, pair in zip(pairs, mixed, order.restore(crossed), strict=True):
        known, shares = theirs(q[None], kv[None], kv[None], average_attn_weights=False)
        close(found, known[0])
        close(pair.weights, shares[0])
        sums = (pair.weights @ pair.values).transpose(0, 1).flatten(1)
        close(ours.out(sums), known[0])
