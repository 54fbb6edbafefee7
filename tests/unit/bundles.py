"""Writes TensorFlow's checkpoints, format V2, by the description of the format, and small BERTs in it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
MAGIC = 0xDB4775248B80FB57
DTYPES = {"f4": 1, "f8": 2, "i4": 3, "i8": 9, "f2": 19}
CASED = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "[unused0]",
    "The",
    "cat",
    "##s",
    "é",
    "café",
    "Paris",
    "中",
    ".",
]
UNCASED = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "[unused0]",
    "the",
    "cat",
    "##s",
    "e",
    "cafe",
    "paris",
    "中",
    ".",
]
CONFIG = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 16,
    "initializer_range": 0.02,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": len(UNCASED),
}  # fmt: skip


def _table() -> list[int]:
    found = []
    for byte in range(256):
        state = byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
        found.append(state)
    return found


TABLE = _table()


def crc(data: bytes) -> int:
    """The crc32c of some bytes, one by one."""
    state = 0xFFFFFFFF
    for byte in data:
        state = TABLE[(state ^ byte) & 0xFF] ^ state >> 8
    return state ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    plain = crc(data)
    return ((plain >> 15 | plain << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number: int) -> bytes:
    """Seven bits a byte; below 0 as two's complement of 64 bits."""
    number %= 1 << 64
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def numbered(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value) if value else b""


