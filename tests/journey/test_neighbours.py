"""`firth convert`, `neighbours`, `evaluate` and `align` on word vectors, as a person chains them."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.journey.command import run, spawn

pytestmark = pytest.mark.usefixtures("one_thread")
ENGLISH = "king queen man woman ship boat sail sea".split()
SWEDISH = "kung drottning man kvinna skepp båt segel hav".split()


def table(words: list[str], seed: int) -> str:
    """GloVe's text: the words, and some without meaning so that there are enough."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(40, 6))
    turned = rows @ np.linalg.qr(np.random.default_rng(seed).normal(size=(6, 6)))[0]
    names = [*words, *(f"{words[0]}{chr(97 + n // 6)}{chr(97 + n % 6)}" for n in range(32))]
    lines = [" ".join([name, *map(str, row)]) for name, row in zip(names, turned, strict=True)]
    return "\n".join(lines) + "\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, words in (("english", ENGLISH), ("swedish", SWEDISH)):
        (tmp_path / f"{name}.txt").write_text(table(words, len(name)), encoding="utf-8")
        ended = run("convert", f"{name}.txt", "-o", name)
        assert ended.code == 0, ended.err
        assert ended.out == f"{name}: 40 words of 6 numbers from {name}.txt (format: glove)\n"
        assert "0 of 40 words have capital letters" in ended.err
    lines = [f"{a}\t{b}" for a, b in zip(*(table(w, 0).split("\n")[:40] for w in (ENGLISH, SWEDISH)), strict=True)]  # fmt: skip
    words = ["\t".join(side.split(" ")[0] for side in line.split("\t")) for line in lines]
    (tmp_path / "pairs.tsv").write_text("\n".join(words) + "\n", encoding="utf-8")
    return tmp_path


def test_neighbours(place: Path) -> None:
    ended = run("neighbours", "english", "king", "sea", "--top", "3")
    assert ended.code == 0, ended.err
    first, *lines = ended.out.splitlines()
    assert (first, lines[3], len(lines)) == ("king", "sea", 7)
    cosines = [float(line.split()[0]) for line in lines[:3]]
    assert cosines == sorted(cosines, reverse=True)
    page = json.loads(run("neighbours", "english", "king", "sea", "--top", "3", "--json").out)
    assert page["model"] == "english"
    king, sea = page["words"]
    assert (king["word"], king["pieces"], sea["word"]) == ("king", ["king"], "sea")
    shown = [f"  {one['similarity']:8.4f}  {one['word']}" for one in king["neighbours"]]
    assert shown == lines[:3]


def test_analogy_and_similarity(place: Path) -> None:
    words = ("man", "king", "woman")
    ended = run("neighbours", "english", "--analogy", *words, "--top", "2")
    assert ended.out.splitlines()[0] == "man : king = woman : ?"
    page = json.loads(run("neighbours", "english", *words, "--analogy", "--json").out)
    assert [one["word"] for one in page["analogy"]] == list(words)
    assert not {one["word"] for one in page["neighbours"]} & set(words)
    ended = run("neighbours", "english", "--similarity", "ship", "boat")
    page = json.loads(run("neighbours", "english", "--similarity", "ship", "boat", "--json").out)
    assert ended.out == f"ship and boat: {page['similarity']:.4f}\n"
    assert [one["word"] for one in page["words"]] == ["ship", "boat"]


