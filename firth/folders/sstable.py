"""Sorted string tables, LevelDB's files of keys and values, read with suspicion.

A file is blocks, each followed by the kind of its compression and a checksum, and a footer that
says where the block is that lists all others. A key is stored as the number of bytes that it shares
with the key before it, and the rest.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from firth.base import files
from firth.base.errors import InputError
from firth.folders.crc import masked_crc32c

MAGIC = 0xDB4775248B80FB57
FOOTER = 48  # bytes
TRAILER = 5
PLAIN = 0
SNAPPY = 1
# A table of a model's tensors has a few thousand keys. Shared bytes would let a small file hold
# keys without end.
LARGEST = 4 << 20
LONGEST_KEY = 1024
LONGEST_VALUE = 1 << 16
MOST_KEYS = 1 << 16
LONGEST_VARINT = 10  # bytes


class Handle(NamedTuple):
    """Where a block stands in the file."""

    offset: int
    size: int


def read_table(path: Path) -> dict[bytes, bytes]:
    """Return the values of a table by their keys; a table that is damaged is refused."""
    data = files.read_bytes(path, LARGEST)
    if len(data) < FOOTER or int.from_bytes(data[-8:], "little") != MAGIC:
        raise InputError(f"{path} is no index of a checkpoint, or is cut off: its end is not one's")
    try:
        return _read(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from error


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and where what follows begins."""
    number = 0
    for count, byte in enumerate(data[at : at + LONGEST_VARINT]):
        number |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return number, at + count + 1
    raise ValueError("a number has no end")


def _read(data: bytes) -> dict[bytes, bytes]:
    """Return the values of all blocks; keys and blocks must be in order, each there once."""
    footer = data[-FOOTER:]
    _, at = _read_handle(footer, 0)  # of a block about the table, which is empty
    index, _ = _read_handle(footer, at)

    found: dict[bytes, bytes] = {}
    last_key = None
    end = 0
    for _, place in _entries(_block(data, index)):
        handle, _ = _read_handle(place, 0)
        if handle.offset < end:
            raise ValueError("its blocks overlap")
        end = handle.offset + handle.size
        for key, value in _entries(_block(data, handle)):
            if last_key is not None and key <= last_key:
                raise ValueError("its keys are not in order")
            if len(found) == MOST_KEYS:
                raise ValueError(f"it has more than {MOST_KEYS} keys")
            found[key] = value
            last_key = key
    return found


def _read_handle(data: bytes, at: int) -> tuple[Handle, int]:
    """Return a handle, and where what follows begins."""
    offset, at = read_varint(data, at)
    size, at = read_varint(data, at)
    return Handle(offset, size), at


def _block(data: bytes, handle: Handle) -> bytes:
    """Return what a block holds, if its checksum is right."""
    begin = handle.offset
    end = begin + handle.size
    if end + TRAILER > len(data) - FOOTER:
        raise ValueError("a block reaches beyond its end")
    stored = int.from_bytes(data[end + 1 : end + TRAILER], "little")
    if masked_crc32c(data[begin : end + 1]) != stored:
        raise ValueError(f"the checksum of the block at byte {begin} is wrong")
    kind = data[end]
    if kind != PLAIN:
        name = "snappy" if kind == SNAPPY else f"the unknown kind {kind}"
        raise InputError(
            f"the block at byte {begin} is compressed with {name}, which Firth doesn't read; "
            "TensorFlow writes checkpoints without compression"
        )
    return data[begin:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block, up to the list of its restart points."""
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * restarts
    if end < 0:
        raise ValueError("a block is shorter than its restart points")
    at = 0
    key = b""
    while at < end:
        shared, at = read_varint(block, at)
        rest, at = read_varint(block, at)
        length, at = read_varint(block, at)
        if shared > len(key) or at + rest + length > end:
            raise ValueError("a key reaches beyond its block")
        if shared + rest > LONGEST_KEY:
            raise ValueError(f"a key is longer than {LONGEST_KEY} bytes")
        if length > LONGEST_VALUE:
            raise ValueError(f"a value is longer than {LONGEST_VALUE} bytes")
        key = key[:shared] + block[at : at + rest]
        at += rest
        yield key, block[at : at + length]
        at += length
