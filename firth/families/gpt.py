"""Names and settings of GPT-2 in Hugging Face's layout, and of ours; tables, no I/O."""

import re
from typing import Any

from pydantic import ValidationError

from firth.base.errors import InputError
from firth.base.settings import complaint
from firth.families.layout import Layout, write_head
from firth.models.gpt import GptSettings

FAMILY = "gpt2"
ARCHITECTURES = {
    "GPT2LMHeadModel": "continue",
    "GPT2ForSequenceClassification": "classify",
    "GPT2ForTokenClassification": "tag",
}
HEAD_NAMES = {kind: {"linear": "score"} for kind in ("classify", "several", "regress")} | {
    "tag": {"linear": "classifier"}
}
# Masks that older releases wrote, and the second copy of the tied table.
SPARE = re.compile(r"\.attn\.(bias|masked_bias)$|^lm_head\.weight$")
# Their linear layers hold the transpose of ours.
TRANSPOSED = re.compile(r"\.(c_attn|c_proj|c_fc)\.weight$")
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
    "GPT2Model",
    ARCHITECTURES,
    HEAD_NAMES,
    spare=SPARE,
    transposed=TRANSPOSED,
    guards=(
        "score.weight",
        "classifier.weight",
        "qa_outputs.weight",
    ),  # the language model is tied: it has no head of its own
)
DEFAULTS = {
    "n_inner": None,
    "bos_token_id": 50256,
    "eos_token_id": 50256,
}  # of keys that transformers leaves out


def read_settings(config: dict[str, Any], where: str) -> GptSettings:
    """Translate a Hugging Face configuration, refusing what this network can't express."""
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


def write_config(
    settings: GptSettings, kind: str | None, labels: tuple[str, ...] = (), pad: int | None = None
) -> dict[str, Any]:
    """The Hugging Face configuration of a model; by the id of its padding transformers finds where a text of a batch ends."""
    values = settings.model_dump()
    config = {theirs: values[ours] for ours, theirs in LAYOUT.settings.items()}
    config |= {**LAYOUT.fixed, "model_type": FAMILY, "pad_token_id": pad, "dtype": "float32"}
    return config | write_head(LAYOUT, kind, labels)
