"""A checkpoint is whole or it isn't used: whatever happens to its files, to the disk or to the process that writes it."""

import errno
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from firth.base import files
from firth.base.errors import FirthError, InputError, RunWarning
from firth.base.journal import Journal
from firth.train import checkpoint
from firth.train.checkpoint import Checkpoint
from firth.train.run import Run

DAMAGED = 100  # of each kind
POSITIONS = 50  # at which the disk is full
OLD, NEW = 10, 20
NAMES = ("weights.safetensors", "optimizer.safetensors", "state.json", "manifest.json")


def made(step: int) -> Checkpoint:
    """A small checkpoint that looks like a real one."""
    draw = torch.Generator().manual_seed(step)
    weights = {
        "encoder.table": torch.randn(11, 5, generator=draw),
        "encoder.bias": torch.randn(5, generator=draw),
    }
    moments = {f"exp_avg.{name}": tensor * 0.1 for name, tensor in weights.items()}
    counts = {f"step.{name}": torch.tensor(float(step)) for name in weights}
    return Checkpoint(
        step,
        {"weights": weights, "optimizer": {**moments, **counts}},
        {"best": {"step": step, "metrics": {}}},
    )


def same(found: Checkpoint | None, expected: Checkpoint) -> bool:
    """To the bit."""
    if (
        found is None
        or (found.step, found.state) != (expected.step, expected.state)
        or found.tensors.keys() != expected.tensors.keys()
    ):
        return False
    pairs = ((found.tensors[part], tensors) for part, tensors in expected.tensors.items())
    return all(
        a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in b) for a, b in pairs
    )


def named(parent: Path, step: int, name: str = "") -> Path:
    return parent / f"step-{step:09}" / name


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """Two whole checkpoints."""
    folder = tmp_path / "checkpoints"
    checkpoint.save_checkpoint(folder, made(OLD), ())
    checkpoint.save_checkpoint(folder, made(NEW), (OLD,))
    return folder


def test_what_was_saved_is_loaded(parent: Path) -> None:
    assert checkpoint.saved_steps(parent) == [NEW, OLD]
    for step in (OLD, NEW):
        assert same(checkpoint.load_checkpoint(parent, step), made(step))
        assert sorted(path.name for path in named(parent, step).iterdir()) == sorted(NAMES)
    assert same(checkpoint.newest(parent), made(NEW))
    assert checkpoint.newest(parent / "none") is None


# Damage


def truncated(path: Path, other: Path, draw: random.Random) -> None:
    os.truncate(path, draw.randrange(path.stat().st_size))


def flipped(path: Path, other: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def missing(path: Path, other: Path, draw: random.Random) -> None:
    path.unlink()


def swapped(path: Path, other: Path, draw: random.Random) -> None:
    path.write_bytes(other.read_bytes())


def emptied(path: Path, other: Path, draw: random.Random) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [truncated, flipped, missing, swapped, emptied])
def test_damage_is_never_loaded(
    damage: Callable[[Path, Path, random.Random], None],
    parent: Path,
    seed: int,
) -> None:
    draw = random.Random(seed)
    refused = 0
    for trial in range(DAMAGED):
        name = NAMES[trial % len(NAMES)]
        path = named(parent, NEW, name)
        sound = path.read_bytes()
        damage(path, named(parent, OLD, name), draw)
        with pytest.raises(InputError, match=re.escape(str(path))):
            checkpoint.load_checkpoint(parent, NEW)
        refused += 1
        with pytest.warns(RunWarning) as warned:
            assert same(checkpoint.newest(parent), made(OLD))
        (text,) = (str(one.message) for one in warned)
        assert re.fullmatch(r"[^\n]+; trying the checkpoint before it", text), text
        assert str(path) in text
        path.write_bytes(sound)
        assert same(checkpoint.newest(parent), made(NEW))  # a warning would be an error
    print(f"{refused} of {DAMAGED} {damage.__name__}")


def test_a_whole_folder_under_another_step(parent: Path) -> None:
    shutil.rmtree(named(parent, NEW))
    shutil.copytree(named(parent, OLD), named(parent, NEW))
    with pytest.raises(InputError, match=f"is of step {OLD} and format 1, not of step {NEW}"):
        checkpoint.load_checkpoint(parent, NEW)


def test_a_folder_without_anything(parent: Path) -> None:
    shutil.rmtree(named(parent, NEW))
    named(parent, NEW).mkdir()
    with pytest.warns(RunWarning, match="trying the checkpoint before it"):
        assert same(checkpoint.newest(parent), made(OLD))


