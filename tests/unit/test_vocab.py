"""Log-probabilities over a vocabulary against torch's own: values, gradients, very wrong answers."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from firth.nn import vocab
from firth.nn.vocab import CHUNK, cross_entropy, log_probs, target_log_probs


def problem(
    answers: int, width: int, words: int, seed: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, ...]:
    """Vectors, a table, a bias and the right answers."""
    maker = torch.Generator().manual_seed(seed)
    shapes = ((answers, width), (words, width), (words,))
    tensors = [
        torch.randn(shape, generator=maker).to(dtype).requires_grad_(True) for shape in shapes
    ]
    return (*tensors, torch.randint(words, (answers,), generator=maker))


def usual(x: Tensor, table: Tensor, bias: Tensor, answers: Tensor) -> Tensor:
    return F.cross_entropy(F.linear(x, table, bias), answers, reduction="sum")


def compare(
    x: Tensor, table: Tensor, bias: Tensor, answers: Tensor, tolerance: float, slope: float = 1.0
) -> None:
    """Hold value and gradients to torch's, relative to the largest."""
    found, expected = cross_entropy(x, table, answers, bias), usual(x, table, bias, answers)
    assert torch.isfinite(found)
    assert found.item() == pytest.approx(expected.item(), rel=tolerance, abs=tolerance)
    ours = torch.autograd.grad(found * slope, (x, table, bias))
    theirs = torch.autograd.grad(expected * slope, (x, table, bias))
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape
        assert torch.isfinite(one).all()
        assert (one - other).abs().max() <= tolerance * max(1.0, other.abs().max().item())


@pytest.mark.parametrize(
    ("answers", "width", "words"),
    [(1, 1, 2), (3, 5, 7), (40, 16, 33), (64, 32, 1000), (20, 64, 30_522)],
)
def test_value_and_gradients_are_torchs(answers: int, width: int, words: int, seed: int) -> None:
    compare(*problem(answers, width, words, seed), tolerance=1e-5)
    compare(*problem(answers, width, words, seed), tolerance=1e-5, slope=1 / 37)


def test_gradients_to_the_last_digit(seed: int) -> None:
    x, table, bias, answers = problem(6, 4, 9, seed, torch.float64)
    assert torch.autograd.gradcheck(
        lambda x, table, bias: cross_entropy(x, table, answers, bias), (x, table, bias)
    )
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
    assert cross_entropy(x[:1], table, answers[:1], bias).item() == pytest.approx(gap, rel=1e-6)
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
    loss = cross_entropy(x, table, answers, bias)
    loss.backward()
    assert loss.item() == 0
    assert table.grad.abs().sum() == bias.grad.abs().sum() == 0


def test_sums_of_parts_are_the_sum(seed: int) -> None:
    x, table, bias, answers = problem(30, 8, 40, seed, torch.float64)
    whole = cross_entropy(x, table, answers, bias)
    parts = sum(
        cross_entropy(x[a:b], table, answers[a:b], bias) for a, b in ((0, 11), (11, 12), (12, 30))
    )
    assert whole.item() == pytest.approx(parts.item(), rel=1e-14)


