"""What a fine-tuning run begins with: a model that takes heads, and files known by their hashes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firth.base.errors import InputError
from firth.base.files import regular_size, sha256
from firth.folders.find import family_of, find, trainable_types
from firth.recipes.settings import FinetuneSettings


def refuse_family(model: str) -> None:
    """Refuse a base model that can't be fine-tuned, before examples are read."""
    family = family_of(model)
    if family.takes_heads:
        return
    instead = ""
    if family.is_encoder:
        instead = " (firth embed gives its vectors)"
    taken = ", ".join(trainable_types())
    raise InputError(
        f"{model} is a {family.model_type}; fine-tuning takes folders of {taken}{instead}"
    )


def refuse_missing(model: str, train: str, dev: str | None) -> None:
    """Refuse a model that can't be fine-tuned, and files that aren't there.

    The command line does so before it loads torch, so that a mistyped name is told at once.
    """
    refuse_family(model)
    for name in filter(None, (train, dev)):
        regular_size(Path(name))


def refuse_replaced(s: FinetuneSettings, target: Path) -> None:
    """Refuse files of examples that stand in the folder that the model would replace."""
    for name in (s.train, s.dev):
        if name and Path(name).resolve().is_relative_to(target.resolve()):
            stands = f"{name} stands in {target}, which the model would replace"
            raise InputError(f"{stands}; choose another name")


def input_hashes(s: FinetuneSettings) -> dict[str, Any]:
    """Return what tells the examples and the weights to begin with from others."""
    weights = {}
    for path in sorted(find(s.model).glob("*.safetensors")):
        weights[path.name] = sha256(path)
    train = sha256(Path(s.train))
    dev = sha256(Path(s.dev)) if s.dev else None
    return {"train": train, "dev": dev, "model": weights}


def refuse_other_inputs(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with a run that began with other files."""
    for name, value in now.items():
        if before.get(name) != value:
            raise InputError(
                f"{folder} holds a run in which --{name} had other content; --force throws it away"
            )
