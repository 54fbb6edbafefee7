"""The recurrent network as an encoder: its states against torch's own layers and its own next words, and the folders that it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.families.ffnn import FfnnSettings
from firth.families.rnn import RnnSettings
from firth.folders.bundle import Bundle
from firth.folders.features import Features
from firth.folders.read import load
from firth.folders.write import save
from firth.models.rnn import Rnn
from firth.predictor import Predictor
from firth.samples.tickets import tickets
from firth.text.tokenizer import Tokenizer
from tests.unit.mutations import dumped

TEXTS = [ticket.text for ticket in tickets()]
WORDS = Tokenizer.train(TEXTS, "words", 300)
MARKS: dict[str, Any] = {"vocab": WORDS.size, "start": WORDS.cls}
ENCODER: dict[str, Any] = {**MARKS, "output": "none"}
OWN = {"tanh": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
ORDER = {"tanh": [0], "gru": [0, 1, 2], "lstm": [1, 2, 0, 3]}  # where torch's gates stand in ours


def make(**values: Any) -> Rnn:
    torch.manual_seed(0)
    return Rnn(RnnSettings(**values)).eval()


def stream(texts: list[str], special: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    rows = [row.ids for row in WORDS.encode(texts, special=special)]
    ids = torch.tensor([word for row in rows for word in row])
    positions = torch.cat([torch.arange(len(row)) for row in rows])
    return ids, positions, torch.zeros_like(ids), torch.tensor([len(row) for row in rows])


def torchs(model: Rnn) -> nn.Module:
    """Torch's own layers with the weights of ours."""
    s = model.settings
    theirs = OWN[s.cell](s.word_width, s.width, s.depth, bidirectional=s.bidirectional)
    ways = {"": model.layers.forwards, "_reverse": model.layers.backwards} if s.bidirectional else {"": model.layers.layers}  # fmt: skip
    for suffix, layers in ways.items():
        for number, layer in enumerate(layers):
            take, keep, bias = (
                weight.detach().unflatten(0, (-1, s.width))[ORDER[s.cell]].flatten(0, 1)
                for weight in (layer.take.weight, layer.keep.weight, layer.take.bias)
            )
            kept = torch.zeros_like(bias)
            if s.cell == "gru":
                kept[-s.width :] = layer.bias.detach()
            found = {"weight_ih": take, "weight_hh": keep, "bias_ih": bias, "bias_hh": kept}
            for name, value in found.items():
                getattr(theirs, f"{name}_l{number}{suffix}").data = value
    return theirs


