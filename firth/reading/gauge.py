"""How texts fit a model's tokenizer: those that are too long for the model, and pieces that it doesn't know."""

from firth.data.examples import Example, Labelled, Tagged
from firth.data.words import torn
from firth.text.tokenizer import Tokenizer

AT_ONCE = 64


class Gauge:
    """Encode examples, some at a time, and keep only figures."""

    def __init__(self, tokenizer: Tokenizer, length: int | None) -> None:
        self.tokenizer, self.length = tokenizer, length
        self.texts = self.tokens = self.squares = self.pieces = self.unknown = self.longer = 0
        self.longest = self.longest_line = self.first_longer = 0
        self.spans = self.torn = self.first_torn = 0  # those that begin or end inside a word
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
            second = example.second if isinstance(example, Labelled) else None
            (encoding,) = self.tokenizer.encode(
                [example.text], None if second is None else [second]
            )
            size = len(encoding)
            read = min(size, self.length or size)
            self.texts += 1
            self.tokens += read
            self.squares += read * read
            self.ids.update(encoding.ids)
            self.pieces += sum(part is not None for part in encoding.parts)
            self.unknown += (
                encoding.ids.count(self.tokenizer.unk) if self.tokenizer.unk is not None else 0
            )
            if isinstance(example, Tagged) and example.spans:
                inside = torn(example, encoding)
                self.spans += len(example.spans)
                self.torn += inside
                self.first_torn = self.first_torn or (line if inside else 0)
            if size > read:
                self.longer += 1
                self.first_longer = self.first_longer or line
            if size > self.longest:
                self.longest, self.longest_line = size, line
        self._waiting.clear()
