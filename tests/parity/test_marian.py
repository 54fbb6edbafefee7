"""Marian: the same logits, gradients and translations as transformers from the same folder, and back."""

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from transformers import MarianConfig, MarianMTModel

from firth.base.errors import InputError
from firth.families.marian import FAMILY
from firth.folders.read import load
from firth.folders.weights import to_theirs
from firth.folders.write import save
from firth.models.protocols import EncoderDecoder
from firth.models.search import Beam, Greedy
from firth.models.translate import translate
from firth.nn.vocab import log_probs
from firth.samples.texts import TEXTS
from firth.text.tokenizer import Tokenizer
from tests.parity.test_bert import check_gradients, close, shake

VOCAB = 150
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "activation_function": "swish",
    "scale_embedding": False,  # so that a token isn't written again and again
    "decoder_start_token_id": VOCAB - 1,
    "pad_token_id": VOCAB - 1,
    "eos_token_id": 0,
    "init_std": 0.15,
}
SOURCES = [[7, 8, 9, 40, 0], [10, 0], [11, 120, 13, 14, 15, 16, 17, 0], [16, 0], [7, 99, 8, 4, 0]]
TARGETS = [[6, 7, 0], [8, 90, 10, 11, 12, 13, 0], [0], [9, 9, 0], [14, 13, 12, 110, 0]]


class Pair(NamedTuple):
    ours: EncoderDecoder
    theirs: MarianMTModel
    folder: Path


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(folder: Path, **changes: Any) -> MarianMTModel:
    """A folder that they wrote, with weights that they drew, of which none is zero."""
    torch.manual_seed(0)
    model = MarianMTModel(MarianConfig(**SIZES | changes)).eval()
    shake(model, torch.Generator().manual_seed(1))
    with torch.no_grad():
        model.final_logits_bias.normal_(std=0.2, generator=torch.Generator().manual_seed(2))
        for side in (model.model.encoder, model.model.decoder):  # positions are not drawn
            table = side.embed_positions
            table.weight.copy_(table.create_weight())
    model.save_pretrained(folder)
    lines = [line for lines in TEXTS.values() for line in lines]
    Tokenizer.train(lines, "words", VOCAB).save(folder)
    return model


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("marian") / "theirs"
    theirs = make(folder)
    found = load(folder)
    assert found.unmatched == ((), ())
    assert found.kind == "translate"
    return Pair(found.translator, theirs, folder)


