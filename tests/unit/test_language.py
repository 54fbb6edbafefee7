"""The feed-forward and the recurrent language model: the same scores however a text is cut, carried over or stepped through."""

import math
import re
from functools import cache
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.models.ffnn import Ffnn, FfnnSettings
from firth.models.rnn import Rnn, RnnSettings
from firth.nn.softmax import ClassSoftmax, SampledSoftmax
from firth.samples.texts import TEXTS
from firth.samples.tickets import tickets

END = "</s>"


def words(text: str) -> list[str]:
    return [*re.findall(r"\w+|[^\w\s]", text.lower()), END]


TEXT = [
    words(line)
    for line in [
        *(line for lines in TEXTS.values() for line in lines),
        *(ticket.text for ticket in tickets()),
    ]
]
COUNTS: dict[str, int] = {}
for sentence in TEXT:
    for word in sentence:
        COUNTS[word] = COUNTS.get(word, 0) + 1
IDS = {
    word: number
    for number, word in enumerate(sorted(COUNTS, key=lambda word: (-COUNTS[word], word)))
}
V = len(IDS)

RNNS: dict[str, dict[str, Any]] = {
    "tanh": {"cell": "tanh"},
    "gru": {"cell": "gru", "depth": 1},
    "lstm": {},
    "lstm, tied": {"tied": True},
    "lstm, classes": {"output": "classes", "cutoffs": (40,)},
    "lstm, sampled": {"output": "sampled", "samples": 400, "tied": True},
}
FFNNS: dict[str, dict[str, Any]] = {
    "order 2": {"order": 2},
    "order 4": {"order": 4},
    "order 4, direct": {"order": 4, "direct": True},
    "order 3, tied": {"order": 3, "inner": 16, "tied": True},
    "order 3, classes": {"order": 3, "output": "classes", "cutoffs": (30, 100), "direct": True},
}
NAMES = [*RNNS, *FFNNS]


@cache
def make(name: str, end: bool = True, start: int = V) -> Rnn | Ffnn:
    """A small model with lively weights."""
    torch.manual_seed(0)
    marks: dict[str, Any] = {
        "vocab": V,
        "start": start,
        "end": IDS[END] if end else None,
        "spread": 0.5,
        "width": 16,
    }
    model = (
        Rnn(RnnSettings(**marks | RNNS[name]))
        if name in RNNS
        else Ffnn(FfnnSettings(**marks | {"inner": 20} | FFNNS[name]))
    )
    return model.eval()


def tensors(sentences: list[list[str]]) -> tuple[Tensor, Tensor]:
    return torch.tensor(
        [IDS[word] for s in sentences for word in s], dtype=torch.long
    ), torch.tensor([len(s) for s in sentences])


