"""Firth turns text into a language model that you own."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firth.base.errors import FirthError, FirthWarning, InputError
    from firth.predictor import load_predictor as load
    from firth.verbs.evaluate import evaluate
    from firth.verbs.finetune import finetune
    from firth.verbs.pretrain import pretrain
    from firth.verbs.vocab import learn_vocab as vocab

__all__ = [
    "FirthError",
    "FirthWarning",
    "InputError",
    "evaluate",
    "finetune",
    "load",
    "pretrain",
    "vocab",
]
__version__ = "0.1.0"

# Nothing heavy is imported until it is used.
_LAZY = {
    "FirthError": ("firth.base.errors", "FirthError"),
    "FirthWarning": ("firth.base.errors", "FirthWarning"),
    "InputError": ("firth.base.errors", "InputError"),
    "evaluate": ("firth.verbs.evaluate", "evaluate"),
    "finetune": ("firth.verbs.finetune", "finetune"),
    "load": ("firth.predictor", "load_predictor"),
    "pretrain": ("firth.verbs.pretrain", "pretrain"),
    "vocab": ("firth.verbs.vocab", "learn_vocab"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'firth' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
