"""`firth view`: the figures that it prints are those on its page, and what can't be looked at is refused with a sentence."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from firth.folders.write import save
from firth.pages.page import page_head
from firth.verbs.view import gradients, view
from tests.journey.command import run
from tests.unit.speakers import HELD_OUT, LENGTH, bundle

pytestmark = pytest.mark.usefixtures("one_thread")
NAMES = {"lstm": "rnn, carrying", "order4": "ffnn", "gpt": "gpt", "counts": "ngram"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of small models, and a text."""
    folder = tmp_path_factory.mktemp("view")
    for name, kind in NAMES.items():
        save(bundle(kind), folder / name)
    (folder / "text.txt").write_text("\n".join(HELD_OUT) + "\n", encoding="utf-8")
    return folder


def test_models_on_one_page(place: Path, tmp_path: Path) -> None:
    models = [place / name for name in ("lstm", "order4", "gpt")]
    ended = run("view", *models, place / "text.txt", "-o", tmp_path / "page.html", "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)["models"]
    assert [one["model"] for one in found] == [str(model) for model in models]
    distances = [[row["distance"] for row in one["distances"]] for one in found]
    assert distances == [list(range(1, 51)), list(range(1, 51)), list(range(1, LENGTH - 1))]
    for one in found:
        assert one["nearest"]["mean"] > 0
        assert one["distances"][0] | {"pairs": 0} == {
            "distance": 1,
            "pairs": 0,
            "mean": 1.0,
            "geometric": 1.0,
        }
        assert all(
            later["pairs"] <= sooner["pairs"] for sooner, later in pairwise(one["distances"])
        )
    assert [row["mean"] > 0 for row in found[1]["distances"][:5]] == [
        True,
        True,
        True,
        False,
        False,
    ]
    page = (tmp_path / "page.html").read_text()
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    for one in found:
        assert f'"{one["distances"][9]["geometric"]:.3g}"' in page
    table = run("view", *models, place / "text.txt")
    assert table.code == 0
    assert f"{found[0]['distances'][9]['geometric']:.3g}" in table.out


def test_a_text_and_standard_input_are_a_file(place: Path, tmp_path: Path) -> None:
    text = next(line for line in HELD_OUT if len(line.split()) > 12)
    (tmp_path / "one.txt").write_text(text + "\n", encoding="utf-8")
    given = [
        run("view", place / "lstm", text, "--json"),
        run("view", place / "lstm", tmp_path / "one.txt", "--json"),
    ]
    given.append(run("view", place / "lstm", "-", "--json", stdin=text.encode() + b"\n"))
    assert [ended.code for ended in given] == [0, 0, 0]
    assert len({ended.out for ended in given}) == 1
    (look,) = gradients(place / "lstm", text)
    assert json.loads(given[0].out)["models"][0]["tokens"] == look.tokens


def test_a_long_texts_title_is_its_beginning(place: Path) -> None:
    for text, title in (("a list " * 9, "a list " * 9), ("a list " * 99, "a list " * 34 + "a …")):
        head = page_head(view(place / "counts", text).page)
        assert head is not None
        assert head[0] == title


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("minilm", "text.txt"), "no language model"),
        (("minilm", "a text of words", "--json"), "firth view MODEL TEXT writes a page"),
        (("minilm", "lstm", "a text of words"), "with --json, or of several models, says how far"),
        (("lstm", ""), "the text is empty: there is nothing to look at"),
        (("lstm", "", "--json"), "the text is empty: there is nothing to look at"),
        (("lstm", "words"), "there is no file 'words'; a text of one word has a blank after it"),
        (("lstm", "Hello!"), "a text of one word has a blank after it: 'Hello! '"),
        (("lstm", "don't"), 'a text of one word has a blank after it: "don\'t "'),
        (("minilm", "  "), "the text has no tokens"),
        (("minilm", "a text of words", "--pair", " "), "the text of --pair has no tokens"),
        (("gpt", "a text of words", "--encoding", "cp1252"), "--encoding is for a file"),
        (("gpt", "a text of words", "--format", "csv"), "--format is for a file"),
        (("--example", "computers", "--text", "body"), "--text is for a file"),
        (("counts", "text.txt"), "n-gram model, which counts"),
        (("lstm", "gpt", "a text of words", "--pair", "b"), "--pair is for one model and a text"),
        (("lstm", "text.txt", "--with-model"), "--with-model is for one model and a text"),
        (("gpt", "a text of words", "--with-model"), "can't run a model of the family gpt"),
        (("gpt", "a text of words", "--pair", "b"), "a language model reads single texts"),
        (("lstm", "empty.txt"), "no token of this text depends on one before it"),
        (("lstm",), "which text?"),
        (("lstm", "gpt"), "which text?"),
        (("nowhere", "a text of words"), "there is no model folder"),
        (("lstm", "nowhere.txt"), "there is no file"),
        (("lstm", "a text of words", "-o", "page.pdf"), ".html"),
        (("lstm", "a text of words", "-o", "there.html"), "there.html exists"),
    ],
)
def test_a_sentence_says_what_is_wrong(
    words: tuple[str, ...], said: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    for name in ("empty.txt", "there.html"):
        Path(name).touch()
    ended = run("view", *words)
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert not ended.out
