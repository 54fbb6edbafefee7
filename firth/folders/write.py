"""Save a folder that transformers opens where it knows the family: whole, or not at all."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from firth.base import files
from firth.base.errors import FirthError
from firth.families.layout import HeadRecord, in_head
from firth.folders.bundle import Bundle
from firth.folders.card import model_card
from firth.folders.find import CONFIG, FORMAT, RECORD, TARGET, WEIGHTS
from firth.folders.read import parts_of
from firth.folders.sentence import write_sentence
from firth.folders.weights import sources_of, to_theirs


def save(
    bundle: Bundle,
    target: str | Path,
    force: bool = False,
    made: Mapping[str, Any] | None = None,
    beside: Mapping[str, Path] | None = None,
) -> Path:
    """Write a folder, with sentence-transformers' files where there is a pooling.

    `made` says how the model came about and goes into firth.json; `beside` are files to copy into
    the folder, by their names there.
    """
    target = Path(target)
    pages: dict[str, Any] = {CONFIG: _config(bundle)}
    if bundle.sentence:
        encoder = bundle.encoder
        pages |= write_sentence(bundle.sentence, encoder.width, bundle.length)

    with files.new_folder(target, force) as folder:
        try:
            _write_weights(bundle, folder / WEIGHTS)
        except SafetensorError as error:
            reason = str(error).splitlines()[0]
            raise FirthError(f"{target} can't be written: {reason}") from error
        bundle.tokenizer.save(folder, bundle.length, segments=bundle.reads_segments)
        if bundle.target_tokenizer is not None:
            bundle.target_tokenizer.save(folder / TARGET, bundle.length, segments=False)
        for name, page in pages.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            text = json.dumps(page, indent=2, ensure_ascii=False)
            path.write_text(f"{text}\n", encoding="utf-8")
        card = model_card(bundle)
        (folder / "README.md").write_text(card, encoding="utf-8")
        for name, source in (beside or {}).items():
            shutil.copyfile(source, folder / name)

        # The record comes last: it has the sums of all other files.
        record = _record(bundle, made) | {"sha256": sums(folder)}
        text = json.dumps(record, indent=2)
        (folder / RECORD).write_text(f"{text}\n", encoding="utf-8")
    return target


def sums(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    names = sorted(str(path.relative_to(folder)) for path in paths)
    return {name: files.sha256(folder / name) for name in names}


def _record(bundle: Bundle, made: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return firth.json but for the sums."""
    record: dict[str, Any] = {"format": FORMAT, "task": bundle.kind or "embed"}
    features = bundle.features
    if features:
        record["features"] = {
            "layers": features.layers,
            "combine": features.mix.how,
            "labels": bundle.labels,
        }
        if features.bilstm is not None:
            _, width = features.bilstm.shape
            record["features"]["bilstm"] = width
    elif bundle.own_head:
        record["head"] = {"labels": bundle.labels, "tied": bundle.tied}
    if bundle.values:
        record["labels"] = bundle.values
    if bundle.settings:
        record["settings"] = bundle.settings
    if bundle.columns:
        record["columns"] = asdict(bundle.columns)
    if made:
        record["made"] = dict(made)
    return record


def _config(bundle: Bundle) -> dict[str, Any]:
    """Return config.json: to transformers, a head that it doesn't have is none."""
    kind = bundle.kind
    labels = bundle.labels
    if bundle.own_head:
        kind = None
        labels = ()
    settings = bundle.model.settings
    return bundle.record.write(settings, kind, labels, bundle.tied, bundle.tokenizer.pad)


def _write_weights(bundle: Bundle, path: Path) -> None:
    """Write a network's tensors or a counted model's arrays."""
    if bundle.record.arrays:
        counted: Any = bundle.model
        files.write_arrays(path, counted.arrays())
    else:
        save_file(_tensors(bundle), path, metadata={"format": "pt"})


def _tensors(bundle: Bundle) -> dict[str, Tensor]:
    """Return what a network's folder holds, by the names that it has there."""
    layout = bundle.record.layout
    model = bundle.network
    prefix = ""
    if bundle.kind is not None and not bundle.own_head:
        prefix = layout.prefix
    record = HeadRecord(bundle.kind, tied=bundle.tied, own=bundle.own_head)
    state = model.state_dict()
    names = [name for name in model.saved_tensors() if not in_head(layout, record, name)]
    ours = {name: state[name] for name in names}
    body = to_theirs(layout, ours)
    found = {prefix + name: tensor for name, tensor in body.items()}

    parts = parts_of(model, bundle.head, bundle.features)
    whole = parts.state_dict()
    written = {f"encoder.{name}" for name in names}
    for name, (source, *_) in sources_of(parts, layout, record).items():
        if name in written:
            continue
        found[source] = whole[name]
        if source in layout.twins and not bundle.tied:  # transformers asks for both names
            found[layout.twins[source]] = whole[name]
    if bundle.own_head:
        # A head of theirs would be untrained: so that they refuse the folder, its weight is there
        # with a shape that none has.
        found |= {name: torch.zeros(1) for name in layout.guards}
    return {name: _plain(tensor) for name, tensor in found.items()}


def _plain(tensor: Tensor) -> Tensor:
    """Return a copy in memory, floating-point numbers in four bytes."""
    tensor = tensor.detach().cpu()
    if tensor.is_floating_point():
        tensor = tensor.float()
    return tensor.clone()
