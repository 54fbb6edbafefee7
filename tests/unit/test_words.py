"""The words of a model and their vectors: neighbours, analogies, and tests by people's ratings."""

import random
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr
from torch import nn

import firth
from firth.base.errors import InputError
from firth.data.batch import make_batch
from firth.data.wordtests import Analogies, RatedPairs
from firth.families.registry import by_model_type
from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.protocols import Encoder
from firth.probes.words import WordTable
from firth.reading.wordtests import read_word_test
from firth.text.tokenizer import Tokenizer
from tests.unit.folders import PIECES, sound_folders, write
from tests.unit.speakers import TRAIN, bundle, tokenizer

Rows = NDArray[np.float64]
TABLE = {
    "king": (1.0, 1.0, 0.0, 0.1),
    "queen": (1.0, -1.0, 0.0, 0.1),
    "man": (0.0, 1.0, 0.2, 0.0),
    "woman": (0.0, -1.0, 0.2, 0.0),
    "ship": (0.0, 0.0, 1.0, 0.0),
    "boat": (0.1, 0.0, 0.9, 0.1),
    "sail": (0.0, 0.1, 0.8, -0.3),
    "void": (0.0, 0.0, 0.0, 0.0),
}


def write_vectors(folder: Path, table: dict[str, Sequence[float]], name: str = "v") -> Path:
    """A folder of word vectors."""
    lines = [" ".join([word, *map(str, row)]) for word, row in table.items()]
    (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    firth.convert(folder / f"{name}.txt", folder / name)
    return folder / name


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    return write_vectors(tmp_path, TABLE)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    x, y = np.array(one, float), np.array(other, float)
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def unit(row: Sequence[float]) -> Rows:
    found: Rows = np.array(row, float) / np.sqrt(np.square(row).sum())
    return found


def test_neighbours_are_in_the_order_of_their_cosines(vectors: Path) -> None:
    ship, queen = firth.neighbours(vectors, ["ship", "queen"], top=20)
    for found, word in ((ship, "ship"), (queen, "queen")):
        assert found.asked == (firth.AskedWord(word, (word,)),)
        # All words but the one asked for, and the one without a direction.
        expected = {other: cosine(TABLE[word], TABLE[other]) for other in TABLE if other not in (word, "void")}  # fmt: skip
        ranked = sorted(expected, key=lambda other: -expected[other])
        assert [one.word for one in found.nearest] == ranked
        for one in found.nearest:
            assert one.similarity == pytest.approx(expected[one.word], abs=1e-6)
    assert len(firth.neighbours(vectors, "ship", top=2)[0].nearest) == 2


def test_an_analogy_is_completed_by_none_of_its_words(vectors: Path) -> None:
    found = firth.analogy(vectors, "man", "king", "woman", top=20)
    target = unit(TABLE["king"]) - unit(TABLE["man"]) + unit(TABLE["woman"])
    others = [word for word in TABLE if word not in ("man", "king", "woman", "void")]
    ranked = sorted(others, key=lambda word: -cosine(target, TABLE[word]))
    assert [one.word for one in found.nearest] == ranked
    assert ranked[0] == "queen"
    assert found.nearest[0].similarity == pytest.approx(cosine(target, TABLE["queen"]), abs=1e-6)


def test_a_one_hot_vector_times_the_table_is_the_row_that_is_looked_up(vectors: Path) -> None:
    opened = firth.load(vectors).bundle
    batch = make_batch(opened.tokenizer.encode(["ship queen ship", "boat"]))
    table = opened.encoder.table.detach()
    one_hot = nn.functional.one_hot(batch.ids, len(table)).to(table.dtype)  # (T, V)
    assert one_hot.sum(1).tolist() == [1] * 4
    with torch.no_grad():
        looked_up = opened.encoder(*batch.stream).tokens
    assert torch.equal(one_hot @ table, looked_up)
    assert looked_up.tolist() == [pytest.approx(TABLE[word]) for word in ("ship", "queen", "ship", "boat")]  # fmt: skip


def test_similarity_is_a_cosine(vectors: Path) -> None:
    found = firth.similarity(vectors, "ship", "boat")
    assert found.cosine == pytest.approx(cosine(TABLE["ship"], TABLE["boat"]), abs=1e-6)
    assert firth.similarity(vectors, "ship", "ship").cosine == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("sihp", "has no word 'sihp'; did you mean 'ship'"),
        ("Queeen", "did you mean 'queen'"),
        ("zebra", "has no word 'zebra'"),
        ("void", "has no word 'void': its vector is all zeros"),
        ("voidd", "has no word 'voidd'$"),  # the nearest spelling has no vector
        ("<unk>", "has no word '<unk>'"),
        ("", "a word is a string that is not empty"),
    ],
)
def test_an_unknown_word_is_refused_with_the_nearest_spelling(
    vectors: Path, word: str, said: str
) -> None:
    pattern = re.escape(said).replace(r"\$", "$")
    with pytest.raises(InputError, match=pattern):
        firth.neighbours(vectors, ["ship", word])
    with pytest.raises(InputError, match=pattern):
        firth.similarity(vectors, word, "ship")


