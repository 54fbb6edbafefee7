"""Names and settings of GPT-2 in Hugging Face's layout, and of ours; tables, no I/O."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError
from torch import Tensor

from firth.adapters.bert import Layout, body_sources
from firth.base.errors import InputError
from firth.base.settings import complaint
from firth.models.gpt import GptSettings

FAMILY = "gpt2"
LAYOUT = Layout(
    "transformer.",
    {
        "token": ("wte",),
        "position": ("wpe",),
        "blocks.#.attention_norm": ("h.#.ln_1",),
        "blocks.#.attention.qkv": ("h.#.attn.c_attn",),
        "blocks.#.attention.out": ("h.#.attn.c_proj",),
        "blocks.#.norm": ("h.#.ln_2",),
        "blocks.#.up": ("h.#.mlp.c_fc",),
        "blocks.#.down": ("h.#.mlp.c_proj",),
        "norm": ("ln_f",),
    },
    {
        "vocab": "vocab_size",
        "width": "n_embd",
        "depth": "n_layer",
        "heads": "n_head",
        "inner": "n_inner",
        "length": "n_positions",
        "start": "bos_token_id",
        "end": "eos_token_id",
        "dropout": "resid_pdrop",
        "embedding_dropout": "embd_pdrop",
        "attention_dropout": "attn_pdrop",
        "eps": "layer_norm_epsilon",
        "activation": "activation_function",
        "spread": "initializer_range",
    },
    {
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
)
# Their linear layers hold the transpose of ours.
TRANSPOSED = re.compile(r"\.(c_attn|c_proj|c_fc)\.weight$")
# Masks that older releases wrote, and the second copy of the tied table.
SPARE = re.compile(r"\.attn\.(bias|masked_bias)$|^lm_head\.weight$")
ARCHITECTURES = {"GPT2LMHeadModel": "continue"}  # what a folder's head does; a bare encoder is a GPT2Model
DEFAULTS = {"n_inner": None, "bos_token_id": 50256, "eos_token_id": 50256}  # of keys that transformers leaves out


def source(name: str) -> str:
    """Their name of one of our tensors, without the prefix that it has under a head."""
    return body_sources(LAYOUT, name)[0]


def to_theirs(tensors: Mapping[str, Tensor], prefix: str = LAYOUT.prefix) -> dict[str, Tensor]:
    """Our tensors under their names and in their shapes."""
    found = {source(name): tensor for name, tensor in tensors.items()}
    return {prefix + name: _turned(name, tensor).contiguous() for name, tensor in found.items()}


def to_ours(tensors: Mapping[str, Tensor], names: Iterable[str]) -> dict[str, Tensor]:
    """Their tensors, with the prefix or without, under the names of ours and in our shapes."""
    known = {name.removeprefix(LAYOUT.prefix): tensor for name, tensor in tensors.items()}
    return {name: _turned(source(name), known[source(name)]).contiguous() for name in names}


def _turned(theirs: str, tensor: Tensor) -> Tensor:
    return tensor.t() if TRANSPOSED.search(theirs) else tensor


def read_settings(config: dict[str, Any], where: str) -> GptSettings:
    """Translate a Hugging Face configuration, refusing what this network can't express."""
    family = config.get("model_type")
    if family != FAMILY:
        raise InputError(f"{where}: model_type {family!r} is not {FAMILY}")
    for key, value in LAYOUT.fixed.items():
        if config.get(key, value) != value:
            raise InputError(f"{where}: {key} is {config[key]!r}; Firth runs {value!r} only")
    given = DEFAULTS | config
    values = {ours: given[theirs] for ours, theirs in LAYOUT.settings.items() if theirs in given}
    if values["inner"] is None and type(values.get("width")) is int:
        values["inner"] = 4 * values["width"]
    if values["start"] is None:
        values["start"] = values["end"]  # GPT-2's own are the same
    try:
        return GptSettings.model_validate(values)
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][0]) if error.errors()[0]["loc"] else ""
        reason = complaint(error).removeprefix(f"{name}: ")
        raise InputError(f"{where}: {LAYOUT.settings.get(name, 'sizes')}: {reason}") from error


def write_config(settings: GptSettings, kind: str | None) -> dict[str, Any]:
    """The Hugging Face configuration of a model: one that continues texts (`continue`), or a bare encoder (None)."""
    values = settings.model_dump()
    config = {theirs: values[ours] for ours, theirs in LAYOUT.settings.items()}
    names = [name for name, does in ARCHITECTURES.items() if does == kind]
    return config | LAYOUT.fixed | {"model_type": FAMILY, "architectures": names or ["GPT2Model"], "dtype": "float32"}
