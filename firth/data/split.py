"""Hold some examples out: as many of each class as there are in the whole, and what was written twice on one side."""

from collections import defaultdict
from collections.abc import Hashable, Sequence

from firth.base.errors import InputError
from firth.base.seeds import Purpose, generator
from firth.data.examples import Example, Labelled

SHARE = 0.1


def split(examples: Sequence[Example], seed: int, share: float = SHARE) -> tuple[list[int], list[int]]:
    """Numbers of the examples to learn from and of those to hold out, each in their order."""
    same = _same(examples)
    if len(same) < 2:
        raise InputError(f"{len(same)} different texts are too few to hold one out; give others with --dev")
    held: list[int] = []
    for at, groups in enumerate(_strata(examples, same)):
        wanted = max(1.0, share * sum(map(len, groups)))
        for chosen in generator(Purpose.SPLIT, seed, at).permutation(len(groups))[: len(groups) - 1]:
            if wanted < 0.5:
                break
            held += groups[chosen]
            wanted -= len(groups[chosen])
    if not held:  # every text is the only one of its class
        held = same[int(generator(Purpose.SPLIT, seed).integers(len(same)))]
    aside = set(held)
    return [number for number in range(len(examples)) if number not in aside], sorted(held)


def parts(examples: Sequence[Example], seed: int, count: int) -> list[list[int]]:
    """Numbers of the examples of each of `count` parts, in their order; each class is dealt out over all of them."""
    same = _same(examples)
    if len(same) < count:
        raise InputError(f"{len(same)} different texts are too few for {count} folds")
    dealt: list[list[int]] = [[] for _ in range(count)]
    for at, groups in enumerate(_strata(examples, same)):
        for chosen in generator(Purpose.SPLIT, seed, at).permutation(len(groups)):
            min(dealt, key=len).extend(groups[chosen])
    return [sorted(part) for part in dealt]


def _same(examples: Sequence[Example]) -> list[list[int]]:
    """The examples with each text."""
    same: dict[Hashable, list[int]] = defaultdict(list)
    for number, example in enumerate(examples):
        same[example.text, example.second if isinstance(example, Labelled) else None].append(number)
    return list(same.values())


def _strata(examples: Sequence[Example], same: Sequence[list[int]]) -> list[list[list[int]]]:
    """The same, class by class."""
    strata: dict[Hashable, list[list[int]]] = defaultdict(list)
    for group in same:
        strata[_stratum(examples[group[0]])].append(group)
    return [strata[name] for name in sorted(strata, key=str)]


def _stratum(example: Example) -> Hashable:
    """Its class; numbers and spans have none."""
    return example.label if isinstance(example, Labelled) and not isinstance(example.label, float) else None
