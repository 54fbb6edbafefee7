"""What a model would write: at each blank after each layer, and after each token of a text.

N layers, L tokens, D width, V vocabulary.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from firth.predictor import Predictor
from firth.probes.row import Row, readable_piece
from firth.tasks.fill import Fill, masked_logits, next_logits

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
    """What a language model expects after a token, and what it thought of the one that came."""

    guess: Guess
    came: str | None  # None after the last token
    probability: float | None
    rank: int | None  # 1 for the most probable


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
        layers = [_guess(predictor, one) for one in probabilities[:, number]]
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
    found = []
    with predictor.computing(), torch.inference_mode():
        state = model.start(1)
        for place, token in enumerate(row.encoding.ids):
            logs, state = model.step(torch.tensor([token]), state)
            probabilities = logs[0].exp()
            guess = _guess(predictor, probabilities)
            if place + 1 == len(row.tokens):
                found.append(NextGuess(guess, None, None, None))
                break
            came = row.encoding.ids[place + 1]
            probability = float(probabilities[came])
            rank = 1 + int((probabilities > probability).sum())
            found.append(NextGuess(guess, row.tokens[place + 1], probability, rank))
    return found


def _guess(predictor: Predictor, probabilities: Tensor) -> Guess:
    """Return the best pieces of a distribution (V)."""
    best = probabilities.topk(min(TOP, len(probabilities)))
    pieces = [readable_piece(predictor, token) for token in best.indices.tolist()]
    kept = best.values.tolist()
    rest = max(0.0, 1 - float(best.values.double().sum()))
    return Guess(pieces, kept, rest)
