"""Open a folder: a Hugging Face directory or one of our own, read with suspicion."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn

from firth.base import files
from firth.base.errors import InputError
from firth.base.notes import warn
from firth.data.record import on_a_line
from firth.data.window import Long
from firth.families.family import Family
from firth.families.layout import (
    LANGUAGE_MODEL,
    HeadRecord,
    are_names,
    body_sources,
    encoder_sources,
    unusable_head,
)
from firth.folders.bundle import Bundle, Unmatched
from firth.folders.features import Features
from firth.folders.find import (
    MODULES,
    PLAIN_NAME,
    TARGET,
    WEIGHTS,
    Descriptions,
    checked_descriptions,
)
from firth.folders.heads import LONGEST_NAME, cant_use, read_head, read_values
from firth.folders.sentence import Sentence, read_sentence
from firth.folders.weights import Unfilled, Weights, sources_of, use_threads
from firth.models.protocols import Encoder, Network
from firth.reading.columns import Named
from firth.tasks.head import check_head, make_head, tie
from firth.tasks.registry import kinds
from firth.text.tokenizer import Tokenizer

SHOWN = 8  # names of weights in a message
NUMBERS = (
    "answer_margin",
    "length",
    "stride",
    "temperature",
    "threshold",
)  # settings of a task that are numbers


def load(model: str | Path) -> Bundle:
    """Open a folder; what is damaged, hostile or doesn't fit is refused with file and reason."""
    found = checked_descriptions(model)
    settings = found.record.get("settings", {})
    if not isinstance(settings, dict):
        raise InputError(f"{found.record_name}: settings must be a table")
    _check_settings(settings, found.record_name)
    if found.family.arrays:
        bundle = _read_counted(found)
    else:
        bundle = _read_network(found)
    _check_tokenizer(found.folder, bundle)
    bundle.settings = settings
    bundle.values = read_values(found.record, bundle.kind, bundle.labels, found.record_name)
    bundle.columns = _read_columns(found.record, found.record_name)
    made = found.record.get("made")
    if found.family.is_encoder_decoder and isinstance(made, dict):
        bundle.writes_spans = made.get("by") == "pretrain"
    if bundle.unmatched.unused:
        warn(_left_out(found.folder, bundle))
    return bundle


def _check_tokenizer(folder: Path, bundle: Bundle) -> None:
    """Refuse a tokenizer that gives ids or segments that the weights don't have."""
    tokenizer = bundle.tokenizer
    _check_size(folder, tokenizer, bundle.model.settings.vocab)
    if bundle.target_tokenizer is not None:
        vocab = bundle.translator.settings.targets
        _check_size(folder / TARGET, bundle.target_tokenizer, vocab)
    segments = bundle.model.segments if isinstance(bundle.model, Encoder) else None
    if segments is not None:
        used = max(tokenizer.encode(["a"])[0].segments, default=0)
        if used >= max(1, segments):
            uses = f"the tokenizer uses segment {used}"
            raise InputError(f"{folder}: {uses} where the weights have {segments}")


def _check_size(folder: Path, tokenizer: Tokenizer, vocab: int) -> None:
    if tokenizer.size > vocab:
        has = f"the tokenizer has {tokenizer.size} pieces"
        raise InputError(f"{folder}: {has} where the weights have {vocab}")


def _left_out(folder: Path, bundle: Bundle) -> str:
    """Name the weights that have no place in the model, and the head that they belong to."""
    names = bundle.unmatched.unused
    shortened = [on_a_line(name[:LONGEST_NAME]) for name in names[:SHOWN]]
    shown = ", ".join(shortened)
    more = len(names) - SHOWN
    if more > 0:
        shown += f" and {more} more"
    if bundle.unusable is None:
        return f"{folder}: weights in the folder but not used: {shown}"
    refused = cant_use(folder, bundle.unusable)
    return f"{refused}; weights left out: {shown}"


def _read_counted(found: Descriptions) -> Bundle:
    """Open a model that is kept as arrays of counts."""
    family = found.family
    settings = family.read(found.config, found.config_name)
    read_head(found, settings)
    weights = Weights(found.folder, family.layout)
    try:
        counts = weights.arrays(family.arrays)
        model = family.network_class.of(counts)
    except InputError as error:
        raise InputError(f"{found.folder}: {error}") from error
    if model.settings != settings:
        raise InputError(
            f"{found.folder}: config.json has other sizes than the counts in {WEIGHTS}"
        )
    unmatched = Unmatched((), weights.unused())
    tokenizer = Tokenizer.open(found.folder)
    return Bundle(model, tokenizer, family.model_type, LANGUAGE_MODEL, unmatched=unmatched)


