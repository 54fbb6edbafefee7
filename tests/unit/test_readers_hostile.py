"""Files of examples that are damaged or made to do harm: rows are rejected by name, soon, and none is lost uncounted."""

import gzip
import io
import json
import os
import random
import resource
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard

from firth.base.errors import InputError
from firth.reading.readers import Reading
from firth.reading.survey import Findings, survey
from tests.conftest import count
from tests.unit.reads import open_file

SECONDS = 5  # of the processor, so that a busy machine changes nothing
PACKERS: list[Callable[[bytes], bytes]] = [gzip.compress, zstandard.ZstdCompressor().compress]
# What files break on: marks of each format, ends of lines, and bytes that are no text.
JUNK = [
    *(
        b'"',
        b'""',
        b"'",
        b",",
        b";",
        b"\t",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b"\\",
        b"\\u",
        b"\\ud800",
    ),
    *(
        b"\0",
        b"\xff",
        b"\xc3",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\xf0\x9f\x98\x80",
        "å".encode(),
        "\u2028".encode(),
        b"\x85",
        b" ",
        b"",
    ),
    *(
        b"NaN",
        b"1e999",
        b"-1",
        b"9" * 5000,
        b"null",
        b"true",
        b"[" * 2000,
        b'{"a":' * 2000,
        b"O",
        b"B-",
        b"I-PER",
        b"-DOCSTART-",
    ),
    *(b"text", b"label", b"spans", b"tokens", b"x" * 20_000, b'"\n' * 50, b"\n" * 50, b"PAR1"),
]


def sound() -> dict[str, bytes]:
    """A small file of every kind."""
    rows = [
        {"text": f"Mening {number} är å", "label": "ja" if number % 2 else "nej"}
        for number in range(12)
    ]
    spans = [
        {
            "text": "Ada åt i Lund",
            "spans": [[0, 3, "PER"], {"start": 9, "end": 13, "label": "LOC"}],
            "id": n,
        }
        for n in range(8)
    ]
    value = {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}
    studio = [
        {
            "id": n,
            "data": {"text": "Ada åt"},
            "annotations": [{"result": [{"type": "labels", "value": value}]}],
        }
        for n in range(4)
    ]
    tokens = [
        {"tokens": ["Ada", "åt", "i", "Lund"], "tags": ["B-PER", "O", "O", "B-LOC"]}
        for _ in range(8)
    ]
    pairs = [f"{row['text']}\t{row['text']}!\t{number / 4}" for number, row in enumerate(rows)]
    texts = {
        "a.csv": "text,label\n"
        + "".join(f'"{row["text"]}, ""så""\noch",{row["label"]}\n' for row in rows),
        "b.csv": "text;label\r\n" + "".join(f"{row['text']};{row['label']}\r\n" for row in rows),
        "c.tsv": "sentence1\tsentence2\tscore\n" + "\n".join(pairs),
        "cola.tsv": "".join(
            f"gj04\t{number % 2}\t*\t{row['text']}\n" for number, row in enumerate(rows)
        ),
        "d.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "e.jsonl": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in spans),
        "f.jsonl": "".join(json.dumps(row) + "\n" for row in tokens),
        "g.json": json.dumps(studio, indent=1),
        "h.json": json.dumps(studio),
        "i.conll": "-DOCSTART- O\n\n" + "Ada NN B-PER\nLind NN I-PER\nlog VB O\n\n" * 6,
        "j.txt": "En rad.\nEn till.\n\nEtt stycke.\n",
    }
    return {name: text.encode() for name, text in texts.items()} | parquets(rows)


def parquets(rows: list[dict[str, str]]) -> dict[str, bytes]:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        return {}
    files = {}
    for name, codec in (("k.parquet", "none"), ("l.parquet", "snappy")):
        screen = io.BytesIO()
        parquet.write_table(
            arrow.Table.from_pylist(rows), screen, compression=codec, row_group_size=5
        )
        files[name] = screen.getvalue()
    return files


