"""Folders go both ways: we open what transformers and sentence-transformers save, they open what we save, outputs agree."""

import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from torch import Tensor

from firth.base.errors import FirthWarning, InputError
from firth.families.registry import by_model_type
from firth.folders.bundle import Bundle
from firth.folders.find import find
from firth.folders.heads import head_of
from firth.folders.read import load
from firth.folders.sentence import Sentence
from firth.folders.write import save
from firth.models import gpt
from firth.predictor import Predictor
from firth.text import tokenizer
from tests.parity.test_bert import (
    PIECES,
    SIZES,
    TOLERANCE,
    Padded,
    batch,
    close,
    shake,
    write_words,
)

ENDS = {
    "ForMaskedLM": "fill",
    "ForSequenceClassification": "classify",
    "ForTokenClassification": "tag",
    "ForQuestionAnswering": "answer",
    "ForMultipleChoice": "choice",
}
ENCODERS = ["Bert", "DistilBert", "Roberta", "XLMRoberta", "MPNet"]
HEADS = {
    "BertForPreTraining": "pretrain",
    **{family + end: kind for family in ENCODERS for end, kind in ENDS.items()},
    "GPT2LMHeadModel": "continue",
    "GPT2ForSequenceClassification": "classify",
    "GPT2ForTokenClassification": "tag",
}
CLASSIFIERS = [name for name in HEADS if name.endswith("ForSequenceClassification")]
BODIES = [*(f"{family}Model" for family in ENCODERS), "GPT2Model"]
DISTIL = {
    "vocab_size": 60,
    "dim": 32,
    "n_layers": 3,
    "n_heads": 4,
    "hidden_dim": 48,
    "max_position_embeddings": 64,
}
GPT = {"vocab_size": 60, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_inner": 48, "n_positions": 64}
GPT_MARKS = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
LABELS = ["gut", "schlecht", "näher am Rand"]
LENGTHS = [9, 1, 30, 30, 29, 4]
TEXTS = ["a", "", "abc de", "bad face bead", "cab " * 30, "fig; a jig? big dig!", "z \t q"]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(
    name: str, folder: Path, change: Callable[..., None] | None = None, **settings: object
) -> transformers.PreTrainedModel:
    """A small random model of a class of transformers, saved; `change` may alter it first."""
    kind = getattr(transformers, name)
    sizes = {"Dist": DISTIL, "GPT2": GPT | GPT_MARKS}.get(
        name[:4], SIZES | {"max_position_embeddings": 64}
    )
    torch.manual_seed(0)
    model = kind(kind.config_class(**sizes | {"initializer_range": 0.2} | settings)).eval()
    shake(model, torch.Generator().manual_seed(1))
    if change:
        change(model)
    model.save_pretrained(folder)
    write_words(folder)
    return model


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], None]) -> None:
    """Alter the weights file of a folder."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def question(model: transformers.PreTrainedModel) -> Padded:
    """A ragged batch that every family takes."""
    asked = batch(LENGTHS, 60, torch.Generator().manual_seed(2), pad=model.config.pad_token_id)
    segments = (
        asked.segments if model.config.model_type == "bert" else torch.zeros_like(asked.segments)
    )
    return asked._replace(segments=segments)


def theirs(model: transformers.PreTrainedModel, asked: Padded) -> list[Tensor]:
    """What transformers says, on real tokens only."""
    given = dict(asked.rectangle)
    if model.config.model_type in ("distilbert", "mpnet", "gpt2"):
        del given["token_type_ids"]
    if model.config.model_type == "gpt2":
        given["use_cache"] = False
    if "MultipleChoice" in type(model).__name__:
        given = {key: value[None] for key, value in given.items()}
    with torch.inference_mode():
        out = model(**given)
    if "start_logits" in out:
        return [torch.stack([out.start_logits, out.end_logits], -1)[asked.mask]]
    found = [x for x in out.values() if x is not None]
    return [x[asked.mask] if x.dim() == 3 else x.reshape(len(LENGTHS), -1) for x in found]


def ours(loaded: Bundle, asked: Padded) -> list[Tensor]:
    """What Firth says to the same question."""
    with torch.inference_mode():
        hidden = loaded.encoder(*asked.stream)
        if loaded.kind in ("pretrain", "fill"):
            heads = [loaded.head.masked(hidden.tokens)]
            return heads if loaded.kind == "fill" else [*heads, loaded.head.next(hidden.pooled)]
        if loaded.kind == "continue":
            return [hidden.tokens @ loaded.model.token.weight.t()]
        if loaded.kind is not None:
            return [
                loaded.head(hidden.tokens if loaded.kind in ("tag", "answer") else hidden.pooled)
            ]
    return (
        [hidden.tokens]
        if hidden.pooled is None or loaded.family == "gpt2"
        else [hidden.tokens, hidden.pooled]
    )


def same(found: list[Tensor], expected: list[Tensor]) -> None:
    """Compare outputs one by one."""
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert other.std() > 0.01  # a flat answer would agree with anything
        close(one, other)


def there_and_back(name: str, folder: Path, saved: transformers.PreTrainedModel) -> Bundle:
    """Open what transformers saved, save it again and let transformers open that; all three agree."""
    loaded = load(folder)
    asked = question(saved)
    expected = theirs(saved, asked)
    same(ours(loaded, asked), expected)
    back = save(loaded, folder.parent / "back")
    again, report = getattr(transformers, name).from_pretrained(back, output_loading_info=True)
    assert not any(report.values()), report
    assert again.config.architectures == [name]
    same(theirs(again.eval(), asked), expected)
    same(ours(load(back), asked), expected)
    return loaded


@pytest.mark.parametrize("name", [*HEADS, *BODIES])
def test_there_and_back(name: str, tmp_path: Path) -> None:
    loaded = there_and_back(name, tmp_path / "given", make(name, tmp_path / "given"))
    assert loaded.kind == HEADS.get(name)
    assert loaded.unmatched == ((), ())


@pytest.mark.parametrize(
    "name", [name for name, kind in HEADS.items() if kind in ("classify", "tag")]
)
def test_labels_survive(name: str, tmp_path: Path) -> None:
    names = {
        "id2label": dict(enumerate(LABELS)),
        "label2id": {label: i for i, label in enumerate(LABELS)},
    }
    loaded = there_and_back(name, tmp_path / "given", make(name, tmp_path / "given", **names))
    assert loaded.labels == tuple(LABELS)
    config = transformers.AutoConfig.from_pretrained(tmp_path / "back")
    assert (config.id2label, config.label2id) == (names["id2label"], names["label2id"])


@pytest.mark.parametrize(
    "name", ["BertForPreTraining", *(f"{family}ForMaskedLM" for family in ENCODERS)]
)
def test_an_untied_decoder_keeps_its_own_table(name: str, tmp_path: Path) -> None:
    saved = make(name, tmp_path / "given", tie_word_embeddings=False)
    decoder = saved.get_output_embeddings()
    assert not torch.equal(decoder.weight, saved.get_input_embeddings().weight)
    biases = [tensor for tensor in saved.parameters() if tensor.shape == decoder.bias.shape]
    assert len(biases) == (1 if name.startswith("Distil") else 2)
    assert len({tensor.sum().item() for tensor in biases}) == len(biases)
    loaded = there_and_back(name, tmp_path / "given", saved)
    assert not loaded.tied
    assert loaded.unmatched == ((), ())


def test_a_tied_decoder_is_one_tensor(tmp_path: Path) -> None:
    make("BertForPreTraining", tmp_path / "given")
    loaded = load(tmp_path / "given")
    assert loaded.tied
    assert loaded.head.masked.table is loaded.encoder.embedding.token.weight


@pytest.mark.parametrize("problem", [None, "regression", "multi_label_classification"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_number_and_several_labels(name: str, problem: str | None, tmp_path: Path) -> None:
    """One architecture, three uses: by the problem's name, or a number where there is one output."""
    labels = 3 if problem == "multi_label_classification" else 1
    loaded = there_and_back(
        name,
        tmp_path / "given",
        make(name, tmp_path / "given", num_labels=labels, problem_type=problem),
    )
    assert loaded.kind == ("several" if labels == 3 else "regress")
    assert loaded.unmatched == ((), ())


