"""Questions on contexts at the command line: check, finetune, predict, evaluate."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.text.tokenizer import Tokenizer
from tests.journey.command import Ended, run
from tests.journey.small import small_model

TOWNS = ["Lund", "Ystad", "Malmö", "Kivik", "Hörby", "Eslöv"]
NAMES = ["Åsa", "Per", "Nils", "Karin", "Elin", "Gustav"]


def published(towns: list[str], unanswerable: bool = True) -> dict[str, Any]:
    """Questions on people and towns, as SQuAD 2.0 has them."""
    paragraphs = []
    for number, town in enumerate(towns):
        name = NAMES[number % len(NAMES)]
        context = f"{name} lives in {town}. The shop in {town} opens at nine."
        questions: list[dict[str, Any]] = [
            {
                "id": f"{number}a",
                "question": f"Where does {name} live?",
                "answers": [{"text": town, "answer_start": context.index(town)}],
            },
            {
                "id": f"{number}b",
                "question": "When does the shop open?",
                "answers": [{"text": "nine", "answer_start": context.index("nine")}],
            },
        ]
        if unanswerable:
            questions.append({"id": f"{number}c", "question": "Who sings?", "answers": []})
        paragraphs.append({"context": context, "qas": questions})
    return {"version": "v2.0", "data": [{"title": "towns", "paragraphs": paragraphs}]}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files to learn from, a small encoder, and a model that has learned."""
    folder = tmp_path_factory.mktemp("squad")
    train = json.dumps(published(TOWNS))
    (folder / "train.json.gz").write_bytes(gzip.compress(train.encode()))
    (folder / "dev.json").write_text(json.dumps(published(TOWNS[:3])))
    (folder / "all.json").write_text(json.dumps(published(TOWNS[:3], unanswerable=False)))
    words = Tokenizer.train([train] * 3, size=300)
    torch.manual_seed(1)
    sizes = {"vocab": words.size, "width": 32, "depth": 2, "heads": 2, "inner": 64}
    encoder = Bert(BertSettings(**sizes, length=64, spread=0.2, pooler=False)).eval()
    save(Bundle(encoder, words), folder / "base")
    small_model(folder / "tagger", "tag", words, ("O", "B-x", "I-x"))
    ended = finetune(folder, "model", "--steps", 120, "--rate", "5e-3", "--tune-no-answer")
    assert ended.code == 0, ended.err
    return folder


def finetune(folder: Path, out: str, *more: object, dev: str = "dev.json") -> Ended:
    words = ["finetune", "answer", "--model", folder / "base", "--train", folder / "train.json.gz"]
    words += ["--dev", folder / dev, "-o", folder / out, "--threads", 1, "--batch", 6]
    return run(*words, *more, "--json")


QUESTION = ("--question", "Where does Åsa live?", "--context", "Åsa lives in Lund. It rains.")


