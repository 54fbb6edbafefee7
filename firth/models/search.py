"""Decoding: one search over every model that reads a token and says how likely each next one is.

B rows, V vocabulary, K beams of a prompt.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from firth.models.protocols import NextTokenModel, PrefillModel, R

RUN = 128  # neighbours of which the largest is looked for first
SHORT = 256  # tokens that mostly have all the mass that is asked for

Until = Callable[[Sequence[int]], bool]  # whether new tokens end a text


class Greedy(NamedTuple):
    """Take the likeliest token each time."""


class Sampling(NamedTuple):
    """Draw each token by its probability to the power of 1 / `temperature`.

    `top` leaves the so many likeliest tokens (top-k), `mass` of those the fewest that together have
    at least this share of the probability (top-p). Each prompt has a seed and a generator of its
    own, so that its draws don't depend on the others.
    """

    seeds: Sequence[int]
    temperature: float = 1.0
    top: int | None = None
    mass: float = 1.0


class Beam(NamedTuple):
    """Keep the `width` likeliest texts at every length, and give the `best` of those that ended.

    Texts are ranked by their log-probability divided by the number of new tokens to the power of
    `penalty`: above 0 longer texts gain, 0 ranks by the probability alone. A prompt is done when
    `width` texts have ended, at once if `early`, else when the likeliest of those that go on, at
    its present length, is no better than the worst of them. These are transformers'
    `length_penalty` and `early_stopping=True` or `False`.
    """

    width: int = 4
    best: int = 1
    penalty: float = 1.0
    early: bool = False


class Generated(NamedTuple):
    """New tokens after a prompt, the end mark or stop sequence included."""

    ids: list[int]
    scores: list[float]  # the model's log-probability of each


class Limits(NamedTuple):
    """Where a text ends."""

    most: int  # new tokens
    end: int | None  # a token that ends a text
    stops: tuple[tuple[int, ...], ...]  # sequences of new tokens that end one
    until: Until | None  # whether new tokens end one for another reason

    def reached(self, ids: Sequence[int]) -> bool:
        """Return whether new tokens end a text."""
        if len(ids) >= self.most or ids[-1] == self.end:
            return True
        for stop in self.stops:
            newest = ids[-len(stop) :]
            if tuple(newest) == stop:
                return True
        return self.until is not None and self.until(ids)


@torch.inference_mode()
def decode(
    model: NextTokenModel[R],
    prompts: Sequence[Sequence[int]],
    how: Greedy | Sampling | Beam,
    *,
    most: int,
    start: int | None = None,
    end: int | None = None,
    stops: Sequence[Sequence[int]] = (),
    until: Until | None = None,
) -> list[list[Generated]]:
    """Continue each prompt, whatever their lengths, for at most so many tokens.

    Return for each prompt what was found, the best first. The model reads the mark `start`, if one
    is given, and then the prompt as it is. A text ends after the mark `end`, any of the sequences
    `stops`, or where `until` says so of its new tokens.
    """
    sequences = tuple(tuple(stop) for stop in stops)
    limits = Limits(most, end, sequences, until)
    opening = []
    if start is not None:
        opening.append(start)
    rows = [[*opening, *prompt] for prompt in prompts]
    _check(how, limits, rows)

    found: list[list[Generated]] = [[] for _ in rows]
    ragged = isinstance(model, PrefillModel)
    for batch in _batches(rows, ragged):
        scores, state = read_prompts(model, [rows[row] for row in batch])
        if isinstance(how, Beam):
            results = _beam_search(model, scores, state, how, limits)
        elif isinstance(how, Sampling):
            sampler = _Sampler(how, [how.seeds[row] for row in batch])
            results = _token_by_token(model, scores, state, sampler, limits)
        else:
            results = _token_by_token(model, scores, state, None, limits)
        for row, result in zip(batch, results, strict=True):
            found[row] = result
    return found


def read_prompts(model: NextTokenModel[R], rows: list[list[int]]) -> tuple[Tensor, R]:
    """Read prompts; return the log-probability of each next token (B, V), and the state."""
    state = model.start(len(rows))
    # The last token is read by a step, which gives the probabilities after it.
    if isinstance(model, PrefillModel):
        ids = [token for row in rows for token in row[:-1]]
        stream = torch.tensor(ids, dtype=torch.int64)  # (T)
        lengths = torch.tensor([len(row) - 1 for row in rows])
        state = model.read(stream, lengths, state)
    else:
        columns = list(zip(*rows, strict=True))
        for column in columns[:-1]:
            _, state = model.step(torch.tensor(column), state)
    last = [row[-1] for row in rows]
    return model.step(torch.tensor(last), state)


def largest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest numbers of each row (B, N), at most so many, and their places, sorted.

    They are among the runs of which the largest is largest. Over a vocabulary this takes a tenth of
    the time of torch's own search.
    """
    width = x.shape[1]
    runs = width // RUN
    if runs <= count:
        values, places = x.topk(min(count, width))
        return values, places

    in_runs = runs * RUN  # the rest fills no run
    peaks = x[:, :in_runs].unflatten(1, (runs, RUN)).amax(2)  # (B, runs)
    best = peaks.topk(count).indices  # (B, count)
    offsets = torch.arange(RUN, device=x.device)
    inside = best[..., None] * RUN + offsets  # (B, count, RUN)
    rest = torch.arange(in_runs, width, device=x.device)
    rests = rest.expand(len(x), -1)  # (B, rest)

    places = torch.cat([inside.flatten(1), rests], 1)
    candidates = x.gather(1, places)
    values, order = candidates.topk(count)
    return values, places.gather(1, order)


