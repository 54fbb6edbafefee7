"""What every encoder promises: mates in a batch change nothing, both paths agree, gradients are right, a folder is exact."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call

from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.sentence import Sentence
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.models.protocols import Hidden
from firth.nn.attention import Attention
from firth.nn.block import Block
from firth.nn.embedding import Embedding
from firth.nn.heads import LinearHead, MaskedHead, Pooler
from firth.nn.pool import pool
from firth.nn.ragged import groups
from firth.predictor import Predictor
from firth.samples.texts import TEXTS
from firth.tasks import encoded
from firth.tasks.head import make_head
from tests.conftest import count

UNIT, TOKEN = 1e-6, 2e-6  # the design page's bounds on what mates may move
TRIALS = {"minilm": count(1000) // 2, "tiny": count(1000)}
SENTENCES = [text for texts in TEXTS.values() for text in texts]
ODD = [
    "",
    " ",
    "a",
    "🙂 🙃",
    "x\0y\u200bz",
    "cafe\u0301 naïve ÅÄÖ",
    "word " * 90,
    "!?" * 40,
    "一二三 四五",
]
Stream = tuple[Tensor, Tensor, Tensor, Tensor]


class Text(NamedTuple):
    """The tokens of one text."""

    ids: Tensor
    segments: Tensor


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def encoders() -> dict[str, Bundle]:
    """The real weights, and random ones."""
    real = load("minilm")
    torch.manual_seed(0)
    tiny = Bert(
        BertSettings(vocab=real.tokenizer.size, width=32, depth=3, heads=4, inner=64, spread=0.1)
    ).eval()
    return {
        "minilm": real,
        "tiny": Bundle(tiny.requires_grad_(False), real.tokenizer, sentence=Sentence("mean", True)),
    }


def stream(texts: list[Text]) -> Stream:
    """Lay texts one after another."""
    lengths = torch.tensor([len(text.ids) for text in texts])
    positions = torch.cat([torch.arange(len(text.ids)) for text in texts])
    return (
        torch.cat([text.ids for text in texts]),
        positions,
        torch.cat([text.segments for text in texts]),
        lengths,
    )


def texts_of(lengths: list[int], vocab: int, seed: int) -> list[Text]:
    """Random tokens in two segments."""
    generator = torch.Generator().manual_seed(seed)

    def text(length: int) -> Text:
        turn = int(torch.randint(1, length + 1, (), generator=generator))
        return Text(
            torch.randint(0, vocab, (length,), generator=generator),
            (torch.arange(length) >= turn).long(),
        )

    return [text(length) for length in lengths]


def apart(ours: Tensor, reference: Tensor) -> float:
    """The largest difference, in units of what the largest value makes of it."""
    assert ours.shape == reference.shape
    return (ours - reference).abs().max().item() / max(1.0, reference.abs().max().item())


# Runs of one length, runs of near-equal lengths and single tokens, in any order.
run = st.tuples(
    st.sampled_from([1, 1, 2, 3, 5, 8, 13, 21, 40, 64, 150]), st.integers(1, 6), st.integers(0, 2)
).map(lambda drawn: [max(1, drawn[0] - (i % (drawn[2] + 1))) for i in range(drawn[1])])
ragged = st.lists(run, min_size=1, max_size=5).map(
    lambda runs: [length for one in runs for length in one]
)


@pytest.mark.parametrize("name", TRIALS)
def test_mates_move_no_token(name: str, encoders: dict[str, Bundle]) -> None:
    """Whatever stands beside a text in the stream, in whatever order, its vectors are those that it has alone."""
    encoder = encoders[name].encoder

    @settings(max_examples=TRIALS[name])
    @given(ragged, st.integers(0, 2**31), st.randoms(use_true_random=False))
    def check(lengths: list[int], seed: int, rng: random.Random) -> None:
        texts = texts_of(lengths, encoder.settings.vocab, seed)
        with torch.inference_mode():
            alone = [encoder(*stream([text])) for text in texts]
            for order in (
                range(len(texts)),
                rng.sample(range(len(texts)), rng.randint(1, len(texts))),
            ):
                together = encoder(*stream([texts[i] for i in order]))
                pieces = together.tokens.split([lengths[i] for i in order])
                for row, (i, piece) in enumerate(zip(order, pieces, strict=True)):
                    assert apart(piece, alone[i].tokens) <= TOKEN
                    assert apart(together.pooled[row], alone[i].pooled[0]) <= TOKEN

    check()


@pytest.mark.parametrize("name", TRIALS)
def test_mates_move_no_vector(
    name: str, encoders: dict[str, Bundle], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same through the door that people use: any texts, any company, any order, any cut into batches."""
    predictor = Predictor(encoders[name], threads=1)
    texts = [*ODD, *SENTENCES[:: 1 if name == "tiny" else 3]]
    alone = np.concatenate([predictor.embed([text]) for text in texts])
    tokens = [predictor.embed([text], pool="none")[0] for text in texts]
    np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1, atol=1e-6)

    @settings(max_examples=TRIALS[name])
    @given(
        st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=24),
        st.sampled_from([1, 40, 200, 1536]),
    )
    def check(chosen: list[int], budget: int) -> None:
        monkeypatch.setattr(encoded, "TOKENS_PER_BATCH", budget)
        together = [texts[i] for i in chosen]
        assert np.abs(predictor.embed(together) - alone[chosen]).max() <= UNIT
        for i, spans in zip(chosen, predictor.embed(together, pool="none"), strict=True):
            assert spans.offsets == tokens[i].offsets
            assert (
                not spans.offsets
                or apart(torch.tensor(spans.vectors), torch.tensor(tokens[i].vectors)) <= TOKEN
            )

    check()


