"""Files of word vectors: word2vec's text and binary formats, and GloVe's text.

Word2vec begins with a line of two numbers, how many words there are and how wide they are; GloVe
has only the rows. A file is read as a stream, its size is known before memory is taken, and what
is wrong with it is said with its line.
"""

import codecs
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from firth.base.errors import InputError
from firth.base.files import is_pickle
from firth.base.progress import Progress
from firth.data.record import shortened
from firth.text.lines import chunks, open_regular
from firth.text.signature import CONTROL, signature

Form = Literal["word2vec", "glove", "binary"]
Rows = NDArray[np.float32]

LONGEST_LINE = 4 << 20  # bytes
LONGEST_WORD = 1 << 16  # bytes
MOST_WORDS = (1 << 24) - 8  # the special tokens need some of the ids that a vocabulary may have
MOST_WIDTH = 1 << 16
SAMPLE = 1000  # bytes after the header that tell text from numbers
FASTTEXT = b"\xba\x16\x4f\x2f"  # begins fastText's own format
NUMBER = 4  # bytes
SHOWN_EVERY = 4096  # words between two signs of progress


class WordVectorFile(NamedTuple):
    """The words of a file in their order, with their vectors."""

    words: list[str]
    rows: Rows  # (words, width)
    form: Form
    replaced: int  # words with bytes that are not UTF-8, which were replaced
    repeated: int  # words that came again: the first vector is kept

    @property
    def width(self) -> int:
        """Return how many numbers a vector has."""
        return int(self.rows.shape[1])


class _Header(NamedTuple):
    """How many words a file has, and how wide they are."""

    words: int
    width: int
    form: Form


def read_word_vectors(path: Path) -> WordVectorFile:
    """Read a file of word vectors, whichever of the formats it is in; .gz and .zst too."""
    size, lines = _measure(path)
    header = _recognise(path, lines)
    _check_size(header, size, path)
    table = _Table(header, path)
    with _bytes(path) as data, Progress("reading vectors", "words", header.words) as progress:
        rows = _binary_rows if header.form == "binary" else _text_rows
        for word, numbers, where in rows(data, header, path):
            table.add(word, numbers, where)
            if table.seen % SHOWN_EVERY == 0:
                progress(table.seen)
    return table.whole()


class _Table:
    """The words and vectors of a file, as they come."""

    def __init__(self, header: _Header, path: Path) -> None:
        self.header = header
        self.path = path
        self.words: dict[str, None] = {}
        self.rows: Rows = np.zeros((header.words, header.width), np.float32)
        self.seen = 0
        self.replaced = 0

    def add(self, raw: bytes, numbers: bytes | list[bytes], where: str) -> None:
        """Add a word with its numbers."""
        if self.seen == self.header.words:
            says = f"the {self.seen:,} words that the header says"
            raise InputError(f"{where} is a word more than {says}")
        row = self._row(numbers, where)
        self.seen += 1
        try:
            word = raw.decode()
        except UnicodeDecodeError:
            word = raw.decode(errors="replace")
            self.replaced += 1
        if not word:
            raise InputError(f"{where} has no word before its numbers")
        if word not in self.words:
            self.rows[len(self.words)] = row
            self.words[word] = None

    def _row(self, numbers: bytes | list[bytes], where: str) -> Rows:
        """Return a vector, of finite numbers."""
        row: Rows
        if isinstance(numbers, bytes):
            row = np.frombuffer(numbers, "<f4")
        else:
            row = _numbers(numbers, where)
        if not np.isfinite(row).all():
            raise InputError(f"{where} has a number that is not finite")
        return row

    def whole(self) -> WordVectorFile:
        """Return what was read, if it is all."""
        # Of GloVe only the lines are counted, of which some may be blank.
        if self.seen < self.header.words and self.header.form != "glove":
            has = f"{self.path} ends after {self.seen:,} words"
            raise InputError(f"{has} where its header says {self.header.words:,}")
        kept = len(self.words)
        repeated = self.seen - kept
        rows = self.rows[:kept]
        return WordVectorFile(list(self.words), rows, self.header.form, self.replaced, repeated)