@pytest.mark.parametrize(
    "name", ["BertForPreTraining", "DistilBertModel", "XLMRobertaModel", "GPT2LMHeadModel"]
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_precisions(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    saved = make(name, tmp_path / "given", lambda model: model.to(dtype)).float()
    assert load_file(tmp_path / "given/model.safetensors").popitem()[1].dtype == dtype
    loaded = there_and_back(name, tmp_path / "given", saved)
    assert {tensor.dtype for tensor in loaded.encoder.parameters()} == {torch.float32}


def test_weights_in_several_files(tmp_path: Path) -> None:
    saved = make("BertForPreTraining", tmp_path / "given")
    (tmp_path / "given/model.safetensors").unlink()
    saved.save_pretrained(tmp_path / "given", max_shard_size="20KB")
    assert len(list((tmp_path / "given").glob("model-*.safetensors"))) > 2
    there_and_back("BertForPreTraining", tmp_path / "given", saved)


def test_the_names_of_the_first_releases(tmp_path: Path) -> None:
    saved = make("BertForPreTraining", tmp_path / "given")

    def age(tensors: dict[str, Tensor]) -> None:
        for name in list(tensors):
            for new, old in (
                ("LayerNorm.weight", "LayerNorm.gamma"),
                ("LayerNorm.bias", "LayerNorm.beta"),
            ):
                if name.endswith(new):
                    tensors[name.replace(new, old)] = tensors.pop(name)
        tensors["bert.embeddings.position_ids"] = torch.arange(64)[None]
        tensors["cls.predictions.decoder.weight"] = tensors[
            "bert.embeddings.word_embeddings.weight"
        ].clone()
        tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")

    rewrite(tmp_path / "given", age)
    loaded = there_and_back("BertForPreTraining", tmp_path / "given", saved)
    assert loaded.unmatched == ((), ())


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "GPT2ForSequenceClassification", "GPT2Model"])
def test_what_older_releases_wrote_beside_a_gpt(name: str, tmp_path: Path) -> None:
    """Masks in every layer, and the table a second time; and the body's names without the head's prefix."""
    saved = make(name, tmp_path / "given")

    def age(tensors: dict[str, Tensor]) -> None:
        for key in list(tensors):
            tensors[key.removeprefix("transformer.")] = tensors.pop(key)
        for layer in range(3):
            tensors[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 64, 64).tril().bool()
            tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
        tensors["lm_head.weight"] = tensors["wte.weight"].clone()

    rewrite(tmp_path / "given", age)
    loaded = there_and_back(name, tmp_path / "given", saved)
    assert loaded.unmatched == ((), ())


