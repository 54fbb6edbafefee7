"""The checksum crc32c, as fast as numpy allows.

N bytes of the data, W words of a row. A checksum is linear: what a word adds to it is the same from
wherever it stands, moved on by as many zero bytes as follow. So whole rows of words are folded into
the next, which is one step of numpy, and only the last row is read byte by byte.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = np.uint32(0x82F63B78)  # Castagnoli's, with its bits reversed
ROW = 4096  # words
MASK = 0xA282EAD8
ALL = 0xFFFFFFFF

Words = NDArray[np.uint32]


class Shift(NamedTuple):
    """What a word becomes when zero bytes follow, by its lower and its upper half."""

    lower: Words  # (65536)
    upper: Words  # (65536)

    def __call__(self, words: Words) -> Words:
        """Move words on by the zero bytes."""
        moved: Words = self.lower[words & 0xFFFF] ^ self.upper[words >> 16]
        return moved


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """Return the checksum of some bytes."""
    whole = len(data) // (4 * ROW) * (4 * ROW)
    state = ALL
    if whole:
        rows = np.frombuffer(data, "<u4", whole // 4).reshape(-1, ROW)
        folded = rows[0].copy()
        folded[0] ^= state  # as if it stood before the data
        shift = _shift_by(4 * ROW)
        for row in rows[1:]:
            folded = shift(folded) ^ row  # (W)
        state = _add(0, folded.astype("<u4").tobytes())
    return _add(state, bytes(data[whole:])) ^ ALL


def masked_crc32c(data: bytes | bytearray | memoryview) -> int:
    """Return the checksum as LevelDB's formats store it.

    It is rotated and moved, so that a checksum of data that hold checksums is a sound one.
    """
    plain = crc32c(data)
    rotated = (plain >> 15 | plain << 17) & ALL
    return (rotated + MASK) & ALL


def _add(state: int, data: bytes) -> int:
    """Read bytes one by one."""
    table = _byte_list()
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ state >> 8
    return state


@cache
def _byte_table() -> Words:
    """Return what each byte becomes when its eight bits are read."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        odd = table & 1 == 1
        table = np.where(odd, table >> 1 ^ POLYNOMIAL, table >> 1)
    return table


@cache
def _byte_list() -> list[int]:
    """Return the same as numbers of Python's own, which are quicker one by one."""
    return [int(number) for number in _byte_table()]


@cache
def _shift_by(count: int) -> Shift:
    """Return the shift by so many zero bytes, a power of two."""
    if count == 1:
        half = np.arange(1 << 16, dtype=np.uint32)
        bytes_read = _byte_table()
        lower = bytes_read[half & 0xFF] ^ half >> 8
        upper: Words = half << np.uint32(8)  # the lower eight bits are 0, and those read are not
        return Shift(lower, upper)
    once = _shift_by(count // 2)
    return Shift(once(once.lower), once(once.upper))