def _numbers(fields: list[bytes], where: str) -> Rows:
    """Return the numbers of a line."""
    try:
        with np.errstate(over="ignore"):
            return np.array(fields, dtype=np.float32)
    except ValueError:
        wrong = next(field for field in fields if not is_number(field))
        shown = shortened(wrong.decode(errors="replace"))
        raise InputError(f"{where} has {shown} where a number belongs") from None


def is_number(field: bytes) -> bool:
    """Tell whether a field is a number."""
    try:
        float(field)
    except ValueError:
        return False
    return True


@contextmanager
def _bytes(path: Path) -> Iterator[Iterator[bytes]]:
    """Open a file for its bytes, unpacked."""
    with open_regular(path) as stream:
        yield chunks(stream, str(path))


def _measure(path: Path) -> tuple[int, int]:
    """Return the bytes of a file, unpacked, and its lines; refuse a line that never ends.

    It is passed through once before memory is taken for what it holds.
    """
    size = 0
    lines = 0
    last = b"\n"
    with _bytes(path) as data:
        for chunk in data:
            if not size:
                _refuse_other(path, chunk)
            size += len(chunk)
            lines += chunk.count(b"\n")
            last = chunk[-1:] or last
    return size, lines + (last != b"\n")


def _refuse_other(path: Path, first: bytes) -> None:
    """Refuse files of other kinds, by their first bytes."""
    if is_pickle(path) and not first.startswith(b"PK"):
        save = "KeyedVectors.load(...).save_word2vec_format('vectors.txt')"
        raise InputError(
            f"{path} is a pickle, which can run code when it is opened, so Firth never opens one; "
            f"if you trust where it came from, write its vectors with gensim: {save}"
        )
    if first.startswith(FASTTEXT):
        raise InputError(f"{path} is in fastText's own format: use the .vec that belongs to it")
    kind = signature(first, path.name)
    if kind is not None:
        raise InputError(f"{path} {kind}")


def _recognise(path: Path, lines: int) -> _Header:
    """Return what a file's first lines say of it; `lines` are all that it has."""
    with _bytes(path) as data:
        head = b""
        for chunk in data:
            head += chunk
            if len(head) > LONGEST_LINE:
                break
    first, _, rest = head.partition(b"\n")
    fields = first.removeprefix(codecs.BOM_UTF8).split()
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        count, width = (int(field[:20]) for field in fields)
        return _Header(count, width, _form_of(rest, width))
    if len(first) > LONGEST_LINE:
        raise InputError(_too_long(path, 1))
    if len(fields) > 1 and all(map(is_number, fields[1:])):
        return _Header(lines, len(fields) - 1, "glove")
    raise InputError(
        f"{path} is no file of word vectors: its first line is neither a count and a width, as "
        "word2vec writes them, nor a word and its numbers"
    )


def _form_of(rest: bytes, width: int) -> Form:
    """Return which of word2vec's formats follows the header."""
    line, _, _ = rest.partition(b"\n")
    _, *numbers = line.rsplit(None, width) or [b""]
    if len(numbers) == width and all(map(is_number, numbers)):
        return "word2vec"
    try:
        # A character may be cut at the end of the sample.
        text = codecs.getincrementaldecoder("utf-8")().decode(rest[:SAMPLE])
    except UnicodeDecodeError:
        return "binary"
    return "binary" if CONTROL.search(text) else "word2vec"


