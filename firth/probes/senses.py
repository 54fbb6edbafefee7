"""What vectors know of meaning: the nearest texts, and the senses of one word in context."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from firth.base.errors import InputError
from firth.predictor import Predictor
from firth.tasks.embed import Vectors


class Neighbour(NamedTuple):
    """A text near a query."""

    similarity: float
    text: str


class Senses(NamedTuple):
    """How alike the vectors of a word are in sentences of the same sense and of different ones."""

    same: float
    different: float
    right: int  # sentences whose nearest other sentence uses the word in their own sense


def nearest_texts(
    predictor: Predictor, queries: Sequence[str], texts: Sequence[str], count: int
) -> list[list[Neighbour]]:
    """Return for each query the texts with the most similar vectors, best first."""
    vectors = unit(predictor.embed([*queries, *texts]))
    of_queries, of_texts = np.split(vectors, [len(queries)])
    cosines = of_queries @ of_texts.T  # (queries, texts)
    found = []
    for row in cosines:
        best = np.argsort(-row)[:count]
        found.append([Neighbour(float(row[place]), texts[place]) for place in best])
    return found


def static_vectors(predictor: Predictor, word: str, sentences: Sequence[str]) -> Vectors:
    """Return the word's row in the embedding table, looked up once for each sentence."""
    bundle = predictor.bundle
    encodings = bundle.tokenizer.encode(sentences)
    ids = []
    for sentence, encoding in zip(sentences, encodings, strict=True):
        place = _place(encoding.offsets, word, sentence)
        ids.append(encoding.ids[place])
    return bundle.encoder.table[ids].detach().numpy()


def contextual_vectors(predictor: Predictor, word: str, sentences: Sequence[str]) -> list[Vectors]:
    """Return the word's vector in each sentence, after each layer."""
    depth = predictor.bundle.encoder.depth
    layers = range(1, depth + 1)
    spans = predictor.embed(sentences, pool="words", layers=layers, combine="concat")
    found = []
    for sentence, (vectors, offsets) in zip(sentences, spans, strict=True):
        place = _place(offsets, word, sentence)
        found.append(vectors[place])  # (depth D): its vectors after all layers, side by side
    every = np.stack(found)
    return list(np.split(every, depth, axis=1))


def _place(offsets: Sequence[tuple[int, int]], word: str, sentence: str) -> int:
    """Return which of some tokens, or words, is the word of a sentence."""
    start = sentence.index(word)
    place = start, start + len(word)
    if place not in offsets:
        raise InputError(f"this model doesn't read the word {word!r} as one token")
    return offsets.index(place)


def compare_senses(vectors: Vectors, first: int) -> Senses:
    """Compare every two sentences, of which the `first` ones have one sense, the rest another."""
    rows = unit(vectors)
    count = len(rows)
    cosines = rows @ rows.T
    is_first = np.arange(count) < first
    same = is_first[:, None] == is_first
    other = ~np.eye(count, dtype=bool)  # no sentence is compared with itself
    nearest = np.where(other, cosines, -np.inf).argmax(1)
    right = is_first[nearest] == is_first
    return Senses(
        same=float(cosines[same & other].mean()),
        different=float(cosines[~same].mean()),
        right=int(right.sum()),
    )


def unit(vectors: Vectors) -> Vectors:
    """Return vectors of length 1, so that a product is a cosine."""
    lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths
