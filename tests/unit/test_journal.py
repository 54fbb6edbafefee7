"""A journal is read while it is written: half lines wait, a cut one is read anew, a damaged one is named."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from firth.base import locks
from firth.base.errors import InputError
from firth.base.journal import LONGEST_LINE, Journal, JournalReader
from firth.base.locks import is_held


def read(reader: JournalReader) -> list[int]:
    return [record["step"] for record in reader]


def test_new_records_are_read_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "metrics.jsonl")
    reader = JournalReader(journal.path)
    assert not reader.renew()  # nothing is there yet
    assert read(reader) == []
    journal.add(step=1, loss=2.0)
    journal.add(step=2, loss=1.0)
    assert reader.renew()
    assert read(reader) == [1, 2]
    assert read(reader) == []
    journal.add(step=3, loss=0.5)
    assert not reader.renew()
    assert read(reader) == [3]
    reader.close()


def test_a_half_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    reader = JournalReader(path)
    line = (
        json.dumps({"step": 7, "loss": 1.5, "name": "größe"}, ensure_ascii=False).encode() + b"\n"
    )
    with path.open("ab", buffering=0) as file:
        for at in range(len(line)):  # each byte on its own, that of a letter's half too
            file.write(line[at : at + 1])
            reader.renew()
            found = list(reader)
            assert bool(found) == (at == len(line) - 1)
    assert found == [{"step": 7, "loss": 1.5, "name": "größe"}]
    reader.close()


@pytest.mark.parametrize("way", ["cut", "replaced", "rewritten", "removed"])
def test_a_resumed_runs_journal_is_read_anew(tmp_path: Path, way: str) -> None:
    journal = Journal(tmp_path / "metrics.jsonl")
    for step in (1, 2, 3, 4):
        journal.add(step=step)
    with journal.path.open("ab") as file:
        file.write(b'{"step": 5, "lo')  # the run was killed here
    reader = JournalReader(journal.path)
    reader.renew()
    assert read(reader) == [1, 2, 3, 4]
    if way == "cut":
        journal.cut(2)
    elif way == "replaced":
        for _ in range(3):  # as long as the file is open, no other gets its number
            journal.cut(4)
            journal.cut(2)
    elif way == "rewritten":
        journal.path.write_text('{"step": 1}\n{"step": 2}\n')
    else:
        journal.path.unlink()
        assert reader.renew()
        assert read(reader) == []
        journal.add(step=1)
        journal.add(step=2)
    assert reader.renew()
    assert read(reader) == [1, 2]
    journal.add(step=3)
    assert not reader.renew()
    assert read(reader) == [3]
    reader.close()


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b"[1, 2]",
        b"{}",
        b'{"step": "1"}',
        b'{"step": true}',
        b'{"step": -1}',
        b'{"step": 1.5}',
        b'{"step": 1e400}',
        b'{"step": ' + b"9" * 5000 + b"}",
        b'{"step": 1, "dev": [1]}',
        b'{"step": 1, "dev": null}',
        b"[" * 100_000,
        b"\xff\xfe",
        b"\0" * 64,
        b"x" * (LONGEST_LINE + 1),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n' + line + b"\n")
    reader = JournalReader(path)
    reader.renew()
    records = iter(reader)
    assert next(records) == {"step": 1}
    with pytest.raises(InputError, match=r"metrics\.jsonl:2 .*damaged"):
        next(records)
    reader.close()


HOLD = """
import fcntl, os, sys
with open(sys.argv[1], "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print(os.getpid(), file=lock, end="", flush=True)
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_held_lock_is_seen_and_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    assert is_held(path) is False
    path.write_text(str(os.getpid()))
    assert is_held(path) is False
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert is_held(path) is True
        other = tmp_path / "other"
        other.write_text(path.read_text())
        assert is_held(other) is False
        process.communicate()
    assert is_held(path) is False
    monkeypatch.setattr(locks, "LOCKS", tmp_path / "nowhere")
    assert is_held(path) is None
