"""A text or pair as a model reads it: the row of tokens that all pictures of it are about."""

from dataclasses import replace
from typing import NamedTuple

from firth.base.errors import InputError
from firth.data.batch import Batch, make_batch
from firth.data.examples import Example, Labelled, Line
from firth.data.window import windows
from firth.predictor import Predictor
from firth.tasks.encoded import refuse_unseparated
from firth.tasks.texts import encode_texts
from firth.text.tokenizer import Encoding, Tokenizer

INCOMPLETE = "\ufffd"  # in place of bytes that are no whole character
START = "<start>"  # of a model whose start mark is no piece of its vocabulary


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
    if bundle.is_language_model:
        return _read_next(predictor, text, pair)
    example: Example = Line(text) if pair is None else Labelled(text, None, pair)
    refuse_unseparated(example, bundle)
    (encoding,) = encode_texts([example], bundle.tokenizer)
    segments = bundle.encoder.segments
    if segments and max(encoding.segments, default=0) >= segments:
        raise InputError("this model reads single texts: leave --pair out")
    if not _has_tokens(encoding, 0):
        raise InputError("the text has no tokens")
    if pair is not None and not _has_tokens(encoding, 1):
        raise InputError("the text of --pair has no tokens")
    (window,) = windows(encoding, bundle.length, "cut")
    truncated = len(encoding) - len(window.row)
    return Row(example, window.row, readable(bundle.tokenizer, example, window.row), truncated)


def _has_tokens(encoding: Encoding, part: int) -> bool:
    """Tell whether a text has tokens of its own: the marks around it are none."""
    return part in encoding.parts


def _read_next(predictor: Predictor, text: str, pair: str | None) -> Row:
    """Return what a language model reads of a text: its start mark first."""
    if pair is not None:
        raise InputError("a language model reads single texts: leave --pair out")
    bundle = predictor.bundle
    model = bundle.language
    example = Line(text)
    (encoding,) = bundle.tokenizer.encode([text], special=False)
    if not len(encoding):
        raise InputError("the text has no tokens")
    marks = [model.settings.start, *model.opening(bundle.end)]
    size = len(encoding)
    if model.length is not None:
        size = min(size, model.length - len(marks))
    none: list[int | None] = [None] * len(marks)
    row = replace(
        encoding,
        ids=marks + encoding.ids[:size],
        segments=[0] * len(marks) + encoding.segments[:size],
        offsets=[(0, 0)] * len(marks) + encoding.offsets[:size],
        words=none + encoding.words[:size],
        parts=none + encoding.parts[:size],
    )
    return Row(example, row, readable(bundle.tokenizer, example, row), len(encoding) - size)


def readable(tokenizer: Tokenizer, example: Example, encoding: Encoding) -> list[str]:
    """Return tokens as a person reads them.

    Pieces of bytes are spelled with other characters in a vocabulary: there the text itself is
    shown.
    """
    tokens = [tokenizer.piece(token) or START for token in encoding.ids]
    if tokenizer.kind != "bytes":
        return tokens
    texts = example.texts
    for place, part in enumerate(encoding.parts):
        start, end = encoding.offsets[place]
        if part is not None and texts[part][start:end].strip():
            tokens[place] = texts[part][start:end].strip()
    return tokens


def readable_piece(tokenizer: Tokenizer, token: int) -> str:
    """Return a piece of a vocabulary as a person reads it."""
    if tokenizer.kind != "bytes":
        return tokenizer.piece(token) or START
    text = tokenizer.decode([token]).strip()
    if not text or INCOMPLETE in text:
        return tokenizer.piece(token) or START
    return text
