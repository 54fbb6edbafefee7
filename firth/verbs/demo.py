"""The story so far on built-in samples: texts that mean the same lie close together, and a word means what its company says."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from firth.models.bert import Bert
from firth.predictor import Predictor, load_predictor
from firth.samples.texts import MONEY, QUERIES, RIVER, TEXTS, WORD
from firth.tasks.embed import Vectors
from firth.verbs.rehearsal import show_teaching, show_training

NEIGHBOURS = 2
NEXT = """\
To go on with texts of your own, one a line:
  firth embed minilm texts.txt -o vectors.npy                 a vector for each text
  firth embed minilm texts.txt --pool words -o words.jsonl    a vector for each word, with its place
  firth pretrain letters/ -o my-bert/ --minutes 60            a BERT of your own, from a folder of text
  firth finetune classify --model minilm --train t.csv -o x/  a task of your own, from examples
  firth predict my-bert/ "Paris is the [MASK] of France."     fills in what is hidden
  firth env                                                   what this machine has"""


class Neighbour(NamedTuple):
    """A text near a query."""

    similarity: float
    topic: str
    text: str


class Senses(NamedTuple):
    """How alike the vectors of one word are in sentences that use it in the same sense and in different senses."""

    same: float
    different: float
    right: int  # sentences whose nearest other sentence uses the word in their own sense


def run_demo(minutes: float = 1.0, threads: int | None = None) -> None:
    """Show nearest texts, then one word with two senses, then a model that learns."""
    begun = time.perf_counter()
    predictor = load_predictor("minilm", threads)
    encoder = predictor.bundle.encoder
    print(
        f"minilm: {encoder.depth} layers of width {encoder.width}, opened in {time.perf_counter() - begun:.2f} s"
    )
    show_neighbours(predictor)
    show_senses(predictor)
    show_training(minutes, threads)
    show_teaching(threads)
    print(f"\nThe demo took {time.perf_counter() - begun:.1f} s.\n\n{NEXT}")


def show_neighbours(predictor: Predictor) -> None:
    """Print the texts nearest to each query."""
    begun = time.perf_counter()
    found = neighbours(predictor)
    count = sum(len(texts) for texts in TEXTS.values()) + len(QUERIES)
    print(
        f"\n1. Nearest texts: {count} texts became vectors in {time.perf_counter() - begun:.2f} s"
    )
    for query, nearest in found.items():
        print(f"\n  {query}")
        for similarity, topic, text in nearest:
            print(f"    {similarity:.2f}  {topic:8} {text}")


def neighbours(predictor: Predictor) -> dict[str, list[Neighbour]]:
    """For each query the sample texts with the most similar vectors, best first."""
    samples = [(topic, text) for topic, texts in TEXTS.items() for text in texts]
    vectors = unit(predictor.embed([*QUERIES, *(text for _, text in samples)]))
    table = vectors[: len(QUERIES)] @ vectors[len(QUERIES) :].T  # (queries, texts)
    found = {}
    for query, row in zip(QUERIES, table, strict=True):
        best = np.argsort(-row)[:NEIGHBOURS]
        found[query] = [Neighbour(float(row[i]), *samples[i]) for i in best]
    return found


def show_senses(predictor: Predictor) -> None:
    """Print how far the two senses of a word are apart, without context and after each layer."""
    begun = time.perf_counter()
    sentences = [*RIVER, *MONEY]
    layers = contextual(predictor, sentences)
    seconds = time.perf_counter() - begun
    print(
        f"\n2. One word, two senses: {len(sentences)} sentences with *{WORD}*, each layer, in {seconds:.2f} s\n"
    )
    for number, where in enumerate(("by a river", "with deposits")):
        print(f"  {where:14} {sentences[number * len(RIVER)]}")
    print(f"\n  cosine of two vectors of *{WORD}*    same sense   different sense")
    _row("static: the row of its table", compare(static(predictor, sentences)))
    for number, vectors in enumerate(layers, 1):
        _row(f"in context: layer {number}", compare(vectors))
    right = compare(layers[-1]).right
    print(
        f"\n  A static vector is the same everywhere. In context, the nearest other *{WORD}* has the same sense"
    )
    print(f"  for {right} of {len(sentences)} sentences.")


def _row(name: str, senses: Senses) -> None:
    print(f"  {name:35} {senses.same:10.2f} {senses.different:17.2f}")


def static(predictor: Predictor, sentences: Sequence[str]) -> Vectors:
    """The word's row in the table of token vectors, looked up once for each sentence."""
    encoder = predictor.bundle.encoder
    assert isinstance(encoder, Bert)
    table = encoder.embedding.token.weight
    ids = []
    for sentence, encoding in zip(
        sentences, predictor.bundle.tokenizer.encode(sentences), strict=True
    ):
        ids.append(encoding.ids[encoding.offsets.index(_place(sentence))])
    return table[ids].numpy()


def contextual(predictor: Predictor, sentences: Sequence[str]) -> list[Vectors]:
    """The word's vector in each sentence, after each layer."""
    depth = predictor.bundle.encoder.depth
    spans = predictor.embed(sentences, pool="words", layers=range(1, depth + 1), combine="concat")
    found = [
        vectors[offsets.index(_place(text))]
        for text, (vectors, offsets) in zip(sentences, spans, strict=True)
    ]
    return list(np.split(np.stack(found), depth, axis=1))


def _place(sentence: str) -> tuple[int, int]:
    start = sentence.index(WORD)
    return start, start + len(WORD)


def compare(vectors: Vectors) -> Senses:
    """Compare every two sentences; those by the river come first."""
    rows = unit(vectors)
    cosines = rows @ rows.T
    river = np.arange(len(rows)) < len(RIVER)
    same, other = river[:, None] == river, ~np.eye(len(rows), dtype=bool)
    nearest = np.where(other, cosines, -np.inf).argmax(1)
    return Senses(
        float(cosines[same & other].mean()),
        float(cosines[~same].mean()),
        int((river[nearest] == river).sum()),
    )


def unit(vectors: Vectors) -> Vectors:
    """Vectors of length 1, so that a product is a cosine."""
    lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths
