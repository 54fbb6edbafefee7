"""Files that may be damaged or hostile are read here, and folders are written so that none is ever seen half-done."""

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
ARRAY_DTYPES = {
    "f4": "F32",
    "f8": "F64",
    "i4": "I32",
    "i8": "I64",
}  # numpy's names of what is written
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
OWN = {
    "config.json",
    "tokenizer.json",
}  # one of which is in every folder of a model or of a vocabulary


class Tensor(NamedTuple):
    """What a safetensors header says of one tensor."""

    dtype: str
    shape: tuple[int, ...]


def read_bytes(path: Path, largest: int) -> bytes:
    """Read a regular file that is not larger than it may be."""
    try:
        if _regular(path) > largest:
            raise InputError(f"{path} is larger than {largest >> 20} MB")
        return path.read_bytes()
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path} can't be read: {_reason(error)}") from error


def _regular(path: Path) -> int:
    """The size of a regular file; a pipe or a device, which may never end, is refused."""
    if not path.is_file():
        raise InputError(f"{path} is missing or is not a file")
    return path.stat().st_size


def read_json(path: Path, kind: type[Any] = dict) -> Any:
    """Read a JSON object (or a list, if `kind` says so); duplicate keys and anything else are refused."""
    return parse_json(read_bytes(path, LARGEST_JSON), str(path), kind)


def parse_json(data: bytes | str, where: str, kind: type[Any] = dict) -> Any:
    """Parse JSON of one kind, naming `where` it came from in any complaint."""
    try:
        value = json.loads(data, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not valid JSON: {_reason(error)}") from error
    if not isinstance(value, kind):
        raise InputError(f"{where} holds a {type(value).__name__} where a {kind.__name__} belongs")
    level = [value]
    for _ in range(DEEPEST_JSON):
        inside = (
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
        )
        level = [child for child in inside if isinstance(child, dict | list)]
    if level:
        raise InputError(f"{where} is not valid JSON: it is nested too deeply")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _reason(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error).splitlines()[0]


def tensor_header(path: Path) -> dict[str, Tensor]:
    """Read what tensors a safetensors file holds and check that the file is exactly that, before any memory is taken."""
    try:
        size = _regular(path)
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
    spans, found = [], {}
    for name, entry in header.items():
        tensor, begin, end = _entry(name, entry, path)
        spans.append((begin, end))
        found[name] = tensor
    position = 0
    for begin, end in sorted(spans):
        if begin != position:
            raise InputError(f"{path} is damaged: its tensors overlap or leave gaps")
        position = end
    if 8 + length + position != size:
        raise InputError(
            f"{path} is damaged: it has {size} bytes where its header says {8 + length + position}"
        )
    return found


def _entry(name: str, entry: Any, path: Path) -> tuple[Tensor, int, int]:
    try:
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        whole = all(type(n) is int and 0 <= n < 1 << 48 for n in (*shape, begin, end))
        if (
            not whole
            or len(shape) > MOST_DIMENSIONS
            or end - begin != prod(shape) * DTYPE_BYTES[dtype]
        ):
            raise ValueError
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is damaged: the header's entry for {name!r} contradicts itself"
        ) from error
    return Tensor(dtype, shape), begin, end


def is_pickle(path: Path) -> bool:
    """Tell a pickle, or the zip archive that torch wraps one in, by its first bytes, whatever the file is called."""
    with path.open("rb") as file:
        head = file.read(9)
    # A safetensors file may begin with the same two bytes, but zeros fill the upper half of its header's length and a { follows.
    if head[4:] == bytes(4) + b"{":
        return False
    return head[:2] == b"PK" or (
        head[:1] == b"\x80" and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    )


def pickle_refusal(path: Path) -> str:
    """Say why a pickle isn't opened and how its owner can convert it."""
    return (
        f"{path} is a pickle, which can run code when it is opened, so Firth never opens one; if you trust where it came from, "
        f'convert it with: python -c "import torch, safetensors.torch as s; s.save_file({{k: v.clone().contiguous() for k, v in '
        f"torch.load('{path.name}', map_location='cpu', weights_only=True).items()}}, 'model.safetensors')\""
    )


