"""Files that are no UTF-8: what they are is named, and the advice works when it is followed."""

import io
import re
import shlex
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather, ipc, parquet

from firth.data.examples import Labelled
from firth.text.lines import lines
from firth.text.repair import ungarble
from firth.text.tokenizer import Tokenizer
from tests.journey.command import Ended, run
from tests.unit.reads import open_file

TABLE = pa.table({"text": ["Hej då", "Å, ja", "så är det"], "label": ["a", "b", "a"]})
EXPORT = "text,label\n“Hej” – då,5 €\n‘så’ är det…,6 €\nŠtěpán’s,5 €\n".replace("ě", "e")
SMALL = ("--size", 100)


def refused(ended: Ended, *said: str) -> str:
    assert (ended.code, ended.out) == (2, ""), ended
    for words in said:
        assert words in ended.err
    return ended.err


def zipped(*names: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in names:
                archive.writestr(name, "<xml>åäö</xml>" * 50)

    return write


def office(stream: str) -> Callable[[Path], None]:
    """The first bytes of an OLE file, and a name of its directory."""
    data = (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
        + bytes(504)
        + "Root Entry".encode("utf-16-le")
        + bytes(44)
    )
    return lambda path: path.write_bytes(data + stream.encode("utf-16-le") + bytes(400)) and None


def database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("create table texts (text)")
    connection.close()


def archive(path: Path) -> None:
    with tarfile.open(path, "w") as packed:
        packed.addfile(tarfile.TarInfo("a.txt"), io.BytesIO())


def stream(path: Path) -> None:
    with ipc.new_stream(path, TABLE.schema) as writer:
        writer.write_table(TABLE)


KINDS = {
    "an Excel workbook (.xlsx)": zipped("[Content_Types].xml", "_rels/.rels", "xl/workbook.xml"),
    "a Word document (.docx)": zipped("[Content_Types].xml", "word/document.xml"),
    "a zip archive": zipped("export.csv"),
    "an Excel workbook (.xls)": office("Workbook"),
    "a Word document (.doc)": office("WordDocument"),
    "an Arrow file": lambda path: feather.write_feather(TABLE, path, compression="uncompressed"),
    "an Arrow file, not text: make parquet of it": stream,
    "an SQLite database": database,
    "a tar archive": archive,
    "a PDF": lambda path: path.write_bytes(b"%PDF-1.7\n%\xb5\xb5\xb5\xb5\n1 0 obj\n"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["export.csv", "export.txt"])
def test_a_file_that_is_no_text_is_named(kind: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    KINDS[kind](path)
    for words in (
        ("check", path),
        ("vocab", path, "-o", tmp_path / "words"),
        ("check", path, "--encoding", "utf-16-le"),
    ):
        said = refused(run(*words), f"{name} is {kind}", "not text: ")
        assert "utf-16" not in said
    refused(run("pretrain", path, "-o", tmp_path / "out", "--steps", 1), f"{name} is {kind}")


def test_the_advice_for_an_arrow_file_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    KINDS["an Arrow file"](Path("file.arrow"))
    stream(Path("stream.csv"))
    scripts = []
    for name in ("file.arrow", "stream.csv"):
        said = refused(run("check", name), f"{name} is an Arrow file")
        scripts.append(shlex.split(said[said.index("python -c") :])[2])
    subprocess.run([sys.executable, "-c", "\n".join(scripts)], check=True)
    for name in ("file.parquet", "stream.parquet"):
        assert [row.example.text for row in open_file(Path(name)) if row.example] == TABLE[
            "text"
        ].to_pylist()


def test_parquet_and_packed_files_are_read_under_any_name(tmp_path: Path) -> None:
    parquet.write_table(TABLE, tmp_path / "export.csv")
    assert run("check", tmp_path / "export.csv").code == 0


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le", "utf-16-be"])
def test_the_encoding_that_is_advised_gives_the_right_characters(
    encoding: str, tmp_path: Path
) -> None:
    path = tmp_path / "export.csv"
    path.write_bytes(EXPORT.encode(encoding))
    said = refused(run("check", path), f"(--encoding {encoding})")
    (advised,) = re.findall(r"--encoding ([\w-]+)", said)
    assert run("check", path, "--encoding", advised).code == 0
    rows = [line.split(",") for line in EXPORT.splitlines()[1:]]
    assert [row.example for row in open_file(path, encoding=advised)] == [
        Labelled(text, label) for text, label in rows
    ]


def test_latin_1_is_read_as_windows_does(tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    path.write_bytes(b"\x93caf\xe9\x94 \x96 5 \x80 \x81\n")
    assert list(lines(path, "latin-1")) == list(lines(path, "ISO-8859-1")) == ["“café” – 5 € \x81"]


def test_what_no_encoding_reads_gets_no_advice_in_a_circle(tmp_path: Path) -> None:
    path = tmp_path / "noise.txt"
    path.write_bytes(bytes(range(1, 256)) * 20)
    assert "it may be" not in refused(
        run("check", path), "noise.txt isn't utf-8", "name its encoding with --encoding"
    )
    (tmp_path / "nul.csv").write_text("text,label\nfine,a\nbro\0ken,b\n")
    assert "utf-16" not in run("check", tmp_path / "nul.csv").out


# Mojibake in a corpus


GARBLED = "Tåget är sent – “igen”.".encode().decode("cp1252", "replace").replace("\ufffd", "\x9d")


def corpus(path: Path, bad: int, lines: int) -> Path:
    path.write_text(
        "".join(f"{GARBLED if n < bad else 'Bussen är i tid.'}\n" for n in range(lines)),
        encoding="utf-8",
    )
    return path


def test_mojibake_stops_vocab_and_pretrain(tmp_path: Path, vocab: Path) -> None:
    path = corpus(tmp_path / "old.txt", 3, 100)
    for words in (
        ("vocab", path, *SMALL),
        ("pretrain", path, "--steps", 1),
        ("pretrain", path, "--steps", 1, "--vocab", vocab),
    ):
        said = refused(
            run(*words, "-o", tmp_path / "out"), "old.txt: 3 of 100 lines have signs such as 'Ã¥'"
        )
        assert not (tmp_path / "out").exists()
    wrong = tmp_path / "new.txt"
    wrong.write_text("Tåget är sent.\n" * 5, encoding="utf-8")
    refused(
        run("vocab", wrong, "-o", tmp_path / "out", "--encoding", "latin-1"),
        "or none if it is UTF-8",
    )
    # What is advised: the file as it is, or repaired.
    ended = run("vocab", path, "-o", tmp_path / "as-it-is", "--encoding", "utf-8", *SMALL)
    assert ended.code == 0
    assert "note: 3 lines have signs that UTF-8 becomes" in ended.err
    command = re.search(r"python (-m firth\.text\.repair) < old\.txt > NEW", said)
    assert command
    with path.open("rb") as old, (tmp_path / "NEW.txt").open("wb") as new:
        subprocess.run([sys.executable, *command[1].split()], stdin=old, stdout=new, check=True)
    assert (tmp_path / "NEW.txt").read_text(
        encoding="utf-8"
    ) == "Tåget är sent – “igen”.\n" * 3 + "Bussen är i tid.\n" * 97
    ended = run("vocab", tmp_path / "NEW.txt", "-o", tmp_path / "repaired", *SMALL)
    assert (ended.code, ended.err) == (0, "")


def test_a_little_mojibake_is_reported(tmp_path: Path) -> None:
    path = corpus(tmp_path / "old.txt", 1, 1000)
    said = "note: 1 line has signs that UTF-8 becomes when it is read as another encoding, the first 'Ã¥' in old.txt\n"
    ended = run("vocab", path, "-o", tmp_path / "words", *SMALL)
    assert (ended.code, ended.err) == (0, said)
    ended = run("pretrain", path, "-o", tmp_path / "out", "--model", "ngram")
    assert ended.code == 0
    assert said in ended.err


@pytest.mark.parametrize(
    "text", ["café – “déjà” 5 €", "ÅÄÖ ÂÃ", "naïve »så« ½ × 3", "日本語 Ωμέγα"]
)
def test_right_text_is_not_repaired(text: str) -> None:
    assert ungarble(text) == text
    assert ungarble(text.encode().decode("latin-1")) == text


# Files that are passed over


def test_files_passed_over_are_counted_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    (folder / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "a.txt").write_text(
        "The boat left the harbour at dawn.\nThe crew slept until noon.\n"
    )
    for name in ("b.txt", "scan.pdf", "deep/c.docx", ".hidden.txt", ".git/config"):
        (folder / name).write_text("" if name == "b.txt" else "text")
    said = (
        "note: 5 files were passed over: 2 of other kinds (deep/c.docx, scan.pdf), 2 hidden (.git/config, .hidden.txt), "
        "1 empty (b.txt)\n"
    )
    ended = run("vocab", folder, "-o", tmp_path / "words", *SMALL)
    assert (ended.code, ended.err) == (0, said)
    for words in (
        ("pretrain", folder, "-o", tmp_path / "out", "--model", "ngram"),
        ("evaluate", tmp_path / "out", "--data", folder),
    ):
        ended = run(*words)
        assert ended.code == 0, ended.err
        assert ended.err.count(said) == 1
    assert said in run("check", folder).err
    assert Tokenizer.open(tmp_path / "words").size <= 100
