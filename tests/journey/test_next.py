"""A pretrained BERT on pairs of texts, and measured on plain text; pairs and tasks that no model can read."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from firth import evaluate, load
from firth.corpus.mask import Masker
from firth.corpus.pairs import DEV_SEED, SPECIAL, Pairs, passages
from firth.corpus.shards import open_shards
from firth.data.feed import evenly_spread
from firth.evaluation import masked
from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.gpt import Gpt, GptSettings
from firth.recipes.objectives import MaskedObjective
from firth.text.tokenizer import Tokenizer
from firth.train.evaluate import evaluate_learner
from firth.train.learner import Learner
from firth.train.processes import Processes
from tests.journey.command import run
from tests.journey.small import small_model

EARLIER = Path(__file__).parents[1] / "earlier"
BERT = EARLIER / "bert"  # of pretraining with next sentences
FIRST, SECOND = "The kettle broke.", "It was new."
BLANK = "The [MASK] broke."

pytestmark = pytest.mark.usefixtures("one_thread")


def answered(*words: object) -> list[dict[str, Any]]:
    """Return what `predict --json` prints."""
    ended = run("predict", *words, "--json")
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]


def refused(*words: object) -> str:
    """Return the one line with which a command refuses."""
    ended = run(*words)
    assert (ended.code, ended.out) == (2, ""), ended
    (line,) = ended.err.splitlines()
    return line


@pytest.fixture(scope="module")
def words() -> Tokenizer:
    return Tokenizer.open(BERT)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of some sentences, parted by blank lines."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    things = ("kettle", "pan", "lamp", "chair", "door")
    documents = [
        f"The {one} broke. I sent the {one} back. It was new {number} days ago."
        for number, one in enumerate(things * 6)
    ]
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path


# Pairs


def test_a_pair_is_the_next_or_not() -> None:
    (found,) = answered(BERT, FIRST, "--pair", SECOND)
    assert list(found) == [
        "text",
        "second",
        "blanks",
        "next",
        "next_probability",
        "truncated_tokens",
    ]
    assert (found["text"], found["second"], found["blanks"]) == (FIRST, SECOND, [])
    assert found["next"] == (found["next_probability"] >= 0.5)
    said, share = ("next", found["next_probability"])
    if not found["next"]:
        said, share = ("not next", 1 - share)
    assert run("predict", BERT, FIRST, "--pair", SECOND).out == f"{share:7.2%}  {said}\n"
    assert answered(BERT, "Hello", "--pair", "Thanks")[0]["second"] == "Thanks"  # of one word each


def test_blanks_of_a_pair_are_filled_too() -> None:
    (found,) = answered(BERT, BLANK, "--pair", "It was [MASK].", "--top", 2)
    places = [(one["field"], one["start"], one["end"]) for one in found["blanks"]]
    assert places == [("text", 4, 10), ("second", 7, 13)]
    assert [len(one["choices"]) for one in found["blanks"]] == [2, 2]
    shown = run("predict", BERT, BLANK, "--pair", "It was [MASK].", "--top", 2).out.splitlines()
    assert (shown[0], shown[1], shown[4], shown[5]) == (
        BLANK,
        "  characters 4-10",
        "It was [MASK].",
        "  characters 7-13",
    )
    assert shown[8].endswith("next")
    assert "field" not in answered(BERT, BLANK)[0]["blanks"][0]  # of a single text


def test_every_way_in_gives_the_same(tmp_path: Path) -> None:
    pairs = [(FIRST, SECOND), (BLANK, SECOND), (SECOND, "[MASK]")]
    table = tmp_path / "pairs.csv"
    table.write_text("a,b\n" + "".join(f"{one},{other}\n" for one, other in pairs))
    options = ("--text", "a", "--second", "b")
    found = answered(BERT, table, *options)
    for (text, second), one in zip(pairs, found, strict=True):
        (alone,) = answered(BERT, text, "--pair", second)
        assert alone["next_probability"] == pytest.approx(one["next_probability"], abs=1e-6)
    answers = load(BERT, threads=1).predict([BLANK, *pairs])  # single texts and pairs at once
    assert [one.as_json().get("next") for one in answers] == [None, *(one["next"] for one in found)]

    ended = run("predict", BERT, table, *options, "-o", tmp_path / "answers.csv")
    assert ended.code == 0, ended.err
    lines = (tmp_path / "answers.csv").read_text().splitlines()
    assert lines[0] == "a,b,blanks,next,next_probability"
    probability = f"{found[0]['next_probability']:.4f}"
    assert lines[1].startswith(f"{FIRST},{SECOND},[],{str(found[0]['next']).lower()},")
    assert f"{float(lines[1].split(',')[-1]):.4f}" == probability


def test_a_long_pair_is_filled_from_end_to_end() -> None:
    long = " ".join(["It was [MASK] and new."] * 12)  # of 40 tokens that are read
    cut, slid = (
        answered(BERT, FIRST, "--pair", long, "--long", how)[0] for how in ("cut", "slide")
    )
    assert cut["truncated_tokens"] > 0
    assert not cut["blanks"][-1]["choices"]
    assert slid["truncated_tokens"] == 0
    assert all(one["choices"] for one in slid["blanks"])
    assert len(slid["blanks"]) == 12


def test_a_model_of_pairs_answers_one(words: Tokenizer, tmp_path: Path) -> None:
    labels = ("yes", "no")
    model = small_model(tmp_path / "pairs", "classify", words, labels, pairs=True)
    (found,) = answered(model, FIRST, "--pair", SECOND)
    (expected,) = load(model, threads=1).predict([(FIRST, SECOND)])
    assert found["label"] == expected.as_json()["label"]
    assert found["second"] == SECOND
    alone = small_model(tmp_path / "single", "classify", words, labels, pairs=False)
    assert "the model learned from single texts" in refused("predict", alone, FIRST, "--pair", "a")


def test_a_second_text_is_refused_where_none_belongs(
    corpus: Path, words: Tokenizer, tmp_path: Path
) -> None:
    def said(model: Path, *options: object) -> str:
        return refused("predict", model, *options, "--pair", SECOND)

    assert said(BERT, FIRST, "--score") == "firth: --pair is not for --score"
    assert said(BERT, FIRST, "--complete") == "firth: --pair is not for --complete"
    cure = "--second names the column of its second texts"
    assert said(BERT, corpus).endswith(f"and '{corpus}' is a file: {cure}")
    assert said(BERT, "-").endswith(f"and standard input is a file: {cure}")
    assert said(EARLIER / "gpt", FIRST) == "firth: --pair is not for continuing a text"
    blanks = small_model(tmp_path / "fill", "fill", words)
    assert said(blanks, FIRST) == (
        "firth: text 1: it is a pair, and this model has no next-sentence head: "
        "it fills the blanks of single texts"
    )


# Plain text


def test_evaluate_gives_the_figures_of_a_dev_set(corpus: Path, tmp_path: Path) -> None:
    bundle = load(BERT, threads=1).bundle
    shards = open_shards(tmp_path, [corpus], bundle.tokenizer)
    room = bundle.encoder.length - SPECIAL
    masker = Masker(bundle.tokenizer)
    where = passages(shards, room)
    feed = Pairs(shards, where, bundle.tokenizer, room, DEV_SEED, masker, follow=True)
    learner = Learner(bundle.encoder, bundle.head, MaskedObjective())
    numbers = evenly_spread(feed, shards.tokens * 2)
    dev = evaluate_learner(learner, feed, numbers, 512, Processes())

    ended = run("evaluate", BERT, corpus, "--json")
    assert ended.code == 0, ended.err
    page = json.loads(ended.out)
    for name in ("masked_accuracy", "masked_perplexity", "next_accuracy"):
        assert page["metrics"][name] == pytest.approx(dev[name], rel=1e-5)
    (model,) = page["models"]
    assert (page["examples"], model["pairs"]) == (len(feed.sizes), len(feed.sizes))
    assert model["masked"] > 0.1 * model["tokens"] > 0
    interval = model["metrics"]["masked_accuracy"]
    assert interval["low"] <= interval["value"] <= interval["high"]
    assert run("evaluate", BERT, corpus, "--json").out == ended.out  # the same every time

    shown = run("evaluate", BERT, "--data", corpus.parent).out.splitlines()  # a folder of texts
    assert shown[0].endswith(f": {len(feed.sizes)} passages, with 95 % intervals")
    assert [line.split()[0] for line in shown[2:5]] == ["masked", "masked", "next"]
    assert run("evaluate", BERT, corpus.parent).out.splitlines() == shown


def test_a_long_text_is_bounded_and_that_is_said(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = evaluate(BERT, corpus, threads=1)
    monkeypatch.setattr(masked, "MOST_TOKENS", 200)
    ended = run("evaluate", BERT, corpus, "--json")
    page = json.loads(ended.out)
    assert 200 / 2 < page["models"][0]["tokens"] < 2 * 200
    assert page["examples"] < whole.examples
    assert "tokens: about 200 are read, in passages spread evenly over it" in ended.err


def test_a_single_document_has_no_pairs(corpus: Path, words: Tokenizer, tmp_path: Path) -> None:
    one = tmp_path / "one.txt"
    one.write_text(corpus.read_text().replace("\n\n", "\n"))
    ended = run("evaluate", BERT, one)
    assert ended.code == 0, ended.err
    assert "is a single document" in ended.err
    assert "next accuracy" not in ended.out
    blanks = small_model(tmp_path / "fill", "fill", words)  # no head for them: nothing is said
    ended = run("evaluate", blanks, one)
    assert (ended.code, ended.err) == (0, "")


def test_masked_models_are_compared_on_the_same_words(corpus: Path, tmp_path: Path) -> None:
    found = evaluate([BERT, BERT], corpus, threads=1)
    assert found.differences[0].metrics["masked_accuracy"].value == 0
    other = tmp_path / "other"
    shutil.copytree(BERT, other)
    record = json.loads((other / "firth.json").read_text())
    record["made"]["settings"]["whole_words"] = True
    (other / "firth.json").write_text(json.dumps(record))
    assert "would not be asked for the same masked words" in refused(
        "evaluate", BERT, other, corpus
    )
    assert "--long is not for models that give" in refused(
        "evaluate", BERT, corpus, "--long", "cut"
    )


# What no model can read


def test_a_pair_without_a_mark_between_is_refused(words: Tokenizer, tmp_path: Path) -> None:
    """GPT-2's own tokenizer has no template, so that two texts would be read as one."""
    torch.manual_seed(1)
    sizes = {"width": 16, "depth": 1, "heads": 2, "inner": 32, "length": 32}
    model = Gpt(GptSettings(vocab=words.size, start=words.cls, end=words.sep, **sizes))
    folder = save(Bundle(model, words, "gpt2", "continue"), tmp_path / "gpt")
    (folder / "firth.json").unlink()  # as transformers leaves it
    page = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(page | {"post_processor": None}))
    table = tmp_path / "pairs.csv"
    rows = [f"{FIRST},{SECOND},{label}" for label in ("yes", "no")] * 4
    table.write_text("\n".join(["text,second,label", *rows]) + "\n")

    mark = "puts no mark between two texts: join them yourself"
    with pytest.raises(ValueError, match=f"text 1: it is a pair, .* {mark}"):
        load(folder, threads=1).embed([(FIRST, SECOND)])
    tune = ("finetune", "classify", "--model", folder, "--train", table, "--dev", table)
    ended = run(*tune, "--second", "second", "-o", tmp_path / "out", "--epochs", 1, "--threads", 1)
    assert ended.code == 0, ended.err
    tuned = load(tmp_path / "out", threads=1)  # parted by the model's own end mark
    (encoding,) = tuned.bundle.tokenizer.encode([FIRST], [SECOND])
    assert encoding.ids[encoding.parts.index(None)] == words.sep
    assert answered(tmp_path / "out", FIRST, "--pair", SECOND)[0]["label"] in ("yes", "no")

    classes = EARLIER / "classify-gpt"
    shutil.copytree(classes, tmp_path / "classes")
    (tmp_path / "classes" / "firth.json").unlink()
    page = json.loads((classes / "tokenizer.json").read_text())
    text = json.dumps(page | {"post_processor": None})
    (tmp_path / "classes" / "tokenizer.json").write_text(text)
    assert mark in refused("predict", tmp_path / "classes", FIRST, "--pair", SECOND)


def test_a_folder_with_a_task_that_is_not_known_is_refused_by_name(
    corpus: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(EARLIER / "classify", folder)
    record = json.loads((folder / "firth.json").read_text())
    record |= {"task": "summarise", "head": {"labels": [], "tied": True}}
    (folder / "firth.json").write_text(json.dumps(record))
    table = tmp_path / "rows.csv"
    table.write_text("text,label\n" + "a b,yes\nc d,no\n" * 4)
    tune = ("finetune", "classify", "--model", folder, "--train", table, "-o", tmp_path / "out")
    for words in (
        ("predict", folder, FIRST),
        ("evaluate", folder, table),
        ("embed", folder, corpus),
        tune,
    ):
        line = run(*words).err.splitlines()[-1]
        assert (
            line
            == f"firth: {folder / 'firth.json'}: the task 'summarise' is none that Firth knows here; "
            "a plugin may bring it: --plugin FILE"
        )
