"""What a model would write: at blanks after each layer, after each token, at each step of a target.

N layers, L tokens, D width, V vocabulary; U target tokens, O words that are written.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from firth.predictor import Predictor
from firth.probes.pair import Pair
from firth.probes.row import Row, readable_piece
from firth.tasks.fill import Fill, masked_logits, next_logits
from firth.text.tokenizer import Tokenizer

TOP = 10  # pieces that are named


class Guess(NamedTuple):
    """The most probable pieces of one place, best first, and the sum of all others."""

    pieces: list[str]
    probabilities: list[float]
    rest: float


class BlankGuesses(NamedTuple):
    """What each layer, from the embedding on, would fill in at one blank."""

    place: int  # of its token
    layers: list[Guess]


class NextGuess(NamedTuple):
    """What a model expects after a token, and what it thought of the one that came."""

    guess: Guess
    came: str | None  # None after the last token of a text
    probability: float | None
    rank: int | None  # 1 for the most probable; None for what is never written


def blank_guesses(predictor: Predictor, row: Row) -> list[BlankGuesses]:
    """Return what every layer would fill in at each blank; nothing where the model fills none.

    The head was trained on the last layer; on the others it shows what can be read off already.
    """
    bundle = predictor.bundle
    if bundle.kind not in Fill.kinds:
        return []
    mask = bundle.tokenizer.mask
    places = [place for place, token in enumerate(row.encoding.ids) if token == mask]
    if not places:
        return []
    with predictor.computing(), torch.inference_mode():
        hidden = bundle.encoder(*row.batch().stream, layers=True)
        blanks = torch.stack([layer[places] for layer in hidden.layers])  # (N + 1, blanks, D)
        probabilities = masked_logits(bundle.head, blanks).softmax(-1)
    found = []
    for number, place in enumerate(places):
        layers = [_guess(bundle.tokenizer, one) for one in probabilities[:, number]]
        found.append(BlankGuesses(place, layers))
    return found


def next_probability(predictor: Predictor, row: Row) -> float | None:
    """Return the probability that the second text follows the first; None without such a head."""
    bundle = predictor.bundle
    if bundle.kind not in Fill.kinds or row.example.second is None:
        return None
    with predictor.computing(), torch.inference_mode():
        logits = next_logits(bundle.head, bundle.encoder(*row.batch().stream).pooled)
    if logits is None:
        return None
    return float(logits[0].softmax(0)[0])


def next_guesses(predictor: Predictor, row: Row) -> list[NextGuess]:
    """Return what a language model expects after each token, the start mark first."""
    model = predictor.bundle.language
    tokenizer = predictor.bundle.tokenizer
    came = [*zip(row.encoding.ids[1:], row.tokens[1:], strict=True), None]
    found = []
    with predictor.computing(), torch.inference_mode():
        state = model.start(1)
        for token, following in zip(row.encoding.ids, came, strict=True):
            logs, state = model.step(torch.tensor([token]), state)
            found.append(_next_guess(tokenizer, logs[0].exp(), following))
    return found


def target_guesses(predictor: Predictor, pair: Pair) -> list[NextGuess]:
    """Return what a translator expects in the place of each token of a target."""
    tokenizer = predictor.bundle.targets
    first = predictor.bundle.translator.first
    came = zip(pair.ids, pair.tokens, strict=True)
    rows = target_probabilities(predictor, pair)
    return [_next_guess(tokenizer, row, one, first) for row, one in zip(rows, came, strict=True)]


def target_probabilities(predictor: Predictor, pair: Pair) -> Tensor:
    """Return the probability of all that can be written at each step of a target (U, O)."""
    model = predictor.bundle.translator
    ids, lengths, *_ = pair.streams()
    rows = []
    with predictor.computing(), torch.inference_mode():
        state = model.begin(ids, lengths)
        for token in [model.start, *pair.ids[:-1]]:
            logs, state = model.step(torch.tensor([token]), state)
            rows.append(logs[0].exp())
    return torch.stack(rows)


def _next_guess(
    tokenizer: Tokenizer, probabilities: Tensor, came: tuple[int, str] | None, first: int = 0
) -> NextGuess:
    """Return what is expected by the probabilities of the tokens from `first` on (V).

    `came` is the token that came, and its name. One that is never written has no rank.
    """
    guess = _guess(tokenizer, probabilities, first)
    if came is None:
        return NextGuess(guess, None, None, None)
    token, name = came
    if token < first:
        return NextGuess(guess, name, 0.0, None)
    probability = float(probabilities[token - first])
    rank = 1 + int((probabilities > probability).sum())
    return NextGuess(guess, name, probability, rank)


def _guess(tokenizer: Tokenizer, probabilities: Tensor, first: int = 0) -> Guess:
    """Return the best pieces of a distribution over the tokens from `first` on (V)."""
    best = probabilities.topk(min(TOP, len(probabilities)))
    pieces = [readable_piece(tokenizer, first + row) for row in best.indices.tolist()]
    rest = 0.0
    if len(probabilities) > TOP:
        rest = max(0.0, 1 - float(best.values.double().sum()))
    return Guess(pieces, best.values.tolist(), rest)
