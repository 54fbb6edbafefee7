"""MPNet: RoBERTa's settings and heads, without segments, and a bias for distances."""

from collections.abc import Mapping
from typing import Any

from firth.families import bert
from firth.families.family import Import
from firth.families.roberta import LAYOUT as ROBERTA
from firth.families.roberta import PAD, RobertaFamily

LAYER = "encoder.layer.#."
NAMES = {
    **{name: theirs for name, theirs in bert.NAMES.items() if name != "embedding.segment"},
    "blocks.#.attention.qkv": tuple(f"{LAYER}attention.attn.{part}" for part in "qkv"),
    "blocks.#.attention.out": (f"{LAYER}attention.attn.o",),
    "blocks.#.attention_norm": (f"{LAYER}attention.LayerNorm",),
    "distance.table": ("encoder.relative_attention_bias",),
}
ABSENT = ("segments", "causal")  # settings that their config.json doesn't have

LAYOUT = ROBERTA._replace(
    prefix="mpnet.",
    names=NAMES,
    settings={name: theirs for name, theirs in bert.KEYS.items() if name not in ABSENT},
    fixed={"relative_attention_num_buckets": 32},
    bare="MPNetModel",
    architectures=bert.architectures("MPNet"),
)


class MpNetFamily(RobertaFamily):
    """A family whose positions begin after 1, whatever its padding is."""

    def values(self, config: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the settings in a config.json before they are checked."""
        values = super().values({**config, "pad_token_id": PAD}, where)
        return values | {"segments": 0}


FAMILY = MpNetFamily(
    name="mpnet",
    model_type="mpnet",
    help="an encoder, read from folders of transformers",
    settings=bert.BertSettings,
    network=Import("firth.models.mpnet", "MpNet"),
    contracts=frozenset({"encoder"}),
    layout=LAYOUT,
    layer=bert.LAYER,
    optional={"pooler": "pooler"},
)
