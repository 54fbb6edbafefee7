"""Tests of word vectors, told from other files by what stands in them.

Pairs of words have a rating by people in the first column after them that holds a number; analogies
are four words a line, in sections that begin with a colon. A line that begins with # is a comment.
"""

import math
import re
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from itertools import islice
from pathlib import Path

from firth.base.errors import InputError
from firth.data.wordtests import Analogies, Analogy, RatedPair, RatedPairs, WordTest
from firth.text.lines import raw_lines

LOOKED_AT = 20  # lines that tell what a file is
LONGEST = 1000  # characters of such a line
WORD_COLUMN = re.compile(r'"?word[ _]?[12]"?', re.IGNORECASE)
DELIMITERS = "\t,;"

Line = tuple[int, str]  # with its number


def read_word_test(path: Path, encoding: str | None = None) -> WordTest | None:
    """Return the test of word vectors in a file, or None for a file that is none."""
    kind = _kind(path, encoding)
    if kind is None:
        return None
    with closing(_written(path, encoding)) as lines:
        return kind(lines, path)


def _kind(path: Path, encoding: str | None) -> Callable[[Iterable[Line], Path], WordTest] | None:
    """Return what reads a file, by its first lines."""
    try:
        with closing(_written(path, encoding)) as lines:
            head = list(islice(lines, LOOKED_AT))
    except InputError:  # whoever reads the file as something else says what is wrong with it
        return None
    if any(len(line) > LONGEST for _, line in head):
        return None
    texts = [line for _, line in head]
    if len(texts) > 1 and texts[0].startswith(":"):
        questions = [line.split() for line in texts if not line.startswith(":")]
        return _analogies if all(len(words) == 4 for words in questions) else None
    if texts and _is_header(texts[0]):
        texts = texts[1:]
    rated = bool(texts) and all(_pair(line) is not None for line in texts)
    return _pairs if rated else None


def _written(path: Path, encoding: str | None) -> Generator[Line, None, None]:
    """Yield the lines that are neither blank nor comments."""
    for number, line in enumerate(raw_lines(path, encoding), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line.rstrip("\r")


def _pairs(lines: Iterable[Line], path: Path) -> RatedPairs:
    """Read pairs of words with their ratings."""
    found = []
    for place, (number, line) in enumerate(lines):
        if place == 0 and _is_header(line):
            continue
        pair = _pair(line)
        if pair is None:
            raise InputError(f"{path}:{number} has no two words with a number after them")
        found.append(pair)
    return RatedPairs(tuple(found))


def _fields(line: str) -> list[str]:
    """Return the fields of a line, by the delimiter that it has most of."""
    delimiter = max(DELIMITERS, key=line.count)
    return [field.strip(' "') for field in line.split(delimiter)]


def _is_header(line: str) -> bool:
    """Tell a line that names the columns: Word 1, Word 2."""
    return all(WORD_COLUMN.fullmatch(name) for name in _fields(line)[:2])


def _pair(line: str) -> RatedPair | None:
    """Return the words and the rating of a line, or None where it has none."""
    first, second, *others = [*_fields(line), "", ""]
    if len(first.split()) != 1 or len(second.split()) != 1:
        return None
    if _number(first) is not None or _number(second) is not None:
        return None
    ratings = [value for value in map(_number, others) if value is not None]
    return RatedPair(first, second, ratings[0]) if ratings else None


def _number(field: str) -> float | None:
    """Return the number in a field, or None."""
    try:
        value = float(field)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _analogies(lines: Iterable[Line], path: Path) -> Analogies:
    """Read analogies, section by section; a section that comes again goes on."""
    sections: dict[str, list[Analogy]] = {}
    name = ""
    for number, line in lines:
        if line.startswith(":"):
            name = line.removeprefix(":").strip()
            sections.setdefault(name, [])
            continue
        words = line.split()
        if len(words) != 4:
            raise InputError(f"{path}:{number} has {len(words)} words where an analogy has four")
        sections[name].append(Analogy(*words))
    return Analogies({name: tuple(questions) for name, questions in sections.items()})
