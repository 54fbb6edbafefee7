"""Span corruption as a person types it: an encoder-decoder is pretrained, then trained on pairs."""

import json
from pathlib import Path

import pytest

import firth
from firth.folders.read import load
from tests.journey.small import NARROW
from tests.journey.test_pretrain import refused
from tests.journey.test_translate import rows, write
from tests.journey.warm import Warm

SMALL = (*NARROW, "--dtype", "fp32", "--threads", 1, "--batch", 700)


@pytest.fixture(scope="module")
def base(corpus: Path, warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Transformer that learned its own vocabulary, and has seen little text."""
    out = tmp_path_factory.mktemp("base") / "base"
    given = ("--model", "transformer", *SMALL)
    ended = warm.run("pretrain", corpus, "-o", out, *given, "--steps", 3)
    assert ended.code == 0, ended.err
    return out


def test_the_vocabulary_has_its_sentinels_after_the_end_mark(base: Path) -> None:
    bundle = load(base)
    tokenizer = bundle.tokenizer
    assert tokenizer.sep is not None
    assert bundle.kind == "translate"
    assert tokenizer.kind == "bytes"
    assert tokenizer.sentinels == tuple(range(tokenizer.sep + 1, tokenizer.sep + 33))
    assert bundle.translator.first == tokenizer.sep
    records = [json.loads(line) for line in (base / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records if "loss" in record] == [1, 2, 3]
    made = json.loads((base / "firth.json").read_text())["made"]
    assert made["dev"]["perplexity"] > 1
    assert made["baseline"]["perplexity"] > 1


def test_it_says_that_it_writes_spans(base: Path, warm: Warm, tmp_path: Path) -> None:
    """Once a call, until it is trained on pairs, as is advised."""
    said = "note: this model was pretrained and not trained on pairs yet"
    texts = tmp_path / "texts.txt"
    texts.write_text("A page.\nAnother page.\n")
    page = ("view", base, "A page.", "-o", tmp_path / "page.html")
    for words in (("predict", base, texts, "--beam", 1, "--tokens", 3), page):
        ended = warm.run(*words)
        assert ended.code == 0, ended.err
        assert ended.err.count(said) == 1
    assert "firth finetune translate --model FOLDER --train PAIRS -o OUT" in ended.err
    with pytest.warns(firth.FirthWarning, match="not trained on pairs yet"):
        firth.load(base, threads=1).translate(["A page."], beam=1)
    train = write(tmp_path / "train.jsonl", rows(20, 1))
    given = ("--train", train, "--dev", train, "--steps", 1, "--threads", 1, "--workers", 0)
    ended = warm.run("finetune", "translate", "--model", base, *given, "-o", tmp_path / "out")
    assert ended.code == 0, ended.err
    again = warm.run("predict", tmp_path / "out", texts, "--beam", 1, "--tokens", 3)
    assert again.code == 0, again.err
    assert said not in ended.err + again.err


def test_training_on_pairs_goes_on_from_it(base: Path, warm: Warm, tmp_path: Path) -> None:
    train = write(tmp_path / "train.jsonl", rows(100, 1))
    words = ("finetune", "translate", "--model", base, "--train", train, "--dev", train)
    given = ("--steps", 2, "--rate", 1e-9, "--average", 0, "--threads", 1, "--workers", 0)
    ended = warm.run(*words, *given, "-o", tmp_path / "out")
    assert ended.code == 0, ended.err
    before, after = load(base), load(tmp_path / "out")
    assert after.tokenizer.fingerprint == before.tokenizer.fingerprint
    tables = [bundle.network.state_dict()["source.weight"] for bundle in (before, after)]
    assert tables[0].allclose(tables[1], atol=1e-6)
    (found,) = firth.load(tmp_path / "out", threads=1).translate(["Le chat dort ici."])
    assert "extra_id" not in found.translation


def test_pretraining_goes_on(base: Path, corpus: Path, warm: Warm, tmp_path: Path) -> None:
    given = ("--model", "transformer", "--init", base, "--threads", 1, "--batch", 700)
    ended = warm.run("pretrain", corpus, "-o", tmp_path / "on", *given, "--steps", 1)
    assert ended.code == 0, ended.err
    assert load(tmp_path / "on").tokenizer.fingerprint == load(base).tokenizer.fingerprint


@pytest.mark.parametrize("model", ["seq2seq", "attention"])
def test_recurrent_ones_are_pretrained_too(
    model: str, corpus: Path, vocab: Path, warm: Warm, tmp_path: Path
) -> None:
    given = ("--model", model, *SMALL, "--cell", "gru", "--vocab", vocab, "--steps", 2)
    ended = warm.run("pretrain", corpus, "-o", tmp_path / "out", *given)
    assert ended.code == 0, ended.err
    assert f"32 sentinels are added to the vocabulary of {vocab}" in ended.err
    bundle = load(tmp_path / "out")
    assert bundle.translator.settings.cell == "gru"
    assert bundle.tokenizer.sentinels == tuple(range(300, 332))


def test_what_cannot_be_corrupted_is_refused(
    base: Path, corpus: Path, warm: Warm, tmp_path: Path
) -> None:
    words = ("pretrain", "-o", tmp_path / "out", "--steps", 1, "--model", "transformer")
    marked = tmp_path / "marked.txt"
    marked.write_text("A page on <extra_id_3> and what it is.\n\nAnother page.\n\nA third.\n")
    paired = tmp_path / "paired"
    train = write(tmp_path / "train.jsonl", rows(20, 1))
    own = ("--size", "tiny", "--steps", 1, "--threads", 1, "--workers", 0)
    ended = warm.run(
        *("finetune", "translate", "--model", "transformer", "--train", train, "--dev", train),
        *("-o", paired, *own),
    )
    assert ended.code == 0, ended.err
    cases: dict[tuple[object, ...], str] = {
        (corpus, "--init", paired): "has no sentinels (<extra_id_0> ...) after its end mark",
        (corpus, "--length", 1000): "32 sentinels are enough for 6",
        (corpus, "--no-nsp"): "--no-nsp and --whole-words are for bert, not for transformer",
        (corpus, "--cell", "gru"): "--cell is for a new",
        (corpus, "--init", "minilm"): "is a bert, which is not pretrained as transformer",
    }
    for given, said in cases.items():
        refused(warm.run(*words, *given), said)
    refused(warm.run(*words, marked, "--init", base), "holds the sentinel '<extra_id_3>'")
