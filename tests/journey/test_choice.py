"""Multiple choice from a file to answers, as a person types it."""

import csv
import json
import random
from pathlib import Path

import pytest
import torch

import firth
from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.text.tokenizer import Tokenizer
from tests.journey.command import run

CITIES = ("Lund", "Rome", "Oslo", "Bern")
CONTEXTS = ("We went to {} by train.", "My sister lives in {}.", "In {} it rained all day.")
SMALL = ("--threads", "1", "--seed", "2")


def rows(count: int, seed: int) -> list[dict[str, object]]:
    """Contexts that name a city, and options of which one names it too."""
    draw = random.Random(seed)
    found = []
    for number in range(count):
        chosen = draw.sample(CITIES, draw.choice((2, 3, 4)))
        right = draw.randrange(len(chosen))
        context = f"{draw.choice(CONTEXTS).format(chosen[right])} {number}"
        choices = [f"It was {city}." for city in chosen]
        found.append({"context": context, "choices": choices, "label": right})
    return found


def write(path: Path, found: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small base, examples, and the model that was taught with them."""
    place = tmp_path_factory.mktemp("choice")
    train = rows(300, 1)
    texts = [f"{row['context']} {' '.join(row['choices'])}" for row in train]
    words = Tokenizer.train(texts, size=300)
    torch.manual_seed(5)
    sizes = {"width": 64, "depth": 2, "heads": 4, "inner": 128, "length": 40}
    encoder = Bert(BertSettings(vocab=words.size, dropout=0.0, spread=0.1, **sizes))
    save(Bundle(encoder.eval(), words), place / "base")
    write(place / "train.jsonl", train)
    write(place / "dev.jsonl", rows(200, 2))
    given = ("--model", place / "base", "--train", place / "train.jsonl")
    ended = run(
        *("finetune", "choice", *given, "--dev", place / "dev.jsonl", "-o", place / "model"),
        *("--epochs", "10", "--rate", "5e-3", "--batch", "16", "--dropout", "0", *SMALL),
    )
    assert ended.code == 0, ended.err
    assert "accuracy" in ended.out
    assert "chance" in ended.out
    return place


def test_what_names_the_city_is_learned(folder: Path) -> None:
    ended = run("evaluate", folder / "model", folder / "dev.jsonl", "--json", "--threads", "1")
    assert ended.code == 0, ended.err
    page = json.loads(ended.out)
    assert page["examples"] == 200
    assert page["metrics"]["accuracy"] > 0.95
    assert 0.3 < page["metrics"]["chance"] < 0.4
    assert page["models"][0]["confidence"]["calibration_error"] < 0.1
    settings = json.loads((folder / "model/firth.json").read_text())["settings"]
    assert settings["temperature"] > 0


def test_check_knows_the_columns(folder: Path, tmp_path: Path) -> None:
    bad = {"context": "In Lund.", "choices": ["It was Lund."], "label": 0}
    path = write(tmp_path / "bad.jsonl", [*rows(5, 3), bad])
    ended = run("check", path, "--dev", folder / "dev.jsonl", "--model", folder / "model")
    assert "; choice, 2 to 4 options a row, " in ended.out
    assert f"error: {path}:6 has one option, where there must be two or more" in ended.out
    assert "1 error" in ended.out
    ended = run("finetune", "choice", "--model", folder / "base", "--train", path, "-o", "x")
    assert ended.code == 2
    assert f"{path}:6 has one option" in ended.err


def test_answers_stand_beside_their_rows(folder: Path, tmp_path: Path) -> None:
    asked = rows(6, 4)
    for row in asked[:3]:
        del row["label"]
    path = write(tmp_path / "asked.jsonl", asked)
    lines = run("predict", folder / "model", path, "--json", "--threads", "1")
    assert lines.code == 0, lines.err
    pages = [json.loads(line) for line in lines.out.splitlines()]
    assert [page["context"] for page in pages] == [row["context"] for row in asked]
    assert all(page["chosen"] == page["choices"][page["choice"]] for page in pages)
    assert all(page["truncated_tokens"] == 0 for page in pages)
    piped = run("predict", folder / "model", "--json", stdin=path.read_bytes())
    assert piped.out == lines.out
    target = tmp_path / "answers.csv"
    ended = run("predict", folder / "model", path, "-o", target, "--threads", "1")
    assert ended.code == 0, ended.err
    with target.open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [int(row["predicted_choice"]) for row in table] == [page["choice"] for page in pages]
    assert [row["chosen"] for row in table] == [page["chosen"] for page in pages]
    assert json.loads(table[0]["probabilities"]) == pytest.approx(pages[0]["probabilities"])
    ended = run("predict", folder / "model", path, "-o", tmp_path / "answers.jsonl")
    assert ended.code == 0, ended.err
    first = json.loads((tmp_path / "answers.jsonl").read_text().splitlines()[0])
    assert first["predicted_choice"] == first["choice"] == pages[0]["choice"]


def test_swags_csv_is_answered_with_its_columns(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "swag.csv"
    path.write_text(
        ",startphrase,sent1,sent2,ending0,ending1,label\n"
        "0,We went to Rome. It,We went to Rome.,It was,Oslo.,Rome.,1\n"
    )
    ended = run("predict", folder / "model", path, "--json", "--text", "sent1", "--second", "x")
    assert ended.code == 2
    ended = run("predict", folder / "model", path, "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["choices"] == ["It was Oslo.", "It was Rome."]
    assert "is read with --text sent1 --second ending0,ending1" in ended.err


def test_one_question_of_the_command_line_and_in_python(folder: Path) -> None:
    words = ("--context", "My sister lives in Oslo.", "--choice", "It was Bern.")
    ended = run("predict", folder / "model", *words, "--choice", "It was Oslo.", "--json")
    assert ended.code == 0, ended.err
    page = json.loads(ended.out)
    assert page["chosen"] == "It was Oslo."
    line = run("predict", folder / "model", *words, "--choice", "It was Oslo.").out
    assert line.endswith("%  1  It was Oslo.\n")
    answer = firth.load(folder / "model").choose(
        "My sister lives in Oslo.", ["It was Bern.", "It was Oslo."]
    )
    assert isinstance(answer, firth.Choice)
    assert answer.choice == page["choice"] == 1
    for more, said in [
        (words, "the question has one option"),
        (words[:2], "--context goes with a --question, or with a --choice"),
        ((*words, "--question", "Where?"), "put the question into --context"),
        ((*words[2:], "--choice", "a"), "--choice goes with a --context"),
        ((*words, "--choice", "It was Bern."), "twice"),
        ((*words, "--choice", "a", "--pair", "b"), "--pair is not for one --choice"),
        (("some text", *words, "--choice", "a"), "--choice is asked alone, and 'some text'"),
        (("two words",), "to choose from (--context with a --choice for each asks one"),
    ]:
        ended = run("predict", folder / "model", *more)
        assert ended.code == 2, ended
        assert said in ended.err
    ended = run("predict", folder / "base", *words, "--choice", "a")
    assert ended.code == 2
    assert "--choice is not for" in ended.err


def test_long_contexts(folder: Path, tmp_path: Path) -> None:
    context = "It rained all day. " * 20 + "We went to Rome by train."
    asked = {"context": context, "choices": ["It was Lund.", "It was Rome."], "label": 1}
    path = write(tmp_path / "long.jsonl", [asked])
    ended = run("predict", folder / "model", path, "--json")
    page = json.loads(ended.out)
    assert page["chosen"] == "It was Rome."  # the end of the context is what is kept
    assert page["truncated_tokens"] > 100
    assert "1 of 1 texts were longer than the model reads and were cut" in ended.err
    ended = run("predict", folder / "model", path, "--json", "--long", "slide")
    assert json.loads(ended.out)["truncated_tokens"] == 0
    ended = run("predict", folder / "model", path, "--long", "error")
    assert ended.code == 2
    assert f"{path}:1: " in ended.err


def test_rows_larger_than_the_budget_are_said(folder: Path, tmp_path: Path) -> None:
    given = ("--model", folder / "model", "--train", folder / "dev.jsonl")
    ended = run(
        *("finetune", "choice", *given, "--dev", folder / "dev.jsonl", "-o", tmp_path / "out"),
        *("--steps", "1", "--micro", "40", *SMALL),
    )
    assert ended.code == 0, ended.err
    assert "examples of more than 40 tokens in all their rows are computed whole" in ended.err