@pytest.mark.parametrize("kind", ["wordpiece", "bytes"])
def test_their_tokenizer_and_their_gpt_read_ours(kind: str, tmp_path: Path) -> None:
    """From text to logits through their doors: no segment is passed to a model that would look it up among its words."""
    made = tokenizer.Tokenizer.train(["fig; a jig? big dig!", *TEXTS], kind, 300)
    torch.manual_seed(0)
    settings = gpt.GptSettings(
        vocab=made.size,
        width=32,
        depth=2,
        heads=2,
        inner=64,
        length=99,
        start=made.cls,
        end=made.sep,
    )
    model = gpt.Gpt(settings).eval()
    shake(model, torch.Generator().manual_seed(1))
    back = save(Bundle(model, made, "gpt2", "continue"), tmp_path / "back")
    opened, theirs = (
        transformers.AutoTokenizer.from_pretrained(back),
        transformers.AutoModelForCausalLM.from_pretrained(back),
    )
    assert isinstance(theirs, transformers.GPT2LMHeadModel)
    marks = theirs.config.bos_token_id, theirs.config.eos_token_id, theirs.config.pad_token_id
    assert (
        marks
        == (made.cls, made.sep, made.pad)
        == (opened.cls_token_id, opened.sep_token_id, opened.pad_token_id)
    )
    for text, row in zip(TEXTS, made.encode(TEXTS), strict=True):
        given = opened(text, return_tensors="pt")
        ids = torch.tensor(row.ids)
        with torch.inference_mode():
            logits = theirs(**given).logits[0]
            scores, _ = model.score(
                ids[1:], torch.tensor([len(ids) - 1])
            )  # the first is the start mark
        close(scores, logits.log_softmax(-1)[:-1].gather(1, ids[1:, None])[:, 0])