@pytest.mark.parametrize("name", TRIALS)
def test_both_paths_agree(name: str, encoders: dict[str, Bundle]) -> None:
    encoder = encoders[name].encoder

    @settings(max_examples=TRIALS[name])
    @given(ragged, st.integers(0, 2**31))
    def check(lengths: list[int], seed: int) -> None:
        asked = stream(texts_of(lengths, encoder.settings.vocab, seed))
        with torch.inference_mode():
            fast, slow = (
                encoder(*asked, layers=True, weights=weights) for weights in (False, True)
            )
        for one, other in zip(fast.layers, slow.layers, strict=True):
            assert apart(one, other) <= TOKEN
        assert apart(fast.pooled, slow.pooled) <= TOKEN
        check_shares(slow, lengths, encoder.settings.heads)

    check()


def check_shares(hidden: Hidden, lengths: list[int], heads: int) -> None:
    """Each head of each layer spends one whole share on each text's own tokens."""
    for layer in hidden.weights:
        assert [shares.shape for shares in layer] == [(heads, length, length) for length in lengths]
        for shares in layer:
            assert shares.min() >= 0
            assert (shares.sum(-1) - 1).abs().max() <= 1e-5


@pytest.mark.parametrize("weights", [False, True], ids=["fast", "explained"])
@pytest.mark.parametrize("training", [False, True], ids=["at rest", "training"])
def test_gradients_reach_every_parameter(training: bool, weights: bool) -> None:
    torch.manual_seed(0)
    encoder = Bert(
        BertSettings(vocab=40, width=32, depth=3, heads=4, inner=64, length=40, spread=0.2)
    )
    head = make_head("pretrain", encoder)
    model = nn.ModuleDict({"encoder": encoder, "head": head}).train(training)
    hidden = encoder(*stream(texts_of([9, 9, 8, 30, 1, 2], 40, 0)), weights=weights)
    outputs = [head.masked(hidden.tokens), head.next(hidden.pooled)]
    sum((torch.randn_like(x) * x).sum() for x in outputs).backward()
    asleep = [
        name
        for name, tensor in model.named_parameters()
        if tensor.grad is None or not tensor.grad.abs().sum() > 0
    ]
    assert asleep == []


SMALL = {
    "vocab": 30522,
    "width": 8,
    "depth": 2,
    "heads": 2,
    "inner": 12,
    "length": 30,
    "dropout": 0.3,
    "attention_dropout": 0.2,
}
ROBERTA = {
    "first_position": 2,
    "segments": 1,
    "pooler_dropout": True,
    "head_activation": "gelu",
}
DISTIL = {"segments": 0, "pooler_activation": "relu"}


