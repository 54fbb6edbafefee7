"""T5 in both forms and mT5: the same logits, gradients, weights of attention and texts as transformers, and back."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import (
    AutoTokenizer,
    MT5Config,
    MT5ForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.models.t5.modeling_t5 import T5Attention

from firth.base.errors import InputError
from firth.families.t5 import FAMILY, MT5
from firth.folders.read import load
from firth.folders.weights import to_theirs
from firth.folders.write import save
from firth.models.search import Beam, Greedy
from firth.models.t5 import T5
from firth.models.translate import translate
from firth.nn.distance import buckets
from firth.nn.vocab import log_probs
from firth.samples.texts import TEXTS
from firth.text.tokenizer import Tokenizer
from tests.journey.unigram import sentencepiece_model, t5_tokenizer
from tests.parity.test_bert import check_gradients, close, shake

VOCAB = 150
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "d_model": 32,
    "d_kv": 12,
    "d_ff": 48,
    "num_layers": 3,
    "num_decoder_layers": 2,  # more than of the encoder, and their cache breaks
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
FORMS: dict[str, dict[str, Any]] = {"t5": {}, "t5 1.1": GATED, "mt5": {}}
SOURCES = [[7, 8, 9, 40, 1], [10, 1], [11, 120, 13, 14, 15, 16, 17, 1], [16, 1], [7, 99, 8, 4, 1]]
TARGETS = [[6, 7, 1], [8, 90, 10, 11, 12, 13, 1], [1], [9, 9, 1], [14, 13, 12, 110, 1]]
Theirs = T5ForConditionalGeneration | MT5ForConditionalGeneration


class Pair(NamedTuple):
    ours: T5
    theirs: Theirs
    folder: Path


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def class_of(form: str) -> type[Theirs]:
    return MT5ForConditionalGeneration if form == "mt5" else T5ForConditionalGeneration


def make(folder: Path, form: str, **changes: Any) -> Theirs:
    """A folder that they wrote, with weights that they drew, of which none is one; the distances count."""
    config = MT5Config if form == "mt5" else T5Config
    torch.manual_seed(0)
    model = class_of(form)(config(**SIZES | FORMS[form] | changes)).eval()
    shake(model, torch.Generator().manual_seed(1))
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            # Of the norm so that a token that was read isn't written again and again.
            if "relative_attention_bias" in name or name == "decoder.final_layer_norm.weight":
                tensor.normal_(generator=torch.Generator().manual_seed(2))
    if form == "t5 1.1":
        drawn = torch.randn(VOCAB, 32, generator=torch.Generator().manual_seed(3))
        model.lm_head.weight = nn.Parameter(0.3 * drawn)
    model.save_pretrained(folder)
    lines = [line for lines in TEXTS.values() for line in lines]
    Tokenizer.train(lines, "words", VOCAB).save(folder)
    return model


def opened(folder: Path) -> T5:
    found = load(folder)
    assert found.unmatched == ((), ())
    assert found.kind == "translate"
    model = found.translator
    assert isinstance(model, T5)
    return model


@pytest.fixture(scope="module", params=FORMS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = tmp_path_factory.mktemp("t5") / "theirs"
    theirs = make(folder, request.param)
    return Pair(opened(folder), theirs, folder)


def stream(texts: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
    ids = torch.tensor([token for text in texts for token in text])
    return ids, torch.tensor([len(text) for text in texts])


def asked(sources: list[list[int]], targets: list[list[int]]) -> dict[str, Tensor]:
    """What they take: a padded batch."""
    read = [[0, *target[:-1]] for target in targets]
    padded = [
        nn.utils.rnn.pad_sequence([torch.tensor(text) for text in side], True, 0)
        for side in (sources, read)
    ]
    lengths = torch.tensor([len(source) for source in sources])
    mask = torch.arange(padded[0].shape[1]) < lengths[:, None]
    return {"input_ids": padded[0], "attention_mask": mask, "decoder_input_ids": padded[1]}


def logits(model: Theirs, sources: list[list[int]], targets: list[list[int]]) -> Tensor:
    """Theirs, of the real target tokens."""
    found = model(**asked(sources, targets)).logits
    return torch.cat([row[: len(target)] for row, target in zip(found, targets, strict=True)])


def our_logits(model: T5, sources: list[list[int]], targets: list[list[int]]) -> Tensor:
    weight, bias = model.output
    assert bias is None
    return model(*stream(sources), *stream(targets)) @ weight.t()


def test_buckets_are_theirs() -> None:
    ahead = torch.arange(-1000, 1001)
    theirs = T5Attention._relative_position_bucket
    assert torch.equal(buckets(ahead), theirs(ahead))
    assert torch.equal(buckets(ahead, causal=True), theirs(ahead, bidirectional=False))


def test_logits_are_theirs(pair: Pair) -> None:
    with torch.no_grad():
        known = logits(pair.theirs, SOURCES, TARGETS)
        found = our_logits(pair.ours, SOURCES, TARGETS)
        close(found, known)
        vectors = pair.ours(*stream(SOURCES), *stream(TARGETS))
        close(log_probs(vectors, *pair.ours.output), known.log_softmax(-1))
    close(our_logits(deepcopy(pair.ours).requires_grad_(), SOURCES, TARGETS).detach(), known)
    assert known.std() > 0.5


def test_far_tokens_are_theirs(pair: Pair) -> None:
    """Sides beyond the farthest distance, whole and step by step."""
    draw = torch.Generator().manual_seed(4)
    sources, targets = (
        [torch.randint(2, VOCAB, (size,), generator=draw).tolist() for size in sizes]
        for sizes in ((300, 140, 20), (160, 160, 160))
    )
    with torch.no_grad():
        known = logits(pair.theirs, sources, targets)
        close(our_logits(pair.ours, sources, targets), known)
        expected = known.log_softmax(-1).view(3, 160, VOCAB)
        state = pair.ours.begin(*stream(sources))
        read = torch.tensor([[0, *target] for target in targets])
        for place in range(160):
            found, state = pair.ours.step(read[:, place], state)
            close(found, expected[:, place])


def test_gradients_are_theirs(pair: Pair) -> None:
    ours = deepcopy(pair.ours).double().requires_grad_()
    theirs = deepcopy(pair.theirs).double()
    slope = torch.randn(19, VOCAB, generator=torch.Generator().manual_seed(3))
    (logits(theirs, SOURCES, TARGETS) * slope).sum().backward()
    (our_logits(ours, SOURCES, TARGETS) * slope).sum().backward()
    slopes = {
        name: tensor.grad for name, tensor in ours.named_parameters() if tensor.grad is not None
    }
    found = to_theirs(FAMILY.layout, slopes)
    known = {name: tensor.grad for name, tensor in theirs.named_parameters()}
    assert None not in known.values()
    check_gradients(found, known)
    own = pair.ours.settings.own_output
    assert len(found) == sum(1 for _ in theirs.parameters())
    assert ("lm_head.weight" in found) == own


def test_alignments_are_theirs(pair: Pair) -> None:
    theirs = class_of("mt5" if "mt5" in pair.theirs.config.model_type else "t5").from_pretrained(
        pair.folder, attn_implementation="eager"
    )
    with torch.no_grad():
        said = theirs.eval()(**asked(SOURCES, TARGETS), output_attentions=True)
    known = said.cross_attentions[0].mean(1)  # of the last layer but one
    found = pair.ours.align(*stream(SOURCES), *stream(TARGETS))
    assert found is not None
    for weights, rows, source, target in zip(found, known, SOURCES, TARGETS, strict=True):
        close(weights, rows[: len(target), : len(source)])


def generated(
    model: Theirs, source: list[int], most: int, end: int, **options: Any
) -> list[list[int]]:
    """What they make of a source, without the start mark."""
    rows = model.generate(
        torch.tensor([source]), max_new_tokens=most, eos_token_id=end, do_sample=False, **options
    ).tolist()
    texts = [row[1:] for row in rows]
    return [text[: text.index(end) + 1] if end in text else text for text in texts]


def ends_of(model: T5, how: Greedy | Beam, most: int, patch: pytest.MonkeyPatch) -> list[int]:
    """An end that never comes, and tokens that it writes now and then."""
    with patch.context() as within:
        within.setattr(model, "end", VOCAB)
        free = translate(model, *stream(SOURCES), how, most=most)
    return [VOCAB, free[2][0].ids[3], free[3][0].ids[4]]


def test_greedy_texts_are_theirs(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = set()
    for end in ends_of(pair.ours, Greedy(), 20, monkeypatch):
        monkeypatch.setattr(pair.ours, "end", end)
        found = translate(pair.ours, *stream(SOURCES), Greedy(), most=20)
        known = [generated(pair.theirs, source, 20, end, num_beams=1) for source in SOURCES]
        assert [[target.ids for target in row] for row in found] == known
        lengths |= {len(target.ids) for row in found for target in row}
    assert len(lengths) > 1


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
    lengths = set()
    for end in ends_of(pair.ours, beam, 14, monkeypatch):
        monkeypatch.setattr(pair.ours, "end", end)
        found = translate(pair.ours, *stream(SOURCES), beam, most=14)
        known = [generated(pair.theirs, source, 14, end, **options) for source in SOURCES]
        assert [[target.ids for target in row] for row in found] == known
        lengths |= {len(target.ids) for row in found for target in row}
    assert len(lengths) > 1


def test_a_folder_goes_back_to_them(pair: Pair, tmp_path: Path) -> None:
    """What Firth saves, transformers opens with every weight in its place."""
    folder = save(load(pair.folder), tmp_path / "saved")
    again, said = type(pair.theirs).from_pretrained(folder, output_loading_info=True)
    assert not any(said[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.no_grad():
        assert torch.equal(
            logits(again.eval(), SOURCES, TARGETS), logits(pair.theirs, SOURCES, TARGETS)
        )
    page = json.loads((folder / "config.json").read_text())
    before = json.loads((pair.folder / "config.json").read_text())
    # Older releases ask this key alone: of all forms it is true where the output is scaled.
    assert page["tie_word_embeddings"] == pair.ours.settings.scaled
    for key in set(page) - {"tie_word_embeddings", "decoder_start_token_id"}:
        assert page[key] == before.get(key, page[key]), key
    assert opened(folder).settings == pair.ours.settings


@pytest.mark.parametrize(
    "changes",
    [
        {"feed_forward_proj": "gated-silu"},
        {"feed_forward_proj": "gelu", "num_decoder_layers": 4},
        {"tie_word_embeddings": False},  # one table, and yet not scaled
        {"d_kv": 3, "dropout_rate": 0.0},
    ],
    ids=str,
)
def test_other_sizes_and_activations_are_theirs(changes: dict[str, Any], tmp_path: Path) -> None:
    theirs = make(tmp_path / "theirs", "t5", **changes)
    with torch.no_grad():
        known = logits(theirs, SOURCES, TARGETS)
        close(our_logits(opened(tmp_path / "theirs"), SOURCES, TARGETS), known)
        folder = save(load(tmp_path / "theirs"), tmp_path / "saved")
        again = T5ForConditionalGeneration.from_pretrained(folder).eval()
        assert torch.equal(logits(again, SOURCES, TARGETS), known)


def rewrite(folder: Path, **changes: Any) -> None:
    """Change a config.json; None removes a key."""
    path = folder / "config.json"
    page = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in page.items() if value is not None}))


def test_a_config_of_older_releases_is_read(tmp_path: Path) -> None:
    """The first T5 has few keys, 1.1 says by its tables that nothing is scaled, and some have copies of the table."""
    make(tmp_path / "first", "t5", num_decoder_layers=3)
    known = opened(tmp_path / "first")
    absent = (
        *("scale_decoder_outputs", "tie_word_embeddings", "feed_forward_proj", "dense_act_fn"),
        *("is_gated_act", "num_decoder_layers", "relative_attention_max_distance"),
        *("decoder_start_token_id", "eos_token_id"),
    )
    rewrite(tmp_path / "first", **dict.fromkeys(absent), architectures=["T5WithLMHeadModel"])
    tensors = load_file(tmp_path / "first/model.safetensors")
    table = tensors.pop("shared.weight")
    tensors["encoder.embed_tokens.weight"] = table
    tensors["decoder.embed_tokens.weight"] = table.clone()
    tensors["lm_head.weight"] = table.clone()
    unused = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    tensors[unused] = torch.zeros(32, 4)
    save_file(tensors, tmp_path / "first/model.safetensors", {"format": "pt"})
    found = opened(tmp_path / "first")
    assert found.settings == known.settings.model_copy(update={"decoder_depth": None})
    assert not found.settings.own_output
    with torch.no_grad():
        assert torch.equal(our_logits(found, SOURCES, TARGETS), our_logits(known, SOURCES, TARGETS))

    make(tmp_path / "second", "t5 1.1")
    known = opened(tmp_path / "second")
    rewrite(
        tmp_path / "second",
        **dict.fromkeys(("scale_decoder_outputs", "dense_act_fn", "is_gated_act")),
        tie_word_embeddings=False,
    )
    found = opened(tmp_path / "second")
    assert found.settings == known.settings
    assert not found.settings.scaled
    assert found.settings.own_output


def test_the_activation_that_they_apply_is_applied(tmp_path: Path) -> None:
    """Where config.json has it by two names, they ask the second."""
    make(tmp_path / "theirs", "t5")
    rewrite(tmp_path / "theirs", dense_act_fn="silu")
    theirs = T5ForConditionalGeneration.from_pretrained(tmp_path / "theirs").eval()
    with torch.no_grad():
        found = our_logits(opened(tmp_path / "theirs"), SOURCES, TARGETS)
        close(found, logits(theirs, SOURCES, TARGETS))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"relative_attention_num_buckets": 64}, "relative_attention_num_buckets is 64"),
        ({"relative_attention_max_distance": 20}, "relative_attention_max_distance is 20"),
        ({"feed_forward_proj": "gated-swish", "dense_act_fn": "swish"}, "feed_forward_proj"),
        ({"feed_forward_proj": ["relu"]}, "feed_forward_proj"),
        ({"dense_act_fn": 3}, "feed_forward_proj"),
        ({"is_gated_act": "no"}, "is_gated_act"),
        ({"scale_decoder_outputs": 1}, "scale_decoder_outputs"),
        ({"d_kv": 0}, "d_kv"),
        ({"num_heads": None}, "num_heads"),
        ({"eos_token_id": [1]}, "eos_token_id"),
        ({"eos_token_id": 0}, "the start mark and the end mark are the same"),
        ({"decoder_start_token_id": 150}, "a mark is beyond the vocabulary"),
        ({"layer_norm_epsilon": 0}, "layer_norm_epsilon"),
    ],
)
def test_what_the_network_cannot_express_is_refused(changes: dict[str, Any], reason: str) -> None:
    for family, config in ((FAMILY, T5Config), (MT5, MT5Config)):
        page = config(**SIZES).to_dict()
        family.read(page, "there/config.json")
        if family is MT5 and "scale_decoder_outputs" in changes:
            continue
        with pytest.raises(InputError, match=f"^there/config.json: .*{reason}"):
            family.read(page | changes, "there/config.json")


def test_a_vocabulary_of_theirs_is_read(tmp_path: Path) -> None:
    """The pieces of T5's own tokenizer, sentinels from the vocabulary's end, and text that comes back."""
    theirs = t5_tokenizer()
    theirs.save_pretrained(tmp_path)
    ours = Tokenizer.open(tmp_path)
    assert ours.kind == "unigram"
    assert ours.size == len(theirs)
    assert ours.sentinels[:2] == (ours.size - 1, ours.size - 2)
    odd = ["", "  two  spaces\tand a tab ", "translate: the <extra_id_0> app", "naïve 漢字"]
    for text in [*odd, *(line for lines in TEXTS.values() for line in lines)]:
        (found,) = ours.encode([text])
        assert found.ids == theirs(text).input_ids
        assert found.ids[-1] == 1
        assert ours.decode(found.ids) == theirs.decode(found.ids, skip_special_tokens=True)


def test_the_way_to_a_tokenizer_json_is_one(tmp_path: Path) -> None:
    """A folder with SentencePiece's file alone is refused, and the command that is named makes what is missing."""
    make(tmp_path / "theirs", "t5", vocab_size=200)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "theirs" / name).unlink()
    sentencepiece_model(tmp_path / "theirs/spiece.model")
    said = r"spiece.model, which Firth doesn't read, and no tokenizer.json; .* python -c "
    with pytest.raises(InputError, match=said) as caught:
        load(tmp_path / "theirs")
    assert "\n" not in str(caught.value)

    # Of SentencePiece the command takes the description of its files, which transformers has too.
    package = tmp_path / "packages/sentencepiece"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '0.2.0'\n")
    described = "from transformers.utils.sentencepiece_model_pb2_new import *\n"
    (package / "sentencepiece_model_pb2.py").write_text(described)
    command = str(caught.value).partition("python -c ")[2]
    subprocess.run(
        f"{sys.executable} -c {command}",
        shell=True,
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(package.parent)},
    )
    theirs = AutoTokenizer.from_pretrained(tmp_path / "theirs")
    bundle = load(tmp_path / "theirs")
    text = "Since this morning's update the app closes itself."
    assert bundle.tokenizer.encode([text])[0].ids == theirs(text).input_ids
