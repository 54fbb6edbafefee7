"""Which piece plays which part: the special tokens of a tokenizer by role, whatever they are called."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from firth.base.files import read_json

KEYS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token", "bos_token", "eos_token")
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


def read_config(folder: Path) -> dict[str, Any]:
    """Join what special_tokens_map.json and tokenizer_config.json say; the second is the newer habit and wins."""
    config: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).exists():
            config.update(read_json(folder / name))
    return config


def token_names(config: dict[str, Any]) -> dict[str, str]:
    """The special tokens that a configuration names, as a text or as an object with its content."""
    found = {}
    for key in KEYS:
        value = config.get(key)
        content = value.get("content") if isinstance(value, dict) else value
        if isinstance(content, str) and content:
            found[key] = content
    return found


def role_ids(backend: Backend, names: dict[str, str]) -> dict[str, int | None]:
    """Find the id of each role: by name, else by what is put around a text, else by custom."""
    around = backend.encode("a")
    owners = around.sequence_ids
    placed = {
        "cls": around.ids[0] if owners and owners[0] is None else None,
        "sep": around.ids[-1] if owners and owners[-1] is None else None,
    }
    unknown = getattr(backend.model, "unk_token", None)
    found: dict[str, int | None] = {}
    for role, keys in ROLES.items():
        given = [names[key] for key in keys if key in names]
        ids = [backend.token_to_id(name) for name in given]
        ids.append(placed.get(role))
        ids.append(backend.token_to_id(unknown) if role == "unk" and unknown else None)
        ids.extend(backend.token_to_id(name) for name in CUSTOMARY[role])
        found[role] = next((number for number in ids if number is not None), None)
    return found