@pytest.mark.parametrize(
    ("name", "body", "unused"),
    [
        ("GPT2ForQuestionAnswering", "transformer", ("qa_outputs.bias", "qa_outputs.weight")),
        (
            "BertForNextSentencePrediction",
            "bert",
            ("cls.seq_relationship.bias", "cls.seq_relationship.weight"),
        ),
        (
            "RobertaForCausalLM",
            "roberta",
            (
                "lm_head.bias",
                *(
                    f"lm_head.{part}.{field}"
                    for part in ("dense", "layer_norm")
                    for field in ("bias", "weight")
                ),
            ),
        ),
    ],
)
def test_the_body_under_a_foreign_head(
    name: str, body: str, unused: tuple[str, ...], tmp_path: Path
) -> None:
    saved = make(name, tmp_path / "given")
    with pytest.warns(
        FirthWarning, match=f"has a {name} head that Firth can't use yet.*{unused[0]}"
    ):
        loaded = load(tmp_path / "given")
    assert loaded.kind is None
    assert loaded.unmatched.unused == unused
    asked = question(saved)
    same(ours(loaded, asked), theirs(getattr(saved, body), asked))


@pytest.mark.parametrize("name", ["BertModel", "RobertaModel"])
def test_a_missing_pooler_is_reported(name: str, tmp_path: Path) -> None:
    saved = make(name, tmp_path / "given")

    def drop(tensors: dict[str, Tensor]) -> None:
        for field in ("weight", "bias"):
            del tensors[f"pooler.dense.{field}"]

    rewrite(tmp_path / "given", drop)
    loaded = load(tmp_path / "given")
    assert loaded.unmatched.missing == ("pooler.dense.weight", "pooler.dense.bias")
    asked = question(saved)
    same(ours(loaded, asked), theirs(saved, asked)[:1])


@pytest.mark.parametrize(
    ("name", "lost"),
    [
        ("BertModel", "encoder.layer.1.attention.self.key.bias"),
        ("BertModel", "pooler.dense.bias"),
        ("DistilBertModel", "transformer.layer.2.ffn.lin2.weight"),
        ("BertForSequenceClassification", "bert.pooler.dense.weight"),
        ("BertForSequenceClassification", "classifier.weight"),
        ("BertForMaskedLM", "cls.predictions.transform.LayerNorm.bias"),
        ("RobertaForSequenceClassification", "classifier.dense.bias"),
        ("RobertaForMultipleChoice", "roberta.pooler.dense.weight"),
        ("RobertaForMaskedLM", "lm_head.layer_norm.weight"),
        ("DistilBertForSequenceClassification", "pre_classifier.weight"),
        ("DistilBertForMaskedLM", "vocab_transform.bias"),
        ("GPT2LMHeadModel", "transformer.h.1.mlp.c_fc.bias"),
        ("GPT2ForSequenceClassification", "score.weight"),
    ],
)
def test_a_missing_weight_is_refused_by_name(name: str, lost: str, tmp_path: Path) -> None:
    make(name, tmp_path / "given")
    rewrite(tmp_path / "given", lambda tensors: tensors.pop(lost))
    with pytest.raises(
        InputError, match=f"missing: {re.sub('^bert.|^roberta.|^transformer.(?=h)', '', lost)}"
    ):
        load(tmp_path / "given")


