"""The tensors of a folder's safetensors files, read with suspicion: shapes are known and checked before any is read."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from firth.base import files
from firth.base.errors import InputError
from firth.families.layout import Layout, modern, turned

WEIGHTS = "model.safetensors"
FLOATS = {"F64", "F32", "F16", "BF16"}
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
FRESH = {torch.Tensor.normal_, torch.Tensor.uniform_}


class Unfilled(TorchFunctionMode):
    """Leave tensors without memory as they are: drawing values for them would import torch's compiler, which takes seconds."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if getattr(func, "__module__", "") == "torch.nn.init" or func in FRESH:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


class Weights:
    """What a folder holds, and which of it was asked for."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self.folder, self.layout = folder, layout
        self.found: dict[
            str, tuple[Path, str, files.Tensor]
        ] = {}  # our spelling of their name -> where it is
        self.used: set[str] = set()
        for path in _weight_files(folder):
            for name, tensor in files.tensor_header(path).items():
                spelling = modern(name).removeprefix(layout.prefix)
                if spelling in self.found:
                    raise InputError(f"{path}: {name!r} occurs twice")
                self.found[spelling] = (path, name, tensor)

    def fill(self, model: nn.Module, sources: Mapping[str, tuple[str, ...]]) -> None:
        """Give a model without memory its weights."""
        sources = {
            name: tuple(self._known_as(source) for source in names)
            for name, names in sources.items()
        }
        self.require(source for names in sources.values() for source in names)
        expected = model.state_dict()
        for name, names in sources.items():
            self._check(names, expected[name])
        with torch.no_grad():
            state = {
                name: torch.cat([self._ours(source) for source in names])
                for name, names in sources.items()
            }
        model.load_state_dict(state, strict=False, assign=True)

    def require(self, sources: Iterable[str]) -> None:
        """Name the weights that the folder should have and lacks."""
        missing = [source for source in sources if source not in self.found]
        if missing:
            shown = ", ".join(missing[:5]) + (" ..." if len(missing) > 5 else "")
            raise InputError(f"{self.folder}: {len(missing)} weights are missing: {shown}")

    def arrays(self, kinds: set[str]) -> dict[str, NDArray[Any]]:
        """All tensors as they are, if they are of these kinds."""
        for path, name, tensor in self.found.values():
            if tensor.dtype not in kinds:
                raise InputError(
                    f"{path}: {name!r} holds {tensor.dtype}, not {' or '.join(sorted(kinds))}"
                )
        return {source: self._read(source).numpy() for source in self.found}

    def unused(self) -> tuple[str, ...]:
        """Names in the folder that nothing asked for, less the copies that older releases wrote."""
        return tuple(
            sorted(
                name
                for name in self.found
                if name not in self.used and not self.layout.spare.search(name)
            )
        )

    def _known_as(self, source: str) -> str:
        twin = self.layout.twins.get(source)
        return twin if twin in self.found and source not in self.found else source

    def _check(self, names: tuple[str, ...], ours: Tensor) -> None:
        for source in names:
            part = tuple(turned(self.layout, source, ours[: len(ours) // len(names)]).shape)
            path, name, tensor = self.found[source]
            if tensor.shape != part:
                raise InputError(
                    f"{path}: {name} has shape {list(tensor.shape)} where config.json asks for {list(part)}"
                )
            if ours.is_floating_point() and tensor.dtype not in FLOATS:
                raise InputError(f"{path}: {name} holds {tensor.dtype}, not floating-point numbers")
            if not ours.is_floating_point() and tensor.dtype != "I64":
                raise InputError(
                    f"{path}: {name} holds {tensor.dtype}, not whole numbers of eight bytes"
                )

    def _ours(self, source: str) -> Tensor:
        """A tensor in our shape and precision."""
        tensor = self._read(source)
        if tensor.is_floating_point():
            tensor = tensor.float()
        # A sum is quicker, and it is finite if all is.
        if not torch.isfinite(tensor.sum()) and not torch.isfinite(tensor).all():
            path, name, _ = self.found[source]
            raise InputError(f"{path}: {name} holds values that are not finite")
        return turned(self.layout, source, tensor).contiguous()

    def _read(self, source: str) -> Tensor:
        path, name, _ = self.found[source]
        self.used |= {source, self.layout.twins.get(source, source)}
        try:
            with safe_open(path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is damaged: {str(error).splitlines()[0]}") from error
        return tensor


def _weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    index = folder / f"{WEIGHTS}.index.json"
    if index.exists():
        table = files.read_json(index).get("weight_map")
        if not isinstance(table, dict) or not all(
            isinstance(v, str) and PLAIN_NAME.fullmatch(v) for v in table.values()
        ):
            raise InputError(f"{index}: weight_map must give plain file names")
        return [folder / name for name in sorted(set(table.values()))]
    with suppress(OSError):  # what can't be read is not what was asked for
        for path in sorted(folder.iterdir()):
            if path.is_file() and files.is_pickle(path):
                raise InputError(files.pickle_refusal(path))
    raise InputError(f"{folder} holds no {WEIGHTS}")
