"""Maps between the words of two models: what they recover, how they are measured, and their folder."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from torch import nn

import firth
from firth.base.errors import InputError
from firth.evaluation.translation import by_chance
from firth.folders.wordmap import load_map
from firth.nn.mapping import procrustes
from firth.reading.dictionary import read_dictionary
from tests.journey.command import listing

Rows = NDArray[np.float32]
WORDS = 200
WIDTH = 12


def write_vectors(folder: Path, prefix: str, rows: Rows) -> Path:
    lines = [" ".join([f"{prefix}{n}x", *map(str, row)]) for n, row in enumerate(rows)]
    (folder / f"{prefix}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    firth.convert(folder / f"{prefix}.txt", folder / prefix)
    return folder / prefix


def spaces(noise: float, width: int = WIDTH) -> tuple[Rows, Rows]:
    """Vectors, and the same rotated, with lengths of their own and some noise."""
    draw = np.random.default_rng(0)
    first = draw.normal(size=(WORDS, WIDTH)) + 0.4
    rotation, _ = np.linalg.qr(draw.normal(size=(max(width, WIDTH), max(width, WIDTH))))
    units = first / np.linalg.norm(first, axis=1, keepdims=True)
    second = units @ rotation[:WIDTH, :width] + noise * draw.normal(size=(WORDS, width))
    second *= draw.uniform(0.5, 2, size=(WORDS, 1))
    return first.astype("f4"), second.astype("f4")


def pairs(path: Path, numbers: range, extra: str = "") -> Path:
    path.write_text("".join(f"a{n}x\tb{n}x\n" for n in numbers) + extra, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("align")
    first, second = spaces(0.03)
    write_vectors(folder, "a", first)
    write_vectors(folder, "b", second)
    pairs(folder / "fit.tsv", range(120))
    pairs(folder / "test.tsv", range(120, 180))
    return folder


def test_procrustes_is_scipys(seed: int) -> None:
    draw = np.random.default_rng(seed)
    x, y = draw.normal(size=(40, 9)), draw.normal(size=(40, 9))
    found = procrustes(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    assert np.allclose(found, orthogonal_procrustes(x, y)[0], atol=1e-6)
    narrow = procrustes(torch.from_numpy(x), torch.from_numpy(y[:, :5]))  # (9, 5)
    assert torch.allclose(narrow.T @ narrow, torch.eye(5), atol=1e-6)


def test_a_rotation_is_recovered(place: Path, tmp_path: Path) -> None:
    found = firth.align(place / "a", place / "b", place / "fit.tsv", tmp_path / "map", test=place / "test.tsv")  # fmt: skip
    assert (found.pairs, found.left_out, found.tested, found.words) == (120, 0, 60, WORDS)
    assert found.linear.at_1.value == 1
    assert found.network.at_1.value > 0.8
    assert found.network.at_5.value >= found.network.at_1.value
    assert found.chance == pytest.approx((1 / WORDS, 5 / WORDS))
    first, second = spaces(0.03)
    made = load_map(tmp_path / "map", {"source": str(place / "a"), "target": str(place / "b")})
    x, y = (nn.functional.normalize(torch.from_numpy(rows), dim=1) for rows in (first, second))
    assert torch.allclose(made.source_mean, x.mean(0), atol=1e-6)
    assert torch.allclose(made.target_mean, y.mean(0), atol=1e-6)
    centred = (x - x.mean(0))[:120], (y - y.mean(0))[:120]
    expected, _ = orthogonal_procrustes(*(rows.numpy() for rows in centred))
    assert np.allclose(made.linear.numpy(), expected, atol=1e-5)


def test_precision_is_that_of_brute_force(place: Path, tmp_path: Path) -> None:
    """Where the spaces have little in common, so that some are right and some are wrong."""
    first, second = spaces(0.25)
    folder = write_vectors(tmp_path, "b", second)
    found = firth.align(place / "a", folder, place / "fit.tsv", tmp_path / "map", test=place / "test.tsv")  # fmt: skip
    made = load_map(tmp_path / "map", {"source": str(place / "a"), "target": str(folder)})
    x, y = (nn.functional.normalize(torch.from_numpy(rows), dim=1) for rows in (first, second))
    others = nn.functional.normalize(y - y.mean(0), dim=1)
    for by, measured in (("linear", found.linear), ("network", found.network)):
        mapped = nn.functional.normalize(made.apply(x[120:180], by), dim=1)  # type: ignore[arg-type]
        nearest = (mapped @ others.T).argsort(dim=1, descending=True)
        hits = nearest[:, :5] == torch.arange(120, 180)[:, None]
        assert measured.at_1.value == pytest.approx(float(hits[:, 0].float().mean()))
        assert measured.at_5.value == pytest.approx(float(hits.any(1).float().mean()))
    assert 0 < found.linear.at_1.value < 1
    assert found.linear.at_1.low < found.linear.at_1.value < found.linear.at_1.high


def test_the_same_call_gives_the_same_bytes(place: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        firth.align(place / "a", place / "b", place / "fit.tsv", tmp_path / name / "map", seed=3)
    one, two = (listing(tmp_path / name / "map") for name in ("one", "two"))
    assert one["model.safetensors"] == two["model.safetensors"]
    firth.align(place / "a", place / "b", place / "fit.tsv", tmp_path / "other", seed=4)
    assert (tmp_path / "other/model.safetensors").read_bytes() != one["model.safetensors"]


def test_without_a_test_a_tenth_of_the_words_is_held_out(place: Path, tmp_path: Path) -> None:
    several = "a1x\tb2x\na1x\tb3x\n"
    dictionary = pairs(tmp_path / "pairs.tsv", range(100), several)
    found = firth.align(place / "a", place / "b", dictionary, tmp_path / "map")
    assert found.tested == 10
    assert 90 <= found.pairs <= 92  # a1x is on one side with all its translations
    assert found.tested_on.startswith("a tenth of the words of")


def test_unknown_words_and_words_of_the_test_are_left_out_and_said(
    place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dictionary = pairs(tmp_path / "pairs.tsv", range(130), "moon\tb1x\na1x\tmåne\n")
    with caplog.at_level("INFO"):
        found = firth.align(place / "a", place / "b", dictionary, tmp_path / "map", test=place / "test.tsv")  # fmt: skip
    assert (found.pairs, found.left_out) == (120, 2)
    assert "2 of 132 pairs have a word that a model lacks" in caplog.text
    assert "10 pairs have words of the test" in caplog.text


def test_spaces_may_have_other_widths(place: Path, tmp_path: Path) -> None:
    _, second = spaces(0.02, width=16)
    folder = write_vectors(tmp_path, "b", second)
    found = firth.align(place / "a", folder, place / "fit.tsv", tmp_path / "map", test=place / "test.tsv")  # fmt: skip
    assert found.linear.at_1.value > 0.9
    near = firth.neighbours(place / "a", "a150x", into=folder, mapping=tmp_path / "map", top=1)
    assert near[0].nearest[0].word == "b150x"


def test_several_translations_are_several_chances() -> None:
    """Of 4 words, one with two translations: by chance half are found, and all but never among five."""
    assert by_chance({"a": [1, 2]}, 4) == pytest.approx((0.5, 1.0))
    at_1, at_5 = by_chance({"a": [1], "b": [1, 2]}, 100)
    assert at_1 == pytest.approx(0.015)
    assert at_5 == pytest.approx(
        (0.05 + 1 - 98 * 97 * 96 * 95 * 94 / (100 * 99 * 98 * 97 * 96)) / 2
    )


@pytest.mark.parametrize(
    "text",
    [
        "sea\thav\nship\tbåt\nship\tskepp\n",
        "sea,hav\nship,båt\nship,skepp\nsea,hav\n",
        "# a comment\nsea hav\n\nship båt\r\nship   skepp\n",
        'word;translation\n"sea";"hav"\nship;båt\nship;skepp',
    ],
)
def test_dictionaries(text: str, tmp_path: Path) -> None:
    (tmp_path / "d").write_bytes(text.encode())
    assert read_dictionary(tmp_path / "d") == [("sea", "hav"), ("ship", "båt"), ("ship", "skepp")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no words"),
        ("word\ttranslation\n", "has no words"),
        ("sea\thav\nship\n", ":2 has 1 columns where a word and its translation go"),
        ("sea\thav\tsjö\n", ":1 has 3 columns"),
        ("sea\t\n", ":1 has an empty column"),
        ("the open sea\n", ":1 has 3 columns"),
        ("a1x\tb1x\n" * 30, "a map needs 10 to fit and one to test"),
    ],
)
def test_a_dictionary_that_will_not_do_is_refused(
    text: str, said: str, place: Path, tmp_path: Path
) -> None:
    (tmp_path / "d.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        firth.align(place / "a", place / "b", tmp_path / "d.tsv", tmp_path / "map")
    assert not (tmp_path / "map").exists()


def test_a_map_is_for_its_two_models_alone(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "map"
    firth.align(place / "a", place / "b", place / "fit.tsv", folder)
    with pytest.raises(InputError, match=r"was made for the vectors of .*/a', not those of .*/b'"):
        firth.neighbours(place / "b", "b1x", into=place / "a", mapping=folder)
    with pytest.raises(InputError, match="give both"):
        firth.neighbours(place / "a", "a1x", into=place / "b")
    with pytest.raises(InputError, match="by= says which map of mapping= is used"):
        firth.neighbours(place / "a", "a1x", by="network")
    with pytest.raises(InputError, match="is no map that firth align made"):
        firth.neighbours(place / "a", "a1x", into=place / "b", mapping=place / "a")
    with pytest.raises(InputError, match="model_type 'firth-map' is not one that Firth opens"):
        firth.neighbours(folder, "a1x")
    with pytest.raises(InputError, match="exists and holds something"):
        firth.align(place / "a", place / "b", place / "fit.tsv", folder)
    firth.align(place / "a", place / "b", place / "fit.tsv", folder, force=True)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "report.json"])
def test_a_flipped_bit_is_found(name: str, place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "map"
    firth.align(place / "a", place / "b", place / "fit.tsv", folder)
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(bytes(data))
    with pytest.raises(InputError, match="was changed or damaged after it was saved"):
        firth.neighbours(place / "a", "a1x", into=place / "b", mapping=folder)


def test_a_hostile_map_is_refused(place: Path, tmp_path: Path) -> None:
    """One whose sums are right and whose sizes are not those of its tensors."""
    folder = tmp_path / "map"
    firth.align(place / "a", place / "b", place / "fit.tsv", folder)
    whole = json.loads((folder / "config.json").read_text())
    record = json.loads((folder / "firth.json").read_text())
    for changes, said in (
        ({"hidden": 10}, "has other tensors than"),
        ({"source": 1 << 40}, "source: "),
        ({"target": -1}, "target: "),
        ({"more": 1}, "more: "),
    ):
        (folder / "config.json").write_text(json.dumps(whole | changes))
        del record["sha256"]["config.json"]
        (folder / "firth.json").write_text(json.dumps(record))
        record["sha256"]["config.json"] = ""
        with pytest.raises(InputError, match=said):
            firth.neighbours(place / "a", "a1x", into=place / "b", mapping=folder)
    report = json.loads((folder / "report.json").read_text())
    assert set(report["linear"]) == set(report["network"]) == {"at_1", "at_5"}
    assert report["pairs"] == 108
