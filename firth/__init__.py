"""Firth turns text into a language model that you own."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firth.predict import load_predictor as load

__all__ = ["load"]
__version__ = "0.1.0"

_LAZY = {"load": ("firth.predict", "load_predictor")}  # nothing heavy is imported until it is used


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'firth' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)
