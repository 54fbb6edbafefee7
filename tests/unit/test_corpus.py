"""Reading text from files: endings, encodings, packing, and what is refused."""

import gzip
import io
import json
import os
import time
import unicodedata
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from firth.base.errors import InputError
from firth.corpus.files import corpus_files, paragraphs
from firth.text.lines import Report, lines, records, texts
from firth.text.tokenizer import Tokenizer

SWEDISH = "åäö ÅÄÖ ſ é"


def test_every_line_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("one\r\n\ntwo\u2028still two\x0b\x85\nlast".encode())
    assert list(lines(path)) == ["one", "", "two\u2028still two\x0b\x85", "last"]


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]))))
def test_lines_come_back(written: list[str]) -> None:
    stream = io.BufferedReader(io.BytesIO("".join(f"{line}\n" for line in written).encode()))
    assert list(lines(stream, "utf-8")) == written


@pytest.mark.parametrize(
    "pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gz", "zst"]
)
def test_packed_files_are_told_by_content(tmp_path: Path, pack) -> None:
    path = tmp_path / "named.txt"
    path.write_bytes(pack(b"one\ntwo\n" * 100_000))
    assert sum(1 for _ in lines(path)) == 200_000
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"named\.txt is damaged or cut short"):
        list(lines(path))


@pytest.mark.parametrize(
    ("name", "encoding", "given_encoding"),
    [
        ("utf-8", "utf-8", None),
        ("bom", "utf-8-sig", None),
        ("utf-16", "utf-16", None),
        ("utf-32", "utf-32", None),
        ("latin", "latin-1", "latin-1"),
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_accents_survive_from_file_to_offsets(
    tmp_path: Path, name: str, encoding: str, given_encoding: str | None, form: str
) -> None:
    text = (
        unicodedata.normalize(form, SWEDISH) if encoding != "latin-1" else "åäö ÅÄÖ é"
    )  # all that Latin-1 has of it
    path = tmp_path / f"{name}.txt"
    path.write_bytes((f"{text}\n" * 50).encode(encoding))
    read = list(lines(path, given_encoding))
    assert read == [text] * 50
    tokenizer = Tokenizer.train(read, size=100, case="keep")
    encoding_found = tokenizer.encode([text])[0]
    body = [i for i, part in enumerate(encoding_found.parts) if part == 0]
    assert tokenizer.unk not in encoding_found.ids
    assert unicodedata.normalize(
        "NFC", tokenizer.decode(encoding_found.ids)
    ) == unicodedata.normalize("NFC", text)
    spelled = "".join(text[start:end] for start, end in (encoding_found.offsets[i] for i in body))
    assert spelled == text.replace(" ", "")


def test_a_wrong_encoding_stops_and_names_the_likely_one(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("å är ö\n".encode("latin-1") * 10)
    with pytest.raises(InputError, match=r"latin\.txt .*encoding='cp1252'"):
        list(lines(path))
    for name in ("klingon", "zlib", "rot13", "punycode"):
        with pytest.raises(InputError, match=f"no encoding '{name}'"):
            list(lines(path, name))


def test_a_few_bad_bytes_are_replaced_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "mostly.txt"
    path.write_bytes(b"good text\n" * 1000 + b"one \xff byte\n" + "a real \ufffd\n".encode())
    report = Report()
    assert list(lines(path, None, report))[-2:] == ["one \ufffd byte", "a real \ufffd"]
    assert report.replaced == 1


@pytest.mark.parametrize("data", [b"a\nb\0c\n", "hello\n".encode("utf-16-le")])
def test_nul_bytes_stop_with_file_and_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "nul.txt"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"nul\.txt:\d has NUL bytes"):
        list(lines(path))


def test_objects_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"subject": "Hi", "body": "there"}\n\n{"subject": "x", "body": "\\ud800y"}\n')
    report = Report()
    assert list(texts(path, "subject,body", None, report)) == ["Hi\nthere", "x\n\ufffdy"]
    assert report.replaced == 1
    assert [number for number, _ in records(path)] == [1, 3]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[1]", "holds a JSON list"),
        ('{"title": "x"}', "no field 'text'; it has title"),
        ('{"text": 3}', "holds int"),
    ],
)
def test_bad_objects_are_refused_with_file_and_line(
    tmp_path: Path, line: str, complaint: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(json.dumps({"text": "fine"}) + f"\n{line}\n")
    with pytest.raises(InputError, match=r"bad\.jsonl:2 ?.*" + complaint):
        list(texts(path))


def test_folders_are_walked_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/two.txt", "a.txt", ".hidden.txt", "c.pdf"):
        (tmp_path / name).write_text("one\ntwo\n\n\nthree\n")
    (tmp_path / "d.JSONL").write_text('{"text": "x\\ny"}\n')
    (tmp_path / "loop").symlink_to(tmp_path)
    assert [path.name for path in corpus_files([tmp_path])] == ["a.txt", "two.txt", "d.JSONL"]
    expected = [("one", True), ("two", False), ("three", True)] * 2 + [("x", True), ("y", False)]
    assert list(paragraphs(corpus_files([tmp_path]))) == expected


def test_each_row_of_a_table_is_a_document(tmp_path: Path) -> None:
    (tmp_path / "mail.csv").write_text(
        'subject,body,queue\nInvoice 17,"Charged, twice\nand late",money\nCard,A new one,cards\n'
    )
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\tlabel\nOne.\tTwo.\t1\n")
    (tmp_path / "words.conll").write_text("Anna B-PER\nreste O\n\nHem O\n")
    mail = [
        ("Invoice 17", True),
        ("Charged, twice", False),
        ("and late", False),
        ("Card", True),
        ("A new one", False),
    ]
    assert list(paragraphs([tmp_path / "mail.csv"], "subject,body")) == mail
    assert list(paragraphs([tmp_path / "pairs.tsv"])) == [("One.", True), ("Two.", False)]
    assert list(paragraphs([tmp_path / "words.conll"])) == [("Anna reste", True), ("Hem", True)]
    with pytest.raises(InputError, match=r"which column holds the text.*text='body'"):
        list(paragraphs([tmp_path / "mail.csv"]))
    with pytest.raises(InputError, match="tables can be named one by one"):
        corpus_files([tmp_path])


def test_a_row_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mail.csv"
    path.write_text("text,queue\nfine,a\nno queue\n")
    with pytest.raises(InputError, match=r"mail\.csv:3 has 1 field where there should be 2"):
        list(paragraphs([path]))


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"has no \.txt or \.jsonl file"):
        corpus_files([tmp_path])


def test_one_long_packed_line_is_read_in_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "long.txt.gz"
    path.write_bytes(gzip.compress(b"word " * 2_000_000))
    begun = time.perf_counter()
    assert [len(line) for line in lines(path)] == [10_000_000]
    assert time.perf_counter() - begun < 5


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(InputError, match="not a regular file"):
        list(lines(tmp_path / "pipe.txt"))
    with pytest.raises(InputError, match="is a folder"):
        list(lines(tmp_path))
    with pytest.raises(InputError, match="there is no file"):
        list(lines(tmp_path / "none.txt"))
