"""Find the words whose vectors are nearest: to a word's, or to what completes an analogy."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, get_args

import torch

from firth.base.arguments import (
    MOST_THREADS,
    as_path,
    as_strings,
    as_whole,
    check_choice,
    check_string,
)
from firth.base.errors import InputError
from firth.folders.wordmap import By, load_map
from firth.predictor import Predictor, load_predictor
from firth.probes.words import AskedWord, NearWord, WordTable

MOST = 1000  # neighbours of a word


class Neighbours(NamedTuple):
    """The words nearest to one word, or those that complete an analogy of three."""

    asked: tuple[AskedWord, ...]
    nearest: tuple[NearWord, ...]


class Similarity(NamedTuple):
    """How alike two words are by the cosine of their vectors."""

    asked: tuple[AskedWord, AskedWord]
    cosine: float


def neighbours(
    model: str | Path,
    words: str | Sequence[str],
    *,
    top: int = 10,
    into: str | Path | None = None,
    mapping: str | Path | None = None,
    by: By | None = None,
    threads: int | None = None,
) -> list[Neighbours]:
    """Return for each word those with the most similar vectors, the nearest first.

    With a `mapping` that `firth align` made they are words of the model `into`: translations, `by`
    its linear map or its network.
    """
    asked = [words] if isinstance(words, str) else list(as_strings("words", words))
    if not asked:
        raise InputError("there is no word to find neighbours of")
    check_words(*asked)
    top = as_whole("top", top, 1, MOST)
    into = as_path("into", into, optional=True)
    mapping = as_path("mapping", mapping, optional=True)
    check_choice("by", by, get_args(By), optional=True)
    if (into is None) != (mapping is None):
        raise InputError("--into names a second model and --map the map to it: give both")
    if by is not None and mapping is None:
        raise InputError("--by says which map of --map is used: give --into and --map")
    predictor, table = _open(model, threads)
    known = [table.ask(word) for word in asked]
    with predictor.computing():
        vectors = torch.stack([table.unit(word) for word in asked])
        if into is not None and mapping is not None:
            made = load_map(Path(mapping), {"source": table.name, "target": into})
            _, target = _open(into, threads)
            others = target.centred(made.target_mean)
            found = others.nearest(made.apply(vectors, by or "linear"), [()] * len(asked), top)
        else:
            found = table.nearest(vectors, [table.find(word) for word in asked], top)
    return [Neighbours((word,), tuple(nearest)) for word, nearest in zip(known, found, strict=True)]


def analogy(
    model: str | Path,
    first: str,
    second: str,
    third: str,
    *,
    top: int = 10,
    threads: int | None = None,
) -> Neighbours:
    """Return the words that are to the third as the second is to the first.

    They are nearest to the second less the first plus the third, all at length 1, and none of the
    three (3CosAdd: Mikolov, Yih and Zweig, 2013).
    """
    words = (first, second, third)
    check_words(*words)
    top = as_whole("top", top, 1, MOST)
    predictor, table = _open(model, threads)
    known = tuple(table.ask(word) for word in words)
    with predictor.computing():
        vector = table.unit(second) - table.unit(first) + table.unit(third)
        without = {row for word in words for row in table.find(word)}
        (nearest,) = table.nearest(vector[None], [without], top)
    return Neighbours(known, tuple(nearest))


def similarity(
    model: str | Path, first: str, second: str, *, threads: int | None = None
) -> Similarity:
    """Return the cosine of two words' vectors."""
    check_words(first, second)
    _, table = _open(model, threads)
    known = (table.ask(first), table.ask(second))
    cosine = float(table.unit(first) @ table.unit(second))
    return Similarity(known, max(-1.0, min(1.0, cosine)))


def _open(model: str | Path, threads: int | None) -> tuple[Predictor, WordTable]:
    """Open a model and its words."""
    name = as_path("model", model)
    threads = as_whole("threads", threads, 1, MOST_THREADS, optional=True)
    predictor = load_predictor(name, threads)
    return predictor, WordTable(predictor.bundle, name)


def check_words(*words: object) -> None:
    """Refuse what is no string, or an empty one."""
    for word in words:
        check_string("a word", word, empty=False)
