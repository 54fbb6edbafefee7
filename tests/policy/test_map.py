"""The map of the code is what the module docstrings say."""

from docs.map import TARGET, page


def test_the_map_is_true() -> None:
    assert TARGET.read_text(encoding="utf-8") == page(), (
        "docs/map.md differs from the module docstrings: python -m docs.map writes it again"
    )