def changed(data: bytes, draw: random.Random) -> bytes:
    """Put junk in, take a part out, double it, or move it."""
    at, to = sorted((draw.randrange(len(data) + 1), draw.randrange(len(data) + 1)))
    near = min(len(data), at + draw.choice([0, 1, 1, 5, 50]))
    ways = [
        data[:at] + draw.choice(JUNK) + data[near:],
        data[:at] + draw.choice(JUNK) + data[near:],
        data[:at] + draw.randbytes(near - at) + data[near:],
        data[:at] + data[near:],
        data[:at],
        data[:to] + data[at:to] * draw.choice([1, 30]) + data[to:],
        data[to:] + data[at:to] + data[:at],
    ]
    return draw.choice(ways)[:200_000]


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Change a few places; now and then pack the file, and damage the packing too."""
    for _ in range(draw.choice([1, 1, 2, 3, 8])):
        data = changed(data, draw)
    if draw.random() < 0.1:
        data = draw.choice(PACKERS)(data)
        if draw.random() < 0.7:
            at = draw.randrange(len(data))
            data = (
                data[:at] + draw.randbytes(1) + data[at + 1 :] if draw.random() < 0.5 else data[:at]
            )
    return data


def lines_of_objects(data: bytes) -> int | None:
    """How many rows a .jsonl file has, counted another way; nothing where it isn't plain UTF-8."""
    try:
        return sum(
            1 for line in data.decode("utf-8").removeprefix("\ufeff").split("\n") if line.strip()
        )
    except UnicodeDecodeError:
        return None


def all_counted(reading: Reading, data: bytes) -> None:
    """Go through a file once more and count its rows and faults by hand."""
    counts = reading.counts
    rows = list(reading)
    faults = [row.fault for row in rows if row.fault]
    left_out = counts.rejected + counts.unlabelled
    assert counts.kept + counts.repaired + left_out == counts.rows == len(rows)
    assert counts == reading.counts
    assert left_out == sum(row.example is None for row in rows)
    assert counts.unlabelled == sum(fault.kind == "unlabelled" for fault in faults)
    assert counts.repaired + left_out == len(faults)
    assert all("\n" not in fault.said for fault in faults)
    if reading.kind == "jsonl" and not any(fault.kind == "unreadable" for fault in faults):
        assert lines_of_objects(data) in (None, len(rows))


def test_no_mutation_does_harm(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    files = sound()
    outcomes: Counter[str] = Counter()
    for number in range(count(10_000)):
        name = sorted(files)[number % len(files)]
        data = mutated(files[name], draw)
        path = tmp_path / (
            name
            if draw.random() < 0.8
            else draw.choice(["x", "x.txt", "x.tsv", "x.jsonl", "x.csv", "x.json"])
        )
        path.write_bytes(data)
        begun = time.process_time()
        try:
            reading = open_file(path)
            survey(reading, Findings())
            left_out = reading.counts.rejected + reading.counts.unlabelled
            outcomes["faults" if left_out else "clean"] += 1
            all_counted(reading, data)
        except InputError as error:
            outcomes[
                "refused" if path.name in str(error) and "\n" not in str(error) else "unnamed"
            ] += 1
        assert time.process_time() - begun < SECONDS, (path, seed, number)
        path.unlink()
    print(dict(outcomes))
    assert outcomes["unnamed"] == 0
    assert min(outcomes[outcome] for outcome in ("refused", "clean", "faults")) > 0


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.conll", "a.txt", "a"])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b" \n \n",
        b"\0" * 1000,
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b'"',
        b"{",
        b"[",
        b"]" * 1000,
        b"[" * 1_000_000,
        b'{"a":' * 200_000,
        b'"' * 1_000_001,
        b"a b" * 300_000,
        b"a\tb\n" * 100_000,
        b'"a\n' * 100_000,
        b"[{}," * 50_000,
        b"PAR1",
        b"PAR1" * 100,
        b"\x1f\x8b",
        gzip.compress(b"\0" * 20_000_000, mtime=0),
        gzip.compress(b"a" * 20_000_000, mtime=0),
    ],
    ids=lambda data: f"{data[:6]!r}x{len(data)}",
)
def test_odd_files_end_soon(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    begun = time.process_time()
    with suppress(InputError):
        reading = open_file(tmp_path / name)
        assert sum(1 for _ in reading) == reading.counts.rows
    assert time.process_time() - begun < SECONDS


def test_a_long_file_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for number in range(60):
            file.write(
                (json.dumps({"text": f"{number} " + "ord " * 250, "label": "ja"}) + "\n").encode()
                * 1000
            )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    reading = open_file(path)
    assert sum(1 for _ in reading) == 60_000
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    )  # kB; the file has 60 MB of text


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    (tmp_path / "folder.csv").mkdir()
    for name in ("pipe.csv", "loop.csv", "folder.csv", "absent.csv"):
        with pytest.raises(InputError, match=name.replace(".", r"\.")):
            open_file(tmp_path / name)
