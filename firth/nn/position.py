"""Sinusoids as positions: of any number of tokens, and without anything to learn.

L positions, D width. "Attention Is All You Need", Vaswani et al., 2017: PE(pos, 2i) = sin(pos /
10000^(2i / D)), PE(pos, 2i + 1) = cos of the same. In Marian's order all sines come first.
"""

import torch
from torch import Tensor

SLOWEST = 10_000  # tokens in which the slowest wave comes near to one radian
SHORTEST = 64  # positions of a first table
_tables: dict[tuple[int, bool], Tensor] = {}  # (D, interleaved) -> the longest so far (L, D)


def sinusoids(count: int, width: int, interleaved: bool = True) -> Tensor:
    """Return the positions from 0 on, (L, D) in single precision on the CPU."""
    known = _tables.get((width, interleaved))
    if known is None or len(known) < count:
        size = SHORTEST
        while size < count:
            size *= 2
        # Not as a part of what runs now: the next to ask may want a gradient.
        with torch.inference_mode(False), torch.device("cpu"):
            known = _make(size, width, interleaved)
        _tables[width, interleaved] = known
    return known[:count]


def _make(count: int, width: int, interleaved: bool) -> Tensor:
    """Return positions made in double precision."""
    positions = torch.arange(count, dtype=torch.float64)
    pairs = torch.arange((width + 1) // 2, dtype=torch.float64)
    angles = positions[:, None] / SLOWEST ** (2 * pairs / width)  # (L, D / 2)
    table = torch.empty(count, width)
    cosines = angles[:, : width // 2].cos()
    if interleaved:
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = cosines
    else:
        table[:, : angles.shape[1]] = angles.sin()
        table[:, angles.shape[1] :] = cosines
    return table
