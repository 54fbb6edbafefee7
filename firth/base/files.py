"""Files read with suspicion, and files and folders that are written whole or not at all."""

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import FirthError, InputError
from firth.base.failpoint import failpoint

LARGEST_JSON = 64 << 20
DEEPEST_JSON = 64  # levels
MOST_DIMENSIONS = 8
LARGEST_OFFSET = 1 << 48  # bytes; no file is larger
# The call is wrong, not the disk: another path would do.
NO_SUCH_PLACE = {
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EINVAL,
}
# Names of number formats that are written: numpy's and those of safetensors.
ARRAY_DTYPES = {"f4": "F32", "f8": "F64", "i4": "I32", "i8": "I64"}
DTYPE_BYTES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "I32": 4,
    "I16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
}
OWN = {"config.json", "tokenizer.json"}  # every folder of a model or of a vocabulary has one


class Tensor(NamedTuple):
    """What a safetensors header says of one tensor."""

    dtype: str
    shape: tuple[int, ...]


def read_bytes(path: Path, largest: int) -> bytes:
    """Read a regular file that is not larger than it may be."""
    try:
        if regular_size(path) > largest:
            raise InputError(f"{path} is larger than {largest >> 20} MB")
        return path.read_bytes()
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path} can't be read: {_reason(error)}") from error


def regular_size(path: Path) -> int:
    """Return the size of a regular file; a pipe or a device, which may never end, is refused."""
    if not path.is_file():
        raise InputError(f"{path} is missing or is not a file")
    return path.stat().st_size


def read_json(path: Path, kind: type[Any] = dict) -> Any:
    """Read a JSON object, or what `kind` says; duplicate keys and anything else are refused."""
    return parse_json(read_bytes(path, LARGEST_JSON), str(path), kind)


