"""Translation: the search over targets of many sources, side by side.

B rows, S source tokens, O words that are written.
"""

from typing import Any

from torch import Tensor

from firth.models.protocols import EncoderDecoder
from firth.models.search import Beam, Generated, Greedy, Sampling, decode


def translate(
    model: EncoderDecoder,
    ids: Tensor,
    lengths: Tensor,
    how: Greedy | Sampling | Beam,
    *,
    most: int,
) -> list[list[Generated]]:
    """Return the targets found for each source of a stream (S), the best first.

    A target ends with the model's end mark, or after `most` tokens. All are searched side by side,
    so that memory grows with their number, and with the longest.
    """
    first = model.first
    prompt = [model.start - first]
    prompts = [prompt] * len(lengths)
    pairs = _Pairs(model, ids, lengths)
    found = decode(pairs, prompts, how, most=most, end=model.end - first)
    for targets in found:
        for target in targets:
            target.ids[:] = [number + first for number in target.ids]
    return found


class _Pairs:
    """An encoder-decoder and its sources, as decoding sees them; a token is a row of the output."""

    def __init__(self, model: EncoderDecoder, ids: Tensor, lengths: Tensor) -> None:
        self.model = model
        self.ids = ids
        self.lengths = lengths

    def start(self, rows: int) -> Any:
        """Return the state before the start marks of all sources."""
        return self.model.begin(self.ids, self.lengths)

    def step(self, rows: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read a token a target (B); return the log-probability of every next one, (B, O)."""
        return self.model.step(rows + self.model.first, state)