def _read_network(found: Descriptions) -> Bundle:
    """Open a network, with the head that it has."""
    family = found.family
    layout = family.layout
    settings = family.read(found.config, found.config_name)
    record = read_head(found, settings)
    weights = Weights(found.folder, layout)
    settings, missing = _with_parts(family, settings, record, weights)
    # What lacks a layer is refused before its other weights cost time.
    weights.require(_layers(family, settings))

    with torch.device("meta"), Unfilled():
        model: Network = family.network(settings)
        features, head = _on_top(model, record)
    parts = parts_of(model, head, features)

    # torch's pool of threads is started after a host's fork, not before: a child would hang.
    with use_threads(1):
        weights.fill(parts, sources_of(parts, layout, record))
        try:
            model.finish_loading()
            check_head(head)
        except InputError as error:
            raise InputError(f"{found.folder / WEIGHTS}: {error}") from error
    if record.tied and isinstance(model, Encoder):
        tie(head, model)
    parts.eval().requires_grad_(False)

    unused = weights.unused()
    if record.own:
        unused = tuple(name for name in unused if name not in layout.guards)
    tokenizer = Tokenizer.open(found.folder)
    sentence = None
    if family.is_encoder:
        sentence = _read_sentence(found.folder)
    target_tokenizer = None
    if getattr(settings, "target_vocab", None):
        target_tokenizer = Tokenizer.open(found.folder / TARGET)
    unusable = unusable_head(found.config, layout, found.config_name, kinds())
    return Bundle(
        model,  # type: ignore[arg-type]  # the family's record says which contract it keeps
        tokenizer,
        family.model_type,
        record.kind,
        head,
        record.labels,
        sentence,
        unmatched=Unmatched(missing, unused),
        features=features,
        unusable=unusable,
        target_tokenizer=target_tokenizer,
    )


def _on_top(model: Network, record: HeadRecord) -> tuple[Features | None, nn.Module | None]:
    """Return what stands on a network: its layers that the head reads, if chosen, and the head."""
    if not isinstance(model, Encoder):
        return None, None
    features = None
    width = None  # the encoder's own
    if record.frozen:
        features = Features(model, record.layers, record.how, record.bilstm)
        width = features.width
    head = make_head(record.kind, model, record.labels, record.tied, width)
    return features, head


def _with_parts(
    family: Family, settings: Any, record: HeadRecord, weights: Weights
) -> tuple[Any, tuple[str, ...]]:
    """Have the optional parts that the folder has or the head needs; name those missed."""
    layout = family.layout
    needed = not record.own and record.kind in layout.pooled
    missing: list[str] = []
    for setting, part in family.optional.items():
        (weight,) = encoder_sources(layout, record, f"{part}.weight")
        (bias,) = encoder_sources(layout, record, f"{part}.bias")
        expected = getattr(settings, setting)
        has = needed or weight in weights.found
        settings = settings.model_copy(update={setting: has})
        # A head that doesn't read the part doesn't miss it either.
        if expected and not has and record.kind is None:
            missing += [weight, bias]
    return settings, tuple(missing)


def _layers(family: Family, settings: Any) -> list[str]:
    """Return the source of a tensor of every layer that the settings promise."""
    sources = []
    for name in family.layer_tensors(settings):
        first, *_ = body_sources(family.layout, name)
        sources.append(first)
    return sources


def parts_of(model: Network, head: nn.Module | None, features: Features | None) -> nn.ModuleDict:
    """Return what has weights, by the names that `sources_of` knows."""
    parts: dict[str, nn.Module] = {"encoder": model}
    if head is not None:
        parts["head"] = head
    if features is not None:
        parts["mix"] = features.mix
        if features.bilstm is not None:
            parts["bilstm"] = features.bilstm
    return nn.ModuleDict(parts)


def _check_settings(settings: Mapping[str, Any], where: str) -> None:
    """Refuse settings of a task that are unknown, or no words and numbers in their place."""
    for name, value in settings.items():
        if not _is_sound(name, value):
            raise InputError(f"{where}: the setting {name} can't be {value!r}")


def _is_sound(name: str, value: Any) -> bool:
    """Return whether a setting of a task is known and its value possible."""
    if name == "long":
        return isinstance(value, str) and value in get_args(Long)
    if name == "pairs":
        return type(value) is bool
    if name == "missing":
        return isinstance(value, list) and all(isinstance(word, str) for word in value)
    if name not in NUMBERS:
        return False
    if name in ("length", "stride"):
        return type(value) is int and value > 0
    if type(value) not in (int, float) or not math.isfinite(value):
        return False
    return name == "answer_margin" or value > 0


def _read_columns(record: Mapping[str, Any], where: str) -> Named | None:
    """Return the columns that the model was trained with, if the folder names them."""
    found = record.get("columns")
    if found is None:
        return None
    wanted = "a table with text and second, lists of names, and label, a name"
    if not isinstance(found, dict):
        raise InputError(f"{where}: columns must be {wanted}")
    text = found.get("text", [])
    second = found.get("second", [])
    label = found.get("label")
    if not are_names(text) or not are_names(second) or not isinstance(label, str | None):
        raise InputError(f"{where}: columns must be {wanted}")
    return Named(tuple(text), tuple(second), label)


def _read_sentence(folder: Path) -> Sentence | None:
    """Return how the folder wants its texts embedded, if it says so."""
    listing = folder / MODULES
    if not listing.exists():
        return None
    modules = files.read_json(listing, list)

    def read(name: str) -> dict[str, Any]:
        parts = name.split("/")
        if not all(PLAIN_NAME.fullmatch(part) for part in parts):
            raise InputError(f"{listing}: {name!r} is not a plain path inside the folder")
        path = folder / name
        return files.read_json(path) if path.exists() else {}

    return read_sentence(modules, read, str(listing))
