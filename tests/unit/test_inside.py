"""What is looked at inside a model is what the model computes: attention as arrays, vectors, steps of a recurrence."""

import pytest
import torch

from firth.base.errors import InputError
from firth.folders.bundle import Bundle
from firth.folders.features import Features
from firth.models.bert import Bert, BertSettings
from firth.models.elmo import Elmo
from firth.models.mpnet import MpNet
from firth.models.rnn import Rnn, RnnSettings
from firth.nn.attention import attend
from firth.nn.recurrent import CELLS, pack
from firth.output.page import page_sections
from firth.predictor import Predictor
from firth.probes.axes import project
from firth.probes.inside import look_inside
from firth.probes.movement import of_layers
from firth.probes.row import read_row
from firth.text.tokenizer import Tokenizer
from tests.unit.speakers import HELD_OUT, LENGTH, bundle, tokenizer

TEXT = "the module returns a list of strings"


def bert(kind: type[Bert] = Bert, length: int = 40) -> Predictor:
    words: Tokenizer = tokenizer("wordpiece")
    torch.manual_seed(2)
    settings = BertSettings(
        vocab=words.size,
        width=16,
        depth=3,
        heads=4,
        inner=24,
        length=length,
        spread=0.4,
        segments=0 if kind is MpNet else 2,
    )
    family = "mpnet" if kind is MpNet else "bert"
    return Predictor(Bundle(kind(settings).eval(), words, family))


@pytest.mark.parametrize("kind", [Bert, MpNet])
def test_attention_is_what_its_parts_give(kind: type[Bert]) -> None:
    predictor = bert(kind)
    row = read_row(predictor, TEXT)
    inside = look_inside(predictor, row)
    (record,) = predictor.attention([TEXT])
    assert record.tokens == row.tokens
    assert record.weights.shape == (3, 4, len(row.tokens), len(row.tokens))
    assert torch.allclose(torch.from_numpy(record.weights), inside.weights, atol=1e-6)
    assert (inside.bias is not None) == (kind is MpNet)
    for layer in range(3):
        parts = (inside.queries[layer], inside.keys[layer], inside.values[layer])
        values, weights = attend(*parts, bias=inside.bias)
        assert torch.allclose(weights, inside.weights[layer], atol=1e-6)
        assert torch.allclose(values, inside.sums[layer], atol=1e-5)
    assert not predictor.bundle.encoder.blocks[0].attention.qkv._forward_hooks


def test_a_gpt_sees_what_came_before() -> None:
    predictor = Predictor(bundle("gpt"))
    records = predictor.attention([TEXT[:12], TEXT[:20]])
    for record in records:
        weights = torch.from_numpy(record.weights)
        assert torch.equal(weights, weights.tril())
        assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:-1]))
    row = read_row(predictor, TEXT[:12])
    assert row.encoding.ids[0] == predictor.bundle.language.settings.start
    assert row.tokens[1:] == [text.strip() for text in row.tokens[1:]]


def test_a_long_text_has_a_record_a_window() -> None:
    predictor = bert(length=16)
    text = " ".join(HELD_OUT[:4])
    records = predictor.attention([TEXT[:8], text])
    assert records[0].text == TEXT[:8]
    windows = records[1:]
    assert len(windows) > 2
    assert {record.text for record in windows} == {text}
    assert [record.first for record in windows] == sorted({record.first for record in windows})
    (whole,) = predictor.bundle.tokenizer.encode([text])
    for record in windows:
        assert len(record.tokens) == len(record.offsets) == len(record.parts) <= 16
        assert record.offsets[1] == whole.offsets[1 + record.first]
    with pytest.warns(match="were cut"):
        assert len(predictor.attention([text], long="cut")) == 1


def test_a_pair_is_one_record() -> None:
    (record,) = bert().attention([(TEXT, "because it was told to")])
    assert record.second == "because it was told to"
    assert {0, 1, None} == set(record.parts)


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(InputError, match="no attention"):
        Predictor(bundle("rnn")).attention([TEXT])
    with pytest.raises(InputError, match="gives no vectors"):
        Predictor(bundle("ngram")).attention([TEXT])


@pytest.mark.parametrize("cell", CELLS)
def test_steps_are_the_pass_over_a_stream(cell: str) -> None:
    torch.manual_seed(4)
    layer = CELLS[cell](5, 7)
    x = torch.randn(9, 5)
    state = torch.randn(layer.states, 1, 7)
    with torch.no_grad():
        expected, after = layer(x, state, pack(torch.tensor([9])))
        steps = layer.explain(x, state[:, 0])
    assert torch.allclose(steps["h"], expected, atol=1e-6)
    names = ("h", "c")[: layer.states]
    last = torch.stack([steps[name][-1] for name in names])
    assert torch.allclose(last, after[:, 0], atol=1e-6)
    gates = set(steps) - {"h", "c"}
    assert gates == {"tanh": set(), "gru": set("rzn"), "lstm": set("figo")}[cell]


