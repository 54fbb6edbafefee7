"""The registry of model families: by the name of `--model`, and by the model_type of a folder.

A family of a user's own is found in two ways: it was registered in this process, as a plugin's is,
or an installed package has an entry point for it in the group `firth.families`. A folder names only
a model_type: it never leads to a file or module that isn't installed.
"""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from firth.base.errors import FirthError, InputError, add_choices, plugin_hint
from firth.families import (
    attention,
    bernoulli,
    bert,
    cbow,
    distilbert,
    elmo,
    ffnn,
    glove,
    gpt,
    marian,
    mean,
    mpnet,
    ngram,
    published,
    rnn,
    seq2seq,
    t5,
    transformer,
    word2vec,
)
from firth.families.family import Contract, Family
from firth.families.roberta import ROBERTA, XLM_ROBERTA

GROUP = "firth.families"
BUILT_IN = (
    bert.FAMILY,
    ROBERTA,
    XLM_ROBERTA,
    distilbert.FAMILY,
    mpnet.FAMILY,
    gpt.FAMILY,
    elmo.FAMILY,
    rnn.FAMILY,
    ffnn.FAMILY,
    ngram.FAMILY,
    word2vec.FAMILY,
    cbow.FAMILY,
    glove.FAMILY,
    bernoulli.FAMILY,
    mean.FAMILY,
    published.FAMILY,
    seq2seq.FAMILY,
    attention.FAMILY,
    transformer.FAMILY,
    marian.FAMILY,
    t5.FAMILY,
    t5.MT5,
)
_known: dict[str, Family] = {family.name: family for family in BUILT_IN}
add_choices(_known)

F = TypeVar("F", bound=Family)


def register_family(family: F) -> F:
    """Add a family for this process; its name and its model_type must be new."""
    if _known.get(family.name) is family:
        return family
    for point in _installed():
        if point.name in (family.name, family.model_type):
            raise InputError(f"an installed package has a family {point.name} already")
    _add(family)
    return family


def _add(family: Family) -> None:
    for known in families():
        if family.name == known.name or family.model_type == known.model_type:
            raise InputError(f"there is a family {known.name} ({known.model_type}) already")
    _known[family.name] = family
    add_choices([family.name])


def families() -> list[Family]:
    """Return the families that are known so far, the built-in ones first."""
    return list(_known.values())


def names() -> list[str]:
    """Return what `--model` may be: families that are pretrained, and entry points."""
    found = [family.name for family in families() if family.recipe is not None]
    installed = [point.name for point in _installed() if point.name not in _known]
    return [*found, *installed]


def by_name(name: str) -> Family:
    """Return the family that `--model` names."""
    found = _find(name, lambda family: family.name)
    if found is None or found.recipe is None:
        raise InputError(f"there is no model {name!r}; there are: {', '.join(names())}")
    return found


def new_names(contract: Contract = "encoder") -> list[str]:
    """Return the names of families whose models `finetune` can begin with new weights."""
    new = [family for family in families() if family.new_size is not None]
    return [family.name for family in new if contract in family.contracts]


def new_family(name: str) -> Family | None:
    """Return the family that `finetune --model` names; None where it names a folder."""
    found = _find(name, lambda family: family.name)
    if found is None or found.new_size is None:
        return None
    return found


def by_model_type(model_type: object, where: str) -> Family:
    """Return the family whose model_type a config.json has."""
    found = None
    if isinstance(model_type, str):
        found = _find(model_type, lambda family: family.model_type)
    if found is None:
        opened = ", ".join(family.model_type for family in families())
        raise InputError(
            f"{where}: model_type {model_type!r} is not one that Firth opens ({opened}); "
            f"{plugin_hint()}"
        )
    return found


def with_option(option: str) -> list[Family]:
    """Return the families that have an option of `pretrain`, the simplest first."""
    return [family for family in reversed(families()) if option in family.options]


def _find(wanted: str, key: Callable[[Family], str]) -> Family | None:
    """Return the family with a key; an installed one is loaded by the name of its entry point."""
    for family in families():
        if key(family) == wanted:
            return family
    for point in _installed():
        if point.name == wanted:
            return _load(point)
    return None


def _installed() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _load(point: EntryPoint) -> Family:
    """Load an installed family, which has one name everywhere: its entry point's."""
    where = f"the entry point {point.name} of {GROUP}"
    try:
        family = point.load()
    except Exception as error:
        raise FirthError(f"{where} can't be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(family, Family):
        raise FirthError(f"{where} is no Family")
    if (family.name, family.model_type) != (point.name, point.name):
        raise FirthError(
            f"{where} has the name {family.name!r} and the model_type {family.model_type!r}: "
            f"both must be {point.name!r}"
        )
    _add(family)
    return family
