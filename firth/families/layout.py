"""What Hugging Face's layouts of all families have in common: names of tensors, heads, labels; tables, no I/O."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from firth.base.errors import InputError
from firth.models.features import WAYS

NONE = re.compile(r"(?!)")  # matches nothing
UNANSWERED = ("answer", "choice")  # heads that are read and written, but no task asks them
# One architecture, three uses: what a text is, which labels it has, and a number for it.
PROBLEMS = {
    "classify": "single_label_classification",
    "several": "multi_label_classification",
    "regress": "regression",
}


class Layout(NamedTuple):
    """How one family writes its network."""

    prefix: str = ""  # before the body's names where a head stands on top
    names: Mapping[
        str, tuple[str, ...]
    ] = {}  # our module -> theirs; several are joined along the first dimension
    settings: Mapping[str, str] = {}  # our setting -> their key
    fixed: Mapping[str, Any] = {}  # their keys with the only value that this network can express
    bare: str = ""  # the architecture without a head
    architectures: Mapping[str, str] = {}  # those with a head -> what it does
    heads: Mapping[str, Mapping[str, str]] = {}  # what a head does -> our module -> theirs
    twins: Mapping[str, str] = {}  # one tensor that has been saved under either name or both
    spare: re.Pattern[str] = (
        NONE  # buffers and second copies of tied weights that older releases wrote
    )
    transposed: re.Pattern[str] = NONE  # tensors that hold the transpose of ours
    guards: tuple[
        str, ...
    ] = ()  # a weight of every head of theirs: with another shape, their class refuses the folder


OLD_SPELLINGS = (
    (re.compile(r"LayerNorm\.gamma$"), "LayerNorm.weight"),
    (re.compile(r"LayerNorm\.beta$"), "LayerNorm.bias"),
)


def modern(name: str) -> str:
    """A weight's present name, for files written with the first releases' names."""
    for old, new in OLD_SPELLINGS:
        name = old.sub(new, name)
    return name


def body_sources(layout: Layout, name: str) -> tuple[str, ...]:
    """Where one of our encoder's tensors comes from: their names, to be joined in this order."""
    module, _, field = name.rpartition(".")
    number = re.search(r"\d+", module)
    template = layout.names[re.sub(r"\d+", "#", module)]
    return tuple(f"{part.replace('#', number[0] if number else '')}.{field}" for part in template)


def head_source(layout: Layout, kind: str, name: str, tied: bool = True) -> str:
    """Where one of our head's tensors comes from."""
    table = layout.heads[kind]
    if name in table:
        return table[name] if tied or name != "masked.bias" else layout.twins[table[name]]
    module, _, field = name.rpartition(".")
    return f"{table[module]}.{field}"


def turned(layout: Layout, source: str, tensor: Tensor) -> Tensor:
    """A tensor of theirs as ours, and the other way round."""
    return tensor.t() if layout.transposed.search(source) else tensor


def to_theirs(layout: Layout, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """An encoder's tensors under their names and in their shapes, without the prefix that they have under a head."""
    found = {}
    for name, tensor in tensors.items():
        sources = body_sources(layout, name)
        for source, piece in zip(sources, tensor.chunk(len(sources)), strict=True):
            found[source] = turned(layout, source, piece).contiguous()
    return found


def architecture(layout: Layout, kind: str | None) -> str:
    """The name of their class that has such a head."""
    asked = "classify" if kind in PROBLEMS else kind
    return next((name for name, does in layout.architectures.items() if does == asked), layout.bare)


def read_kind(config: dict[str, Any], layout: Layout, where: str) -> str | None:
    """What a folder's head does, None for a bare encoder; a head that Firth doesn't know is left out and reported as unused."""
    names = config.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{where}: architectures must be a list of names")
    kind = layout.architectures.get(names[0]) if names else None
    if kind != "classify":
        return kind
    asked = config.get("problem_type")
    if asked is None:
        return "regress" if len(read_labels(config, kind, where)) == 1 else kind
    found = next((use for use, problem in PROBLEMS.items() if problem == asked), None)
    if found is None:
        raise InputError(
            f"{where}: problem_type {asked!r} is not one of {', '.join(PROBLEMS.values())}"
        )
    return found


def unusable_head(config: dict[str, Any], layout: Layout, where: str) -> str | None:
    """The architecture whose head Firth has no reading for, or reads and can't answer with; None for other folders."""
    kind = read_kind(config, layout, where)
    name = (config.get("architectures") or [layout.bare])[0]
    bare = name == layout.bare or (name.endswith("Model") and "Head" not in name)
    return name if kind in UNANSWERED or (kind is None and not bare) else None


def read_labels(config: dict[str, Any], kind: str | None, where: str) -> tuple[str, ...]:
    """The label names of a classifier or tagger, in the order of its scores."""
    if kind not in ("classify", "several", "tag"):
        return ()
    table = config.get("id2label")
    if table is None:
        number = config.get("num_labels", 2)
        if type(number) is not int or not 0 < number < 1 << 16:
            raise InputError(f"{where}: num_labels must be a whole number above 0")
        return tuple(f"LABEL_{i}" for i in range(number))
    if (
        not isinstance(table, dict)
        or sorted(table) != sorted(str(i) for i in range(len(table)))
        or not table
    ):
        raise InputError(f"{where}: id2label must number its labels from 0 without gaps")
    return tuple(str(table[str(i)]) for i in range(len(table)))


def write_head(layout: Layout, kind: str | None, labels: tuple[str, ...]) -> dict[str, Any]:
    """The part of a configuration that says what the head does and calls its outputs by name."""
    page: dict[str, Any] = {"architectures": [architecture(layout, kind)]}
    if kind in PROBLEMS:
        page["problem_type"] = PROBLEMS[kind]
    labels = (
        ("LABEL_0",) if kind == "regress" else labels
    )  # one output, by the name that transformers gives it
    if labels:
        page["id2label"] = {str(i): label for i, label in enumerate(labels)}
        page["label2id"] = {label: i for i, label in enumerate(labels)}
    return page


class Frozen(NamedTuple):
    """What firth.json says of a head that transformers has no place for: it reads some layers of an encoder that was not taught."""

    kind: str
    layers: tuple[int, ...]
    how: str
    labels: tuple[str, ...]


def read_frozen(record: dict[str, Any], depth: int, where: str) -> Frozen | None:
    """The part of firth.json about features, if it has one."""
    page = record.get("features")
    if page is None:
        return None
    try:
        kind, layers, how, labels = record["task"], page["layers"], page["combine"], page["labels"]
    except (KeyError, TypeError) as error:
        raise InputError(f"{where}: features must have layers, combine and labels") from error
    known = kind in ("classify", "several", "regress", "tag") and how in WAYS
    if (
        not known
        or not isinstance(layers, list)
        or not 0 < len(layers) <= depth + 1
        or not isinstance(labels, list)
    ):
        raise InputError(
            f"{where}: {kind!r} with features combined by {how!r} is not something that Firth runs"
        )
    if not all(type(layer) is int and -depth - 1 <= layer <= depth for layer in layers):
        raise InputError(f"{where}: layers go from 0 to {depth}, or from -1 to -{depth + 1}")
    if not all(isinstance(label, str) for label in labels) or (kind != "regress") != bool(labels):
        raise InputError(f"{where}: labels must be a list of names")
    return Frozen(kind, tuple(layers), how, tuple(labels))
