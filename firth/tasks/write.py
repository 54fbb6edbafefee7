"""Writing: a language model continues a text, or names the likeliest ways to end its line."""

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from firth.base.errors import InputError
from firth.base.seeds import Purpose, number
from firth.models.gpt import Gpt
from firth.nn.decode import Beam, Greedy, Sample, Written, begin, decode
from firth.tasks.language import Language, opening
from firth.text.tokenizer import Tokenizer

TOKENS = 50  # new ones, where nothing is said
NARROWEST = 8  # beams, however few completions are asked for
TAIL = 8  # tokens of a prompt that decide how what follows is joined to it


class Manner(NamedTuple):
    """How a text is continued: by the likeliest token each time (temperature 0), or by draws.

    `top` leaves the so many likeliest tokens, `mass` the fewest that have this share of the probability. A text ends before a stop.
    """

    tokens: int | None = None  # new ones, at most
    temperature: float = 0.0
    top: int | None = None
    mass: float = 1.0
    stops: tuple[str, ...] = ()
    seed: int = 0

    def check(self) -> None:
        """Refuse what makes no sense."""
        if self.tokens is not None and self.tokens < 1:
            raise InputError(f"a text is continued for at least one token, not {self.tokens}")
        if not 0 <= self.temperature < math.inf:
            raise InputError(
                f"the temperature is 0 (the likeliest token each time) or above, not {self.temperature}"
            )
        if (self.top is not None and self.top < 1) or not 0 < self.mass <= 1:
            raise InputError("--top-k is at least 1, and --top-p above 0 and at most 1")
        if not self.temperature and (self.top is not None or self.mass < 1):
            raise InputError("--top-k and --top-p are for draws, which need a temperature above 0")
        if not all(self.stops):
            raise InputError("a stop text has at least one character")
        if self.seed < 0:
            raise InputError(f"a seed is 0 or above, not {self.seed}")


class Prompt(NamedTuple):
    """A text to continue."""

    text: str
    ids: list[int]  # what the model reads of it after the start mark
    lost: int  # tokens at its beginning for which the model has no room
    stem: str = (
        ""  # its last word as a vocabulary of whole words spells it, where that doesn't know it
    )


class Begun(NamedTuple):
    """A way to finish the word that a prompt ends in."""

    prompt: Prompt  # without that word
    words: list[int]  # the whole word, or none where there is nothing to finish
    chance: float  # among all words that begin so, as a logarithm


class Continued(NamedTuple):
    """A text and what was written after it."""

    text: str  # the whole
    continuation: str  # the part that is new
    score: (
        float  # natural log-probability of all tokens written, those of a stop and the end included
    )
    ended: bool  # by the end of the line or a stop; False where the tokens ran out


class Completion(NamedTuple):
    """One way to end the line that a text begins."""

    text: str
    continuation: str
    probability: float  # of exactly this end, given the beginning
    ended: bool  # False where the tokens ran out