@pytest.mark.parametrize(
    ("family", "kind", "tied", "special"),
    [
        ("bert", None, True, {"activation": "relu", "eps": 1e-6}),
        ("bert", "pretrain", True, {}),
        ("bert", "pretrain", False, {}),
        ("bert", "fill", True, {"pooler": False}),
        ("bert", "classify", True, {}),
        ("bert", "tag", True, {"pooler": False}),
        ("bert", "answer", True, {"pooler": False}),
        ("bert", "choice", True, {}),
        ("roberta", None, True, ROBERTA),
        ("xlm-roberta", None, True, ROBERTA),
        ("roberta", "fill", False, ROBERTA),
        ("roberta", "classify", True, ROBERTA),
        ("xlm-roberta", "choice", True, ROBERTA),
        ("distilbert", None, True, DISTIL | {"pooler": False}),
        ("distilbert", "fill", False, DISTIL | {"pooler": False}),
        ("distilbert", "classify", True, DISTIL),
    ],
)
def test_a_folder_is_exact(
    family: str,
    kind: str | None,
    tied: bool,
    special: dict[str, object],
    encoders: dict[str, Bundle],
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    encoder = Bert(BertSettings(**SMALL | special))
    labels = ("no", "yes", "måske") if kind in ("classify", "tag") else ()
    head = make_head(kind, encoder, labels, tied)
    given_model = Bundle(encoder, encoders["tiny"].tokenizer, family, kind, head, labels)
    for tensor in [*encoder.parameters(), *(head.parameters() if head else ())]:
        nn.init.normal_(tensor)
    loaded = load(save(given_model, tmp_path / "saved"))
    assert loaded.encoder.settings == encoder.settings
    assert (loaded.family, loaded.kind, loaded.tied, loaded.labels) == (family, kind, tied, labels)
    assert loaded.unmatched == ((), ())
    check_equal(loaded.encoder, encoder)
    if head is not None:
        check_equal(loaded.head, head)
    again = save(loaded, tmp_path / "again")
    assert (again / "model.safetensors").read_bytes() == (
        tmp_path / "saved/model.safetensors"
    ).read_bytes()


def check_equal(one: nn.Module, other: nn.Module) -> None:
    """Equal to the bit, and nothing left over."""
    ours, theirs = one.state_dict(), other.state_dict()
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []


LAYOUTS = {
    "equal": [3, 3, 3],
    "near": [4, 4, 3, 4, 3],
    "single tokens": [1, 1, 1],
    "one text": [6],
    "mixed": [5, 1, 1, 3, 3, 2, 7],
}


def gradcheck(
    module: nn.Module, call: Callable[[Callable[..., Tensor], Tensor], Tensor], x: Tensor
) -> bool:
    """Compare the gradients of an input and of all parameters with finite differences, in float64."""
    module.double()
    names = [name for name, _ in module.named_parameters()]
    values = [torch.randn_like(tensor).mul(0.5).requires_grad_() for tensor in module.parameters()]

    def function(given_x: Tensor, *tensors: Tensor) -> Tensor:
        return call(
            lambda *args: functional_call(module, dict(zip(names, tensors, strict=True)), args),
            given_x,
        )

    return torch.autograd.gradcheck(
        function, (x.double().requires_grad_(x.is_floating_point()), *values)
    )


@pytest.fixture
def numbers(seed: int) -> Callable[..., Tensor]:
    """Random numbers of a shape, in float64."""
    torch.manual_seed(seed)
    return lambda *shape: torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "make", [lambda: Attention(4, 2), lambda: Block(4, 2, 6)], ids=["attention", "block"]
)
def test_gradcheck_of_layers(
    make: Callable[[], nn.Module], layout: str, numbers: Callable[..., Tensor]
) -> None:
    lengths = LAYOUTS[layout]
    found = groups(lengths)
    assert gradcheck(make(), lambda module, x: module(x, found), numbers(sum(lengths), 4))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradcheck_of_explained_attention(layout: str, numbers: Callable[..., Tensor]) -> None:
    """Weights are outputs too: a loss on them, as in distillation, has the right gradient."""
    lengths = LAYOUTS[layout]
    layer, found = Attention(4, 2).double(), groups(lengths)

    def function(x: Tensor) -> tuple[Tensor, ...]:
        mixed, weights = layer.explain(x, found)
        return (mixed, *weights)

    assert torch.autograd.gradcheck(function, numbers(sum(lengths), 4).requires_grad_())


@pytest.mark.parametrize("segments", [0, 2])
def test_gradcheck_of_embedding(segments: int, numbers: Callable[..., Tensor]) -> None:
    ids, positions, _, _ = stream(texts_of([3, 1, 4], 5, 0))
    kinds = torch.tensor([0, 1, 1, 0, 0, 0, 1, 1])
    layer = Embedding(5, 3, 4, segments, first_position=1)
    assert gradcheck(layer, lambda module, x: x * module(ids, positions, kinds), numbers(1))


@pytest.mark.parametrize(
    "make",
    [lambda: Pooler(3), lambda: MaskedHead(3, 5), lambda: LinearHead(3, 2)],
    ids=["pooler", "masked", "linear"],
)
def test_gradcheck_of_heads(make: Callable[[], nn.Module], numbers: Callable[..., Tensor]) -> None:
    assert gradcheck(make(), lambda module, x: module(x), numbers(4, 3))


def test_gradcheck_of_a_tied_head(numbers: Callable[..., Tensor]) -> None:
    """One table that is read at the bottom and scored against at the top collects both gradients."""
    layer = Embedding(5, 3, 4)
    model = nn.ModuleDict(
        {"embedding": layer, "head": MaskedHead(3, 5, table=layer.token.weight)}
    ).double()
    ids, positions, kinds, _ = stream(texts_of([3, 1, 4], 5, 0))

    def function(table: Tensor) -> Tensor:
        x = functional_call(layer, {"token.weight": table}, (ids, positions, kinds))
        return functional_call(model["head"], {"table": table}, (x,))

    assert torch.autograd.gradcheck(function, numbers(5, 3).requires_grad_())
    table = layer.token.weight
    model["head"](layer(ids, positions, kinds)).sin().sum().backward()
    together = table.grad.clone()
    (expected,) = torch.autograd.grad(function(table).sin().sum(), table)
    torch.testing.assert_close(together, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("how", ["mean", "max", "cls"])
def test_gradcheck_of_pool(how: str, layout: str, numbers: Callable[..., Tensor]) -> None:
    lengths = torch.tensor(LAYOUTS[layout])
    x = numbers(int(lengths.sum()), 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda given_x: pool(given_x, lengths, how), x)
