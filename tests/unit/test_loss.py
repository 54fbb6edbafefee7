"""The vocabulary's loss against torch's own: values, gradients, and answers so wrong that their chance is no number."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from firth.nn.loss import table_loss


def problem(
    answers: int, width: int, vocab: int, seed: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """Vectors, a table, a bias and the right answers."""
    maker = torch.Generator().manual_seed(seed)
    shapes = ((answers, width), (vocab, width), (vocab,))
    tensors = [
        torch.randn(shape, generator=maker).to(dtype).requires_grad_(True) for shape in shapes
    ]
    return (*tensors, torch.randint(vocab, (answers,), generator=maker))


def usual(x: Tensor, table: Tensor, bias: Tensor, answers: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(x, table, bias), answers, reduction="sum")


def compare(
    x: Tensor, table: Tensor, bias: Tensor, answers: Tensor, tolerance: float, slope: float = 1.0
) -> None:
    """Hold value and gradients to torch's, relative to the largest."""
    found, expected = table_loss(x, table, bias, answers), usual(x, table, bias, answers)
    assert torch.isfinite(found)
    assert found.item() == pytest.approx(expected.item(), rel=tolerance, abs=tolerance)
    ours = torch.autograd.grad(found * slope, (x, table, bias))
    theirs = torch.autograd.grad(expected * slope, (x, table, bias))
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape
        assert torch.isfinite(one).all()
        assert (one - other).abs().max() <= tolerance * max(1.0, other.abs().max().item())


@pytest.mark.parametrize(
    ("answers", "width", "vocab"),
    [(1, 1, 2), (3, 5, 7), (40, 16, 33), (64, 32, 1000), (20, 64, 30_522)],
)
def test_value_and_gradients_are_torchs(answers: int, width: int, vocab: int, seed: int) -> None:
    compare(*problem(answers, width, vocab, seed), tolerance=1e-5)
    compare(*problem(answers, width, vocab, seed), tolerance=1e-5, slope=1 / 37)


def test_gradients_to_the_last_digit(seed: int) -> None:
    x, table, bias, answers = problem(6, 4, 9, seed, torch.float64)
    assert torch.autograd.gradcheck(lambda *given: table_loss(*given, answers), (x, table, bias))
    compare(x, table, bias, answers, tolerance=1e-13)


@pytest.mark.parametrize("gap", [60.0, 103.0, 500.0, 50_000.0])
def test_very_wrong_answers_have_a_finite_loss(gap: float) -> None:
    """Sure of the first piece where another is right, beside an answer that is right and one that is undecided."""
    table = torch.eye(4, requires_grad=True)
    x = torch.tensor(
        [[gap, 0, 0, 0], [gap, 0, 0, 0], [0, 0, 0, 0], [gap, gap, 0, 0]]
    ).requires_grad_(True)
    bias = torch.tensor([0.0, 0.5, -0.5, 0.0], requires_grad=True)
    answers = torch.tensor([3, 0, 2, 3])
    assert table_loss(x[:1], table, bias, answers[:1]).item() == pytest.approx(gap, rel=1e-6)
    compare(x, table, bias, answers, tolerance=1e-5)


def test_ordinary_scores_with_one_far_away(seed: int) -> None:
    x, table, bias, answers = problem(50, 16, 300, seed)
    with torch.no_grad():
        x[7] *= 300  # scores that differ by hundreds
    scores = F.linear(x, table, bias)[7]
    assert scores.max() - scores[answers[7]] > 500
    compare(x, table, bias, answers, tolerance=1e-5)


def test_no_answers_have_no_loss() -> None:
    x, table, bias, answers = problem(0, 8, 20, 0)
    loss = table_loss(x, table, bias, answers)
    loss.backward()
    assert loss.item() == 0
    assert table.grad.abs().sum() == bias.grad.abs().sum() == 0


def test_sums_of_parts_are_the_sum(seed: int) -> None:
    x, table, bias, answers = problem(30, 8, 40, seed, torch.float64)
    whole = table_loss(x, table, bias, answers)
    parts = sum(
        table_loss(x[a:b], table, bias, answers[a:b]) for a, b in ((0, 11), (11, 12), (12, 30))
    )
    assert whole.item() == pytest.approx(parts.item(), rel=1e-14)


def test_a_table_that_is_also_the_embedding_gets_both_gradients(seed: int) -> None:
    _, table, bias, answers = problem(12, 8, 25, seed, torch.float64)
    ids = torch.randint(25, (12,), generator=torch.Generator().manual_seed(seed))
    ours = torch.autograd.grad(table_loss(table[ids].tanh(), table, bias, answers), table)[0]
    theirs = torch.autograd.grad(usual(table[ids].tanh(), table, bias, answers), table)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_it_bears_autocast(without_onednn: None, seed: int) -> None:
    """Rounded to bf16 in the products alone: the loss is summed and the gradients arrive in single precision."""
    x, table, bias, answers = problem(64, 32, 500, seed)
    exact = torch.autograd.grad(usual(x, table, bias, answers), (x, table, bias))
    with torch.autocast("cpu", torch.bfloat16):
        loss = table_loss(x, table, bias, answers)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(usual(x, table, bias, answers).item(), rel=0.01)
    for one, other in zip(torch.autograd.grad(loss, (x, table, bias)), exact, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() <= 0.03 * other.norm()