def test_no_checkpoint_is_whole(parent: Path) -> None:
    for step in (OLD, NEW):
        os.truncate(named(parent, step, "weights.safetensors"), 40)
    none = "none of the 2 checkpoints is whole; force=True begins the run anew"
    with pytest.warns(RunWarning) as warned, pytest.raises(InputError, match=none):
        checkpoint.newest(parent)
    assert len(warned) == 2


def test_a_damaged_one_is_written_again(parent: Path) -> None:
    named(parent, NEW, "state.json").unlink()
    checkpoint.save_checkpoint(parent, made(NEW), (OLD,))
    assert same(checkpoint.newest(parent), made(NEW))
    assert checkpoint.saved_steps(parent) == [NEW, OLD]
    assert not [*parent.glob(".*")]


# A full disk


class Disk:
    """A disk with room for so many bytes; files on it are real."""

    def __init__(self, room: int) -> None:
        self.room = room

    def open(self, path: Path, mode: str) -> io.BufferedWriter:
        disk = self

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                part = memoryview(data).cast("B")[: disk.room]
                if not part and len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                disk.room -= len(part)
                return super().write(part)  # type: ignore[return-value]

        return io.BufferedWriter(File(path, mode.replace("b", "")))


FULL = r"^the checkpoint of step 30 can't be written: No space left on device; [^\n]+$"


def test_a_full_disk(parent: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {
        path.relative_to(parent): path.read_bytes() for path in parent.rglob("*") if path.is_file()
    }
    size = sum(path.stat().st_size for path in named(parent, NEW).iterdir())
    true_open = Path.open
    failed = 0
    for room in (0, 1, size - 1, *random.Random(seed).sample(range(2, size - 1), POSITIONS - 3)):
        disk = Disk(room)

        def full_open(
            path: Path, mode: str = "r", *rest: Any, disk: Disk = disk, **options: Any
        ) -> Any:
            return (
                disk.open(path, mode) if mode == "wb" else true_open(path, mode, *rest, **options)
            )

        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", full_open)
            with pytest.raises(FirthError, match=FULL) as caught:
                checkpoint.save_checkpoint(parent, made(30), ())
        assert caught.value.exit_code == 1
        assert {
            path.relative_to(parent): path.read_bytes()
            for path in parent.rglob("*")
            if path.is_file()
        } == before
        assert sorted(path.name for path in parent.iterdir()) == [
            named(parent, step).name for step in (OLD, NEW)
        ]
        failed += 1
    assert same(checkpoint.newest(parent), made(NEW))
    assert failed == POSITIONS
    checkpoint.save_checkpoint(parent, made(30), ())
    assert checkpoint.saved_steps(parent) == [30]


def test_space_is_checked_at_the_start(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(parent.parent)
    held = sum(path.stat().st_size for path in parent.rglob("*") if path.is_file())
    usage = namedtuple("usage", "total used free")
    needed = int(1e6 * (2 + 1) * 1.1)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1 << 40, 0, needed - held - 1))
    with pytest.raises(
        FirthError, match=r"checkpoints need 3 MB and the disk has 3 MB left"
    ) as caught:
        run.check_space(1_000_000, 2)
    assert caught.value.exit_code == 1
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1 << 40, 0, needed - held))
    run.check_space(1_000_000, 2)


# The order in which things reach the disk

Events = list[tuple[str, str]]
_listeners: list[Events] = []


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    for events in _listeners:
        if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
            events.append(("write", os.fspath(arguments[0])))
        elif event == "os.rename":
            events.append(("rename", f"{os.fspath(arguments[0])} > {os.fspath(arguments[1])}"))
        elif event in ("os.remove", "os.rmdir", "shutil.rmtree"):
            events.append(("remove", os.fspath(arguments[0])))


