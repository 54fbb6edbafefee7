"""A corpus as shards: where words, sentences and documents begin, what is used again, and what is noticed."""

import gzip
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from firth.base.errors import InputError
from firth.corpus import shards as module
from firth.corpus.shards import DOCUMENT, SENTENCE, WORD, Shards, open_shards
from firth.samples.texts import TEXTS
from firth.text.sentences import sentence_spans
from firth.text.tokenizer import Tokenizer
from tests.journey.command import listing
from tests.unit.corpora import topics, vocabulary

LINES = (
    "Brown the onions in butter. Dr. Berg waits! Is it done?",
    "Fold the dough once more.",
    "Fog will linger until noon.",
)


@pytest.fixture(scope="module")
def known() -> Tokenizer:
    """A vocabulary of the samples, every word of which is a piece or several."""
    return Tokenizer.train(
        [*LINES * 3, *(line for lines in TEXTS.values() for line in lines)], size=400
    )


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def all_marks(made: Shards) -> np.ndarray:
    return np.concatenate([shard.marks for shard in made.shards])


def all_ids(made: Shards) -> list[int]:
    return np.concatenate([shard.ids for shard in made.shards]).tolist()


def groups(made: Shards, tokenizer: Tokenizer, mark: int) -> list[str]:
    """The text cut where a mark stands, each part as its pieces spell it."""
    ids, at = all_ids(made), [*np.flatnonzero(all_marks(made) & mark).tolist(), made.tokens]
    assert at[0] == 0
    return [
        "".join(tokenizer.piece(i).removeprefix("##") for i in ids[a:b]) for a, b in pairwise(at)
    ]


def squeezed(text: str) -> str:
    return "".join(text.lower().split())


def test_marks_stand_where_words_sentences_and_documents_begin(
    tmp_path: Path, known: Tokenizer
) -> None:
    path = write(tmp_path / "a.txt", f"\n\n{LINES[0]}\n{LINES[1]}\n \t\n\n{LINES[2]}\n\n")
    made = open_shards(tmp_path / "s", [path], known)
    assert groups(made, known, DOCUMENT) == [squeezed(LINES[0] + LINES[1]), squeezed(LINES[2])]
    assert groups(made, known, SENTENCE) == [
        "browntheonionsinbutter.",
        "dr.bergwaits!",
        "isitdone?",
        "foldthedoughoncemore.",
        "fogwilllingeruntilnoon.",
    ]
    first = "brown the onions in butter . dr . berg waits ! is it done ?"
    rest = "fold the dough once more . fog will linger until noon ."
    assert groups(made, known, WORD) == f"{first} {rest}".split()
    assert made.documents == 2
    assert made.unknown == 0
    assert made.sources == ["a.txt"]
    marks = all_marks(made)
    assert ((marks & DOCUMENT == 0) | (marks & SENTENCE > 0)).all()
    assert ((marks & SENTENCE == 0) | (marks & WORD > 0)).all()


@pytest.mark.parametrize("kind", ["wordpiece", "bytes", "words"])
def test_every_kind_of_vocabulary_has_every_mark(tmp_path: Path, kind: str) -> None:
    documents = ["\n".join(lines) for lines in TEXTS.values()]
    tokenizer = Tokenizer.train("\n".join(documents).split("\n"), kind, 600)
    made = open_shards(
        tmp_path / "s", [write(tmp_path / "a.txt", "\n\n".join(documents))], tokenizer
    )
    marks = all_marks(made)
    lines = [line for lines in TEXTS.values() for line in lines]
    assert made.documents == (marks & DOCUMENT > 0).sum() == len(TEXTS)
    assert (
        (marks & SENTENCE > 0).sum()
        == sum(len(sentence_spans(line)) for line in lines)
        >= len(lines)
    )
    encodings = tokenizer.encode(lines, special=False)
    assert all_ids(made) == [i for one in encodings for i in one.ids]
    begins = [
        one.words[i] != one.words[i - 1] or i == 0 for one in encodings for i in range(len(one))
    ]
    assert (marks & WORD > 0).tolist() == begins
    assert made.tokens == len(marks)


