"""Lines that are one text, read in order: how likely each of their tokens is, in bounded memory.

T tokens. A model that carries its memory from line to line carries it over all of them; one that
knows where a sentence ends begins each line anew; a GPT reads windows as long as it has positions
for, across lines.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from firth.base.errors import InputError
from firth.models.protocols import LanguageModel
from firth.tasks.likelihood import PIECE, read_rows

Ids = list[int]
Way = Literal["slide", "cut", "carry", "error"]  # of reading on where a model has no more positions


def line_likelihoods(
    model: LanguageModel[Any],
    end: int,
    length: int | None,
    lines: Iterable[Ids],
    long: Way = "slide",
) -> Iterator[NDArray[Any]]:
    """Yield for each line the log-probabilities of its tokens and of its end (T).

    A GPT's windows share half of their tokens, each of which is taken from the one in which most
    text precedes it; with `cut` they share nothing. With `carry` nothing is read twice: half a
    window at a time, with the keys and values of the half before.
    """
    sizes: deque[int] = deque()
    rows = _ended(lines, end, sizes)
    first = model.opening(end)
    if model.length is not None:
        found = _windowed(model, rows, length or model.length, long)
    elif first:
        found = _carry(model, rows, first)
    else:
        found = _anew(model, rows)
    yield from _by_line(found, sizes)


def _windowed(
    model: LanguageModel[Any], rows: Iterable[Ids], length: int, long: Way
) -> Iterator[Tensor]:
    """Return the scores of rows that are one text, by windows of a length."""
    if long == "error":
        read = "lines are read as one text, which is longer than any model"
        raise InputError(f"{read}: --long is slide, cut or carry")
    room = length - 1  # the start mark takes one
    if long == "carry":
        return _remember(model, rows, length // 2)
    shared = 0
    if long == "slide":
        shared = room // 2
    return _slide(model, rows, room, shared)


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
            batch = []
            size = 0
        batch.append(row)
        size += len(row)
    if batch:
        yield batch


def _anew(model: LanguageModel[Any], rows: Iterable[Ids]) -> Iterator[Tensor]:
    """Scores of rows each of which begins as a sentence does."""
    for batch in _batches(rows):
        lengths = torch.tensor([len(row) for row in batch])
        with torch.inference_mode():
            found = read_rows(model, _stream(batch), lengths)
        yield found


def _stream(rows: Iterable[Ids]) -> Tensor:
    """Return the tokens of rows as one stream (T)."""
    return torch.tensor(list(chain.from_iterable(rows)))


def _carry(model: Any, rows: Iterable[Ids], first: Ids) -> Iterator[Tensor]:
    """Scores of rows that are one text after its opening."""
    opening = torch.tensor(first)
    with torch.inference_mode():
        _, state = model.score(opening, torch.tensor([len(first)]))
    for batch in _batches(rows):
        for some in _stream(batch).split(PIECE):
            length = torch.tensor([len(some)])
            with torch.inference_mode():
                found, state = model.score(some, length, state)
            yield found


def _remember(model: LanguageModel[Any], rows: Iterable[Ids], span: int) -> Iterator[Tensor]:
    """Yield the scores of rows that are one text, by spans, each with the state of the last."""
    state = model.start(1)
    for batch in _batches(rows):
        for some in _stream(batch).split(span):
            length = torch.tensor([len(some)])
            with torch.inference_mode():
                before = state.latest(span)
                found, state = model.score(some, length, before)
            yield found


def _slide(
    model: LanguageModel[Any], rows: Iterable[Ids], room: int, shared: int
) -> Iterator[Tensor]:
    """Yield the scores of rows that are one text, by windows that share `shared` tokens."""
    step = room - shared
    many = max(1, PIECE // room)  # windows that are read at once
    reach = room + (many - 1) * step
    held: Ids = []  # the tokens of windows that have not been read
    rated = 0  # so many of the first have their scores from the window before
    for row in rows:
        held += row
        while len(held) >= reach:
            yield _windows(model, held[:reach], room, shared, rated)
            del held[: many * step]
            rated = shared
    if len(held) > rated:
        yield _windows(model, held, room, shared, rated)


def _windows(model: LanguageModel[Any], ids: Ids, room: int, shared: int, rated: int) -> Tensor:
    """Scores of a stretch of text (T) but for the first tokens, which have theirs."""
    step = room - shared
    stop = max(1, len(ids) - shared)
    rows = [ids[start : start + room] for start in range(0, stop, step)]
    lengths = [len(row) for row in rows]
    with torch.inference_mode():
        found, _ = model.score(_stream(rows), torch.tensor(lengths))

    # What a window shares with the one before has its scores from there.
    first, *others = found.split(lengths)
    new = [scores[shared:] for scores in others]
    return torch.cat([first[rated:], *new])