sys.addaudithook(_listen)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Events]:
    """What is written, synced, renamed and removed, in order."""
    events: Events = []
    true_sync = os.fsync

    def fsync(handle: int) -> None:
        true_sync(handle)
        events.append(("sync", str(Path(f"/proc/self/fd/{handle}").readlink())))

    monkeypatch.setattr(os, "fsync", fsync)
    _listeners.append(events)
    yield events
    _listeners.clear()


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="this system doesn't tell the name of an open file"
)
def test_every_save_is_on_disk_before_it_has_its_name(tmp_path: Path, heard: Events) -> None:
    parent = (tmp_path / "checkpoints").resolve()
    for step in range(1, 13):
        heard.clear()
        checkpoint.save_checkpoint(parent, made(step), {step - 1})
        name = f"step-{step:09}"
        fresh = parent / f".{name}.new"
        rename = heard.index(("rename", f"{fresh} > {parent / name}"))
        synced = [heard.index(("sync", str(fresh / file))) for file in NAMES]
        for file, at in zip(NAMES, synced, strict=True):
            written = [
                place for place, event in enumerate(heard) if event == ("write", str(fresh / file))
            ]
            assert len(written) == 1
            assert written[0] < at < rename
        assert max(synced) == synced[NAMES.index("manifest.json")]
        assert max(synced) < heard.index(("sync", str(fresh))) < rename
        folder = heard.index(("sync", str(parent)))
        assert rename < folder
        pruned = [
            place
            for place, (what, path) in enumerate(heard)
            if what in ("rename", "remove") and place != rename
        ]
        assert bool(pruned) == (step > 2)
        assert all(place > folder for place in pruned)
        assert checkpoint.saved_steps(parent) == [step, step - 1][: min(step, 2)]


def test_a_kill_inside_a_save_leaves_a_whole_checkpoint(parent: Path, tmp_path: Path) -> None:
    """Before it has its name the newest whole one is the one before, after that the new one."""
    third = made(30)
    places = (
        "before-write",
        "mid-write",
        "before-sync",
        "before-manifest",
        "before-folder-sync",
        "before-rename",
    )
    for place, expected in [
        *((place, NEW) for place in places),
        ("after-rename", 30),
        ("while-pruning", 30),
    ]:
        copy = tmp_path / place
        shutil.copytree(parent, copy)
        pid = os.fork()
        if pid == 0:
            os.environ["FIRTH_FAILPOINT"] = place
            checkpoint.save_checkpoint(copy, third, ())
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        assert same(checkpoint.newest(copy), made(expected))
        checkpoint.sweep(copy)
        assert not [*copy.glob(".*")]
        checkpoint.save_checkpoint(copy, made(30), ())
        assert checkpoint.saved_steps(copy) == [30]


# The lock


def test_two_runs_in_one_folder(tmp_path: Path) -> None:
    run = Run(tmp_path / "out.run")
    pid = os.fork()
    if pid == 0:
        with run.locked():
            (tmp_path / "ready").touch()
            time.sleep(60)
        os._exit(0)
    try:
        while not (tmp_path / "ready").exists():
            time.sleep(0.01)
        with (
            pytest.raises(
                InputError, match=rf"out\.run is in use by another run \(process {pid}\)$"
            ),
            run.locked(),
        ):
            pass
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    with run.locked():
        assert (run.folder / "lock").read_text() == str(os.getpid())
    with run.locked():  # and again, when the first has ended in peace
        pass


# The journal


def test_a_journal_with_a_torn_last_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "metrics.jsonl")
    assert [*journal] == []
    journal.cut(3)
    assert not journal.path.exists()
    records = [{"step": step, "loss": 1 / (step + 1)} for step in range(5)]
    for record in records:
        journal.add(**record)
    whole = journal.path.read_bytes()
    last = json.dumps(records[-1]).encode()
    for kept in range(len(last)):
        journal.path.write_bytes(whole[: len(whole) - len(last) - 1 + kept])
        assert [*journal] == records[:-1], kept
    journal.cut(len(records) - 1)
    journal.add(**records[-1])
    assert journal.path.read_bytes() == whole
    journal.path.write_bytes(whole[:-1])  # all but the end of the line
    assert [*journal] == records
    journal.cut(len(records))
    assert journal.path.read_bytes() == whole
    journal.cut(2)
    assert [*journal] == records[:2]


def test_a_journal_that_cannot_be_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "metrics.jsonl")
    journal.path.mkdir()
    with pytest.raises(FirthError, match=r"metrics\.jsonl can't be written: Is a directory"):
        journal.add(step=1)


# What is written is what was in memory


def test_a_sum_is_of_what_was_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_open = Path.open

    class Liar(io.FileIO):
        def write(self, data: Any) -> int:
            return super().write(bytes(byte ^ 1 for byte in bytes(data)))  # type: ignore[return-value]

    with monkeypatch.context() as patch:
        patch.setattr(
            Path,
            "open",
            lambda path, mode="r", **rest: (
                Liar(path, "w") if mode == "wb" else true_open(path, mode, **rest)
            ),
        )
        written = files.write_synced(tmp_path / "file", b"some bytes")
    assert files.sha256(tmp_path / "file") != written.sha256
    assert (tmp_path / "file").stat().st_size == written.size
