"""RoBERTa and XLM-RoBERTa: BERT's network with positions that begin after the padding's id.

The head of their classifiers summarises the text by itself, as BERT's pooler does.
"""

import re
from collections.abc import Mapping
from typing import Any

from firth.base.errors import InputError
from firth.families import bert
from firth.families.layout import Layout

PAD = 1  # the id of their padding, where a folder doesn't say

TEXT_HEAD = {"pooler": "classifier.dense", "linear": "classifier.out_proj"}
HEADS = {
    "fill": {
        "masked.dense": "lm_head.dense",
        "masked.norm": "lm_head.layer_norm",
        "masked.bias": "lm_head.bias",
        "masked.table": "lm_head.decoder.weight",
    },
    "classify": TEXT_HEAD,
    "several": TEXT_HEAD,
    "regress": TEXT_HEAD,
    "tag": {"linear": "classifier"},
    "answer": {"linear": "qa_outputs"},
    "choice": {"linear": "classifier"},
}

LAYOUT = Layout(
    prefix="roberta.",
    names=bert.NAMES,
    settings=bert.KEYS,
    fixed=bert.FIXED,
    bare="RobertaModel",
    architectures=bert.architectures("Roberta"),
    heads=HEADS,
    pooled=bert.POOLED,
    twins={"lm_head.bias": "lm_head.decoder.bias", "lm_head.decoder.bias": "lm_head.bias"},
    spare=re.compile(r"(^|\.)position_ids$|^lm_head\.decoder\.(weight|bias)$"),
    guards=(
        "classifier.weight",
        "classifier.out_proj.weight",
        "qa_outputs.weight",
        "lm_head.dense.weight",
    ),
)


class RobertaFamily(bert.BertFamily):
    """A family whose table of positions begins with rows that no token uses."""

    def values(self, config: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the settings in a config.json before they are checked."""
        values = super().values(config, where)
        pad = config.get("pad_token_id", PAD)
        if type(pad) is not int or type(values.get("length")) is not int:
            raise InputError(
                f"{where}: pad_token_id and max_position_embeddings must be whole numbers"
            )
        # Their classifiers drop before each of their two layers; the activation of the head for
        # masked words is fixed.
        values |= {"pooler_dropout": True, "head_activation": "gelu"}
        values["first_position"] = pad + 1
        values["length"] -= pad + 1
        return values

    def constants(self, settings: Any, tied: bool, pad: int | None) -> dict[str, Any]:
        """Return what stands in config.json beside settings and head."""
        found = super().constants(settings, tied, pad)
        if settings.first_position:
            found["pad_token_id"] = settings.first_position - 1
            found["max_position_embeddings"] = settings.length + settings.first_position
        return found


def _family(name: str, layout: Layout) -> RobertaFamily:
    return RobertaFamily(
        name=name,
        model_type=name,
        help="an encoder, read from folders of transformers",
        settings=bert.BertSettings,
        network=bert.NETWORK,
        contracts=frozenset({"encoder"}),
        layout=layout,
        layer=bert.LAYER,
        optional={"pooler": "pooler"},
    )


ROBERTA = _family("roberta", LAYOUT)
XLM_ROBERTA = _family(
    "xlm-roberta",
    LAYOUT._replace(bare="XLMRobertaModel", architectures=bert.architectures("XLMRoberta")),
)
