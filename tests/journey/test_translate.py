"""Text to text from files to translations, as a person types it."""

import csv
import json
import random
import signal
from hashlib import sha256
from pathlib import Path

import pytest

import firth
from tests.journey.command import run, spawn

NOUNS = "chat:cat chien:dog cheval:horse oiseau:bird mouton:sheep".split()
VERBS = "dort:sleeps mange:eats court:runs chante:sings tombe:falls".split()
PLACES = "ici:here dehors:outside dedans:inside".split()
SMALL = ("--size", "tiny", "--threads", "1", "--workers", "0", "--seed", "2")
WORDS = ("--vocab-kind", "words", "--dropout", "0")


def rows(count: int, seed: int) -> list[tuple[str, str]]:
    """Sentences with their translations, in which the noun comes last."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        chosen = [draw.choice(words).split(":") for words in (NOUNS, VERBS, PLACES)]
        (noun, verb, place), (cat, sleeps, here) = zip(*chosen, strict=True)
        found.append((f"Le {noun} {verb} {place}.", f"{here} {sleeps} the {cat}"))
    return found


def write(path: Path, found: list[tuple[str, str]]) -> Path:
    lines = [json.dumps({"src": source, "tgt": target}) for source, target in found]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parallel files, pairs to measure on, and a model with attention that was taught with them."""
    place = tmp_path_factory.mktemp("translate")
    pairs = rows(400, 1)
    (place / "train.fr").write_text("".join(f"{source}\n" for source, _ in pairs))
    (place / "train.en").write_text("".join(f"{target}\n" for _, target in pairs))
    write(place / "dev.jsonl", rows(60, 2))
    given = ("--train", place / "train.fr", "--target", place / "train.en")
    ended = run(
        *("finetune", "translate", "--model", "attention", *given, "-o", place / "model"),
        *("--steps", "60", "--rate", "0.01", "--batch", "500", *WORDS, *SMALL, "--json"),
    )
    assert ended.code == 0, ended.err
    assert "a new attention with the vocabulary of the training texts: " in ended.err
    page = json.loads(ended.out)
    assert page["metrics"]["bleu"]["value"] > 90
    assert page["selected_by"] == "perplexity"
    return place


def test_models_are_measured_and_compared(folder: Path, tmp_path: Path) -> None:
    model, dev = folder / "model", folder / "dev.jsonl"
    ended = run("evaluate", model, dev, "--json", "--threads", "1")
    assert ended.code == 0, ended.err
    page = json.loads(ended.out)
    assert page["examples"] == 60
    assert 90 < page["bleu"] <= 100
    assert page["bleu"] == page["metrics"]["bleu"] == page["models"][0]["metrics"]["bleu"]["value"]
    assert 90 < page["chrf"] <= 100
    assert "tok:13a" in page["models"][0]["signatures"]["bleu"]
    pairs = rows(30, 3)
    (tmp_path / "a.fr").write_text("".join(f"{source}\n" for source, _ in pairs))
    (tmp_path / "a.en").write_text("".join(f"{target}\n" for _, target in pairs))
    parallel = ("--data", tmp_path / "a.fr", "--target", tmp_path / "a.en", "--threads", "1")
    both = run("evaluate", model, model, *parallel)
    assert both.code == 0, both.err
    assert "nc:6" in both.out
    assert "30 examples" in both.out
    assert "chance 1.000" in both.out


