"""Special tokens of a tokenizer by their role, whatever they are called."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from firth.base.files import read_json

KEYS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token", "bos_token", "eos_token")
# The keys of each role, in the order in which they are asked: a GPT-2 has no cls but a bos.
ROLES = {
    "pad": ("pad_token",),
    "unk": ("unk_token",),
    "cls": ("cls_token", "bos_token"),
    "sep": ("sep_token", "eos_token"),
    "mask": ("mask_token",),
}
CUSTOMARY = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<s>", "<cls>"),
    "sep": ("[SEP]", "</s>", "<sep>"),
    "mask": ("[MASK]", "<mask>"),
}
SENTINEL = "<extra_id_{}>"  # as T5 calls them


def sentinel_names(count: int) -> list[str]:
    """Return the names of so many sentinels, each of which stands for a span of a text."""
    return [SENTINEL.format(number) for number in range(count)]


def read_config(folder: Path) -> dict[str, Any]:
    """Join special_tokens_map.json and tokenizer_config.json, the newer habit, which wins."""
    config: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        path = folder / name
        if path.exists():
            config.update(read_json(path))
    return config


def token_names(config: dict[str, Any]) -> dict[str, str]:
    """Return the special tokens that a configuration names, as a text or as an object."""
    found = {}
    for key in KEYS:
        value = config.get(key)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str) and value:
            found[key] = value
    return found


def role_ids(backend: Backend, names: dict[str, str]) -> dict[str, int | None]:
    """Find the id of each role: by name, else by what is put around a text, else by custom."""
    placed = _around(backend)
    unknown = getattr(backend.model, "unk_token", None)
    found: dict[str, int | None] = {}
    for role, keys in ROLES.items():
        named = [names[key] for key in keys if key in names]
        ids = [backend.token_to_id(name) for name in named]
        ids.append(placed.get(role))
        if role == "unk" and unknown:
            ids.append(backend.token_to_id(unknown))
        ids.extend(backend.token_to_id(name) for name in CUSTOMARY[role])
        found[role] = next((number for number in ids if number is not None), None)
    return found


def _around(backend: Backend) -> dict[str, int]:
    """Return the ids of the special tokens that stand before and after an encoded text."""
    encoding = backend.encode("a")
    owners = encoding.sequence_ids
    found = {}
    if owners and owners[0] is None:
        found["cls"] = encoding.ids[0]
    if owners and owners[-1] is None:
        found["sep"] = encoding.ids[-1]
    return found
