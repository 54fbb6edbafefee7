"""The tensors of a folder's safetensors files: shapes are checked before any is read."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from firth.base import files
from firth.base.errors import InputError
from firth.families.layout import (
    HeadRecord,
    Layout,
    body_sources,
    encoder_sources,
    head_source,
    modern,
)
from firth.folders.find import PLAIN_NAME, WEIGHTS
from firth.models.protocols import Network

SHOWN = 5  # names in a message
TIED = ("masked.table", "table")  # of heads over the vocabulary: what may be the embedding's
FLOATS = {"F64", "F32", "F16", "BF16"}
FRESH = {torch.Tensor.normal_, torch.Tensor.uniform_}


@contextmanager
def use_threads(threads: int | None) -> Iterator[None]:
    """Let torch use so many threads in here; None leaves the number as it is."""
    before = torch.get_num_threads()
    # To change the number has a price: torch starts a pool of its own anew.
    if threads is None or threads == before:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def turned(layout: Layout, source: str, tensor: Tensor) -> Tensor:
    """Return a tensor of theirs as ours, and the other way round."""
    if layout.transposed.search(source):
        return tensor.t()
    return tensor


def to_theirs(layout: Layout, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a network's tensors under their names and in their shapes, without a prefix."""
    found = {}
    for name, tensor in tensors.items():
        sources = body_sources(layout, name)
        parts: Sequence[Tensor] = [tensor]
        if len(sources) > 1:
            parts = tensor.chunk(len(sources))
        for source, part in zip(sources, parts, strict=True):
            theirs = turned(layout, source, part)
            found[source] = theirs.contiguous()
    return found


def sources_of(
    parts: nn.ModuleDict, layout: Layout, head: HeadRecord
) -> dict[str, tuple[str, ...]]:
    """Return for each of our tensors the names that it has in a folder, without a prefix.

    What is one tensor with another has none.
    """
    body = parts["encoder"]
    assert isinstance(body, Network)
    saved = set(body.saved_tensors())
    sources = {}
    for name in parts.state_dict():
        part, _, rest = name.partition(".")
        if part == "encoder":
            if rest in saved:
                sources[name] = encoder_sources(layout, head, rest)
        elif head.tied and rest in TIED:
            continue
        elif head.own:
            sources[name] = (f"firth.{name}",)
        elif head.kind is not None:
            sources[name] = (head_source(layout, head.kind, rest, head.tied),)
    return sources