def nested(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def entry(
    dtype: int, shape: Sequence[int], shard: int = 0, offset: int = 0, size: int = 0, check: int = 0,
    slices: Sequence[Sequence[tuple[int, int] | None]] = (),
) -> bytes:  # fmt: skip
    """A BundleEntryProto."""
    dims = b"".join(nested(2, numbered(1, n)) for n in shape)
    found = numbered(1, dtype) + nested(2, dims) + numbered(3, shard) + numbered(4, offset)
    found += numbered(5, size) + varint(6 << 3 | 5) + check.to_bytes(4, "little")
    for part in slices:
        extents = [
            b"" if one is None else numbered(1, one[0]) + varint(2 << 3) + varint(one[1])
            for one in part
        ]
        found += nested(7, b"".join(nested(1, extent) for extent in extents))
    return found


def header(shards: int, endianness: int = 0) -> bytes:
    """A BundleHeaderProto."""
    return numbered(1, shards) + numbered(2, endianness) + nested(3, numbered(1, 1))


def block(pairs: Sequence[tuple[bytes, bytes]], interval: int = 16) -> bytes:
    """A block: each key without what it shares with the one before it, but at restart points."""
    found = b""
    restarts = []
    before = b""
    for number, (key, value) in enumerate(pairs):
        shared = 0
        if number % interval == 0:
            restarts.append(len(found))
        else:
            while shared < min(len(key), len(before)) and key[shared] == before[shared]:
                shared += 1
        found += (
            varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        )
        before = key
    restarts = restarts or [0]
    return found + b"".join(n.to_bytes(4, "little") for n in [*restarts, len(restarts)])


def table(
    pairs: Mapping[bytes, bytes], per_block: int = 1000, interval: int = 16, kind: int = 0
) -> bytes:
    """A sorted string table; `kind` is what each block says of its compression."""
    found = b""

    def add(content: bytes) -> bytes:
        nonlocal found
        handle = varint(len(found)) + varint(len(content))
        found += content + bytes([kind]) + masked(content + bytes([kind])).to_bytes(4, "little")
        return handle

    ordered = sorted(pairs.items())
    index = []
    for begin in range(0, len(ordered), per_block):
        group = ordered[begin : begin + per_block]
        index.append((group[-1][0], add(block(group, interval))))
    handles = add(block([])) + add(block(index, 1))
    return found + handles.ljust(40, b"\0") + MAGIC.to_bytes(8, "little")


def ordered_number(number: int) -> bytes:
    """A number from -64 to 8191 so that bytes sort as numbers do."""
    if -64 <= number < 64:
        return bytes([0x80 ^ number & 0xFF])
    return (0xC000 | number).to_bytes(2, "big")


def part_key(name: str, part: Sequence[tuple[int, int] | None]) -> bytes:
    """The key of a slice of a tensor."""
    key = b"\0" + name.encode() + b"\0\1" + bytes([1, len(part)])
    for one in part:
        start, length = one or (0, -1)
        key += ordered_number(start) + ordered_number(length)
    return key


def write_bundle(
    prefix: Path, tensors: Mapping[str, Array], shards: int = 1, per_block: int = 1000, interval: int = 16,
    cut: Mapping[str, tuple[int, int]] | None = None, extra: Mapping[bytes, bytes] | None = None,
) -> dict[bytes, bytes]:  # fmt: skip
    """Write a checkpoint and return its index; `cut` maps a name to a dimension and where it is cut in two."""
    data = [bytearray() for _ in range(shards)]
    pairs = {b"": header(shards)}

    def add(key: bytes, array: Array) -> None:
        shard = len(pairs) % shards
        content = array.tobytes()
        pairs[key] = entry(
            DTYPES[array.dtype.str[1:]],
            array.shape,
            shard,
            len(data[shard]),
            len(content),
            masked(content),
        )
        data[shard] += content

    for name, array in tensors.items():
        if name not in (cut or {}):
            add(name.encode(), array)
            continue
        axis, at = cut[name]
        slices = []
        for begin, end in ((0, at), (at, array.shape[axis])):
            part = [None] * array.ndim
            part[axis] = (begin, end - begin)
            slices.append(part)
            place = [slice(None)] * array.ndim
            place[axis] = slice(begin, end)
            add(part_key(name, part), array[tuple(place)])
        pairs[name.encode()] = entry(DTYPES[array.dtype.str[1:]], array.shape, slices=slices)
    pairs |= extra or {}
    prefix.parent.mkdir(parents=True, exist_ok=True)
    prefix.with_name(f"{prefix.name}.index").write_bytes(table(pairs, per_block, interval))
    for number, content in enumerate(data):
        prefix.with_name(f"{prefix.name}.data-{number:05d}-of-{shards:05d}").write_bytes(content)
    return pairs


def bert_shapes(
    head: str | None = "pretrain", classes: int = 3, **sizes: int
) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a BERT as Google's program has them."""
    s: dict[str, Any] = CONFIG | sizes
    v, d, inner = s["vocab_size"], s["hidden_size"], s["intermediate_size"]
    found: dict[str, tuple[int, ...]] = {
        "bert/embeddings/word_embeddings": (v, d),
        "bert/embeddings/position_embeddings": (s["max_position_embeddings"], d),
        "bert/embeddings/token_type_embeddings": (s["type_vocab_size"], d),
    }
    dense = {"bert/pooler/dense": (d, d)}
    norms = ["bert/embeddings/LayerNorm"]
    for number in range(s["num_hidden_layers"]):
        layer = f"bert/encoder/layer_{number}"
        for part in ("self/query", "self/key", "self/value", "output/dense"):
            dense[f"{layer}/attention/{part}"] = (d, d)
        dense |= {f"{layer}/intermediate/dense": (d, inner), f"{layer}/output/dense": (inner, d)}
        norms += [f"{layer}/attention/output/LayerNorm", f"{layer}/output/LayerNorm"]
    if head in ("pretrain", "fill"):
        dense["cls/predictions/transform/dense"] = (d, d)
        norms.append("cls/predictions/transform/LayerNorm")
        found["cls/predictions/output_bias"] = (v,)
    if head == "pretrain":
        found |= {
            "cls/seq_relationship/output_weights": (2, d),
            "cls/seq_relationship/output_bias": (2,),
        }
    if head == "classify":
        found |= {"output_weights": (classes, d), "output_bias": (classes,)}
    if head == "answer":
        found |= {"cls/squad/output_weights": (2, d), "cls/squad/output_bias": (2,)}
    for name, shape in dense.items():
        found |= {f"{name}/kernel": shape, f"{name}/bias": shape[1:]}
    for name in norms:
        found |= {f"{name}/gamma": (d,), f"{name}/beta": (d,)}
    return found


def bert_arrays(head: str | None = "pretrain", seed: int = 0, **sizes: int) -> dict[str, Array]:
    """The same with values, none of which is as it was born."""
    draw = np.random.default_rng(seed)
    shapes = bert_shapes(head, **sizes)
    return {name: draw.normal(scale=0.4, size=shape).astype("f4") for name, shape in shapes.items()}


def moments(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """What an optimizer adds to a checkpoint."""
    found: dict[str, Array] = {"global_step": np.array(7, "i8")}
    for name, array in arrays.items():
        found |= {f"{name}/adam_m": array * 0, f"{name}/adam_v": array * 0}
    return found


def write_bert(
    folder: Path, arrays: Mapping[str, Array], pieces: Sequence[str] = UNCASED, name: str = "bert_model.ckpt",
    config: Mapping[str, Any] = CONFIG, **options: Any,
) -> Path:  # fmt: skip
    """Write a folder as Google published it, and return it."""
    write_bundle(folder / name, arrays, **options)
    (folder / "bert_config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    return folder
