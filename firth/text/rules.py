"""The rules of a WordPiece tokenizer as plain data, for what runs without the library."""

from typing import Any, Literal, NamedTuple

from firth.base.errors import InputError
from firth.text.tokenizer import Tokenizer

Step = Literal["clean", "ideographs", "accents", "lower", "nfc"]
WHAT_WORKS = "only WordPiece with BERT's rules can, as firth vocab writes it"
PLAIN = ("single_word", "lstrip", "rstrip", "normalized")  # of an added token, all false


class WordPieceRules(NamedTuple):
    """All that decides which pieces a text has."""

    pieces: list[str]  # by their ids
    steps: list[Step]  # of the normaliser, in their order
    prefix: str  # of a piece inside a word
    longest: int  # characters of a word that is looked up
    unknown: int
    special: dict[str, int]  # tokens that are found in a text before all else
    before: list[int]  # ids that are put around a text
    after: list[int]


def wordpiece_rules(tokenizer: Tokenizer) -> WordPieceRules:
    """Return the rules of a tokenizer; rules that aren't BERT's are refused by their names."""
    rules = tokenizer.rules
    model = rules["model"]
    _refuse_other("model", model, {"WordPiece"})
    _refuse_other("pre_tokenizer", rules["pre_tokenizer"], {"BertPreTokenizer"})
    special = {}
    for token in rules["added_tokens"]:
        if any(token[flag] for flag in PLAIN):
            raise _refusal(f"a token {token['content']!r} that takes more than its own characters")
        special[token["content"]] = token["id"]

    (around,) = tokenizer.encode(["a"])
    first = around.parts.index(0)
    owned = zip(around.ids, around.parts, strict=True)
    outside = [token for token, part in owned if part is None]
    return WordPieceRules(
        pieces=[tokenizer.piece(number) for number in range(tokenizer.size)],
        steps=_steps(rules["normalizer"]),
        prefix=model["continuing_subword_prefix"],
        longest=model["max_input_chars_per_word"],
        unknown=model["vocab"][model["unk_token"]],
        special=special,
        before=outside[:first],
        after=outside[first:],
    )


def _steps(normalizer: dict[str, Any] | None) -> list[Step]:
    """Return the steps of a normaliser."""
    if normalizer is None:
        return []
    _refuse_other("normalizer", normalizer, {"BertNormalizer", "NFC", "Sequence"})
    if normalizer["type"] == "Sequence":
        return [step for one in normalizer["normalizers"] for step in _steps(one)]
    if normalizer["type"] == "NFC":
        return ["nfc"]
    strips = normalizer["strip_accents"]
    if strips is None:
        strips = normalizer["lowercase"]
    wanted: dict[Step, bool] = {
        "clean": normalizer["clean_text"],
        "ideographs": normalizer["handle_chinese_chars"],
        "accents": strips,
        "lower": normalizer["lowercase"],
    }
    return [step for step, done in wanted.items() if done]


def _refuse_other(part: str, rule: dict[str, Any] | None, known: set[str]) -> None:
    """Refuse a rule of another type."""
    kind = rule["type"] if rule else "nothing"
    if kind not in known:
        raise _refusal(f"{kind} as its {part}")


def _refusal(what: str) -> InputError:
    return InputError(f"a page can't run this model's tokenizer, which has {what}: {WHAT_WORKS}")
