"""TensorFlow's checkpoints, the format V2 or "tensor bundle", read with suspicion.

`NAME.index` is a sorted string table of what there is, `NAME.data-00000-of-00001` and so on hold
the tensors' bytes. Nothing but these files is opened, whatever the index says.
"""

from math import prod
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from firth.base import files
from firth.base.errors import InputError
from firth.folders.crc import masked_crc32c
from firth.folders.protobuf import Message
from firth.folders.sstable import read_table

INDEX = ".index"
HEADER = b""
SLICE = b"\0"  # no name begins with it; the keys of a tensor's slices do
MOST_SHARDS = 99_999
WHOLE = -1  # the length of a slice that takes in a whole dimension
OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
# TensorFlow's numbers of number formats, and safetensors' names.
DTYPES = {
    1: "F32",
    2: "F64",
    3: "I32",
    4: "U8",
    5: "I16",
    6: "I8",
    9: "I64",
    14: "BF16",
    19: "F16",
}
TORCH = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
}


class Extent(NamedTuple):
    """What a slice takes of one dimension."""

    start: int
    length: int


Slice = tuple[Extent, ...]


class Entry(NamedTuple):
    """What an index says of one tensor, or of one slice of a tensor."""

    tensor: files.Tensor
    shard: int
    offset: int
    size: int
    crc: int
    slices: tuple[Slice, ...]


class TensorBundle:
    """A checkpoint: which tensors it holds, and their values."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self.index = prefix.with_name(prefix.name + INDEX)
        table = read_table(self.index)
        try:
            self._shards = _read_header(table.pop(HEADER, None))
            self._entries = {key: _read_entry(value) for key, value in table.items()}
            names = [key.decode() for key in self._entries if not key.startswith(SLICE)]
            self._check_places()
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"{self.index} can't be read: {error}") from error
        self.tensors = {name: self._entries[name.encode()].tensor for name in names}

    def read(self, name: str) -> Tensor:
        """Return a tensor, if its bytes have their checksum."""
        entry = self._entries[name.encode()]
        if not entry.slices:
            return self._read_bytes(name, entry)

        axis, keys = self._parts(name, entry)
        parts = [self._read_bytes(name, self._entries[key]) for key in keys]
        return torch.cat(parts, axis)

    def _parts(self, name: str, entry: Entry) -> tuple[int, list[bytes]]:
        """Return along which dimension a tensor was cut, and the keys of its slices in order."""
        where = f"{self.index}: {name}"
        shape = entry.tensor.shape
        axis = _cut_axis(shape, entry.slices)
        if axis is None:
            raise InputError(f"{where} is cut in more than one direction, which Firth doesn't read")

        position = 0
        keys = []
        in_order = sorted(entry.slices, key=lambda part: part[axis].start)
        for part in in_order:
            sizes = _sizes(part, shape)
            key = slice_key(name, part)
            stored = self._entries.get(key)
            if stored is None or stored.slices:
                raise InputError(f"{where} lacks one of its slices")
            expected = files.Tensor(entry.tensor.dtype, sizes)
            if stored.tensor != expected or part[axis].start != position:
                raise InputError(f"{where} has slices that don't make up the whole")
            position += sizes[axis]
            keys.append(key)
        if position != shape[axis]:
            raise InputError(f"{where} has slices that don't make up the whole")
        return axis, keys

    def _check_places(self) -> None:
        """Refuse tensors that overlap, or reach beyond the files that hold them.

        Otherwise a small file could stand for tensors without end.
        """
        spans: dict[int, list[tuple[int, int]]] = {}
        for entry in self._entries.values():
            if not 0 <= entry.shard < self._shards:
                raise ValueError("a tensor is in a file that there is not")
            if entry.size:
                end = entry.offset + entry.size
                spans.setdefault(entry.shard, []).append((entry.offset, end))

        for shard, places in spans.items():
            path = self._data(shard)
            size = files.regular_size(path)
            last = 0
            for begin, end in sorted(places):
                if begin < last:
                    raise ValueError("its tensors overlap")
                if end > size:
                    needs = f"it has {size:,} bytes where its index needs at least {end:,}"
                    raise InputError(f"{path} is cut off: {needs}")
                last = end

    def _data(self, shard: int) -> Path:
        """Return one of the files that hold the tensors' bytes."""
        name = f"{self.prefix.name}.data-{shard:05d}-of-{self._shards:05d}"
        return self.prefix.with_name(name)

    def _read_bytes(self, name: str, entry: Entry) -> Tensor:
        """Return what stands in a data file as a tensor."""
        path = self._data(entry.shard)
        data = bytearray(entry.size)
        try:
            with path.open("rb") as file:
                file.seek(entry.offset)
                count = file.readinto(data)
        except OSError as error:
            raise InputError(f"{path} can't be read: {error.strerror}") from error
        if count < entry.size or masked_crc32c(data) != entry.crc:
            raise InputError(f"{path} is damaged: the checksum of {name} is wrong")

        shape = entry.tensor.shape
        dtype = TORCH[entry.tensor.dtype]
        if not data:  # torch takes no empty buffer
            return torch.empty(shape, dtype=dtype)
        flat = torch.frombuffer(data, dtype=dtype)
        return flat.reshape(shape)


