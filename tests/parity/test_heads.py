"""Heads of DistilBERT, RoBERTa, XLM-R and MPNet from text to logits, over tokenizers as theirs are, read and fine-tuned."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

import firth
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.predictor import Predictor
from firth.samples.tickets import tickets
from firth.tasks import registry
from firth.tasks.choice import Choose
from firth.tasks.head import make_head
from tests.parity.test_bert import close
from tests.parity.test_folders import make, ours, question, same, theirs, write_words

PIECES = 300
TEXTS = [ticket.text for ticket in tickets()][:40]
ASKED = ["The pan is late.", "kettle", "Where is my lamp, and who pays for it?"]
SECOND = ["Nobody knows.", "The pan of the kettle", "why"]
MARKS = {
    "bos_token": "<s>",
    "cls_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
NAMES = ["DistilBert", "Roberta", "XLMRoberta", "MPNet"]
QUICK: dict[str, Any] = {"epochs": 2.0, "batch": 8, "threads": 1, "workers": 0}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def byte_level() -> tokenizers.Tokenizer:
    """RoBERTa's: pairs of bytes, two end marks between the texts of a pair."""
    words = tokenizers.Tokenizer(tokenizers.models.BPE())
    words.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=PIECES,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    words.train_from_iterator(TEXTS, trainer)
    words.post_processor = tokenizers.processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    return words


def unigram() -> tokenizers.Tokenizer:
    """XLM-R's: pieces with probabilities, white space as a mark of its own."""
    words = tokenizers.Tokenizer(tokenizers.models.Unigram())
    words.normalizer = tokenizers.normalizers.NFKC()
    words.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    words.decoder = tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=PIECES,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        unk_token="<unk>",
        show_progress=False,
    )
    words.train_from_iterator(TEXTS, trainer)
    words.post_processor = tokenizers.processors.TemplateProcessing(
        "<s> $A </s>", "<s> $A </s> </s> $B </s>", [("<s>", 0), ("</s>", 2)]
    )
    return words


def word_pieces() -> tokenizers.Tokenizer:
    """MPNet's: BERT's pieces between RoBERTa's marks."""
    words = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="<unk>"))
    words.normalizer = tokenizers.normalizers.BertNormalizer()
    words.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=PIECES,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        show_progress=False,
    )
    words.train_from_iterator(TEXTS, trainer)
    words.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return words


TOKENIZERS = {"Roberta": byte_level, "XLMRoberta": unigram, "MPNet": word_pieces}


def folder_of(name: str, end: str, folder: Path, **settings: Any) -> transformers.PreTrainedModel:
    """A random model of a class of transformers, with a tokenizer as the family has them."""
    if "Roberta" in name:
        settings = {"type_vocab_size": 1} | settings
    model = make(name + end, folder, vocab_size=PIECES, **settings)
    for path in folder.glob("*token*"):
        path.unlink()
    if name == "DistilBert":
        write_words(folder)
    else:
        fast = transformers.PreTrainedTokenizerFast(tokenizer_object=TOKENIZERS[name](), **MARKS)
        fast.save_pretrained(folder)
    return model


def told(folder: Path, texts: list[str], second: list[str] | None = None) -> Tensor:
    """The logits of transformers, from text: by the tokenizer and the class that its folder names."""
    words = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    rows = zip(texts, second, strict=True) if second else [(text,) for text in texts]
    with torch.inference_mode():
        found = [model(**words(*row, return_tensors="pt")).logits[0] for row in rows]
    return torch.stack(found)


def probabilities(folder: Path, texts: list[Any]) -> Tensor:
    """The probability that Firth gives each class, in the order of the labels."""
    bundle = load(folder)
    answers = Predictor(bundle, threads=1).predict(texts)
    return torch.tensor([[one.probabilities[label] for label in bundle.labels] for one in answers])


