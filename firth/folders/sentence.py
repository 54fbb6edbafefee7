"""What a sentence-transformers folder says about turning a text into one vector; tables, no I/O."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from firth.base.errors import InputError

OLD_MODES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
}


class Sentence(NamedTuple):
    """How a folder wants its texts embedded."""

    pooling: Literal["mean", "cls", "max"] = "mean"
    normalise: bool = False
    length: int | None = None  # tokens, where the folder asks for fewer than the model takes


def read_sentence(
    modules: list[Any], read: Callable[[str], dict[str, Any]], where: str
) -> Sentence:
    """Follow `modules.json`: an encoder, a pooling, perhaps a normalisation; `read` gives a named file, {} if absent."""
    kinds = []
    for module in modules:
        if (
            not isinstance(module, dict)
            or not isinstance(module.get("type"), str)
            or not isinstance(module.get("path"), str)
        ):
            raise InputError(f"{where}: each module needs a type and a path")
        kinds.append((module["type"].rpartition(".")[2], module["path"]))
    names = [kind for kind, _ in kinds]
    if names[:2] != ["Transformer", "Pooling"] or names[2:] not in ([], ["Normalize"]):
        raise InputError(
            f"{where}: Firth runs Transformer, Pooling and Normalize modules in this order, not {', '.join(names)}"
        )
    options = read("sentence_bert_config.json")
    if options.get("do_lower_case"):
        raise InputError(f"{where}: do_lower_case outside the tokenizer is not supported")
    if read("config_sentence_transformers.json").get("default_prompt_name"):
        raise InputError(f"{where}: a default prompt before every text is not supported")
    length = options.get("max_seq_length", read("tokenizer_config.json").get("model_max_length"))
    if length is not None and (
        isinstance(length, bool) or not isinstance(length, int | float) or not length > 2
    ):
        raise InputError(f"{where}: a maximum length of {length!r} tokens is not possible")
    length = None if length is None or length > 1 << 20 else int(length)
    return Sentence(
        _pooling(read(f"{kinds[1][1]}/config.json"), where), "Normalize" in names, length
    )


def _pooling(config: dict[str, Any], where: str) -> Literal["mean", "cls", "max"]:
    modes = {config["pooling_mode"]} if isinstance(config.get("pooling_mode"), str) else set()
    modes |= {
        OLD_MODES.get(key, key)
        for key, value in config.items()
        if key.startswith("pooling_mode_") and value is True
    }
    for mode in ("mean", "cls", "max"):
        if modes == {mode}:
            return mode
    raise InputError(
        f"{where}: Firth pools by mean, cls or max, not by {', '.join(sorted(modes)) or 'nothing'}"
    )


def write_sentence(sentence: Sentence, width: int, length: int) -> dict[str, Any]:
    """The files of a sentence-transformers folder beside the model's own, by name."""
    module = "sentence_transformers.models."
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    if sentence.normalise:
        modules.append(("2_Normalize", "Normalize"))
    return {
        "modules.json": [
            {"idx": i, "name": str(i), "path": path, "type": module + kind}
            for i, (path, kind) in enumerate(modules)
        ],
        "sentence_bert_config.json": {"max_seq_length": length, "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": width,
            **{key: mode == sentence.pooling for key, mode in OLD_MODES.items()},
        },
    }
