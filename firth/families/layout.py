"""The layouts of saved models: names of tensors, heads and labels, in transformers and in ours."""

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from firth.base.errors import InputError, plugin_hint

NOTHING = re.compile(r"(?!)")  # a pattern that matches nothing
WAYS = ("concat", "sum", "weights")  # to combine the layers of a frozen encoder
LANGUAGE_MODEL = "continue"  # the kind of a language model, which has no head
TRANSLATOR = "translate"  # that of an encoder-decoder, which has none either
LABELLED = ("classify", "several", "tag")  # heads whose labels stand in config.json
# One architecture, three uses: what a text is, which labels it has, and a number for it.
PROBLEMS = {
    "classify": "single_label_classification",
    "several": "multi_label_classification",
    "regress": "regression",
}
TASK_HEADS = (*PROBLEMS, "tag")  # kinds of head that tasks train
MOST_LABELS = 1 << 16
MOST_WIDTH = 1 << 16  # of a biLSTM


class Layout(NamedTuple):
    """How one family writes its network; the default is under names of our own.

    `names` maps our modules to theirs, of which several are joined along the first dimension.
    `settings` maps our settings to their keys, `fixed` their keys to the only value that our
    network can express. `architectures` says what the head of each of their classes does, `heads`
    maps the modules of each head, and the part of our encoder that is in their head: a pooler.
    `guards` is a weight of every head of theirs: where it has
    another shape, their class refuses the folder.
    """

    prefix: str = ""  # before the body's names where a head stands on top
    names: Mapping[str, tuple[str, ...]] = {}
    settings: Mapping[str, str] = {}
    fixed: Mapping[str, Any] = {}
    bare: str = ""  # the architecture without a head
    architectures: Mapping[str, str] = {}
    heads: Mapping[str, Mapping[str, str]] = {}
    pooled: frozenset[str] = frozenset()  # kinds of head that read the pooler's output
    twins: Mapping[str, str] = {}  # one tensor that has been saved under either name or both
    spare: re.Pattern[str] = NOTHING  # buffers and second copies that older releases wrote
    transposed: re.Pattern[str] = NOTHING  # tensors that hold the transpose of ours
    guards: tuple[str, ...] = ()


OLD_SPELLINGS = (
    (re.compile(r"LayerNorm\.gamma$"), "LayerNorm.weight"),
    (re.compile(r"LayerNorm\.beta$"), "LayerNorm.bias"),
)


def modern(name: str) -> str:
    """Return a weight's present name, for files written with the first releases' names."""
    for old, new in OLD_SPELLINGS:
        name = old.sub(new, name)
    return name


def body_sources(layout: Layout, name: str) -> tuple[str, ...]:
    """Return where one of our network's tensors comes from: names to be joined in this order."""
    if not layout.names:
        return (name,)
    if name in layout.names:  # a tensor of no module
        return layout.names[name]
    module, _, field = name.rpartition(".")
    match = re.search(r"\d+", module)
    number = match[0] if match else ""  # of the layer
    pattern = re.sub(r"\d+", "#", module)
    sources = []
    for template in layout.names[pattern]:
        theirs = template.replace("#", number)
        sources.append(f"{theirs}.{field}")
    return tuple(sources)


def head_source(layout: Layout, kind: str, name: str, tied: bool = True) -> str:
    """Return where one of our head's tensors comes from."""
    table = layout.heads[kind]
    if name not in table:
        module, _, field = name.rpartition(".")
        theirs = table[module]
        return f"{theirs}.{field}"

    theirs = table[name]
    # Under the other of two names, where it has two, if the decoder has a table of its own.
    if name == "masked.bias" and not tied:
        return layout.twins.get(theirs, theirs)
    return theirs


def architecture(layout: Layout, kind: str | None) -> str:
    """Return the name of their class that has such a head."""
    asked = "classify" if kind in PROBLEMS else kind
    for name, does in layout.architectures.items():
        if does == asked:
            return name
    return layout.bare


def read_kind(config: Mapping[str, Any], layout: Layout, where: str) -> str | None:
    """Return what a folder's head does, None for a bare encoder.

    A head that Firth doesn't know is left out and reported as unused.
    """
    names = config.get("architectures") or []
    if not are_names(names):
        raise InputError(f"{where}: architectures must be a list of names")
    if not names:
        return None
    kind = layout.architectures.get(names[0])
    if kind != "classify":
        return kind

    asked = config.get("problem_type")
    if asked is None:
        # As transformers does: one output is a number.
        labels = read_labels(config, kind, where)
        return "regress" if len(labels) == 1 else kind
    for use, problem in PROBLEMS.items():
        if problem == asked:
            return use
    known = ", ".join(PROBLEMS.values())
    raise InputError(f"{where}: problem_type {asked!r} is not one of {known}")


def unusable_head(
    config: Mapping[str, Any], layout: Layout, where: str, answered: Collection[str]
) -> str | None:
    """Return the architecture whose head Firth can't read, or that no task asks; else None.

    `answered` are the kinds of head that tasks ask.
    """
    kind = read_kind(config, layout, where)
    names: list[str] = config.get("architectures") or [layout.bare]
    name = names[0]
    if kind is None:
        is_model = name.endswith("Model") and "Head" not in name
        usable = name == layout.bare or is_model
    else:
        usable = kind in answered
    return None if usable else name


