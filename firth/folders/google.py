"""Open a BERT as Google published it, a checkpoint of TensorFlow, as a bundle."""

from collections.abc import Iterable, Iterator
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from firth.base import files
from firth.base.errors import InputError
from firth.base.progress import Progress
from firth.data.record import listed
from firth.families.google import (
    BERT,
    CONFIG,
    HEADS,
    LAYOUT,
    VOCABULARY,
    body_names,
    head_of_checkpoint,
)
from firth.folders.bundle import Bundle, Unmatched
from firth.folders.read import parts_of
from firth.folders.tensorbundle import INDEX, OBJECTS, TensorBundle
from firth.folders.weights import Unfilled, Weights, use_threads
from firth.models.protocols import Encoder
from firth.tasks.head import make_head, tie
from firth.text.backend import read_vocab, vocab_backend
from firth.text.tokenizer import Tokenizer

Case = Literal["lower", "keep"]
CASED_SHARE = 0.01  # of the pieces of a cased vocabulary, far more have a capital letter


class GoogleModel(NamedTuple):
    """A checkpoint that was opened as a bundle, and what was decided on the way."""

    bundle: Bundle
    tensors: int  # that were read
    parameters: int  # numbers in them
    left_out: tuple[str, ...]  # tensors that have no place in the bundle
    ignored: int  # tensors that only training needs
    case: Case
    capitals: int  # pieces of the vocabulary with a capital letter


def is_checkpoint(given: Path) -> bool:
    """Say whether a file is the index of a checkpoint, or one of its others."""
    if given.name.endswith(INDEX) or given.with_name(given.name + INDEX).is_file():
        return True
    prefix, _, _ = given.name.rpartition(".")
    return bool(prefix) and given.with_name(prefix + INDEX).is_file()


def has_checkpoint(folder: Path) -> bool:
    """Say whether a folder holds a checkpoint."""
    return any(folder.glob(f"*{INDEX}"))


def find_checkpoint(given: Path) -> Path:
    """Return the prefix of a checkpoint's files, given it, its index, or its folder."""
    if given.is_file() and given.name.endswith(INDEX):
        return given.with_name(given.name.removesuffix(INDEX))
    if not given.is_dir():
        if given.with_name(given.name + INDEX).is_file():
            return given
        raise InputError(f"there is no folder and no checkpoint {str(given)!r}")
    indexes = given.glob(f"*{INDEX}")
    found = sorted(path.name.removesuffix(INDEX) for path in indexes)
    if not found:
        raise InputError(f"{given} holds no checkpoint of TensorFlow: no file ends in {INDEX}")
    if len(found) > 1:
        names = listed(found)
        example = given / found[-1]
        raise InputError(f"{given} holds several checkpoints ({names}): name one, as {example}")
    return given / found[0]


def open_checkpoint(prefix: Path, case: Case | None = None) -> GoogleModel:
    """Open a checkpoint, with the configuration and the vocabulary that stand beside it."""
    config = prefix.with_name(CONFIG)
    vocabulary = prefix.with_name(VOCABULARY)
    for path in (config, vocabulary):
        if not path.is_file():
            raise InputError(
                f"{path} is missing: it belongs beside the checkpoint, and for a fine-tuned one "
                "it is in the folder that training began with"
            )
    page = files.read_json(config)
    settings = BERT.read(page, str(config))
    pieces = read_vocab(vocabulary)
    capitals = _capitals(pieces)
    if case is None:
        case = "keep" if capitals > CASED_SHARE * len(pieces) else "lower"
    tokenizer = _tokenizer(vocabulary, case, settings.vocab)

    weights = CheckpointWeights(prefix)
    model, head, kind, labels = _fill(weights, settings)
    left_out = weights.unused()
    bundle = Bundle(
        model,
        tokenizer,
        BERT.model_type,
        kind,
        head,
        labels,
        unmatched=Unmatched((), left_out),
    )
    read = len(weights.used)
    ignored = len(weights.found) - read - len(left_out)
    parameters = 0
    for name in weights.used:
        _, _, tensor = weights.found[name]
        parameters += prod(tensor.shape)
    return GoogleModel(bundle, read, parameters, left_out, ignored, case, capitals)


class CheckpointWeights(Weights):
    """What a checkpoint holds, and which of it was asked for."""

    config = CONFIG

    def __init__(self, prefix: Path) -> None:
        self.checkpoint = TensorBundle(prefix)
        self.progress: Progress | None = None
        if OBJECTS in self.checkpoint.tensors:
            raise InputError(
                f"{prefix} was written by TensorFlow 2, under names of its own; "
                "Firth converts checkpoints of TensorFlow 1, as Google published BERT"
            )
        super().__init__(prefix, LAYOUT)

    def _stored(self) -> Iterator[tuple[Path, str, files.Tensor]]:
        for name, tensor in self.checkpoint.tensors.items():
            yield self.checkpoint.index, name, tensor

    def _value(self, path: Path, name: str) -> Tensor:
        tensor = self.checkpoint.read(name)
        if self.progress is not None:
            self.progress(len(self.used))
        return tensor


def _capitals(vocab: Iterable[str]) -> int:
    """Count the pieces with a capital letter, less special tokens as [CLS]."""
    words = [piece for piece in vocab if not piece.startswith("[")]
    return sum(word != word.lower() for word in words)


def _tokenizer(path: Path, case: Case, most: int) -> Tokenizer:
    """Return Google's tokenizer around a vocabulary.

    It parts Chinese characters; to lower the case strips accents too.
    """
    lower = case == "lower"
    backend = vocab_backend(path, lower, strip_accents=lower, chinese=True, names={})
    tokenizer = Tokenizer(backend, str(path), {})
    if tokenizer.size > most:
        has = f"{path} has {tokenizer.size} pieces"
        raise InputError(f"{has} where {CONFIG} has a vocab_size of {most}")
    return tokenizer


def _fill(
    weights: CheckpointWeights, settings: Any
) -> tuple[Encoder, nn.Module | None, str | None, tuple[str, ...]]:
    """Return the encoder and the head that a checkpoint has, with the head's kind and labels."""
    # What lacks a layer is refused before its other weights cost time.
    layers = [body_names(f"blocks.{number}.norm.weight") for number in range(settings.depth)]
    weights.require(chain.from_iterable(layers))

    shapes = {name: tensor.shape for name, (_, _, tensor) in weights.found.items()}
    kind, classes = head_of_checkpoint(shapes, settings.width)
    labels = tuple(f"LABEL_{number}" for number in range(classes))
    with torch.device("meta"), Unfilled():
        model: Encoder = BERT.network(settings)
        head = make_head(kind, model, labels)

    parts = parts_of(model, head, None)
    sources = _sources(parts, kind)
    total = sum(map(len, sources.values()))
    with use_threads(1), Progress("reading the checkpoint", "tensors", total) as progress:
        weights.progress = progress
        weights.fill(parts, sources)
        model.finish_loading()
    tie(head, model)
    parts.eval().requires_grad_(False)
    return model, head, kind, labels


def _sources(parts: nn.ModuleDict, kind: str | None) -> dict[str, tuple[str, ...]]:
    """Return for each of our tensors its names in a checkpoint; what is tied has none."""
    sources = {}
    for name in parts.state_dict():
        part, _, rest = name.partition(".")
        if part == "encoder":
            sources[name] = body_names(rest)
        elif kind is not None and rest in HEADS[kind]:
            sources[name] = (HEADS[kind][rest],)
    return sources
