"""Random keys: the same ones draw the same numbers, another purpose or key draws others."""

from itertools import product

from firth.base.seeds import Purpose, generator, number

KEYS = [(1,), (2,), (1, 1), (1, 2), (2, 1), (1, 1, 1)]


def test_every_purpose_and_every_key_draws_its_own_numbers() -> None:
    asked = list(product(Purpose, KEYS))
    for draw in (number, lambda *keys: generator(*keys).integers(1 << 62)):
        numbers = [draw(purpose, *keys) for purpose, keys in asked]
        assert len(set(numbers)) == len(asked)
        assert numbers == [draw(purpose, *keys) for purpose, keys in asked]
