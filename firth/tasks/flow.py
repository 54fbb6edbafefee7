"""Lines that are one text, read in order: how likely each of their tokens is, in memory that doesn't grow.

T tokens. A model that carries its memory from line to line carries it over all of them; one that knows where a sentence ends begins
each line anew; a GPT reads windows as long as it has positions for, across lines.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.base.errors import InputError
from firth.models.gpt import Gpt
from firth.tasks.language import Language, opening
from firth.tasks.rate import PIECE, read

Ids = list[int]
Way = Literal["slide", "cut", "carry", "error"]  # of reading on where a model has no more positions


def flow(
    model: Language, end: int, length: int | None, lines: Iterable[Ids], long: Way = "slide"
) -> Iterator[NDArray[Any]]:
    """For each line the log-probabilities of its tokens and of its end (T).

    A GPT's windows share half of their tokens, each of which is taken from the one in which most text precedes it; with `cut` they
    share nothing. With `carry` nothing is read twice: half a window at a time, with the keys and values of the half before.
    """
    sizes: deque[int] = deque()
    rows = _ended(lines, end, sizes)
    if isinstance(model, Gpt):
        if long == "error":
            raise InputError(
                "lines are read as one text, which is longer than any model: --long is slide, cut or carry"
            )
        room = (length or model.length) - 1  # the start mark takes one
        if long == "carry":
            found = _remember(model, rows, (room + 1) // 2)
        else:
            found = _slide(model, rows, room, room // 2 if long == "slide" else 0)
    elif first := opening(model, end):
        found = _carry(model, rows, first)
    else:
        found = _anew(model, rows)
    yield from _by_line(found, sizes)


def _ended(lines: Iterable[Ids], end: int, sizes: deque[int]) -> Iterator[Ids]:
    """Lines with their ends, whose sizes are kept until their scores are there."""
    for line in lines:
        sizes.append(len(line) + 1)
        yield [*line, end]


def _by_line(found: Iterable[Tensor], sizes: deque[int]) -> Iterator[NDArray[Any]]:
    """Scores that came in pieces of any size, a line at a time."""
    held: NDArray[Any] = np.zeros(0)
    for piece in found:
        held = np.concatenate([held, piece.cpu().numpy()])
        while sizes and len(held) >= sizes[0]:
            size = sizes.popleft()
            yield held[:size]
            held = held[size:]


def _batches(rows: Iterable[Ids]) -> Iterator[list[Ids]]:
    """Rows by the batch, one alone if it is longer than that."""
    batch: list[Ids] = []
    size = 0
    for row in rows:
        if batch and size + len(row) > PIECE:
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row)
    if batch:
        yield batch


def _anew(model: Language, rows: Iterable[Ids]) -> Iterator[Tensor]:
    """Scores of rows each of which begins as a sentence does."""
    for batch in _batches(rows):
        with torch.inference_mode():
            found = read(
                model,
                torch.tensor([token for row in batch for token in row]),
                torch.tensor([len(row) for row in batch]),
            )
        yield found


def _carry(model: Any, rows: Iterable[Ids], first: Ids) -> Iterator[Tensor]:
    """Scores of rows that are one text after its opening."""
    with torch.inference_mode():
        state = model.score(torch.tensor(first), torch.tensor([len(first)]))[1]
    for batch in _batches(rows):
        for some in torch.tensor([token for row in batch for token in row]).split(PIECE):
            with torch.inference_mode():
                found, state = model.score(some, torch.tensor([len(some)]), state)
            yield found


def _remember(model: Gpt, rows: Iterable[Ids], span: int) -> Iterator[Tensor]:
    """Scores of rows that are one text, by spans that go on after what is remembered of the one before."""
    state = model.start(1)
    for batch in _batches(rows):
        for some in torch.tensor([token for row in batch for token in row]).split(span):
            with torch.inference_mode():
                found, state = model.score(some, torch.tensor([len(some)]), state.latest(span))
            yield found


def _slide(model: Gpt, rows: Iterable[Ids], room: int, shared: int) -> Iterator[Tensor]:
    """Scores of rows that are one text, by windows of which each begins with the last `shared` tokens of the one before."""
    step, many = room - shared, max(1, PIECE // room)
    held: Ids = []  # the tokens of windows that have not been read
    rated = 0  # so many of the first have their scores from the window before
    for row in rows:
        held += row
        while len(held) >= room + (many - 1) * step:
            yield _windows(model, held[: room + (many - 1) * step], room, shared, rated)
            del held[: many * step]
            rated = shared
    if len(held) > rated:
        yield _windows(model, held, room, shared, rated)


def _windows(model: Gpt, ids: Ids, room: int, shared: int, rated: int) -> Tensor:
    """Scores of a stretch of text (T) but for the first tokens, which have theirs."""
    rows = [
        ids[first : first + room] for first in range(0, max(1, len(ids) - shared), room - shared)
    ]
    lengths = [len(row) for row in rows]
    with torch.inference_mode():
        found = model.score(
            torch.tensor([token for row in rows for token in row]), torch.tensor(lengths)
        )[0].split(lengths)
    return torch.cat([scores[shared if number else rated :] for number, scores in enumerate(found)])