@pytest.mark.parametrize("name", NAMES)
def test_texts_and_pairs_have_the_same_classes(name: str, tmp_path: Path) -> None:
    """Also when the folder is saved by Firth, whose tokenizer names only inputs that the model has."""
    folder_of(name, "ForSequenceClassification", tmp_path / "given", num_labels=3)
    back = save(load(tmp_path / "given"), tmp_path / "back")
    expected = told(tmp_path / "given", ASKED)
    assert expected.std() > 0.01
    of_pairs = told(tmp_path / "given", ASKED, SECOND)
    pairs = list(zip(ASKED, SECOND, strict=True))
    for folder in (tmp_path / "given", back):
        close(probabilities(folder, ASKED), expected.softmax(-1))
        close(probabilities(folder, pairs), of_pairs.softmax(-1))
    close(told(back, ASKED), expected)
    close(told(back, ASKED, SECOND), of_pairs)
    assert "token_type_ids" not in (back / "tokenizer_config.json").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_blanks_have_the_same_pieces(name: str, tmp_path: Path) -> None:
    folder_of(name, "ForMaskedLM", tmp_path / "given")
    words = transformers.AutoTokenizer.from_pretrained(tmp_path / "given")
    model = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "given").eval()
    text = f"The {words.mask_token} is late."
    given = words(text, return_tensors="pt", return_token_type_ids=False)
    with torch.inference_mode():
        logits = model(**given).logits[0]
    row = logits[given.input_ids[0].tolist().index(words.mask_token_id)].softmax(-1)
    (answer,) = Predictor(load(tmp_path / "given"), threads=1).predict([text])
    (blank,) = answer.blanks
    assert text[blank.start : blank.end] == words.mask_token
    best = row.topk(len(blank.choices))
    close(torch.tensor([one.probability for one in blank.choices]), best.values)


def rows(task: str, path: Path) -> Path:
    """Thirty-two examples of a task."""
    learned: dict[str, list[Any]] = {
        "classify": ["late", "early"],
        "several": [["late", "lost"], ["early"]],
        "regress": [1.5, 2.5],
        "tag": [[{"start": 4, "end": 7, "label": "WARE"}], []],
    }
    field = {"tag": "spans", "several": "labels"}.get(task, "label")
    texts = [f"The pan is {word}, {text}" for text in TEXTS[:16] for word in ("late", "early")]
    page = [{"text": text, field: learned[task][i % 2]} for i, text in enumerate(texts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in page))
    return path


def command(kind: str) -> str:
    return "classify" if kind == "several" else kind


@pytest.mark.parametrize("kind", ["classify", "several", "regress", "tag"])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_fine_tuned_is_theirs(name: str, kind: str, tmp_path: Path) -> None:
    """From an encoder, and again from the folder itself, whose head is kept."""
    folder_of(name, "Model", tmp_path / "base")
    data = rows(kind, tmp_path / "rows.jsonl")
    firth.finetune(command(kind), tmp_path / "base", data, tmp_path / "out", **QUICK)
    check_theirs(name, kind, tmp_path / "out")
    if name != "XLMRoberta":
        result = firth.finetune(
            command(kind), tmp_path / "out", data, tmp_path / "again", rate=1e-9, **QUICK
        )
        assert result is not None
        check_theirs(name, kind, tmp_path / "again")
        first, again = (load(tmp_path / folder) for folder in ("out", "again"))
        for one, other in zip(first.head.parameters(), again.head.parameters(), strict=True):
            assert torch.allclose(one, other, atol=1e-4)


def check_theirs(name: str, kind: str, folder: Path) -> None:
    """Compare a folder's logits with those of the class that transformers has for it."""
    end = "ForTokenClassification" if kind == "tag" else "ForSequenceClassification"
    opened = getattr(transformers, name + end)
    model, report = opened.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values()), report
    assert model.config.architectures == [name + end]
    loaded = load(folder)
    assert (loaded.kind, loaded.unmatched) == (kind, ((), ()))
    asked = question(model)
    asked = asked._replace(ids=asked.ids.clamp(max=loaded.tokenizer.size - 1))
    same(ours(loaded, asked), theirs(model.eval(), asked))