def test_letters_of_several_bytes_begin_a_sentence_once(tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(["no letters beyond these"] * 3, "bytes", 262)
    text = "Är det så?  Åh!\tÖ ja, €5 räcker."
    made = open_shards(tmp_path / "s", [write(tmp_path / "a.txt", text)], tokenizer)
    at = [*np.flatnonzero(all_marks(made) & SENTENCE).tolist(), made.tokens]
    parts = [tokenizer.decode(all_ids(made)[a:b]) for a, b in pairwise(at)]
    assert [part.strip() for part in parts] == [text[a:b] for a, b in sentence_spans(text)]
    assert len(parts) == 3


def test_one_huge_line_is_one_document(tmp_path: Path, known: Tokenizer) -> None:
    line = " ".join(
        line for name in ("support", "law", "weather", "cooking", "clinic") for line in TEXTS[name]
    )
    line = " ".join([line] * 120)
    assert len(line) > 250_000  # long enough to be encoded in parts
    made = open_shards(tmp_path / "s", [write(tmp_path / "a.txt", line)], known)
    marks = all_marks(made)
    assert made.documents == (marks & DOCUMENT > 0).sum() == 1
    assert (marks & SENTENCE > 0).sum() == len(sentence_spans(line))
    (encoding,) = known.encode([line], special=False)
    assert all_ids(made) == encoding.ids
    assert (marks & WORD > 0).sum() == len(set(encoding.words))


def test_objects_are_documents_and_their_field_is_named(tmp_path: Path, known: Tokenizer) -> None:
    bodies = {"Fog": f"\n{LINES[0]}\n\n{LINES[1]}", "Dough": " ", "x": LINES[2]}
    rows = [{"title": title, "body": body} for title, body in bodies.items()]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    made = open_shards(tmp_path / "s", [path], known, "body")
    assert groups(made, known, DOCUMENT) == [squeezed(LINES[0] + LINES[1]), squeezed(LINES[2])]
    both = open_shards(tmp_path / "s", [path], known, "title,body")
    assert groups(both, known, DOCUMENT) == [
        squeezed("Fog" + LINES[0] + LINES[1]),
        "dough",
        squeezed("x" + LINES[2]),
    ]
    with pytest.raises(InputError, match=r"a\.jsonl:1 has no field 'text'"):
        open_shards(tmp_path / "s", [path], known)


def test_a_file_ends_a_document(tmp_path: Path, known: Tokenizer) -> None:
    paths = [tmp_path / name for name in ("a.txt", "b.txt.gz", "c.jsonl")]
    write(paths[0], LINES[0])
    write(paths[2], json.dumps({"text": LINES[2]}))
    paths[1].write_bytes(gzip.compress(LINES[1].encode()))
    made = open_shards(tmp_path / "s", paths, known)
    assert groups(made, known, DOCUMENT) == [squeezed(line) for line in LINES]
    assert made.sources == ["a.txt", "b.txt.gz", "c.jsonl"]


def test_a_shard_may_end_inside_a_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.txt", topics()[:60_000])
    whole = open_shards(tmp_path / "whole", [path], vocabulary())
    monkeypatch.setattr(module, "SHARD_TOKENS", 700)
    parts = open_shards(tmp_path / "parts", [path], vocabulary())
    assert len(whole.shards) == 1
    assert len(parts.shards) > 10
    assert sum(not shard.marks[0] & DOCUMENT for shard in parts.shards) > 5
    assert all(shard.marks[0] & SENTENCE for shard in parts.shards)
    assert all_ids(parts) == all_ids(whole)
    assert (all_marks(parts) == all_marks(whole)).all()
    assert parts.documents == whole.documents
    assert (
        Shards(parts.folder, json.loads((parts.folder / "manifest.json").read_text())).tokens
        == whole.tokens
    )


def test_a_token_takes_four_bytes_at_most_with_everything(tmp_path: Path) -> None:
    made = open_shards(tmp_path / "s", [write(tmp_path / "a.txt", topics())], vocabulary())
    size = sum(path.stat().st_size for path in (tmp_path / "s").rglob("*") if path.is_file())
    assert made.shards[0].ids.dtype == np.uint16
    assert 3 * made.tokens < size <= 4 * made.tokens


def test_more_pieces_than_two_bytes_can_number(tmp_path: Path) -> None:
    words = [f"{number:x}" for number in range(70_000)]
    tokenizer = Tokenizer.train([" ".join(words)], "words", 70_005)
    text = " ".join(words[::-7])
    made = open_shards(tmp_path / "s", [write(tmp_path / "a.txt", text)], tokenizer)
    assert made.shards[0].ids.dtype == np.uint32
    assert max(all_ids(made)) > 1 << 16
    assert [tokenizer.piece(i) for i in all_ids(made)] == text.split()


def test_nothing_is_encoded_twice(tmp_path: Path, known: Tokenizer) -> None:
    path = write(tmp_path / "a.txt", "\n".join(LINES))
    made = open_shards(tmp_path / "s", [path], known)
    before = {p.name: p.stat().st_mtime_ns for p in made.folder.iterdir()}
    os.utime(path, (1, 1))
    copy = write(tmp_path / "elsewhere.txt", "\n".join(LINES))
    for again in (
        open_shards(tmp_path / "s", [path], known),
        open_shards(tmp_path / "s", [copy], known),
    ):
        assert again.folder == made.folder
        assert {p.name: p.stat().st_mtime_ns for p in again.folder.iterdir()} == before
        assert all_ids(again) == all_ids(made)


def test_whatever_changes_is_encoded_anew(tmp_path: Path, known: Tokenizer) -> None:
    path = write(tmp_path / "a.jsonl", json.dumps({"text": LINES[0], "other": LINES[1]}))
    made = [
        open_shards(tmp_path / "s", [path], known),
        open_shards(tmp_path / "s", [path], known, "other"),
    ]
    made.append(open_shards(tmp_path / "s", [path], vocabulary()))
    made.append(open_shards(tmp_path / "s", [path], known, encoding="utf-8-sig"))
    write(path, path.read_text().replace("onions", "onion!"))
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, 1))  # as old as can be, and of the same size
    made.append(open_shards(tmp_path / "s", [path], known))
    made.append(open_shards(tmp_path / "s", [path, path], known))
    assert len({one.folder for one in made}) == len(made)
    assert groups(made[1], known, DOCUMENT) == [squeezed(LINES[1])]
    assert "onion!" in groups(made[4], known, DOCUMENT)[0]
    assert made[5].tokens == 2 * made[4].tokens