def test_case_is_that_of_the_vocabulary(tmp_path: Path) -> None:
    lower = write_vectors(tmp_path, TABLE, "lower")
    cased = write_vectors(tmp_path, {**TABLE, "Ship": (1.0, 0.5, 0.0, 0.0)}, "cased")
    assert firth.neighbours(lower, "SHIP", top=1)[0].nearest[0].word == "boat"
    assert firth.similarity(cased, "Ship", "ship").cosine == pytest.approx(0, abs=1e-6)
    with pytest.raises(InputError, match="has no word 'SHIP'"):
        firth.neighbours(cased, "SHIP")


def test_equal_cosines_come_in_the_order_of_the_vocabulary(tmp_path: Path) -> None:
    table = {"one": (1.0, 0.0), **{f"w{n}": (2.0 + n % 3, 0.0) for n in range(9)}}
    folder = write_vectors(tmp_path, table)
    for top in (3, 9):  # also where some of the equal ones are left out
        (found,) = firth.neighbours(folder, "one", top=top)
        assert [one.word for one in found.nearest] == [f"w{n}" for n in range(top)]


def test_a_bert_has_the_mean_of_a_words_pieces(tmp_path: Path) -> None:
    """And only whole words of its vocabulary are neighbours."""
    folder = write(tmp_path / "bert", sound_folders()["old"])
    table = firth.load(folder).bundle.encoder.table.detach().double().numpy()
    rows = {piece: table[number] for number, piece in enumerate(PIECES)}
    (found,) = firth.neighbours(folder, "cats", top=50)
    assert found.asked == (firth.AskedWord("cats", ("cat", "##s")),)
    mean = (rows["cat"] + rows["##s"]) / 2
    expected = {word: cosine(mean, rows[word]) for word in ("a", "b", "c", "the", ".")}
    assert [one.word for one in found.nearest] == sorted(expected, key=lambda word: -expected[word])
    assert found.nearest[0].similarity == pytest.approx(max(expected.values()), abs=1e-6)
    with pytest.raises(InputError, match="has no word 'xyz'"):
        firth.neighbours(folder, "xyz")


def test_the_words_of_a_vocabulary_of_bytes_begin_after_a_blank(tmp_path: Path) -> None:
    folder = save(bundle("gpt"), tmp_path / "gpt")
    words = tokenizer("bytes")
    model = firth.load(folder).bundle
    assert isinstance(model.model, Encoder)
    table = WordTable(model, "gpt")
    spelled = {row: words.piece(row) for row in table.words}
    assert len(spelled) > 50
    assert all(piece == f"Ġ{table.words[row]}" for row, piece in spelled.items() if piece.isascii())
    assert all(piece.startswith("Ġ") for piece in spelled.values())
    assert "the" in table.words.values()
    (found,) = firth.neighbours(folder, "the", top=3)
    assert found.asked[0].pieces == ("the",)
    assert table.find("the") == (words.id("Ġthe"),)
    several = next(line for line in TRAIN if len(table.find(line.split()[0])) > 2).split()[0]
    (found,) = firth.neighbours(folder, several)
    assert "".join(found.asked[0].pieces) == several


