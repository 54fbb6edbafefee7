"""`firth view --projector` and `--words`: what they read, print and write, and what they refuse."""

import json
from pathlib import Path

import pytest

from firth.folders.write import save
from firth.samples.texts import MONEY, RIVER
from tests.journey.command import run
from tests.unit.speakers import bundle

pytestmark = pytest.mark.usefixtures("one_thread")
BANK = [*RIVER, *MONEY]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("bank.txt").write_text("\n".join(BANK) + "\n", encoding="utf-8")
    return tmp_path


def test_words_in_a_file(place: Path) -> None:
    ended = run("view", "minilm", "bank.txt", "--words", "Bank, river,zebra", "--axes", "pca")
    assert ended.code == 0, ended.err
    layers = ", ".join(f"layer {number}" for number in range(1, 7))
    assert ended.out.splitlines() == [
        f"view.html: 11 points of 10 texts (embedding table, {layers}); open it in a browser",
        "  Bank: places 10, texts 10, points 10",
        "  river: places 1, texts 1, points 1",
        "  zebra: places 0, texts 0, points 0",
    ]
    assert "note: no text has the word 'zebra'\n" in ended.err
    page = Path("view.html").read_text(encoding="utf-8")
    assert "Bank, river, zebra in bank.txt" in page
    assert str(place) not in page
    again = run("view", "minilm", "bank.txt", "--words", "bank")
    assert again.code == 2
    assert "view.html exists" in again.err


def test_json_writes_no_page(place: Path) -> None:
    ended = run("view", "minilm", "bank.txt", "--words", "bank", "--axes", "pca", "--json")
    found = json.loads(ended.out)
    assert found["points"] == 10
    assert found["words"] == [
        {"word": "bank", "pieces": ["bank"], "texts": 10, "places": 10, "points": 10}
    ]
    assert found["truncated_tokens"] == 0
    assert not list(place.glob("*.html"))


def test_a_table_as_excel_writes_it(place: Path) -> None:
    """Semicolons, a byte order mark, an empty label, a quoted line break, a column to leave out."""
    rows = ["Nr;Kommentar;label;Größe"]
    for number, text in enumerate(BANK):
        label = ["river", "", "money"][number % 3]
        rows.append(f'{number};"{text}\nsecond line";{label};{number},5')
    Path("export.csv").write_bytes("\r\n".join(rows).encode("utf-8-sig"))
    ended = run(
        "view",
        "minilm",
        "export.csv",
        "--projector",
        "--text",
        "Kommentar",
        "--axes",
        "pca",
        "--json",
    )
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert (found["points"], found["texts"]) == (10, 10)
    asked = run("view", "minilm", "export.csv", "--projector", "--axes", "pca")
    assert asked.code == 2
    assert "which column holds the text?" in asked.err


def test_standard_input_and_objects(place: Path) -> None:
    lines = "".join(json.dumps({"text": text, "label": "a"}) + "\n" for text in BANK)
    ended = run(
        "view", "minilm", "-", "--words", "bank", "--axes", "pca", "--json", stdin=lines.encode()
    )
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["points"] == 10
    assert "can't colour points: 'label'" in ended.err
    assert json.loads(ended.out)["notes"]


def test_texts_that_are_cut_are_counted(place: Path) -> None:
    long = "the river bank " * 300
    Path("long.txt").write_text(f"{long}\nbank\n", encoding="utf-8")
    ended = run("view", "minilm", "long.txt", "--words", "bank", "--axes", "pca", "-o", "a.html")
    assert ended.code == 0, ended.err
    assert "note: places beyond what the model reads of their texts: 216\n" in ended.err
    assert "1 of 2 texts were longer than the model reads and were cut" in ended.err
    assert "one sentence a line" in ended.err
    assert "--long" not in ended.err
    assert "  bank: places 301, texts 2, points 85\n" in ended.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("minilm", "bank.txt", "--words", "zebra,cow"),
            "bank.txt: no text has the words 'zebra', 'cow'",
        ),
        (("gpt", "bank.txt", "--words", "ZEBRA"), "(upper and lower case differ for this model)"),
        (("minilm", "bank.txt", "--words", "bank,,river"), "words names no word"),
        (("minilm", "bank.txt", "--words", ""), "words names no word"),
        (("minilm", "bank.txt", "--words", "bank,Bank"), "are one word to this model's tokenizer"),
        (("minilm", "late.txt", "--words", "zebra"), "stands beyond the 256 tokens"),
        (("minilm", "empty.txt", "--projector"), "empty.txt holds no text"),
        (("minilm", "--projector"), "one model and one file"),
        (("minilm", "gpt", "bank.txt", "--projector"), "one model and one file"),
        (("minilm", "a text in quotes", "--projector"), "is one text"),
        (("minilm", "nowhere.txt", "--projector"), "there is no file"),
        (("nowhere", "bank.txt", "--projector"), "there is no model folder"),
        (("counts", "bank.txt", "--projector"), "gives no vectors"),
        (
            ("minilm", "bank.txt", "--projector", "--pair", "b"),
            "--pair is for one model and a text",
        ),
        (
            ("minilm", "bank.txt", "--words", "bank", "--with-model"),
            "--with-model is for one model and a text",
        ),
        (("--words", "bank", "--example", "bank"), "--words is for points"),
        (("minilm", "bank.txt", "--axes", "pca"), "--axes is for points (--projector or --words)"),
        (("minilm", "bank.txt", "--projector", "--axes", "tsne"), "'tsne' is not one of"),
        (("minilm", "bank.txt", "--projector", "-o", "page.pdf"), ".html"),
        (("minilm", "bank.txt", "--projector", "--text", "review"), "no columns"),
    ],
)
def test_a_sentence_says_what_is_wrong(words: tuple[str, ...], said: str, place: Path) -> None:
    Path("empty.txt").write_text("\n  \n", encoding="utf-8")
    Path("late.txt").write_text("of " * 300 + "zebra\n", encoding="utf-8")
    for name, kind in (("gpt", "gpt"), ("counts", "ngram")):
        save(bundle(kind), Path(name))
    ended = run("view", *words)
    assert ended.code == 2, ended.err
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert not ended.out
    assert not list(place.glob("*.html"))