def test_translations_are_printed_and_written(folder: Path, tmp_path: Path) -> None:
    model = folder / "model"
    asked = rows(5, 4)
    ended = run("predict", model, asked[0][0], "--threads", "1")
    assert (ended.code, ended.out) == (0, f"{asked[0][1]}\n")
    lines = "".join(f"{source}\n" for source, _ in asked).encode()
    ended = run("predict", model, "--json", "--top", "2", "--align", "--threads", "1", stdin=lines)
    assert ended.code == 0, ended.err
    pages = [json.loads(line) for line in ended.out.splitlines()]
    assert [page["translation"] for page in pages] == [target for _, target in asked]
    for page in pages:
        assert len(page["candidates"]) == 2
        assert page["candidates"][0] == {"translation": page["translation"], "score": page["score"]}
        targets = [one["target"] for one in page["alignment"]]
        assert targets == page["translation"].split()
        assert page["truncated_tokens"] == 0
    shown = run("predict", model, asked[0][0], "--top", "2", "--align", "--threads", "1")
    assert f"{asked[0][1].split()[0]} <- " in shown.out
    assert len(shown.out.splitlines()) == 1 + 2 + 4

    table = tmp_path / "asked.csv"
    table.write_text("id,src\n" + "".join(f"{n},{source}\n" for n, (source, _) in enumerate(asked)))
    target = tmp_path / "answers.csv"
    ended = run("predict", model, table, "-o", target, "--beam", "1", "--threads", "1")
    assert ended.code == 0, ended.err
    with target.open(newline="") as file:
        answers = list(csv.DictReader(file))
    assert [row["translation"] for row in answers] == [target for _, target in asked]
    assert [row["id"] for row in answers] == [str(number) for number in range(5)]


