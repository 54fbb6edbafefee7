"""`firth finetune` with a GPT: a text's last token tells its class, each token its tag; transformers opens what comes of it."""

import json
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

from firth import load
from firth.base.errors import InputError
from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.ffnn import Ffnn, FfnnSettings
from firth.models.gpt import Gpt, GptSettings
from firth.samples.tickets import tickets
from firth.text.tokenizer import Tokenizer
from tests.journey.command import run

COMMON = ("--threads", "1", "--seed", "3", "--batch", "8", "--json")
PRODUCTS = ("kettle", "pan")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tickets: which of two products each is about, a number for it, and where its names are."""
    folder = tmp_path_factory.mktemp("tickets")
    named = [(t.text, word) for t in tickets() for word in PRODUCTS if word in t.text.lower()]
    pages = {
        "classes": [{"text": text, "label": word} for text, word in named],
        "numbers": [{"text": text, "label": float(word == "pan")} for text, word in named],
        "spans": [{"text": t.text, "spans": [n._asdict() for n in t.names]} for t in tickets()],
    }
    for name, rows in pages.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module", params=["wordpiece", "bytes"])
def gpt(request: pytest.FixtureRequest, files: Path) -> Path:
    """A small one with fresh weights, over words in pieces and over bytes."""
    words = Tokenizer.train([ticket.text for ticket in tickets()], request.param, 400)
    torch.manual_seed(0)
    sizes = {"width": 64, "depth": 2, "heads": 4, "inner": 128, "length": 64}
    model = Gpt(GptSettings(vocab=words.size, start=words.cls, end=words.sep, **sizes))
    return save(Bundle(model, words, "gpt2", "continue"), files / request.param)


def taught(
    task: str, model: Path, train: Path, out: Path, *options: object
) -> dict[str, dict[str, float]]:
    ended = run(
        "finetune",
        task,
        "--model",
        model,
        "--train",
        train,
        "--dev",
        train,
        "-o",
        out,
        *COMMON,
        *options,
    )
    assert ended.code == 0, ended.err
    return json.loads(ended.out)["metrics"]


def test_classes_are_learned(files: Path, gpt: Path, tmp_path: Path) -> None:
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        GPT2ForSequenceClassification,
    )

    scores = taught(
        "classify", gpt, files / "classes.jsonl", tmp_path / "out", "--epochs", 20, "--rate", "2e-3"
    )
    assert scores["accuracy"]["value"] >= 0.95
    text = "The lid of my kettle is stuck."
    assert json.loads(run("predict", tmp_path / "out", text, "--json").out)["label"] == "kettle"
    bundle = load(tmp_path / "out").bundle
    assert (bundle.family, bundle.kind, bundle.labels) == ("gpt2", "classify", PRODUCTS)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path / "out").eval()
    words = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert isinstance(model, GPT2ForSequenceClassification)
    texts = [text, "Where is the pan that I ordered three weeks ago?"]
    with torch.inference_mode():
        logits = (
            model(**words(texts, padding=True, return_tensors="pt")).logits
            / bundle.settings["temperature"]
        )
    for row, decision in zip(logits.softmax(1), load(tmp_path / "out").predict(texts), strict=True):
        assert row.tolist() == pytest.approx(
            [decision.probabilities[label] for label in PRODUCTS], abs=1e-5
        )


def test_numbers_and_the_top_layer_alone(files: Path, gpt: Path, tmp_path: Path) -> None:
    taught("regress", gpt, files / "numbers.jsonl", tmp_path / "out", "--epochs", 1, "--top", 1)
    before, after = load(gpt).bundle.encoder, load(tmp_path / "out").bundle.encoder
    changed = {
        name
        for name, weight in after.named_parameters()
        if not torch.equal(weight, before.get_parameter(name))
    }
    assert changed == {
        name for name, _ in after.named_parameters() if name.startswith(("blocks.1.", "norm."))
    }
    assert isinstance(load(tmp_path / "out").predict(["a pan"])[0].value, float)


def test_numbers_far_from_zero_open_elsewhere(files: Path, gpt: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    rows = [json.loads(line) for line in (files / "numbers.jsonl").read_text().splitlines()]
    rows = [{"text": row["text"], "label": 250 + 10 * row["label"]} for row in rows]
    (tmp_path / "far.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scores = taught("regress", gpt, tmp_path / "far.jsonl", tmp_path / "out", "--epochs", 1)
    assert scores["mse"]["value"] < 100
    texts = ["a pan", "Where is the kettle that I ordered?"]
    model, words = (
        kind.from_pretrained(tmp_path / "out")
        for kind in (AutoModelForSequenceClassification, AutoTokenizer)
    )
    with torch.inference_mode():
        theirs = model.eval()(**words(texts, padding=True, return_tensors="pt")).logits[:, 0]
    ours = [answer.value for answer in load(tmp_path / "out").predict(texts)]
    assert theirs.tolist() == pytest.approx(ours, abs=1e-3)


def test_spans_are_found(files: Path, gpt: Path, tmp_path: Path) -> None:
    scores = taught(
        "tag", gpt, files / "spans.jsonl", tmp_path / "out", "--epochs", 12, "--rate", "2e-3"
    )
    assert scores["f1"]["value"] > 0.5
    text = next(ticket.text for ticket in tickets() if ticket.names)
    spans = json.loads(run("predict", tmp_path / "out", text, "--json").out)["spans"]
    assert all(text[span["start"] : span["end"]] == span["text"] for span in spans)
    assert "GPT2ForTokenClassification" in (tmp_path / "out/config.json").read_text()


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_features_of_a_gpt_that_is_not_taught(
    task: str, files: Path, gpt: Path, tmp_path: Path
) -> None:
    train = files / ("classes.jsonl" if task == "classify" else "spans.jsonl")
    taught(task, gpt, train, tmp_path / "out", "--features", "0..2", "--epochs", 5)
    bundle, given = load(tmp_path / "out").bundle, load(gpt).bundle
    assert all(
        torch.equal(weight, given.encoder.get_parameter(name))
        for name, weight in bundle.encoder.named_parameters()
    )
    assert bundle.features is not None
    assert load(tmp_path / "out").predict(["The pan is late."])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("finetune", "classify", "--model", "MODEL", "--train", "TRAIN", "-o", "OUT"),
            "fine-tuning takes folders of bert, roberta, xlm-roberta, distilbert, mpnet, gpt2",
        ),
        (("embed", "MODEL", "TRAIN"), "a firth-ffnn model gives no vectors"),
        (
            ("pretrain", "TRAIN", "--init", "MODEL", "--steps", "1", "-o", "OUT"),
            "is a firth-ffnn, which is not pretrained as bert: say --model ffnn",
        ),
    ],
)
def test_a_model_without_vectors_is_refused(
    words: tuple[str, ...], said: str, files: Path, tmp_path: Path
) -> None:
    pieces = Tokenizer.train([ticket.text for ticket in tickets()], "words", 300)
    marks = {"vocab": pieces.size, "start": pieces.cls, "end": pieces.sep}
    model = Ffnn(FfnnSettings(**marks, width=8, inner=8, order=3))
    save(Bundle(model, pieces, "firth-ffnn", "continue"), tmp_path / "model")
    (tmp_path / "text.txt").write_text("\n\n".join(ticket.text for ticket in tickets()))
    train = files / "classes.jsonl" if words[0] == "finetune" else tmp_path / "text.txt"
    places = {"MODEL": tmp_path / "model", "TRAIN": train, "OUT": tmp_path / "out"}
    ended = run(*(places.get(word, word) for word in words))
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert not (tmp_path / "out").exists()


def published_tokenizer(folder: Path, mark: bool = True) -> Path:
    """Write a tokenizer.json as GPT-2's is published: nothing stands around or between texts."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>"] if mark else []
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    backend.train_from_iterator([ticket.text for ticket in tickets()], trainer)
    folder.mkdir()
    backend.save(str(folder / "tokenizer.json"))
    config = {"eos_token": special[0], "bos_token": special[0]} if mark else {}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_a_pair_is_parted_by_the_models_own_mark(files: Path, tmp_path: Path) -> None:
    """GPT-2's tokenizer joins two texts without a mark, so that no model could tell where one ends."""
    words = Tokenizer.open(published_tokenizer(tmp_path / "words"))
    assert not words.separates_pairs
    torch.manual_seed(0)
    sizes = {"width": 32, "depth": 1, "heads": 2, "inner": 64, "length": 64}
    model = Gpt(GptSettings(vocab=words.size, start=words.cls, end=words.sep, **sizes))
    base = save(Bundle(model, words, "gpt2", "continue"), tmp_path / "base")
    rows = [
        {"text_a": "The pan", "text_b": "broke.", "label": "a"},
        {"text_a": "The panbroke", "text_b": ".", "label": "b"},
    ] * 6
    train = tmp_path / "pairs.jsonl"
    train.write_text("".join(json.dumps(row) + "\n" for row in rows))
    taught("classify", base, train, tmp_path / "out", "--steps", "2")
    found = Tokenizer.open(tmp_path / "out")
    assert found.separates_pairs
    (pair,) = found.encode(["The pan"], ["broke."])
    assert pair.ids.count(words.sep) == 1
    assert found.encode(["The pan"]) == words.encode(["The pan"])
    theirs = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert theirs("The pan", "broke.")["input_ids"] == pair.ids
    model = load(tmp_path / "out")
    one, other = model.predict([("The pan", "broke."), ("The panbroke", ".")])
    assert one.probabilities != other.probabilities
    # A head that is kept goes on as it is; a tokenizer without an end mark can't part texts.
    taught("classify", tmp_path / "out", train, tmp_path / "again", "--steps", "2")
    assert Tokenizer.open(tmp_path / "again").fingerprint == found.fingerprint
    markless = Tokenizer.open(published_tokenizer(tmp_path / "markless", mark=False))
    with pytest.raises(InputError, match="puts no mark between two texts"):
        markless.separating_pairs()
