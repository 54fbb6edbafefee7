"""What a sentence-transformers folder says about turning a text into one vector; tables, no I/O."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from firth.base.errors import InputError

OLD_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
}
RUN = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
UNLIMITED = 1 << 20  # tokens: tokenizers write a far larger number where there is no limit


class Sentence(NamedTuple):
    """How a folder wants its texts embedded."""

    pooling: Literal["mean", "cls", "max"] = "mean"
    normalise: bool = False
    length: int | None = None  # tokens, where the folder asks for fewer than the model takes


def read_sentence(
    modules: list[Any], read: Callable[[str], dict[str, Any]], where: str
) -> Sentence:
    """Follow `modules.json`: an encoder, a pooling, perhaps a normalisation.

    `read` gives the content of a named file, {} if there is none.
    """
    names = []
    paths = []
    for module in modules:
        page = module if isinstance(module, dict) else {}
        kind = page.get("type")
        path = page.get("path")
        if not isinstance(kind, str) or not isinstance(path, str):
            raise InputError(f"{where}: each module needs a type and a path")
        names.append(kind.rpartition(".")[2])
        paths.append(path)
    if names not in RUN:
        wanted = "Transformer, Pooling and Normalize modules in this order"
        raise InputError(f"{where}: Firth runs {wanted}, not {', '.join(names)}")
    options = read("sentence_bert_config.json")
    if options.get("do_lower_case"):
        raise InputError(f"{where}: do_lower_case outside the tokenizer is not supported")
    if read("config_sentence_transformers.json").get("default_prompt_name"):
        raise InputError(f"{where}: a default prompt before every text is not supported")
    tokenizer = read("tokenizer_config.json")
    length = _length(options.get("max_seq_length", tokenizer.get("model_max_length")), where)
    pooling = _pooling(read(f"{paths[1]}/config.json"), where)
    return Sentence(pooling, "Normalize" in names, length)


def _length(value: Any, where: str) -> int | None:
    """Return the most tokens of a text; None where there is no limit."""
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not value > 2:
        raise InputError(f"{where}: a maximum length of {value!r} tokens is not possible")
    if value > UNLIMITED:
        return None
    return int(value)


def _pooling(config: dict[str, Any], where: str) -> Literal["mean", "cls", "max"]:
    """Return the one pooling that is asked for, in the present or the older spelling."""
    modes = set()
    if isinstance(config.get("pooling_mode"), str):
        modes.add(config["pooling_mode"])
    for key, value in config.items():
        if key.startswith("pooling_mode_") and value is True:
            modes.add(OLD_MODES.get(key, key))
    for mode in ("mean", "cls", "max"):
        if modes == {mode}:
            return mode
    asked = ", ".join(sorted(modes)) or "nothing"
    raise InputError(f"{where}: Firth pools by mean, cls or max, not by {asked}")


def write_sentence(sentence: Sentence, width: int, length: int | None) -> dict[str, Any]:
    """Return the files of a sentence-transformers folder beside the model's own, by name."""
    modules = [_module(0, "", "Transformer"), _module(1, "1_Pooling", "Pooling")]
    if sentence.normalise:
        modules.append(_module(2, "2_Normalize", "Normalize"))
    pooling: dict[str, Any] = {"word_embedding_dimension": width}
    for key, mode in OLD_MODES.items():
        pooling[key] = mode == sentence.pooling
    return {
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": length, "do_lower_case": False},
        "1_Pooling/config.json": pooling,
    }


def _module(number: int, path: str, kind: str) -> dict[str, Any]:
    """Return one entry of modules.json."""
    return {
        "idx": number,
        "name": str(number),
        "path": path,
        "type": f"sentence_transformers.models.{kind}",
    }
