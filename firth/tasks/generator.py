"""Continue texts with a language model, token by token or by beam search."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import torch
from torch import Tensor

from firth.base.errors import InputError
from firth.base.seeds import Purpose, number
from firth.models.protocols import LanguageModel
from firth.models.search import Beam, Generated, Greedy, Sampling, decode, read_prompts
from firth.tasks.decoding import Completion, Decoding, GeneratedText
from firth.text.tokenizer import Encoding, Tokenizer

TOKENS = 50  # new ones, where nothing is said
FEWEST_BEAMS = 8  # however few completions are asked for
TAIL = 8  # tokens of a prompt that decide how what follows is joined to it
LONGEST_CHARACTER = 4  # bytes


class Prompt(NamedTuple):
    """A text to continue."""

    text: str
    ids: list[int]  # what the model reads of it after the start mark
    truncated: int  # tokens at its beginning for which the model has no room
    stem: str = ""  # its last word as a vocabulary of whole words spells it, if it doesn't know it


class WordStart(NamedTuple):
    """A way to finish the word that a prompt ends in."""

    prompt: Prompt  # without that word
    words: list[int]  # the whole word, or none where there is nothing to finish
    log_probability: float  # among all words that begin so


class Generator:
    """Continues texts; a piece that stands for no text, like `<unk>`, is never generated."""

    def __init__(
        self, model: LanguageModel[Any], tokenizer: Tokenizer, end: int, length: int | None
    ) -> None:
        self.tokenizer = tokenizer
        self.end = end
        self.length = length
        self.start = model.settings.start
        self.opening = model.opening(end)
        marks = {
            self.start,
            tokenizer.unk,
            tokenizer.pad,
            tokenizer.mask,
            tokenizer.cls,
            tokenizer.sep,
        }
        closed = {mark for mark in marks if mark is not None and mark < model.vocab}
        # Some models have more rows than the tokenizer has pieces.
        closed |= set(range(tokenizer.size, model.vocab))
        closed -= {end}
        restrict = _ReadingModel if model.reads_prompts else _RestrictedModel
        self.model = restrict(model, sorted(closed))

    def most(self, tokens: int | None) -> int:
        """Return how many new tokens a text gets: as asked, else what leaves half of the room."""
        if tokens is None:
            if self.length is None:
                return TOKENS
            half = max(1, self.length // 2)
            return min(TOKENS, half)
        if self.length is not None and tokens >= self.length:
            room = f"the model has room for {self.length} tokens"
            raise InputError(f"{room}: {tokens} new ones leave none for the text")
        return tokens

    def beams(self, top: int) -> int:
        """Return how many beams find the likeliest completions."""
        return max(top, FEWEST_BEAMS)

    def prompts(self, texts: Sequence[str], tokens: int) -> list[Prompt]:
        """Encode texts; the beginning for which new tokens leave no room is cut off."""
        found = []
        encodings = self.tokenizer.encode(texts, special=False)
        for text, encoding in zip(texts, encodings, strict=True):
            lost = 0
            if self.length is not None:
                lost = max(0, len(encoding) + tokens - self.length)
            ids = [*self.opening, *encoding.ids[lost:]]
            stem = self._stem(text, encoding)
            found.append(Prompt(text, ids, lost, stem))
        return found

    def _stem(self, text: str, encoding: Encoding) -> str:
        """Return the last word of a text if it is half typed: unknown, and no space after it."""
        if self.tokenizer.kind != "words" or not text[-1:].strip():
            return ""
        if encoding.ids[-1] != self.tokenizer.unk:
            return ""
        begin, _ = encoding.offsets[-1]
        return self.tokenizer.normalise(text[begin:])

    def generate(
        self, prompts: Sequence[Prompt], decoding: Decoding, first: int = 0
    ) -> list[GeneratedText]:
        """Continue texts; `first` is the first one's number, on which its draws depend."""
        how: Greedy | Sampling = Greedy()
        if decoding.temperature:
            places = range(first, first + len(prompts))
            seeds = [number(Purpose.WRITE, decoding.seed, place) for place in places]
            how = Sampling(seeds, decoding.temperature, decoding.top_k, decoding.top_p)

        sizes = [len(stop.encode()) for stop in decoding.stop]
        most = max(sizes, default=0) + LONGEST_CHARACTER  # bytes

        def stopped(ids: Sequence[int]) -> bool:
            """Return whether the last tokens, each of which has a byte or more, hold a stop."""
            tail = self.tokenizer.decode(ids[-most:])
            return _find(tail, decoding.stop) is not None

        until = stopped if decoding.stop else None
        tokens = self.most(decoding.tokens)
        found = self._decode(prompts, how, tokens, until)
        results = []
        for prompt, (written, *_) in zip(prompts, found, strict=True):
            results.append(self._generated(prompt, written, decoding.stop))
        return results

    def complete(
        self, prompts: Sequence[Prompt], top: int, tokens: int
    ) -> list[tuple[Completion, ...]]:
        """Return the likeliest ends of lines, the best first.

        Several ways to cut one text into tokens count as one.
        """
        width = self.beams(top)
        starts = [self._word_starts(prompt, width) for prompt in prompts]
        rows = []
        for way in chain.from_iterable(starts):
            ids = [*way.prompt.ids, *way.words]
            rows.append(way.prompt._replace(ids=ids))
        how = Beam(width, width, penalty=0.0)
        texts = iter(self._decode(rows, how, tokens, None))

        found = []
        for prompt, ways in zip(prompts, starts, strict=True):
            pairs = zip(ways, islice(texts, len(ways)), strict=True)
            found.append(self._completions(prompt, pairs)[:top])
        return found

    @torch.inference_mode()
    def _word_starts(self, prompt: Prompt, most: int) -> list[WordStart]:
        """Return the likeliest words that begin as a prompt's last, half-typed word does.

        Where there is nothing to finish, that is the prompt as it is.
        """
        whole = [WordStart(prompt, [], 0.0)]
        if not prompt.stem:
            return whole
        known = (word for word in range(self.tokenizer.size) if word != self.end)
        words = [word for word in known if self.tokenizer.piece(word).startswith(prompt.stem)]
        if not words:
            return whole

        cut = prompt._replace(ids=prompt.ids[:-1])  # without the half-typed word
        scores, _ = read_prompts(self.model, [[self.start, *cut.ids]])
        among_words = scores[0, words].log_softmax(0)
        best = among_words.topk(min(most, len(words)))
        found = []
        for place, value in zip(best.indices.tolist(), best.values.tolist(), strict=True):
            if value > -math.inf:
                word = words[place]
                found.append(WordStart(cut, [word], value))
        return found or whole

    def _decode(
        self,
        prompts: Sequence[Prompt],
        how: Any,
        tokens: int,
        until: Callable[[Sequence[int]], bool] | None,
    ) -> list[list[Generated]]:
        """Search on after prompts, each between the start mark and the end mark."""
        return decode(
            self.model,
            [prompt.ids for prompt in prompts],
            how,
            most=tokens,
            start=self.start,
            end=self.end,
            until=until,
        )

    def _generated(self, prompt: Prompt, written: Generated, stops: Iterable[str]) -> GeneratedText:
        """Return what was generated up to the first stop, which is left out."""
        ids = self._without_end(written.ids)
        used = len(written.ids)
        more = self._joined(prompt, ids)
        ended = len(ids) < used
        if _find(more, stops) is not None:
            # The fewest tokens that hold a stop: only these are scored.
            for size in range(1, len(ids) + 1):
                shorter = self._joined(prompt, ids[:size])
                place = _find(shorter, stops)
                if place is not None:
                    used = size
                    more = shorter[:place]
                    break
            ended = True
        score = sum(written.scores[:used])
        whole = prompt.text + more
        return GeneratedText(whole, more, score, ended, truncated_tokens=prompt.truncated)

    def _completions(
        self, prompt: Prompt, ways: Iterable[tuple[WordStart, list[Generated]]]
    ) -> tuple[Completion, ...]:
        """Return the completions of a prompt, the likeliest first."""
        found: dict[str, Completion] = {}
        for way, texts in ways:
            for written in texts:
                ids = self._without_end(written.ids)
                ended = len(ids) < len(written.ids)
                more = self._joined(way.prompt, [*way.words, *ids])
                if way.words:
                    # The beginning of the word stands in the prompt already.
                    more = more.lstrip()[len(prompt.stem) :]
                log_probability = way.log_probability + sum(written.scores)
                probability = math.exp(log_probability)

                before = found.get(more)
                if before is not None:
                    probability += before.probability
                    ended = ended or before.ended
                found[more] = Completion(prompt.text + more, more, probability, ended)
        in_order = sorted(found.values(), key=lambda one: -one.probability)
        return tuple(in_order)

    def _without_end(self, ids: list[int]) -> list[int]:
        """Return new tokens less the end mark."""
        if ids[-1] == self.end:
            return ids[:-1]
        return ids

    def _joined(self, prompt: Prompt, ids: Sequence[int]) -> str:
        """Return the text of new tokens as it stands after a prompt, with the space between."""
        own = prompt.ids[len(self.opening) :]
        tail = own[-TAIL:]
        before = self.tokenizer.decode(tail)
        whole = self.tokenizer.decode([*tail, *ids])
        if whole.startswith(before):
            more = whole[len(before) :]
        else:
            # What follows changes how the tail is written.
            more = f" {self.tokenizer.decode(ids)}"
        if self.tokenizer.split == "punctuation":
            more = _quoted(more, prompt.text)
        spaced = not prompt.text or prompt.text[-1].isspace()
        # To a vocabulary of bytes white space is text like any other.
        if spaced and self.tokenizer.kind != "bytes":
            return more.lstrip()
        return more


