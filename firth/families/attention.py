"""The recurrent encoder-decoder with attention: that without it, and how it looks back."""

from typing import ClassVar

from firth.families.family import SPANS, Import
from firth.families.pairs import SENTINELS
from firth.families.seq2seq import SIZES, Seq2SeqFamily, Seq2SeqSettings


class AttentionSettings(Seq2SeqSettings):
    """The sizes of a recurrent encoder-decoder with attention."""

    attends: ClassVar[bool] = True


FAMILY = Seq2SeqFamily(
    name="attention",
    model_type="firth-attention",
    help="a recurrent encoder-decoder that looks back at the source",
    settings=AttentionSettings,
    network=Import("firth.models.seq2seq", "Seq2Seq"),
    contracts=frozenset({"encoder-decoder"}),
    layer="decoder.layers.#.keep.weight",
    sizes=SIZES,
    recipe=SPANS,
    options=frozenset({"cell"}),
    default_size="small",
    timed_sizes=("tiny", "mini", "small", "base"),
    vocabulary="bytes",
    sentinels=SENTINELS,
    new_size="small",
    finetune_options=frozenset({"cell"}),
)
