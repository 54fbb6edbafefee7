"""Layers of an encoder that is not taught: what the table holds is what the model says, and the folder keeps all of it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from firth.base.errors import InputError
from firth.data.batch import make_batch
from firth.data.examples import Labelled, Line, Tagged
from firth.data.rows import EncodedExample, ExampleFeed
from firth.data.window import windows
from firth.families.layout import WAYS
from firth.folders.bundle import Bundle
from firth.folders.features import BILSTM_DEPTH, Features
from firth.folders.read import load
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.nn.heads import LinearHead
from firth.nn.mix import Mix
from firth.nn.recurrent import BidirectionalRecurrent, Tanh
from firth.predictor import Predictor, load_predictor
from firth.recipes.frozen import store
from firth.samples.texts import TEXTS
from firth.text.tokenizer import Tokenizer

SENTENCES = [text for group in TEXTS.values() for text in group][:12]
LABELS = ("no", "yes")


@pytest.fixture(scope="module")
def minilm() -> Bundle:
    return load("minilm")


@pytest.fixture(scope="module")
def small() -> Bundle:
    """An encoder of four narrow layers with random weights."""
    words = Tokenizer.train(SENTENCES, size=300)
    torch.manual_seed(0)
    sizes = {"vocab": words.size, "width": 16, "depth": 4, "heads": 2, "inner": 32, "length": 64}
    encoder = Bert(BertSettings(**sizes, spread=0.3)).eval().requires_grad_(False)
    return Bundle(encoder, words)


def rows(bundle: Bundle, texts: list[str], length: int = 64) -> ExampleFeed:
    """Texts as a feed reads them."""
    ready = []
    for encoding in bundle.tokenizer.encode(texts):
        cut = windows(encoding, length, "slide")
        ready.append(EncodedExample.of([cut], [[{"label": np.array([0])} for _ in cut]]))
    return ExampleFeed(ready, texts)


def mixed(features: Features) -> Features:
    """With learned weights that are not the ones it begins with."""
    if features.mix.learned:
        torch.nn.init.normal_(features.mix.shares)
        torch.nn.init.constant_(features.mix.scale, 1.7)
    return features.eval().requires_grad_(False)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("whole_texts", [True, False])
@pytest.mark.parametrize("bilstm", [0, 8])
def test_the_table_says_what_the_model_says(
    small: Bundle, how: str, whole_texts: bool, bilstm: int, tmp_path: Path
) -> None:
    features = mixed(Features(small.encoder, (0, 3, -1), how, bilstm))
    parts = [rows(small, SENTENCES[:9], 16), rows(small, SENTENCES[9:])]
    stored, numbered = store(features, parts, tmp_path / "table.npy", whole_texts)
    for part, same in zip(parts, numbered, strict=True):
        assert len(same.examples) == len(part.examples)
        numbers = np.arange(len(part.examples))
        theirs, ours = part.batch(0, numbers), same.batch(0, numbers)
        with torch.inference_mode():
            expected, found = features(*theirs.stream), stored(*ours.stream)
        if whole_texts and not bilstm:
            # A row of the table is one window: the batches may be in another order, so they are compared by text.
            for text in numbers:
                a = expected.pooled[[i for i, owner in enumerate(theirs.owner) if owner == text]]
                b = found.pooled[[i for i, owner in enumerate(ours.owner) if owner == text]]
                assert torch.allclose(a, b, atol=1e-5)
        else:
            assert torch.allclose(expected.tokens, found.tokens, atol=1e-5)
            assert torch.allclose(expected.pooled, found.pooled, atol=1e-5)


def theirs_of(ours: BidirectionalRecurrent, inputs: int) -> nn.LSTM:
    """Torch's layers with the same weights: gates in their order, and one bias of two at zero."""
    _, width = ours.shape
    theirs = nn.LSTM(inputs, width, BILSTM_DEPTH, bidirectional=True)

    def gates(weight: Tensor) -> Tensor:
        candidate, *rest = weight.chunk(4)  # in front here, third there
        return torch.cat([*rest[:2], candidate, *rest[2:]])

    state = {}
    for number, pair in enumerate(zip(ours.forwards, ours.backwards, strict=True)):
        for layer, way in zip(pair, ("", "_reverse"), strict=True):
            assert isinstance(layer, Tanh)
            end = f"l{number}{way}"
            state[f"weight_ih_{end}"] = gates(layer.take.weight)
            state[f"weight_hh_{end}"] = gates(layer.keep.weight)
            state[f"bias_ih_{end}"] = gates(layer.take.bias)
            state[f"bias_hh_{end}"] = torch.zeros(4 * width)
    theirs.load_state_dict(state)
    return theirs


