"""64-bit hashes of the texts that a model was trained on, in a file beside its weights."""

from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from firth.base.errors import InputError
from firth.base.files import tensor_header, write_arrays
from firth.data.examples import Example
from firth.reading.split import words_of

TRAINED = "trained.safetensors"
NAME = "texts"  # of the one tensor in it
Hashes = NDArray[np.int64]  # in order, each once


def text_hash(example: Example) -> int:
    """Return 64 bits that tell a text, or a pair, from others, whatever its white space."""
    plain = "\0".join(words_of(example))
    return int.from_bytes(blake2b(plain.encode(), digest_size=8).digest(), "little", signed=True)


def write_trained(path: Path, examples: Iterable[Example], before: Hashes | None = None) -> None:
    """Write the hashes of examples, and those of what the model was trained on before."""
    fresh = np.fromiter((text_hash(example) for example in examples), np.int64)
    write_arrays(path, {NAME: np.union1d(fresh, fresh[:0] if before is None else before)})


def read_trained(folder: Path) -> Hashes | None:
    """Read the hashes of a model's folder, if it has some."""
    path = folder / TRAINED
    if not path.exists():
        return None
    header = tensor_header(path)
    found = [(name, tensor.dtype, len(tensor.shape)) for name, tensor in header.items()]
    if found != [(NAME, "I64", 1)]:
        raise InputError(f"{path} is damaged: it must hold one row of whole numbers, {NAME}")
    try:
        with safe_open(path, framework="np") as file:
            hashes: Hashes = file.get_tensor(NAME)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged: {str(error).splitlines()[0]}") from error
    if not (hashes[1:] > hashes[:-1]).all():
        raise InputError(f"{path} is damaged: its hashes are not in order")
    return hashes


def was_trained_on(hashes: Hashes, example: Example) -> bool:
    """Return whether a text is among those that a model was trained on."""
    wanted = text_hash(example)
    at = int(np.searchsorted(hashes, wanted))
    return at < len(hashes) and int(hashes[at]) == wanted