@pytest.mark.parametrize("bidirectional", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize("cell", OWN)
def test_states_are_those_of_torchs_layers(cell: str, bidirectional: bool) -> None:
    """Of every token, and of a text what each direction holds at its end."""
    model = make(
        **ENCODER, width=16, inputs=10, depth=2, cell=cell, bidirectional=bidirectional, spread=0.5
    )
    theirs = torchs(model)
    asked = stream(TEXTS[:9])
    with torch.no_grad():
        found = model(*asked, layers=True)
        assert found.tokens is found.layers[-1]
        assert [x.shape[1] for x in found.layers] == [10, model.width, model.width]
        words = model.table[asked[0]] * 10**0.5
        lengths = asked[3].tolist()
        rows = zip(words.split(lengths), found.tokens.split(lengths), found.pooled, strict=True)
        for read, tokens, pooled in rows:
            expected, ends = theirs(read)
            last = ends[0] if cell == "lstm" else ends  # (layers and ways, D)
            assert torch.allclose(tokens, expected, atol=2e-6)
            assert torch.allclose(pooled, last[-1 - bidirectional :].flatten(), atol=2e-6)


@pytest.mark.parametrize("special", [True, False], ids=["marked", "bare"])
def test_a_language_models_states_foretell_its_next_words(special: bool) -> None:
    """With or without a start mark from the tokenizer: the read begins as the model's own."""
    model = make(**MARKS, width=16, tied=True, spread=0.5)
    ids, positions, segments, lengths = stream(TEXTS[:1], special)
    with torch.no_grad():
        vectors = model(ids, positions, segments, lengths).tokens
        found = model.output.scores(vectors)[:, : model.vocab]
        state = model.start(1)
        scores, state = model.step(torch.tensor([WORDS.cls]), state)
        begin = 1 if special else 0
        for place, word in enumerate(ids.tolist()[begin:], begin):
            scores, state = model.step(torch.tensor([word]), state)
            assert torch.allclose(found[place], scores[0], atol=1e-5)


def test_a_model_that_forgets_at_the_end_is_asked_before_it() -> None:
    model = make(**MARKS, end=WORDS.sep, width=16, spread=0.5)
    asked = stream(TEXTS[:2])
    with torch.no_grad():
        found = model(*asked)
    before_end = asked[3].cumsum(0) - 2
    assert torch.equal(found.pooled, found.tokens[before_end])
    after = found.tokens[before_end + 1]
    assert torch.equal(after[0], after[1])  # which is why


def test_layers_of_other_widths_are_not_mixed() -> None:
    """But words' vectors that fit twice into those of both directions are, as ELMo's."""
    both = make(**ENCODER, width=8, bidirectional=True, depth=1)
    asked = stream(TEXTS[:2])
    with torch.no_grad():
        words, _ = both(*asked, layers=True).layers
    assert torch.equal(words[:, :8], words[:, 8:])
    Features(both, [0, 1], "sum")(*asked)

    narrow = make(**ENCODER, width=8, inputs=5, depth=1)
    said = "layer 0 has vectors of 5 numbers, and the layers above it of 8: choose layers from 1"
    with pytest.raises(InputError, match=said):
        Features(narrow, [0, 1], "sum")(*asked)
    predictor = Predictor(Bundle(narrow, WORDS, "firth-rnn"), threads=1)
    with pytest.raises(InputError, match=said):
        predictor.embed(TEXTS[:2], layers=[0, 1])
    assert predictor.embed(TEXTS[:2], layers=[0]).shape == (2, 5)


def test_given_vectors_are_as_large_as_new_ones() -> None:
    """What the layers read is around 1, whatever the vectors were, and points where they did."""
    for size in (1e-3, 40.0):
        model = make(**ENCODER, width=8, inputs=20, depth=1)
        rows = size * torch.randn(WORDS.size, 20)
        model.take_vectors(rows)
        with torch.no_grad():
            read = model.token_layer(torch.arange(WORDS.size))
        assert read.pow(2).mean().sqrt().item() == pytest.approx(1, abs=1e-5)
        factors = read / rows
        assert torch.allclose(factors, factors[0, 0].expand_as(factors), rtol=1e-4)


def test_an_encoder_of_a_language_model_says_no_next_word(tmp_path: Path) -> None:
    model = make(**MARKS, width=16, tied=True)
    folder = save(Bundle(model, WORDS, "firth-rnn", "continue"), tmp_path / "lm")
    asked = stream(TEXTS[:3])
    with torch.no_grad():
        before = load(folder).encoder(*asked)
    encoder = load(folder)
    encoder.encoder.drop_output()
    encoder.kind = None
    again = load(save(encoder, tmp_path / "encoder"))
    assert (again.kind, again.unmatched) == (None, ((), ()))
    assert not any(name.startswith("output") for name in again.network.state_dict())
    with torch.no_grad():
        after = again.encoder(*asked)
    assert torch.equal(before.tokens, after.tokens)
    assert torch.equal(before.pooled, after.pooled)
    with pytest.raises(InputError, match="a firth-rnn model is no language model"):
        again.language  # noqa: B018 - asking is what is refused


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"bidirectional": True}, "2 weights are missing: layers.forwards.0.keep"),
    ({"bidirectional": True, "output": "full"}, "reads both ways predicts no next word"),
    ({"tied": True}, "without an output layer there is no table to be tied"),
    ({"cutoffs": [3]}, "classes need cutoffs"),
    ({"output": "full"}, "the task is 'embed' where config.json has 'continue'"),
    ({"output": "some"}, "output: Input should be"),
    ({"inputs": 0}, "inputs: Input should be greater than 0"),
    ({"inputs": 9}, r"table.weight has shape \[300, 8\] where config.json asks for \[300, 9\]"),
    ({"depth": 900}, "898 weights are missing: layers.layers.2.keep.weight"),
]


@pytest.mark.parametrize(("changes", "said"), HOSTILE)
def test_a_config_that_does_not_fit_is_refused(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    folder = save(Bundle(make(**ENCODER, width=8), WORDS, "firth-rnn"), tmp_path / "model")
    page = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_bytes(dumped(page))
    record = json.loads((folder / "firth.json").read_text()) | {"sha256": {}}
    (folder / "firth.json").write_bytes(dumped(record))
    with pytest.raises(InputError, match=said):
        load(folder)


def test_sizes_that_do_not_fit_are_refused() -> None:
    for values, said in (
        ({"tied": True, "inputs": 5}, "a tied table needs words' vectors as wide as the layers"),
        ({"bidirectional": True}, "it has no output layer"),
    ):
        with pytest.raises(ValueError, match=said):
            RnnSettings(**MARKS, width=8, **values)
    with pytest.raises(ValueError, match="a feed-forward network has an output layer"):
        FfnnSettings(**ENCODER, width=8, inner=8, order=3)
