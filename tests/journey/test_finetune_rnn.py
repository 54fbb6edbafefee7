"""`firth finetune` with new recurrent and averaging models, and with recurrent language models: the three ways to use what is known."""

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import firth
from firth.base.errors import InputError
from firth.families.mean import FAMILY as MEAN
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.models.rnn import Rnn, RnnSettings
from firth.samples.tickets import tickets
from firth.text.tokenizer import Tokenizer
from tests.journey.command import run, spawn

QUICK: dict[str, Any] = {"steps": 4, "batch": 4, "threads": 1, "seed": 3}
SMALL: dict[str, Any] = {**QUICK, "model_settings": {"width": 16}}
PRODUCTS = ("kettle", "pan")
TEXTS = [ticket.text for ticket in tickets()]
ABOUT = [(text, word) for text in TEXTS for word in PRODUCTS if word in text.lower()]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tickets with classes, numbers, spans and pairs; word vectors; a language model."""
    folder = tmp_path_factory.mktemp("tickets")
    classes = [{"text": text, "label": word} for text, word in ABOUT]
    write_rows(folder / "classes.jsonl", classes)
    numbers = [{"text": text, "label": float(word == "pan")} for text, word in ABOUT]
    write_rows(folder / "numbers.jsonl", numbers)
    spans = [{"text": t.text, "spans": [n._asdict() for n in t.names]} for t in tickets()[:40]]
    write_rows(folder / "spans.jsonl", spans)
    pairs = [{"text_a": text, "text_b": word, "label": word} for text, word in ABOUT]
    write_rows(folder / "pairs.jsonl", pairs)

    words = Tokenizer.train(TEXTS, "words", 400)
    torch.manual_seed(0)
    settings = MEAN.settings(vocab=words.size, width=12)
    save(Bundle(MEAN.network(settings), words, MEAN.model_type), folder / "vectors")
    sizes = RnnSettings(vocab=words.size, start=words.cls, width=16, tied=True)
    save(Bundle(Rnn(sizes), words, "firth-rnn", "continue"), folder / "lm")
    return folder


def tuned(place: Path, out: Path, task: str = "classify", **options: Any) -> Bundle:
    """Fine-tune on a file of the place, and open what came of it."""
    files = {"classify": "classes", "regress": "numbers", "tag": "spans"}
    train = options.pop("train", place / f"{files[task]}.jsonl")
    model = options.pop("model", "rnn")
    firth.finetune(task, model, train, out, dev=train, **{**SMALL, **options})
    return load(out)


def layers(bundle: Bundle) -> dict[str, torch.Tensor]:
    """The tensors of the layers above the table."""
    state = bundle.network.state_dict()
    return {name: tensor for name, tensor in state.items() if name.startswith("layers.")}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> list[bool]:
    assert one.keys() == other.keys()
    return [torch.equal(one[name], other[name]) for name in one]


def test_from_nothing(place: Path, tmp_path: Path) -> None:
    """The command says where its vocabulary is from; the folder answers, and a resumed call finds it."""
    words = ("finetune", "classify", "--model", "rnn", "--cell", "gru", "--bidirectional")
    words += ("--set", "width=16", "--set", "depth=2", "--train", place / "classes.jsonl")
    words += ("--epochs", 12, "--threads", 1, "--batch", 4, "-o", tmp_path / "out", "--json")
    ended = run(*words)
    assert ended.code == 0, ended.err
    assert "a new rnn with the vocabulary of the training texts: " in ended.err
    assert "of the pieces to learn from are unknown to it" in ended.err
    bundle = load(tmp_path / "out")
    s = bundle.encoder.settings
    assert (s.cell, s.bidirectional, s.depth, s.output) == ("gru", True, 2, "none")
    assert (bundle.kind, bundle.encoder.width, bundle.length) == ("classify", 32, None)
    assert bundle.tokenizer.kind == "words"
    assert 20 < bundle.tokenizer.size < 400  # words that occur twice, of which a text has few

    model = firth.load(tmp_path / "out", threads=1)
    found = model.predict([text for text, _ in ABOUT])
    right = sum(answer.label == word for answer, (_, word) in zip(found, ABOUT, strict=True))
    assert right / len(ABOUT) > 0.9
    again = run(*words, "--resume")
    assert (again.code, json.loads(again.out)) == (0, json.loads(ended.out))
    assert "is finished" in again.err


@pytest.mark.parametrize("model", ["rnn", "mean"])
@pytest.mark.parametrize("freeze", [True, False], ids=["frozen", "tuned"])
def test_from_vectors(model: str, freeze: bool, place: Path, tmp_path: Path) -> None:
    """Their vocabulary and their directions; frozen ones keep every bit."""
    options: dict[str, Any] = {"model_settings": {"width": 16} if model == "rnn" else {}}
    made = tuned(
        place, tmp_path / "out", model=model, vectors=place / "vectors", freeze=freeze, **options
    )
    source = load(place / "vectors")
    assert made.tokenizer.fingerprint == source.tokenizer.fingerprint
    given = source.encoder.table.detach()
    if model == "rnn":
        size = given.pow(2).mean().sqrt()
        given = given / (size * 12**0.5)
        assert made.encoder.settings.inputs == 12
    changed = (made.encoder.table != given).any(1)
    ids = {word for row in made.tokenizer.encode([text for text, _ in ABOUT]) for word in row.ids}
    assert bool(changed.any()) == (not freeze)
    # Of words that no text has, all but the marks stay as they are.
    assert set(changed.nonzero()[:, 0].tolist()) <= ids | set(range(3))


def test_from_a_language_model(place: Path, tmp_path: Path) -> None:
    """Its layers are the first step's; the output layer is left behind."""
    base = load(place / "lm")
    still = tuned(place, tmp_path / "still", model=place / "lm", rate=1e-30, model_settings={})
    assert all(equal(layers(still), layers(base)))
    assert torch.equal(still.encoder.table, base.encoder.table)
    assert not any(name.startswith("output") for name in still.network.state_dict())
    with pytest.raises(InputError, match="for the task 'classify' is no language model"):
        still.language  # noqa: B018 - asking is what is refused

    moved = tuned(place, tmp_path / "moved", model=place / "lm", model_settings={})
    assert not any(equal(layers(moved), layers(base)))
    top = tuned(place, tmp_path / "top", model=place / "lm", model_settings={}, top=1)
    kept = equal(layers(top), layers(base))
    assert kept == [name.startswith("layers.layers.0.") for name in layers(top)]
    assert torch.equal(top.encoder.table, base.encoder.table)

    features = tuned(place, tmp_path / "f", model=place / "lm", model_settings={}, features="0..2")
    assert all(equal(layers(features), layers(base)))
    assert features.features is not None
    assert firth.load(tmp_path / "f", threads=1).predict(["The pan is late."])
    with pytest.warns(firth.DataWarning, match="was trained on"):  # and its head is kept
        tuned(place, tmp_path / "more", model=tmp_path / "f", model_settings={}, features="0..2")


