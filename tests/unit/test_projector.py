"""The projector: words found as the tokenizer has them, vectors those of embed, neighbours and axes those of numpy."""

import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from firth import InputError, Predictor, load, projector
from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.output.projector import excerpts, first_colour, value_columns, word_column
from firth.pages.projector import Groups, Scale
from firth.predictor import Coverage
from firth.probes.axes import nearest_vectors, principal_axes
from firth.probes.projection import (
    MOST_POINTS,
    Point,
    PointText,
    SoughtTexts,
    embed_points,
    find_whole_texts,
    find_words,
    layer_frames,
    shown_layers,
    static_rows,
    table_frame,
)
from firth.samples.texts import MONEY, RIVER
from firth.text.occurrences import Occurrence, WordFinder
from firth.text.tokenizer import Tokenizer
from tests.unit.speakers import HELD_OUT, bundle, tokenizer

BANK = [*RIVER, *MONEY]


@pytest.fixture(scope="module")
def minilm() -> Predictor:
    return load("minilm")


def found_words(words: Tokenizer, text: str, *sought: str) -> list[str]:
    """The places of words in a text, as the text spells them."""
    (encoding,) = words.encode([text], special=False)
    places = WordFinder(words, sought).find(text, encoding)
    return [text[place.start : place.end] for place in places]


def rows(texts: list[str]) -> list[tuple[str, dict[str, Any]]]:
    return [(text, {}) for text in texts]


def never(done: int) -> None:
    """Progress that nobody sees."""


def test_words_are_found_as_the_tokenizer_has_them(minilm: Predictor) -> None:
    words = minilm.bundle.tokenizer
    text = "The Bank, (bank) BÄNK bankers' bank's: embank. New  York is new; york-new york"
    assert found_words(words, text, "bank") == ["Bank", "bank", "BÄNK", "bank"]
    assert found_words(words, text, "New York") == ["New  York", "new york"]
    assert found_words(words, text, "york", "new york") == [
        "New  York",
        "York",
        "york",
        "new york",
        "york",
    ]
    assert found_words(words, "don't or don’t, don't", "don't") == ["don't", "don't"]
    assert found_words(words, "", "bank") == []
    cased = tokenizer("bytes")
    assert found_words(cased, text, "bank") == ["bank", "bank"]
    assert found_words(cased, "bank of the bank,bank", "bank") == ["bank", "bank", "bank"]
    assert WordFinder(cased, ["a"]).keeps_case
    assert not WordFinder(words, ["a"]).keeps_case