def _check(how: Greedy | Sampling | Beam, limits: Limits, rows: list[list[int]]) -> None:
    """Refuse what makes no sense, before any work is done."""
    if not all(rows):
        raise ValueError("a prompt without tokens needs a start mark")
    if limits.most < 1 or not all(limits.stops):
        raise ValueError(
            "a text goes on for at least one token, and a stop sequence has at least one"
        )
    if isinstance(how, Sampling):
        too_few = how.top is not None and how.top < 1
        if not how.temperature > 0 or not 0 < how.mass <= 1 or too_few:
            raise ValueError(
                "drawing needs a temperature above 0, a mass above 0 and up to 1, and a top of at "
                "least 1"
            )
        if len(how.seeds) != len(rows):
            raise ValueError(f"{len(rows)} prompts need as many seeds, not {len(how.seeds)}")
    elif isinstance(how, Beam) and not 1 <= how.best <= how.width:
        raise ValueError(f"the best {how.best} can't be given by a beam of width {how.width}")


def _batches(rows: list[list[int]], ragged: bool) -> list[list[int]]:
    """Group rows: all, or those of one length where the model reads only a token at a time."""
    numbers = range(len(rows))
    if not rows:
        return []
    if ragged:
        return [list(numbers)]

    def length(row: int) -> int:
        return len(rows[row])

    order = sorted(numbers, key=length)
    return [list(batch) for _, batch in groupby(order, key=length)]