def test_tests_of_words_are_told_from_other_data(place: Path) -> None:
    (place / "pairs353").write_text("# Word 1\tWord 2\tmean\nship\tboat\t9\nking\tqueen\t8.5\nship\tking\t1\nmoon\tsea\t3\n")  # fmt: skip
    page = json.loads(run("evaluate", "english", "pairs353", "--json").out)
    assert (page["pairs"], page["left_out"]) == (3, 1)
    assert page["spearman"] == page["metrics"]["spearman"]
    assert -1 <= page["spearman"] <= 1
    ended = run("evaluate", "english", "english", "pairs353")
    assert ended.out.splitlines()[0] == "pairs353: 3 pairs (1 left out), with 95 % intervals"
    assert "english against english, on the same pairs" in ended.out
    (place / "questions").write_text(": royal\nman king woman queen\n: sea\nship sea boat moon\n")
    page = json.loads(run("evaluate", "english", "questions", "--json").out)
    assert (page["questions"], page["left_out"]) == (1, 1)
    royal, sea = page["sections"]
    assert royal["accuracy"]["value"] == page["accuracy"]
    assert (sea["accuracy"], sea["questions"], sea["left_out"]) == (None, 0, 1)
    shown = run("evaluate", "english", "questions").out
    assert "royal" in shown
    assert "1 questions, 0 left out" in shown
    for name in ("pairs353", "questions"):
        ended = run("check", name)
        assert ended.code == 2
        assert f"{name} is a test of word vectors" in ended.err
        assert f"firth evaluate MODEL {name} " in ended.err
    ended = run("evaluate", "english", "pairs.tsv")
    assert ended.code == 2
    assert "english has no head" in ended.err
    assert "where the file has pairs of words with a number or analogies" in ended.err


def test_two_languages(place: Path) -> None:
    ended = run("align", "english", "swedish", "--dictionary", "pairs.tsv", "-o", "map")
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0].startswith("map: fitted on 36 pairs; tested on 4 words held out of pairs.tsv")
    assert [line.split()[0] for line in lines[2:]] == ["linear", "network", "chance"]
    assert lines[2].split()[1] == "1.0000"
    page = json.loads(run("align", "english", "swedish", "--dictionary", "pairs.tsv", "-o", "map", "--force", "--json").out)  # fmt: skip
    assert page["linear"]["at_1"]["value"] == 1
    assert page == json.loads((place / "map" / "report.json").read_text())
    for by in ("linear", "network"):
        ended = run("neighbours", "english", "ship", "--into", "swedish", "--map", "map", "--by", by, "--top", "1", "--json")  # fmt: skip
        assert ended.code == 0, ended.err
        found = json.loads(ended.out)
        assert found["into"] == "swedish"
        if by == "linear":
            assert found["words"][0]["neighbours"][0]["word"] == "skepp"


def test_to_a_file_and_back_in_a_pipe(place: Path) -> None:
    ended = run("convert", "swedish", "-o", "out.bin", "--json")
    assert json.loads(ended.out)["vectors"] == {
        "form": "binary", "words": 40, "width": 6, "left_out": 0, "repeated": 0, "replaced": 0,
    }  # fmt: skip
    assert run("convert", "out.bin", "-o", "again").code == 0
    words = ("neighbours", "again", "båt", "--json")
    first, second = run(*words).out, spawn(*words, PYTHONIOENCODING="ascii").out
    assert first.replace("again", "swedish") == run("neighbours", "swedish", "båt", "--json").out
    assert json.loads(second.replace("\\xe5", "å").replace("\\xf6", "ö")) == json.loads(first)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("neighbours", "english", "kign"), "english has no word 'kign'; did you mean 'king'?"),
        (("neighbours", "english"), "Missing argument"),
        (("neighbours", "nowhere", "sea"), "there is no model folder 'nowhere'"),
        (("neighbours", "english", "sea", "--into", "swedish"), "--map the map to it: give both"),
        (("neighbours", "english", "sea", "--into", "swedish", "--map", "no"), "no/config.json"),
        (("neighbours", "english", "a", "b", "--analogy"), "--analogy takes three words, a b c; there are 2"),
        (("align", "english", "swedish", "--dictionary", "no.tsv", "-o", "m"), "there is no file 'no.tsv'"),
        (("convert", "pairs.tsv", "-o", "m"), "pairs.tsv is no file of word vectors"),
        (("convert", "english", "-o", "m"), "m: word vectors are written to .txt, .vec, .bin"),
        (("convert", "english.txt", "-o", "m", "--format", "glove"), "--format is for a file of word vectors"),
        (("evaluate", "english", "bad.tsv"), "bad.tsv: no pair has both words in english"),
    ],
)  # fmt: skip
def test_a_sentence_says_what_is_wrong(words: tuple[str, ...], said: str, place: Path) -> None:
    (place / "bad.tsv").write_text("moon\tstar\t3\n")
    ended = run(*words)
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert not ended.out
    assert not (place / "m").exists()
