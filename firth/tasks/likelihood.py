"""How likely a language model finds a text, token by token, and which of several texts most.

T tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from firth.base.errors import InputError
from firth.data.examples import Candidates, Example, ScoredCandidates
from firth.data.record import shortened
from firth.data.window import Long, Window, causal_windows
from firth.reading.layout import Cell
from firth.tasks.encoded import EncodedTask
from firth.tasks.task import Answer, OpenModel

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from firth.data.batch import Batch
    from firth.models.protocols import LanguageModel
    from firth.text.tokenizer import Encoding, Tokenizer

PIECE = 4096  # tokens of a row that are read at once by a model that remembers what it has read
LONGEST_QUOTE = 60  # characters of a text in a message
FIGURES: dict[str, Cell] = {
    "score": "number",
    "tokens": "whole",
    "words": "whole",
    "perplexity": "number",
}
RANKS: dict[str, Cell] = {"best": "text", "ranked": "json"}


@dataclass(frozen=True)
class TokenLikelihood:
    """How likely a token of a text is; the text's end is the last and has no characters."""

    start: int
    end: int
    score: float  # natural log-probability after all before it
    order: int | None  # of an n-gram model: words of the longest n-gram found, 0 for a new word


@dataclass(frozen=True)
class Likelihood(Answer):
    """How likely a text is, its end included; tokens and words are its own."""

    text: str
    score: float  # natural log-probability
    tokens: int
    words: int  # between white space
    pieces: tuple[TokenLikelihood, ...]

    @property
    def perplexity(self) -> float:
        """The inverse of a word's mean probability, the end of the text counted as a word."""
        from firth.metrics.perplexity import perplexity

        return perplexity(self.score, self.words + 1)

    def summary(self) -> dict[str, object]:
        """Return how likely the text is as a JSON object; JSON has no infinity."""
        perplexity: float | None = self.perplexity
        if perplexity is not None and not math.isfinite(perplexity):
            perplexity = None
        return {
            "text": self.text,
            "score": self.score,
            "tokens": self.tokens,
            "words": self.words,
            "perplexity": perplexity,
        }

    def as_json(self) -> dict[str, object]:
        """Return how likely the text and each of its tokens is as a JSON object."""
        pieces = []
        for piece in self.pieces:
            page: dict[str, Any] = {
                "start": piece.start,
                "end": piece.end,
                "score": piece.score,
            }
            if piece.order is not None:
                page["order"] = piece.order
            pieces.append(page)
        return self.summary() | {"pieces": pieces, "truncated_tokens": self.truncated_tokens}


@dataclass(frozen=True)
class Candidate:
    """One of several texts of which one is to be chosen."""

    place: int  # among those given
    probability: float  # its share of that of all of them
    likelihood: Likelihood
    proposer_score: float | None = None  # the proposer's own log-probability, where it is known
    total: float | None = None  # that and the weighted log-likelihood

    def as_json(self) -> dict[str, object]:
        """Return the text with its scores as a JSON object."""
        page = self.likelihood.summary()
        if self.proposer_score is not None:
            page["proposer_score"] = self.proposer_score
            page["total"] = self.total
        return page | {"place": self.place, "share": self.probability}


@dataclass(frozen=True)
class Ranking(Answer):
    """Texts of which one is right, the likeliest first."""

    candidates: tuple[Candidate, ...]
    weight: float | None = None  # of the log-likelihood, where the proposer's scores were given

    @property
    def best(self) -> str | None:
        """The likeliest text; None of no texts."""
        return self.candidates[0].likelihood.text if self.candidates else None

    def as_json(self) -> dict[str, object]:
        """Return the likeliest text and all of them as a JSON object."""
        page: dict[str, object] = {
            "best": self.best,
            "candidates": [one.as_json() for one in self.candidates],
        }
        if self.weight is not None:
            page["weight"] = self.weight
        return page | {"truncated_tokens": self.truncated_tokens}


class TokenScores(NamedTuple):
    """What a model says of tokens."""

    scores: NDArray[Any]  # (T) natural log-probabilities
    orders: list[int] | None  # (T) of an n-gram model


