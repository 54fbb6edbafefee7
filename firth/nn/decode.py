"""Writing on: one search for every language model that reads a token and says how likely each next one is.

B rows, V vocabulary, K beams of a prompt.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor

RUN = 128  # neighbours of which the largest is looked for first
SHORT = 256  # tokens that mostly have all the mass that is asked for


class State(Protocol):
    """What a model remembers, a row for each text."""

    def pick(self, rows: Tensor) -> Self:
        """The state of the rows named, in that order."""
        ...


S = TypeVar("S", bound=State)


class Model(Protocol[S]):
    """What a search needs of a language model."""

    def start(self, rows: int) -> S:
        """The state before the first token."""
        ...

    def step(self, ids: Tensor, state: S) -> tuple[Tensor, S]:
        """Read a token a row (B) and give the log-probability of every next one, (B, V)."""
        ...


@runtime_checkable
class Reader(Model[S], Protocol[S]):
    """A model that also reads rows of any lengths at once, without a score for each token."""

    def read(self, ids: Tensor, lengths: Tensor, state: S) -> S:
        """The state after a stream of tokens."""
        ...


class Greedy(NamedTuple):
    """Take the likeliest token each time."""


class Sample(NamedTuple):
    """Draw each token by its probability to the power of 1 / `temperature`.

    `top` leaves the so many likeliest tokens, `mass` of those the fewest that together have at least this share of the probability.
    Each prompt has a seed and a generator of its own, so that its draws don't depend on the others.
    """

    seeds: Sequence[int]
    temperature: float = 1.0
    top: int | None = None
    mass: float = 1.0


class Beam(NamedTuple):
    """Keep the `width` likeliest texts at every length, and give the `best` of those that ended.

    Texts are ranked by their log-probability divided by the number of new tokens to the power of `penalty`: above 0 longer texts
    gain, 0 ranks by the probability alone. A prompt is done when `width` texts have ended, at once if `early`, else when the
    likeliest of those that go on, at its present length, is no better than the worst of them. These are transformers'
    `length_penalty` and `early_stopping=True` or `False`.
    """

    width: int = 4
    best: int = 1
    penalty: float = 1.0
    early: bool = False


class Written(NamedTuple):
    """What was written after a prompt, the end mark or stop sequence included, and the model's log-probability of each token."""

    ids: list[int]
    scores: list[float]


class Limits(NamedTuple):
    """Where a text ends."""

    most: int  # new tokens
    end: int | None  # a token that ends a text
    stops: tuple[tuple[int, ...], ...]  # sequences of new tokens that end one
    until: Callable[[Sequence[int]], bool] | None  # whether new tokens end one for another reason

    def reached(self, ids: Sequence[int]) -> bool:
        """Whether new tokens end a text."""
        if (
            len(ids) >= self.most
            or ids[-1] == self.end
            or any(tuple(ids[-len(stop) :]) == stop for stop in self.stops)
        ):
            return True
        return self.until is not None and self.until(ids)


@torch.inference_mode()
def decode(
    model: Model[S],
    prompts: Sequence[Sequence[int]],
    how: Greedy | Sample | Beam,
    *,
    most: int,
    start: int | None = None,
    end: int | None = None,
    stops: Sequence[Sequence[int]] = (),
    until: Callable[[Sequence[int]], bool] | None = None,
) -> list[list[Written]]:
    """Go on after each prompt, whatever their lengths, for at most so many tokens; for each prompt what was found, the best first.

    The model reads the mark `start`, if one is given, and then the prompt as it is. A text ends after the mark `end`, any of the
    sequences `stops`, or where `until` says so of its new tokens.
    """
    limits = Limits(most, end, tuple(tuple(stop) for stop in stops), until)
    rows = [[*([] if start is None else [start]), *prompt] for prompt in prompts]
    _check(how, limits, rows)
    found: list[list[Written]] = [[] for _ in rows]
    for batch in _batches(rows, isinstance(model, Reader)):
        scores, state = begin(model, [rows[row] for row in batch])
        if isinstance(how, Beam):
            results = _search(model, scores, state, how, limits)
        else:
            draw = (
                _Draw(how, [how.seeds[row] for row in batch]) if isinstance(how, Sample) else None
            )
            results = _walk(model, scores, state, draw, limits)
        for row, result in zip(batch, results, strict=True):
            found[row] = result
    return found


