"""The screenshots that the docs show are there, are pictures, are light, and say in words what is to be seen."""

import re
import struct
from pathlib import Path

from docs.shots import SHOTS

ROOT = Path(__file__).parents[2]
LARGEST = 150_000  # bytes
SIGNATURE = b"\x89PNG\r\n\x1a\n"
SHOWN = re.compile(r"!\[([^\]]*)\]\(([^)\s]+\.png)\)")


def shown() -> dict[Path, list[str]]:
    """Each screenshot with what stands for it where it can't be seen."""
    found: dict[Path, list[str]] = {}
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for words, name in SHOWN.findall(page.read_text(encoding="utf-8")):
            found.setdefault((page.parent / name).resolve(), []).append(words)
    return found


def test_screenshots_are_light_pictures() -> None:
    assert len(shown()) >= 5
    for path in shown():
        picture = path.read_bytes()
        assert picture.startswith(SIGNATURE), path
        width, height = struct.unpack(">II", picture[16:24])
        assert 300 < width < 1300, path
        assert 200 < height < 1300, path
        assert len(picture) < LARGEST, path


def test_each_is_taken_by_the_script_and_shown() -> None:
    taken = {ROOT / "docs" / f"{shot.name}.png" for shot in SHOTS}
    assert len(taken) == len(SHOTS)
    assert taken == set(shown()) == set((ROOT / "docs").glob("*.png"))
    assert any(shot.dark for shot in SHOTS)


def test_each_is_told_in_words() -> None:
    for path, texts in shown().items():
        for words in texts:
            assert len(words) > 40, path
    readme = [words for words, _ in SHOWN.findall((ROOT / "README.md").read_text(encoding="utf-8"))]
    assert len(readme) == 1
