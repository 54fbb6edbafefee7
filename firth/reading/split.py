"""Hold some examples out: a like share of each class, and what was written twice on one side."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence

from firth.base.errors import InputError
from firth.base.seeds import Purpose, generator
from firth.data.examples import Example

SHARE = 0.1  # of the examples are held out
MOST = 0.2  # of the examples may be held out to have one of each class


def split(
    examples: Sequence[Example], seed: int, share: float = SHARE
) -> tuple[list[int], list[int]]:
    """Return the numbers of the examples to train on and of those to hold out, in their order.

    Of each class with two texts or more at least one is held out, unless these alone would be too
    many of all. A text that was written so often that it would be far too much is trained on,
    where there are others.
    """
    same = _same(examples)
    if len(same) < 2:
        raise InputError(
            f"{len(same)} different texts are too few to hold one out; give others with --dev"
        )
    strata = _strata(examples, same)
    sizes = [_size(groups, share) for groups in strata]
    least = []  # what each class comes to if one text of it, at least, is held out
    for groups, size in zip(strata, sizes, strict=True):
        if size:
            smallest = min(map(len, groups))
            least.append(max(size, smallest))
    of_each = sum(least) <= MOST * len(examples)

    held: list[int] = []
    wanted = 0.0
    for at, (groups, size) in enumerate(zip(strata, sizes, strict=True)):
        if of_each:
            wanted = max(1.0, size)
        else:
            # What a class is too small to give is asked of the next one.
            wanted += size
        taken = 0
        for group in _shuffled(groups, seed, at):
            if wanted < 0.5 or taken == len(groups) - 1:
                break
            if len(group) <= max(1.0, 2 * wanted):
                held += group
                wanted -= len(group)
                taken += 1
        if of_each and size and not taken:
            held += sorted(groups, key=len)[0]

    if not held:
        held = _any_group(strata, same, seed)
    aside = set(held)
    kept = [number for number in range(len(examples)) if number not in aside]
    return kept, sorted(held)


def _shuffled(groups: list[list[int]], seed: int, stratum: int) -> Iterator[list[int]]:
    """Yield the texts of a class in an order that is drawn for it."""
    draw = generator(Purpose.SPLIT, seed, stratum)
    for chosen in draw.permutation(len(groups)):
        yield groups[chosen]


def _any_group(strata: Sequence[list[list[int]]], same: list[list[int]], seed: int) -> list[int]:
    """Draw a text, of a class that has others if there is one."""
    spare = []
    for groups in strata:
        if len(groups) > 1:
            spare += groups
    spare = spare or same
    chosen = generator(Purpose.SPLIT, seed).integers(len(spare))
    return spare[int(chosen)]


def _size(groups: Sequence[list[int]], share: float) -> float:
    """Return how many examples of a class to hold out; none of a class with one text."""
    if len(groups) < 2:
        return 0.0
    return share * sum(map(len, groups))


def parts(examples: Sequence[Example], seed: int, count: int) -> list[list[int]]:
    """Deal examples out to `count` parts, each class over all of them; return their numbers."""
    same = _same(examples)
    if len(same) < count:
        raise InputError(f"{len(same)} different texts are too few for {count} folds")
    dealt: list[list[int]] = [[] for _ in range(count)]
    for at, groups in enumerate(_strata(examples, same)):
        of_class = [0] * count
        for group in _shuffled(groups, seed, at):
            # The part with the fewest of the class; among equals, the smallest part.
            sizes = [(of_class[number], len(part)) for number, part in enumerate(dealt)]
            part = sizes.index(min(sizes))
            dealt[part] += group
            of_class[part] += len(group)
    return [sorted(part) for part in dealt]


def _same(examples: Sequence[Example]) -> list[list[int]]:
    """The examples with each text; those that differ only by white space are one text."""
    same: dict[Hashable, list[int]] = defaultdict(list)
    for number, example in enumerate(examples):
        same[words_of(example)].append(number)
    return list(same.values())


def words_of(example: Example) -> tuple[str, ...]:
    """Return what tells the texts of an example from others: all but white space."""
    texts = (text.split() for text in example.known_by)
    return tuple(" ".join(words) for words in texts)


def _strata(examples: Sequence[Example], same: Sequence[list[int]]) -> list[list[list[int]]]:
    """The same, class by class."""
    strata: dict[Hashable, list[list[int]]] = defaultdict(list)
    for group in same:
        first = examples[group[0]]
        strata[first.stratum].append(group)
    names = sorted(strata, key=str)
    return [strata[name] for name in names]