def test_a_word_with_its_comma_inside_is_found(tmp_path: Path) -> None:
    """Of SentencePiece's tokenizers, which leave punctuation in the word."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, pre_tokenizers

    pieces = [
        ("<unk>", 0.0),
        *((one, -1.0) for one in ("▁", "▁the", "▁bank", "bank", ",", "(", "s")),
    ]
    backend = Backend(models.Unigram(pieces, unk_id=0, byte_fallback=False))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    words = Tokenizer(backend, "a test", {})
    assert words.kind == "unigram"
    text = "the bank, (bank the banks bank"
    assert found_words(words, text, "bank") == ["bank", "bank", "bank"]


@pytest.mark.parametrize("sought", [("", "a"), ("\x00",), ("Bank", "bank")])
def test_what_is_no_word_or_one_twice_is_refused(
    minilm: Predictor, sought: tuple[str, ...]
) -> None:
    with pytest.raises(InputError, match=r"finds no word in|are one word"):
        WordFinder(minilm.bundle.tokenizer, sought)


def test_vectors_are_those_of_embed(minilm: Predictor) -> None:
    texts = [*BANK, "No such word here.", "Bank after bank, and the riverbank of a bank."]
    finder = WordFinder(minilm.bundle.tokenizer, ["bank", "riverbank"])
    found = find_words(rows(texts), finder, 256)
    assert found.read == 12
    assert found.places == [13, 1]
    assert found.with_word == [11, 1]
    assert len(finder.pieces(1)) == 2
    layers = [2, 6]
    made = embed_points(minilm, found.texts, layers, Coverage(), never)
    assert len(made.points) == 14
    assert made.vectors.shape == (2, 14, 384)
    assert made.tokens == sum(
        map(len, minilm.bundle.tokenizer.encode([one.text for one in found.texts]))
    )
    for number, layer in enumerate(layers):
        spans = minilm.embed([one.text for one in found.texts], pool="words", layers=[layer])
        for point, vector in zip(made.points, made.vectors[number].numpy(), strict=True):
            assert point.place is not None
            vectors, offsets = spans[point.text]
            own = vectors[offsets.index((point.place.start, point.place.end))]
            assert np.allclose(vector, own, atol=2e-6)


def test_several_words_in_a_row_are_the_mean_of_all_pieces(minilm: Predictor) -> None:
    text = "They went to New York in May."
    finder = WordFinder(minilm.bundle.tokenizer, ["new york", "york"])
    found = find_words(rows([text]), finder, None)
    made = embed_points(minilm, found.texts, [6], Coverage(), never)
    (pieces,) = minilm.embed([text], pool="none", layers=[6])
    own = [
        vector
        for vector, (start, end) in zip(*pieces, strict=True)
        if text[start:end] in ("New", "York")
    ]
    assert np.allclose(made.vectors[0, 0], np.mean(own, 0), atol=2e-6)
    assert np.allclose(made.vectors[0, 1], own[1], atol=2e-6)


def test_places_beyond_the_end_of_what_is_read_are_counted() -> None:
    words = tokenizer("wordpiece")
    torch.manual_seed(1)
    settings = BertSettings(vocab=words.size, width=16, depth=2, heads=2, inner=16, length=12)
    predictor = Predictor(Bundle(Bert(settings).eval(), words))
    text = f"the {'of ' * 8}the the of"
    finder = WordFinder(words, ["the"])
    found = find_words(rows([text, "the end"]), finder, predictor.bundle.length)
    assert found.places == [4]
    assert found.unread == 1
    coverage = Coverage()
    made = embed_points(predictor, found.texts, [1, 2], coverage, never)
    assert [point.text for point in made.points] == [0, 0, 1]
    assert coverage.cut == 1
    (spans, _) = predictor.embed([text, "the end"], pool="none", report=True)[0]
    assert np.allclose(made.vectors[1, 1], spans.vectors[-1], atol=2e-6)
    lost = find_words(rows([f"{'of ' * 30}the"]), finder, 12)
    assert (lost.texts, lost.unread) == ([], 1)


def test_texts_have_the_vectors_of_embed(minilm: Predictor) -> None:
    found = find_whole_texts(rows([*BANK, " ", ""]))
    assert (found.read, found.empty, found.points) == (12, 2, 10)
    made = embed_points(minilm, found.texts, [1, 6], Coverage(), never)
    whole = minilm.embed(BANK)
    last = F.normalize(made.vectors[1], dim=1).numpy()
    assert np.allclose(last, whole, atol=2e-6)
    assert all(point.place is None for point in made.points)


def test_neighbours_are_those_of_all_numbers() -> None:
    generator = torch.Generator().manual_seed(3)
    vectors = F.normalize(torch.randn(3000, 24, generator=generator), dim=1)
    others = F.normalize(torch.randn(2, 24, generator=generator), dim=1)
    told: list[int] = []
    found = nearest_vectors(vectors, torch.cat([vectors, others]), 10, told.append)
    assert told[-1] == 3002
    cosines = torch.cat([vectors, others]).double().numpy() @ vectors.double().numpy().T
    cosines[np.arange(3000), np.arange(3000)] = -np.inf
    order = np.argsort(-cosines, axis=1)[:, :10]
    assert np.array_equal(found.numbers.numpy(), order)
    assert np.allclose(found.cosines.numpy(), np.take_along_axis(cosines, order, 1), atol=1e-6)
    alone = nearest_vectors(vectors[:1], vectors[:1], 10)
    assert alone.numbers.shape == (1, 0)


@pytest.mark.parametrize("shape", [(500, 12), (5, 40), (1, 3), (2, 1)])
def test_axes_are_the_principal_ones(shape: tuple[int, int]) -> None:
    vectors = torch.randn(*shape, generator=torch.Generator().manual_seed(1)) * torch.arange(
        1, shape[1] + 1
    )
    axes = principal_axes(vectors)
    centred = (vectors - vectors.mean(0)).double().numpy()
    _, sizes, rows_ = np.linalg.svd(centred, full_matrices=False)
    places = axes.place(vectors).numpy()
    assert places.shape == (shape[0], 2)
    for axis in range(min(2, len(sizes))):
        assert np.allclose(np.abs(places[:, axis]), np.abs(centred @ rows_[axis]), atol=1e-4)
    if shape[0] > 1:
        assert axes.variance[0] == pytest.approx(float(sizes[0] ** 2 / (sizes**2).sum()), abs=1e-9)


def test_frames_of_the_table_and_of_layers(minilm: Predictor) -> None:
    finder = WordFinder(minilm.bundle.tokenizer, ["bank", "the", "zebra"])
    found = find_words(rows(BANK), finder, 256)
    made = embed_points(minilm, found.texts, [1, 6], Coverage(), never)
    static = static_rows(minilm, finder, [0, 1])
    row = minilm.bundle.tokenizer.id("bank")
    assert torch.equal(static[0], minilm.bundle.encoder.table[row])
    table = table_frame(made.points, [0, 1], static)
    count = len(made.points)
    assert table.places.shape == (count + 2, 2)
    words = [point.place.word for point in made.points if point.place]
    assert torch.equal(table.places[:count], table.places[count:][words])
    assert table.neighbours is None

    frames = list(layer_frames([1, 6], made.vectors, static, None, never))
    assert [frame.name for frame in frames] == ["layer 1", "layer 6"]
    units = made.vectors[1]
    assert torch.allclose(units.norm(dim=1), torch.ones(count), atol=1e-6)
    last = frames[1]
    assert last.neighbours is not None
    assert last.places.shape == (count + 2, 2)
    assert torch.allclose(last.places[:count], principal_axes(units).place(units), atol=1e-5)
    cosines = F.normalize(static, dim=1) @ units.T
    assert torch.allclose(last.neighbours.cosines[count:], cosines.topk(10).values, atol=1e-5)


def test_a_table_of_another_width_is_not_among_the_layers() -> None:
    predictor = Predictor(bundle("rnn"))
    text = next(line for line in HELD_OUT if " the " in line)
    finder = WordFinder(predictor.bundle.tokenizer, ["the"])
    found = find_words(rows([text] * 3), finder, None)
    made = embed_points(predictor, found.texts, [1], Coverage(), never)
    narrow = torch.ones(1, 3)
    (frame,) = layer_frames([1], made.vectors, narrow, None, never)
    assert len(frame.places) == len(made.points)


def test_layers_are_as_many_as_fit() -> None:
    assert shown_layers(6, 20_000, 384) == [1, 2, 3, 4, 5, 6]
    assert shown_layers(12, 20_000, 768) == [3, 6, 9, 12]
    assert shown_layers(12, 500, 768) == list(range(1, 13))
    assert shown_layers(12, 50_000, 384) == [4, 8, 12]
    assert shown_layers(24, 50_000, 4096) == [24]
    assert shown_layers(0, 10, 10) == []


def test_too_many_points_are_thinned_evenly() -> None:
    found = SoughtTexts()
    for number in range(2 * MOST_POINTS + 7):
        found.add(PointText(str(number), (), {}), number)
    assert found.every == 4
    assert found.points == len(found.texts) <= MOST_POINTS
    assert [int(text.text) for text in found.texts] == list(range(0, 2 * MOST_POINTS + 7, 4))


def columns(*values: Any) -> tuple[list[Groups | Scale], list[str]]:
    texts = [PointText("a", (), row) for row in values]
    return value_columns([Point(number, None) for number in range(len(texts))], texts, 0)


def test_columns_become_groups_or_scales() -> None:
    every = [
        {
            "label": ["good", "bad", None, ""][number % 4],
            "stars": str(number % 3),
            "when": number / 7 if number else None,
            "id": f"row {number}",
            "same": "x",
            "town": f"town {min(number % 40, 20)}",
            "flag": number % 2 == 0,
            "tags": ["a", "b"][: number % 3],
        }
        for number in range(80)
    ]
    found, notes = columns(*every)
    by_name = {column.name: column for column in found}
    assert set(by_name) == {"label", "stars", "when", "town", "flag", "tags"}
    assert notes == ["columns with one value, or too many, can't colour points: 'id', 'same'"]
    label = by_name["label"]
    assert isinstance(label, Groups)
    assert list(label.groups) == ["good", "bad"]
    assert label.codes[:5].tolist() == [0, 1, 2, 2, 0]
    stars = by_name["stars"]
    assert isinstance(stars, Groups)
    assert list(stars.groups) == ["0", "1", "2"]
    when = by_name["when"]
    assert isinstance(when, Scale)
    assert np.isnan(when.values[0])
    assert when.values[7] == 1
    town = by_name["town"]
    assert isinstance(town, Groups)
    assert town.groups[0] == "town 20"
    assert len(town.groups) == 21
    assert town.coloured == 12
    tags = by_name["tags"]
    assert isinstance(tags, Groups)
    assert set(tags.groups) == {"[]", '["a"]', '["a", "b"]'}
    assert first_colour(found, 0) == 0
    points = [Point(0, Occurrence(1, 0, 1)), Point(1, Occurrence(0, 0, 1))]
    words = word_column(points, ["a", "b"], [0, 1])
    assert words.codes.tolist() == [1, 0, 0, 1]
    assert first_colour([words, *found], 2) == 0
    assert first_colour([words, *found], 1) == 1
    assert first_colour([words], 1) is None


def test_excerpts_mark_the_word_and_are_short() -> None:
    text = f"{'x' * 500} bank {'y' * 500}"
    points = [Point(0, Occurrence(0, 501, 505)), Point(1, None), Point(2, None)]
    long, short, whole = excerpts(
        points, [PointText(one, (), {}) for one in (text, "a text", text)]
    )
    assert long.word == "bank"
    assert long.before == f"…{'x' * 199} "
    assert long.after == f" {'y' * 199}…"
    assert short == ("", "", "a text")
    assert len(whole.after) == 401


def test_a_record_says_what_is_in_the_page(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "firth")
    source = tmp_path / "bank.txt"
    source.write_text("\n".join([*BANK, "", "A riverbank."]) + "\n", encoding="utf-8")
    found = projector("minilm", source, words=["bank", "riverbank", "zebra"], axes="pca")
    assert found.path is None
    assert found.points == 11
    assert found.texts == 12
    assert [word.points for word in found.words] == [10, 1, 0]
    assert found.frames == ("embedding table", *(f"layer {number}" for number in range(1, 7)))
    assert found.notes == (
        "empty texts that are left out: 1",
        "'riverbank' is 2 pieces (river ##bank): a vector is their mean",
        "no text has the word 'zebra'",
    )
    assert [record.message for record in caplog.records if record.message in found.notes]
    assert found._repr_html_().startswith("<iframe")
    texts = projector("minilm", source, axes="pca")
    assert texts.sections == ("Texts",)
    assert texts.points == 11


def test_models_without_contextual_vectors(tmp_path: Path) -> None:
    from firth import convert

    (tmp_path / "v.txt").write_text("bank 1 0 0\nriver 0 1 0\nmoney 0 0 1\n", encoding="utf-8")
    convert(tmp_path / "v.txt", tmp_path / "v")
    (tmp_path / "t.txt").write_text("bank river\nmoney bank\n", encoding="utf-8")
    with pytest.raises(InputError, match="one vector a word, whatever stands around it"):
        projector(tmp_path / "v", tmp_path / "t.txt", words="bank")
    texts = projector(tmp_path / "v", tmp_path / "t.txt")
    assert texts.frames == ("the mean of word vectors",)
    save(bundle("ngram"), tmp_path / "counts")
    for words in (None, "bank"):
        with pytest.raises(InputError, match="gives no vectors"):
            projector(tmp_path / "counts", tmp_path / "t.txt", words=words)


@pytest.mark.parametrize("name", ["gpt", "rnn", "elmo"])
def test_other_encoders_have_points_too(name: str, tmp_path: Path) -> None:
    save(bundle(name), tmp_path / name)
    lines = [line for line in HELD_OUT if len(line) < 100]
    (tmp_path / "t.txt").write_text("\n".join([*lines, "a zyxomma of the list"]), encoding="utf-8")
    words = projector(tmp_path / name, tmp_path / "t.txt", words=["the", "zyxomma"], axes="pca")
    assert words.words[1].points == 1
    lacks = "the vocabulary lacks 'zyxomma': it is read as <unk>"
    assert (lacks in words.notes) == (name != "gpt")
    assert words.frames == ("embedding table", "layer 1", "layer 2")
    texts = projector(tmp_path / name, tmp_path / "t.txt", axes="pca")
    assert texts.points == len(lines) + 1


def test_umap_is_refused_by_name_where_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    (tmp_path / "t.txt").write_text("\n".join(HELD_OUT[:20]), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"needs the library umap-learn.*pip install 'firth\[umap\]'"
    ):
        projector("minilm", tmp_path / "t.txt", axes="umap")
    assert "UMAP" not in projector("minilm", tmp_path / "t.txt").frames[-1]


def test_umap_is_a_picture_beside_the_others(tmp_path: Path) -> None:
    pytest.importorskip("umap", reason="umap-learn is not installed", exc_type=ImportError)
    (tmp_path / "t.txt").write_text("\n".join(BANK * 3), encoding="utf-8")
    pages = [projector("minilm", tmp_path / "t.txt", axes=axes) for axes in ("umap", None)]
    assert [page.frames[-1] for page in pages] == ["layer 6, UMAP"] * 2
    assert pages[0].page == pages[1].page
    assert projector("minilm", tmp_path / "t.txt", axes="pca").frames[-1] == "layer 6"