def test_settings_survive(tmp_path: Path) -> None:
    """What changes no output at rest still has to reach the next training run."""
    given = {
        "hidden_dropout_prob": 0.3,
        "attention_probs_dropout_prob": 0.2,
        "layer_norm_eps": 1e-3,
        "hidden_act": "gelu_new",
    }
    saved = make("BertModel", tmp_path / "given", type_vocab_size=3, **given)
    there_and_back("BertModel", tmp_path / "given", saved)
    config = transformers.AutoConfig.from_pretrained(tmp_path / "back").to_dict()
    assert {key: config[key] for key in given} == given
    assert config["type_vocab_size"] == 3


@pytest.mark.parametrize("name", BODIES)
def test_what_a_config_leaves_out_is_theirs(name: str) -> None:
    """Files written by hand or by old releases name the sizes and little else."""
    kind = getattr(transformers, name).config_class
    whole = kind().to_dict()
    sizes = {
        "model_type",
        *({"Dist": DISTIL, "GPT2": GPT}.get(name[:4], SIZES)),
        *({"max_position_embeddings"} & set(whole)),
    }
    read = by_model_type(whole["model_type"], name).read
    assert read({key: whole[key] for key in sizes}, name) == read(whole, name)


def accented(strip: bool) -> tokenizers.Tokenizer:
    """A tokenizer that knows letters with and without their marks."""
    letters = "aeocfbdkmnrs" + "åäöéñÅÄÖÉſ" + "한국"
    pieces = [*PIECES[:5], *dict.fromkeys(letters + letters.lower())]
    pieces += [f"##{piece}" for piece in pieces[5:]]
    words = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]")
    )
    keep = tokenizers.normalizers.Sequence(
        [tokenizers.normalizers.NFC(), tokenizers.normalizers.Lowercase()]
    )
    words.normalizer = tokenizers.normalizers.BertNormalizer() if strip else keep
    words.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    words.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    words.add_special_tokens(PIECES[:5])
    return words


@pytest.mark.parametrize("strip", [False, True], ids=["keep", "strip"])
def test_their_tokenizer_reads_ours(strip: bool, tmp_path: Path) -> None:
    make("BertModel", tmp_path / "given", vocab_size=80)
    for path in (tmp_path / "given").glob("*token*"):
        path.unlink()
    words = accented(strip)
    words.save(str(tmp_path / "given/tokenizer.json"))
    loaded = load(tmp_path / "given")
    back = save(loaded, tmp_path / "back")
    texts = ["café ÅÄÖ åäö", "ſed años", "한국 [MASK] ok", "", "Éco écrasé"]
    texts += [unicodedata.normalize(form, text) for text in texts for form in ("NFD", "NFC")]
    expected = [words.encode(text).ids for text in texts]
    assert len({tuple(row) for row in expected}) > 4
    assert (expected[0] == words.encode("cafe AAO aao").ids) is strip
    assert [list(encoding.ids) for encoding in loaded.tokenizer.encode(texts)] == expected
    assert [list(encoding.ids) for encoding in load(back).tokenizer.encode(texts)] == expected
    opened = transformers.AutoTokenizer.from_pretrained(back)
    assert opened(texts).input_ids == expected
    assert [
        opened.cls_token_id,
        opened.sep_token_id,
        opened.pad_token_id,
        opened.mask_token_id,
    ] == [2, 3, 0, 4]


def embed(loaded: Bundle) -> np.ndarray:
    """Our vectors; the long text is cut and said to be where the folder's length asks for it."""
    predictor = Predictor(loaded, threads=1)
    if loaded.length < 60:
        with pytest.warns(UserWarning, match="texts were longer"):
            return predictor.embed(TEXTS)
    return predictor.embed(TEXTS)


def agree(vectors: np.ndarray, reference: np.ndarray) -> None:
    """Compare sentence vectors of all texts."""
    assert vectors.shape == reference.shape == (len(TEXTS), SIZES["hidden_size"])
    assert np.abs(vectors - reference).max() <= TOLERANCE * max(1, np.abs(reference).max())