@pytest.mark.parametrize("name", ["rnn", "ffnn"])
def test_a_language_model_has_the_table_of_the_words_that_it_reads(
    name: str, tmp_path: Path
) -> None:
    made = bundle(name)
    folder = save(made, tmp_path / name)
    rows = made.network.token_layer.weight.detach().double().numpy()  # type: ignore[union-attr,operator]
    (found,) = firth.neighbours(folder, "the", top=1)
    words = tokenizer("words")
    the, near = words.id("the"), words.id(found.nearest[0].word)
    assert the is not None
    assert near is not None
    assert found.nearest[0].similarity == pytest.approx(cosine(rows[the], rows[near]), abs=1e-5)


def test_counts_have_no_vectors(tmp_path: Path) -> None:
    folder = save(bundle("ngram"), tmp_path / "counts")
    with pytest.raises(InputError, match="of the family ngram, which has no vectors of words"):
        firth.neighbours(folder, "the")


# Tests by people's ratings

TABS = "# a comment\n# Word 1\tWord 2\tHuman (mean)\nking\tqueen\t8.58\nship\tboat\t9\n"
PAIR_FILES = {
    "tabs": TABS,
    "windows": TABS.replace("\n", "\r\n"),
    "header": "Word 1\tWord 2\tHuman (mean)\nking\tqueen\t8.58\nship\tboat\t9\n",
    "commas": "Word 1,Word 2,Human (mean)\nking,queen,8.58\nship,boat,9\n",
    "simlex": "word1\tword2\tPOS\tSimLex999\tconc(w1)\nking\tqueen\tN\t8.58\t1\nship\tboat\tN\t9\t2\n",
    "semicolons": "king;queen;8.58\nship;boat;9\n",
}


