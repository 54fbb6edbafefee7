"""GPT-2: its settings, and the names of its tensors and heads in transformers."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from firth.families.family import CAUSAL, Import
from firth.families.layout import Layout
from firth.families.stack import (
    SIZES,
    Activation,
    Probability,
    StackFamily,
    StackSettings,
    sizes_of,
)


class GptSettings(StackSettings):
    """The sizes of a GPT-2 and the ids of its marks, which may be the same."""

    length: int = Field(default=1024, gt=0, le=1 << 20)
    start: int = Field(ge=0)  # the mark that is read before a text
    end: int | None = Field(default=None, ge=0)  # the token that ends a text
    embedding_dropout: Probability = 0.1
    eps: float = Field(default=1e-5, gt=0, lt=1)
    activation: Activation = "gelu_new"

    @model_validator(mode="after")
    def _marks_fit(self) -> "GptSettings":
        if max(self.start, self.end or 0) >= self.vocab:
            raise ValueError(f"a mark is beyond the vocabulary of {self.vocab}")
        return self


LAYOUT = Layout(
    prefix="transformer.",
    names={
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
    settings={
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
    fixed={
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    },
    bare="GPT2Model",
    architectures={
        "GPT2LMHeadModel": "continue",
        "GPT2ForSequenceClassification": "classify",
        "GPT2ForTokenClassification": "tag",
    },
    heads={
        "classify": {"linear": "score"},
        "several": {"linear": "score"},
        "regress": {"linear": "score"},
        "tag": {"linear": "classifier"},
    },
    # Masks that older releases wrote, and the second copy of the tied table.
    spare=re.compile(r"\.attn\.(bias|masked_bias)$|^lm_head\.weight$"),
    # Their linear layers hold the transpose of ours.
    transposed=re.compile(r"\.(c_attn|c_proj|c_fc)\.weight$"),
    # The language model is tied: it has no head of its own.
    guards=("score.weight", "classifier.weight", "qa_outputs.weight"),
)
# Of keys that transformers leaves out.
DEFAULTS = {"n_inner": None, "bos_token_id": 50256, "eos_token_id": 50256}


class GptFamily(StackFamily):
    """GPT-2 in transformers' layout."""

    def values(self, config: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the settings in a config.json before they are checked."""
        values = super().values(DEFAULTS | dict(config), where)
        if values["inner"] is None and type(values.get("width")) is int:
            values["inner"] = 4 * values["width"]
        if values["start"] is None:
            values["start"] = values["end"]  # GPT-2's own are the same
        return values

    def constants(self, settings: Any, tied: bool, pad: int | None) -> dict[str, Any]:
        """Return what stands in config.json beside settings and head.

        By the id of its padding transformers finds where a text of a batch ends.
        """
        own = {"model_type": self.model_type, "pad_token_id": pad, "dtype": "float32"}
        return {**self.layout.fixed, **own}

    def card(self, model: Any) -> str:
        """Say what a model is."""
        return f"GPT-2: {sizes_of(model.settings)}"


FAMILY = GptFamily(
    name="gpt",
    model_type="gpt2",
    help="a language model that reads from left to right, and an encoder",
    settings=GptSettings,
    network=Import("firth.models.gpt", "Gpt"),
    contracts=frozenset({"encoder", "language model"}),
    layout=LAYOUT,
    layer="blocks.#.norm.weight",
    recipe=CAUSAL,
    options=frozenset({"carry"}),
    sizes=SIZES,
    timed_sizes=tuple(SIZES),
    vocabulary="bytes",
    dropout=0.1,
    one_mark=True,
)
