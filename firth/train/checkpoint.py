"""Checkpoints: whole on disk or not there at all, each file known by its sha256, damage found before anything is used.

A checkpoint is written beside its place, its manifest last; everything is flushed to disk before the folder gets its name, and
an older one goes only after that. Nothing in it is pickled.
"""

import json
import re
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from firth.base import files
from firth.base.errors import FirthError, InputError
from firth.base.failpoint import failpoint

FORMAT = 1
NAME = re.compile(r"step-(\d{9})")
Tensors = Mapping[str, Tensor]


class Checkpoint(NamedTuple):
    """A run at one step."""

    step: int
    tensors: dict[str, dict[str, Tensor]]  # by file: weights, optimizer
    state: dict[str, Any]


def save(parent: Path, checkpoint: Checkpoint, keep: Collection[int]) -> None:
    """Write a checkpoint and then remove those at other steps than `keep` and its own."""
    parent.mkdir(parents=True, exist_ok=True)
    name = f"step-{checkpoint.step:09}"
    fresh = parent / f".{name}.new"
    sweep(parent)
    failpoint("before-write")
    try:
        fresh.mkdir()
        sums = {}
        for part, tensors in checkpoint.tensors.items():
            arrays = {
                key: tensor.detach().cpu().contiguous().numpy() for key, tensor in tensors.items()
            }
            sums[f"{part}.safetensors"] = files.write_arrays(fresh / f"{part}.safetensors", arrays)
        sums["state.json"] = files.write_synced(fresh / "state.json", _page(checkpoint.state))
        failpoint("before-manifest")
        body = {"format": FORMAT, "step": checkpoint.step, "files": sums}
        files.write_synced(fresh / "manifest.json", _page(body | {"sha256": _own_sum(body)}))
        failpoint("before-folder-sync")
        files.sync(fresh)
        failpoint("before-rename")
        if (parent / name).exists():  # damaged, or this run would not be writing it again
            _remove(parent / name)
        fresh.rename(parent / name)
        failpoint("after-rename")
        files.sync(parent)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise FirthError(
            f"the checkpoint of step {checkpoint.step} can't be written: {error.strerror}; earlier ones are whole, "
            "and --resume goes on from the newest"
        ) from error
    for step in steps(parent):
        if step != checkpoint.step and step not in keep:
            _remove(parent / f"step-{step:09}")


def _page(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _own_sum(body: Mapping[str, Any]) -> str:
    return sha256(_page(body)).hexdigest()


def _remove(folder: Path) -> None:
    """Take a checkpoint's name away before its files, so that none is ever seen without some of them."""
    trash = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(trash, ignore_errors=True)
    folder.rename(trash)
    failpoint("while-pruning")
    shutil.rmtree(trash, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Remove what a killed process left half-written or half-removed."""
    for path in parent.glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)


def steps(parent: Path) -> list[int]:
    """The steps that have a checkpoint, newest first."""
    found = (NAME.fullmatch(path.name) for path in parent.glob("step-*"))
    return sorted((int(match[1]) for match in found if match), reverse=True)


def newest(parent: Path) -> Checkpoint | None:
    """Load the newest whole checkpoint, saying which damaged ones were passed over; None if there never was one."""
    damaged = []
    for step in steps(parent):
        try:
            return load(parent, step)
        except InputError as error:
            damaged.append(step)
            print(f"WARNING: {error}; trying the checkpoint before it", file=sys.stderr, flush=True)
    if damaged:
        raise InputError(
            f"{parent}: none of the {len(damaged)} checkpoints is whole; --force begins the run anew"
        )
    return None


def load(parent: Path, step: int) -> Checkpoint:
    """Load one checkpoint; any difference to what was written, down to a bit, is an error."""
    folder = parent / f"step-{step:09}"
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
    tensors = {
        name.removesuffix(".safetensors"): load_file(folder / name)
        for name in sums
        if name.endswith(".safetensors")
    }
    return Checkpoint(step, tensors, state)


def _manifest(folder: Path, step: int) -> dict[str, tuple[int, str]]:
    path = folder / "manifest.json"
    page = files.read_json(path)
    body = {key: value for key, value in page.items() if key != "sha256"}
    if path.read_bytes() != _page(page) or page.get("sha256") != _own_sum(body):
        raise InputError(f"{path} was damaged after it was written")
    if page.get("format") != FORMAT or page.get("step") != step:
        raise InputError(
            f"{path} is of step {page.get('step')} and format {page.get('format')}, not of step {step} and format {FORMAT}"
        )
    return {name: (size, expected) for name, (size, expected) in page["files"].items()}


def bytes_of(tensors: Iterator[Tensor]) -> int:
    """What tensors take on disk."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def weights_of(module: torch.nn.Module) -> dict[str, Tensor]:
    """A module's parameters by name; one that is used in two places is there once."""
    return dict(module.named_parameters())