def parse_json(data: bytes | str, where: str, kind: type[Any] = dict) -> Any:
    """Parse JSON of one kind, naming `where` it came from in any error."""
    try:
        value = json.loads(data, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not valid JSON: {_reason(error)}") from error
    if not isinstance(value, kind):
        raise InputError(f"{where} holds a {type(value).__name__} where a {kind.__name__} belongs")

    # Level by level, so that the check itself can't run out of stack.
    level = [value]
    for _ in range(DEEPEST_JSON):
        level = [child for parent in level for child in _containers(parent)]
    if level:
        raise InputError(f"{where} is not valid JSON: it is nested too deeply")
    return value


def _containers(parent: dict[str, Any] | list[Any]) -> Iterator[dict[str, Any] | list[Any]]:
    """Yield the objects and lists that stand directly in one of them."""
    children = parent.values() if isinstance(parent, dict) else parent
    for child in children:
        if isinstance(child, dict | list):
            yield child


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of an object as a dictionary; a key that occurs twice is refused."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _reason(error: BaseException) -> str:
    """Return the reason of an error on one line."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error).splitlines()[0]


def tensor_header(path: Path) -> dict[str, Tensor]:
    """Read which tensors a safetensors file holds, and check that the file is exactly that.

    No memory is taken for a tensor before its size is known to be right.
    """
    try:
        size = regular_size(path)
        if is_pickle(path):
            raise InputError(pickle_refusal(path))
        with path.open("rb") as file:
            head = file.read(8)
            length = int.from_bytes(head, "little")
            if len(head) < 8 or length > min(size - 8, LARGEST_JSON):
                raise InputError(f"{path} is damaged: its header doesn't fit in its {size} bytes")
            header = parse_json(file.read(length), f"the header of {path}")
    except OSError as error:
        raise InputError(f"{path} can't be read: {_reason(error)}") from error

    header.pop("__metadata__", None)
    spans = []
    found = {}
    for name, entry in header.items():
        tensor, begin, end = _entry(name, entry, path)
        spans.append((begin, end))
        found[name] = tensor

    position = 0
    for begin, end in sorted(spans):
        if begin != position:
            raise InputError(f"{path} is damaged: its tensors overlap or leave gaps")
        position = end
    expected = 8 + length + position
    if size != expected:
        raise InputError(f"{path} is damaged: it has {size} bytes where its header says {expected}")
    return found


def _entry(name: str, entry: Any, path: Path) -> tuple[Tensor, int, int]:
    """Return a tensor of a header with the first byte and the end of its data."""
    try:
        shape = tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        tensor = Tensor(entry["dtype"], shape)
        # Not isinstance: True would pass as 1.
        if not all(type(n) is int and 0 <= n < LARGEST_OFFSET for n in (*shape, begin, end)):
            raise ValueError
        if len(shape) > MOST_DIMENSIONS:
            raise ValueError
        if end - begin != prod(shape) * DTYPE_BYTES[tensor.dtype]:
            raise ValueError
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is damaged: the header's entry for {name!r} contradicts itself"
        ) from error
    return tensor, begin, end


def is_pickle(path: Path) -> bool:
    """Tell a pickle, or the zip archive that torch wraps one in, by its first bytes."""
    with path.open("rb") as file:
        head = file.read(9)
    # A safetensors file may begin with the same two bytes, but zeros fill the upper half of its
    # header's length and a { follows.
    if head[4:] == bytes(4) + b"{":
        return False
    if head[:2] == b"PK":
        return True
    return head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def pickle_refusal(path: Path) -> str:
    """Say why a pickle isn't opened and how its owner can convert it."""
    load = f"torch.load('{path.name}', map_location='cpu', weights_only=True)"
    tensors = f"{{k: v.clone().contiguous() for k, v in {load}.items()}}"
    script = f"import torch, safetensors.torch as s; s.save_file({tensors}, 'model.safetensors')"
    return (
        f"{path} is a pickle, which can run code when it is opened, so Firth never opens one; "
        f'if you trust where it came from, convert it with: python -c "{script}"'
    )


def sha256(path: Path) -> str:
    """Hash a file's bytes."""
    try:
        regular_size(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} can't be read: {_reason(error)}") from error


@contextmanager
def new_folder(target: Path, force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder, and rename it to `target` when all in it is safely on disk."""
    with _writing(target) as parent:
        refuse_folder(target, force)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=parent) as scratch:
            fresh = Path(scratch) / "new"
            old = Path(scratch) / "old"
            fresh.mkdir()
            yield fresh

            for path in fresh.rglob("*"):
                _share(path)
                sync(path)
            sync(fresh)
            failpoint("before-folder-rename")
            # A folder that holds something can't be renamed over, so the old one steps aside.
            if target.exists():
                target.rename(old)
            try:
                fresh.rename(target)
            except OSError:
                if old.exists():
                    old.rename(target)
                raise
            sync(parent)


def _share(path: Path) -> None:
    """Give a file the usual rights: some libraries let only its owner read what they write."""
    if path.is_file():
        mask = os.umask(0)  # there is no way to ask for the mask but to set it
        os.umask(mask)
        path.chmod(0o666 & ~mask)


@contextmanager
def new_file(target: Path, force: bool = False) -> Iterator[Path]:
    """Yield a temporary file, and rename it to `target` when it is safely on disk."""
    with _writing(target) as parent:
        refuse_existing(target, force)
        fresh = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            yield fresh
            sync(fresh)
            fresh.replace(target)
            sync(parent)
        finally:
            fresh.unlink(missing_ok=True)


def remove_leftovers(folder: Path, names: str) -> None:
    """Remove what killed processes left in a folder while they wrote what has these names.

    `names` is a regular expression. The temporary name is that of `new_folder` (eight letters) or
    of `new_file` (the number of the process).
    """
    if not folder.is_dir():
        return
    left_over = re.compile(rf"\.({names})\.([a-z0-9_]{{8}}|\d+)")
    for path in folder.iterdir():
        if not left_over.fullmatch(path.name):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def refuse_folder(target: Path, force: bool) -> None:
    """Refuse a folder that holds something, unless it may be overwritten and was made here.

    Called before long work too, so that the work is not lost to a name.
    """
    try:
        if not target.exists():
            return
        if not target.is_dir():
            raise InputError(f"{target} is a file; name a folder")
        held = {path.name for path in target.iterdir()}
        if not held:
            return
        other = "choose another name"
        if not force:
            raise InputError(f"{target} exists and holds something; {other} or say --force")
        if not OWN & held:
            lost = "--force would throw it away"
            raise InputError(f"{target} is no folder of a model, and {lost}; {other}")
        if Path.cwd().is_relative_to(target.resolve()):
            lost = "--force would throw it away"
            raise InputError(f"{target} is where you are, and {lost}; {other}")
    except OSError as error:
        raise InputError(f"{target} can't be written: {_reason(error)}") from error


def refuse_existing(target: Path, force: bool) -> None:
    """Refuse a file that is there already, unless it may be overwritten."""
    try:
        if target.is_dir():
            raise InputError(f"{target} is a folder; name a file")
        if target.exists() and not force:
            raise InputError(f"{target} exists; choose another name or say --force")
    except OSError as error:
        raise InputError(f"{target} can't be written: {_reason(error)}") from error


@contextmanager
def _writing(target: Path) -> Iterator[Path]:
    """Make the folder that `target` will stand in, and remove it if nothing came of it.

    An error of the system is raised again as one sentence about `target`.
    """
    made: list[Path] = []
    try:
        parent = target.resolve().parent
        above = (parent, *parent.parents)
        made = [folder for folder in above if not folder.exists()]
        stands = above[len(made)]
        if not stands.is_dir():
            raise InputError(f"{target} can't be written: {stands} is not a folder")
        parent.mkdir(parents=True, exist_ok=True)
        if not os.access(parent, os.W_OK):
            raise InputError(f"{target} can't be written: its folder is read-only")
        yield parent
    except BrokenPipeError:
        raise
    except OSError as error:
        wrong = InputError if error.errno in NO_SUCH_PLACE else FirthError
        raise wrong(f"{target} can't be written: {_reason(error)}") from error
    finally:
        for folder in made:
            with suppress(OSError):  # it holds what was written
                folder.rmdir()


def sync(path: Path) -> None:
    """Wait until a file or folder is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class WrittenFile(NamedTuple):
    """The size and the hash of a file when it was written."""

    size: int
    sha256: str


def write_synced(path: Path, *portions: bytes | memoryview) -> WrittenFile:
    """Write a file, wait until it is on disk, and return its size and hash as in memory."""
    digest = hashlib.sha256()
    size = 0
    with path.open("wb") as file:
        for number, portion in enumerate(portions):
            if number == len(portions) // 2:
                file.flush()
                failpoint("mid-write")
            file.write(portion)
            digest.update(portion)
            size += len(portion)
        file.flush()
        failpoint("before-sync")
        os.fsync(file.fileno())
    return WrittenFile(size, digest.hexdigest())


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> WrittenFile:
    """Write arrays of floating-point or whole numbers, of four bytes or eight, as safetensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = []
    offset = 0
    # Those of eight bytes first, so that each begins at a multiple of its own size.
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].itemsize):
        end = offset + array.nbytes
        header[name] = {
            "dtype": ARRAY_DTYPES[array.dtype.str[1:]],
            "shape": array.shape,
            "data_offsets": (offset, end),
        }
        little_endian = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        data.append(little_endian.reshape(-1).view(np.uint8).data)
        offset = end

    page = json.dumps(header).encode()
    page += b" " * (-len(page) % 8)
    return write_synced(path, len(page).to_bytes(8, "little"), page, *data)
