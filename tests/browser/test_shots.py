"""The script that takes the screenshots of the docs: what is shown is chosen first, and nothing else is in the picture."""

import struct
from pathlib import Path

import pytest

from docs.shots import FOLDER, MARGIN, SHOTS, Shot, click_head, click_word, take, take_all
from firth import view
from tests.browser.browser import Browser

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def size(picture: bytes) -> tuple[int, int]:
    """The width and height of a PNG file."""
    assert picture.startswith(SIGNATURE)
    width, height = struct.unpack(">II", picture[16:24])
    return width, height


def test_a_picture_is_taken_of_what_was_chosen(
    browser: Browser, models: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    view(models / "bare", "a list of strings", page)
    chosen = [click_word("list"), click_head(2, 3, heads=4)]
    plain = take(Shot("a", [], [], ["#section-1 .words"]), page, browser)
    marked = take(Shot("b", [], chosen, ["#section-1 .words"]), page, browser)
    assert browser.text("#attention-said").startswith("Layer 2, head 3: list looks at")
    dark = take(Shot("c", [], chosen, ["#section-1 .words"], dark=True), page, browser)
    assert len({plain, marked, dark}) == 3
    box = browser.run(
        "const box = document.querySelector('#section-1 .words').getBoundingClientRect();"
        "return [box.width, box.height]"
    )
    for picture in (plain, marked, dark):
        assert size(picture) == pytest.approx([side + 2 * MARGIN for side in box], abs=1)
    narrow = take(Shot("d", [], [], ["h1", "#section-2"], width=400), page, browser)
    assert size(narrow)[0] <= 400
    browser.quiet()


def test_what_is_not_known_is_refused(tmp_path: Path, browser: Browser) -> None:
    with pytest.raises(SystemExit, match="there is no picture nowhere"):
        take_all(["nowhere"], tmp_path)


@pytest.mark.soak
def test_all_can_be_taken(tmp_path: Path, browser: Browser) -> None:
    take_all([], tmp_path)
    for shot in SHOTS:
        taken, kept = (
            size((folder / f"{shot.name}.png").read_bytes()) for folder in (tmp_path, FOLDER)
        )
        assert taken == pytest.approx(kept, rel=0.1), "python -m docs.shots takes them anew"
