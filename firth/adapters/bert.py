"""Names and settings of BERT, DistilBERT and RoBERTa in Hugging Face's layout, and of ours; tables, no I/O."""

import re
from typing import Any, NamedTuple

from pydantic import ValidationError

from firth.base.errors import InputError
from firth.models.bert import BertSettings
from firth.models.features import WAYS


class Layout(NamedTuple):
    """How one family writes the same network."""

    prefix: str  # before the body's names where a head stands on top
    names: dict[str, tuple[str, ...]]  # our module -> theirs; several are joined along the first dimension
    settings: dict[str, str]  # our setting -> their key
    fixed: dict[str, Any]  # their keys with the only value that this network can express


BERT_NAMES = {
    "embedding.token": ("embeddings.word_embeddings",),
    "embedding.position": ("embeddings.position_embeddings",),
    "embedding.segment": ("embeddings.token_type_embeddings",),
    "embedding.norm": ("embeddings.LayerNorm",),
    "blocks.#.attention.qkv": tuple(f"encoder.layer.#.attention.self.{part}" for part in ("query", "key", "value")),
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
BERT = Layout("bert.", BERT_NAMES, BERT_SETTINGS, BERT_FIXED)

LAYOUTS = {
    "bert": BERT,
    "roberta": BERT._replace(prefix="roberta."),
    "xlm-roberta": BERT._replace(prefix="roberta."),
    "distilbert": Layout(
        "distilbert.",
        {
            "embedding.token": ("embeddings.word_embeddings",),
            "embedding.position": ("embeddings.position_embeddings",),
            "embedding.norm": ("embeddings.LayerNorm",),
            "blocks.#.attention.qkv": tuple(f"transformer.layer.#.attention.{part}_lin" for part in "qkv"),
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
    ),
}
ROBERTA_PAD = 1  # the two RoBERTas number positions from just after the id of their padding

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
POOLED_HEADS = {"pretrain", "classify", "several", "regress", "choice"}  # those that read the pooler's output
# One architecture, three uses: what a text is, which labels it has, and a number for it.
PROBLEMS = {"classify": "single_label_classification", "several": "multi_label_classification", "regress": "regression"}

# One bias that has been saved under either name or both; where both are there, a decoder that isn't tied has its own.
TWINS = {"cls.predictions.bias": "cls.predictions.decoder.bias", "cls.predictions.decoder.bias": "cls.predictions.bias"}
# Buffers and second copies of tied weights that older releases wrote.
SPARE = re.compile(r"(^|\.)position_ids$|^cls\.predictions\.decoder\.(weight|bias)$")
OLD_SPELLINGS = (
    (re.compile(r"LayerNorm\.gamma$"), "LayerNorm.weight"),
    (re.compile(r"LayerNorm\.beta$"), "LayerNorm.bias"),
)


def modern(name: str) -> str:
    """A weight's present name, for files written with the first releases' names."""
    for old, new in OLD_SPELLINGS:
        name = old.sub(new, name)
    return name


def body_sources(layout: Layout, name: str) -> tuple[str, ...]:
    """Where one of our encoder's tensors comes from: their names, to be joined in this order."""
    module, _, field = name.rpartition(".")
    number = re.search(r"\d+", module)
    template = layout.names[re.sub(r"\d+", "#", module)]
    return tuple(f"{part.replace('#', number[0] if number else '')}.{field}" for part in template)


def head_source(kind: str, name: str, tied: bool = True) -> str:
    """Where one of our head's tensors comes from."""
    table = HEAD_NAMES[kind]
    if name in table:
        return table[name] if tied or name != "masked.bias" else TWINS[table[name]]
    module, _, field = name.rpartition(".")
    return f"{table[module]}.{field}"


def read_settings(config: dict[str, Any], where: str) -> BertSettings:
    """Translate a Hugging Face configuration, refusing what this network can't express."""
    family = config.get("model_type")
    if not isinstance(family, str) or family not in LAYOUTS:
        raise InputError(f"{where}: model_type {family!r} is not one that Firth opens ({', '.join(LAYOUTS)})")
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
            raise InputError(f"{where}: pad_token_id and max_position_embeddings must be whole numbers")
        values["first_position"] = pad + 1
        values["length"] -= pad + 1
    try:
        return BertSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        ours = str(first["loc"][0]) if first["loc"] else ""
        raise InputError(f"{where}: {layout.settings.get(ours, ours) or 'sizes'}: {first['msg']}") from error


def write_config(settings: BertSettings, family: str, kind: str | None, labels: tuple[str, ...], tied: bool) -> dict[str, Any]:
    """The Hugging Face configuration of a model."""
    layout = LAYOUTS[family]
    values = settings.model_dump()
    config = {theirs: values[ours] for ours, theirs in layout.settings.items()}
    config["model_type"] = family
    config["architectures"] = [_architecture(family, kind)]
    config["pad_token_id"] = 0
    config["tie_word_embeddings"] = tied
    config["dtype"] = "float32"
    if settings.first_position:
        config["pad_token_id"] = settings.first_position - 1
        config["max_position_embeddings"] += settings.first_position
    if kind in PROBLEMS:
        config["problem_type"] = PROBLEMS[kind]
    labels = ("LABEL_0",) if kind == "regress" else labels  # one output, by the name that transformers gives it
    if labels:
        config["id2label"] = {str(i): label for i, label in enumerate(labels)}
        config["label2id"] = {label: i for i, label in enumerate(labels)}
    return config


def _architecture(family: str, kind: str | None) -> str:
    if kind is not None:
        return next(name for name, does in ARCHITECTURES.items() if does == ("classify" if kind in PROBLEMS else kind))
    return {
        "bert": "BertModel",
        "roberta": "RobertaModel",
        "xlm-roberta": "XLMRobertaModel",
        "distilbert": "DistilBertModel",
    }[family]


def read_kind(config: dict[str, Any], where: str) -> str | None:
    """What a folder's head does, None for a bare encoder; a head that Firth doesn't know is left out and reported as unused."""
    names = config.get("architectures") or []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{where}: architectures must be a list of names")
    kind = ARCHITECTURES.get(names[0]) if names else None
    if kind != "classify":
        return kind
    asked = config.get("problem_type")
    if asked is None:
        return "regress" if len(read_labels(config, kind, where)) == 1 else kind
    found = next((use for use, problem in PROBLEMS.items() if problem == asked), None)
    if found is None:
        raise InputError(f"{where}: problem_type {asked!r} is not one of {', '.join(PROBLEMS.values())}")
    return found


def read_labels(config: dict[str, Any], kind: str | None, where: str) -> tuple[str, ...]:
    """The label names of a classifier or tagger, in the order of its scores."""
    if kind not in ("classify", "several", "tag"):
        return ()
    table = config.get("id2label")
    if table is None:
        number = config.get("num_labels", 2)
        if type(number) is not int or not 0 < number < 1 << 16:
            raise InputError(f"{where}: num_labels must be a whole number above 0")
        return tuple(f"LABEL_{i}" for i in range(number))
    if not isinstance(table, dict) or sorted(table) != sorted(str(i) for i in range(len(table))) or not table:
        raise InputError(f"{where}: id2label must number its labels from 0 without gaps")
    return tuple(str(table[str(i)]) for i in range(len(table)))


class Frozen(NamedTuple):
    """What firth.json says of a head that transformers has no place for: it reads some layers of an encoder that was not taught."""

    kind: str
    layers: tuple[int, ...]
    how: str
    labels: tuple[str, ...]


def read_frozen(record: dict[str, Any], depth: int, where: str) -> Frozen | None:
    """The part of firth.json about features, if it has one."""
    page = record.get("features")
    if page is None:
        return None
    try:
        kind, layers, how, labels = record["task"], page["layers"], page["combine"], page["labels"]
    except (KeyError, TypeError) as error:
        raise InputError(f"{where}: features must have layers, combine and labels") from error
    known = kind in ("classify", "several", "regress", "tag") and how in WAYS
    if not known or not isinstance(layers, list) or not 0 < len(layers) <= depth + 1 or not isinstance(labels, list):
        raise InputError(f"{where}: {kind!r} with features combined by {how!r} is not something that Firth runs")
    if not all(type(layer) is int and -depth - 1 <= layer <= depth for layer in layers):
        raise InputError(f"{where}: layers go from 0 to {depth}, or from -1 to -{depth + 1}")
    if not all(isinstance(label, str) for label in labels) or (kind != "regress") != bool(labels):
        raise InputError(f"{where}: labels must be a list of names")
    return Frozen(kind, tuple(layers), how, tuple(labels))