def test_the_mean_is_a_linear_classifier_on_averaged_vectors(place: Path, tmp_path: Path) -> None:
    made = tuned(place, tmp_path / "out", model="mean", rate=0.05, epochs=10, steps=None)
    text = TEXTS[0]
    (encoding,) = made.tokenizer.encode([text])
    average = made.encoder.table[encoding.ids].mean(0)
    head = made.head.linear
    logits = (head.weight @ average + head.bias) / made.settings["temperature"]
    (answer,) = firth.load(tmp_path / "out", threads=1).predict([text])
    assert [*answer.probabilities.values()] == pytest.approx(logits.softmax(0).tolist(), abs=1e-5)


@pytest.mark.parametrize("task", ["regress", "tag"])
def test_numbers_and_spans(task: str, place: Path, tmp_path: Path) -> None:
    """A number at the end of a text, a tag for each of its words."""
    tuned(place, tmp_path / "out", task, bidirectional=True)
    (answer,) = firth.load(tmp_path / "out", threads=1).predict([TEXTS[0]])
    if task == "regress":
        assert isinstance(answer.value, float)
        return
    assert all(TEXTS[0][span.start : span.end] == span.text for span in answer.spans)
    ended = run("evaluate", tmp_path / "out", "--data", place / "spans.jsonl", "--threads", 1)
    assert ended.code == 0, ended.err


def test_pairs_are_parted(place: Path, tmp_path: Path) -> None:
    made = tuned(place, tmp_path / "out", train=place / "pairs.jsonl")
    assert made.tokenizer.separates_pairs
    model = firth.load(tmp_path / "out", threads=1)
    one, other = model.predict([("the pan", "kettle"), ("the", "pan kettle")])
    assert one.probabilities != other.probabilities


def test_texts_of_any_length_are_read(place: Path, tmp_path: Path) -> None:
    """With --length a text is read in windows, as of any encoder."""
    made = tuned(place, tmp_path / "out")
    assert "length" not in made.settings
    long = "the pan is late " * 700
    assert firth.load(tmp_path / "out", threads=1).predict([long])[0].truncated_tokens == 0
    made = tuned(place, tmp_path / "short", length=8, long="slide")
    assert made.length == 8


def test_each_fold_has_a_vocabulary_of_its_own(place: Path, tmp_path: Path) -> None:
    """What is held out has no say in which words are known; seeds draw other weights."""
    train = place / "classes.jsonl"
    folds = firth.finetune("classify", "rnn", train, tmp_path / "folds", folds=2, **SMALL)
    assert sorted(folds.each) == ["fold-1", "fold-2"]
    seeds = firth.finetune("classify", "mean", train, tmp_path / "seeds", seeds=2, **SMALL)
    assert sorted(seeds.each) == ["seed-3", "seed-4"]
    whole = load(tmp_path / "folds").tokenizer
    assert whole.id("kettle") is not None


