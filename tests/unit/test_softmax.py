"""Output layers: probabilities that add up to one, gradients that are torch's own, and estimates that come near the exact."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.nn import vocab
from firth.nn.softmax import ClassSoftmax, FullSoftmax, SampledSoftmax

WIDTH, VOCAB, NEVER = 32, 60, 7


def make(kind: str) -> FullSoftmax | ClassSoftmax:
    torch.manual_seed(1)
    if kind == "classes":
        return ClassSoftmax(WIDTH, VOCAB, NEVER, (8, 20))
    if kind == "sampled":
        return SampledSoftmax(WIDTH, VOCAB, NEVER, 25, spread=0.5)
    return FullSoftmax(WIDTH, VOCAB, NEVER, spread=0.5)


def problem(size: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Vectors and a target for each."""
    maker = torch.Generator().manual_seed(seed)
    targets = torch.randint(VOCAB - 1, (size,), generator=maker)
    return torch.randn(size, WIDTH, generator=maker), targets + (targets >= NEVER)


KINDS = ["full", "classes", "sampled"]


@pytest.mark.parametrize("kind", KINDS)
def test_words_add_up_to_one_but_for_the_one_never_written(kind: str) -> None:
    layer = make(kind).eval()
    if not isinstance(layer, FullSoftmax):
        layer.rank(torch.arange(VOCAB) * 7 % VOCAB)
    hidden, targets = problem(40)
    scores = layer.scores(hidden)
    assert scores.shape == (40, VOCAB)
    assert (scores.exp().sum(1) - 1).abs().max() < 1e-5
    assert (scores[:, NEVER] == -torch.inf).all()
    assert scores[:, :NEVER].isfinite().all()
    assert scores[:, NEVER + 1 :].isfinite().all()
    assert torch.allclose(
        layer.log_probability(hidden, targets), scores.gather(1, targets[:, None])[:, 0], atol=1e-5
    )
    assert layer.log_probability(hidden[:1], torch.tensor([NEVER])).item() == -torch.inf


@pytest.mark.parametrize("kind", KINDS)
def test_long_texts_and_no_text(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocab, "CHUNK", 10)
    layer = make(kind).eval()
    hidden, targets = problem(35)
    learned = layer.log_probability(hidden, targets)
    with torch.no_grad():
        assert torch.allclose(layer.log_probability(hidden, targets), learned, atol=1e-5)
        assert layer.log_probability(hidden[:0], targets[:0]).shape == (0,)


def test_gradients_are_those_of_torch() -> None:
    """Each word counts as much as its own slope says, and some so little that their chance is no number."""
    layer = make("full")
    assert isinstance(layer, FullSoftmax)
    hidden, targets = problem(70)
    hidden[::9] *= 300
    hidden.requires_grad_(True)
    slope = torch.randn(70, generator=torch.Generator().manual_seed(2))
    ours = layer.log_probability(hidden, targets)
    closed = layer.bias.index_fill(0, torch.tensor([NEVER]), -torch.inf)
    theirs = -F.cross_entropy(F.linear(hidden, layer.table, closed), targets, reduction="none")
    assert theirs.min() < -200
    assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()
    inputs = hidden, layer.table, layer.bias
    for one, other in zip(
        torch.autograd.grad(ours @ slope, inputs),
        torch.autograd.grad(theirs @ slope, inputs),
        strict=True,
    ):
        assert one.isfinite().all()
        assert (one - other).abs().max() <= 1e-5 * max(1.0, other.abs().max().item())


def test_products_in_bf16(without_onednn: None) -> None:
    layer = make("full")
    hidden, targets = problem(30)
    hidden.requires_grad_(True)
    inputs = [hidden, *layer.parameters()]
    exact = layer.log_probability(hidden, targets)
    expected = torch.autograd.grad(exact.sum(), inputs)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = layer.log_probability(hidden, targets)
        assert layer.scores(hidden).dtype == torch.float32
    assert rounded.dtype == torch.float32
    assert 0 < (rounded - exact).abs().max() < 0.05
    for one, other in zip(torch.autograd.grad(rounded.sum(), inputs), expected, strict=True):
        assert (one - other).abs().max() < 0.05 * max(1.0, other.abs().max().item())


def test_classes_stay_in_single_precision() -> None:
    layer = make("classes")
    hidden, targets = problem(30)
    exact = layer.log_probability(hidden, targets)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer.log_probability(hidden, targets), exact)
        halved = layer.log_probability(hidden.bfloat16(), targets)
    assert halved.dtype == torch.float32
    assert (halved - exact).abs().max() < 0.05


