"""A task and a family, each one file of a user's, go the whole way by --plugin; what is wrong is said in a line."""

import json
from pathlib import Path

import numpy as np
import pytest

from firth.samples.texts import TEXTS
from tests.journey.command import ROOT, Ended
from tests.journey.warm import Warm

TASK = ROOT / "tests" / "plugins" / "toy_task.py"
FAMILY = ROOT / "tests" / "plugins" / "toy_family.py"
STARRED = [
    {"text": f"{word} {what}, {word} service", "stars": stars}
    for stars, word in enumerate(("awful", "poor", "fair", "good", "superb"), 1)
    for what in ("room", "food", "view", "bed", "price", "lift", "tea", "pool")
]
QUICK = ("--epochs", 2, "--threads", 1)


def ran(ended: Ended) -> Ended:
    """A command that has ended well."""
    assert ended.code == 0, ended.err
    return ended


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Path:
    """A folder with reviews, a text, and a toy that has read the text."""
    folder = tmp_path_factory.mktemp("plugins")
    rows = "".join(f"{json.dumps(row)}\n" for row in STARRED)
    (folder / "reviews.jsonl").write_text(rows, encoding="utf-8")
    text = "\n\n".join("\n".join(lines) for lines in TEXTS.values())
    (folder / "text.txt").write_text(f"{text}\n", encoding="utf-8")
    told = ("--model", "toy", "--steps", 4, "--length", 32, "--batch", 500, "--threads", 1)
    ran(warm.run("--plugin", FAMILY, "pretrain", folder / "text.txt", "-o", folder / "base", *told))
    return folder


@pytest.fixture(scope="module")
def stars(place: Path, warm: Warm) -> Path:
    """The toy family fine-tuned for the toy task: two plugins in one command."""
    folder = place / "stars"
    told = ("--model", place / "base", "--train", place / "reviews.jsonl", "-o", folder)
    plugins = ("--plugin", TASK, f"--plugin={FAMILY}")
    ran(warm.run("finetune", "stars", *told, *plugins, *QUICK))
    assert json.loads((folder / "firth.json").read_text())["task"] == "stars"
    return folder


def test_a_file_is_checked(place: Path, warm: Warm) -> None:
    told = ("check", place / "reviews.jsonl", "--plugin", TASK)
    assert json.loads(ran(warm.run(*told, "--json")).out)["files"][0]["task"] == "stars"
    wrong = place / "wrong.jsonl"
    wrong.write_text('{"text": "fine", "stars": 6}\n{"text": "bad", "stars": 1}\n')
    ended = warm.run("check", wrong, "--task", "stars", "--plugin", TASK)
    assert ended.code == 2
    assert "wrong.jsonl:1 has 6 where 1 to 5 stars belong" in ended.out


def test_a_model_is_evaluated(place: Path, stars: Path, warm: Warm) -> None:
    told = ("evaluate", stars, "--data", place / "reviews.jsonl", "--json")
    found = json.loads(ran(warm.run(*told, "--plugin", TASK, "--plugin", FAMILY)).out)
    assert found["examples"] == len(STARRED)
    assert found["metrics"].keys() >= {"mse", "pearson"}


def test_a_model_answers(place: Path, stars: Path, warm: Warm) -> None:
    told = ("predict", stars, "superb food", "--plugin", TASK, "--plugin", FAMILY)
    assert set(ran(warm.run(*told)).out.split("\t")[0].strip()) == {"*"}
    answer = json.loads(ran(warm.run(*told, "--json")).out)
    assert answer["text"] == "superb food"
    assert answer["stars"] in range(1, 6)
    table = place / "answers.csv"
    asked = ("predict", stars, place / "reviews.jsonl", "-o", table)
    ran(warm.run(*asked, "--plugin", TASK, "--plugin", FAMILY))
    assert len(table.read_text().splitlines()) == len(STARRED) + 1


def test_a_family_gives_vectors_and_fills_blanks(place: Path, warm: Warm) -> None:
    vectors = place / "vectors.npy"
    told = ("embed", place / "base", place / "text.txt", "-o", vectors, "--plugin", FAMILY)
    ran(warm.run(*told))
    assert np.load(vectors).shape[1] == 16
    told = ("predict", place / "base", "The [MASK] rose.", "--json", "--plugin", FAMILY)
    assert json.loads(ran(warm.run(*told)).out)["blanks"]