def _quoted(text: str, before: str) -> str:
    """Take the blanks out of straight quotes, which open and close in turn."""
    quotes = before.count('"')
    inside = quotes % 2 == 1
    first, *rest = text.split('"')
    found = first
    if inside and before.endswith('"'):
        found = first.lstrip(" ")
    for part in rest:
        if inside:
            found = found.rstrip(" ") + '"' + part
        else:
            found += '"' + part.lstrip(" ")
        inside = not inside
    return found


def _find(text: str, stops: Iterable[str]) -> int | None:
    """Return where the first stop begins."""
    places = [text.index(stop) for stop in stops if stop in text]
    return min(places, default=None)


class _RestrictedModel:
    """A model that never generates some of its tokens."""

    def __init__(self, model: Any, closed: Sequence[int]) -> None:
        self.model = model
        self.closed = torch.tensor(closed, dtype=torch.long)

    def start(self, rows: int) -> Any:
        """Return the state before the first token."""
        return self.model.start(rows)

    def step(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read a token a row and give the log-probability of every next one."""
        scores, state = self.model.step(ids, state)
        closed = self.closed.to(scores.device)
        return scores.index_fill(1, closed, -torch.inf), state


class _ReadingModel(_RestrictedModel):
    """The same for a model that reads prompts at once."""

    def read(self, ids: Tensor, lengths: Tensor, state: Any) -> Any:
        """Return the state after a stream of tokens."""
        return self.model.read(ids, lengths, state)
