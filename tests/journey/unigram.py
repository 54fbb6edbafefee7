"""T5's own tokenizer over a few pieces, made from the samples, and the same as a file of SentencePiece."""

import json
import struct
from functools import cache
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import T5Tokenizer

from firth.samples.texts import TEXTS

SPECIAL = ["<pad>", "</s>", "<unk>"]
SENTINELS = 10
UNKNOWN, CONTROL, NORMAL = 2, 3, 1  # kinds of pieces in SentencePiece's files


@cache
def pieces() -> list[tuple[str, float]]:
    """Learned pieces with their log-probabilities, after the special ones."""
    library = Tokenizer(models.Unigram())
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    lines = [line for lines in TEXTS.values() for line in lines]
    trainer = trainers.UnigramTrainer(
        vocab_size=90, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False
    )
    library.train_from_iterator(lines, trainer)
    return [(piece, score) for piece, score in json.loads(library.to_str())["model"]["vocab"]]


def t5_tokenizer() -> T5Tokenizer:
    """Return it with sentinels after the pieces, the first of which is the last."""
    sentinels = [(f"<extra_id_{number}>", 0.0) for number in reversed(range(SENTINELS))]
    return T5Tokenizer(vocab=[*pieces(), *sentinels], extra_ids=SENTINELS)


def sentencepiece_model(path: Path) -> None:
    """Write the pieces as SentencePiece does: protocol buffers."""
    found = b""
    for piece, score in pieces():
        kind = NORMAL
        if piece in SPECIAL:
            kind = UNKNOWN if piece == "<unk>" else CONTROL
        body = _bytes(1, piece.encode()) + _key(2, 5) + struct.pack("<f", score)
        found += _bytes(1, body + _key(3, 0) + _number(kind))
    unigram = _key(3, 0) + _number(1)
    unknown = _key(40, 0) + _number(SPECIAL.index("<unk>"))
    found += _bytes(2, unigram + unknown)
    path.write_bytes(found)


def _number(value: int) -> bytes:
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def _key(field: int, wire: int) -> bytes:
    return _number(field << 3 | wire)


def _bytes(field: int, data: bytes) -> bytes:
    return _key(field, 2) + _number(len(data)) + data