def slice_key(name: str, part: Slice) -> bytes:
    """Return the key of a slice, in an encoding whose order is that of the values."""
    escaped = name.encode().replace(b"\xff", b"\xff\0").replace(b"\0", b"\0\xff")
    key = SLICE + escaped + b"\0\1"
    key += _ordered(len(part))
    for extent in part:
        key += _signed(extent.start)
        key += _signed(extent.length)
    return key


def _ordered(number: int) -> bytes:
    """Encode a number from 0 on: how many bytes it takes, and these."""
    size = -(-number.bit_length() // 8)  # rounded up
    data = number.to_bytes(size, "big")
    return bytes([size]) + data


def _signed(number: int) -> bytes:
    """Encode a number with its sign: a first bit 1 from 0 on, then as many as bytes follow."""
    magnitude = number if number >= 0 else ~number
    size = magnitude.bit_length() // 7 + 1  # bytes
    ones = (1 << size) - 1
    leading = ones << (7 * size)  # as many ones as bytes, at the front
    # The two's complement, with which the ones of a negative number become zeros.
    complement = number % (1 << (8 * size))
    return (complement ^ leading).to_bytes(size, "big")


def _cut_axis(shape: tuple[int, ...], slices: tuple[Slice, ...]) -> int | None:
    """Return the one dimension that slices don't all take in whole; None if there are more."""
    cut = set()
    for part in slices:
        if len(part) != len(shape):
            return None
        for axis, extent in enumerate(part):
            whole = (Extent(0, WHOLE), Extent(0, shape[axis]))
            if extent not in whole:
                cut.add(axis)
    if len(cut) > 1 or not shape:
        return None
    return cut.pop() if cut else 0


def _sizes(part: Slice, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a slice of a tensor."""
    sizes = []
    for extent, whole in zip(part, shape, strict=True):
        sizes.append(whole if extent.length == WHOLE else extent.length)
    return tuple(sizes)


def _read_header(value: bytes | None) -> int:
    """Return the number of data files that the header gives."""
    if value is None:
        raise ValueError("it has no header")
    header = Message(value)
    shards = header.whole(1)
    if not 0 < shards <= MOST_SHARDS:
        raise ValueError(f"it gives {shards} as the number of its data files")
    if header.whole(2) != 0:
        raise ValueError("it was written on a big-endian machine")
    return shards


def _read_entry(value: bytes) -> Entry:
    """Return what an entry says, if it doesn't contradict itself."""
    message = Message(value)
    number = message.whole(1)
    dtype = DTYPES.get(number, f"TensorFlow's type {number}")
    dims: list[Message] = []
    for shape in message.messages(2):
        dims += shape.messages(2)
    sizes = tuple(dim.whole(1) for dim in dims)
    offset = message.whole(4)
    size = message.whole(5)
    slices = tuple(_read_slice(part) for part in message.messages(7))

    if len(sizes) > files.MOST_DIMENSIONS:
        raise ValueError(f"a tensor has {len(sizes)} dimensions")
    if not all(0 <= n < files.LARGEST_OFFSET for n in (*sizes, offset, size)):
        raise ValueError("a tensor has an impossible size")
    expected = 0  # the bytes of a tensor that was cut are those of its slices
    if not slices:
        expected = prod(sizes) * files.DTYPE_BYTES.get(dtype, 0)
    if dtype in files.DTYPE_BYTES and size != expected:
        raise ValueError(f"a tensor of shape {list(sizes)} has {size} bytes")
    tensor = files.Tensor(dtype, sizes)
    shard = message.whole(3)
    crc = message.whole(6)
    return Entry(tensor, shard, offset, size, crc, slices)


def _read_slice(message: Message) -> Slice:
    """Return what a slice takes of each dimension; without a length all of it."""
    found = []
    for extent in message.messages(1):
        length = extent.whole(2) if extent.has(2) else WHOLE
        start = extent.whole(1)
        if not 0 <= start < files.LARGEST_OFFSET or length >= files.LARGEST_OFFSET:
            raise ValueError("a slice has an impossible size")
        found.append(Extent(start, length))
    return tuple(found)