@pytest.mark.parametrize("name", PAIR_FILES)
def test_pairs_are_told_by_their_content(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file.any"
    path.write_bytes(PAIR_FILES[name].encode())
    assert read_word_test(path) == RatedPairs((("king", "queen", 8.58), ("ship", "boat", 9.0)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# a comment\n",
        "text\tlabel\nthe sea\tgood\n",
        "text_a\ttext_b\tlabel\nthe sea was calm\tthe sea slept\t4.5\n",
        "the sea was calm\nthe ship was old\n",
        "EU\tB-ORG\nrejects\tO\n",
        "1\t2\t3\n4\t5\t6\n",
        ": a section\nthe sea was calm that day\n",
        '{"text": "sea", "label": 1}\n',
        "king\tqueen\tnan\n",
    ],
)
def test_other_files_are_no_test_of_words(text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.tsv"
    path.write_text(text, encoding="utf-8")
    assert read_word_test(path) is None


def test_a_line_that_is_wrong_further_down_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("king\tqueen\t8\n" * 30 + "king queen\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"pairs.tsv:31 has no two words"):
        read_word_test(path)
    path.write_text(": one\n" + "a b c d\n" * 30 + "a b c\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"pairs.tsv:32 has 3 words where an analogy has four"):
        read_word_test(path)


def random_table(seed: int, words: int = 60, width: int = 6) -> dict[str, Sequence[float]]:
    draw = np.random.default_rng(seed)
    return {f"w{n}x": [float(np.float32(v)) for v in draw.normal(size=width)] for n in range(words)}


def test_correlations_are_scipys(tmp_path: Path, seed: int) -> None:
    """Of two models, on the pairs that both know; ratings are tied, as people's are."""
    draw = random.Random(seed)
    first, second = random_table(1), random_table(2)
    del second["w7x"]
    pairs = [(*draw.sample(sorted(first), 2), draw.randrange(20) / 2) for _ in range(80)]
    lines = [f"{a}\t{b}\t{rating}" for a, b, rating in pairs]
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join([*lines, "w1x\tunknown\t5"]) + "\n", encoding="utf-8")
    folders = [write_vectors(tmp_path, table, name) for name, table in (("a", first), ("b", second))]  # fmt: skip
    found = firth.evaluate(folders, path)
    known = [pair for pair in pairs if "w7x" not in pair]
    assert len(known) < len(pairs)
    assert (found.examples, found.left_out) == (len(known), len(pairs) + 1 - len(known))
    ratings = [pair[2] for pair in known]
    expected = []
    for measured, table in zip(found.models, (first, second), strict=True):
        cosines = [cosine(table[a], table[b]) for a, b, _ in known]
        rho, r = spearmanr(ratings, cosines).statistic, pearsonr(ratings, cosines).statistic
        assert measured.metrics["spearman"].value == pytest.approx(rho, abs=1e-6)
        assert measured.metrics["pearson"].value == pytest.approx(r, abs=1e-6)
        assert set(measured.metrics) == {"spearman", "pearson"}
        expected.append(rho)
    (compared,) = found.differences
    assert compared.metrics["spearman"].value == pytest.approx(expected[1] - expected[0], abs=1e-6)
    assert firth.evaluate(folders[0], path).left_out == 1


def test_analogies_are_those_of_brute_force(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    table = random_table(3, words=12, width=2)
    sections: dict[str, list[list[str]]] = {
        "one": [],
        "two": [],
        "three": [["w1x", "w2x", "no", "w3x"]],
    }
    for name in ("one", "two"):
        sections[name] = [draw.sample(sorted(table), 4) for _ in range(60)]
    sections["two"].append(["w1x", "w2x", "w3x", "missing"])
    lines = []
    for name, questions in sections.items():
        lines += [f": {name}", *(" ".join(words).upper() for words in questions)]
    path = tmp_path / "questions"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert isinstance(read_word_test(path), Analogies)
    found = firth.evaluate(write_vectors(tmp_path, {**table, "void": (0.0, 0.0)}), path)

    def right(question: list[str]) -> bool:
        a, b, c, answer = question
        target = unit(table[b]) - unit(table[a]) + unit(table[c])
        others = [word for word in table if word not in (a, b, c)]
        return max(others, key=lambda word: cosine(target, table[word])) == answer

    counts = {name: sum(map(right, sections[name][:60])) for name in ("one", "two")}
    assert 0 < sum(counts.values()) < 120
    (measured,) = found.models
    assert measured.words is not None
    one, two, three = measured.words.sections
    assert (one.questions, one.left_out, two.questions, two.left_out) == (60, 0, 60, 1)
    assert (three.questions, three.left_out, three.accuracy) == (0, 1, None)
    for section in (one, two):
        assert section.accuracy is not None
        assert section.accuracy.value == pytest.approx(counts[section.name] / 60)
    assert measured.metrics["accuracy"].value == pytest.approx(sum(counts.values()) / 120)
    assert measured.metrics["chance"].value == pytest.approx(1 / 12)
    assert (found.examples, found.left_out) == (120, 2)


def test_words_of_several_pieces_are_measured_by_their_mean(tmp_path: Path) -> None:
    folder = write(tmp_path / "bert", sound_folders()["old"])
    path = tmp_path / "pairs.tsv"
    path.write_text("cats\tcat\t9\nthe\tcat\t3\ncab\tcat\t1\nzzz\tcat\t1\n", encoding="utf-8")
    found = firth.evaluate(folder, path)
    assert (found.examples, found.left_out) == (3, 1)
    (measured,) = found.models
    assert measured.words is not None
    assert measured.words.several == 2  # cats, and c ##a ##b


def test_nothing_known_is_refused_and_so_are_options_of_other_data(
    vectors: Path, tmp_path: Path
) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("moon\tstar\t9\n", encoding="utf-8")
    with pytest.raises(InputError, match="no pair has both words in"):
        firth.evaluate(vectors, path)
    with pytest.raises(InputError, match=r"label= is not for .*pairs.tsv, a test of word vectors"):
        firth.evaluate(vectors, path, label="x")
    path.write_text(": s\nmoon star sun day\n", encoding="utf-8")
    with pytest.raises(InputError, match="no analogy has all its words in"):
        firth.evaluate(vectors, path)


def test_every_family_with_a_table_has_neighbours(tmp_path: Path) -> None:
    """The folder alone says where the table is."""
    words = Tokenizer.train(TRAIN, "words", 300)
    for name in ("firth-mean", "firth-vectors", "firth-word2vec"):
        family = by_model_type(name, "here")
        torch.manual_seed(0)
        model = family.network(family.settings(vocab=words.size, width=8)).eval()
        folder = save(Bundle(model, words, name), tmp_path / name)
        assert len(firth.neighbours(folder, "the", top=4)[0].nearest) == 4
