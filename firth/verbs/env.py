"""What this machine has and can do."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

import firth
from firth.base.errors import InputError
from firth.base.threads import available
from firth.folders.bundle import find
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


def describe() -> dict[str, Any]:
    """Versions, threads, devices and whether the default encoder is there."""
    return {
        "firth": firth.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "threads": available(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "products": "oneDNN" if by_onednn() else "torch's own",
        "devices": [
            "cpu",
            *(["cuda"] if torch.cuda.is_available() else []),
            *(["mps"] if torch.backends.mps.is_available() else []),
        ],
        "minilm": _minilm(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _minilm() -> str:
    try:
        find("minilm")
    except InputError as error:
        return str(error)
    return "installed"


def print_env(as_json: bool = False) -> None:
    """Print it, for a person or for a program."""
    facts = describe()
    if as_json:
        print(json.dumps(facts))
        return
    packages = facts.pop("packages")
    rows = {
        **{
            key: ", ".join(value) if isinstance(value, list) else value
            for key, value in facts.items()
        },
        **packages,
    }
    for key, value in rows.items():
        print(f"{key:14} {value if value is not None else 'not installed'}")