def _check(how: Greedy | Sample | Beam, limits: Limits, rows: list[list[int]]) -> None:
    """Refuse what makes no sense, before any work is done."""
    if not all(rows):
        raise ValueError("a prompt without tokens needs a start mark")
    if limits.most < 1 or not all(limits.stops):
        raise ValueError(
            "a text goes on for at least one token, and a stop sequence has at least one"
        )
    if isinstance(how, Sample):
        if (
            not how.temperature > 0
            or not 0 < how.mass <= 1
            or (how.top is not None and how.top < 1)
        ):
            raise ValueError(
                "drawing needs a temperature above 0, a mass above 0 and up to 1, and a top of at least 1"
            )
        if len(how.seeds) != len(rows):
            raise ValueError(f"{len(rows)} prompts need as many seeds, not {len(how.seeds)}")
    elif isinstance(how, Beam) and not 1 <= how.best <= how.width:
        raise ValueError(f"the best {how.best} can't be given by a beam of width {how.width}")


def _batches(rows: list[list[int]], ragged: bool) -> list[list[int]]:
    """Which rows go together: all, or those of one length where the model reads only a token at a time."""
    if ragged:
        return [list(range(len(rows)))] if rows else []
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    return [list(batch) for _, batch in groupby(order, key=lambda row: len(rows[row]))]


def begin(model: Model[S], rows: list[list[int]]) -> tuple[Tensor, S]:
    """Read prompts: how likely each next token is (B, V), and the state."""
    state = model.start(len(rows))
    if isinstance(model, Reader):
        ids = torch.tensor([token for row in rows for token in row[:-1]], dtype=torch.int64)
        state = model.read(ids, torch.tensor([len(row) - 1 for row in rows]), state)
    else:
        for column in list(zip(*rows, strict=True))[:-1]:
            _, state = model.step(torch.tensor(column), state)
    return model.step(torch.tensor([row[-1] for row in rows]), state)


class _Draw:
    """Draws with a generator a row: one number picks the token in whose share of the probability it falls."""

    def __init__(self, how: Sample, seeds: list[int]) -> None:
        self.how = how
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, scores: Tensor, rows: list[int]) -> Tensor:
        """The next token (B) of each of the rows, by the scores (B, V)."""
        how, order = self.how, None
        chances = (scores / how.temperature).softmax(1)
        if how.top is not None:
            chances, order = _largest(chances, how.top)
            chances /= chances.sum(1, keepdim=True)
        elif how.mass < 1:
            some, order = _largest(chances, SHORT)
            chances, order = (
                (some, order) if (some.sum(1) >= how.mass).all() else chances.sort(descending=True)
            )
        sums = chances.cumsum(1, dtype=torch.float64)
        if how.mass < 1:
            last = (sums < how.mass).sum(1, keepdim=True).clamp_(max=sums.shape[1] - 1)
            sums = torch.minimum(
                sums, sums.gather(1, last)
            )  # so that no share is left for what comes after
        numbers = torch.stack(
            [torch.rand(1, generator=self.generators[row], dtype=torch.float64) for row in rows]
        )
        places = torch.searchsorted(sums, numbers.to(sums) * sums[:, -1:], right=True).clamp_(
            max=sums.shape[1] - 1
        )
        return (places if order is None else order.gather(1, places))[:, 0]


