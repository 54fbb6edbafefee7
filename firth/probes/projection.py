"""Points of a projector: words in their sentences, or whole texts, after several layers.

N points, W words, L layers, D width.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from firth.data.examples import Example, Line
from firth.predictor import Coverage, Predictor
from firth.probes.axes import Nearest, nearest_vectors, principal_axes, umap_places
from firth.tasks.encoded import Finished
from firth.tasks.places import EmbedPlaces, PlacedText
from firth.tasks.task import Progress
from firth.text.occurrences import Occurrence, WordFinder

MOST_POINTS = 50_000
# A layer costs a page some 50 bytes a point, and memory four bytes a number.
MOST_PLACED = 150_000  # points times layers
MOST_NUMBERS = 1 << 26  # of all vectors together
NEIGHBOURS = 10
FEWEST = 16  # points for UMAP
SEARCHED_AT_ONCE = 1024  # texts


class PointText(NamedTuple):
    """A text that has points: the places of words, or without any the text as a whole."""

    text: str
    places: tuple[Occurrence, ...]
    row: Mapping[str, Any]  # the fields of the file that it comes from


@dataclass
class SoughtTexts:
    """The texts of a file that have points."""

    texts: list[PointText] = field(default_factory=list)
    read: int = 0  # texts of the file
    empty: int = 0  # of which so many were left out
    every: int = 1  # one in so many of the texts that have points is kept
    points: int = 0  # in those that are kept
    places: list[int] = field(default_factory=list)  # of each word, in all texts
    with_word: list[int] = field(default_factory=list)  # texts that have each word
    unread: int = 0  # places beyond what the model reads of their texts

    def add(self, text: PointText, number: int) -> None:
        """Keep a text, unless it falls between those that are kept; `number` counts them all."""
        if number % self.every:
            return
        self.texts.append(text)
        self.points += _count(text)
        while self.points > MOST_POINTS and len(self.texts) > 1:
            self.texts = self.texts[::2]
            self.every *= 2
            self.points = sum(map(_count, self.texts))


class Point(NamedTuple):
    """A point: the number of its text, and the place of its word, if it is no whole text."""

    text: int
    place: Occurrence | None


class PointVectors(NamedTuple):
    """The vectors of all points after some layers."""

    points: list[Point]
    vectors: Tensor  # (L, N, D)
    tokens: int  # of the texts, as far as they were read


class ProjectedFrame(NamedTuple):
    """Where all points are in one picture, those of the embedding table after the others."""

    name: str
    said: str
    places: Tensor  # (N + W, 2), or (N, 2) where the table's vectors can't be compared
    neighbours: Nearest | None  # (N + W, K), or (N, K)


def find_whole_texts(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> SoughtTexts:
    """Return the texts of a file, each a point."""
    found = SoughtTexts()
    for text, row in rows:
        found.read += 1
        if not text.strip():
            found.empty += 1
            continue
        found.add(PointText(text, (), row), found.read - found.empty - 1)
    return found


def find_words(
    rows: Iterable[tuple[str, Mapping[str, Any]]], finder: WordFinder, length: int | None
) -> SoughtTexts:
    """Return the texts of a file that have one of some words, each place a point.

    The model reads `length` tokens of a text, special ones included; later places have no vector.
    """
    found = SoughtTexts(places=[0] * len(finder.words), with_word=[0] * len(finder.words))
    (empty,) = finder.tokenizer.encode([""])
    room = None if length is None else length - len(empty)
    number = 0
    left = iter(rows)
    while chunk := list(islice(left, SEARCHED_AT_ONCE)):
        encodings = finder.tokenizer.encode([text for text, _ in chunk], special=False)
        for (text, row), encoding in zip(chunk, encodings, strict=True):
            found.read += 1
            found.empty += not text.strip()
            places = finder.find(text, encoding)
            for place in places:
                found.places[place.word] += 1
            for word in {place.word for place in places}:
                found.with_word[word] += 1
            if room is not None and len(encoding) > room:
                end = encoding.offsets[room][0]  # where the first token that is not read begins
                read = [place for place in places if place.end <= end]
                found.unread += len(places) - len(read)
                places = read
            if places:
                found.add(PointText(text, tuple(places), row), number)
                number += 1
    return found


def _count(text: PointText) -> int:
    """Return how many points a text has."""
    return len(text.places) or 1


def shown_layers(depth: int, points: int, width: int) -> list[int]:
    """Return the layers that a page shows: all, or as many as fit, evenly apart up to the last."""
    room = min(MOST_PLACED // points, MOST_NUMBERS // (points * width))
    count = max(1, min(depth, room))
    step = -(-depth // count)
    return sorted(range(depth, 0, -step)) if depth else []


def embed_points(
    predictor: Predictor,
    texts: Sequence[PointText],
    layers: Sequence[int],
    coverage: Coverage,
    progress: Progress,
) -> PointVectors:
    """Return the vector of each point after each layer; of a long text the beginning is read."""
    task = predictor.embedder(None, layers, "concat")
    if any(text.places for text in texts):
        task = EmbedPlaces(layers=layers, combine="concat")

    def finish(example: Any, encodings: Any, logits: Any, truncated: int) -> tuple[Any, int]:
        answer = task.answer(example, encodings, logits, truncated)
        return answer, len(encodings[0]) - truncated

    count = sum(map(_count, texts))
    points: list[Point] = []
    vectors = torch.empty(len(layers), 0, 0)
    tokens = 0
    answers = predictor.stream(Finished(task, finish), _examples(texts), "cut", progress, coverage)
    for number, (answer, read) in enumerate(answers):
        own = [Point(number, place) for place in texts[number].places or (None,)]
        rows = torch.from_numpy(answer).view(len(own), len(layers), -1)  # (points, L, D)
        if not points:
            # Only now is the width known; the memory is taken once.
            vectors = torch.empty(len(layers), count, rows.shape[2])
        vectors[:, len(points) : len(points) + len(own)] = rows.transpose(0, 1)
        points += own
        tokens += read
    return PointVectors(points, vectors, tokens)


def _examples(texts: Sequence[PointText]) -> Iterator[Example]:
    """Yield what the model reads."""
    for text in texts:
        places = tuple((place.start, place.end) for place in text.places)
        yield PlacedText(text.text, places) if places else Line(text.text)


def static_rows(predictor: Predictor, finder: WordFinder, words: Sequence[int]) -> Tensor:
    """Return some words' rows in the embedding table, the means of their pieces', (W, D)."""
    table = predictor.bundle.encoder.table.detach().float()
    return torch.stack([table[list(finder.ids(word))].mean(0) for word in words])


def table_frame(points: Sequence[Point], words: Sequence[int], static: Tensor) -> ProjectedFrame:
    """Return the picture of the embedding table, in which all places of a word are one point."""
    static = F.normalize(static, dim=1)
    places = principal_axes(static).place(static)  # (W, 2)
    rows = [words.index(point.place.word) for point in points if point.place is not None]
    said = "Every place of a word is one point: its row in the embedding table."
    return ProjectedFrame("embedding table", said, torch.cat([places[rows], places]), None)


def layer_frames(
    layers: Sequence[int],
    vectors: Tensor,
    static: Tensor | None,
    umap: Any,
    progress: Progress,
) -> Iterator[ProjectedFrame]:
    """Yield the picture of each layer, and with the library `umap` that of the last one by UMAP.

    Vectors (L, N, D) are brought to length 1 in place: a second copy of all would cost as much.
    """
    done = 0

    def further(count: int) -> None:
        progress(done + count)

    for layer, own in zip(layers, vectors, strict=True):
        torch.div(own, own.norm(dim=1, keepdim=True).clamp_min(1e-12), out=own)
        every = own
        if static is not None and static.shape[1] == own.shape[1]:
            every = torch.cat([own, F.normalize(static, dim=1)])
        axes = principal_axes(own)
        across, upwards = axes.variance
        found = nearest_vectors(own, every, NEIGHBOURS, further)
        done += len(own)
        name = f"layer {layer}" if layer > 0 else "the mean of word vectors"
        said = (
            f"Principal components of the vectors at length 1: {across:.0%} of the variance "
            f"across, {upwards:.0%} upwards."
        )
        yield ProjectedFrame(name, said, axes.place(every), found)
    if umap is not None and len(own) >= FEWEST:
        said = "UMAP by cosine: near points stay near; how far apart groups are means little."
        yield ProjectedFrame(f"{name}, UMAP", said, umap_places(umap, every), found)