def test_a_bilstm_is_torchs_below_the_head(small: Bundle) -> None:
    torch.manual_seed(2)
    features = Features(small.encoder, (-1,), "sum", bilstm=8).eval()
    plain = Features(small.encoder, (-1,), "sum").eval()
    head = LinearHead(features.width, 3).eval()
    assert features.bilstm is not None
    theirs = theirs_of(features.bilstm, small.encoder.width)
    batch = make_batch(small.tokenizer.encode([*SENTENCES, "x"]))
    with torch.inference_mode():
        ours = features(*batch.stream)
        lengths = batch.lengths.tolist()
        texts = plain(*batch.stream).tokens.split(lengths)
        packed, (last, _) = theirs(pack_sequence(texts, enforce_sorted=False))
        padded, _ = pad_packed_sequence(packed, batch_first=True)
        expected = torch.cat([row[:size] for row, size in zip(padded, lengths, strict=True)])
        assert torch.allclose(head(ours.tokens), head(expected), atol=1e-6)
        # Of the top layer: ahead at the last token, behind at the first.
        assert torch.allclose(head(ours.pooled), head(torch.cat([*last[-2:]], 1)), atol=1e-6)


@pytest.mark.parametrize("pooled", [True, False])
def test_a_loss_reaches_every_weight_above_the_encoder(small: Bundle, pooled: bool) -> None:
    torch.manual_seed(3)
    features = Features(small.encoder, (1, -1), "weights", bilstm=8).train()
    head = LinearHead(features.width, 3)
    batch = make_batch(small.tokenizer.encode(SENTENCES))
    hidden = features(*batch.stream)
    head(hidden.pooled if pooled else hidden.tokens).logsumexp(1).sum().backward()
    assert features.bilstm is not None
    for part in (features.mix, features.bilstm, head):
        for name, weight in part.named_parameters():
            assert weight.grad is not None, name
            assert weight.grad.abs().sum() > 0, name
    assert all(weight.grad is None for weight in small.encoder.parameters())


def test_ways_to_combine() -> None:
    x = torch.tensor([[[1.0, 2.0], [3.0, 5.0]]])  # one token, two layers
    assert Mix(2, "concat")(x).tolist() == [[1, 2, 3, 5]]
    assert Mix(2, "sum")(x).tolist() == [[4, 7]]
    weighed = Mix(2, "weights")
    assert weighed(x).tolist() == [[2, 3.5]]
    with torch.no_grad():
        weighed.shares[1], weighed.scale[0] = float(np.log(3)), 2.0
    assert torch.allclose(
        weighed(x), torch.tensor([[2 * (0.25 * 1 + 0.75 * 3), 2 * (0.25 * 2 + 0.75 * 5)]])
    )


