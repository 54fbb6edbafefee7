"""BERT: its settings and sizes, and the names of its tensors and heads in transformers."""

import re
from typing import Any, Literal

from pydantic import Field

from firth.base.errors import InputError
from firth.families.family import MASKED, Import
from firth.families.layout import Layout
from firth.families.stack import (
    SIZES,
    Activation,
    StackFamily,
    StackSettings,
    sizes_of,
)

NETWORK = Import("firth.models.bert", "Bert")
LAYER = "blocks.#.norm.weight"


class BertSettings(StackSettings):
    """The sizes of a BERT; DistilBERT and RoBERTa are the same network with other values here."""

    segments: int = Field(default=2, ge=0, le=1 << 10)
    first_position: int = Field(default=0, ge=0, le=1 << 10)
    pooler: bool = True
    pooler_activation: Literal["tanh", "relu"] = "tanh"
    pooler_dropout: bool = False  # whether it drops its input too
    head_activation: Activation | None = None  # of a head for masked words, if not the layers'
    causal: bool = Field(default=False, description="A token sees only those before it.")


NAMES = {
    "embedding.token": ("embeddings.word_embeddings",),
    "embedding.position": ("embeddings.position_embeddings",),
    "embedding.segment": ("embeddings.token_type_embeddings",),
    "embedding.norm": ("embeddings.LayerNorm",),
    "blocks.#.attention.qkv": tuple(
        f"encoder.layer.#.attention.self.{part}" for part in ("query", "key", "value")
    ),
    "blocks.#.attention.out": ("encoder.layer.#.attention.output.dense",),
    "blocks.#.attention_norm": ("encoder.layer.#.attention.output.LayerNorm",),
    "blocks.#.up": ("encoder.layer.#.intermediate.dense",),
    "blocks.#.down": ("encoder.layer.#.output.dense",),
    "blocks.#.norm": ("encoder.layer.#.output.LayerNorm",),
    "pooler": ("pooler.dense",),
}
KEYS = {
    "vocab": "vocab_size",
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
    "length": "max_position_embeddings",
    "segments": "type_vocab_size",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "eps": "layer_norm_eps",
    "activation": "hidden_act",
    "spread": "initializer_range",
    "causal": "is_decoder",
}
FIXED = {"position_embedding_type": "absolute", "add_cross_attention": False}
# What the heads of each family's classes do, by the ends of their names.
ENDS = {
    "ForMaskedLM": "fill",
    "ForSequenceClassification": "classify",
    "ForTokenClassification": "tag",
    "ForQuestionAnswering": "answer",
    "ForMultipleChoice": "choice",
}
MASKED_NAMES = {
    "masked.dense": "cls.predictions.transform.dense",
    "masked.norm": "cls.predictions.transform.LayerNorm",
    "masked.bias": "cls.predictions.bias",
    "masked.table": "cls.predictions.decoder.weight",
}
HEADS = {
    "pretrain": {**MASKED_NAMES, "next": "cls.seq_relationship"},
    "fill": MASKED_NAMES,
    "classify": {"linear": "classifier"},
    "several": {"linear": "classifier"},
    "regress": {"linear": "classifier"},
    "tag": {"linear": "classifier"},
    "answer": {"linear": "qa_outputs"},
    "choice": {"linear": "classifier"},
}
POOLED = frozenset({"classify", "several", "regress", "choice"})
# A bias that has been saved under either name or both; a decoder that isn't tied has its own.
TWINS = {
    "cls.predictions.bias": "cls.predictions.decoder.bias",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
# Buffers and second copies of tied weights that older releases wrote.
SPARE = re.compile(r"(^|\.)position_ids$|^cls\.predictions\.decoder\.(weight|bias)$")


def architectures(family: str) -> dict[str, str]:
    """Return the classes of a family, by the beginning of their names, and what their heads do."""
    return {f"{family}{end}": kind for end, kind in ENDS.items()}


LAYOUT = Layout(
    prefix="bert.",
    names=NAMES,
    settings=KEYS,
    fixed=FIXED,
    bare="BertModel",
    architectures={"BertForPreTraining": "pretrain", **architectures("Bert")},
    heads=HEADS,
    pooled=POOLED | {"pretrain"},
    twins=TWINS,
    spare=SPARE,
    # Heads for classes and tags, questions, masked words, next sentences.
    guards=(
        "classifier.weight",
        "qa_outputs.weight",
        "cls.predictions.transform.dense.weight",
        "cls.seq_relationship.weight",
    ),
)


class BertFamily(StackFamily):
    """BERT, which is pretrained here."""

    def complete(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add the usual inner width; refuse a width that new positions can't have."""
        width = values["width"]  # a wrong type is refused with the other settings
        if isinstance(width, int) and width % 2:
            # Positions begin as waves, a sine and a cosine each.
            raise InputError(f"a new bert has an even width, not {width}")
        return super().complete(values)

    def card(self, model: Any) -> str:
        """Say what a model is."""
        return f"BERT: {sizes_of(model.settings)}"


FAMILY = BertFamily(
    name="bert",
    model_type="bert",
    help="an encoder that reads a text in both directions",
    settings=BertSettings,
    network=NETWORK,
    contracts=frozenset({"encoder"}),
    layout=LAYOUT,
    layer=LAYER,
    optional={"pooler": "pooler"},
    recipe=MASKED,
    options=frozenset({"nsp", "whole_words", "causal"}),
    runs_in_page=True,
    sizes=SIZES,
    timed_sizes=tuple(SIZES),
)
