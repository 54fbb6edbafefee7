"""Checkpoints: whole on disk or not there at all, and damage is found before anything is used.

Each file is known by its sha256. A checkpoint is written beside its place, its manifest last;
everything is flushed to disk before the folder gets its name, and an older one goes only after
that. Nothing in it is pickled.
"""

import json
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from firth.base import files
from firth.base.errors import FirthError, InputError, RunWarning
from firth.base.failpoint import failpoint
from firth.base.notes import warn

FORMAT = 1
NAME = re.compile(r"step-(\d{9})")
Tensors = Mapping[str, Tensor]


class Checkpoint(NamedTuple):
    """A run at one step."""

    step: int
    tensors: dict[str, dict[str, Tensor]]  # by file: weights, optimizer
    state: dict[str, Any]


def save_checkpoint(parent: Path, checkpoint: Checkpoint, keep: Collection[int]) -> None:
    """Write a checkpoint and then remove those at other steps than `keep` and its own."""
    parent.mkdir(parents=True, exist_ok=True)
    place = _place(parent, checkpoint.step)
    fresh = place.with_name(f".{place.name}.new")
    sweep(parent)
    failpoint("before-write")
    try:
        fresh.mkdir()
        _write(fresh, checkpoint)
        failpoint("before-folder-sync")
        files.sync(fresh)
        failpoint("before-rename")
        if place.exists():  # damaged, or this run would not be writing it again
            _remove(place)
        fresh.rename(place)
        failpoint("after-rename")
        files.sync(parent)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise FirthError(
            f"the checkpoint of step {checkpoint.step} can't be written: {error.strerror}; "
            "earlier ones are whole, and --resume goes on from the newest"
        ) from error
    for step in saved_steps(parent):
        if step != checkpoint.step and step not in keep:
            _remove(_place(parent, step))


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    """Write all files of a checkpoint, the manifest last."""
    sums = {}
    for part, tensors in checkpoint.tensors.items():
        arrays = {name: _array(tensor) for name, tensor in tensors.items()}
        name = f"{part}.safetensors"
        sums[name] = files.write_arrays(folder / name, arrays)
    sums["state.json"] = files.write_synced(folder / "state.json", _page(checkpoint.state))
    failpoint("before-manifest")
    body = {"format": FORMAT, "step": checkpoint.step, "files": sums}
    page = _page(body | {"sha256": _own_sum(body)})
    files.write_synced(folder / "manifest.json", page)


def _array(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().contiguous().numpy()


def _place(parent: Path, step: int) -> Path:
    return parent / f"step-{step:09}"


def _page(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _own_sum(body: Mapping[str, Any]) -> str:
    return sha256(_page(body)).hexdigest()


def _remove(folder: Path) -> None:
    """Take a checkpoint's name away before its files: none is ever seen without some of them."""
    trash = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(trash, ignore_errors=True)
    folder.rename(trash)
    failpoint("while-pruning")
    shutil.rmtree(trash, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Remove what a killed process left half-written or half-removed."""
    for path in parent.glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)


def saved_steps(parent: Path) -> list[int]:
    """Return the steps that have a checkpoint, newest first."""
    matches = (NAME.fullmatch(path.name) for path in parent.glob("step-*"))
    steps = [int(match[1]) for match in matches if match]
    return sorted(steps, reverse=True)


def newest(parent: Path) -> Checkpoint | None:
    """Load the newest whole checkpoint; None if there never was one.

    Damaged ones that are passed over are said.
    """
    damaged = []
    for step in saved_steps(parent):
        try:
            return load_checkpoint(parent, step)
        except InputError as error:
            damaged.append(step)
            warn(f"{error}; trying the checkpoint before it", RunWarning)
    if damaged:
        raise InputError(
            f"{parent}: none of the {len(damaged)} checkpoints is whole; "
            "--force begins the run anew"
        )
    return None


def load_checkpoint(parent: Path, step: int) -> Checkpoint:
    """Load one checkpoint; any difference to what was written, down to a bit, is an error."""
    folder = _place(parent, step)
    sums = _manifest(folder, step)
    for name, (size, expected) in sums.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            raise InputError(f"{path} is missing or has not the {size} bytes that were written")
        if files.sha256(path) != expected:
            raise InputError(
                f"{path} was damaged after it was written: its sha256 differs from the manifest's"
            )
    state = files.read_json(folder / "state.json")
    tensors = {}
    for name in sums:
        if name.endswith(".safetensors"):
            tensors[name.removesuffix(".safetensors")] = load_file(folder / name)
    return Checkpoint(step, tensors, state)


def _manifest(folder: Path, step: int) -> dict[str, tuple[int, str]]:
    """Return the size and the sha256 of every file of a checkpoint."""
    path = folder / "manifest.json"
    page = files.read_json(path)
    body = {key: value for key, value in page.items() if key != "sha256"}
    if path.read_bytes() != _page(page) or page.get("sha256") != _own_sum(body):
        raise InputError(f"{path} was damaged after it was written")
    if page.get("format") != FORMAT or page.get("step") != step:
        raise InputError(
            f"{path} is of step {page.get('step')} and format {page.get('format')}, "
            f"not of step {step} and format {FORMAT}"
        )
    return {name: (size, expected) for name, (size, expected) in page["files"].items()}


def bytes_of(tensors: Iterator[Tensor]) -> int:
    """Return how many bytes tensors take on disk."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def weights_of(module: torch.nn.Module) -> dict[str, Tensor]:
    """Return a module's parameters by name; one that is used in two places is there once."""
    return dict(module.named_parameters())
