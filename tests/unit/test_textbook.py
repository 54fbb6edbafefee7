"""The textbooks' pictures: their numbers are worked out anew, by other means than the package's."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firth import InputError, Predictor, example, examples, load
from firth.families.registry import families
from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.nn.position import sinusoids
from firth.samples.texts import MONEY, RIVER
from firth.text.tokenizer import Tokenizer
from firth.textbook.drawing import Drawing, PrintedNumber, said_of_book
from firth.textbook.heads import ANIMAL, MAKING
from firth.textbook.names import PICTURES, find_picture
from firth.textbook.registry import BY_HAND, BY_MODEL
from tests.unit.speakers import bundle, translator
from tests.unit.test_translate import rows_of, textbook


@pytest.fixture(scope="module")
def minilm() -> Predictor:
    return load("minilm")


def values(drawing: Drawing) -> dict[str, float]:
    return {number.name: number.value for number in drawing.numbers}


def softmax(row: list[float]) -> list[float]:
    parts = [math.exp(one) for one in row]
    return [part / sum(parts) for part in parts]


def kinds(drawing: Drawing, kind: str) -> list[Any]:
    return [section.data for section in drawing.page_sections() if section.kind == kind]


def test_every_name_has_a_picture_and_every_picture_a_name() -> None:
    names = {picture.name: picture.needed for picture in PICTURES}
    assert {name for name, needed in names.items() if needed.startswith("no model")} == set(BY_HAND)
    assert {name for name, needed in names.items() if needed != "no model"} == set(BY_MODEL)
    assert examples() == list(PICTURES)
    with pytest.raises(InputError, match="did you mean 'forget-gate'"):
        find_picture("forget gate")


@pytest.mark.parametrize(
    ("value", "book", "agrees"),
    [
        (0.8808, ".88", True),
        (0.8852, ".88", False),
        (0.875, ".88", True),
        (14.0, "14", True),
        (14.6, "14", False),
        (-0.3465, "-.35", True),
        (0.3465, "-.35", False),
        (1.0, None, None),
    ],
)
def test_a_printed_number_is_the_same_when_rounded(
    value: float, book: str | None, agrees: bool | None
) -> None:
    number = PrintedNumber("x", value, book)
    assert number.agrees is agrees
    if agrees is not None:
        said = said_of_book([number])
        assert said.startswith("All 1 printed") if agrees else f"not {book}" in said


def test_thinking_machines() -> None:
    drawing = BY_HAND["thinking-machines"]()
    expected = [112, 96, 14, 12, *softmax([14, 12])]
    assert [one.value for one in drawing.numbers] == pytest.approx(expected)
    assert [one.book for one in drawing.numbers] == ["112", "96", "14", "12", ".88", ".12"]
    assert all(one.agrees for one in drawing.numbers)
    (picture,) = kinds(drawing, "worked")[0]["pictures"]
    shown = [[cell["text"] for cell in row["cells"]] for row in picture["rows"]]
    assert shown == [["112", "96"], ["14", "12"], ["0.8808", "0.1192"]]


def test_computers_are_thinking_machines() -> None:
    drawing = BY_HAND["computers"]()
    matrix = [[0.2, 0.8], [-0.2, 0.5], [-0.3, -0.4], [0.7, 0.7]]
    products = [0.7 * a + 0.7 * b for a, b in matrix]
    scaled = [one / math.sqrt(2) for one in products]
    weights = softmax(scaled)
    sums = [sum(w * row[at] for w, row in zip(weights, matrix, strict=True)) for at in (0, 1)]
    found = [one.value for one in drawing.numbers]
    assert found == pytest.approx([*products, *scaled, *weights, *sums])
    assert all(one.agrees for one in drawing.numbers)
    assert [one.book for one in drawing.numbers[-2:]] == [".2331", ".5464"]
    (attention,) = kinds(drawing, "attention")
    held = attention["weights"][0]["all"]
    assert held.whole[0, 3].tolist() == [round(10**4 * weight) for weight in weights]
    assert attention["chosen"] == {"layer": 0, "head": 0, "query": 3}
    # From the book's rounded weights one gets other numbers, which the page says.
    rounded = [0.30, 0.21, 0.13, 0.36]
    rough = [sum(w * row[at] for w, row in zip(rounded, matrix, strict=True)) for at in (0, 1)]
    assert f"{rough[0]:.4f} and {rough[1]:.4f}" in drawing.notes[1]


def test_the_forget_gate() -> None:
    drawing = BY_HAND["forget-gate"]()
    gate = 1 / (1 + math.exp(-1.2))
    assert [one.value for one in drawing.numbers] == pytest.approx([1.2, gate, 2 * gate])
    assert [one.book for one in drawing.numbers] == ["1.2", ".77", "1.54"]
    assert all(one.agrees for one in drawing.numbers)


def test_sinusoids() -> None:
    drawing = BY_HAND["sinusoids"]()
    interleaved, halves, cosines = kinds(drawing, "sheets")[0]["sheets"]
    place = np.arange(20)[:, None]
    angles = place / 10000 ** (np.arange(256) * 2 / 512)
    for sheet, sines, others in (
        (interleaved, slice(0, None, 2), slice(1, None, 2)),
        (halves, slice(0, 256), slice(256, None)),
    ):
        numbers = sheet["numbers"].whole / 10**4
        assert numbers.shape == (20, 512)
        assert np.abs(numbers[:, sines] - np.sin(angles)).max() < 0.00006
        assert np.abs(numbers[:, others] - np.cos(angles)).max() < 0.00006
    apart = np.cos((place - place.T)[:, :, None] / 10000 ** (np.arange(256) * 2 / 512)).mean(2)
    assert np.abs(cosines["numbers"].whole / 10**4 - apart).max() < 0.00006
    shortest, longest = drawing.numbers
    assert shortest.agrees
    assert longest.agrees is False
    assert longest.value == pytest.approx(2 * math.pi * 10000 ** (510 / 512), rel=1e-6)


@pytest.mark.parametrize("width", [5, 6])
def test_positions_of_any_width(width: int) -> None:
    table = sinusoids(70, width)
    assert table.shape == (70, width)
    assert float(table[69, 2]) == pytest.approx(math.sin(69 / 10000 ** (2 / width)), abs=1e-6)
    halves = sinusoids(70, width, interleaved=False)
    assert sorted(halves[69].tolist()) == sorted(table[69].tolist())


def test_the_table_of_a_student() -> None:
    drawing = BY_HAND["student"]()
    plain, smoothed, trained, calmer = kinds(drawing, "worked")[0]["pictures"]
    columns = ["a", "am", "i", "thanks", "student", "<eos>"]
    true = [columns.index(word) for word in ("i", "am", "a", "student", "<eos>")]

    def numbers(picture: dict[str, Any]) -> list[list[float]]:
        return [[float(cell["text"]) for cell in row["cells"]] for row in picture["rows"]]

    one_hot = np.eye(6)[true]
    assert plain["columns"] == columns
    assert numbers(plain) == one_hot.tolist()
    assert np.allclose(numbers(smoothed), 0.9 * one_hot + 0.1 / 6, atol=0.00006)
    for picture in (trained, calmer):
        rows = np.array(numbers(picture))
        assert rows.argmax(1).tolist() == true
        assert np.allclose(rows.sum(1), 1, atol=0.0004)
    # Without smoothing the truth goes on rising to 1; with it, it stays where it is asked to be.
    assert np.array(numbers(trained)).max(1).min() > 0.99
    assert np.allclose(numbers(calmer), numbers(smoothed), atol=0.001)
    floor = -(
        5 / 60 * math.log(1 / 60) + 0.9 * math.log(0.9 + 1 / 60) + 1 / 60 * math.log(0.9 + 1 / 60)
    )
    assert f"{floor:.4f}" in drawing.notes[1]


@pytest.mark.parametrize("model", ["attention", "transformer"])
def test_the_table_of_a_models_own(model: str, tmp_path: Path) -> None:
    textbook(tmp_path, model)
    bundle = load(tmp_path / model, threads=1).bundle
    known, rows = rows_of(bundle, "je suis étudiant", "I am a student")
    found = example("student", tmp_path / model, tmp_path / "page.html", threads=1)
    spelled = ["a", "am", "I", "thanks", "student", "</s>"]
    own = [(bundle.targets.id(word) or 0) - bundle.translator.first for word in spelled]
    assert [number.value for number in found.numbers] == pytest.approx(
        known[:, own].exp().flatten().tolist(), abs=1e-5
    )
    columns = ["a", "am", "i", "thanks", "student", "<eos>"]
    names = [f"place {place}, {word}" for place in range(1, 6) for word in columns]
    assert [number.name for number in found.numbers] == names
    loss = -known[range(5), rows].mean()
    assert found.notes[0] == (
        f"The word of the target is the likeliest in 5 of 5 rows; the loss is {loss:.4f} a word."
    )
    assert found.notes[1] == "Of 'je suis étudiant' the model makes 'I am a student'."
    by_hand = example("student")
    assert found.sections == by_hand.sections
    assert [number.book for number in by_hand.numbers].count("1.0") == 5


def test_what_else_can_be_written_has_a_column() -> None:
    texts = ["je suis étudiant", "I am a student", "thanks", "and more words"]
    words = Tokenizer.train(texts, "words", 60, "keep", end_last=True)
    (family,) = (one for one in families() if one.name == "seq2seq")
    marks = {"vocab": words.size, "start": words.cls, "end": words.sep}
    model = family.network(family.settings(**marks, width=8)).eval()
    drawing = BY_MODEL["student"](
        Predictor(Bundle(model, words, family.model_type, "translate")), "m"
    )
    tables = kinds(drawing, "worked")[0]["pictures"]
    assert tables[0]["columns"][-1] == "all others"
    for row in tables[0]["rows"]:
        assert sum(float(cell["text"]) for cell in row["cells"]) == pytest.approx(1, abs=0.001)
    assert 0 < values(drawing)["place 1, all others"] < 1


@pytest.mark.parametrize(
    ("name", "order"), [("transformer", "interleaved"), ("marian", "in halves")]
)
def test_positions_of_a_model(name: str, order: str) -> None:
    drawing = BY_MODEL["sinusoids"](Predictor(translator(name)), "m")
    found = values(drawing)
    assert found.pop(f"the largest difference from sinusoids {order}") < 1e-6
    assert min(found.values()) > 0.1
    assert drawing.notes == [f"The table is the formula's, {order}: nothing of it was learned."]
    table = kinds(drawing, "sheets")[0]["sheets"][0]["numbers"]
    place = 1 if order == "interleaved" else 8
    assert table.whole[5, place] / 10**4 == pytest.approx(math.cos(5), abs=6e-5)


def test_positions_that_were_learned(minilm: Predictor) -> None:
    drawing = BY_MODEL["sinusoids"](minilm, "minilm")
    assert all(number.value > 0.1 for number in drawing.numbers)
    assert "it was learned" in drawing.notes[0]


def test_where_it_looks(minilm: Predictor) -> None:
    drawing = BY_MODEL["animal"](minilm, "minilm")
    found = values(drawing)
    records = minilm.attention([ANIMAL.format("tired"), ANIMAL.format("wide")])
    sections = kinds(drawing, "attention")
    head = sections[0]["chosen"]["head"]
    for end, record, section in zip(("tired", "wide"), records, sections, strict=True):
        it = record.tokens.index("it")
        assert section["chosen"] == {"layer": 4, "head": head, "query": it}
        for word in ("animal", "street"):
            seen = record.weights[4, :, it, record.tokens.index(word)]
            assert found[f"too {end}: it → {word}, mean of all heads"] == pytest.approx(seen.mean())
            assert found[f"too {end}: it → {word}, head {head + 1}"] == pytest.approx(seen[head])
    # In this head the picture of the books does come out.
    name = f"too {{}}: it → {{}}, head {head + 1}"
    assert found[name.format("tired", "animal")] > found[name.format("tired", "street")]
    assert found[name.format("wide", "animal")] < found[name.format("wide", "street")]


def test_where_making_looks(minilm: Predictor) -> None:
    drawing = BY_MODEL["making"](minilm, "minilm")
    (record,) = minilm.attention([MAKING])
    making = record.tokens.index("making")
    phrase = [record.tokens.index("more"), record.tokens.index("difficult")]
    expected = record.weights[4, :, making][:, phrase].sum(1)
    assert [one.value for one in drawing.numbers] == pytest.approx(expected.tolist())
    (section,) = kinds(drawing, "attention")
    assert section["chosen"] == {"layer": 4, "head": expected.argmax(), "query": making}
    above = (expected > 2 / len(record.tokens)).sum()
    assert f" {above} of 12 heads " in drawing.notes[0]


def test_one_hot_beside_dense(minilm: Predictor) -> None:
    drawing = BY_MODEL["one-hot"](minilm, "minilm")
    found = values(drawing)
    assert found["one-hot: hotel · motel"] == 0
    assert found["dense: hotel · motel"] > 0.5 > found["dense: hotel · cat"]
    one_hot, dense, _, cosines = kinds(drawing, "sheets")[0]["sheets"]
    assert (one_hot["numbers"].whole / 10**4).tolist() == np.eye(8).tolist()
    assert dense["rows"] == ["hotel", "motel", "cat", "dog", "king", "queen", "paris", "rome"]
    rows = minilm.bundle.encoder.table.detach().numpy()
    words = [
        rows[minilm.bundle.tokenizer.encode([word], special=False)[0].ids[0]]
        for word in dense["rows"]
    ]
    units = np.array([word / np.linalg.norm(word) for word in words])
    assert np.abs(cosines["numbers"].whole / 10**4 - units @ units.T).max() < 0.0001


def test_analogies(minilm: Predictor) -> None:
    drawing = BY_MODEL["analogies"](minilm, "minilm")
    people, capitals = kinds(drawing, "points")[0]["planes"]
    assert [mark["name"] for mark in people["marks"]][:4] == ["man", "woman", "king", "queen"]
    assert people["arrows"] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert len(capitals["frames"]) == 2
    (king,) = [note for note in drawing.notes if note.startswith("woman − man + king")]
    assert "the nearest word is king" in king
    assert "it is queen" in king
    # Seen from their mean arrow all arrows lead the same way; among all numbers they don't.
    places = people["frames"][1]["places"]
    across = places.whole[1::2, 0] - places.whole[0::2, 0]
    assert (across > 0).all()
    assert all(0 < one.value < 0.5 for one in drawing.numbers)


def test_the_bank(minilm: Predictor) -> None:
    drawing = BY_MODEL["bank"](minilm, "minilm")
    (plane,) = kinds(drawing, "points")[0]["planes"]
    assert [mark["text"] for mark in plane["marks"]] == [*RIVER, *MONEY]
    assert [frame["name"] for frame in plane["frames"]][:2] == ["embedding table", "layer 1"]
    assert not plane["frames"][0]["places"].whole.any()  # one vector, one point
    found = values(drawing)
    vectors = [minilm.embed([text], pool="words", layers=[6])[0] for text in (*RIVER, *MONEY)]
    own = []
    for (rows, offsets), text in zip(vectors, (*RIVER, *MONEY), strict=True):
        row = rows[offsets.index((text.index("bank"), text.index("bank") + 4))]
        own.append(row / np.linalg.norm(row))
    cosines = np.array(own) @ np.array(own).T
    across = cosines[:5, 5:].mean()
    assert found["layer 6: cosine across senses"] == pytest.approx(across, abs=1e-5)
    assert found["layer 6: cosine within a sense"] > across
    assert found["embedding table: cosine across senses"] == pytest.approx(1, abs=1e-5)


def test_a_translator_of_other_words_is_refused() -> None:
    with pytest.raises(
        InputError, match="m doesn't write 'I am a student' and 'thanks' with a token"
    ):
        BY_MODEL["student"](Predictor(translator("transformer")), "m")


@pytest.mark.parametrize(
    ("name", "family", "said"),
    [
        ("animal", "rnn", "no attention"),
        ("making", "gpt", "doesn't read the word 'making'"),
        ("one-hot", "ngram", "no vectors of words"),
        ("analogies", "rnn", "too few words"),
        ("one-hot", "rnn", "too few of the words"),
        ("bank", "ngram", "has no layers"),
        ("bank", "elmo", "doesn't read the word 'bank' as one token"),
        ("computers", "rnn", "worked out by hand"),
        ("student", "rnn", "doesn't translate"),
        ("sinusoids", "rnn", "has no vectors of positions"),
        ("sinusoids", "ngram", "gives no vectors"),
    ],
)
def test_a_model_that_does_not_fit_is_refused(
    name: str, family: str, said: str, tmp_path: Path
) -> None:
    save(bundle(family), tmp_path / "model")
    with pytest.raises(InputError, match=said):
        example(name, tmp_path / "model")