def test_new_weights_are_the_seeds(place: Path, tmp_path: Path) -> None:
    """The same call makes the same bits, whatever was drawn before."""
    states = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        torch.manual_seed(len(states))
        made = tuned(place, tmp_path / name, rate=1e-30, seed=seed)
        states.append(layers(made))
    assert all(equal(states[0], states[1]))
    assert not all(equal(states[0], states[2]))
    train = place / "classes.jsonl"
    options = {**SMALL, "rate": 1e-30, "resume": True}
    with pytest.raises(InputError, match="model= had other content"):
        firth.finetune("classify", "mean", train, tmp_path / "a", dev=train, **options)


def test_a_killed_run_ends_with_the_same_bits(place: Path, tmp_path: Path) -> None:
    train = place / "classes.jsonl"
    options: dict[str, Any] = {**SMALL, "steps": 8, "save_every": 2, "bidirectional": True}
    options |= {"vectors": str(place / "vectors"), "dropout": 0.3}
    words = ("finetune", "classify", "--model", "rnn", "--train", train, "--set", "width=16")
    words += ("--steps", 8, "--save-every", 2, "--bidirectional", "--vectors", place / "vectors")
    words += ("--dropout", 0.3, "--batch", 4, "--threads", 1, "--seed", 3)
    killed = spawn(*words, "-o", tmp_path / "out", FIRTH_FAILPOINT="before-manifest:3")
    assert killed.code == -signal.SIGKILL, killed.err
    assert not (tmp_path / "out").exists()
    changed = options | {"vectors": str(place / "lm")}
    with pytest.raises(InputError, match="vectors= had other content"):
        firth.finetune("classify", "rnn", train, tmp_path / "out", resume=True, **changed)
    other = options | {"workers": 0, "save_every": 3}  # on which no bit depends
    firth.finetune("classify", "rnn", train, tmp_path / "out", resume=True, **other)
    firth.finetune("classify", "rnn", train, tmp_path / "whole", **options)
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        one, other = ((tmp_path / run_ / name).read_bytes() for run_ in ("out", "whole"))
        assert one == other, name


REFUSED: list[tuple[tuple[str, ...], str]] = [
    (("rnn", "--freeze"), "--freeze is for the word vectors of --vectors"),
    (("rnn", "--features", "-1"), "a new rnn has learned nothing yet: leave --features out"),
    (("rnn", "--top", "1"), "a new rnn has learned nothing yet: leave --top out"),
    (("mean", "--cell", "gru"), "--cell is for a new rnn, not for mean"),
    (("mean", "--bidirectional"), "--bidirectional is for a new rnn, not for mean"),
    (("mean", "--set", "depth=2"), "mean has no setting 'depth'"),
    (("rnn", "--set", "depth=0"), "depth: Input should be greater than 0"),
    (("mean", "--vectors", "v", "--set", "width=9"), "--vectors say how wide they are"),
    (("rnn", "--vectors", "v", "--vocab", "w"), "--vectors have a vocabulary of their own"),
    (("rnn", "--vectors", "nowhere"), "there is no model folder 'nowhere'"),
    (("rnn", "--vocab", "nowhere"), "nowhere/tokenizer.json"),
    (("minilm", "--cell", "gru"), "--cell is for a new rnn or mean, not for minilm"),
    (("minilm", "--bidirectional"), "--bidirectional is for a new rnn or mean"),
    (("minilm", "--vectors", "v"), "--vectors is for a new rnn or mean, not for minilm"),
    (("minilm", "--freeze"), "--freeze is for a new rnn or mean, not for minilm"),
    (("minilm", "--vocab", "v"), "--vocab is for a new rnn or mean, not for minilm"),
    (("minilm", "--set", "depth=2"), "--set depth is for a new rnn or mean, not for minilm"),
    (("ffnn",), "there is no model folder 'ffnn'"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED)
def test_what_does_not_fit_is_refused(
    words: tuple[str, ...], said: str, place: Path, tmp_path: Path
) -> None:
    train = place / "classes.jsonl"
    out = tmp_path / "out"
    ended = run("finetune", "classify", "--model", *words, "--train", train, "-o", out)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert not out.exists()


def test_states_of_a_language_model_are_features(place: Path, tmp_path: Path) -> None:
    """`firth embed` gives a word the state after it, and a text the mean."""
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS[:3]) + "\n")
    ended = run("embed", place / "lm", texts, "--pool", "words", "--threads", 1)
    assert ended.code == 0, ended.err
    rows = [json.loads(line) for line in ended.out.splitlines()]
    bundle = load(place / "lm")
    ids = bundle.tokenizer.encode([TEXTS[0]])[0].ids
    state = bundle.language.start(1)
    memory = []
    for word in (bundle.language.settings.start, *ids[1:]):
        _, state = bundle.language.step(torch.tensor([word]), state)
        memory.append(state.ahead[-1, 0, 0])  # what the top layer gives
    vectors = [span["vector"] for span in rows[0]["spans"]]
    assert np.allclose(vectors, torch.stack(memory[1:-1]).numpy(), atol=1e-5)
    whole = firth.load(place / "lm", threads=1).embed(TEXTS[:1])
    assert np.allclose(whole[0], torch.stack(memory).mean(0).numpy(), atol=1e-5)