@pytest.mark.parametrize("kind", ["full", "sampled"])
def test_a_tied_table_is_one_and_the_same(kind: str) -> None:
    table = nn.Embedding(VOCAB, WIDTH)
    tied: FullSoftmax = FullSoftmax(WIDTH, VOCAB, NEVER, table=table.weight)
    if kind == "sampled":
        tied = SampledSoftmax(WIDTH, VOCAB, NEVER, 5, table=table.weight)
    assert tied.table is table.weight
    _, targets = problem(6)
    tied.log_probability(table(targets), targets).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad.abs().sum(1)[targets].min() > 0


def test_classes_follow_the_frequencies_given() -> None:
    """The most frequent words have a score of their own, whatever their ids; a saved layer remembers which."""
    layer = make("classes")
    assert isinstance(layer, ClassSoftmax)
    counts = torch.zeros(VOCAB, dtype=torch.long)
    counts[[50, 40, 30, NEVER]] = torch.tensor([9, 8, 7, 100])
    layer.rank(counts)
    assert layer.order[:4].tolist() == [50, 40, 30, 0]
    assert sorted([*layer.order.tolist(), NEVER]) == list(range(VOCAB))
    hidden, _ = problem(3)
    head = layer.layers.head(hidden).log_softmax(1)
    assert torch.allclose(layer.scores(hidden)[:, [50, 40, 30]], head[:, :3])
    again = ClassSoftmax(WIDTH, VOCAB, NEVER, (8, 20))
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again.scores(hidden), layer.scores(hidden))


def test_draws_follow_the_frequencies_given() -> None:
    layer = make("sampled")
    assert isinstance(layer, SampledSoftmax)
    assert layer.share[0] / layer.share[4] == pytest.approx(5)
    counts = torch.zeros(VOCAB, dtype=torch.long)
    counts[[50, 40, NEVER]] = torch.tensor([30, 10, 100])
    layer.rank(counts)
    assert layer.share.sum().item() == pytest.approx(1)
    assert layer.share[NEVER] == 0
    assert layer.share[50] / layer.share[40] == pytest.approx(3)
    assert layer.share.ne(0).sum() == VOCAB - 1


@pytest.mark.parametrize("ranked", [False, True], ids=["log-uniform", "unigram"])
def test_what_is_learned_from_draws_is_what_all_words_would_teach(ranked: bool) -> None:
    """Words that occur in known shares are given these shares by a layer that sees some 15 of 60 at a time."""
    layer = make("sampled")
    assert isinstance(layer, SampledSoftmax)
    counts = (torch.arange(VOCAB) * 7 % 11 + 1) ** 2
    counts[NEVER] = 0
    if ranked:
        layer.rank(counts)
    targets = torch.arange(VOCAB).repeat_interleave(counts)
    hidden = torch.zeros(len(targets), WIDTH)
    torch.manual_seed(5)
    for step in range(400):
        (slope,) = torch.autograd.grad(layer.log_probability(hidden, targets).mean(), [layer.bias])
        with torch.no_grad():
            layer.bias.add_(slope, alpha=10 / (1 + step / 40))
    found, right = layer.eval().scores(hidden[:1])[0].exp(), counts / counts.sum()
    assert (found - right).abs().sum() < 0.2
    assert (right - right[right > 0].mean()).abs().sum() > 0.7


def test_with_draws_enough_the_estimate_is_exact() -> None:
    layer = make("sampled")
    assert isinstance(layer, SampledSoftmax)
    hidden, targets = problem(8)
    layer.samples = 20_000
    near = layer.log_probability(hidden, targets)
    right = layer.eval().log_probability(hidden, targets)
    assert torch.allclose(near, right, atol=1e-5)
    weights = list(layer.parameters())
    for one, other in zip(
        torch.autograd.grad(near.sum(), weights),
        torch.autograd.grad(right.sum(), weights),
        strict=True,
    ):
        assert (one - other).norm() < 1e-5 * other.norm()


def test_draws_are_a_function_of_the_seed() -> None:
    layer = make("sampled")
    hidden, targets = problem(20)
    found = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        found.append(layer.log_probability(hidden, targets))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    layer.eval()
    before = torch.get_rng_state()
    layer.log_probability(hidden, targets)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("kind", KINDS)
def test_targets_can_be_learned(kind: str) -> None:
    layer = make(kind)
    hidden, targets = problem(10)
    weights = list(layer.parameters())
    for _ in range(60):
        slopes = torch.autograd.grad(layer.log_probability(hidden, targets).sum(), weights)
        with torch.no_grad():
            for weight, slope in zip(weights, slopes, strict=True):
                weight.add_(slope, alpha=0.1)
    assert layer.eval().log_probability(hidden, targets).exp().min() > 0.8