def test_objects_that_were_read_as_lines_are_encoded_anew(tmp_path: Path) -> None:
    page = "".join(json.dumps({"text": line}) + "\n" for line in LINES)
    words = Tokenizer.train([page] * 9)
    plain, objects = (
        open_shards(tmp_path / "s", [write(tmp_path / name, page)], words)
        for name in ("a.txt", "a.jsonl")
    )
    assert objects.folder != plain.folder
    assert (plain.documents, objects.documents) == (1, len(LINES))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


DAMAGE: dict[str, Callable[[Path], None]] = {
    "flipped": flip,
    "cut": cut,
    "emptied": lambda path: path.write_bytes(b""),
    "missing": Path.unlink,
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\1\1"),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ["00000.ids", "00001.marks", "manifest.json"])
def test_damage_is_noticed_and_mended(
    tmp_path: Path,
    known: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    damage: str,
    name: str,
) -> None:
    monkeypatch.setattr(module, "SHARD_TOKENS", 10)
    path = write(tmp_path / "a.txt", "\n".join(LINES))
    made = open_shards(tmp_path / "s", [path], known)
    sound, ids = listing(tmp_path / "s"), all_ids(made)
    del made
    place = next((tmp_path / "s").rglob(name))
    DAMAGE[damage](place)
    with caplog.at_level(logging.INFO, "firth"):
        mended = open_shards(tmp_path / "s", [path], known)
    assert all_ids(mended) == ids
    assert listing(tmp_path / "s") == sound
    (record,) = caplog.records
    assert (record.name, record.levelname, record.prefix) == ("firth", "INFO", "note: ")
    assert record.getMessage().endswith("; the text is encoded again")
    assert name in record.getMessage()


def test_every_bit_of_the_manifest_counts(tmp_path: Path, known: Tokenizer, seed: int) -> None:
    path = write(tmp_path / "a.txt", "\n".join(LINES))
    made = open_shards(tmp_path / "s", [path], known)
    page, sound, ids = made.folder / "manifest.json", listing(tmp_path / "s"), all_ids(made)
    data = page.read_bytes()
    for bit in np.random.default_rng(seed).choice(
        8 * len(data) - 8, 60, replace=False
    ):  # the last byte is the line's end
        broken = bytearray(data)
        broken[bit // 8] ^= 1 << bit % 8
        page.write_bytes(broken)
        again = open_shards(tmp_path / "s", [path], known)
        assert (all_ids(again), again.documents, again.unknown) == (
            ids,
            made.documents,
            made.unknown,
        )
        try:
            same = json.loads(broken) == json.loads(data)  # an escape may spell the same page
        except ValueError:
            same = False
        assert same or listing(tmp_path / "s") == sound


@pytest.mark.parametrize("text", ["", "\n \n\t\n"])
def test_an_empty_corpus_is_refused_and_leaves_nothing(
    tmp_path: Path, known: Tokenizer, text: str
) -> None:
    path = write(tmp_path / "a.txt", text)
    with pytest.raises(InputError, match=r"^there is no text in [^\n]*a\.txt$"):
        open_shards(tmp_path / "s" / "deep", [path], known)
    assert list(listing(tmp_path)) == ["a.txt"]


def test_a_vocabulary_of_other_text_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    swedish = Tokenizer.train(list(TEXTS["swedish"]), "words", 100)
    path = write(tmp_path / "a.txt", "\n".join(TEXTS["law"]))
    with pytest.raises(
        InputError,
        match=r"^the vocabulary doesn't know \d+%[^\n]*learned from other text; firth vocab [^\n]*$",
    ):
        open_shards(tmp_path / "s", [path], swedish)
    assert list(listing(tmp_path)) == ["a.txt"]


def test_a_few_unknown_words_are_counted(tmp_path: Path) -> None:
    lines = [line for name in ("law", "weather", "cooking") for line in TEXTS[name]]
    tokenizer = Tokenizer.train(lines, "words", 1000)
    made = open_shards(
        tmp_path / "s",
        [write(tmp_path / "a.txt", "\n".join([*lines, "A pinch of zyzzyva."]))],
        tokenizer,
    )
    assert made.unknown == 1


def test_what_is_refused_half_way_leaves_nothing(tmp_path: Path, known: Tokenizer) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\n".join(LINES).encode() * 100 + b"\nend\0\n")
    with pytest.raises(InputError, match=r"a\.txt:\d+ has NUL bytes"):
        open_shards(tmp_path / "s", [path], known)
    assert list(listing(tmp_path)) == ["a.txt"]


GROWTH = r"""
import re, sys
from pathlib import Path
from firth.corpus.shards import open_shards
from firth.text.tokenizer import Tokenizer

def peak():
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

folder = Path(sys.argv[1])
tokenizer = Tokenizer.open(folder / "words")
open_shards(folder / "s", [folder / "short.txt"], tokenizer)
before = peak()
made = open_shards(folder / "s", [folder / "long.txt"], tokenizer)
print(made.tokens, peak() - before)
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(),
    reason="only Linux says how much memory a process ever had",
)
@pytest.mark.parametrize(("width", "times"), [(12, 2), (6000, 6)], ids=["lines", "long lines"])
def test_memory_does_not_grow_with_the_text(tmp_path: Path, width: int, times: int) -> None:
    """Several times the text takes no more memory, whether its lines are short or each is a whole document."""
    vocabulary("words", 20_000).save(tmp_path / "words")
    words = topics().split() * 3
    lines = [" ".join(words[at : at + width]) for at in range(0, len(words), width)]
    write(tmp_path / "short.txt", "\n".join(lines))
    write(tmp_path / "long.txt", "\n".join(lines * times))
    environment = {
        **os.environ,
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    tokens, grown = done.stdout.split()
    assert int(tokens) == times * len(words)
    assert float(grown) < 40, f"{grown} MB more"
