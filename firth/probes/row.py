"""A text or pair as a model reads it: the row of tokens that all pictures of it are about."""

from typing import NamedTuple

from firth.base.errors import InputError
from firth.data.batch import Batch, make_batch
from firth.data.examples import Example, Labelled, Line
from firth.data.window import windows
from firth.predictor import Predictor
from firth.tasks.encoded import refuse_unseparated
from firth.tasks.texts import encode_texts
from firth.text.tokenizer import Encoding


class Row(NamedTuple):
    """The tokens of a text or pair that one pass of a model reads."""

    example: Example
    encoding: Encoding  # of what is read
    tokens: list[str]  # as a person reads them
    truncated: int  # tokens that are not read

    def batch(self, copies: int = 1) -> Batch:
        """Return the row, or several copies of it, as a stream."""
        return make_batch([self.encoding] * copies)


def read_row(predictor: Predictor, text: str, pair: str | None = None) -> Row:
    """Return what a model reads of a text; what is too long for it is cut off at the end."""
    bundle = predictor.bundle
    example: Example = Line(text) if pair is None else Labelled(text, None, pair)
    refuse_unseparated(example, bundle)
    (encoding,) = encode_texts([example], bundle.tokenizer)
    segments = bundle.encoder.segments
    if segments and max(encoding.segments, default=0) >= segments:
        raise InputError("this model reads single texts, and --pair gives it a second one")
    if not len(encoding):
        raise InputError("the text has no tokens")
    (window,) = windows(encoding, bundle.length, "cut")
    truncated = len(encoding) - len(window.row)
    return Row(example, window.row, readable(predictor, example, window.row), truncated)


def readable(predictor: Predictor, example: Example, encoding: Encoding) -> list[str]:
    """Return tokens as a person reads them.

    Pieces of bytes are spelled with other characters in a vocabulary: there the text itself is
    shown.
    """
    tokenizer = predictor.bundle.tokenizer
    tokens = [tokenizer.piece(token) for token in encoding.ids]
    if tokenizer.kind != "bytes":
        return tokens
    texts = example.texts
    for place, part in enumerate(encoding.parts):
        start, end = encoding.offsets[place]
        if part is not None and texts[part][start:end].strip():
            tokens[place] = texts[part][start:end].strip()
    return tokens