def test_a_family_learns_a_task_that_firth_has(place: Path, warm: Warm) -> None:
    told = ("--model", place / "base", "--train", place / "reviews.jsonl", "--label", "stars")
    ran(warm.run("finetune", "classify", *told, "-o", place / "c", "--plugin", FAMILY, *QUICK))
    ended = ran(warm.run("predict", place / "c", "good view", "--json", "--plugin", FAMILY))
    assert json.loads(ended.out)["label"] in range(1, 6)


def test_help_has_the_names_of_plugins(warm: Warm) -> None:
    shown = ran(warm.run("finetune", "--help", "--plugin", TASK)).out
    assert "classify|regress|stars|tag" in "".join(shown.split())
    shown = ran(warm.run("--plugin", FAMILY, "pretrain", "--help")).out
    assert "|toy>" in "".join(shown.split())
    for command in ("check", "pretrain", "finetune", "evaluate", "embed", "predict", "view"):
        assert "--plugin FILE" in ran(warm.run(command, "--help")).out
    assert "--plugin FILE" in ran(warm.run("--help")).out


def test_a_folder_without_its_plugin_is_refused_by_name(
    place: Path, stars: Path, warm: Warm
) -> None:
    said = "a plugin may bring it: --plugin FILE\n"
    ended = warm.run("embed", place / "base", place / "text.txt")
    assert ended.code == 2
    assert "model_type 'toy' is not one that Firth opens" in ended.err
    assert ended.err.endswith(said)
    ended = warm.run("predict", stars, "superb food", "--plugin", FAMILY)
    assert ended.code == 2
    assert "the task 'stars' is none that Firth knows here" in ended.err
    assert ended.err.endswith(said)


WRONG = {
    "def f(:\n": "plugin.py:1: this is no valid Python: invalid syntax",
    "x = '\0'\n": "plugin.py: this is no valid Python: source code string cannot contain null",
    "x = 1\n": "plugin.py registers no task and no family: firth.register(...) in it does that",
    "\n1 / 0\n": "plugin.py:2: ZeroDivisionError: division by zero",
    "import sys\nsys.exit('no')\n": "plugin.py:2: SystemExit: no",
    "import firth\nfirth.register(3)\n": "plugin.py:2: firth.register takes a subclass of",
    "import firth\nfrom firth.tasks.tag import TASK\nfirth.register(TASK)\n": (
        "plugin.py:3: there is a task 'tag' already"
    ),
    "import firth\nfrom firth.families.bert import FAMILY\nfrom dataclasses import replace\n"
    "firth.register(replace(FAMILY, name='mine'))\n": (
        "plugin.py:4: there is a family bert (bert) already"
    ),
    "import firth\nfrom firth.tasks.texts import TextTask\n@firth.register\nclass Mine(TextTask):\n"
    "    name = 'mine'\n": "plugin.py:3: the task Mine lacks answer, counts, losses, metrics,",
}


@pytest.mark.parametrize("program", WRONG)
def test_a_wrong_file_is_refused_in_a_line(program: str, tmp_path: Path, warm: Warm) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(program)
    ended = warm.run("finetune", "--plugin", path, "--help")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(f"firth: {tmp_path}/{WRONG[program]}")
    assert ended.err.count("\n") == 1


def test_a_file_must_be_there(tmp_path: Path, warm: Warm) -> None:
    for path, reason in ((tmp_path / "no.py", "No such file"), (tmp_path, "Is a directory")):
        ended = warm.run("finetune", "--plugin", path)
        assert ended.code == 2
        assert f"the plugin {path} can't be read: {reason}" in ended.err
    ended = warm.run("finetune", "--plugin")
    assert ended.code == 2
    assert "'--plugin' requires an argument" in ended.err
    ended = warm.run("env", "--plugin", TASK)
    assert ended.code == 2
    assert "No such option" in ended.err


def test_one_name_is_one_plugin(tmp_path: Path, warm: Warm) -> None:
    twin = tmp_path / "twin.py"
    twin.write_text(TASK.read_text())
    ended = warm.run("check", "x.csv", "--plugin", TASK, "--plugin", TASK, "--plugin", twin)
    assert ended.code == 2
    assert f"{twin}:" in ended.err
    assert "there is a task 'stars' already" in ended.err


def test_settings_name_no_plugin(tmp_path: Path, warm: Warm) -> None:
    ended = warm.run("check", "x.csv", "--set", f"plugin={TASK}")
    assert ended.code == 2
    assert "unknown setting 'plugin'" in ended.err
