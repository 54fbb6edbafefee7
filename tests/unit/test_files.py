"""Files from strangers are read with suspicion, and what is written is whole or not there."""

import errno
import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firth.base import files
from firth.base.errors import FirthError, InputError
from firth.base.files import (
    Tensor,
    new_file,
    new_folder,
    parse_json,
    read_bytes,
    read_json,
    sha256,
    tensor_header,
)


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    """A read that waits for ever fails instead."""

    def ring(number: int, frame: object) -> None:
        raise TimeoutError("waited for something that never comes")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def pack(header: Any, body: bytes = b"", length: int | None = None) -> bytes:
    """The bytes of a safetensors file with any header at all."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + body


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def listing(folder: Path) -> dict[str, bytes | None]:
    """Every name below a folder with the bytes of the files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def half_written(path: Path) -> None:
    """Fail in the middle of the work."""
    path.write_text("half")
    raise ZeroDivisionError


# Reading


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * (1 << 20))
    assert len(read_bytes(tmp_path / "a", 1 << 20)) == 1 << 20
    (tmp_path / "a").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(InputError, match="a is larger than 1 MB"):
        read_bytes(tmp_path / "a", 1 << 20)


def test_what_is_not_a_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "loop", "folder", "absent", "x" * 5000, "nul\0"):
        for read in (lambda path: read_bytes(path, 10), tensor_header, sha256):
            began = time.monotonic()
            with pytest.raises(InputError):
                read(tmp_path / name)
            assert time.monotonic() - began < 1
    with pytest.raises(InputError, match="is not a file"):
        sha256(Path(os.devnull))


def test_a_link_to_a_file_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").symlink_to("a")
    assert read_bytes(tmp_path / "b", 10) == b"abc"


def test_json_of_the_right_kind_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"é": [1, 2.5, null, {"x": true}]}', encoding="utf-8")
    assert read_json(tmp_path / "a.json") == {"é": [1, 2.5, None, {"x": True}]}
    assert parse_json(b"[1]", "here", list) == [1]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe\xff", "not valid JSON"),
        (b'{"a": 1, "a": 2}', "a key occurs twice"),
        (b'{"b": {"a": 1, "a": 1}}', "a key occurs twice"),
        (b"[1]", "holds a list where a dict belongs"),
        (b"null", "holds a NoneType"),
        (b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}", "nested too deeply"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
    ],
)
def test_other_json_is_refused_with_its_place(data: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        parse_json(data, "the header of x")
    assert str(caught.value).startswith("the header of x ")
    assert "\n" not in str(caught.value)


def test_depth_is_counted_not_size() -> None:
    assert (
        len(parse_json(b"{" + b",".join(b'"%d": [[]]' % i for i in range(1000)) + b"}", "x"))
        == 1000
    )
    assert parse_json(b'{"a": ' + b"[" * 60 + b"]" * 60 + b"}", "x")


def test_a_sum_is_that_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(256)) * 10_000)
    assert sha256(tmp_path / "a") == hashlib.sha256(bytes(range(256)) * 10_000).hexdigest()


# The header of safetensors


def test_a_sound_header_is_read(tmp_path: Path) -> None:
    header = {
        "b": entry([2, 3], 8, 32),
        "a": entry([1], 0, 8, "I64"),
        "none": entry([0, 7], 32, 32),
        "one": entry([], 32, 33, "BOOL"),
    }
    path = tmp_path / "m"
    path.write_bytes(pack({**header, "__metadata__": {"format": "pt"}}, bytes(33)))
    found = tensor_header(path)
    assert found == {
        "b": Tensor("F32", (2, 3)),
        "a": Tensor("I64", (1,)),
        "none": Tensor("F32", (0, 7)),
        "one": Tensor("BOOL", ()),
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 7,
        pack({"a": entry([2], 0, 8)}, bytes(7)),  # too short
        pack({"a": entry([2], 0, 8)}, bytes(9)),  # bytes that belong to nothing
        pack({"a": entry([2], 4, 12)}, bytes(12)),  # a gap before
        pack({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, bytes(12)),  # a gap between
        pack({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, bytes(12)),  # an overlap
        pack({"a": entry([2], 0, 8), "b": entry([2], 0, 8)}, bytes(8)),  # the same bytes twice
        pack({"a": entry([3], 0, 8)}, bytes(8)),  # the shape says otherwise
        pack({"a": entry([2], 0, 8, "F33")}, bytes(8)),
        pack({"a": entry([2], 8, 0)}, bytes(8)),
        pack({"a": entry([-2], 0, -8)}, bytes(8)),
        pack({"a": entry([-1, -2], 0, 8)}, bytes(8)),
        pack({"a": entry([1 << 40], 0, 4 << 40)}, bytes(8)),
        pack({"a": entry([True, 2], 0, 8)}, bytes(8)),
        pack({"a": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}}, bytes(8)),
        pack({"a": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}}, bytes(8)),
        pack({"a": {"dtype": "F32", "shape": 2, "data_offsets": [0, 8]}}, bytes(8)),
        pack({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4, 8]}}, bytes(8)),
        pack({"a": {"dtype": "F32", "shape": [2]}}, bytes(8)),
        pack({"a": [1, 2, 3]}, bytes(8)),
        pack({"a": None}),
        pack([1]),
        pack(b"not json at all"),
        pack(b'{"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "a": 1}', b"\0"),
        pack({"a": entry([2], 0, 8)}, bytes(8), length=1 << 40),
        pack({"a": entry([2], 0, 8)}, bytes(8), length=(1 << 64) - 1),
        pack({"a": entry([2], 0, 8)}, bytes(8), length=0),
        pack({"a": entry([2], 0, 8)}, bytes(8), length=20),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"m is damaged|header of .*m"):
        tensor_header(path)


