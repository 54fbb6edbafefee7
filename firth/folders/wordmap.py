"""The folder of a map between the words of two models.

D width of the first model's vectors, E of the second's, N words.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, ValidationError
from safetensors.torch import load_file, save_file
from torch import Tensor

from firth.base import files
from firth.base.errors import InputError
from firth.base.settings import Settings, complaint
from firth.folders.find import CONFIG, FORMAT, RECORD, WEIGHTS, check_sums, find
from firth.folders.write import sums
from firth.nn.mapping import HiddenMap

MAP = "firth-map"  # the model_type
REPORT = "report.json"
By = Literal["linear", "network"]


class MapSettings(Settings):
    """The sizes of a map."""

    source: int = Field(gt=0, le=1 << 16)
    target: int = Field(gt=0, le=1 << 16)
    hidden: int = Field(gt=0, le=1 << 18)


@dataclass(frozen=True)
class WordMap:
    """Two maps from the vectors of one model to those of another.

    Both read vectors of length 1 less the mean of all the words', and give such.
    """

    linear: Tensor  # (D, E)
    network: HiddenMap
    source_mean: Tensor  # (D)
    target_mean: Tensor  # (E)

    def apply(self, vectors: Tensor, by: By) -> Tensor:
        """Map vectors of words (N, D) of length 1 into the second space, (N, E)."""
        centred = vectors - self.source_mean
        if by == "linear":
            return centred @ self.linear
        with torch.no_grad():
            mapped: Tensor = self.network(centred)
        return mapped

    def tensors(self) -> dict[str, Tensor]:
        """Return what is saved, by name."""
        network = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        means = {"source.mean": self.source_mean, "target.mean": self.target_mean}
        return {"linear": self.linear, **means, **network}


def save_map(
    made: WordMap,
    target: Path,
    models: Mapping[str, str],
    report: Mapping[str, Any],
    force: bool,
) -> None:
    """Write a folder; `models` are the source and the target, whose weights are recorded."""
    source, reach = made.linear.shape
    hidden = made.network.hidden.weight.shape[0]
    settings = MapSettings(source=source, target=reach, hidden=hidden)
    between = {}
    for side, name in models.items():
        between[side] = {"model": name, "sha256": weights_sum(name)}
    with files.new_folder(target, force) as folder:
        tensors = {name: tensor.contiguous() for name, tensor in made.tensors().items()}
        save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
        _write(folder / CONFIG, {"model_type": MAP, **settings.model_dump()})
        _write(folder / REPORT, report)
        _write(folder / RECORD, {"format": FORMAT, "between": between, "sha256": sums(folder)})


def load_map(folder: Path, models: Mapping[str, str]) -> WordMap:
    """Open a folder; one that was made for other vectors than those of the models is refused."""
    record = check_sums(folder)
    config = files.read_json(folder / CONFIG)
    where = folder / CONFIG
    if config.pop("model_type", None) != MAP or not record:
        raise InputError(f"{folder} is no map that firth align made")
    try:
        settings = MapSettings.model_validate(config)
    except ValidationError as error:
        raise InputError(f"{where}: {complaint(error)}") from error
    for side, name in models.items():
        _check_model(record.get("between"), side, name, folder)

    with torch.device("meta"):
        network = HiddenMap(settings.source, settings.hidden, settings.target)
    expected = {
        "linear": (settings.source, settings.target),
        "source.mean": (settings.source,),
        "target.mean": (settings.target,),
    }
    for name, tensor in network.state_dict().items():
        expected[f"network.{name}"] = tuple(tensor.shape)
    found = {name: one.shape for name, one in files.tensor_header(folder / WEIGHTS).items()}
    if found != expected:
        raise InputError(f"{folder / WEIGHTS} has other tensors than {where} says")
    tensors = load_file(folder / WEIGHTS)
    layers = {name: tensors[f"network.{name}"] for name in network.state_dict()}
    network.load_state_dict(layers, assign=True)
    network.eval().requires_grad_(False)
    return WordMap(tensors["linear"], network, tensors["source.mean"], tensors["target.mean"])


def weights_sum(model: str) -> str:
    """Return the sha256 of a model's weights."""
    return files.sha256(find(model) / WEIGHTS)


def _check_model(between: Any, side: str, name: str, folder: Path) -> None:
    """Refuse a model that is not the one that a map was made for."""
    try:
        made_for = between[side]
        same = made_for["sha256"] == weights_sum(name)
        other = str(made_for["model"])
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder / RECORD} doesn't say what the map is between") from error
    if not same:
        raise InputError(f"{folder} was made for the vectors of {other!r}, not those of {name!r}")


def _write(path: Path, page: Mapping[str, Any]) -> None:
    """Write an object as JSON."""
    path.write_text(json.dumps(page, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
