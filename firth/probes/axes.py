"""Vectors on two axes, and the nearest of many.

M vectors, D width, Q vectors that are asked for, K neighbours.
"""

import warnings
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.base.errors import InputError
from firth.tasks.task import Progress

AT_ONCE = 1 << 23  # cosines that are held in memory
UMAP_NEIGHBOURS = 15  # that UMAP keeps near each point, as it has by default
SEED = 1


class Axes(NamedTuple):
    """The two axes on which vectors differ most."""

    mean: Tensor  # (D)
    axes: Tensor  # (2, D)
    variance: tuple[float, float]  # of which the two axes have these parts

    def place(self, vectors: Tensor) -> Tensor:
        """Return where vectors are on the axes, (M, 2)."""
        return ((vectors - self.mean).double() @ self.axes.T).float()


class Nearest(NamedTuple):
    """For each vector that was asked for, which of many are nearest, the nearest first."""

    numbers: Tensor  # (Q, K)
    cosines: Tensor  # (Q, K)


def principal_axes(vectors: Tensor) -> Axes:
    """Return the two principal axes of vectors (M, D).

    The sign of an axis is the one by which its largest loading is positive.
    """
    mean = vectors.mean(0)
    centred = (vectors - mean).double()
    # The triangle has the singular values and axes of the whole, and D rows in place of M.
    triangle = torch.linalg.qr(centred, mode="r").R
    _, sizes, axes = torch.linalg.svd(triangle, full_matrices=False)
    axes = F.pad(axes, (0, 0, 0, max(0, 2 - len(axes))))[:2]  # (2, D)
    largest = axes.gather(1, axes.abs().argmax(1, keepdim=True))
    axes = axes * torch.where(largest < 0, -1.0, 1.0)
    total = float(sizes.square().sum()) or 1.0
    parts = [float(size) ** 2 / total for size in sizes[:2]] + [0.0, 0.0]
    return Axes(mean, axes, (parts[0], parts[1]))


def project(vectors: Tensor) -> tuple[Tensor, tuple[float, float]]:
    """Return vectors (M, D) on their two principal axes (M, 2), and the variance of each."""
    axes = principal_axes(vectors)
    return axes.place(vectors), axes.variance


def nearest_vectors(
    vectors: Tensor, asked: Tensor, top: int, progress: Progress | None = None
) -> Nearest:
    """Return for each vector asked for (Q, D) the nearest of others (M, D) by cosine.

    All are of length 1. The first M that are asked for are the others themselves, and none of them
    is its own neighbour.
    """
    count = len(vectors)
    top = min(top, count - 1)
    step = max(1, AT_ONCE // count)
    numbers = []
    cosines = []
    for first in range(0, len(asked), step):
        part = asked[first : first + step] @ vectors.T  # (part of Q, M)
        own = torch.arange(first, min(first + len(part), count))
        part[own - first, own] = -torch.inf
        best = part.topk(top)
        numbers.append(best.indices)
        cosines.append(best.values)
        if progress is not None:
            progress(first + len(part))
    return Nearest(torch.cat(numbers), torch.cat(cosines))


def find_umap() -> Any:
    """Return the class of the library umap-learn; None where it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of what else is not installed
        try:
            from umap import UMAP
        except ImportError:
            return None
    return UMAP


def need_umap() -> None:
    """Refuse to go on without umap-learn."""
    if find_umap() is None:
        raise InputError(
            "--axes umap needs the library umap-learn, which is not installed; "
            "get it with: pip install 'firth[umap]'"
        )


def umap_places(umap: Any, vectors: Tensor) -> Tensor:
    """Return vectors (M, D) on two axes by its class, (M, 2); the same every time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the seed, and of groups that stand apart
        reducer = umap(
            n_neighbors=min(UMAP_NEIGHBOURS, len(vectors) - 1),
            metric="cosine",
            random_state=SEED,
            n_jobs=1,  # a seed allows no more
        )
        places = reducer.fit_transform(vectors.numpy())
    return torch.from_numpy(places)
