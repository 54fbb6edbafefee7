"""Hashes of the texts that a model was trained on: which texts they tell apart, and that a damaged file is refused."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from firth.base.errors import InputError
from firth.data.examples import Example, Labelled, Line, Tagged
from firth.reading.trained import TRAINED, read_trained, text_hash, was_trained_on, write_trained

TEXTS: list[Example] = [
    Labelled("Tåget är sent", "klagomål"),
    Labelled("Var är den?", None, "Här."),
    Tagged("Ada åt", ()),
]


def test_texts_are_told_apart_by_all_but_white_space(tmp_path: Path) -> None:
    write_trained(tmp_path / TRAINED, TEXTS * 2)
    assert (tmp_path / TRAINED).stat().st_size < 200  # 8 bytes a text, and a header
    hashes = read_trained(tmp_path)
    assert hashes is not None
    assert len(hashes) == 3
    for known in (*TEXTS, Line(" Tåget\när  sent "), Labelled("Var är den?\n", "x", " Här.")):
        assert was_trained_on(hashes, known), known
    for new in (
        Line("tåget är sent"),
        Line("Var är den?"),
        Labelled("Här.", None, "Var är den?"),
        Line("Var är den? Här."),
    ):
        assert not was_trained_on(hashes, new), new
    write_trained(tmp_path / TRAINED, [Line("Ny")], hashes)
    assert len(read_trained(tmp_path)) == 4  # type: ignore[arg-type]
    assert text_hash(Line("Ny")) == text_hash(Tagged(" Ny", ()))
    assert read_trained(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    "arrays",
    [
        {"texts": np.array([3, 1])},
        {"texts": np.array([1, 1])},
        {"texts": np.array([1.0, 2.0])},
        {"texts": np.array([[1, 2]])},
        {"other": np.array([1, 2])},
        {"texts": np.array([1, 2]), "other": np.array([1])},
        {},
    ],
)
def test_what_is_no_row_of_hashes_is_refused(arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    save_file(arrays, tmp_path / TRAINED)
    with pytest.raises(InputError, match=r"trained\.safetensors is damaged"):
        read_trained(tmp_path)


def test_a_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    write_trained(tmp_path / TRAINED, TEXTS)
    whole = (tmp_path / TRAINED).read_bytes()
    for size in (0, 7, 20, len(whole) - 8, len(whole) - 1):
        (tmp_path / TRAINED).write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"damaged|not valid JSON"):
            read_trained(tmp_path)
