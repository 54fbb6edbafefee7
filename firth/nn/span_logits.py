"""Logits of the spans of a context: what a head says of each window, and of all windows together.

T tokens in the stream, B rows, C tokens of a context, L tokens of an answer at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

LONGEST = 30  # tokens of an answer


class WindowLogits(NamedTuple):
    """What the head says of one window."""

    first: int  # number, in the whole context, of the token that it begins with
    starts: NDArray[Any]  # (C) that the answer begins with a token
    ends: NDArray[Any]  # (C) that it ends with one
    none: float  # that the window has no answer
    offsets: Sequence[tuple[int, int]]  # (C) characters of each token


class SpanLogits(NamedTuple):
    """The logits of all spans of a context, and that none of them is the answer."""

    spans: NDArray[Any]  # (C, L) of 1 to L tokens, from each token on; -inf where there is no span
    none: float

    @property
    def best(self) -> tuple[int, int]:
        """The first and the last token of the likeliest span."""
        first, more = divmod(int(self.spans.argmax()), LONGEST)
        return first, first + more

    @property
    def margin(self) -> float:
        """How much higher the logit of the likeliest span is than that of no answer."""
        return float(self.spans.max(initial=-float("inf"))) - self.none

    @property
    def log_sum(self) -> float:
        """The logarithm of the sum over all spans and no answer."""
        import numpy as np

        # The highest is taken off first, so that no exponential overflows.
        highest = max(self.none, self.none + self.margin)
        spans = np.exp(self.spans - highest).sum()
        none = np.exp(self.none - highest)
        return highest + float(np.log(spans + none))


def span_loss(logits: Tensor, lengths: Tensor, spans: Tensor) -> Tensor:
    """Return the sum over rows of the cross-entropy of start and end.

    Given logits (T, 2), lengths of the rows (B) and their spans (B, 2), by places in the row.
    """
    import torch

    rows = logits.split(lengths.tolist())
    totals = torch.stack([row.logsumexp(0) for row in rows])  # (B, 2)
    begun = lengths.cumsum(0) - lengths  # (B) where each row begins in the stream
    places = spans + begun[:, None].to(logits.device)  # (B, 2)
    true = logits.gather(0, places)
    losses = totals - true
    return losses.sum()


def window_logits(
    logits: Tensor,
    first: int,
    places: Sequence[int],
    none: int,
    offsets: Sequence[tuple[int, int]] = (),
) -> WindowLogits:
    """Return what the logits of a row (T, 2) say of its context, and of the mark of no answer."""
    own = logits[places].double().numpy()  # (C, 2)
    of_none = logits[none].double().sum()
    return WindowLogits(
        first,
        starts=own[:, 0],
        ends=own[:, 1],
        none=float(of_none),
        offsets=offsets,
    )


def span_logits(windows: Sequence[WindowLogits]) -> SpanLogits:
    """Return the logits of all spans; one that several windows have takes the highest.

    A window that sees an answer says so: that there is none is the lowest over all windows.
    """
    import numpy as np

    size = max(window.first + len(window.starts) for window in windows)
    spans = np.full((size, LONGEST), -np.inf)
    for window in windows:
        if not len(window.starts):
            continue
        found = _window_spans(window)
        after = window.first + len(found)
        own = spans[window.first : after]
        np.maximum(own, found, out=own)
    none = min(window.none for window in windows)
    return SpanLogits(spans, none)


def _window_spans(window: WindowLogits) -> NDArray[Any]:
    """Return the logits of a window's spans (C, L); -inf for one beyond it or without characters.

    Row i has the spans from token i on: views of the ends, which nothing copies.
    """
    import numpy as np
    from numpy.lib.stride_tricks import sliding_window_view

    beyond = np.full(LONGEST - 1, -np.inf)
    ends = np.concatenate([window.ends, beyond])
    found: NDArray[Any] = window.starts[:, None] + sliding_window_view(ends, LONGEST)
    if not window.offsets:
        return found

    # A piece may stand for no character of the text.
    characters = np.array(window.offsets)  # (C, 2)
    starts = characters[:, :1]
    nowhere = np.zeros(LONGEST - 1, np.int64)
    last = np.concatenate([characters[:, 1], nowhere])
    reach = sliding_window_view(last, LONGEST)  # (C, L) where each span ends
    spans: NDArray[Any] = np.where(reach > starts, found, -np.inf)
    return spans
