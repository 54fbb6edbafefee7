"""A converted checkpoint gives what transformers gives with the same arrays put into its model by hand."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from transformers import BertConfig, BertForPreTraining

import firth
from firth.folders.read import load
from firth.text.tokenizer import Tokenizer
from tests.parity.test_bert import batch, close
from tests.unit.bundles import CASED, CONFIG, UNCASED, Array, bert_arrays, moments, write_bert

TEXTS = ["The cat's CAFÉ.", "中the Cats", "Café PARIS", "e ́ é", "", "x"]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def by_hand(arrays: dict[str, Array]) -> BertForPreTraining:
    """transformers' model with each array in its place, by rules of this test's own."""
    config = BertConfig(**{key: CONFIG[key] for key in CONFIG})
    config._attn_implementation = "eager"
    model = BertForPreTraining(config).eval()
    state = {}
    for name, array in arrays.items():
        theirs = name.replace("/", ".").replace("layer_", "layer.")
        theirs = theirs.replace("LayerNorm.gamma", "LayerNorm.weight")
        theirs = theirs.replace("LayerNorm.beta", "LayerNorm.bias")
        theirs = re.sub(r"_embeddings$", "_embeddings.weight", theirs)
        theirs = theirs.replace("predictions.output_bias", "predictions.bias")
        theirs = theirs.replace("seq_relationship.output_", "seq_relationship.")
        theirs = theirs.replace("relationship.weights", "relationship.weight")
        value = torch.from_numpy(array.copy())
        if theirs.endswith(".kernel"):
            value = value.t()
            theirs = theirs.replace(".kernel", ".weight")
        state[theirs] = value
    tied = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert set(missing) <= tied
    assert not unexpected
    model.tie_weights()
    return model


@pytest.fixture(scope="module", params=["one file", "three files, cut"])
def converted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, BertForPreTraining, dict[str, Array]]:
    place = tmp_path_factory.mktemp("converted")
    arrays = bert_arrays()
    cut = {"bert/embeddings/word_embeddings": (0, 5), "bert/pooler/dense/kernel": (1, 3)}
    layout = {} if request.param == "one file" else {"shards": 3, "per_block": 7, "cut": cut}
    folder = write_bert(place / "google", arrays | moments(arrays), **layout)
    firth.convert(folder, place / "bert")
    return place / "bert", by_hand(arrays), arrays


def test_outputs_are_those_of_transformers(
    converted: tuple[Path, BertForPreTraining, dict[str, Array]],
) -> None:
    folder, reference, _ = converted
    bundle = load(folder)
    assert bundle.kind == "pretrain"
    assert not bundle.unmatched.unused
    opened = BertForPreTraining.from_pretrained(folder, attn_implementation="eager").eval()
    auto = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    for seed in range(4):
        asked = batch([9, 1, 20, 20, 4], len(UNCASED), torch.Generator().manual_seed(seed))
        with torch.inference_mode():
            theirs = reference(**asked.rectangle, output_hidden_states=True)
            again = opened(**asked.rectangle)
            body = auto(**asked.rectangle)
            hidden = bundle.encoder(*asked.stream)
            assert bundle.head is not None
            words = bundle.head.masked(hidden.tokens)
            following = bundle.head.next(hidden.pooled)
        close(hidden.tokens, theirs.hidden_states[-1][asked.mask])
        close(words, theirs.prediction_logits[asked.mask])
        close(following, theirs.seq_relationship_logits)
        close(again.prediction_logits, theirs.prediction_logits)
        close(again.seq_relationship_logits, theirs.seq_relationship_logits)
        close(body.last_hidden_state[asked.mask], theirs.hidden_states[-1][asked.mask])


def test_every_tensor_is_the_checkpoints_to_the_bit(
    converted: tuple[Path, BertForPreTraining, dict[str, Array]],
) -> None:
    folder, reference, arrays = converted
    opened = BertForPreTraining.from_pretrained(folder).state_dict()
    expected = reference.state_dict()
    assert set(opened) == set(expected)
    for name, tensor in expected.items():
        assert torch.equal(opened[name], tensor), name
    total = sum(array.size for array in arrays.values())
    assert sum(tensor.numel() for tensor in reference.parameters()) == total


@pytest.mark.parametrize(("pieces", "lower"), [(UNCASED, True), (CASED, False)])
def test_text_is_parted_as_googles_tokenizer_did(
    tmp_path: Path, pieces: list[str], lower: bool
) -> None:
    folder = write_bert(tmp_path / "google", bert_arrays(), pieces)
    result = firth.convert(folder, tmp_path / "bert")
    assert result.case == ("lower" if lower else "keep")
    vocab = {piece: number for number, piece in enumerate(pieces)}
    google = transformers.BertTokenizer(vocab=vocab, do_lower_case=lower)
    ours = Tokenizer.open(tmp_path / "bert")
    auto = transformers.AutoTokenizer.from_pretrained(tmp_path / "bert")
    for text in TEXTS:
        assert ours.encode([text])[0].ids == google(text)["input_ids"] == auto(text)["input_ids"]
    pair = auto("the", "cat")
    assert pair["token_type_ids"] == [0, 0, 0, 1, 1]
    assert auto.model_max_length == CONFIG["max_position_embeddings"]


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("classify", "BertForSequenceClassification"),
        ("fill", "BertForMaskedLM"),
        ("answer", "BertForQuestionAnswering"),
    ],
)
def test_heads_of_fine_tuned_checkpoints(tmp_path: Path, head: str, name: str) -> None:
    arrays = bert_arrays(head)
    folder = write_bert(tmp_path / "google", arrays)
    result = firth.convert(folder, tmp_path / "bert")
    assert (result.task, result.left_out) == (head, ())
    model, report = getattr(transformers, name).from_pretrained(
        tmp_path / "bert", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert type(model).__name__ in model.config.architectures
    if head == "classify":
        assert np.array_equal(model.classifier.weight.detach().numpy(), arrays["output_weights"])
        (answer,) = firth.load(tmp_path / "bert").predict(["the cat"])
        assert isinstance(answer, firth.Classification)
        assert result.labels == tuple(answer.probabilities) == ("LABEL_0", "LABEL_1", "LABEL_2")
        tokens = transformers.AutoTokenizer.from_pretrained(tmp_path / "bert")
        with torch.inference_mode():
            logits = model.eval()(**tokens("the cat", return_tensors="pt")).logits
        shares = torch.tensor(list(answer.probabilities.values()))
        close(shares, logits.softmax(-1)[0])
    if head == "answer":
        weight = model.qa_outputs.weight.detach().numpy()
        assert np.array_equal(weight, arrays["cls/squad/output_weights"])