def read_labels(config: Mapping[str, Any], kind: str | None, where: str) -> tuple[str, ...]:
    """Return the label names of a classifier or tagger, in the order of its logits."""
    if kind not in LABELLED:
        return ()
    table = config.get("id2label")
    if table is None:
        count = config.get("num_labels", 2)
        if type(count) is not int or not 0 < count < MOST_LABELS:
            raise InputError(f"{where}: num_labels must be a whole number above 0")
        return tuple(f"LABEL_{number}" for number in range(count))

    if not isinstance(table, dict):
        table = {}
    numbers = [str(number) for number in range(len(table))]
    if not table or set(table) != set(numbers):
        raise InputError(f"{where}: id2label must number its labels from 0 without gaps")
    return tuple(str(table[number]) for number in numbers)


def are_names(value: Any) -> bool:
    """Return whether a value of a JSON file is a list of texts."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def write_head(layout: Layout, kind: str | None, labels: tuple[str, ...]) -> dict[str, Any]:
    """Return the part of a config.json that says what the head does and names its outputs."""
    page: dict[str, Any] = {"architectures": [architecture(layout, kind)]}
    if kind in PROBLEMS:
        page["problem_type"] = PROBLEMS[kind]
    if kind == "regress":
        labels = ("LABEL_0",)  # one output, by the name that transformers gives it
    if labels:
        page["id2label"] = {str(i): label for i, label in enumerate(labels)}
        page["label2id"] = {label: i for i, label in enumerate(labels)}
    return page


class HeadRecord(NamedTuple):
    """What a folder says of its head.

    A head that their layout has no place for is `own`: firth.json describes it, and its tensors
    are named `firth.head.*`. Such a head may read some layers of an encoder that was not trained.
    """

    kind: str | None
    labels: tuple[str, ...] = ()
    tied: bool = True  # whether a head over the vocabulary shares the embedding's table
    own: bool = False
    layers: tuple[int, ...] = ()
    how: str = ""  # layers are combined
    bilstm: int = 0  # width of the biLSTM between the layers and the head; 0 if there is none

    @property
    def frozen(self) -> bool:
        """Say whether the head reads layers of an encoder that was not trained."""
        return bool(self.layers)


def in_head(layout: Layout, head: HeadRecord, name: str) -> bool:
    """Return whether one of our encoder's tensors is a part of their head."""
    if head.own or head.kind is None:
        return False
    module, _, _ = name.rpartition(".")
    modules = layout.heads.get(head.kind, {})
    return module in modules


def encoder_sources(layout: Layout, head: HeadRecord, name: str) -> tuple[str, ...]:
    """Return where one of our encoder's tensors comes from, under a head."""
    if head.kind is not None and in_head(layout, head, name):
        return (head_source(layout, head.kind, name),)
    return body_sources(layout, name)


def read_own_head(
    record: Mapping[str, Any], depth: int, where: str, known: Collection[str]
) -> HeadRecord | None:
    """Return the head that firth.json describes, if it describes one; other tasks are refused."""
    kind = record.get("task")
    if "features" in record:
        page = record["features"]
    elif "head" in record:
        page = record["head"]
    else:
        return None
    if not isinstance(page, dict):
        raise InputError(f"{where}: features must have layers, combine and labels")
    if "features" in record:
        found = _frozen(record, depth, where)
    else:
        found = HeadRecord(kind, own=True)
    if not isinstance(kind, str) or kind not in known:
        unknown = f"the task {kind!r} is none that Firth knows here"
        raise InputError(f"{where}: {unknown}; {plugin_hint()}")

    labels = page.get("labels", [])
    tied = page.get("tied", True)
    sound = are_names(labels) and type(tied) is bool
    if kind in TASK_HEADS:
        needs_labels = kind in LABELLED
        sound = sound and needs_labels == bool(labels)
    if not sound:
        raise InputError(f"{where}: labels must be a list of names")
    return found._replace(labels=tuple(labels), tied=tied)


def _frozen(record: Mapping[str, Any], depth: int, where: str) -> HeadRecord:
    """Return which layers a head reads, and how."""
    kind = record.get("task")
    page = record["features"]
    if not {"layers", "combine", "labels"} <= set(page):
        raise InputError(f"{where}: features must have layers, combine and labels")
    layers = page["layers"]
    how = page["combine"]
    most = depth + 1  # the embedding's output is a layer too
    if how not in WAYS or not isinstance(layers, list) or not 0 < len(layers) <= most:
        asked = f"{kind!r} with features combined by {how!r}"
        raise InputError(f"{where}: {asked} is not something that Firth runs")
    for layer in layers:
        if type(layer) is not int or not -most <= layer <= depth:
            raise InputError(f"{where}: layers go from 0 to {depth}, or from -1 to -{most}")
    bilstm = page.get("bilstm", 0)
    if "bilstm" in page and (type(bilstm) is not int or not 0 < bilstm <= MOST_WIDTH):
        raise InputError(f"{where}: bilstm must be a width from 1 to {MOST_WIDTH}")
    return HeadRecord(kind, own=True, layers=tuple(layers), how=how, bilstm=bilstm)