@pytest.mark.parametrize("length", [None, 12])
@pytest.mark.parametrize("normalise", [False, True], ids=["raw", "unit"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_sentence_folders(
    pooling: str, normalise: bool, length: int | None, tmp_path: Path
) -> None:
    make("BertModel", tmp_path / "body", max_position_embeddings=100)
    body = Transformer(str(tmp_path / "body"), max_seq_length=length)
    modules = [body, Pooling(SIZES["hidden_size"], pooling), *([Normalize()] if normalise else [])]
    rival = SentenceTransformer(modules=modules, device="cpu")
    rival.save(str(tmp_path / "given"))
    loaded = load(tmp_path / "given")
    assert loaded.sentence[:2] == (pooling, normalise)
    assert loaded.length == (length or 100)
    reference = rival.encode(TEXTS)
    vectors = embed(loaded)
    agree(vectors, reference)
    back = save(loaded, tmp_path / "back")
    agree(SentenceTransformer(str(back), device="cpu").encode(TEXTS), reference)
    agree(embed(load(back)), reference)


@pytest.mark.parametrize(
    ("name", "special"), [("RobertaModel", {"pad_token_id": 0}), ("DistilBertModel", {})]
)
def test_a_body_becomes_a_sentence_folder(
    name: str, special: dict[str, int], tmp_path: Path
) -> None:
    """A pooling chosen here, not read from a folder, is one that sentence-transformers follows."""
    make(name, tmp_path / "given", max_position_embeddings=101, **special)
    loaded = load(tmp_path / "given")
    loaded.sentence = Sentence("cls", normalise=True, length=20)
    back = save(loaded, tmp_path / "back")
    agree(SentenceTransformer(str(back), device="cpu").encode(TEXTS), embed(loaded))


@pytest.mark.parametrize(
    ("body", "named", "lost"),
    [
        ("BertModel", "BertForSequenceClassification", "classifier.weight"),
        ("RobertaModel", "RobertaForMaskedLM", "lm_head.bias"),
        ("DistilBertModel", "DistilBertForMaskedLM", "vocab_projector.bias"),
    ],
)
def test_a_sentence_folder_may_name_a_head_that_it_left_behind(
    body: str, named: str, lost: str, tmp_path: Path
) -> None:
    """As published ones do, whose config.json is still that of the model that they began with."""
    make(body, tmp_path / "body", max_position_embeddings=101, pad_token_id=0)
    modules = [Transformer(str(tmp_path / "body")), Pooling(SIZES["hidden_size"], "mean")]
    given = tmp_path / "given"
    SentenceTransformer(modules=modules, device="cpu").save(str(given))
    config = json.loads((given / "config.json").read_text())
    (given / "config.json").write_text(json.dumps(config | {"architectures": [named]}))
    loaded = load(given)
    assert (loaded.kind, loaded.unusable, loaded.unmatched) == (None, None, ((), ()))
    assert head_of(given).kind is None
    agree(embed(loaded), SentenceTransformer(str(given), device="cpu").encode(TEXTS))

    (given / "modules.json").unlink()
    with pytest.raises(InputError, match=f"weights are missing: .*{lost}"):
        load(given)


def test_minilm_there_and_back(tmp_path: Path) -> None:
    """The real weights, saved by us, are the same weights to sentence-transformers and the same ids to transformers."""
    loaded = load("minilm")
    back = save(loaded, tmp_path / "back")
    texts = [
        "The river bank was muddy.",
        "",
        "Ein Café in Århus 🙂",
        unicodedata.normalize("NFD", "Ein Café in Århus"),
        "word " * 400,
    ]
    rival = SentenceTransformer(str(find("minilm")), device="cpu")
    reference = rival.encode(texts)
    with pytest.warns(UserWarning, match="1 of 5 texts"):
        assert np.abs(Predictor(loaded, threads=1).embed(texts) - reference).max() <= TOLERANCE
    assert (
        np.abs(SentenceTransformer(str(back), device="cpu").encode(texts) - reference).max()
        <= TOLERANCE
    )
    opened = transformers.AutoTokenizer.from_pretrained(back)
    assert opened(texts[:4]).input_ids == rival.tokenizer(texts[:4]).input_ids
