"""What a fine-tuning run begins with: a model that takes heads, and files known by their hashes."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from firth.base.errors import InputError
from firth.base.files import regular_size, sha256
from firth.families.registry import new_family, new_names
from firth.folders.find import family_of, find, trainable_types
from firth.recipes.settings import FinetuneSettings
from firth.text.lines import open_regular

TOKENIZER = "tokenizer.json"


def refuse_family(model: str) -> None:
    """Refuse a base model that can't be fine-tuned, before examples are read."""
    if new_family(model):
        return
    family = family_of(model)
    if family.takes_heads:
        return
    instead = ""
    if family.is_encoder:
        instead = " (firth embed gives its vectors)"
    taken = ", ".join(trainable_types())
    new = " or ".join(new_names())
    raise InputError(
        f"{model} is a {family.model_type}; fine-tuning takes folders of {taken}, "
        f"or begins a new {new}{instead}"
    )


def refuse_missing(
    model: str, train: str, dev: str | None, vectors: str | None = None, vocab: str | None = None
) -> None:
    """Refuse a model that can't be fine-tuned, and files that aren't there.

    The command line does so before it loads torch, so that a mistyped name is told at once.
    """
    refuse_family(model)
    for name in filter(None, (train, dev)):
        regular_size(Path(name))
    if vectors:
        family = family_of(vectors)
        if not family.is_encoder:
            raise InputError(
                f"{vectors} is a {family.model_type}, which has no vectors to begin with"
            )
    if vocab:
        regular_size(Path(vocab) / TOKENIZER)


def refuse_missing_texts(names: Iterable[str | None]) -> None:
    """Refuse texts that aren't there: files, or folders of files."""
    for name in filter(None, names):
        if not Path(name).is_dir():
            open_regular(Path(name)).close()


def refuse_missing_models(names: Iterable[str | None]) -> None:
    """Refuse folders of models that aren't there."""
    for name in filter(None, names):
        find(name)


def refuse_replaced(s: FinetuneSettings, target: Path) -> None:
    """Refuse files of examples that stand in the folder that the model would replace."""
    for name in (s.train, s.dev):
        if name and Path(name).resolve().is_relative_to(target.resolve()):
            stands = f"{name} stands in {target}, which the model would replace"
            raise InputError(f"{stands}; choose another name")


def input_hashes(s: FinetuneSettings) -> dict[str, Any]:
    """Return what tells the examples and the weights to begin with from others."""
    found: dict[str, Any] = {"train": sha256(Path(s.train)), "dev": None, "model": {}}
    if s.dev:
        found["dev"] = sha256(Path(s.dev))
    if s.new_family is None:
        found["model"] = _hashes(find(s.model), "*.safetensors")
    else:
        found["model"] = s.model
    if s.vectors:
        found["vectors"] = _hashes(find(s.vectors), "*.safetensors", TOKENIZER)
    if s.vocab:
        found["vocab"] = _hashes(Path(s.vocab), TOKENIZER)
    return found


def _hashes(folder: Path, *patterns: str) -> dict[str, str]:
    """Return the hash of each file of a folder that has such a name."""
    paths = sorted(path for pattern in patterns for path in folder.glob(pattern))
    return {path.name: sha256(path) for path in paths}


def refuse_other_inputs(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with a run that began with other files."""
    for name in {**now, **before}:
        if before.get(name) != now.get(name):
            raise InputError(
                f"{folder} holds a run in which --{name} had other content; --force throws it away"
            )
