"""Hold some examples out: as many of each class as there are in the whole, and what was written twice on one side."""

from collections import defaultdict
from collections.abc import Hashable, Sequence

from firth.base.errors import InputError
from firth.base.seeds import Purpose, generator
from firth.data.examples import Example, Labelled

SHARE, MOST = 0.1, 0.2  # of the examples: what is held out, and what one of each class may come to


def split(
    examples: Sequence[Example], seed: int, share: float = SHARE
) -> tuple[list[int], list[int]]:
    """Numbers of the examples to learn from and of those to hold out, each in their order.

    Of each class with two texts or more at least one is held out, unless these alone would be too many of all. A text that was
    written so often that it would be far too much is learned from, where there are others.
    """
    same = _same(examples)
    if len(same) < 2:
        raise InputError(
            f"{len(same)} different texts are too few to hold one out; give others with --dev"
        )
    strata = _strata(examples, same)
    sizes = [share * sum(map(len, groups)) if len(groups) > 1 else 0.0 for groups in strata]
    least = (
        max(size, min(map(len, groups))) for groups, size in zip(strata, sizes, strict=True) if size
    )
    of_each = sum(least) <= MOST * len(examples)
    held: list[int] = []
    wanted = 0.0
    for at, (groups, size) in enumerate(zip(strata, sizes, strict=True)):
        wanted = max(1.0, size) if of_each else wanted + size
        taken = 0
        for chosen in generator(Purpose.SPLIT, seed, at).permutation(len(groups)):
            if wanted < 0.5 or taken == len(groups) - 1:
                break
            if len(groups[chosen]) <= max(1.0, 2 * wanted):
                held += groups[chosen]
                wanted -= len(groups[chosen])
                taken += 1
        if of_each and size and not taken:
            held += sorted(groups, key=len)[0]
    if not held:
        spare = [group for groups in strata if len(groups) > 1 for group in groups] or same
        held = spare[int(generator(Purpose.SPLIT, seed).integers(len(spare)))]
    aside = set(held)
    return [number for number in range(len(examples)) if number not in aside], sorted(held)


def parts(examples: Sequence[Example], seed: int, count: int) -> list[list[int]]:
    """Numbers of the examples of each of `count` parts, in their order; each class is dealt out over all of them."""
    same = _same(examples)
    if len(same) < count:
        raise InputError(f"{len(same)} different texts are too few for {count} folds")
    dealt: list[list[int]] = [[] for _ in range(count)]
    for at, groups in enumerate(_strata(examples, same)):
        of_class = [0] * count
        for chosen in generator(Purpose.SPLIT, seed, at).permutation(len(groups)):
            part = min(range(count), key=lambda number: (of_class[number], len(dealt[number])))
            dealt[part] += groups[chosen]
            of_class[part] += len(groups[chosen])
    return [sorted(part) for part in dealt]


def _same(examples: Sequence[Example]) -> list[list[int]]:
    """The examples with each text; those that differ only by white space are one text."""
    same: dict[Hashable, list[int]] = defaultdict(list)
    for number, example in enumerate(examples):
        same[words_of(example)].append(number)
    return list(same.values())


def words_of(example: Example) -> tuple[str, str | None]:
    """What tells a text, or a pair, from others: all but white space."""
    second = example.second if isinstance(example, Labelled) else None
    return _plain(example.text), None if second is None else _plain(second)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _strata(examples: Sequence[Example], same: Sequence[list[int]]) -> list[list[list[int]]]:
    """The same, class by class."""
    strata: dict[Hashable, list[list[int]]] = defaultdict(list)
    for group in same:
        strata[_stratum(examples[group[0]])].append(group)
    return [strata[name] for name in sorted(strata, key=str)]


def _stratum(example: Example) -> Hashable:
    """Its class; numbers, spans and several labels at once have none."""
    return (
        example.label if isinstance(example, Labelled) and isinstance(example.label, str) else None
    )