def test_long_texts_are_cut_and_said_or_refused(folder: Path) -> None:
    long = "Le chat dort ici. " * 200
    ended = run("predict", folder / "model", long, "--threads", "1", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["truncated_tokens"] > 500
    assert "1 of 1 texts were longer than the model reads and were cut" in ended.err
    for way, said in (("error", "tokens where the model takes 256"), ("slide", "split long texts")):
        ended = run("predict", folder / "model", long, "--long", way, "--threads", "1")
        assert ended.code == 2
        assert said in ended.err


def test_a_page_shows_every_step(folder: Path, tmp_path: Path) -> None:
    model, page = folder / "model", tmp_path / "view.html"
    ended = run("view", model, "Le chat dort ici.", "-o", page, "--threads", "1")
    assert ended.code == 0, ended.err
    parts = "the target, step by step, the encoder step by step, the decoder step by step"
    assert ended.out == f"{page}: {parts} (11 tokens); open it in a browser\n"
    shown = page.read_text(encoding="utf-8")
    assert (
        "Le chat dort ici. \u2192 here sleeps the cat"
        in json.loads(shown.partition('id="data">')[2].partition("</script>")[0])["title"]
    )
    given = ("--pair", "outside sings the bird", "--force")
    ended = run("view", model, "Le chat dort ici.", *given, "-o", page, "--threads", "1")
    assert ended.code == 0, ended.err
    assert "The target is given." in page.read_text(encoding="utf-8")
    ended = run("view", model, "Le chat dort ici. " * 200, "-o", page, "--force", "--threads", "1")
    assert ended.code == 0, ended.err
    assert "note: the text was cut: " in ended.err

    cases: dict[tuple[str, ...], str] = {
        ("Le chat.", "--json"): "firth view MODEL TEXT writes a page about any model",
        ("Le chat.", "--with-model"): "can't run a model of the family attention",
        ("Le chat.", "--pair", " "): "--pair is empty: it is the target to look at",
        (" ",): "the text is empty: there is nothing to translate",
        ("",): "the text is empty: there is nothing to look at",
        ("chat",): "there is no file 'chat'; a text of one word has a blank after it: 'chat '",
        (str(folder / "dev.jsonl"), "--text", "src"): "is no language model; of a file",
    }
    for words, said in cases.items():
        ended = run("view", model, *words, "-o", tmp_path / "no.html")
        assert ended.code == 2, (words, ended.out)
        assert said in ended.err, (words, ended.err)
        assert not (tmp_path / "no.html").exists()
    ended = run("view", model, "chat ", "-o", tmp_path / "word.html", "--threads", "1")
    assert ended.code == 0, ended.err


def test_an_empty_line_keeps_its_place(folder: Path) -> None:
    lines = b"Le chat dort ici.\n\n   \nLe chien dort ici.\n"
    ended = run("predict", folder / "model", "--threads", "1", stdin=lines)
    assert ended.out == "here sleeps the cat\n\n\nhere sleeps the dog\n"


def test_a_model_goes_on_with_other_pairs(folder: Path, tmp_path: Path) -> None:
    pairs = [*rows(30, 5), ("Le chat " * 300, "the cat"), ("", "nothing")]
    train = write(tmp_path / "train.jsonl", pairs)
    words = ("finetune", "translate", "--model", folder / "model", "--train", train)
    ended = run(*words, "--dev", folder / "dev.jsonl", "-o", tmp_path / "on", "--steps", "2")
    assert ended.code == 0, ended.err
    assert "1 of 32 rows have an empty side and were skipped (first: line 32)" in ended.err
    left_out = "pairs with a side of more than 256 tokens are left out: 1 of 31 to learn from"
    assert left_out in ended.err
    found = firth.load(tmp_path / "on", threads=1).translate(["Le chat dort ici."])
    assert found[0].translation == "here sleeps the cat"
    ended = run(*words, "-o", tmp_path / "no", "--size", "tiny")
    assert ended.code == 2
    assert "--size is for a new seq2seq or attention or transformer" in ended.err


def test_a_killed_run_ends_with_the_same_bits(folder: Path, tmp_path: Path) -> None:
    given = ("--train", folder / "dev.jsonl", "--dev", folder / "dev.jsonl", "--steps", "6")
    more = ("--batch", "60", "--save-every", "2", "--dropout", "0.2", "--average", "0.5")
    words = ("finetune", "translate", "--model", "seq2seq", *given, *more, *WORDS[:2], *SMALL)

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
    ended = run(*words, "-o", tmp_path / "killed", "--resume", "--smoothing", "0.2")
    assert ended.code == 2
    assert "smoothing 0.1, not 0.2" in ended.err


def test_minutes_end_a_run(folder: Path, tmp_path: Path) -> None:
    given = ("--train", folder / "dev.jsonl", "--dev", folder / "dev.jsonl", "--minutes", "0.02")
    words = ("finetune", "translate", "--model", "seq2seq", *given, *SMALL, *WORDS)
    ended = run(*words, "-o", tmp_path / "quick", "--batch", "100", "--schedule", "inverse-sqrt")
    assert ended.code == 0, ended.err
    made = json.loads((tmp_path / "quick/firth.json").read_text())["made"]
    assert made["steps"] > 0
    assert made["settings"]["minutes"] == 0.02


def test_files_and_models_that_dont_fit_are_refused(folder: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.en"
    short.write_text("one line\n")
    source = folder / "train.fr"
    words = ("finetune", "translate", "--model", "seq2seq", "-o", tmp_path / "out")
    cases = {
        (*words, "--train", source, "--target", short): "this one has 400 lines and",
        (*words, "--train", source): "--target names a file with the target of each line",
        (*words, "--train", source, "--target", "nowhere"): "nowhere is missing",
        ("evaluate", folder / "model", "--data", source): "is plain text",
        ("predict", folder / "model", "a b", "--score"): "no language model",
        ("predict", folder / "model", "a b", "--temperature", "1"): "no language model",
        ("predict", "minilm", "a [MASK]", "--beam", "2"): "--beam is for translating",
        ("finetune", "classify", "--model", folder / "model", "--train", source, "-o", "x"): (
            "is a firth-attention; fine-tuning takes folders of"
        ),
        ("finetune", "translate", "--model", "minilm", "--train", source, "-o", "x"): (
            "minilm is a bert; this task takes an encoder-decoder"
        ),
        ("check", source, "--target", short): "1 error in",
    }
    for command, said in cases.items():
        ended = run(*command)
        assert ended.code == 2, (command, ended.out)
        assert said in ended.err, (command, ended.err)
