"""T5 in both of its forms, and mT5: their settings, and their tensors' names in transformers."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from firth.families.family import Import
from firth.families.layout import TRANSLATOR, Layout
from firth.families.stack import Activation
from firth.families.transformer import EncoderDecoderFamily, StacksSettings


class T5Settings(StacksSettings):
    """The sizes of a T5, and the ids of its marks."""

    end: int = Field(default=1, ge=0)
    pad: int | None = Field(default=0, ge=0)  # which is also read before a target
    head_width: int = Field(default=64, gt=0, le=1 << 16)
    eps: float = Field(default=1e-6, gt=0, lt=1)
    activation: Activation = "relu"
    gated: bool = False  # whether half of the inner layer is what the other is multiplied by
    scaled: bool = True  # whether the output layer reads vectors divided by the root of the width
    own_output: bool = False  # whether it has a table of its own


def _side(side: str, inner: int) -> dict[str, tuple[str, ...]]:
    """Return the names that both sides have; `inner` is the number of the feed-forward part."""
    attention = f"{side}.block.#.layer.0"
    forward = f"{side}.block.#.layer.{inner}"
    dense = f"{forward}.DenseReluDense"
    first = f"{side}.block.0.layer.0"
    return {
        f"{side}.#.attention.qkv": tuple(f"{attention}.SelfAttention.{part}" for part in "qkv"),
        f"{side}.#.attention.out": (f"{attention}.SelfAttention.o",),
        f"{side}.#.attention_norm": (f"{attention}.layer_norm",),
        f"{side}.#.up": (f"{dense}.wi",),
        f"{side}.#.gated_up": (f"{dense}.wi_0", f"{dense}.wi_1"),
        f"{side}.#.down": (f"{dense}.wo",),
        f"{side}.#.norm": (f"{forward}.layer_norm",),
        f"{side}_distance.table": (f"{first}.SelfAttention.relative_attention_bias",),
        f"{side}_norm": (f"{side}.final_layer_norm",),
    }


CROSS = "decoder.block.#.layer.1"
LAYOUT = Layout(
    names={
        "source": ("shared",),
        **_side("encoder", inner=1),
        **_side("decoder", inner=2),
        "decoder.#.cross.query": (f"{CROSS}.EncDecAttention.q",),
        "decoder.#.cross.kv": (f"{CROSS}.EncDecAttention.k", f"{CROSS}.EncDecAttention.v"),
        "decoder.#.cross.out": (f"{CROSS}.EncDecAttention.o",),
        "decoder.#.cross_norm": (f"{CROSS}.layer_norm",),
        "output_layer": ("lm_head",),
    },
    settings={
        "vocab": "vocab_size",
        "start": "decoder_start_token_id",
        "end": "eos_token_id",
        "pad": "pad_token_id",
        "width": "d_model",
        "depth": "num_layers",
        "decoder_depth": "num_decoder_layers",
        "heads": "num_heads",
        "head_width": "d_kv",
        "inner": "d_ff",
        "dropout": "dropout_rate",
        "eps": "layer_norm_epsilon",
        "activation": "feed_forward_proj",
        "gated": "is_gated_act",
        "scaled": "scale_decoder_outputs",
    },
    fixed={"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128},
    bare="T5Model",
    # The second is what the first releases called it.
    architectures={"T5ForConditionalGeneration": TRANSLATOR, "T5WithLMHeadModel": TRANSLATOR},
    twins={"shared.weight": "encoder.embed_tokens.weight"},
    # Copies of the table, and distances to sources, which were saved and never used.
    spare=re.compile(r"\.embed_tokens\.weight$|EncDecAttention\.relative_attention_bias\.weight$"),
)
GATED = "gated-"  # before the name of the activation


class T5Family(EncoderDecoderFamily):
    """T5 in transformers' layout."""

    def values(self, config: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the settings in a config.json before they are checked."""
        values = super().values(config, where)
        if values.get("start") is None:
            values["start"] = values.get("pad", 0)
        # Older releases have these by other keys.
        values.setdefault("scaled", config.get("tie_word_embeddings") is not False)
        inner = values.get("activation", "relu")
        if isinstance(inner, str):
            values.setdefault("gated", inner.startswith(GATED))
            usual = "gelu_new" if inner == f"{GATED}gelu" else inner.removeprefix(GATED)
            values["activation"] = config.get("dense_act_fn", usual)
        return values

    def constants(self, settings: Any, tied: bool, pad: int | None) -> dict[str, Any]:
        """Return what stands in config.json beside settings and head."""
        inner = settings.activation
        if settings.gated:
            inner = GATED + inner.replace("gelu_new", "gelu")
        return {
            **self.layout.fixed,
            "model_type": self.model_type,
            "num_decoder_layers": settings.decoder_layers,
            "feed_forward_proj": inner,
            "dense_act_fn": settings.activation,
            "tie_word_embeddings": settings.scaled,
            "is_encoder_decoder": True,
            "dtype": "float32",
        }


class Mt5Family(T5Family):
    """mT5, which is the second form."""

    def values(self, config: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the settings in a config.json; what it says of tables is not asked."""
        values = super().values({"feed_forward_proj": f"{GATED}gelu", **config}, where)
        return values | {"scaled": False}


FAMILY = T5Family(
    name="t5",
    model_type="t5",
    help="T5 in both forms, read from folders of transformers",
    settings=T5Settings,
    network=Import("firth.models.t5", "T5"),
    contracts=frozenset({"encoder-decoder"}),
    layout=LAYOUT,
    layer="encoder.#.norm.weight",
    optional={"own_output": "output_layer"},
)
MT5 = Mt5Family(
    name="mt5",
    model_type="mt5",
    help="mT5, read from folders of transformers",
    settings=T5Settings,
    network=Import("firth.models.t5", "T5"),
    contracts=frozenset({"encoder-decoder"}),
    layout=LAYOUT._replace(
        bare="MT5Model", architectures={"MT5ForConditionalGeneration": TRANSLATOR}
    ),
    layer="encoder.#.norm.weight",
    optional={"own_output": "output_layer"},
)