class MeasureLikelihood(EncodedTask[TokenScores, Likelihood | Ranking]):
    """Measure how likely texts are, each a line with its end mark, and rank lists of candidates.

    Of a pair the first text is only read and the second is measured. `length` is how many tokens
    the model reads, None if any number. `orders` asks an n-gram model for the n-grams used; `lists`
    says that candidates are to be expected, and `weight` what their log-likelihood counts beside
    the scores of whatever proposed them.
    """

    name = "likelihood"
    help = "How likely texts are, or which of several is likeliest, by a language model."
    replaces = True

    def __init__(
        self,
        model: LanguageModel[Any],
        end: int,
        length: int | None,
        orders: bool = True,
        lists: bool = False,
        weight: float = 1.0,
    ) -> None:
        self.end = end
        self.opening = model.opening(end)
        self.room = None if length is None else length - 1  # the start mark takes one
        self.orders = orders and model.backs_off
        self.weight = weight
        self.columns = FIGURES | RANKS if lists else FIGURES

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task of a folder; the options are `orders`, `lists` and `weight`."""
        return cls(bundle.language, bundle.end, bundle.length, **options)

    def model(self, bundle: OpenModel) -> Any:
        """Return the language model."""
        return bundle.language

    def check(self, example: Example, bundle: OpenModel) -> None:
        """Refuse nothing: a context is no second text."""

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[Encoding]]:
        """Encode lines whole, with what stands before and after them; each candidate is one."""
        lines = [_lines(example) for example in examples]
        texts = [before + text for before, text in chain.from_iterable(lines)]
        # All texts are encoded at once, and then dealt out to their examples.
        bodies = tokenizer.encode(texts, special=False)
        encodings = map(self._line, texts, bodies)
        found = []
        for of_example in lines:
            own = islice(encodings, len(of_example))
            found.append(list(own))
        return found

    def _line(self, text: str, body: Encoding) -> Encoding:
        """Put the opening before the tokens of a line, and the end mark after them."""
        from firth.text.tokenizer import Encoding

        before = len(self.opening)
        ids = [*self.opening, *body.ids, self.end]
        segments = [0] * len(ids)

        # Marks stand for no character: the opening at the text's beginning, the end at its end.
        begin = (0, 0)
        after = (len(text), len(text))
        offsets = [*[begin] * before, *body.offsets, after]
        words = [*[None] * before, *body.words, None]
        parts = [*[None] * before, *body.parts, None]
        return Encoding(ids, segments, offsets, words, parts)

    def windows(self, encoding: Encoding, length: int | None, long: Long) -> list[Window]:
        """Cut a line so that no token is lost."""
        return causal_windows(encoding, self.room, long)

    def logits(
        self, model: Any, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[TokenScores]:
        """Return the log-probability of each token of each row."""
        import torch

        if self.orders:
            explained = []
            for window in rows:
                ids = torch.tensor(window.row.ids)
                explained.append(_explained(model, ids))
            return explained

        stream = read_rows(model, batch.ids, batch.lengths).cpu()  # (T)
        by_row = stream.split(batch.lengths.tolist())
        return [TokenScores(scores.numpy(), None) for scores in by_row]

    def combine(self, rows: Sequence[Window], logits: Sequence[TokenScores]) -> TokenScores:
        """Take each token from the window in which most text precedes it: the first that has it."""
        import numpy as np

        done = 0
        parts = []
        for window, found in zip(rows, logits, strict=True):
            parts.append(found.scores[done - window.first :])
            done = window.first + len(window.row)
        return TokenScores(np.concatenate(parts), logits[0].orders)

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[TokenScores],
        truncated: int,
    ) -> Likelihood | Ranking:
        """Add up the log-probabilities of each line, and rank candidates."""
        lines = _lines(example)
        found = []
        for (before, text), encoding, scores in zip(lines, encodings, logits, strict=True):
            likelihood = self._likelihood(before, text, encoding, scores)
            found.append(likelihood)
        if isinstance(example, ScoredCandidates):
            return rescore(found, example.scores, self.weight)
        if isinstance(example, Candidates):
            return rank(found)
        return found[0]

    def _likelihood(
        self, before: str, text: str, encoding: Encoding, found: TokenScores
    ) -> Likelihood:
        """Add up what is to be measured, and say where it stands in its text."""
        import numpy as np

        read = len(before)  # characters that are only read
        first = len(self.opening)
        if read:
            # The first token that reaches beyond what is only read; of an empty text, its end.
            first = len(encoding) - 1
            for place, (_, end) in enumerate(encoding.offsets):
                if end > read:
                    first = place
                    break

        own = found.scores[first:].astype(np.float64)
        if not np.isfinite(own).all():
            quote = shortened(text, LONGEST_QUOTE)
            raise InputError(f"{quote} holds the mark that begins a text, which has no probability")

        orders: Sequence[int | None] = [None] * len(own)
        if found.orders:
            orders = found.orders[first:]
        offsets = encoding.offsets[first:]
        pieces = []
        for (start, end), score, order in zip(offsets, own.tolist(), orders, strict=True):
            # A token may begin with the space before the text.
            begin = max(0, start - read)
            pieces.append(TokenLikelihood(begin, end - read, score, order))
        words = text.split()
        return Likelihood(
            text,
            score=float(own.sum()),
            tokens=len(pieces) - 1,  # without the end mark
            words=len(words),
            pieces=tuple(pieces),
        )

    def line(self, example: Example, answer: Likelihood | Ranking) -> str:
        """Return a line for a text; for a list the likeliest, and all of them below."""
        if isinstance(answer, Likelihood):
            size = f"{answer.tokens:5} tokens  {answer.words:5} words"
            perplexity = f"perplexity {answer.perplexity:10.2f}"
            return f"{answer.score:12.4f}  {size}  {perplexity}  {answer.text}"
        lines = [answer.best or "nothing to rank"]
        for one in answer.candidates:
            likelihood = one.likelihood
            figures = f"{likelihood.score:12.4f}"
            if one.total is not None:
                parts = f"{one.proposer_score:.4f} + {answer.weight:g} * {likelihood.score:.4f}"
                figures = f"{one.total:12.4f} = {parts}"
            lines.append(f"    {one.probability:7.2%}  {figures}  {likelihood.text}")
        return "\n".join(lines)

    def record(self, example: Example, answer: Likelihood | Ranking) -> dict[str, Any]:
        """Return the figures with the context that was read."""
        record = answer.as_json()
        has_context = isinstance(example, Candidates) or example.second is not None
        if has_context and example.text:
            return {"context": example.text} | record
        return record

    def cells(self, example: Example, answer: Likelihood | Ranking) -> dict[str, Any]:
        """Return the figures of a text, or the best text of a list and the others as they rank."""
        empty: dict[str, Any] = dict.fromkeys(self.columns)
        record = answer.as_json()
        if isinstance(answer, Likelihood):
            figures = {name: value for name, value in record.items() if name in empty}
            return empty | figures
        return empty | {"best": record["best"], "ranked": record["candidates"]}


def _lines(example: Example) -> list[tuple[str, str]]:
    """Return what is read, with the space after it, and what is measured; of a list, each."""
    if isinstance(example, Candidates):
        return [_line(example.text, text) for text in example.candidates]
    if example.second is None:
        return [("", example.text)]
    return [_line(example.text, example.second)]


def _line(context: str, text: str) -> tuple[str, str]:
    """Return a context, with a space after it where neither has one, and a text."""
    joined = not context or context[-1:].isspace() or text[:1].isspace()
    if not joined:
        context += " "
    return context, text


def _explained(model: Any, ids: Tensor) -> TokenScores:
    """Return what an n-gram model says of a row, with the orders that it used."""
    import numpy as np

    found = model.explain(ids)
    scores = np.array([one.score for one in found])
    orders = [one.order for one in found]
    return TokenScores(scores, orders)


def read_rows(model: LanguageModel[Any], ids: Tensor, lengths: Tensor, state: Any = None) -> Tensor:
    """Return the log-probabilities of a stream (T).

    A single row is read piece by piece, so that it may have any length.
    """
    import torch

    if len(lengths) > 1 or len(ids) <= PIECE:
        scores, _ = model.score(ids, lengths, state)
        return scores
    found = []
    for some in ids.split(PIECE):
        length = torch.tensor([len(some)])
        scores, state = model.score(some, length, state)
        found.append(scores)
    return torch.cat(found)


def rank(found: Sequence[Likelihood]) -> Ranking:
    """Order texts of which one is right, the likeliest first."""
    shares = _shares([one.score for one in found])
    candidates = []
    for place, likelihood in enumerate(found):
        candidates.append(Candidate(place, shares[place], likelihood))
    candidates.sort(key=lambda candidate: -candidate.likelihood.score)
    return Ranking(tuple(candidates))


def rescore(found: Sequence[Likelihood], scores: Sequence[float], weight: float) -> Ranking:
    """Order texts by their proposer's score plus the weighted log-likelihood, the best first."""
    totals = []
    for score, likelihood in zip(scores, found, strict=True):
        totals.append(score + weight * likelihood.score)
    shares = _shares(totals)
    candidates = []
    for place, likelihood in enumerate(found):
        one = Candidate(place, shares[place], likelihood, scores[place], totals[place])
        candidates.append(one)
    candidates.sort(key=lambda candidate: -totals[candidate.place])
    return Ranking(tuple(candidates), weight)


def _shares(totals: Sequence[float]) -> list[float]:
    """Return the probabilities of several log-probabilities, adding up to 1."""
    best = max(totals, default=0.0)
    weights = [math.exp(total - best) for total in totals]
    whole = sum(weights)
    return [weight / whole for weight in weights]


TASK = MeasureLikelihood