def _largest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest numbers of each row (B, N), at most so many, and where they stand, the largest first.

    They are among the runs of which the largest is largest. Over a vocabulary this takes a tenth of the time of torch's own search.
    """
    width, runs = x.shape[1], x.shape[1] // RUN
    if runs <= count:
        values, places = x.topk(min(count, width))
        return values, places
    best = x[:, : runs * RUN].unflatten(1, (runs, RUN)).amax(2).topk(count).indices  # (B, count)
    inside, rest = (
        torch.arange(RUN, device=x.device),
        torch.arange(runs * RUN, width, device=x.device),
    )
    places = torch.cat([(best[..., None] * RUN + inside).flatten(1), rest.expand(len(x), -1)], 1)
    values, order = x.gather(1, places).topk(count)
    return values, places.gather(1, order)


def _walk(
    model: Model[S], scores: Tensor, state: S, draw: _Draw | None, limits: Limits
) -> list[list[Written]]:
    """Draw a token at a time, or take the likeliest; rows that have ended are left out of the batch."""
    texts = [Written([], []) for _ in scores]
    rows = list(range(len(texts)))
    while True:
        # numpy finds the largest in a tenth of torch's time
        tokens = (
            draw(scores, rows)
            if draw
            else torch.from_numpy(scores.cpu().numpy().argmax(1)).to(scores.device)
        )
        chances = scores.gather(1, tokens[:, None])[:, 0]
        for row, token, chance in zip(rows, tokens.tolist(), chances.tolist(), strict=True):
            texts[row].ids.append(token)
            texts[row].scores.append(chance)
        going = [place for place, row in enumerate(rows) if not limits.reached(texts[row].ids)]
        if not going:
            return [[text] for text in texts]
        if len(going) < len(rows):
            rows = [rows[place] for place in going]
            kept = torch.tensor(going)
            tokens, state = tokens[kept], state.pick(kept)
        scores, state = model.step(tokens, state)


class _Hope(NamedTuple):
    """A text that may go on."""

    total: float  # its log-probability
    row: int  # of the state that it goes on from
    text: Written


class _Prompt:
    """The search after one prompt."""

    def __init__(self, row: int) -> None:
        self.live = [_Hope(0.0, row, Written([], []))]
        self.done: list[tuple[float, Written]] = []  # rank and text, the best first

    def grow(self, candidates: Iterable[_Hope], beam: Beam, limits: Limits) -> bool:
        """Take texts that are longer by a token, the likeliest first, and say whether to go on."""
        self.live = []
        for place, hope in enumerate(candidates):
            if not limits.reached(hope.text.ids):
                self.live.append(hope)
            elif (
                place < beam.width
            ):  # the others were only there to take the places of those that end
                self.done.append((self._rank(hope, beam), hope.text))
        del self.live[beam.width :]
        self.done = sorted(self.done, key=lambda one: -one[0])[: beam.width]
        if not self.live or len(self.done) < beam.width:
            return bool(self.live)
        return not beam.early and self._rank(self.live[0], beam) > self.done[-1][0]

    def lanes(self, width: int) -> list[_Hope]:
        """As many texts as the beam is wide; where there are fewer, one more often, with no chance."""
        return self.live + [self.live[0]._replace(total=-math.inf)] * (width - len(self.live))

    @staticmethod
    def _rank(hope: _Hope, beam: Beam) -> float:
        return hope.total / float(len(hope.text.ids) ** beam.penalty)


def _search(
    model: Model[S], scores: Tensor, state: S, beam: Beam, limits: Limits
) -> list[list[Written]]:
    """Keep several texts after each prompt; prompts that are done are left out of the batch."""
    everybody = [_Prompt(row) for row in range(len(scores))]
    prompts, totals = everybody, scores.new_zeros(len(scores), 1)  # (B, K), K is 1 at first
    while True:
        vocab = scores.shape[1]
        sums = (scores.reshape(*totals.shape, vocab) + totals[..., None]).flatten(1)  # (B, K V)
        best, places = _largest(sums, 2 * beam.width)
        own = scores.reshape(sums.shape).gather(1, places)
        first = range(0, len(scores), totals.shape[1])
        tables = zip(prompts, first, best.tolist(), places.tolist(), own.tolist(), strict=True)
        prompts = [
            prompt
            for prompt, *found in tables
            if prompt.grow(_candidates(prompt.live, vocab, *found), beam, limits)
        ]
        if not prompts:
            return [[text for _, text in prompt.done[: beam.best]] for prompt in everybody]
        lanes = [prompt.lanes(beam.width) for prompt in prompts]
        hopes = [hope for lane in lanes for hope in lane]
        totals = scores.new_tensor([[hope.total for hope in lane] for lane in lanes])
        rows = [hope.row for hope in hopes]
        if rows != list(range(len(scores))):
            state = state.pick(torch.tensor(rows))
        scores, state = model.step(torch.tensor([hope.text.ids[-1] for hope in hopes]), state)


def _candidates(
    live: list[_Hope],
    vocab: int,
    first: int,
    totals: list[float],
    places: list[int],
    own: list[float],
) -> Iterator[_Hope]:
    """The texts that a prompt's texts may become, the likeliest first."""
    for total, place, score in zip(totals, places, own, strict=True):
        if total == -math.inf:
            return
        lane, token = divmod(place, vocab)
        text = live[lane].text
        yield _Hope(total, first + lane, Written([*text.ids, token], [*text.scores, score]))
