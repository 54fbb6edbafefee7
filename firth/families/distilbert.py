"""DistilBERT: BERT's network without segments, under names of its own.

Only heads over whole texts have a pooler, with ReLU in place of tanh.
"""

import re
from collections.abc import Mapping
from typing import Any

from firth.families import bert
from firth.families.layout import Layout

TEXT_HEAD = {"pooler": "pre_classifier", "linear": "classifier"}
HEADS = {
    "fill": {
        "masked.dense": "vocab_transform",
        "masked.norm": "vocab_layer_norm",
        "masked.bias": "vocab_projector.bias",
        "masked.table": "vocab_projector.weight",
    },
    "classify": TEXT_HEAD,
    "several": TEXT_HEAD,
    "regress": TEXT_HEAD,
    "tag": {"linear": "classifier"},
    "answer": {"linear": "qa_outputs"},
    "choice": TEXT_HEAD,
}

LAYOUT = Layout(
    prefix="distilbert.",
    names={
        "embedding.token": ("embeddings.word_embeddings",),
        "embedding.position": ("embeddings.position_embeddings",),
        "embedding.norm": ("embeddings.LayerNorm",),
        "blocks.#.attention.qkv": tuple(
            f"transformer.layer.#.attention.{part}_lin" for part in "qkv"
        ),
        "blocks.#.attention.out": ("transformer.layer.#.attention.out_lin",),
        "blocks.#.attention_norm": ("transformer.layer.#.sa_layer_norm",),
        "blocks.#.up": ("transformer.layer.#.ffn.lin1",),
        "blocks.#.down": ("transformer.layer.#.ffn.lin2",),
        "blocks.#.norm": ("transformer.layer.#.output_layer_norm",),
        "pooler": ("firth.pooler",),  # under a head that their layout has no place for
    },
    settings={
        "vocab": "vocab_size",
        "width": "dim",
        "depth": "n_layers",
        "heads": "n_heads",
        "inner": "hidden_dim",
        "length": "max_position_embeddings",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "activation": "activation",
        "spread": "initializer_range",
    },
    bare="DistilBertModel",
    architectures=bert.architectures("DistilBert"),
    heads=HEADS,
    pooled=bert.POOLED,
    spare=re.compile(r"(^|\.)position_ids$|^vocab_projector\.weight$"),
    guards=("classifier.weight", "qa_outputs.weight", "vocab_transform.weight"),
)


class DistilBertFamily(bert.BertFamily):
    """A family whose config.json leaves out what it never has."""

    def values(self, config: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the settings in a config.json before they are checked."""
        own = {"segments": 0, "pooler": False, "pooler_activation": "relu"}
        return super().values(config, where) | own


FAMILY = DistilBertFamily(
    name="distilbert",
    model_type="distilbert",
    help="an encoder, read from folders of transformers",
    settings=bert.BertSettings,
    network=bert.NETWORK,
    contracts=frozenset({"encoder"}),
    layout=LAYOUT,
    layer=bert.LAYER,
    optional={"pooler": "pooler"},
)
