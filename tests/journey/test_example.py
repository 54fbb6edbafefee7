"""`firth view --example`: the list, the pages that it writes, its numbers as JSON, and what it refuses."""

import json
from pathlib import Path

import pytest

from firth import examples
from tests.journey.command import run

pytestmark = pytest.mark.usefixtures("one_thread")
# A gender along the second number, and what the words are otherwise along the first.
VECTORS = """\
man 1.0 0.1 0.0
woman 1.0 0.9 0.0
king 0.2 0.1 1.0
queen 0.2 0.9 1.0
apple -1.0 -1.0 0.3
"""


def test_the_list_has_a_line_for_each() -> None:
    ended = run("view", "--example", "list")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert len(lines) == len(examples())
    for line, picture in zip(lines, examples(), strict=True):
        assert line.startswith(f"{picture.name} ")
        assert picture.needed in line
        assert line.endswith(picture.help)


def test_a_page_is_written_and_its_numbers_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run("view", "--example", "computers")
    assert ended.code == 0, ended.err
    said = "view.html: computers, 14 numbers of the book, 0 differ; open it in a browser\n"
    assert ended.out == said
    assert "Computers are thinking machines" in Path("view.html").read_text(encoding="utf-8")
    again = run("view", "--example", "sinusoids")
    assert again.code == 2
    assert "view.html exists" in again.err
    other = run("view", "--example", "sinusoids", "-o", "waves.html")
    assert other.out.startswith("waves.html: sinusoids, 2 numbers of the book, 1 differ")


def test_numbers_as_json_write_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run("view", "--example", "forget-gate", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert found["example"] == "forget-gate"
    kept = found["numbers"][-1]
    assert kept == {"name": "f × c", "value": kept["value"], "book": "1.54", "agrees": True}
    assert 1.535 < kept["value"] < 1.545
    assert found["notes"]
    assert not list(tmp_path.iterdir())


def test_analogies_of_ones_own_word_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.txt").write_text(VECTORS, encoding="utf-8")
    assert run("convert", "own.txt", "-o", "own").code == 0
    ended = run("view", "own", "--example", "analogies", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert len(found["numbers"]) == 1  # none of the countries is there
    assert "it is queen" in found["notes"][0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--example", "animals"), "there is no example 'animals'; did you mean 'animal'?"),
        (("minilm", "--example", "computers"), "leave minilm out"),
        (("minilm", "a text", "--example", "animal"), "one model at most"),
        (("--example", "computers", "--pair", "b"), "--pair is for one model and a text"),
        (("nowhere", "--example", "bank"), "there is no model folder"),
        (("--example", "computers", "-o", "page.pdf"), ".html"),
        ((), "which text?"),
    ],
)
def test_what_can_not_be_drawn_is_refused(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run("view", *words)
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert not ended.out
    assert not list(tmp_path.iterdir())
