"""How texts fit a model: those that are too long for it, and pieces that it doesn't know."""

from firth.data.examples import Example, Tagged
from firth.data.words import misaligned_spans
from firth.text.tokenizer import Encoding, Tokenizer

AT_ONCE = 64


class Gauge:
    """Encode examples, some at a time, and keep only figures."""

    def __init__(self, tokenizer: Tokenizer, length: int | None) -> None:
        self.tokenizer = tokenizer
        self.length = length
        self.texts = 0
        self.tokens = 0
        self.squares = 0  # of the lengths: what attention costs
        self.pieces = 0
        self.unknown = 0
        self.longer = 0  # texts that are too long
        self.first_longer = 0  # line
        self.longest = 0
        self.longest_line = 0
        self.spans = 0
        self.misaligned = 0  # spans that begin or end inside a word
        self.first_misaligned = 0  # line
        self.ids: set[int] = set()  # pieces that occur
        self._waiting: list[tuple[int, Example]] = []

    def __call__(self, line: int, example: Example) -> None:
        """Take in an example."""
        self._waiting.append((line, example))
        if len(self._waiting) == AT_ONCE:
            self.finish()

    def finish(self) -> None:
        """Take in those that still wait."""
        for line, example in self._waiting:
            for text, second in example.pairs:
                seconds = None if second is None else [second]
                (encoding,) = self.tokenizer.encode([text], seconds)
                self._measure(line, encoding)
                if isinstance(example, Tagged) and example.spans:
                    self._compare(line, example, encoding)
        self._waiting.clear()

    def _measure(self, line: int, encoding: Encoding) -> None:
        """Count the tokens of a text or a pair."""
        size = len(encoding)
        read = min(size, self.length or size)
        self.texts += 1
        self.tokens += read
        self.squares += read * read
        self.ids.update(encoding.ids)
        self.pieces += sum(part is not None for part in encoding.parts)
        if self.tokenizer.unk is not None:
            self.unknown += encoding.ids.count(self.tokenizer.unk)
        if size > read:
            self.longer += 1
            self.first_longer = self.first_longer or line
        if size > self.longest:
            self.longest = size
            self.longest_line = line

    def _compare(self, line: int, example: Tagged, encoding: Encoding) -> None:
        """Count the spans that are not made of whole words."""
        inside = misaligned_spans(example, encoding)
        self.spans += len(example.spans)
        self.misaligned += inside
        if inside:
            self.first_misaligned = self.first_misaligned or line