class Writer:
    """Continues texts; a piece that stands for no text, like `<unk>`, is never written."""

    def __init__(self, model: Language, tokenizer: Tokenizer, end: int, length: int | None) -> None:
        self.tokenizer, self.end, self.length = tokenizer, end, length
        self.start = model.settings.start
        self.opening = opening(model, end)
        marks = (
            tokenizer.unk,
            tokenizer.pad,
            tokenizer.mask,
            tokenizer.cls,
            tokenizer.sep,
            self.start,
        )
        closed = {mark for mark in marks if mark is not None and mark < model.vocab} | set(
            range(tokenizer.size, model.vocab)
        )
        speaks = _Reads if isinstance(model, Gpt) else _Speaks
        self.model = speaks(model, sorted(closed - {end}))

    def most(self, tokens: int | None) -> int:
        """How many new tokens a text gets: as asked, else as many as leave half of the model's room to what is there."""
        if tokens is None:
            return TOKENS if self.length is None else max(1, min(TOKENS, self.length // 2))
        if self.length is not None and tokens >= self.length:
            raise InputError(
                f"the model has room for {self.length} tokens: {tokens} new ones leave none for the text"
            )
        return tokens

    def prompts(self, texts: Sequence[str], tokens: int) -> list[Prompt]:
        """Encode texts; the beginning of one for which there is no room beside the new tokens is left out."""
        found = []
        for text, encoding in zip(texts, self.tokenizer.encode(texts, special=False), strict=True):
            lost = 0 if self.length is None else max(0, len(encoding) + tokens - self.length)
            half = (
                self.tokenizer.kind == "words"
                and text[-1:].strip()
                and encoding.ids[-1] == self.tokenizer.unk
            )
            stem = self.tokenizer.normalise(text[encoding.offsets[-1][0] :]) if half else ""
            found.append(Prompt(text, [*self.opening, *encoding.ids[lost:]], lost, stem))
        return found

    def write(self, prompts: Sequence[Prompt], manner: Manner, first: int = 0) -> list[Continued]:
        """Continue texts; `first` is the first one's number, on which its draws depend."""
        how: Greedy | Sample = Greedy()
        if manner.temperature:
            seeds = [
                number(Purpose.WRITE, manner.seed, first + place) for place in range(len(prompts))
            ]
            how = Sample(seeds, manner.temperature, manner.top, manner.mass)
        longest = max((len(stop.encode()) for stop in manner.stops), default=0)

        def stopped(ids: Sequence[int]) -> bool:
            """Whether the last tokens hold a stop; each has at least one byte of it, and a character may have four."""
            return _find(self.tokenizer.decode(ids[-longest - 4 :]), manner.stops) is not None

        found = self._decode(
            prompts, how, self.most(manner.tokens), stopped if manner.stops else None
        )
        return [
            self._continued(prompt, texts[0], manner.stops)
            for prompt, texts in zip(prompts, found, strict=True)
        ]

    def complete(
        self, prompts: Sequence[Prompt], top: int, tokens: int
    ) -> list[tuple[Completion, ...]]:
        """The likeliest ends of lines, the best first; several ways to cut one text into tokens count as one."""
        width = max(top, NARROWEST)
        ways = [self._begun(prompt, width) for prompt in prompts]
        rows = [
            way.prompt._replace(ids=[*way.prompt.ids, *way.words])
            for every in ways
            for way in every
        ]
        texts = iter(self._decode(rows, Beam(width, width, penalty=0.0), tokens, None))
        pairs = (zip(every, islice(texts, len(every)), strict=True) for every in ways)
        return [
            self._completions(prompt, some)[:top]
            for prompt, some in zip(prompts, pairs, strict=True)
        ]

    @torch.inference_mode()
    def _begun(self, prompt: Prompt, most: int) -> list[Begun]:
        """The likeliest words that begin as the last word of a prompt does, if it is half typed; else the prompt as it is."""
        whole = [Begun(prompt, [], 0.0)]
        if not prompt.stem:
            return whole
        known = (word for word in range(self.tokenizer.size) if word != self.end)
        words = [word for word in known if self.tokenizer.piece(word).startswith(prompt.stem)]
        if not words:
            return whole
        cut = prompt._replace(ids=prompt.ids[:-1])
        scores = begin(self.model, [[self.start, *cut.ids]])[0][0, words].log_softmax(0)
        best = scores.topk(min(most, len(words)))
        chosen = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [
            Begun(cut, [words[place]], chance) for place, chance in chosen if chance > -math.inf
        ] or whole

    def _decode(
        self, prompts: Sequence[Prompt], how: Any, tokens: int, until: Any
    ) -> list[list[Written]]:
        rows = [prompt.ids for prompt in prompts]
        return decode(
            self.model, rows, how, most=tokens, start=self.start, end=self.end, until=until
        )

    def _continued(self, prompt: Prompt, written: Written, stops: Iterable[str]) -> Continued:
        ids, used = self._own(written.ids), len(written.ids)
        more, ended = self._joined(prompt, ids), len(ids) < used
        if _find(more, stops) is not None:
            used = next(
                size
                for size in range(1, len(ids) + 1)
                if _find(self._joined(prompt, ids[:size]), stops) is not None
            )
            more = self._joined(prompt, ids[:used])
            more, ended = more[: _find(more, stops)], True
        return Continued(prompt.text + more, more, sum(written.scores[:used]), ended)

    def _completions(
        self, prompt: Prompt, ways: Iterable[tuple[Begun, list[Written]]]
    ) -> tuple[Completion, ...]:
        found: dict[str, Completion] = {}
        for way, texts in ways:
            for written in texts:
                ids = self._own(written.ids)
                more = self._joined(way.prompt, [*way.words, *ids])
                more = more.lstrip()[len(prompt.stem) :] if way.words else more
                chance, ended = (
                    math.exp(way.chance + sum(written.scores)),
                    len(ids) < len(written.ids),
                )
                before = found.get(more)
                if before:
                    chance, ended = chance + before.probability, ended or before.ended
                found[more] = Completion(prompt.text + more, more, chance, ended)
        return tuple(sorted(found.values(), key=lambda one: -one.probability))

    def _own(self, ids: list[int]) -> list[int]:
        """Tokens without the end mark."""
        return ids[:-1] if ids[-1] == self.end else ids

    def _joined(self, prompt: Prompt, ids: Sequence[int]) -> str:
        """The text of new tokens as it stands after a prompt, with the space between them if there is one."""
        tail = prompt.ids[len(self.opening) :][-TAIL:]
        before, whole = self.tokenizer.decode(tail), self.tokenizer.decode([*tail, *ids])
        more = (
            whole[len(before) :] if whole.startswith(before) else f" {self.tokenizer.decode(ids)}"
        )
        if self.tokenizer.split == "punctuation":
            more = _quoted(more, prompt.text)
        spaced = not prompt.text or prompt.text[-1].isspace()
        return more.lstrip() if spaced and self.tokenizer.kind != "bytes" else more


def _quoted(text: str, before: str) -> str:
    """Take the blanks out of straight quotes, which open and close in turn, in what is written after a text."""
    inside = before.count('"') % 2 == 1
    first, *rest = text.split('"')
    found = first.lstrip(" ") if inside and before.endswith('"') else first
    for part in rest:
        found = f'{found.rstrip(" ")}"{part}' if inside else f'{found}"{part.lstrip(" ")}'
        inside = not inside
    return found


def _find(text: str, stops: Iterable[str]) -> int | None:
    """Where the first stop begins."""
    return min((text.index(stop) for stop in stops if stop in text), default=None)


class _Speaks:
    """A model that doesn't write some of its tokens."""

    def __init__(self, model: Any, closed: Sequence[int]) -> None:
        self.model, self.closed = model, torch.tensor(closed, dtype=torch.long)

    def start(self, rows: int) -> Any:
        """The state before the first token."""
        return self.model.start(rows)

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read a token a row and give the log-probability of every next one."""
        scores, state = self.model.step(ids, state)
        return scores.index_fill(1, self.closed.to(scores.device), -torch.inf), state


class _Reads(_Speaks):
    """The same for a model that reads prompts at once."""

    def read(self, ids: Tensor, lengths: Tensor, state: Any) -> Any:
        """The state after a stream of tokens."""
        return self.model.read(ids, lengths, state)