@pytest.mark.usefixtures("one_thread")
def test_one_question(place: Path) -> None:
    ended = run("predict", place / "model", *QUESTION)
    assert (ended.code, ended.err) == (0, "")
    share, _, said = ended.out.strip().partition("  ")
    assert share.endswith("%")
    assert said == "Lund"
    ended = run("predict", place / "model", *QUESTION, "--json", "--top", 2)
    page = json.loads(ended.out)
    keys = ["question", "context", "answer", "start", "end", "probability"]
    keys += ["no_answer_probability", "truncated_tokens", "candidates"]
    assert set(page) == set(keys)
    assert (page["answer"], page["start"], page["end"]) == ("Lund", 13, 17)
    assert page["question"] == QUESTION[1]
    assert len(page["candidates"]) == 2
    assert page["candidates"][0] == {
        key: page[key] for key in ("answer", "start", "end", "probability")
    }
    ended = run("predict", place / "model", *QUESTION, "--top", 3)
    assert len(ended.out.splitlines()) == 4
    ended = run(
        "predict", place / "model", "--question", "Who sings?", "--context", "Per lives in Lund."
    )
    assert ended.out.endswith("%  no answer\n")


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_file_of_questions(place: Path, ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"answers.{ending}"
    ended = run("predict", place / "model", place / "dev.json", "-o", out)
    assert ended.code == 0, ended.err
    if ending == "jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        assert [row["id"] for row in rows] == [f"{n}{part}" for n in range(3) for part in "abc"]
        assert rows[0]["answer"] == rows[0]["predicted_answer"] == "Lund"
        assert rows[0]["answers"] == [{"text": "Lund", "answer_start": 13}]
        assert rows[2]["answer"] is None
        assert rows[0]["context"][rows[0]["start"] : rows[0]["end"]] == "Lund"
    elif ending == "csv":
        lines = out.read_text().splitlines()
        assert lines[0] == (
            "id,question,context,answers,predicted_answer,predicted_start,predicted_end,"
            "probability,no_answer_probability"
        )
        assert ",Lund,13,17,0.9" in lines[1]
    plain = tmp_path / "questions.jsonl"
    plain.write_text(json.dumps({"question": QUESTION[1], "context": QUESTION[3]}) + "\n")
    ended = run("predict", place / "model", plain, "--json")
    assert json.loads(ended.out)["answer"] == "Lund"
    ended = run("predict", place / "model", "-", "--json", stdin=plain.read_bytes())
    assert json.loads(ended.out)["answer"] == "Lund", ended.err


@pytest.mark.usefixtures("one_thread")
def test_evaluate(place: Path) -> None:
    ended = run("evaluate", place / "model", place / "dev.json", "--json")
    assert ended.code == 0, ended.err
    page = json.loads(ended.out)
    assert set(page["metrics"]) == {
        "exact",
        "f1",
        "has_answer_exact",
        "has_answer_f1",
        "no_answer_accuracy",
    }
    assert page["metrics"]["f1"] > 0.8
    assert page["examples"] == 9
    interval = page["models"][0]["metrics"]["f1"]
    assert interval["low"] <= interval["value"] <= interval["high"]
    ended = run("evaluate", place / "model", place / "model", "--data", place / "all.json")
    assert ended.code == 0, ended.err
    assert "no answer" not in ended.out
    assert "against" in ended.out
    ended = run("evaluate", place / "model", place / "dev.json")
    assert "no answer accuracy" in ended.out
    ended = run("evaluate", place / "tagger", place / "dev.json")
    assert ended.code == 2


@pytest.mark.usefixtures("one_thread")
def test_what_the_folder_remembers(place: Path) -> None:
    record = json.loads((place / "model/firth.json").read_text())
    assert record["task"] == "answer"
    assert record["settings"]["long"] == "slide"
    assert record["settings"]["stride"] == 128
    assert isinstance(record["settings"]["answer_margin"], float)
    assert record["settings"]["pairs"] is True
    assert record["columns"] == {"text": ["question"], "second": ["context"], "label": "answers"}
    config = json.loads((place / "model/config.json").read_text())
    assert config["architectures"] == ["BertForQuestionAnswering"]


@pytest.mark.usefixtures("one_thread")
def test_check(place: Path, tmp_path: Path) -> None:
    ended = run("check", place / "train.json.gz", "--task", "answer", "--dev", place / "dev.json")
    assert "squad, 18 rows; answer, 12 answerable and 6 unanswerable questions on 6 contexts" in (
        ended.out
    )
    assert "contexts that" in ended.out
    assert "has the text of" in ended.out
    bad = tmp_path / "bad.json"
    bad.write_text(
        (place / "dev.json").read_text().replace('"answer_start": 12', '"answer_start": 2')
    )
    bad.write_text(bad.read_text().replace('"answer_start": 13', '"answer_start": 3'))
    ended = run("check", bad, "--json")
    assert ended.code == 2, ended.out
    page = json.loads(ended.out)
    assert page["files"][0]["task"] == "answer"
    assert page["files"][0]["rejected"] == page["errors"] >= 1
    ended = run("check", place / "dev.json", "--model", place / "model")
    assert ended.code == 0, ended.out + ended.err


@pytest.mark.usefixtures("one_thread")
def test_a_row_that_cant_be_answered_is_named_by_file_and_line(place: Path, tmp_path: Path) -> None:
    rows = [
        {"question": QUESTION[1], "context": QUESTION[3]},
        {"question": "Who?", "context": QUESTION[3] * 40},
    ]
    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    ended = run("predict", place / "model", asked, "--long", "error")
    assert ended.code == 2
    assert ended.err.startswith(f"firth: {asked}:2: "), ended.err
    assert ended.err.count("\n") == 1
    ended = run("predict", place / "model", "-", "--long", "error", stdin=asked.read_bytes())
    assert ended.code == 2
    assert ended.err.startswith("firth: standard input:2: "), ended.err


def test_answers_as_json_in_a_table(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["question", "context", "answers"])
        answers = json.dumps([{"text": "Lund", "start": 13}])
        out.writerow([QUESTION[1], QUESTION[3], answers])
        out.writerow(["Who sings?", QUESTION[3], "[]"])
    ended = run("check", table)
    assert (
        "csv, 2 rows; answer, 1 answerable and 1 unanswerable questions on 1 contexts" in ended.out
    )
    table.write_text(table.read_text().replace("13", "12"))
    ended = run("check", table)
    assert (ended.code, "table.csv:2 has the answer 'Lund' at 12" in ended.out) == (2, True)


def test_refusals(place: Path, tmp_path: Path) -> None:
    """Each is one sentence, before a model is loaded or trained."""
    model = place / "model"
    for words, said in [
        ((model, "--question", "Who?"), "--question and --context go together"),
        ((model, "--context", "Per."), "--context goes with a --question"),
        ((model, place / "dev.json", *QUESTION), "--question is asked alone"),
        ((model, *QUESTION, "--score"), "--score is not for one --question"),
        ((model, *QUESTION, "--text", "a"), "--text is not for one --question"),
        ((place / "tagger", *QUESTION), "which has a head for named spans"),
        ((model, "--question", " ", "--context", "Per."), "--question is empty"),
        ((model, "--question", "Who?", "--context", ""), "--context is empty"),
        ((place / "base", *QUESTION), "--question is not for"),
        ((model, "Who is it?"), "with one (--question with --context asks one)"),
        ((model, *QUESTION, "--top", "0"), "--top"),
    ]:
        ended = run("predict", *words)
        assert ended.code == 2, words
        assert said in ended.err
        assert ended.err.count("\n") == 1, ended.err
    base = ["finetune", "--model", place / "base", "--train", place / "all.json"]
    out = ["-o", tmp_path / "out"]
    for words, said in [
        (["answer", "--tune-no-answer", "--dev", place / "all.json"], "has none; leave it out"),
        (["answer", "--tune-no-answer"], "has none; leave it out"),
        (["answer", "--stride", "0"], "--stride"),
        (["answer", "--stride", "40", "--length", "64"], "more than half of --length 64"),
        (["tag", "--stride", "8"], "--stride is for questions on contexts"),
        (["classify", "--tune-no-answer"], "--tune-no-answer is for questions on contexts"),
        (["answer", "--balance"], "--balance is for classes"),
        (["answer", "--select", "accuracy"], "there are: f1, exact"),
    ]:
        ended = run(*base, *out, *words)
        assert ended.code == 2, (words, ended.err)
        assert said in ended.err
    nothing = tmp_path / "nothing.jsonl"
    nothing.write_text(json.dumps({"question": "a", "context": "b", "answers": []}) + "\n")
    ended = run("finetune", "answer", "--model", place / "base", "--train", nothing, *out)
    assert ended.code == 2
    assert "has no answer in any row" in ended.err


@pytest.mark.usefixtures("one_thread")
def test_long_contexts_slide_unless_told_otherwise(place: Path) -> None:
    context = "It rains in Kivik. " * 40 + QUESTION[3]
    words = ("predict", place / "model", "--question", QUESTION[1], "--context", context, "--json")
    page = json.loads(run(*words).out)
    assert page["truncated_tokens"] == 0
    ended = run(*words, "--long", "cut")
    assert json.loads(ended.out)["truncated_tokens"] > 100
    assert "tokens unseen (--long slide reads them all)" in ended.err
    ended = run(*words, "--long", "error")
    assert ended.code == 2
    assert "--long cut or --long slide" in ended.err


def test_folds_and_seeds(place: Path) -> None:
    ended = finetune_folds(place)
    assert ended.code == 0, ended.err
    page = json.loads(ended.out)
    assert {"fold-1", "fold-2"} == set(page["each"])
    settings = json.loads((place / "folds/firth.json").read_text())["settings"]
    assert isinstance(settings["answer_margin"], float)


def finetune_folds(place: Path) -> Ended:
    words = ["finetune", "answer", "--model", place / "base", "--train", place / "train.json.gz"]
    words += ["-o", place / "folds", "--folds", 2, "--steps", 4, "--threads", 1]
    return run(*words, "--tune-no-answer", "--json")