def close(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert torch.allclose(ours, theirs, atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", ["lstm", "gru", "order 4"])
def test_without_an_end_mark_one_sentence_flows_into_the_next(name: str) -> None:
    model = make(name, end=False)
    ids, lengths = tensors(TEXT[:4])
    with torch.no_grad():
        apart, _ = model.score(ids, lengths)
        whole, _ = model.score(ids, torch.tensor([len(ids)]))
        first, state = model.score(ids[:21], torch.tensor([21]))
        second, _ = model.score(ids[21:], torch.tensor([len(ids) - 21]), state)
    first_sentence = int(lengths[0])
    close(whole[:first_sentence], apart[:first_sentence])
    assert (whole[first_sentence] - apart[first_sentence]).abs() > 1e-3
    close(torch.cat([first, second]), whole)


@pytest.mark.parametrize("name", NAMES)
def test_the_start_mark_is_never_predicted(name: str) -> None:
    """It may be one id beyond the vocabulary, or one in it; where a text holds one, it begins anew."""
    for model in (make(name), make(name, start=5)):
        start = model.settings.start
        with torch.no_grad():
            scores, _ = model.step(torch.tensor([start]), model.start(1))
            assert scores.exp().sum().item() == pytest.approx(1, abs=1e-5)
            ids, _ = tensors(TEXT[1:2])
            ids = ids[ids != 5]
            fresh, _ = model.score(ids, torch.tensor([len(ids)]))
            again, _ = model.score(
                torch.cat([ids[:4], torch.tensor([start]), ids]), torch.tensor([len(ids) + 5])
            )
        assert again[4] == -math.inf
        close(again[5:], fresh)
    assert scores[0, 5] == -math.inf
    assert scores.isfinite().sum() == V - 1


def test_the_feed_forward_model_is_that_of_the_formula() -> None:
    """y = b + W x + U tanh(d + H x) over the words before, side by side."""
    model = make("order 4, direct")
    assert isinstance(model, Ffnn)
    table, hidden, output = (
        model.table * 4,
        model.hidden,
        model.output,
    )  # the root of the width
    with torch.no_grad():
        found, _ = model.score(*tensors(TEXT[:3]))
        expected = []
        for sentence in TEXT[:3]:
            ids = [V, V, V, *(IDS[word] for word in sentence)]
            for place in range(3, len(ids)):
                x = torch.cat([table[word] for word in ids[place - 3 : place]])
                u, w = output.table[:, :20], output.table[:, 20:]
                y = output.bias + w @ x + u @ torch.tanh(hidden.bias + hidden.weight @ x)
                expected.append(y[:V].log_softmax(0)[ids[place]])
    close(found, torch.stack(expected))


def test_the_recurrent_model_is_torchs_own() -> None:
    """An embedding, two of torch's LSTM layers and a linear layer, over a text that begins with the start mark."""
    model = make("lstm", end=False)
    assert isinstance(model, Rnn)
    theirs = nn.LSTM(16, 16, 2)
    with torch.no_grad():
        for number, layer in enumerate(model.layers.layers):
            order = torch.arange(64).view(4, 16)[[1, 2, 0, 3]].flatten()
            getattr(theirs, f"weight_ih_l{number}").copy_(layer.take.weight[order])
            getattr(theirs, f"weight_hh_l{number}").copy_(layer.keep.weight[order])
            getattr(theirs, f"bias_ih_l{number}").copy_(layer.take.bias[order])
            getattr(theirs, f"bias_hh_l{number}").zero_()
    ids, _ = tensors(TEXT[:3])
    found, _ = model.score(ids, torch.tensor([len(ids)]))
    hidden, _ = theirs(model.token_layer(torch.cat([torch.tensor([V]), ids[:-1]])))
    scores = nn.functional.linear(
        hidden, model.output.table[:V], model.output.bias[:V]
    ).log_softmax(1)
    expected = scores.gather(1, ids[:, None])[:, 0]
    close(found, expected)
    ours = torch.autograd.grad(found.sum(), [model.table, model.output.table])
    for one, other in zip(
        ours,
        torch.autograd.grad(expected.sum(), [model.table, model.output.table]),
        strict=True,
    ):
        assert (one - other).norm() <= 1e-5 * other.norm()


def test_words_further_back_than_the_order_do_not_count() -> None:
    model = make("order 4", end=False)
    ids, _ = tensors(TEXT[:1])
    other = ids.clone()
    other[2] = IDS["kettle"]
    with torch.no_grad():
        one, two = (model.score(some, torch.tensor([len(some)]))[0] for some in (ids, other))
    assert torch.equal(one[6:], two[6:])
    assert (one[3:6] - two[3:6]).abs().min() > 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_weight(name: str) -> None:
    model = make(name)
    loss = -model.score(*tensors(TEXT))[0].sum()
    weights = dict(model.named_parameters())
    for part, slope in zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True):
        assert slope.isfinite().all(), part
        assert slope.abs().sum() > 0, part


def test_no_gradient_flows_back_through_a_detached_state() -> None:
    """But the first word after a cut still teaches the layers, by way of the word before it."""
    model = make("lstm", end=False)
    assert isinstance(model, Rnn)
    ids, _ = tensors(TEXT[:1])
    _, state = model.score(ids[:5], torch.tensor([5]))
    for kept, reached in (
        (state, set(ids[:6].tolist())),
        (model.state(state.tensors()), {int(ids[4]), int(ids[5])}),
    ):
        scores, _ = model.score(ids[5:7], torch.tensor([2]), kept)
        slope, *others = torch.autograd.grad(
            scores.sum(), [model.table, *model.layers.parameters()], retain_graph=True
        )
        assert set(slope.abs().sum(1).nonzero()[:, 0].tolist()) - {V} == reached
        assert all(other.abs().sum() > 0 for other in others)
    first, _ = model.score(ids[5:6], torch.tensor([1]), model.state(state.tensors()))
    assert all(
        slope.abs().sum() > 0
        for slope in torch.autograd.grad(first.sum(), list(model.layers.parameters()))
    )
    _, stepped = model.step(ids[:1], model.start(1))
    assert not stepped.tensors()["memory"].requires_grad


@pytest.mark.parametrize(
    "name", ["tanh", "gru", "lstm, sampled", "order 4, direct", "order 3, classes"]
)
def test_a_text_is_learned(name: str) -> None:
    """From worse than guessing to far better than the frequencies of words, by plain descent with dropout."""
    torch.manual_seed(0)
    known = make(name).settings
    changed = type(known)(
        **known.model_dump()
        | {"dropout": 0.1, "spread": 0.1, "width": 32}
        | ({"inner": 32} if name in FFNNS else {})
    )
    model = Rnn(changed) if isinstance(changed, RnnSettings) else Ffnn(changed)
    counts = torch.tensor([*(COUNTS[word] for word in IDS), 0])
    if isinstance(model.output, ClassSoftmax | SampledSoftmax):
        model.output.rank(counts)
    ids, lengths = tensors(TEXT)
    steps = torch.optim.AdamW(model.parameters(), 0.02)
    for _ in range(40):
        steps.zero_grad()
        (-model.score(ids, lengths)[0].mean()).backward()
        steps.step()
    with torch.no_grad():
        found = model.eval().score(ids, lengths)[0].mean().exp()
    frequencies = counts / counts.sum()
    assert found > 1.5 * (frequencies * frequencies.clamp(min=1e-9).log()).sum().exp()


def test_dropout_is_a_function_of_the_seed() -> None:
    for kind, sizes in ((Rnn, RnnSettings(vocab=V, start=V, width=8, dropout=0.5)),
                        (Ffnn, FfnnSettings(vocab=V, start=V, width=8, inner=8, order=3, dropout=0.5))):  # fmt: skip
        model, found = kind(sizes), []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            found.append(model.score(*tensors(TEXT[:2]))[0])
        assert torch.equal(found[0], found[1])
        assert not torch.equal(found[0], found[2])


@pytest.mark.parametrize("name", ["lstm", "order 4"])
def test_what_does_not_fit_is_refused(name: str) -> None:
    model = make(name)
    ids = torch.tensor([1, 2, 3])
    with pytest.raises(InputError, match="add up to 3 tokens"):
        model.score(ids, torch.tensor([2]))
    with pytest.raises(InputError, match="add up to 3 tokens"):
        model.score(ids, torch.tensor([4, -1]))
    with pytest.raises(InputError, match=f"id {V + 1} is not in"):
        model.score(torch.tensor([1, V + 1]), torch.tensor([2]))
    with pytest.raises(InputError, match="id -1 is not in"):
        model.step(torch.tensor([-1]), model.start(1))
    with pytest.raises(InputError, match="a state of 2 rows"):
        model.score(ids, torch.tensor([3]), model.start(2))
    with pytest.raises(InputError, match="a state of 2 rows"):
        model.step(ids, model.start(2))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"start": 11}, "beyond the vocabulary"),
        ({"end": 10}, "beyond the vocabulary"),
        ({"start": 3, "end": 3}, "no token to predict"),
        ({"vocab": 1, "start": 0}, "no token to predict"),
        ({"output": "classes"}, "need cutoffs"),
        ({"cutoffs": (3,)}, "need cutoffs"),
        ({"output": "classes", "cutoffs": (5, 3)}, "don't rise"),
        ({"output": "classes", "cutoffs": (10,)}, "don't rise"),
        ({"output": "classes", "cutoffs": (0, 3)}, "don't rise"),
        ({"output": "classes", "cutoffs": (3,), "tied": True}, "can't be tied"),
        ({"output": "classes", "cutoffs": (2, 4), "width": 15}, "too narrow"),
        ({"cell": "relu"}, "cell"),
        ({"depht": 2}, "depht"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], reason: str) -> None:
    RnnSettings(vocab=10, start=10, width=16)
    with pytest.raises(ValidationError, match=reason):
        RnnSettings(**{"vocab": 10, "start": 10, "width": 16} | changes)


def test_a_feed_forward_table_is_tied_only_where_it_fits() -> None:
    sizes = {"vocab": 10, "start": 10, "width": 8, "order": 3}
    FfnnSettings(**sizes, inner=8, tied=True)
    for changes in ({"inner": 9}, {"inner": 8, "direct": True}):
        with pytest.raises(ValidationError, match="tied table"):
            FfnnSettings(**sizes, **changes, tied=True)