def stream(texts: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    ids = torch.tensor([token for text in texts for token in text])
    return ids, torch.tensor([len(text) for text in texts])


def logits(model: MarianMTModel, sources: list[list[int]], targets: list[list[int]]) -> Tensor:
    """Theirs, of a padded batch: those of the real target tokens."""
    read = [[VOCAB - 1, *target[:-1]] for target in targets]
    padded = [
        nn.utils.rnn.pad_sequence([torch.tensor(text) for text in side], True, VOCAB - 1)
        for side in (sources, read)
    ]
    lengths = torch.tensor([len(source) for source in sources])
    mask = torch.arange(padded[0].shape[1]) < lengths[:, None]
    found = model(input_ids=padded[0], attention_mask=mask, decoder_input_ids=padded[1]).logits
    return torch.cat([row[: len(target)] for row, target in zip(found, targets, strict=True)])


def test_logits_are_theirs(pair: Pair) -> None:
    with torch.no_grad():
        known = logits(pair.theirs, SOURCES, TARGETS)
        vectors = pair.ours(*stream(SOURCES), *stream(TARGETS))
        weight, bias = pair.ours.output
        close(vectors @ weight.t() + bias, known)
        close(log_probs(vectors, weight, bias), known.log_softmax(-1))
    assert known.std() > 0.5


def test_logits_of_scaled_vectors_are_theirs(tmp_path: Path) -> None:
    theirs = make(tmp_path / "theirs", scale_embedding=True, activation_function="relu")
    ours = load(tmp_path / "theirs").translator
    with torch.no_grad():
        weight, bias = ours.output
        found = ours(*stream(SOURCES), *stream(TARGETS)) @ weight.t() + bias
        close(found, logits(theirs, SOURCES, TARGETS))


def test_gradients_are_theirs(pair: Pair) -> None:
    ours = deepcopy(pair.ours).double().requires_grad_()
    theirs = deepcopy(pair.theirs).double()
    slope = torch.randn(19, VOCAB, generator=torch.Generator().manual_seed(3))
    (logits(theirs, SOURCES, TARGETS) * slope).sum().backward()
    weight, bias = ours.output
    vectors = ours(*stream(SOURCES), *stream(TARGETS))
    ((vectors @ weight.t() + bias) * slope).sum().backward()
    slopes = {
        name: tensor.grad for name, tensor in ours.named_parameters() if tensor.grad is not None
    }
    found = to_theirs(FAMILY.layout, slopes)
    del found["final_logits_bias"]  # to them a constant
    known = {name: tensor.grad for name, tensor in theirs.named_parameters()}
    known = {name: tensor for name, tensor in known.items() if tensor is not None}
    # Under autograd their table has one name of several.
    (table,) = [name for name in known if name.endswith(("shared.weight", "embed_tokens.weight"))]
    known["model.shared.weight"] = known.pop(table)
    for slopes in (
        found,
        known,
    ):  # to them the vector of padding is a constant too where it is read
        slopes["model.shared.weight"] = slopes["model.shared.weight"][: VOCAB - 1]
    check_gradients(found, known)


def generated(
    model: MarianMTModel, source: list[int], most: int, end: int, **options: Any
) -> list[list[int]]:
    """What they translate a source to, without the start mark."""
    rows = model.generate(
        torch.tensor([source]),
        max_new_tokens=most,
        bad_words_ids=[[VOCAB - 1]],
        eos_token_id=end,
        forced_eos_token_id=None,
        do_sample=False,
        **options,
    ).tolist()
    texts = [row[1:] for row in rows]
    return [text[: text.index(end) + 1] if end in text else text for text in texts]


def test_greedy_translations_are_theirs(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an end that never comes, and with one that comes now and then."""
    free = translate(pair.ours, *stream(SOURCES), Greedy(), most=20)
    for end in (0, free[0][0].ids[2], free[2][0].ids[3]):
        monkeypatch.setattr(pair.ours, "end", end)
        found = translate(pair.ours, *stream(SOURCES), Greedy(), most=20)
        known = [generated(pair.theirs, source, 20, end, num_beams=1) for source in SOURCES]
        assert [[target.ids for target in row] for row in found] == known
    assert len({len(row[0].ids) for row in found}) > 1


@pytest.mark.parametrize(
    "beam", [Beam(4, 3), Beam(3, 2, penalty=0.0), Beam(5, 2, penalty=2.0, early=True)]
)
def test_beams_are_theirs(pair: Pair, beam: Beam, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "num_beams": beam.width,
        "num_return_sequences": beam.best,
        "length_penalty": beam.penalty,
        "early_stopping": beam.early,
    }
    free = translate(pair.ours, *stream(SOURCES), beam, most=14)
    for end in (0, free[0][1].ids[2], free[2][0].ids[3]):
        monkeypatch.setattr(pair.ours, "end", end)
        found = translate(pair.ours, *stream(SOURCES), beam, most=14)
        known = [generated(pair.theirs, source, 14, end, **options) for source in SOURCES]
        assert [[target.ids for target in row] for row in found] == known
    assert len({len(target.ids) for row in found for target in row}) > 1


def test_a_folder_goes_back_to_them(pair: Pair, tmp_path: Path) -> None:
    """What Firth saves, transformers opens with every weight in its place."""
    folder = save(load(pair.folder), tmp_path / "saved")
    again, said = MarianMTModel.from_pretrained(folder, output_loading_info=True)
    assert not any(said[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.no_grad():
        assert torch.equal(
            logits(again.eval(), SOURCES, TARGETS), logits(pair.theirs, SOURCES, TARGETS)
        )
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["MarianMTModel"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings is False"),
        ({"decoder_attention_heads": 2}, "decoder_attention_heads is 2"),
        ({"decoder_vocab_size": 151}, "decoder_vocab_size is 151"),
        ({"normalize_before": True}, "normalize_before is True"),
        ({"d_model": 33}, "33 is not a multiple of heads 4"),
        ({"activation_function": "quick_gelu"}, "activation_function"),
        ({"pad_token_id": 150}, "beyond the vocabulary"),
        ({"eos_token_id": [0]}, "eos_token_id"),
        ({"decoder_start_token_id": None}, "decoder_start_token_id"),
    ],
)
def test_what_the_network_cannot_express_is_refused(changes: dict[str, Any], reason: str) -> None:
    page = MarianConfig(**SIZES).to_dict()
    FAMILY.read(page, "there/config.json")
    with pytest.raises(InputError, match=f"^there/config.json: .*{reason}"):
        FAMILY.read(page | changes, "there/config.json")
