"""RoBERTa and XLM-RoBERTa: BERT's network with positions that begin after the padding's id."""

from collections.abc import Mapping
from typing import Any

from firth.base.errors import InputError
from firth.families import bert
from firth.families.layout import Layout

PAD = 1  # the id of their padding, where a folder doesn't say

LAYOUT = Layout(
    prefix="roberta.",
    names=bert.NAMES,
    settings=bert.KEYS,
    fixed=bert.FIXED,
    bare="RobertaModel",
    spare=bert.SPARE,
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
XLM_ROBERTA = _family("xlm-roberta", LAYOUT._replace(bare="XLMRobertaModel"))
