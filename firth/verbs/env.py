"""Describe what this machine has and can do."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import torch

import firth
from firth.base.errors import InputError
from firth.base.threads import usual
from firth.folders.find import find
from firth.nn.linear import by_onednn

PACKAGES = (
    "torch",
    "tokenizers",
    "safetensors",
    "numpy",
    "pydantic",
    "typer",
    "scipy",
    "scikit-learn",
    "zstandard",
    "pyarrow",
    "onnxruntime",
)


class Environment(NamedTuple):
    """Versions, threads and devices of this machine, and whether the default encoder is there."""

    firth: str
    python: str
    system: str
    threads: int
    cpu: str  # the instructions that torch uses
    products: str  # the library that multiplies matrices
    devices: tuple[str, ...]
    minilm: str
    packages: dict[str, str | None]  # None where one is not installed


def env() -> Environment:
    """Return versions, threads, devices and whether the default encoder is there."""
    return Environment(
        firth=firth.__version__,
        python=platform.python_version(),
        system=platform.platform(),
        threads=usual(),
        cpu=torch.backends.cpu.get_cpu_capability(),
        products="oneDNN" if by_onednn() else "torch's own",
        devices=_devices(),
        minilm=_minilm(),
        packages={name: _version(name) for name in PACKAGES},
    )


def _devices() -> tuple[str, ...]:
    devices = ["cpu"]
    if torch.cuda.is_available():
        devices.append("cuda")
    if torch.backends.mps.is_available():
        devices.append("mps")
    return tuple(devices)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _minilm() -> str:
    """Say whether the default encoder is installed, or why not."""
    try:
        find("minilm")
    except InputError as error:
        return str(error)
    return "installed"
