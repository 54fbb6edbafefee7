"""How far back a model looks: the same numbers by another way, and the lectures' claim that a tanh network forgets."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from firth.base.errors import InputError
from firth.models.ffnn import Ffnn
from firth.models.gpt import Gpt, GptSettings
from firth.models.rnn import Rnn, RnnSettings
from firth.pages.chart import chart
from firth.probes import gradient as module
from firth.probes.gradient import cut, gradient
from tests.unit.speakers import HELD_OUT, LENGTH, NAMES, bundle, tokenizer

DESCENDING = [name for name in NAMES if name != "ngram"]
WORDS = tokenizer("words")
TEXT = torch.tensor(
    [token for found in WORDS.encode(HELD_OUT, special=False) for token in (*found.ids, WORDS.sep)]
)


def of(name: str) -> Gpt | Rnn | Ffnn:
    model = bundle(name).language
    assert isinstance(model, Gpt | Rnn | Ffnn)
    return model


def by_weights(model: Gpt | Rnn | Ffnn, before: list[int], window: Tensor) -> list[float]:
    """The same norms from the gradients of weights: of tokens that occur once, or of positions, which are added to the tokens."""
    model.zero_grad()
    row = torch.cat([torch.tensor(before, dtype=torch.long), window])
    scores, _ = model.score(row, torch.tensor([len(row)]))
    scores[-1].backward()
    if isinstance(model, Gpt):
        slopes = model.position.weight.grad[1 : len(row)].flip(0)
    else:
        slopes = model.table.grad[window[:-1].flip(0)] / model.table.shape[1] ** 0.5
    return slopes[: len(window) - 1].norm(dim=1).tolist()


@pytest.mark.parametrize("name", DESCENDING)
def test_it_equals_the_gradient_of_weights(name: str) -> None:
    model = of(name)
    ids = (
        torch.randperm(model.vocab - 10, generator=torch.Generator().manual_seed(1))[: 7 * 18] + 10
    )
    windows, before = list(ids.split(18)), model.opening(WORDS.sep)
    expected = torch.tensor(
        [by_weights(model, before, window) for window in windows], dtype=torch.float64
    )
    found = gradient(model, windows, before)
    assert found.counts == [len(windows)] * 17
    assert torch.tensor(found.mean) == pytest.approx(expected.mean(0).numpy(), rel=1e-4, abs=1e-9)
    some = expected.min(0).values > 0
    assert torch.tensor(found.geometric)[some] == pytest.approx(
        expected.log().mean(0).exp()[some].numpy(), rel=1e-4
    )
    assert [value == 0 for value in found.geometric] == (~some).tolist()


def fresh(cell: str, forget: float = 0.0) -> Rnn:
    """A recurrent network that has learned nothing, its forget gates open as far as asked."""
    torch.manual_seed(1)
    model = Rnn(RnnSettings(vocab=WORDS.size, start=WORDS.cls, width=64, depth=1, cell=cell))
    if forget:
        torch.nn.init.constant_(model.layers.layers[0].take.bias[2 * 64 : 3 * 64], forget)
    return model


def test_it_vanishes_in_a_tanh_network_and_not_in_an_lstm() -> None:
    windows = cut(TEXT, targets=100)
    tanh, closed, wide = (
        gradient(model, windows).relative
        for model in (fresh("tanh"), fresh("lstm"), fresh("lstm", forget=5.0))
    )
    for left in ("mean", "geometric"):
        assert getattr(tanh, left)[29] < 1e-5
        assert getattr(closed, left)[29] < 1e-4
        assert getattr(wide, left)[29] > 0.3
        assert getattr(wide, left)[49] > 0.1


def test_a_feed_forward_network_sees_no_further_than_its_order() -> None:
    found = gradient(of("ffnn, carrying"), cut(TEXT, targets=50), [WORDS.sep])
    assert min(found.geometric[:3]) > 0
    assert found.mean[3:] == found.geometric[3:] == [0.0] * 47


def test_what_a_model_forgets_by_design_is_not_counted() -> None:
    line = next(
        torch.tensor(found.ids[:8])
        for found in WORDS.encode(HELD_OUT, special=False)
        if len(found) > 8
    )
    window = torch.cat([line[:5], torch.tensor([WORDS.sep]), line])
    apart, carried = (gradient(of(name), [window]) for name in ("rnn", "rnn, carrying"))
    assert apart.counts == [1] * 7
    assert carried.counts == [1] * 13
    assert apart.mean == pytest.approx(gradient(of("rnn"), [line]).mean, rel=1e-5)


def test_what_is_too_small_for_a_number_is_nothing() -> None:
    model = fresh("tanh")
    with torch.no_grad():
        model.layers.layers[0].keep.weight.mul_(1e-3)
    found = gradient(model, cut(TEXT, far=20, targets=20)).relative
    assert found.geometric[0] == 1
    assert found.geometric[19] == 0
    kept = [value for value in found.geometric if value]
    assert all(later < 0.01 * sooner for sooner, later in pairwise(kept))


def test_a_gpt_looks_back_as_far_as_it_has_positions() -> None:
    ids = TEXT[:60] % of("gpt").vocab
    assert len(gradient(of("gpt"), cut(ids)).counts) == LENGTH - 2
    settings = GptSettings(
        vocab=WORDS.size, width=16, depth=1, heads=2, inner=32, length=64, start=WORDS.cls
    )
    assert len(gradient(Gpt(settings), cut(ids)).counts) == 50


@pytest.mark.parametrize("name", DESCENDING)
def test_it_is_the_same_batch_by_batch_and_leaves_no_trace(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = of(name).train()
    windows = cut(TEXT % model.vocab, far=12, targets=20)
    done: list[int] = []
    whole = gradient(model, windows, progress=done.append)
    monkeypatch.setattr(module, "SCORES", 1)
    apart = gradient(model, windows, progress=done.append)
    assert whole.counts == apart.counts
    assert whole.mean == pytest.approx(apart.mean, rel=1e-4)
    assert done == [20, *range(1, 21)]
    assert model.training
    assert not any(part._forward_hooks for part in model.modules())
    model.eval()


def test_windows_are_evenly_far_apart() -> None:
    ids = torch.arange(101)
    assert [window.tolist() for window in cut(ids[:4], far=2)] == [[0, 1], [0, 1, 2], [1, 2, 3]]
    assert [int(window[-1]) for window in cut(ids, targets=5)] == [1, 21, 41, 61, 81]
    assert {len(window) for window in cut(ids, far=3)[2:]} == {4}


@pytest.mark.parametrize("size", [0, 1])
def test_a_text_of_less_than_two_tokens_is_refused(size: int) -> None:
    with pytest.raises(InputError, match="no token of this text"):
        gradient(of("rnn"), cut(TEXT[:size]))


def test_powers_of_ten_are_drawn_at_even_heights() -> None:
    drawn = chart("x", {"a": [(1, 1.0), (2, 1e-4), (3, 1e-8), (4, 0.0)]}, "y", log=True)
    assert [f">{power}<" in drawn for power in ("1", "0.01", "0.0001", "1e-06", "1e-08")] == [
        True
    ] * 5
    heights = [
        float(point.split(",")[1]) for point in drawn.split('points="')[1].split('"')[0].split()
    ]
    assert len(heights) == 3  # zero has no logarithm
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1], abs=0.11)
    above = chart("x", {"a": [(1, 30.0), (2, 20_000.0)]}, "y", log=True)
    assert [f">{power}<" in above for power in ("10", "100", "1e+03", "1e+04", "1e+05")] == [
        True
    ] * 5