def test_a_table_that_is_also_the_embedding_gets_both_gradients(seed: int) -> None:
    _, table, bias, answers = problem(12, 8, 25, seed, torch.float64)
    ids = torch.randint(25, (12,), generator=torch.Generator().manual_seed(seed))
    ours = torch.autograd.grad(cross_entropy(table[ids].tanh(), table, answers, bias), table)[0]
    theirs = torch.autograd.grad(usual(table[ids].tanh(), table, bias, answers), table)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_it_bears_autocast(without_onednn: None, seed: int) -> None:
    """Rounded to bf16 in the products alone: the loss is summed and the gradients arrive in single precision."""
    x, table, bias, answers = problem(64, 32, 500, seed)
    exact = torch.autograd.grad(usual(x, table, bias, answers), (x, table, bias))
    with torch.autocast("cpu", torch.bfloat16):
        loss = cross_entropy(x, table, answers, bias)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(usual(x, table, bias, answers).item(), rel=0.01)
    for one, other in zip(torch.autograd.grad(loss, (x, table, bias)), exact, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() <= 0.03 * other.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("answers", [0, 1, 40, CHUNK, CHUNK + 1, 2 * CHUNK + 37])
def test_log_probabilities_of_targets_are_torchs(
    answers: int, biased: bool, dtype: torch.dtype, seed: int
) -> None:
    """In one chunk or several, whether all targets count the same or each has a slope of its own."""
    x, table, bias, right = problem(answers, 16, 77, seed, dtype)
    with torch.no_grad():
        x[::9] *= 100  # logits so far apart that some probabilities are no numbers
    given = (x, table, bias) if biased else (x, table)
    generator = torch.Generator().manual_seed(seed)
    for slopes in (
        torch.full((answers,), 0.3, dtype=dtype),
        torch.rand(answers, generator=generator, dtype=dtype),
    ):
        found = target_log_probs(x, table, right, bias if biased else None)
        logits = F.linear(x, table, bias if biased else None)
        known = logits.log_softmax(1).gather(1, right[:, None])[:, 0]
        assert torch.allclose(found, known, rtol=1e-5, atol=1e-5)
        ours, theirs = (torch.autograd.grad((one * slopes).sum(), given) for one in (found, known))
        for one, other in zip(ours, theirs, strict=True):
            assert torch.allclose(one, other, rtol=1e-4, atol=1e-5 * max(1, answers / 100))


def test_what_is_frozen_gets_no_gradient(seed: int) -> None:
    x, table, bias, right = problem(40, 16, 77, seed)
    known = torch.autograd.grad(cross_entropy(x, table, right, bias), (x, table, bias))
    for place in range(3):
        given = [one if place == n else one.detach() for n, one in enumerate((x, table, bias))]
        loss = cross_entropy(given[0], given[1], right, given[2])
        (only,) = torch.autograd.grad(loss, given[place])
        assert torch.allclose(only, known[place], rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        assert not cross_entropy(x, table, right, bias).requires_grad


def test_a_graph_that_is_kept_gives_its_gradients_again(seed: int) -> None:
    x, table, bias, right = problem(40, 16, 77, seed)
    loss = cross_entropy(x, table, right, bias) / 7
    first = torch.autograd.grad(loss, (x, table, bias), retain_graph=True)
    assert all(map(torch.equal, first, torch.autograd.grad(loss, (x, table, bias))))


@pytest.mark.parametrize("rows", [1, 3, 4, 8, 10, 11, 40])
def test_log_probabilities_of_all_words_are_torchs(
    rows: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the table is read piece by piece, and with a gradient."""
    monkeypatch.setattr(vocab, "PIECE", 10 * 16)
    x, table, bias, _ = problem(rows, 16, 77, seed)
    for given in (None, bias):
        known = F.linear(x, table, given).log_softmax(1)
        found = log_probs(x, table, given)
        assert torch.allclose(found, known, rtol=1e-5, atol=1e-5)
        (ours,), (theirs,) = (torch.autograd.grad(one[:, 5].sum(), x) for one in (found, known))
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            assert torch.allclose(log_probs(x, table, given), known, rtol=1e-5, atol=1e-5)


def test_smoothed_targets_are_the_published_mixture() -> None:
    """Of 6 words the target has 1 - e + e / 6 and every other e / 6: the loss's slope at even logits."""
    x = torch.zeros(1, 3)
    bias = torch.zeros(6, requires_grad=True)
    loss = cross_entropy(x, torch.zeros(6, 3), torch.tensor([4]), bias, smoothing=0.1)
    (slope,) = torch.autograd.grad(loss, bias)
    truth = 1 / 6 - slope
    known = torch.full((6,), 0.1 / 6)
    known[4] = 1 - 0.1 + 0.1 / 6
    assert torch.allclose(truth, known, atol=1e-7)
    assert truth.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("weighted", [False, True], ids=["sum", "weighted"])
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_smoothing_is_torchs(smoothing: float, biased: bool, weighted: bool, seed: int) -> None:
    x, table, bias, right = problem(CHUNK + 40, 16, 77, seed, torch.float64)
    given = (x, table, bias) if biased else (x, table)
    logits = F.linear(*given)
    known = -F.cross_entropy(logits, right, reduction="none", label_smoothing=smoothing)
    found = target_log_probs(x, table, right, bias if biased else None, smoothing)
    assert torch.allclose(found, known, rtol=1e-12)
    slopes = torch.full((len(x),), 0.3, dtype=torch.float64)
    if weighted:
        slopes = torch.rand(len(x), dtype=torch.float64)
    ours, theirs = (torch.autograd.grad((one * slopes).sum(), given) for one in (found, known))
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-12)
