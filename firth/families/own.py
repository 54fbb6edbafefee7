"""Families that transformers doesn't have, under our own names: recurrent, feed-forward and counted models; tables, no I/O.

V symbols: the vocabulary, and the start mark if it is beyond.
"""

from collections.abc import Mapping
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from firth.base.errors import InputError
from firth.base.settings import complaint
from firth.families.layout import Layout
from firth.models.counts import NGramSettings
from firth.models.ffnn import Ffnn, FfnnSettings
from firth.models.rnn import Rnn, RnnSettings

Own = RnnSettings | FfnnSettings | NGramSettings
SETTINGS: dict[str, type[Own]] = {
    "firth-rnn": RnnSettings,
    "firth-ffnn": FfnnSettings,
    "firth-ngram": NGramSettings,
}
LAYOUT = Layout()  # a tensor is called as it is here
WRITTEN = (
    "output.table"  # words that are written: where they are tied, the tensor of those that are read
)
ARRAYS = {"I32", "I64", "F64"}  # what an n-gram model is kept in
ROUNDING = 1e-3  # of a sum of many shares


def read_settings(config: Mapping[str, Any], where: str) -> Own:
    """The settings in a configuration; what they don't know is refused."""
    kind = SETTINGS[config["model_type"]]
    try:
        return kind.model_validate(
            {key: value for key, value in config.items() if key != "model_type"}
        )
    except ValidationError as error:
        raise InputError(f"{where}: {complaint(error)}") from error


def write_config(settings: Own) -> dict[str, Any]:
    """The configuration of a model."""
    family = next(family for family, kind in SETTINGS.items() if isinstance(settings, kind))
    return {"model_type": family, **settings.model_dump(mode="json")}


def stored(model: Rnn | Ffnn) -> list[str]:
    """The names of a model's tensors, of those that are one the first."""
    return [name for name in model.state_dict() if name != WRITTEN or not model.settings.tied]


def first_of_each(settings: RnnSettings | FfnnSettings) -> list[str]:
    """A tensor of every layer that the settings promise."""
    return (
        [f"layers.layers.{layer}.keep.weight" for layer in range(settings.depth)]
        if isinstance(settings, RnnSettings)
        else []
    )


def finish(model: Rnn | Ffnn, where: str) -> None:
    """Let tied tables be one again, and refuse ranks and shares of words that are none."""
    s = model.settings
    if s.tied:
        model.output.table = model.table.weight
    state = model.state_dict()
    if s.output == "classes" and not _ranks(state["output.order"], state["output.place"], s.start):
        raise InputError(
            f"{where}: output.order and output.place are not an order of the words and the way back"
        )
    if s.output == "sampled" and not _shares(state["output.share"], s.start):
        raise InputError(f"{where}: output.share does not hold shares of a whole")


def _ranks(order: Tensor, place: Tensor, never: int) -> bool:
    """Whether words (V - 1) are each there once but for the one that is never written, and stand at their places (V)."""
    words = torch.arange(len(place))
    rest = words[words != never]
    if not torch.equal(order.sort().values, rest):
        return False
    return torch.equal(place[order], torch.arange(len(order))) and int(place[never]) == 0


def _shares(share: Tensor, never: int) -> bool:
    return (
        bool((share >= 0).all())
        and abs(float(share.sum()) - 1) < ROUNDING
        and float(share[never]) == 0
    )
