"""What a folder's head is for, told without its weights and without torch."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from firth.base.errors import InputError
from firth.data.examples import Label, written
from firth.data.record import on_a_line
from firth.families.layout import (
    LANGUAGE_MODEL,
    TRANSLATOR,
    HeadRecord,
    read_kind,
    read_labels,
    read_own_head,
    unusable_head,
)
from firth.folders.find import MODULES, Descriptions, read_descriptions
from firth.tasks.registry import head_kinds, kinds, names_classes

LONGEST_NAME = 100  # characters of a weight's or class's name in a message


def cant_use(model: str | Path, architecture: str) -> str:
    """Say that a model's head is none that Firth answers with, and what can be done instead."""
    head = on_a_line(architecture[:LONGEST_NAME])
    return f"{model} has a {head} head that Firth can't use yet; embed reads its encoder"


def refuse_unusable_head(model: str | Path) -> None:
    """Refuse a folder whose head Firth can't answer with, by its configuration alone."""
    found = read_descriptions(model)
    head = unusable_head(found.config, found.family.layout, found.config_name, kinds())
    if head is not None:
        raise InputError(cant_use(model, head))


class Reads(NamedTuple):
    """What a head reads of an encoder that was not taught, and how."""

    how: str  # layers are combined
    layers: tuple[int, ...]  # from 0
    bilstm: bool  # whether one reads them before the linear layer


class Head(NamedTuple):
    """What the head of a folder is for, told without its weights."""

    kind: str | None
    labels: tuple[str, ...]
    values: tuple[Label, ...]  # as in a `Bundle`
    depth: int  # of the encoder
    reads: Reads | None  # None for the whole encoder


def head_of(model: str | Path) -> Head:
    """Return what the head of a folder is for, before the folder is opened."""
    found = read_descriptions(model)
    settings = found.family.read(found.config, found.config_name)
    depth = depth_of(settings)
    head = read_head(found, settings, check=False)
    values = read_values(found.record, head.kind, head.labels, found.record_name)
    reads = None
    if head.frozen:
        # Layers may be counted from the last one; the embedding's output is layer 0.
        layers = tuple(layer % (depth + 1) for layer in head.layers)
        reads = Reads(head.how, layers, head.bilstm > 0)
    return Head(head.kind, head.labels, values, depth, reads)


def depth_of(settings: Any) -> int:
    """Return the number of layers, 0 for a model that has none to choose from."""
    return getattr(settings, "depth", 0)


def read_head(found: Descriptions, settings: Any, check: bool = True) -> HeadRecord:
    """Return what the folder says of its head; config.json and firth.json must agree."""
    family = found.family
    layout = family.layout
    own = read_own_head(found.record, depth_of(settings), found.record_name, head_kinds())
    if own is not None:
        return own

    task = found.record.get("task")
    kind: str | None = None
    if layout.bare:
        kind = read_kind(found.config, layout, found.config_name)
    elif family.predicts(settings):
        kind = LANGUAGE_MODEL
    elif family.is_encoder_decoder:
        kind = TRANSLATOR
    expected = kind or "embed"
    if check and found.record and task != expected:
        differs = f"the task is {task!r} where config.json has {expected!r}"
        raise InputError(f"{found.record_name}: {differs}")

    if kind is not None and _lost_head(found, layout.heads.get(kind, {})):
        return HeadRecord(None)
    labels = read_labels(found.config, kind, found.config_name)
    tied = found.config.get("tie_word_embeddings", True) is not False
    return HeadRecord(kind, labels, tied)


def _lost_head(found: Descriptions, modules: Mapping[str, str]) -> bool:
    """Return whether the head that config.json names was left behind.

    sentence-transformers saves an encoder under the config.json of the model that it began with.
    """
    if not modules or not (found.folder / MODULES).exists():
        return False
    from firth.folders.weights import Weights  # torch, which most folders need no look by

    starts = tuple(f"{module}." for module in modules.values())
    weights = Weights(found.folder, found.family.layout)
    in_head = [name for name in weights.found if f"{name}.".startswith(starts)]
    return not in_head


def read_values(
    record: Mapping[str, Any], kind: str | None, labels: tuple[str, ...], where: str
) -> tuple[Label, ...]:
    """Return the labels as the data had them, if firth.json has them in this form.

    Each has the written form that id2label has.
    """
    page = record.get("labels")
    if page is None:
        return ()
    sound = names_classes(kind) and isinstance(page, list) and all(map(_is_label, page))
    if sound:
        names = tuple(map(written, page))
        # 1 and 1.0 are written alike and are one key, as are 1 and true.
        sound = names == labels and len(set(page)) == len(page)
    if not sound:
        wanted = "those of the model, as text, numbers, true or false"
        raise InputError(f"{where}: labels must be {wanted}")
    return tuple(page)


def _is_label(value: Any) -> bool:
    """Return whether a value of a JSON file can be a label."""
    if type(value) is float:
        return math.isfinite(value)
    return isinstance(value, str | int)
