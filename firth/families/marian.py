"""Marian's Transformer: its settings, and the names of its tensors in transformers."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from firth.base.errors import InputError
from firth.families.family import Import
from firth.families.layout import TRANSLATOR, Layout
from firth.families.transformer import EncoderDecoderFamily, TransformerSettings


class MarianSettings(TransformerSettings):
    """The sizes of a Marian, and the ids of its marks."""

    pad: int | None = Field(default=None, ge=0)  # never written
    scaled: bool = True  # whether vectors are larger than their rows, by the root of the width
    spread: float = Field(default=0.02, gt=0, lt=10)  # standard deviation of fresh weights

    @model_validator(mode="after")
    def _fits(self) -> "MarianSettings":
        if self.pad is not None and self.pad >= self.targets:
            raise ValueError(f"the padding is beyond the vocabulary of {self.targets}")
        return self


def _layer(ours: str, theirs: str) -> dict[str, tuple[str, ...]]:
    """Return the names that the layers of both sides have."""
    layer = f"model.{theirs}.layers.#"
    return {
        f"{ours}.#.attention.qkv": tuple(f"{layer}.self_attn.{part}_proj" for part in "qkv"),
        f"{ours}.#.attention.out": (f"{layer}.self_attn.out_proj",),
        f"{ours}.#.attention_norm": (f"{layer}.self_attn_layer_norm",),
        f"{ours}.#.up": (f"{layer}.fc1",),
        f"{ours}.#.down": (f"{layer}.fc2",),
        f"{ours}.#.norm": (f"{layer}.final_layer_norm",),
    }


LAYOUT = Layout(
    names={
        "source": ("model.shared",),
        **_layer("encoder", "encoder"),
        **_layer("decoder", "decoder"),
        "decoder.#.cross.query": ("model.decoder.layers.#.encoder_attn.q_proj",),
        "decoder.#.cross.kv": (
            "model.decoder.layers.#.encoder_attn.k_proj",
            "model.decoder.layers.#.encoder_attn.v_proj",
        ),
        "decoder.#.cross.out": ("model.decoder.layers.#.encoder_attn.out_proj",),
        "decoder.#.cross_norm": ("model.decoder.layers.#.encoder_attn_layer_norm",),
        "bias": ("final_logits_bias",),
    },
    settings={
        "vocab": "vocab_size",
        "start": "decoder_start_token_id",
        "end": "eos_token_id",
        "pad": "pad_token_id",
        "width": "d_model",
        "depth": "encoder_layers",
        "decoder_depth": "decoder_layers",
        "heads": "encoder_attention_heads",
        "inner": "encoder_ffn_dim",
        "length": "max_position_embeddings",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "activation": "activation_function",
        "scaled": "scale_embedding",
        "spread": "init_std",
    },
    fixed={
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "activation_dropout": 0.0,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
    },
    bare="MarianModel",
    architectures={"MarianMTModel": TRANSLATOR},
    # One table under three more names, and positions that follow from their number.
    spare=re.compile(r"^lm_head\.weight$|\.embed_(tokens|positions)\.weight$"),
)
# Their keys for the decoder, which must be as those of the encoder.
SAME = {
    "decoder_attention_heads": "encoder_attention_heads",
    "decoder_ffn_dim": "encoder_ffn_dim",
    "decoder_vocab_size": "vocab_size",
}


class MarianFamily(EncoderDecoderFamily):
    """Marian in transformers' layout."""

    def values(self, config: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the settings in a config.json before they are checked."""
        for theirs, other in SAME.items():
            given = config.get(theirs)
            if given is not None and given != config.get(other):
                raise InputError(f"{where}: {theirs} is {given!r} where {other} is another")
        values = super().values(config, where)
        if values.get("activation") == "swish":
            values["activation"] = "silu"
        return values

    def constants(self, settings: Any, tied: bool, pad: int | None) -> dict[str, Any]:
        """Return what stands in config.json beside settings and head."""
        return {
            **self.layout.fixed,
            "model_type": self.model_type,
            "decoder_layers": settings.decoder_layers,
            "decoder_attention_heads": settings.heads,
            "decoder_ffn_dim": settings.inner,
            "decoder_vocab_size": settings.vocab,
            "forced_eos_token_id": settings.end,
            "is_encoder_decoder": True,
            "dtype": "float32",
        }


FAMILY = MarianFamily(
    name="marian",
    model_type="marian",
    help="a Transformer of encoder and decoder that Marian trained",
    settings=MarianSettings,
    network=Import("firth.models.marian", "Marian"),
    contracts=frozenset({"encoder-decoder"}),
    layout=LAYOUT,
    layer="encoder.#.norm.weight",
)
