"""What attention adds for distances: the same in every pass, with and without gradients, and step by step."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from firth.nn.attention import Attention
from firth.nn.block import DecoderBlock
from firth.nn.cache import Cache
from firth.nn.cross import Sources, arrange
from firth.nn.distance import BUCKETS, DistanceBias, buckets
from firth.nn.ragged import groups
from firth.nn.t5 import T5DecoderBlock

WIDTH, HEADS = 12, 3
LENGTHS = [5, 5, 3, 1]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def distance() -> DistanceBias:
    torch.manual_seed(0)
    return DistanceBias(HEADS, causal=True)


def test_buckets_by_hand() -> None:
    """The query itself is in the first; half of a side's have one distance each; the last has all that is far."""
    ahead = torch.tensor([-1000, -128, -127, -8, -7, -1, 0, 1, 7, 8, 127, 128, 1000])
    both = [15, 15, 15, 8, 7, 1, 0, 17, 23, 24, 31, 31, 31]
    assert buckets(ahead).tolist() == both
    causal = [31, 31, 31, 8, 7, 1, 0, 0, 0, 0, 0, 0, 0]
    assert buckets(ahead, causal=True).tolist() == causal
    behind = buckets(-torch.arange(200), causal=True).tolist()
    assert behind[:17] == list(range(17))
    assert behind == sorted(behind)
    assert set(behind) == set(range(BUCKETS))


def test_a_step_has_the_last_row(distance: DistanceBias) -> None:
    whole = distance(200)
    for past in (0, 1, 15, 16, 150, 199):
        assert torch.equal(distance.last(past)[0, :, 0], whole[:, past, : past + 1])


@pytest.mark.parametrize(
    "shape", [{}, {"head_width": 5, "scale": 1.0, "bias": False}], ids=["plain", "T5's"]
)
def test_causal_attention_takes_biases(shape: dict[str, float], distance: DistanceBias) -> None:
    """As the formula has it, by torch's kernel, by our own passes, and with its weights."""
    torch.manual_seed(1)
    layer = Attention(WIDTH, HEADS, causal=True, **shape)
    layout = groups(LENGTHS)
    x = torch.randn(sum(LENGTHS), WIDTH)
    known = []
    for text in x.split(LENGTHS):
        q, k, v = layer.qkv(text).view(len(text), 3, HEADS, -1).permute(1, 2, 0, 3)
        logits = q @ k.transpose(1, 2) * (shape.get("scale") or q.shape[-1] ** -0.5)
        logits = logits + distance(len(text))
        later = torch.ones(len(text), len(text), dtype=torch.bool).triu(1)
        values = logits.masked_fill(later, -torch.inf).softmax(-1) @ v  # (H L K)
        known.append(layer.out(values.transpose(0, 1).flatten(1)))
    expected = torch.cat(known)
    slope = torch.randn(expected.shape)
    (expected * slope).sum().backward()
    gradient = distance.table.weight.grad
    assert gradient is not None

    distance.table.weight.grad = None
    found = layer(x, layout, distance.of_groups(layout))
    (found * slope).sum().backward()
    assert torch.allclose(found, expected, atol=1e-6)
    assert torch.allclose(distance.table.weight.grad, gradient, atol=1e-5)
    with torch.no_grad():
        biases = distance.of_groups(layout)
        assert torch.allclose(layer(x, layout, biases), expected, atol=1e-6)
        explained, weights = layer.explain(x, layout, biases)
    assert torch.allclose(explained, expected, atol=1e-6)
    assert all((one.triu(1) == 0).all() for one in weights)


def decoder(kind: str) -> DecoderBlock | T5DecoderBlock:
    torch.manual_seed(2)
    if kind == "t5":
        return T5DecoderBlock(WIDTH, HEADS, 5, 24, 0.0, 1e-6, "gelu_new", gated=True).eval()
    norm = "pre" if kind == "pre" else "post"
    return DecoderBlock(WIDTH, HEADS, 24, norm=norm).eval()


@pytest.mark.parametrize("kind", ["post", "pre", "t5"])
def test_steps_of_a_layer_are_the_whole(kind: str, distance: DistanceBias) -> None:
    block = decoder(kind)
    lengths = torch.tensor([20, 20])
    sources = torch.tensor([4, 2])
    starts = sources.cumsum(0) - sources
    order = arrange(lengths, starts, sources, torch.device("cpu"))
    x = torch.randn(40, WIDTH)
    memory = torch.randn(6, WIDTH)
    layout = order.groups
    whole = block.decode(x[order.places], layout, memory, order.pairs, distance.of_groups(layout))
    whole = whole[order.back].view(2, 20, WIDTH)
    with torch.no_grad():
        plain = block.decode(
            x[order.places], layout, memory, order.pairs, distance.of_groups(layout)
        )
        assert torch.allclose(plain[order.back].view_as(whole), whole, atol=1e-5)
        keys = block.cross.kv(memory)
        kept = Sources.make([keys], sources, starts, HEADS, block.cross.scale)
        cache = Cache.empty(keys.chunk(2, 1)[0], 1, 2, HEADS)
        rows = x.view(2, 20, WIDTH)
        for place in range(20):
            cache = cache.room()
            found = block.step_pairs(rows[:, place], cache, kept, 0, distance.last(place))
            cache = cache.advance()
            assert torch.allclose(found, whole[:, place], atol=1e-5)
        without = block.step_pairs(rows[:, 19], cache.room(), kept, 0, torch.zeros(1, 1, 1, 21))
        assert not torch.allclose(without, found, atol=1e-3)


def test_rows_of_several_lengths_have_their_own_distances(distance: DistanceBias) -> None:
    """A row's tokens end where all rows end, so that columns are as far apart as tokens."""
    torch.manual_seed(3)
    past = [torch.randn(2, count, HEADS, 4) for count in (3, 1)]  # keys and values
    memory = torch.zeros(1, 2, 2, 3, HEADS, 4)
    for row, given in enumerate(past):
        memory[0, :, row, 3 - given.shape[1] :] = given
    cache = Cache.make(memory, 3, torch.tensor([0, 2])).room()
    qkv = torch.randn(2, 3, HEADS, 4)
    found = cache.attend(qkv.flatten(1), 0, distance.last(3)).view(2, HEADS, 4)
    for row, given in enumerate(past):
        keys, values = torch.cat([given, qkv[row, 1:, None]], 1)  # (P+1 H K)
        logits = torch.einsum("hk,phk->hp", qkv[row, 0], keys) / 2
        weights: Tensor = (logits + distance.last(len(keys) - 1)[0, :, 0]).softmax(-1)
        expected = torch.einsum("hp,phk->hk", weights, values)
        assert torch.allclose(found[row], expected, atol=1e-6)