class _Sampler:
    """Draws with a generator a row: one number picks the token in whose share of 1 it falls."""

    def __init__(self, how: Sampling, seeds: list[int]) -> None:
        self.temperature = how.temperature
        self.top = how.top
        self.mass = how.mass
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, scores: Tensor, rows: list[int]) -> Tensor:
        """Draw the next token (B) of each of the rows, by the log-probabilities (B, V)."""
        probabilities, order = self._candidates(scores)
        # In double precision: to a sum near 1 in single, the unlikeliest tokens add nothing.
        sums = probabilities.cumsum(1, dtype=torch.float64)
        final = sums.shape[1] - 1
        if self.mass < 1:
            last = (sums < self.mass).sum(1, keepdim=True).clamp_(max=final)
            most = sums.gather(1, last)
            # No share is left for what comes after.
            sums = torch.minimum(sums, most)

        drawn = [self._number(row) for row in rows]
        numbers = torch.stack(drawn).to(sums)  # (B, 1), from 0 to 1
        total = sums[:, -1:]
        # A number that rounding carries to the very end falls to the last token.
        places = torch.searchsorted(sums, numbers * total, right=True).clamp_(max=final)
        if order is not None:
            places = order.gather(1, places)
        return places[:, 0]

    def _candidates(self, scores: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the probabilities to draw by and the tokens that have them, None for all."""
        probabilities = (scores / self.temperature).softmax(1)
        if self.top is not None:
            some, order = largest(probabilities, self.top)
            total = some.sum(1, keepdim=True)
            return some / total, order
        if self.mass < 1:
            some, order = largest(probabilities, SHORT)
            enough = some.sum(1) >= self.mass
            if enough.all():
                return some, order
            probabilities, order = probabilities.sort(descending=True)
            return probabilities, order
        return probabilities, None

    def _number(self, row: int) -> Tensor:
        generator = self.generators[row]
        return torch.rand(1, generator=generator, dtype=torch.float64)


def _token_by_token(
    model: NextTokenModel[R], scores: Tensor, state: R, sampler: _Sampler | None, limits: Limits
) -> list[list[Generated]]:
    """Draw a token at a time, or take the likeliest; rows that have ended leave the batch."""
    texts = [Generated([], []) for _ in scores]
    rows = list(range(len(texts)))
    while True:
        if sampler is None:
            tokens = _likeliest(scores)
        else:
            tokens = sampler(scores, rows)
        chosen = scores.gather(1, tokens[:, None])[:, 0]  # (B)
        going = []
        new = zip(rows, tokens.tolist(), chosen.tolist(), strict=True)
        for place, (row, token, score) in enumerate(new):
            text = texts[row]
            text.ids.append(token)
            text.scores.append(score)
            if not limits.reached(text.ids):
                going.append(place)
        if not going:
            return [[text] for text in texts]

        if len(going) < len(rows):
            rows = [rows[place] for place in going]
            kept = torch.tensor(going)
            tokens = tokens[kept]
            state = state.pick(kept)
        scores, state = model.step(tokens, state)


def _likeliest(scores: Tensor) -> Tensor:
    """Return the likeliest token of each row (B); numpy finds it in a tenth of torch's time."""
    array = scores.cpu().numpy()
    best = torch.from_numpy(array.argmax(1))
    return best.to(scores.device)


class _Hypothesis(NamedTuple):
    """A text that may go on."""

    total: float  # its log-probability
    row: int  # of the state that it goes on from
    text: Generated


class _Prompt:
    """The beam search after one prompt."""

    def __init__(self, row: int) -> None:
        nothing = Generated([], [])
        self.live = [_Hypothesis(0.0, row, nothing)]
        self.done: list[tuple[float, Generated]] = []  # rank and text, the best first

    def grow(self, candidates: Iterable[_Hypothesis], beam: Beam, limits: Limits) -> bool:
        """Take texts that are longer by a token, the likeliest first; return whether to go on."""
        live = []
        for place, one in enumerate(candidates):
            if not limits.reached(one.text.ids):
                live.append(one)
            elif place < beam.width:
                # The others were only there to take the places of those that end.
                self.done.append((self._rank(one, beam), one.text))
        self.live = live[: beam.width]
        by_rank = sorted(self.done, key=lambda pair: -pair[0])
        self.done = by_rank[: beam.width]

        if not self.live:
            return False
        if len(self.done) < beam.width:
            return True
        if beam.early:
            return False
        worst, _ = self.done[-1]
        return self._rank(self.live[0], beam) > worst

    def filled(self, width: int) -> list[_Hypothesis]:
        """Return as many texts as the beam is wide; copies without a probability fill it up."""
        filler = self.live[0]._replace(total=-math.inf)
        missing = width - len(self.live)
        return self.live + [filler] * missing

    def best(self, count: int) -> list[Generated]:
        """Return so many of the texts that ended, the best first."""
        return [text for _, text in self.done[:count]]

    @staticmethod
    def _rank(one: _Hypothesis, beam: Beam) -> float:
        length = len(one.text.ids)
        return one.total / float(length**beam.penalty)


def _beam_search(
    model: NextTokenModel[R], scores: Tensor, state: R, beam: Beam, limits: Limits
) -> list[list[Generated]]:
    """Keep several texts after each prompt; prompts that are done leave the batch."""
    everybody = [_Prompt(row) for row in range(len(scores))]
    prompts = everybody
    totals = scores.new_zeros(len(scores), 1)  # (B, K), K is 1 at first
    while True:
        prompts = _grow(prompts, scores, totals, beam, limits)
        if not prompts:
            return [prompt.best(beam.best) for prompt in everybody]

        hypotheses = []
        for prompt in prompts:
            hypotheses += prompt.filled(beam.width)
        log_probabilities = [one.total for one in hypotheses]
        totals = scores.new_tensor(log_probabilities).view(-1, beam.width)
        rows = [one.row for one in hypotheses]
        if rows != list(range(len(scores))):
            state = state.pick(torch.tensor(rows))
        newest = [one.text.ids[-1] for one in hypotheses]
        scores, state = model.step(torch.tensor(newest), state)


def _grow(
    prompts: list[_Prompt], scores: Tensor, totals: Tensor, beam: Beam, limits: Limits
) -> list[_Prompt]:
    """Make the texts of prompts longer by a token; return the prompts that go on."""
    vocab = scores.shape[1]
    width = totals.shape[1]
    scores = scores.reshape(*totals.shape, vocab)  # (B, K, V)
    sums = (scores + totals[..., None]).flatten(1)  # (B, K V)
    # Twice as many as the beam is wide: even if half of them end their texts, enough go on.
    best, places = largest(sums, 2 * beam.width)
    own = scores.flatten(1).gather(1, places)

    going = []
    tables = zip(prompts, best.tolist(), places.tolist(), own.tolist(), strict=True)
    for number, (prompt, *found) in enumerate(tables):
        candidates = _candidates(prompt.live, vocab, number * width, *found)
        if prompt.grow(candidates, beam, limits):
            going.append(prompt)
    return going


def _candidates(
    live: list[_Hypothesis],
    vocab: int,
    first: int,
    totals: list[float],
    places: list[int],
    own: list[float],
) -> Iterator[_Hypothesis]:
    """Yield the texts that a prompt's texts may become, the likeliest first."""
    for total, place, score in zip(totals, places, own, strict=True):
        if total == -math.inf:
            return
        number, token = divmod(place, vocab)
        text = live[number].text
        ids = [*text.ids, token]
        scores = [*text.scores, score]
        yield _Hypothesis(total, first + number, Generated(ids, scores))
