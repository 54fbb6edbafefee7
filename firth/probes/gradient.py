"""How far back a language model looks: the gradient of a token by the vectors of earlier ones.

T tokens in the stream, B windows, F farthest distance. A gradient that fades with the distance
can't teach a model to use what stands far back: "On the difficulty of training recurrent neural
networks", Pascanu et al., 2013.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.models.protocols import NeuralLanguageModel

FAR = 50  # tokens before the one whose gradient is taken
TARGETS = 500  # tokens of a text whose gradients are taken
SCORES = 1 << 24  # that are in memory at a time: each token of a window has one for every word
TINY = torch.finfo(torch.float32).tiny
INDEPENDENT = "no token of this text depends on one before it"


class Gradient(NamedTuple):
    """The norm of the gradient of a token's log-probability, by the vectors of those before it.

    The first figure is for the token next to it, the second for the one before that, and so on.
    """

    counts: list[int]  # pairs of tokens so far apart
    mean: list[float]
    # Which a few large ones don't rule; 0 where any is too small for a number.
    geometric: list[float]

    @property
    def relative(self) -> "Gradient":
        """Return the same as shares of what the token next to it has."""
        return Gradient(self.counts, _shares(self.mean), _shares(self.geometric))


def _shares(line: list[float]) -> list[float]:
    """Return figures as shares of the first; zeros where that is 0."""
    if not line[0]:
        return [0.0] * len(line)
    return [value / line[0] for value in line]


def cut(ids: Tensor, far: int = FAR, targets: int = TARGETS) -> list[Tensor]:
    """Return windows of a text (T): tokens at evenly spaced places, with the `far` ones before."""
    count = max(0, len(ids) - 1)
    some = min(targets, count)
    windows = []
    for number in range(some):
        place = number * count // some + 1  # the first token has none before it
        start = max(0, place - far)
        windows.append(ids[start : place + 1])
    return windows


def gradient(
    model: NeuralLanguageModel,
    windows: Sequence[Tensor],
    before: Sequence[int] = (),
    far: int = FAR,
    progress: Callable[[int], None] | None = None,
) -> Gradient:
    """Return what the tokens of each window do to its last one.

    `before` is what is read before a text that begins anew.
    """
    if model.length is not None:
        # A model reads as many tokens as it has positions for, start mark and last token included.
        far = min(far, model.length - 2 - len(before))
    longest = max(map(len, windows), default=0)
    far = min(far, longest - 1)
    if far < 1:
        raise InputError(INDEPENDENT)

    # By distance: pairs of tokens, and over these the sums of norms and of their logarithms, and
    # how many norms are too small for a number.
    counts, total, logs, faint = torch.zeros(4, far, dtype=torch.float64)
    scores_of_row = model.vocab * (far + len(before) + 2)
    rows = max(1, SCORES // scores_of_row)
    training = model.training
    model.eval()
    for first in range(0, len(windows), rows):
        some = [window[-far - 1 :] for window in windows[first : first + rows]]
        norms = _norms(model, some, before, far)  # (B, F)
        seen = _seen(model, some, far)
        # A token that is certain whatever stands before it tells nothing.
        moved = norms * seen > 0
        seen &= moved.any(1, keepdim=True)
        too_small = (norms < TINY) & seen
        log_norms = norms.clamp(min=TINY).log()
        counts += seen.sum(0)
        total += (norms * seen).sum(0)
        faint += too_small.sum(0)
        logs += (log_norms * seen).sum(0)
        if progress:
            progress(first + len(some))
    model.train(training)

    # What is too far from one token is too far for all after it.
    reach = int((counts > 0).sum())
    if not reach:
        raise InputError(INDEPENDENT)
    counts = counts[:reach]
    mean = total[:reach] / counts
    geometric = (logs[:reach] / counts).exp()
    geometric *= faint[:reach] == 0
    return Gradient(
        counts.int().tolist(),
        mean.tolist(),
        geometric.tolist(),
    )


def _norms(
    model: NeuralLanguageModel, windows: list[Tensor], before: Sequence[int], far: int
) -> Tensor:
    """Return the norms of gradients (B, F), the nearest token first.

    They mean nothing where a window has no token so far back.
    """
    opening = torch.tensor(before, dtype=torch.long)
    parts = []
    sizes = []
    for window in windows:
        parts += [opening, window]
        sizes.append(len(opening) + len(window))
    ids = torch.cat(parts)  # (T)
    lengths = torch.tensor(sizes)
    last = lengths.cumsum(0) - 1
    with torch.enable_grad(), _caught(model.token_layer) as vectors:
        scores, _ = model.score(ids, lengths)
        # Rows know nothing of each other.
        (slopes,) = torch.autograd.grad(scores[last].sum(), vectors)
    norms: Tensor = torch.linalg.vector_norm(slopes, dim=-1, dtype=torch.float64)
    norms = norms.flatten()
    places = model.places(lengths, far)
    found = norms[places.clamp(min=0)]
    return torch.where(places < 0, 0.0, found)


def _seen(model: NeuralLanguageModel, windows: list[Tensor], far: int) -> Tensor:
    """Say which distances (B, F) are inside a window, and in what the model has not forgotten."""
    result = torch.zeros(len(windows), far, dtype=torch.bool)
    for row, window in zip(result, windows, strict=True):
        earlier = window[:-1].flip(0)  # the nearest first
        forgotten = model.forgets(earlier).cumsum(0)
        row[: len(earlier)] = forgotten == 0
    return result


@contextmanager
def _caught(table: nn.Module) -> Iterator[list[Tensor]]:
    """Catch the vectors that leave a table in here, as what gradients can be asked for."""
    found: list[Tensor] = []

    def catch(_module: nn.Module, _arguments: Any, vectors: Tensor) -> Tensor:
        leaf = vectors.detach().requires_grad_()
        found.append(leaf)
        return leaf

    handle = table.register_forward_hook(catch)
    try:
        yield found
    finally:
        handle.remove()