def test_a_shape_of_very_many_dimensions_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(pack({"a": entry([(1 << 47) - 1] * 200_000, 0, 8)}, bytes(8)))
    began = time.monotonic()
    with pytest.raises(InputError, match="contradicts itself"):
        tensor_header(path)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    "head",
    [
        b"PK\x03\x04" + bytes(30),
        b"\x80\x02}q\0.",
        b"\x80\x03}q\0.",
        b"\x80\x04}\x94.",
        b"\x80\x04\x95\x05" + bytes(7) + b"}\x94.",
        b"\x80\x05}.",
    ],
)
def test_a_pickle_is_known_by_its_first_bytes(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(head)
    assert files.is_pickle(path)
    with pytest.raises(InputError, match=r"is a pickle.*weights_only=True"):
        tensor_header(path)


@pytest.mark.parametrize(
    "length", [0x4B50, 0x0280, 0x0480]
)  # the first two bytes are those of a zip archive or a pickle
def test_tensors_are_not_taken_for_a_pickle(tmp_path: Path, length: int) -> None:
    path = tmp_path / "m"
    path.write_bytes(pack(json.dumps({"a": entry([1], 0, 4)}).encode().ljust(length), bytes(4)))
    assert not files.is_pickle(path)
    assert tensor_header(path) == {"a": Tensor("F32", (1,))}


# Writing a file


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "er" / "a.txt"
    with new_file(target) as path:
        path.write_text("one")
        assert path.parent == target.parent
        assert not target.exists()
    assert listing(tmp_path) == {"deep": None, "deep/er": None, "deep/er/a.txt": b"one"}


def test_a_failed_file_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    before = listing(tmp_path)
    for target, force in ((tmp_path / "a.txt", True), (tmp_path / "new/er/b.txt", False)):
        with pytest.raises(ZeroDivisionError), new_file(target, force) as path:
            half_written(path)
        assert listing(tmp_path) == before


def test_a_file_is_not_overwritten_unasked(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(InputError, match=r"exists.*force=True"), new_file(target):
        pytest.fail("the body ran")
    assert target.read_text() == "old"
    with new_file(target, force=True) as path:
        path.write_text("new")
        assert target.read_text() == "old"
    assert listing(tmp_path) == {"a.txt": b"new"}
    with pytest.raises(InputError, match="is a folder"), new_file(tmp_path, force=True):
        pytest.fail("the body ran")


def test_a_place_that_cannot_be_is_the_callers_mistake(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    for make in (new_file, new_folder):
        for target in (
            tmp_path / "a.txt" / "b",
            tmp_path / ("x" * 300),
            tmp_path / "a.txt" / "b" / "c",
        ):
            with pytest.raises(InputError, match="can't be written"), make(target) as path:
                path.mkdir(exist_ok=True)
        assert listing(tmp_path) == {"a.txt": b"old"}


def test_a_full_disk_is_the_works_failure(tmp_path: Path) -> None:
    for make in (new_file, new_folder):
        with (
            pytest.raises(
                FirthError, match=r"out.* can't be written: No space left on device$"
            ) as caught,
            make(tmp_path / "out"),
        ):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        assert caught.value.exit_code == 1
        assert listing(tmp_path) == {}


# Writing a folder


def test_a_folder_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "model"
    with new_folder(target) as folder:
        (folder / "sub").mkdir()
        (folder / "sub/a").write_text("one")
        assert not target.exists()
    assert listing(tmp_path) == {
        "deep": None,
        "deep/model": None,
        "deep/model/sub": None,
        "deep/model/sub/a": b"one",
    }


def test_a_failed_folder_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old/config.json").write_text("old")
    before = listing(tmp_path)
    for target, force in ((tmp_path / "old", True), (tmp_path / "new/model", False)):
        with pytest.raises(ZeroDivisionError), new_folder(target, force) as folder:
            half_written(folder / "a")
        assert listing(tmp_path) == before


def test_a_folder_is_not_overwritten_unasked(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    with new_folder(target) as folder:  # an empty one may be filled
        (folder / "config.json").write_text("first")
    with pytest.raises(InputError, match=r"holds something.*force=True"), new_folder(target):
        pytest.fail("the body ran")
    with new_folder(target, force=True) as folder:
        (folder / "b").write_text("second")
        assert listing(target) == {"config.json": b"first"}
    assert listing(tmp_path) == {"model": None, "model/b": b"second"}


def test_what_was_not_made_here_is_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "theses").mkdir()
    (tmp_path / "theses/mine.txt").write_text("years of work")
    (tmp_path / "here").mkdir()
    (tmp_path / "here/config.json").write_text("{}")
    (tmp_path / "here/below").mkdir()
    before = listing(tmp_path)
    monkeypatch.chdir(tmp_path / "here/below")
    for name, complaint in (
        ("file", "is a file"),
        ("theses", "no folder of a model"),
        ("here", "where you are"),
    ):
        for target in (tmp_path / name, tmp_path / "here" / ".." / name):
            with pytest.raises(InputError, match=complaint), new_folder(target, force=True):
                pytest.fail("the body ran")
    assert listing(tmp_path) == before


def test_files_of_a_folder_are_for_all_who_may_read_it(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        with new_folder(tmp_path / "model") as folder:
            (folder / "weights").write_text("x")
            (folder / "weights").chmod(0o600)  # as the library that writes weights leaves it
    finally:
        os.umask(mask)
    assert (tmp_path / "model/weights").stat().st_mode & 0o777 == 0o640


def test_the_old_folder_comes_back_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "config.json").write_text("old")
    true_rename = Path.rename

    def rename(self: Path, to: Path) -> Path:
        if self.name == "new":
            raise OSError(errno.EIO, "Input/output error")
        return true_rename(self, to)

    monkeypatch.setattr(Path, "rename", rename)
    with (
        pytest.raises(FirthError, match="can't be written"),
        new_folder(target, force=True) as folder,
    ):
        (folder / "config.json").write_text("new")
    assert listing(tmp_path) == {"model": None, "model/config.json": b"old"}


@pytest.mark.parametrize("make", [new_file, new_folder])
def test_all_is_on_disk_before_the_name_changes(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, str]] = []
    true_sync, true_rename, true_replace = files.sync, Path.rename, Path.replace
    monkeypatch.setattr(
        files, "sync", lambda path: (events.append(("sync", path.name)), true_sync(path))[1]
    )
    monkeypatch.setattr(
        Path,
        "rename",
        lambda self, to: (events.append(("rename", to.name)), true_rename(self, to))[1],
    )
    monkeypatch.setattr(
        Path,
        "replace",
        lambda self, to: (events.append(("rename", to.name)), true_replace(self, to))[1],
    )
    with make(tmp_path / "out") as path:
        if make is new_folder:
            (path / "a").write_text("x")
        else:
            path.write_text("x")
        written = {path.name, "a"} if make is new_folder else {path.name}
    at = events.index(("rename", "out"))
    assert {name for _, name in events[:at]} == written
    assert events[at + 1 :] == [("sync", tmp_path.name)]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"0" * 100_000)
    seen, stop = set(), threading.Event()

    def watch() -> None:
        while not stop.is_set():
            data = target.read_bytes()
            seen.add((len(data), len(set(data))))

    reader = threading.Thread(target=watch)
    reader.start()
    try:
        for number in range(30):
            with new_file(target, force=True) as path, path.open("wb") as file:
                for _ in range(10):
                    file.write(b"%d" % (number % 10) * 10_000)
                    file.flush()
    finally:
        stop.set()
        reader.join()
    assert seen == {(100_000, 1)}
