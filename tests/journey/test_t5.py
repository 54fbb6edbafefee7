"""A T5 that transformers saved: asked, fine-tuned, measured and given back, as a person types it."""

import json
import signal
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

import firth
from tests.journey.command import run, spawn
from tests.journey.test_translate import rows, write
from tests.journey.unigram import t5_tokenizer

SIZES = {"d_model": 32, "d_kv": 12, "d_ff": 64, "num_layers": 2, "num_heads": 4}
ASKED = "translate English to German: The app closes itself."
QUICK = ("--threads", "1", "--workers", "0")


def theirs(folder: Path, text: str, **options: int) -> str:
    """What transformers makes of a text with a folder."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = T5ForConditionalGeneration.from_pretrained(folder).eval()
    (ids,) = model.generate(
        **tokenizer(text, return_tensors="pt"), do_sample=False, max_new_tokens=20, **options
    ).tolist()
    return str(tokenizer.decode(ids, skip_special_tokens=True))


def saved(place: Path, inner: str) -> Path:
    """A T5 with random weights and its own tokenizer, which declares 60 tokens; pairs lie beside it."""
    tokenizer = t5_tokenizer()
    tokenizer.model_max_length = 60
    torch.manual_seed(1)
    config = T5Config(
        **SIZES,
        vocab_size=len(tokenizer) + 4,
        decoder_start_token_id=0,
        feed_forward_proj=inner,
        tie_word_embeddings=inner == "relu",
    )
    model = T5ForConditionalGeneration(config)
    with torch.no_grad():  # else a token that was read is written again and again
        model.decoder.final_layer_norm.weight.normal_()
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    write(place.parent / "train.jsonl", rows(200, 1))
    write(place.parent / "dev.jsonl", rows(30, 2))
    return place


@pytest.fixture(scope="module", params=["relu", "gated-gelu"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("t5") / "theirs", request.param)


def test_texts_are_what_transformers_makes(folder: Path) -> None:
    for width in (1, 4):
        asked = ("predict", folder, ASKED, "--beam", width, "--tokens", "20", "--threads", "1")
        ended = run(*asked, "--json")
        assert ended.code == 0, ended.err
        assert ended.err == ""
        page = json.loads(ended.out)
        known = theirs(folder, ASKED, num_beams=width)
        assert page["translation"] == known
        assert known
        assert run(*asked).out == f"{known}\n"
    ended = run("predict", folder, ASKED, "--align", "--tokens", "20", "--threads", "1")
    assert ended.code == 0, ended.err
    assert " <- " in ended.out


def test_a_text_is_cut_where_the_folder_says(folder: Path, tmp_path: Path) -> None:
    long = "The app closes itself. " * 30
    ended = run("predict", folder, long, "--tokens", "4", "--json", "--threads", "1")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["truncated_tokens"] > 100
    assert "1 of 1 texts were longer than the model reads and were cut" in ended.err
    ended = run("predict", folder, long, "--long", "error", "--threads", "1")
    assert ended.code == 2
    assert "where the model takes 60" in ended.err

    words = ("finetune", "translate", "--model", folder, "--train", folder.parent / "dev.jsonl")
    ended = run(*words, "-o", tmp_path / "on", "--steps", "1", "--length", "700", *QUICK)
    assert ended.code == 0, ended.err
    ended = run("predict", tmp_path / "on", long, "--tokens", "4", "--json", "--threads", "1")
    assert json.loads(ended.out)["truncated_tokens"] == 0


def test_it_is_taught_measured_and_given_back(folder: Path, tmp_path: Path) -> None:
    dev = folder.parent / "dev.jsonl"
    out = tmp_path / "taught"
    given = ("--train", folder.parent / "train.jsonl", "--dev", dev)
    words = ("finetune", "translate", "--model", folder, *given)
    taught = ("--steps", "120", "--rate", "0.01", "--batch", "1000", "--dropout", "0")
    ended = run(*words, "-o", out, *taught, *QUICK, "--json")
    assert ended.code == 0, ended.err
    ended = run("evaluate", out, dev, "--json", "--threads", "1")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["bleu"] > 80
    source, target = rows(30, 2)[0]
    assert firth.load(out, threads=1).translate([source], beam=1)[0].translation == target
    assert theirs(out, source) == target


def test_a_killed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    folder = saved(tmp_path / "theirs", "gated-gelu")
    pairs = tmp_path / "dev.jsonl"
    given = ("--train", pairs, "--dev", pairs, "--steps", "6", "--batch", "200")
    more = ("--save-every", "2", "--dropout", "0.2", "--average", "0.5")
    words = ("finetune", "translate", "--model", folder, *given, *more, *QUICK)

    def sums(name: str) -> str:
        return sha256((tmp_path / name / "model.safetensors").read_bytes()).hexdigest()

    ended = run(*words, "-o", tmp_path / "peace")
    assert ended.code == 0, ended.err
    killed = spawn(*words, "-o", tmp_path / "killed", FIRTH_FAILPOINT="before-rename:2")
    assert killed.code == -signal.SIGKILL
    ended = run(*words, "-o", tmp_path / "killed", "--resume")
    assert ended.code == 0, ended.err
    assert "going on from step" in ended.err
    assert sums("killed") == sums("peace")
