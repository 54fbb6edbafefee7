"""Names and settings of BERT, DistilBERT and RoBERTa in Hugging Face's layout, and of ours; tables, no I/O."""

import re
from typing import Any

from pydantic import ValidationError

from firth.base.errors import InputError
from firth.families.layout import Layout, write_head
from firth.models.bert import BertSettings

BERT_NAMES = {
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
BERT_SETTINGS = {
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
BERT_FIXED = {"position_embedding_type": "absolute", "add_cross_attention": False}
# The heads of BERT: architecture -> what it does, and our module -> theirs.
ARCHITECTURES = {
    "BertForPreTraining": "pretrain",
    "BertForMaskedLM": "fill",
    "BertForSequenceClassification": "classify",
    "BertForTokenClassification": "tag",
    "BertForQuestionAnswering": "answer",
    "BertForMultipleChoice": "choice",
}
MASKED_NAMES = {
    "masked.dense": "cls.predictions.transform.dense",
    "masked.norm": "cls.predictions.transform.LayerNorm",
    "masked.bias": "cls.predictions.bias",
    "masked.table": "cls.predictions.decoder.weight",
}
HEAD_NAMES = {
    "pretrain": {**MASKED_NAMES, "next": "cls.seq_relationship"},
    "fill": MASKED_NAMES,
    "classify": {"linear": "classifier"},
    "several": {"linear": "classifier"},
    "regress": {"linear": "classifier"},
    "tag": {"linear": "classifier"},
    "answer": {"linear": "qa_outputs"},
    "choice": {"linear": "classifier"},
}
POOLED_HEADS = {
    "pretrain",
    "classify",
    "several",
    "regress",
    "choice",
}  # those that read the pooler's output
# One bias that has been saved under either name or both; where both are there, a decoder that isn't tied has its own.
TWINS = {
    "cls.predictions.bias": "cls.predictions.decoder.bias",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
# Buffers and second copies of tied weights that older releases wrote.
SPARE = re.compile(r"(^|\.)position_ids$|^cls\.predictions\.decoder\.(weight|bias)$")

# transformers' heads of each family, by one weight: classes and tags, questions, masked words, next sentences.
BERT_GUARDS = (
    "classifier.weight",
    "qa_outputs.weight",
    "cls.predictions.transform.dense.weight",
    "cls.seq_relationship.weight",
)
ROBERTA_GUARDS = (
    "classifier.weight",
    "classifier.out_proj.weight",
    "qa_outputs.weight",
    "lm_head.dense.weight",
)
DISTILBERT_GUARDS = ("classifier.weight", "qa_outputs.weight", "vocab_transform.weight")

ROBERTA = Layout(
    "roberta.",
    BERT_NAMES,
    BERT_SETTINGS,
    BERT_FIXED,
    "RobertaModel",
    spare=SPARE,
    guards=ROBERTA_GUARDS,
)

LAYOUTS = {
    "bert": Layout(
        "bert.",
        BERT_NAMES,
        BERT_SETTINGS,
        BERT_FIXED,
        "BertModel",
        ARCHITECTURES,
        HEAD_NAMES,
        TWINS,
        SPARE,
        guards=BERT_GUARDS,
    ),
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA._replace(bare="XLMRobertaModel"),
    "distilbert": Layout(
        "distilbert.",
        {
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
        },
        {
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
        {},
        "DistilBertModel",
        spare=SPARE,
        guards=DISTILBERT_GUARDS,
    ),
}
ROBERTA_PAD = 1  # the two RoBERTas number positions from just after the id of their padding


def read_settings(config: dict[str, Any], where: str) -> BertSettings:
    """Translate a Hugging Face configuration, refusing what this network can't express."""
    family = config["model_type"]
    layout = LAYOUTS[family]
    for key, value in layout.fixed.items():
        if config.get(key, value) != value:
            raise InputError(f"{where}: {key} is {config[key]!r}; Firth runs {value!r} only")
    values = {ours: config[theirs] for ours, theirs in layout.settings.items() if theirs in config}
    if family == "distilbert":
        values["segments"] = 0
        values["pooler"] = False
    elif family != "bert":
        pad = config.get("pad_token_id", ROBERTA_PAD)
        if type(pad) is not int or type(values.get("length")) is not int:
            raise InputError(
                f"{where}: pad_token_id and max_position_embeddings must be whole numbers"
            )
        values["first_position"] = pad + 1
        values["length"] -= pad + 1
    try:
        return BertSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        ours = str(first["loc"][0]) if first["loc"] else ""
        raise InputError(
            f"{where}: {layout.settings.get(ours, ours) or 'sizes'}: {first['msg']}"
        ) from error


def write_config(
    settings: BertSettings, family: str, kind: str | None, labels: tuple[str, ...], tied: bool
) -> dict[str, Any]:
    """The Hugging Face configuration of a model."""
    layout = LAYOUTS[family]
    values = settings.model_dump()
    config = {theirs: values[ours] for ours, theirs in layout.settings.items()}
    config |= {
        "model_type": family,
        "pad_token_id": 0,
        "tie_word_embeddings": tied,
        "dtype": "float32",
    }
    if settings.first_position:
        config["pad_token_id"] = settings.first_position - 1
        config["max_position_embeddings"] += settings.first_position
    return config | write_head(layout, kind, labels)