class Unfilled(TorchFunctionMode):
    """Leave tensors without memory as they are.

    Drawing values for them would import torch's compiler, which takes seconds.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        draws = getattr(func, "__module__", "") == "torch.nn.init" or func in FRESH
        if draws:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


class Weights:
    """What a folder holds, and which of it was asked for."""

    config = "config.json"  # what asks for shapes

    def __init__(self, folder: Path, layout: Layout) -> None:
        self.folder = folder
        self.layout = layout
        # Our spelling of their name -> where it is.
        self.found: dict[str, tuple[Path, str, files.Tensor]] = {}
        self.used: set[str] = set()
        for path, name, tensor in self._stored():
            spelling = modern(name).removeprefix(layout.prefix)
            if spelling in self.found:
                raise InputError(f"{path}: {name!r} occurs twice")
            self.found[spelling] = (path, name, tensor)

    def _stored(self) -> Iterator[tuple[Path, str, files.Tensor]]:
        """Yield each tensor that the folder holds: its file, its name and its shape."""
        for path in _weight_files(self.folder):
            for name, tensor in files.tensor_header(path).items():
                yield path, name, tensor

    def fill(self, model: nn.Module, sources: Mapping[str, tuple[str, ...]]) -> None:
        """Give a model without memory its weights."""
        known: dict[str, list[str]] = {}
        for name, theirs in sources.items():
            known[name] = [self._known_as(source) for source in theirs]
        self.require(chain.from_iterable(known.values()))

        # All shapes are checked before any tensor is read, which may take long.
        expected = model.state_dict()
        for name, names in known.items():
            self._check(names, expected[name])
        state = {}
        with torch.no_grad():
            for name, names in known.items():
                state[name] = torch.cat([self._ours(source) for source in names])
        model.load_state_dict(state, strict=False, assign=True)

    def require(self, sources: Iterable[str]) -> None:
        """Name the weights that the folder should have and lacks."""
        missing = [source for source in sources if source not in self.found]
        if not missing:
            return
        count = len(missing)
        shown = ", ".join(missing[:SHOWN])
        if count > SHOWN:
            shown += " ..."
        raise InputError(f"{self.folder}: {count} weights are missing: {shown}")

    def arrays(self, kinds: Collection[str]) -> dict[str, NDArray[Any]]:
        """Return all tensors as they are, if they are of these kinds."""
        for path, name, tensor in self.found.values():
            if tensor.dtype not in kinds:
                wanted = " or ".join(sorted(kinds))
                raise InputError(f"{path}: {name!r} holds {tensor.dtype}, not {wanted}")
        return {source: self._read(source).numpy() for source in self.found}

    def unused(self) -> tuple[str, ...]:
        """Return what nothing asked for, less the copies that older releases wrote."""
        unasked = self.found.keys() - self.used
        names = [name for name in unasked if not self.layout.spare.search(name)]
        return tuple(sorted(names))

    def _known_as(self, source: str) -> str:
        """Return the name that the folder has for a tensor: its own, or its twin's."""
        if source in self.found:
            return source
        twin = self.layout.twins.get(source)
        if twin is not None and twin in self.found:
            return twin
        return source

    def _check(self, names: Sequence[str], ours: Tensor) -> None:
        """Refuse tensors that don't make up one of ours, by their shapes and types."""
        size = len(ours) // len(names)
        part = ours[:size]
        for source in names:
            path, name, tensor = self.found[source]
            shape = tuple(turned(self.layout, source, part).shape)
            if tensor.shape != shape:
                has = f"{name} has shape {list(tensor.shape)}"
                raise InputError(f"{path}: {has} where {self.config} asks for {list(shape)}")

            wanted = None
            if ours.is_floating_point():
                if tensor.dtype not in FLOATS:
                    wanted = "floating-point numbers"
            elif tensor.dtype != "I64":
                wanted = "whole numbers of eight bytes"
            if wanted:
                raise InputError(f"{path}: {name} holds {tensor.dtype}, not {wanted}")

    def _ours(self, source: str) -> Tensor:
        """Return a tensor in our shape and precision."""
        tensor = self._read(source)
        if tensor.is_floating_point():
            tensor = tensor.float()
        # A sum is quicker, and it is finite if all is.
        if not torch.isfinite(tensor.sum()) and not torch.isfinite(tensor).all():
            path, name, _ = self.found[source]
            raise InputError(f"{path}: {name} holds values that are not finite")
        return turned(self.layout, source, tensor).contiguous()

    def _read(self, source: str) -> Tensor:
        """Return a tensor as it is stored; its twin counts as used too."""
        path, name, _ = self.found[source]
        twin = self.layout.twins.get(source, source)
        self.used |= {source, twin}
        return self._value(path, name)

    def _value(self, path: Path, name: str) -> Tensor:
        """Return the value of a tensor of a file."""
        try:
            with safe_open(path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
        except (SafetensorError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{path} is damaged: {reason}") from error
        return tensor


def _weight_files(folder: Path) -> list[Path]:
    """Return the files that hold a folder's tensors: one, or those that its index names."""
    whole = folder / WEIGHTS
    if whole.exists():
        return [whole]
    index = folder / f"{WEIGHTS}.index.json"
    if index.exists():
        table = files.read_json(index).get("weight_map")
        names = table.values() if isinstance(table, dict) else [None]
        for name in names:
            # A path that leads out of the folder could name any file of the machine.
            if not isinstance(name, str) or not PLAIN_NAME.fullmatch(name):
                raise InputError(f"{index}: weight_map must give plain file names")
        return [folder / name for name in sorted(set(names))]
    with suppress(OSError):  # what can't be read is not what was asked for
        for path in sorted(folder.iterdir()):
            if path.is_file() and files.is_pickle(path):
                raise InputError(files.pickle_refusal(path))
    raise InputError(f"{folder} holds no {WEIGHTS}")