@pytest.mark.parametrize("name", NAMES)
def test_features_stay_out_of_their_classes(name: str, tmp_path: Path) -> None:
    base = folder_of(name, "Model", tmp_path / "base")
    data = rows("classify", tmp_path / "rows.jsonl")
    firth.finetune("classify", tmp_path / "base", data, tmp_path / "out", features="0,-1", **QUICK)
    loaded = load(tmp_path / "out")
    assert loaded.features is not None
    assert Predictor(loaded, threads=1).predict(ASKED)
    asked = question(base)
    same(ours(loaded_body(loaded), asked)[:1], theirs(base, asked)[:1])
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        transformers.AutoModelForSequenceClassification.from_pretrained(
            tmp_path / "out", num_labels=2
        )


def loaded_body(bundle: Bundle) -> Bundle:
    """The encoder of a folder, as one without a head."""
    return Bundle(bundle.encoder, bundle.tokenizer, bundle.family)


class Review(Choose):
    """A task for which no family has a head."""

    name = "review"
    kinds = {name: "the better review"}


@pytest.mark.parametrize("name", NAMES)
def test_a_head_of_our_own_over_texts(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plugin's: its summary of a text has a place also where their encoder has none."""
    monkeypatch.setitem(registry._registered, Review.name, Review)
    folder_of(name, "Model", tmp_path / "base")
    base = load(tmp_path / "base")
    base.encoder.set_pooler(True)
    head = make_head(Review.name, base.encoder)
    assert head is not None
    made = Bundle(base.encoder, base.tokenizer, base.family, Review.name, head)
    assert made.own_head
    again = load(save(made, tmp_path / "out"))
    assert (again.kind, again.unmatched) == (Review.name, ((), ()))
    for one, other in ((made.encoder, again.encoder), (made.head, again.head)):
        assert one is not None
        assert other is not None
        known = other.state_dict()
        assert known.keys() == one.state_dict().keys()
        assert all(torch.equal(tensor, known[key]) for key, tensor in one.state_dict().items())
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        transformers.AutoModelForSequenceClassification.from_pretrained(
            tmp_path / "out", num_labels=2
        )


@pytest.mark.parametrize(
    ("name", "hidden"), [("DistilBert", "pre_classifier"), ("Roberta", "classifier.dense")]
)
def test_one_update_is_theirs(name: str, hidden: str, tmp_path: Path) -> None:
    """Gradients of the head's two layers and of the words, and the logits after a step."""
    reference = make(
        f"{name}ForSequenceClassification", tmp_path / "given", num_labels=3, initializer_range=0.1
    )
    bundle = load(tmp_path / "given")
    asked = question(reference)
    classes = torch.arange(len(asked.lengths)) % 3
    parts = nn.ModuleDict({"encoder": bundle.encoder, "head": bundle.head}).requires_grad_(True)

    given = {key: asked.rectangle[key] for key in ("input_ids", "attention_mask")}
    logits = bundle.head(bundle.encoder(*asked.stream).pooled)
    F.cross_entropy(logits, classes).backward()
    F.cross_entropy(reference(**given).logits, classes).backward()
    assert bundle.encoder.pooler is not None
    close(bundle.encoder.pooler.weight.grad, reference.get_parameter(f"{hidden}.weight").grad)
    close(bundle.encoder.table.grad, reference.get_input_embeddings().weight.grad)
    assert bundle.encoder.pooler.weight.grad.abs().max() > 0.01

    before = logits.detach()
    for model in (parts, reference):
        torch.optim.SGD(model.parameters(), lr=0.1).step()
    with torch.inference_mode():
        logits = bundle.head(bundle.encoder(*asked.stream).pooled)
        close(logits, reference(**given).logits)
    assert (logits - before).abs().max() > 0.1


@pytest.mark.parametrize(("name", "drops"), [("DistilBert", False), ("Roberta", True)])
def test_dropout_stands_where_theirs_does(name: str, drops: bool, tmp_path: Path) -> None:
    """RoBERTa's classifier drops before each of its layers, DistilBERT's before the last."""
    make(f"{name}ForSequenceClassification", tmp_path / "given")
    encoder = load(tmp_path / "given").encoder
    encoder.set_dropout(0.5)
    summary = encoder.get_submodule("pooler")
    first = torch.ones(4, encoder.width)
    at_rest = summary(first)
    in_training = summary.train()(first)
    assert torch.equal(in_training, at_rest) is not drops