@pytest.mark.parametrize("both_ways", [False, True])
def test_a_networks_steps_are_its_layers(both_ways: bool) -> None:
    words = tokenizer("words")
    torch.manual_seed(5)
    marks = {"vocab": words.size, "start": words.cls, "end": words.sep}
    settings = RnnSettings(
        **marks, width=6, depth=2, spread=0.5, output="none", bidirectional=both_ways
    )
    network = Rnn(settings).eval()
    (encoding,) = words.encode([TEXT], special=False)
    ids = torch.tensor(encoding.ids)
    length = torch.tensor([len(ids)])
    with torch.no_grad():
        layers = network(ids, torch.arange(len(ids)), ids * 0, length, layers=True).layers
        steps = network.recurrent_steps(ids)
    if both_ways:
        halves = [one.values["h"] for one in steps]
        found = [torch.cat(halves[at : at + 2], 1) for at in (0, 2)]
        assert steps[1].name == "layer 1, backwards"
    else:
        found = [one.values["h"] for one in steps]
    for one, expected in zip(found, layers[1:], strict=True):
        assert torch.allclose(one, expected, atol=1e-6)
    assert len(network.recurrent_weights()) == len(steps)
    # Each state comes of the one before it, that before the text too: after the start mark, or 0.
    for step in steps:
        values = step.values
        behind = step.name.endswith("backwards")
        (first, second) = (-1, -2) if behind else (0, 1)
        for at, before in ((first, step.before["c"]), (second, values["c"][first])):
            kept = values["f"][at] * before + values["i"][at] * values["g"][at]
            assert torch.allclose(kept, values["c"][at], atol=1e-6)
        assert bool(step.before["c"].any()) is not both_ways


def test_elmos_steps_are_its_layers() -> None:
    opened = bundle("elmo")
    network = opened.encoder
    assert isinstance(network, Elmo)
    row = read_row(Predictor(opened), TEXT)
    ids = torch.tensor(row.encoding.ids)
    with torch.no_grad():
        layers = network(*row.batch().stream, layers=True).layers
        steps = network.recurrent_steps(ids)
    depth = network.depth
    assert len(steps) == 2 * depth
    ahead = torch.zeros(len(ids), network.width // 2)
    for number in range(depth):
        # What a layer reads is added to what it gives, but for the first.
        own = steps[number].values["h"]
        ahead = own if number == 0 else own + ahead
        assert torch.allclose(ahead, layers[number + 1][:, : network.width // 2], atol=1e-6)


def test_positions_and_weights_are_named_by_their_networks() -> None:
    assert bundle("gpt").encoder.position_table is not None
    assert bundle("gpt").encoder.position_table.shape == (LENGTH, 32)
    weights = bundle("elmo").encoder.layer_weights()
    assert weights is not None
    assert float(weights.sum()) == pytest.approx(1)
    assert bert().bundle.encoder.layer_weights() is None


def test_a_learned_average_of_layers_is_in_the_page() -> None:
    predictor = bert()
    opened = predictor.bundle
    opened.features = Features(opened.encoder, (-2, -1), "weights").eval()
    with torch.no_grad():
        opened.features.mix.shares.copy_(torch.tensor([0.0, 1.0]))
    sections = page_sections(predictor, read_row(predictor, TEXT))
    (mix,) = [section.data for section in sections if section.kind == "mix"]
    assert mix["layers"] == [2, 3]
    assert mix["weights"] == pytest.approx([0.26894, 0.73106], abs=1e-4)


def test_vectors_are_projected_on_their_principal_axes() -> None:
    torch.manual_seed(6)
    flat = torch.randn(30, 2) @ torch.randn(2, 8)
    plane, variance = project(flat)
    assert sum(variance) == pytest.approx(1, abs=1e-5)
    distances = [(x[:, None] - x).norm(dim=-1) for x in (plane, flat)]
    assert torch.allclose(*distances, atol=1e-4)
    alone, none = project(torch.ones(1, 3))
    assert alone.tolist() == [[0, 0]]
    assert none == (0.0, 0.0)


def test_an_embedding_of_another_width_is_left_out() -> None:
    torch.manual_seed(7)
    found = of_layers([torch.randn(4, 3), torch.randn(4, 6), torch.randn(4, 6)])
    assert found.first == 1
    assert found.to_first.shape == (2, 4)
    assert torch.allclose(found.to_first[0], torch.ones(4))
