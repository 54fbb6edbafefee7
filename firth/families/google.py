"""The checkpoints of BERT that Google published: which tensor of theirs is which of ours."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from firth.families.bert import FAMILY
from firth.families.layout import Layout

BERT = FAMILY
CONFIG = "bert_config.json"
VOCABULARY = "vocab.txt"
LAYER = "bert/encoder/layer_#"
# Our tensors of the encoder, with # for the number of the layer.
BODY: Mapping[str, tuple[str, ...]] = {
    "embedding.token.weight": ("bert/embeddings/word_embeddings",),
    "embedding.position.weight": ("bert/embeddings/position_embeddings",),
    "embedding.segment.weight": ("bert/embeddings/token_type_embeddings",),
    "embedding.norm.weight": ("bert/embeddings/LayerNorm/gamma",),
    "embedding.norm.bias": ("bert/embeddings/LayerNorm/beta",),
    "blocks.#.attention.qkv.weight": (
        f"{LAYER}/attention/self/query/kernel",
        f"{LAYER}/attention/self/key/kernel",
        f"{LAYER}/attention/self/value/kernel",
    ),
    "blocks.#.attention.qkv.bias": (
        f"{LAYER}/attention/self/query/bias",
        f"{LAYER}/attention/self/key/bias",
        f"{LAYER}/attention/self/value/bias",
    ),
    "blocks.#.attention.out.weight": (f"{LAYER}/attention/output/dense/kernel",),
    "blocks.#.attention.out.bias": (f"{LAYER}/attention/output/dense/bias",),
    "blocks.#.attention_norm.weight": (f"{LAYER}/attention/output/LayerNorm/gamma",),
    "blocks.#.attention_norm.bias": (f"{LAYER}/attention/output/LayerNorm/beta",),
    "blocks.#.up.weight": (f"{LAYER}/intermediate/dense/kernel",),
    "blocks.#.up.bias": (f"{LAYER}/intermediate/dense/bias",),
    "blocks.#.down.weight": (f"{LAYER}/output/dense/kernel",),
    "blocks.#.down.bias": (f"{LAYER}/output/dense/bias",),
    "blocks.#.norm.weight": (f"{LAYER}/output/LayerNorm/gamma",),
    "blocks.#.norm.bias": (f"{LAYER}/output/LayerNorm/beta",),
    "pooler.weight": ("bert/pooler/dense/kernel",),
    "pooler.bias": ("bert/pooler/dense/bias",),
}
CLASSES = "output_weights"  # of a fine-tuned classifier
MASKED_HEAD = {
    "masked.dense.weight": "cls/predictions/transform/dense/kernel",
    "masked.dense.bias": "cls/predictions/transform/dense/bias",
    "masked.norm.weight": "cls/predictions/transform/LayerNorm/gamma",
    "masked.norm.bias": "cls/predictions/transform/LayerNorm/beta",
    "masked.bias": "cls/predictions/output_bias",
}
NEXT_HEAD = {
    "next.weight": "cls/seq_relationship/output_weights",
    "next.bias": "cls/seq_relationship/output_bias",
}
HEADS: Mapping[str, Mapping[str, str]] = {
    "classify": {"linear.weight": CLASSES, "linear.bias": "output_bias"},
    "answer": {"linear.weight": "cls/squad/output_weights", "linear.bias": "cls/squad/output_bias"},
    "pretrain": {**MASKED_HEAD, **NEXT_HEAD},
    "fill": MASKED_HEAD,
}
# A tensor that only a checkpoint with such a head has; the first that is there decides.
MARKS = {
    "answer": "cls/squad/output_weights",
    "pretrain": "cls/seq_relationship/output_weights",
    "fill": "cls/predictions/output_bias",
}
LAYOUT = Layout(
    transposed=re.compile(r"/kernel$"),
    # What only training needs.
    spare=re.compile(r"/(adam_[mv]|Adam(_1)?|AdamWeightDecay.*)$|^(global_step|beta[12]_power)$"),
)


class GoogleHead(NamedTuple):
    """What stands on the encoder of a checkpoint: None for nothing that has a place here."""

    kind: str | None
    classes: int = 0


def body_names(ours: str) -> tuple[str, ...]:
    """Return the names of what makes up one of our encoder's tensors, to be joined in order."""
    number = re.search(r"\d+", ours)
    if number is None:
        return BODY[ours]
    template = ours.replace(number[0], "#", 1)
    return tuple(name.replace("#", number[0]) for name in BODY[template])


def head_of_checkpoint(shapes: Mapping[str, tuple[int, ...]], width: int) -> GoogleHead:
    """Return what head a checkpoint has, by the names and shapes of its tensors.

    Programs of others give their heads the name that Google's classifier has: what isn't a row for
    each of several classes is none.
    """
    shape = shapes.get(CLASSES, ())
    if len(shape) == 2 and shape[0] > 1 and shape[1] == width:
        return GoogleHead("classify", shape[0])
    for kind, mark in MARKS.items():
        if mark in shapes:
            return GoogleHead(kind)
    return GoogleHead(None)
