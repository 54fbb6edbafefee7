"""How far back a language model looks: what the vector of an earlier token does to the log-probability of a later one.

T tokens in the stream, B windows, F farthest distance, N order. A gradient that fades with the distance can't teach a model to use
what stands far back: "On the difficulty of training recurrent neural networks", Pascanu et al., 2013.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firth.base.errors import InputError
from firth.models.ffnn import Ffnn
from firth.models.gpt import Gpt
from firth.models.language import begins
from firth.models.rnn import Rnn

FAR, TARGETS = 50, 500
SCORES = 1 << 24  # that are in memory at a time: each token of a window has one for every word
TINY = torch.finfo(torch.float32).tiny


class Gradient(NamedTuple):
    """The norm of the gradient of a token's log-probability, by the vector of the token 1, 2, 3 ... places before it."""

    counts: list[int]  # pairs of tokens so far apart
    mean: list[float]
    geometric: list[
        float
    ]  # which a few large ones don't rule; 0 where any is too small for a number

    @property
    def relative(self) -> "Gradient":
        """The same as shares of what the token next to it has."""
        mean, geometric = (
            [value / line[0] if line[0] else 0.0 for value in line] for line in self[1:]
        )
        return Gradient(self.counts, mean, geometric)


def cut(ids: Tensor, far: int = FAR, targets: int = TARGETS) -> list[Tensor]:
    """Windows of a text (T), each of a token and the `far` ones before it, at so many places that are evenly far apart."""
    count = max(0, len(ids) - 1)
    some = min(targets, count)
    places = [number * count // some + 1 for number in range(some)]
    return [ids[max(0, place - far) : place + 1] for place in places]


def gradient(
    model: Gpt | Rnn | Ffnn,
    windows: Sequence[Tensor],
    before: Sequence[int] = (),
    far: int = FAR,
    progress: Callable[[int], None] | None = None,
) -> Gradient:
    """What the tokens of each window do to its last one; `before` is what is read before a text that begins anew."""
    # A GPT reads as many tokens as it has positions for, its start mark and the last token included.
    room = model.length - 2 - len(before) if isinstance(model, Gpt) else far
    far = min(far, room, max(map(len, windows), default=0) - 1)
    counts, total, logs, faint = torch.zeros(4, max(0, far), dtype=torch.float64)
    rows = max(1, SCORES // (model.vocab * (far + len(before) + 2)))
    training = model.training
    model.eval()
    for first in range(0, len(windows) if far > 0 else 0, rows):
        some = [window[-far - 1 :] for window in windows[first : first + rows]]
        norms, seen = _norms(model, some, before, far), _seen(model, some, far)
        seen &= (norms * seen > 0).any(
            1, keepdim=True
        )  # a token that is certain whatever stands before it tells nothing
        counts += seen.sum(0)
        total += (norms * seen).sum(0)
        faint += ((norms < TINY) & seen).sum(0)
        logs += (norms.clamp(min=TINY).log() * seen).sum(0)
        if progress:
            progress(first + len(some))
    model.train(training)
    reach = int((counts > 0).sum())  # what is too far from one token is too far for all after it
    if not reach:
        raise InputError("no token of this text depends on one before it")
    mean = total[:reach] / counts[:reach]
    geometric = (logs[:reach] / counts[:reach]).exp() * (faint[:reach] == 0)
    return Gradient(counts[:reach].int().tolist(), mean.tolist(), geometric.tolist())


def _norms(
    model: Gpt | Rnn | Ffnn, windows: list[Tensor], before: Sequence[int], far: int
) -> Tensor:
    """The norms of gradients (B, F), the nearest token first; without meaning where a window has no token so far back."""
    opening = torch.tensor(before, dtype=torch.long)
    lengths = torch.tensor([len(before) + len(window) for window in windows])
    stop = lengths.cumsum(0)
    with (
        torch.enable_grad(),
        _caught(model.token if isinstance(model, Gpt) else model.table) as vectors,
    ):
        scores, _ = model.score(
            torch.cat([part for window in windows for part in (opening, window)]), lengths
        )
        (slopes,) = torch.autograd.grad(
            scores[stop - 1].sum(), vectors
        )  # rows know nothing of each other
    norms: Tensor = torch.linalg.vector_norm(
        slopes, dim=-1, dtype=torch.float64
    )  # (T), for the feed-forward model (T, N - 1)
    if isinstance(model, Ffnn):
        seen = norms[stop - 1].flip(1)
        return F.pad(seen, (0, far - seen.shape[1]))
    # A row's first vector is that of the start mark, so that each token stands one place further on. The recurrent model doesn't
    # read a row's last token, the GPT does.
    first = stop - lengths + (torch.arange(len(windows)) if isinstance(model, Gpt) else 0)
    places = (first + lengths)[:, None] - torch.arange(1, far + 1)
    return norms[places.clamp(min=0)]


def _seen(model: Gpt | Rnn | Ffnn, windows: list[Tensor], far: int) -> Tensor:
    """Which distances (B, F) are inside a window, and inside the last token's sentence where a model forgets all others."""
    result = torch.zeros(len(windows), far, dtype=torch.bool)
    for row, window in zip(result, windows, strict=True):
        earlier = window[:-1].flip(0)
        row[: len(earlier)] = True
        if not isinstance(model, Gpt):
            row[: len(earlier)] = begins(earlier, model.settings).cumsum(0) == 0
    return result


@contextmanager
def _caught(table: nn.Module) -> Iterator[list[Tensor]]:
    """The vectors that leave a table while this lasts, as what gradients can be asked for."""
    found: list[Tensor] = []

    def catch(_module: nn.Module, _arguments: Any, vectors: Tensor) -> Tensor:
        found.append(vectors.detach().requires_grad_())
        return found[-1]

    handle = table.register_forward_hook(catch)
    try:
        yield found
    finally:
        handle.remove()