def sha256(path: Path) -> str:
    """Hash a file's bytes."""
    try:
        _regular(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} can't be read: {_reason(error)}") from error


@contextmanager
def new_folder(target: Path, force: bool = False) -> Iterator[Path]:
    """Give a temporary folder beside `target` and put it in its place when all in it is safely on disk."""
    with _writing(target) as parent:
        refuse_folder(target, force)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=parent) as scratch:
            fresh, old = Path(scratch) / "new", Path(scratch) / "old"
            fresh.mkdir()
            yield fresh
            for path in fresh.rglob("*"):
                _share(path)
                sync(path)
            sync(fresh)
            failpoint("before-folder-rename")
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
    """Give a file the rights that any other file would have: some libraries keep what they write to its owner."""
    if path.is_file():
        mask = os.umask(0)
        os.umask(mask)
        path.chmod(0o666 & ~mask)


@contextmanager
def new_file(target: Path, force: bool = False) -> Iterator[Path]:
    """Give a temporary file beside `target` and put it in its place when it is whole and safely on disk."""
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


def sweep(folder: Path, names: str) -> None:
    """Remove what processes that were killed left in a folder while they wrote files or folders with these names (a pattern)."""
    left_over = re.compile(rf"\.({names})\.([a-z0-9_]{{8}}|\d+)")
    for path in folder.iterdir() if folder.is_dir() else ():
        if left_over.fullmatch(path.name):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def refuse_folder(target: Path, force: bool) -> None:
    """Refuse a folder that holds something, unless it may be overwritten and was made here; ask before long work too."""
    try:
        if target.exists() and not target.is_dir():
            raise InputError(f"{target} is a file; name a folder")
        held = [path.name for path in target.iterdir()] if target.exists() else []
        if held and not force:
            raise InputError(
                f"{target} exists and holds something; choose another name or say --force"
            )
        if held and not OWN.intersection(held):
            raise InputError(
                f"{target} is no folder of a model, and --force would throw it away; choose another name"
            )
        if held and Path.cwd().is_relative_to(target.resolve()):
            raise InputError(
                f"{target} is where you are, and --force would throw it away; choose another name"
            )
    except OSError as error:
        raise InputError(f"{target} can't be written: {_reason(error)}") from error


def refuse_existing(target: Path, force: bool) -> None:
    """Refuse a file that is there already, unless it may be overwritten; ask before long work too."""
    try:
        if target.is_dir():
            raise InputError(f"{target} is a folder; name a file")
        if target.exists() and not force:
            raise InputError(f"{target} exists; choose another name or say --force")
    except OSError as error:
        raise InputError(f"{target} can't be written: {_reason(error)}") from error


@contextmanager
def _writing(target: Path) -> Iterator[Path]:
    """Make the folder that `target` will stand in, and unmake it if nothing came of it; say in one sentence what went wrong."""
    made: list[Path] = []
    try:
        parent = target.resolve().parent
        made = [folder for folder in (parent, *parent.parents) if not folder.exists()]
        stands = (parent, *parent.parents)[len(made)]
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


class Written(NamedTuple):
    """What a file was when it was written."""

    size: int
    sha256: str


def write_synced(path: Path, *portions: bytes | memoryview) -> Written:
    """Write a file, wait until it is on disk, and give its size and sum as they were in memory."""
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
    return Written(size, digest.hexdigest())


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> Written:
    """Write arrays of floating-point or whole numbers, of four bytes or eight, as a safetensors file."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    arrays = dict(
        sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    )  # so that each begins at a multiple of its own size
    at = 0
    for name, array in arrays.items():
        dtype = ARRAY_DTYPES[array.dtype.str[1:]]
        header[name] = {
            "dtype": dtype,
            "shape": array.shape,
            "data_offsets": (at, at + array.nbytes),
        }
        at += array.nbytes
    page = json.dumps(header).encode()
    page += b" " * (-len(page) % 8)
    little = (
        np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for array in arrays.values()
    )
    return write_synced(
        path,
        len(page).to_bytes(8, "little"),
        page,
        *(array.reshape(-1).view(np.uint8).data for array in little),
    )