@pytest.mark.parametrize(
    ("kind", "how"), [("classify", "weights"), ("tag", "concat"), ("regress", "sum")]
)
@pytest.mark.parametrize("bilstm", [0, 8])
def test_the_folder_keeps_it(
    small: Bundle, kind: str, how: str, bilstm: int, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    features = mixed(Features(small.encoder, (-2, -1), how, bilstm))
    labels = {"classify": LABELS, "tag": ("O", "B-x", "I-x"), "regress": ()}[kind]
    head = LinearHead(features.width, max(1, len(labels))).eval()
    bundle = Bundle(
        small.encoder, small.tokenizer, kind=kind, head=head, features=features, labels=labels
    )
    save(bundle, tmp_path / "model")
    again = load(tmp_path / "model")
    assert (again.kind, again.labels, again.features.layers) == (kind, labels, (-2, -1))
    assert not again.unmatched.unused
    record = json.loads((tmp_path / "model" / "firth.json").read_text())
    assert record["features"].get("bilstm", 0) == bilstm
    asked = [Tagged(text, ()) if kind == "tag" else Labelled(text, "") for text in SENTENCES]
    for ours, theirs in zip(Predictor(bundle).raw(asked), Predictor(again).raw(asked), strict=True):
        assert torch.equal(*ours, *theirs)
    # Vectors come from the encoder, whatever stands on it.
    assert np.array_equal(
        load_predictor(tmp_path / "model").embed(SENTENCES),
        Predictor(Bundle(small.encoder, small.tokenizer)).embed(SENTENCES),
    )


def test_transformers_opens_it_as_an_encoder(minilm: Bundle, tmp_path: Path) -> None:
    from transformers import AutoModel

    features = mixed(Features(minilm.encoder, (-1,), "sum"))
    head = LinearHead(features.width, 2).eval()
    save(
        Bundle(
            minilm.encoder,
            minilm.tokenizer,
            kind="classify",
            head=head,
            features=features,
            labels=LABELS,
        ),
        tmp_path / "model",
    )
    model = AutoModel.from_pretrained(tmp_path / "model").eval()
    encoding = minilm.tokenizer.encode([SENTENCES[0]])[0]
    batch = make_batch([encoding])
    with torch.inference_mode():
        theirs = model(torch.tensor([encoding.ids])).last_hidden_state[0]
        assert torch.allclose(minilm.encoder(*batch.stream).tokens, theirs, atol=1e-5)


def test_a_bilstm_that_is_no_width_is_refused(small: Bundle, tmp_path: Path) -> None:
    torch.manual_seed(4)
    features = mixed(Features(small.encoder, (-1,), "sum", bilstm=6))
    head = LinearHead(features.width, 2).eval()
    bundle = Bundle(
        small.encoder,
        small.tokenizer,
        kind="classify",
        head=head,
        features=features,
        labels=LABELS,
    )
    folder = save(bundle, tmp_path / "model")
    path = folder / "firth.json"
    record = json.loads(path.read_text())
    for width in (0, -8, 8.0, True, None, "8", [8], 1 << 40):
        page = record["features"] | {"bilstm": width}
        path.write_text(json.dumps(record | {"features": page}))
        with pytest.raises(InputError, match="bilstm must be a width from 1 to 65536"):
            load(folder)
    for width in (4, 9, 1 << 16):
        page = record["features"] | {"bilstm": width}
        path.write_text(json.dumps(record | {"features": page}))
        with pytest.raises(InputError, match="has shape"):
            load(folder)
    # A head over vectors of the encoder's own width is another.
    del record["features"]["bilstm"]
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"head\.linear\.weight has shape"):
        load(folder)


@pytest.mark.parametrize(
    "damage",
    [
        {"layers": [99]},
        {"layers": []},
        {"layers": "all"},
        {"layers": [True]},
        {"combine": "product"},
        {"labels": []},
        {"labels": [1, 2]},
        {"labels": ["a", "b", "c"]},
    ],
)
def test_a_record_that_does_not_fit_is_refused(
    small: Bundle, damage: dict[str, object], tmp_path: Path
) -> None:
    features = mixed(Features(small.encoder, (-1,), "sum"))
    head = LinearHead(features.width, 2).eval()
    save(
        Bundle(
            small.encoder,
            small.tokenizer,
            kind="classify",
            head=head,
            features=features,
            labels=LABELS,
        ),
        tmp_path / "model",
    )
    record = json.loads((tmp_path / "model" / "firth.json").read_text())
    record["features"] |= damage
    (tmp_path / "model" / "firth.json").write_text(json.dumps(record))
    with pytest.raises(InputError):
        load(tmp_path / "model")


def test_a_line_is_answered(small: Bundle) -> None:
    features = mixed(Features(small.encoder, (-1,), "sum"))
    bundle = Bundle(
        small.encoder,
        small.tokenizer,
        kind="classify",
        head=LinearHead(features.width, 2).eval(),
        features=features,
        labels=LABELS,
    )
    (decision,) = Predictor(bundle).answers([Line(SENTENCES[0])])
    assert set(decision.probabilities) == set(LABELS)


@pytest.mark.parametrize(
    "settings",
    [
        {"length": 0},
        {"length": 2.5},
        {"length": True},
        {"temperature": -1.0},
        {"temperature": "hot"},
        {"long": "fold"},
        {"long": 1},
        {"colour": 1},
        [1],
    ],
)
def test_settings_that_make_no_sense_are_refused(
    small: Bundle, settings: object, tmp_path: Path
) -> None:
    head = LinearHead(small.encoder.width, 2).eval()
    save(
        Bundle(
            small.encoder,
            small.tokenizer,
            kind="tag",
            head=head,
            labels=("O", "B-x"),
            settings={"length": 7},
        ),
        tmp_path / "model",
    )
    assert load(tmp_path / "model").length == 7
    record = json.loads((tmp_path / "model" / "firth.json").read_text())
    (tmp_path / "model" / "firth.json").write_text(json.dumps(record | {"settings": settings}))
    with pytest.raises(InputError, match="setting"):
        load(tmp_path / "model")
