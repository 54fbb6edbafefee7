"""`firth vocab`: from a folder of text to a vocabulary that Firth and transformers open, and a report that can be checked."""

import gzip
import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from firth.base import progress
from firth.samples.texts import TEXTS
from firth.text.tokenizer import Tokenizer
from firth.verbs import vocab as verb
from tests.journey.command import Ended, listing, run, spawn
from tests.unit.corpora import topics

KINDS = ("wordpiece", "bytes", "words")
SWEDISH = "\n".join(TEXTS["swedish"])


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with every sample, a document a topic, one of them packed and one as objects."""
    folder = tmp_path / "letters"
    folder.mkdir()
    for topic, lines in TEXTS.items():
        (folder / f"{topic}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    packed = folder / "law.txt"
    (folder / "law.txt.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    rows = [{"text": line} for line in TEXTS["clinic"]]
    (folder / "clinic.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "clinic.txt").unlink()
    return folder


def refused(ended: Ended, *said: str) -> None:
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("firth: ")
    assert ended.err.count("\n") == 1
    assert "defect" not in ended.err
    for words in said:
        assert words in ended.err, ended.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_vocabulary_opens_in_firth_and_in_transformers(
    corpus: Path, tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "words"
    ended = run("vocab", corpus, "-o", out, "--size", 700, "--kind", kind)
    assert (ended.code, ended.err) == (0, "")
    names = {"tokenizer.json", "tokenizer_config.json"}
    assert set(listing(out)) == (names | {"vocab.txt"} if kind == "wordpiece" else names)
    ours, theirs = Tokenizer.open(out), AutoTokenizer.from_pretrained(out)
    assert ours.kind == kind
    assert ours.size == len(theirs) <= 700
    for line in (line for lines in TEXTS.values() for line in lines):
        (encoding,) = ours.encode([line])
        assert theirs(line)["input_ids"] == encoding.ids
        assert ours.decode(encoding.ids) == theirs.decode(encoding.ids, skip_special_tokens=True)
    for role in ("pad", "unk", "cls", "sep", "mask"):
        assert getattr(ours, role) == getattr(theirs, f"{role}_token_id") is not None
    first, second, *parted = ended.out.splitlines()
    lines = [line for lines in TEXTS.values() for line in lines]
    assert (
        first
        == f"{out}: {ours.size:,} pieces ({kind}) from {len(lines)} lines, {sum(map(len, lines)):,} characters"
    )
    assert "pieces a word" in second
    assert [" ".join(line.split()[:4]) for line in parted] == (
        ["words are split at"] if kind == "words" else []
    )


@pytest.mark.parametrize("kind", KINDS)
def test_accents_survive(tmp_path: Path, kind: str) -> None:
    text = tmp_path / "a.txt"
    text.write_text(SWEDISH, encoding="utf-8")
    assert run("vocab", text, "-o", tmp_path / "words", "--kind", kind, "--size", 600).code == 0
    ours, theirs = (
        Tokenizer.open(tmp_path / "words"),
        AutoTokenizer.from_pretrained(tmp_path / "words"),
    )
    for line in TEXTS["swedish"]:
        (encoding,) = ours.encode([line], special=False)
        assert ours.unk not in encoding.ids
        said = theirs.decode(theirs(line)["input_ids"], skip_special_tokens=True)
        assert "".join(said.split()) == "".join((line if kind == "bytes" else line.lower()).split())
        assert [sign for sign in said.lower() if sign in "åäö"] == [
            sign for sign in line.lower() if sign in "åäö"
        ]


def test_case_and_accents_as_asked(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("Åsa Öberg Åsa Öberg\n" * 3, encoding="utf-8")
    said = {}
    for case in ("lower", "keep"):
        for accents in ("keep", "strip"):
            out = tmp_path / f"{case}-{accents}"
            assert (
                run(
                    "vocab", text, "-o", out, "--size", 64, "--case", case, "--accents", accents
                ).code
                == 0
            )
            words = Tokenizer.open(out)
            said[case, accents] = words.decode(words.encode(["Åsa Öberg"])[0].ids)
    assert said == {
        ("lower", "keep"): "åsa öberg",
        ("lower", "strip"): "asa oberg",
        ("keep", "keep"): "Åsa Öberg",
        ("keep", "strip"): "Asa Oberg",
    }


# The report


def report(tmp_path: Path, text: str, *words: object) -> dict[str, object]:
    path = tmp_path / "a.txt"
    path.write_text(text, encoding="utf-8")
    ended = run("vocab", path, "-o", tmp_path / "words", "--json", *words)
    assert (ended.code, ended.err) == (0, ""), ended
    assert ended.out.count("\n") == 1
    found = json.loads(ended.out)
    assert found["size"] == Tokenizer.open(tmp_path / "words").size
    assert found.pop("kind") == (words[1] if words and words[0] == "--kind" else "wordpiece")
    return found


def test_the_report_of_words_by_hand(tmp_path: Path) -> None:
    """Three words fit beside the five special tokens; of nine words in the text two are others."""
    found = report(
        tmp_path, "the cat sat\nthe dog sat\n\n\nthe cat ran\n", "--kind", "words", "--size", 8
    )
    assert found == {
        "split": "spaces",
        "size": 8,
        "characters": 33,
        "lines": 3,
        "replaced": 0,
        "garbled": 0,
        "learned_from_every": 1,
        "words": 9,
        "pieces_per_word": 1.0,
        "whole_words": 7 / 9,
        "unknown_words": 2 / 9,
    }


def test_the_report_of_pieces_by_hand(tmp_path: Path) -> None:
    """`cat` comes often enough to be a piece; `dog` comes once and is spelled with three."""
    found = report(tmp_path, "cat Cat cat dog\n", "--kind", "wordpiece", "--size", 64)
    assert (
        found["words"],
        found["pieces_per_word"],
        found["whole_words"],
        found["unknown_words"],
    ) == (4, 1.5, 0.75, 0)
    assert found["characters"] == 15


def test_the_report_of_bytes_by_hand(tmp_path: Path) -> None:
    """A word has its space before it: `cat` and twice ` cat` are pieces, ` dog` is four."""
    found = report(tmp_path, "cat cat cat dog\n", "--kind", "bytes", "--size", 300)
    assert (
        found["words"],
        found["pieces_per_word"],
        found["whole_words"],
        found["unknown_words"],
    ) == (4, 1.75, 0.75, 0)
    assert found["size"] == 256 + 5 + 3  # ca, cat and the one with a space


def test_the_report_as_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("the cat sat\nthe dog sat\n\nthe cat ran\n")
    out = tmp_path / "words"
    assert run("vocab", path, "-o", out, "--kind", "words", "--size", 8).out == (
        f"{out}: 8 pieces (words) from 3 lines, 33 characters\n"
        "  1.000 pieces a word; 77.8% of 9 words are one piece, 22.222% are unknown\n"
        "  words are split at spaces: 0.00% of words end in a comma (--split punctuation overrides)\n"
    )


def test_unreadable_characters_are_counted_and_said(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good text of words\n" * 500 + b"one \xff byte\n")
    ended = run("vocab", path, "-o", tmp_path / "words", "--size", 100, "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["replaced"] == 1
    assert ended.err.startswith("note: 1 of 9,")
    assert ended.err.count("\n") == 1


def test_progress_is_said_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    path = tmp_path / "a.txt"
    path.write_text(topics())
    ended = run("vocab", path, "-o", tmp_path / "words", "--size", 500)
    assert ended.code == 0
    assert "learning the vocabulary: 1,000 lines, " in ended.err


# More text than is held


def test_of_much_text_every_nth_line_is_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line for line in topics().split("\n") if line]
    path = tmp_path / "a.txt"
    path.write_text(topics())
    characters = sum(map(len, lines))
    monkeypatch.setattr(verb, "MOST_CHARACTERS", characters // 3)
    monkeypatch.setattr(verb, "SAMPLED_LINES", 400)
    first = verb.vocab([path], tmp_path / "one", size=1000)
    second = verb.vocab([path], tmp_path / "two", size=1000)
    assert first.as_json() == second.as_json()
    assert listing(tmp_path / "one") == listing(tmp_path / "two")
    assert first.learned_from_every == 4
    assert first.lines == len(lines)
    assert first.characters == characters
    assert (
        Tokenizer.open(tmp_path / "one").fingerprint
        == Tokenizer.train(lines[::4], size=1000).fingerprint
    )
    sample = Tokenizer.open(tmp_path / "one").encode(lines[:: len(lines) // 400], special=False)
    assert first.words == sum(len(set(one.words)) for one in sample)
    assert first.pieces_per_word == sum(map(len, sample)) / first.words
    printed = run("vocab", path, "-o", tmp_path / "three", "--size", 1000).out
    assert f"{characters:,} characters, learned from one line of 4\n" in printed


def test_two_processes_learn_the_same(corpus: Path, tmp_path: Path) -> None:
    for kind in KINDS:
        made = [tmp_path / f"{kind}{number}" for number in range(2)]
        assert run("vocab", corpus, "-o", made[0], "--kind", kind, "--size", 500).code == 0
        ended = spawn(
            "vocab", corpus, "-o", made[1], "--kind", kind, "--size", 500, PYTHONHASHSEED="7"
        )
        assert (ended.code, ended.err) == (0, "")
        assert listing(made[0]) == listing(made[1])


# What is refused


def test_a_folder_that_holds_something_is_kept(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "words"
    assert run("vocab", corpus, "-o", out, "--size", 200).code == 0
    before = listing(tmp_path)
    refused(
        run("vocab", corpus, "-o", out, "--size", 300),
        "words exists and holds something",
        "--force",
    )
    assert listing(tmp_path) == before
    assert run("vocab", corpus, "-o", out, "--size", 300, "--force").code == 0
    assert Tokenizer.open(out).size == 300


def test_an_old_vocabulary_outlives_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a few words\n")
    assert run("vocab", path, "-o", tmp_path / "words", "--size", 64).code == 0
    path.write_text("")
    before = listing(tmp_path)
    refused(
        run("vocab", path, "-o", tmp_path / "words", "--force"),
        "no text to learn a vocabulary from",
    )
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        (b"", (), "no text to learn a vocabulary from"),
        (b"\n \n\t\n", (), "no text to learn a vocabulary from"),
        ("å är ö\n".encode("latin-1") * 10, (), "--encoding cp1252"),
        (b"words\n", ("--encoding", "klingon"), "no encoding 'klingon'"),
        (b"a\0b\n", (), "a.txt:1 has NUL bytes"),
        (b"words\n", ("--size", "20"), "wordpiece needs at least 64"),
        (b"words\n", ("--size", "0"), "--size"),
        (b"words\n", ("--kind", "letters"), "'wordpiece', 'bytes', 'words'"),
        (b"words\n", ("--kind", "bytes", "--case", "lower"), "keeps every text as it is"),
        (b"words\n", ("--set", "sise=3"), "unknown setting 'sise'; did you mean 'size'"),
    ],
)
def test_bad_text_and_bad_calls_leave_nothing(
    tmp_path: Path, data: bytes, options: tuple[str, ...], said: str
) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    refused(run("vocab", tmp_path / "a.txt", "-o", tmp_path / "deep" / "words", *options), said)
    assert list(listing(tmp_path)) == ["a.txt"]


def test_other_encodings_when_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(SWEDISH.encode("latin-1"))
    assert (
        run(
            "vocab",
            tmp_path / "a.txt",
            "-o",
            tmp_path / "words",
            "--encoding",
            "latin-1",
            "--size",
            300,
        ).code
        == 0
    )
    words = Tokenizer.open(tmp_path / "words")
    assert all(words.unk not in one.ids for one in words.encode(list(TEXTS["swedish"])))


def test_places_that_do_not_exist(tmp_path: Path) -> None:
    refused(run("vocab", tmp_path / "none.txt", "-o", tmp_path / "words"), "there is no file")
    (tmp_path / "empty").mkdir()
    refused(
        run("vocab", tmp_path / "empty", "-o", tmp_path / "words"), "has no .txt or .jsonl file"
    )
    (tmp_path / "a.jsonl").write_text('{"body": "some words"}\n')
    refused(
        run("vocab", tmp_path / "a.jsonl", "-o", tmp_path / "words"),
        "a.jsonl:1 has no field 'text'",
    )
    assert (
        run(
            "vocab", tmp_path / "a.jsonl", "-o", tmp_path / "words", "--text", "body", "--size", 64
        ).code
        == 0
    )