def _check_size(header: _Header, size: int, path: Path) -> None:
    """Refuse sizes that the file can't hold, or this machine can't, before memory is taken."""
    count, width, form = header
    if not 0 < count <= MOST_WORDS or not 0 < width <= MOST_WIDTH:
        most = f"at most {MOST_WORDS:,} words of {MOST_WIDTH:,} numbers"
        raise InputError(f"{path} has {count:,} words of {width:,} numbers; Firth reads {most}")
    # A word has a letter and a blank, and a number in text a digit and a blank.
    least = count * (2 + width * (NUMBER if form == "binary" else 2)) - 2
    if form != "glove" and size < least:
        says = f"its header says {count:,} words of {width:,} numbers"
        raise InputError(f"{path} is damaged: {says}, which don't fit in its {size:,} bytes")
    needed = count * width * NUMBER
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > memory:
        has = f"where this machine has {memory / 1e9:.1f}"
        raise InputError(f"{path} needs {needed / 1e9:.1f} GB of memory {has}")


Parsed = tuple[bytes, bytes | list[bytes], str]  # a word, its numbers, and where they stand


def _text_rows(data: Iterator[bytes], header: _Header, path: Path) -> Iterator[Parsed]:
    """Yield the words of a text with the fields of their numbers."""
    width = header.width
    for number, given in enumerate(_lines(data), 1):
        line = given
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if len(line) > LONGEST_LINE:
            raise InputError(_too_long(path, number))
        if (number == 1 and header.form != "glove") or not line.strip():
            continue
        fields = line.rsplit(None, width)
        word = fields[0]
        # GloVe has words with blanks inside, as `. . .`, but none that ends in a number.
        before = word.split()[-1:] if b" " in word else []
        if len(fields) <= width or (before and is_number(before[0])):
            found = len(line.split()) - 1
            raise InputError(f"{path}:{number} has {found:,} numbers where {width:,} belong")
        yield word, fields[1:], f"{path}:{number}"


def _lines(data: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of bytes; of one that is too long as much as shows it."""
    unfinished: list[bytes] = []
    size = 0
    for chunk in data:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield b"".join([*unfinished, line])
            unfinished = []
            size = 0
        unfinished.append(rest)
        size += len(rest)
        if size > LONGEST_LINE:
            break
    if size:
        yield b"".join(unfinished)


def _binary_rows(data: Iterator[bytes], header: _Header, path: Path) -> Iterator[Parsed]:
    """Yield the words of a binary file with the bytes of their numbers."""
    size = NUMBER * header.width
    stream = _Stream(data)
    stream.until(b"\n")
    for number in range(1, header.words + 1):
        where = f"{path}: word {number:,}"
        word = stream.until(b" ")
        if word is None:
            raise InputError(f"{where} is cut off, or longer than any word")
        vector = stream.take(size)
        if len(vector) < size:
            raise InputError(f"{where} is cut off inside its vector")
        # Word2vec's own program ends a vector with a line break, others don't.
        yield word.lstrip(b"\n"), vector, where
    if stream.take(2).strip(b"\n"):
        raise InputError(f"{path} goes on after the {header.words:,} words of its header")


class _Stream:
    """Bytes that are taken in portions of any size."""

    def __init__(self, data: Iterator[bytes]) -> None:
        self._data = data
        self._held = b""
        self._place = 0

    def until(self, mark: bytes) -> bytes | None:
        """Return what stands before a byte, which is passed; None where it doesn't come soon."""
        while True:
            end = self._held.find(mark, self._place, self._place + LONGEST_WORD)
            if end >= 0:
                found = self._held[self._place : end]
                self._place = end + 1
                return found
            if len(self._held) - self._place >= LONGEST_WORD or not self._more():
                return None

    def take(self, count: int) -> bytes:
        """Return the next bytes; fewer where the data ends."""
        while len(self._held) - self._place < count and self._more():
            pass
        found = self._held[self._place : self._place + count]
        self._place += len(found)
        return found

    def _more(self) -> bool:
        """Hold the next chunk too; say whether there was one."""
        chunk = next(self._data, b"")
        self._held = self._held[self._place :] + chunk
        self._place = 0
        return bool(chunk)


def _too_long(path: Path, number: int) -> str:
    return f"{path}:{number} is longer than {LONGEST_LINE >> 20} MB, which no word vector is"
