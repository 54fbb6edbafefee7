"""TensorFlow's checkpoints: what was written is read to the bit, and what is damaged is refused by name."""

import random
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from firth.base.errors import InputError
from firth.folders.crc import ROW, crc32c, masked_crc32c
from firth.folders.google import open_checkpoint
from firth.folders.tensorbundle import TensorBundle, slice_key
from tests.conftest import count
from tests.unit.bundles import (
    CONFIG,
    bert_arrays,
    entry,
    header,
    masked,
    moments,
    part_key,
    table,
    write_bert,
    write_bundle,
)
from tests.unit.bundles import crc as plain_crc

SECONDS = 5
ROOM = 64 << 20  # bytes; the files have a few thousand


def test_crc32c_is_the_published_one(seed: int) -> None:
    # Examples of RFC 3720, B.4.
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"123456789") == 0xE3069283
    draw = random.Random(seed)
    for size in (0, 1, 4 * ROW - 1, 4 * ROW, 4 * ROW + 1, 12 * ROW + 5, draw.randrange(20 * ROW)):
        data = draw.randbytes(size)
        assert crc32c(data) == plain_crc(data), size
        assert crc32c(bytearray(data)) == plain_crc(data)
        assert masked_crc32c(data) == masked(data)


@pytest.mark.parametrize("layout", [{}, {"per_block": 3, "interval": 2}, {"per_block": 1}, {"shards": 3}, {"interval": 1}])  # fmt: skip
def test_every_tensor_comes_back_to_the_bit(tmp_path: Path, layout: dict[str, int]) -> None:
    draw = np.random.default_rng(0)
    arrays = bert_arrays() | {
        "scalar": np.array(3.5, "f4"),
        "empty": np.zeros((0, 4), "f4"),
        "step": np.array(1 << 40, "i8"),
        "whole": np.arange(-3, 4, dtype="i4"),
        "double": draw.normal(size=(2, 3, 4)),
        "half": draw.normal(size=7).astype("f2"),
        "odd \u00e9 name": draw.normal(size=(5,)).astype("f4"),
    }
    write_bundle(tmp_path / "m.ckpt", arrays, **layout)
    bundle = TensorBundle(tmp_path / "m.ckpt")
    assert set(bundle.tensors) == set(arrays)
    for name, array in arrays.items():
        found = bundle.read(name).numpy()
        assert found.shape == array.shape
        assert found.dtype == array.dtype
        assert found.tobytes() == array.tobytes()
        assert bundle.tensors[name].shape == array.shape


@pytest.mark.parametrize("axis", [0, 1])
def test_partitioned_tensors_are_joined(tmp_path: Path, axis: int) -> None:
    wide = np.random.default_rng(0).normal(size=(200, 300)).astype("f4")
    arrays = {"a": wide, "b/part": wide[:9, :7].copy(), "c": wide[0]}
    cut = {"a": (axis, 130), "b/part": (axis, 2), "c": (0, 64)}
    write_bundle(tmp_path / "m", arrays, 2, cut=cut)
    bundle = TensorBundle(tmp_path / "m")
    assert set(bundle.tensors) == set(arrays)
    for name, array in arrays.items():
        assert bundle.read(name).numpy().tobytes() == array.tobytes()


def test_keys_of_slices_sort_as_numbers_do() -> None:
    assert slice_key("a", ()) == b"\0a\0\1\0"
    numbers = [0, 1, 63, 64, 8191, 8192, 1 << 20, (1 << 27) - 1, 1 << 40, (1 << 62) + 5]
    from firth.folders.tensorbundle import Extent

    keys = [slice_key("a", (Extent(number, -1),)) for number in numbers]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)
    for number in numbers[:5]:
        assert slice_key("n", (Extent(number, 3),)) == part_key("n", [(number, 3)])
    # 2**20 takes three bytes and its first bits say so: 1110.
    assert slice_key("", (Extent(1 << 19, 0),))[5:] == bytes([0xE8, 0, 0, 0x80])


def small(prefix: Path) -> dict[bytes, bytes]:
    """A checkpoint of two tensors, and its index."""
    arrays = {"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.ones(4, "f4")}
    return write_bundle(prefix, arrays)


WRONG: dict[str, tuple[dict[bytes, bytes | None], str]] = {
    "no header": ({b"": None}, "it has no header"),
    "no data files": ({b"": header(0)}, "0 as the number of its data files"),
    "countless data files": ({b"": header(1 << 30)}, "as the number of its data files"),
    "big-endian": ({b"": header(1, 1)}, "big-endian"),
    "another file": ({b"a": entry(1, (2, 3), 1, 0, 24)}, "in a file that there is not"),
    "beyond the file": ({b"b": entry(1, (4,), 0, 38, 16)}, "is cut off: it has 40 bytes where its index needs at least 54"),
    "huge": ({b"b": entry(1, (1 << 20, 1 << 20), 0, 24, 1 << 42)}, "is cut off"),
    "impossible": ({b"a": entry(1, (1 << 62,), 0, 0, 1 << 63)}, "an impossible size"),
    "negative": ({b"a": entry(1, (-2, -3), 0, 0, 24)}, "an impossible size"),
    "negative offset": ({b"a": entry(1, (2, 3), 0, -8, 24)}, "an impossible size"),
    "other size": ({b"a": entry(1, (2, 3), 0, 0, 20)}, "a tensor of shape [2, 3] has 20 bytes"),
    "overlap": ({b"c": entry(1, (4,), 0, 8, 16)}, "its tensors overlap"),
    "many dimensions": ({b"a": entry(1, (1,) * 9, 0, 0, 4)}, "9 dimensions"),
    "cut entry": ({b"a": entry(1, (2, 3), 0, 0, 24)[:-2]}, "cut off"),
    "no protobuf": ({b"a": b"\x0b\xff\xff"}, "a field of the unknown kind 3"),
    "endless number": ({b"a": b"\x08" + b"\xff" * 12}, "a number has no end"),
    "message for a number": ({b"a": b"\x0a\x01a"}, "field 1 of an entry is no number"),
    "number for a message": ({b"a": b"\x10\x01"}, "field 2 of an entry is no message"),
    "no text": ({b"\xff\xfe": entry(1, (0,))}, "utf-8"),
    "a long key": ({b"k" * 1025: entry(1, (0,))}, "a key is longer"),
    "a long value": ({b"k": bytes(70_000)}, "a value is longer"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_an_index_that_contradicts_itself_is_refused(tmp_path: Path, case: str) -> None:
    prefix = tmp_path / "m.ckpt"
    pairs: dict[bytes, bytes | None] = dict(small(prefix))
    changes, reason = WRONG[case]
    pairs |= changes
    sound = {key: value for key, value in pairs.items() if value is not None}
    (tmp_path / "m.ckpt.index").write_bytes(table(sound))
    with pytest.raises(InputError) as refusal:
        TensorBundle(prefix)
    assert reason in str(refusal.value)
    assert str(prefix) in str(refusal.value)


def test_slices_that_dont_make_up_the_whole_are_refused(tmp_path: Path) -> None:
    array = np.arange(12, dtype="f4").reshape(4, 3)
    whole = {"a": array}
    cases = {
        "lacks one of its slices": [[(0, 1), None], [(1, 3), None]],
        "don't make up the whole": [[(0, 2), None]],
        "more than one direction": [[(0, 2), (0, 1)], [(2, 2), (1, 2)]],
    }
    for reason, slices in cases.items():
        prefix = tmp_path / reason[:4] / "m"
        key = {b"a": entry(1, (4, 3), slices=slices)}
        write_bundle(prefix, whole, cut={"a": (0, 2)}, extra=key)
        with pytest.raises(InputError, match=reason):
            TensorBundle(prefix).read("a")
    key = {b"a": entry(1, (5, 3), slices=[[(0, 2), None], [(2, 2), None]])}
    write_bundle(tmp_path / "m", whole, cut={"a": (0, 2)}, extra=key)
    with pytest.raises(InputError, match="don't make up the whole"):
        TensorBundle(tmp_path / "m").read("a")


def test_a_compressed_index_is_refused(tmp_path: Path) -> None:
    pairs = small(tmp_path / "m")
    (tmp_path / "m.index").write_bytes(table(pairs, kind=1))
    with pytest.raises(InputError, match=r"m\.index: the block at byte \d+ is compressed with snappy, which Firth"):  # fmt: skip
        TensorBundle(tmp_path / "m")
    (tmp_path / "m.index").write_bytes(table(pairs, kind=9))
    with pytest.raises(InputError, match="the unknown kind 9"):
        TensorBundle(tmp_path / "m")


def test_keys_out_of_order_or_twice_are_refused(tmp_path: Path) -> None:
    from tests.unit import bundles

    small(tmp_path / "m")
    pairs = [(b"b", b""), (b"a", b"")]
    content = bundles.block(pairs, 1)
    checked = content + b"\0" + masked(content + b"\0").to_bytes(4, "little")
    for handles, reason in (
        ([(0, len(content))], "its keys are not in order"),
        ([(0, len(content)), (0, len(content))], "its keys are not in order"),
        ([(3, 2), (0, len(content))], "checksum"),
    ):
        places = [(bytes([n]), bundles.varint(a) + bundles.varint(b)) for n, (a, b) in enumerate(handles)]  # fmt: skip
        index = bundles.block(places, 1)
        footer = bundles.varint(0) * 2 + bundles.varint(len(checked)) + bundles.varint(len(index))
        data = checked + index + b"\0" + masked(index + b"\0").to_bytes(4, "little")
        data += footer.ljust(40, b"\0") + bundles.MAGIC.to_bytes(8, "little")
        (tmp_path / "m.index").write_bytes(data)
        with pytest.raises(InputError, match=reason):
            TensorBundle(tmp_path / "m")


def test_a_missing_or_short_data_file_is_named(tmp_path: Path) -> None:
    arrays = bert_arrays()
    write_bundle(tmp_path / "m", arrays, 2)
    (tmp_path / "m.data-00001-of-00002").unlink()
    with pytest.raises(InputError, match=r"m\.data-00001-of-00002 is missing"):
        TensorBundle(tmp_path / "m")
    (tmp_path / "m.data-00001-of-00002").write_bytes(b"abc")
    with pytest.raises(InputError, match=r"m\.data-00001-of-00002 is cut off: it has 3 bytes"):
        TensorBundle(tmp_path / "m")


def test_every_flipped_bit_of_a_tensor_is_seen(tmp_path: Path, seed: int) -> None:
    """A bit of the data file changes the checksum of the one tensor that holds it."""
    small(tmp_path / "m")
    data = tmp_path / "m.data-00000-of-00001"
    sound = data.read_bytes()
    for bit in range(8 * len(sound)):
        changed = bytearray(sound)
        changed[bit // 8] ^= 1 << bit % 8
        data.write_bytes(changed)
        bundle = TensorBundle(tmp_path / "m")
        name = "a" if bit < 8 * 24 else "b"
        with pytest.raises(InputError, match=f"m.data-00000-of-00001 is damaged: the checksum of {name}"):  # fmt: skip
            bundle.read(name)
        bundle.read("b" if name == "a" else "a")


def flipped(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 8])):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def shortened(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def lengthened(data: bytes, draw: random.Random) -> bytes:
    return data + draw.randbytes(draw.randrange(1, 60))


def spliced(data: bytes, draw: random.Random) -> bytes:
    begin, end = sorted(draw.randrange(len(data)) for _ in range(2))
    return data[:begin] + draw.randbytes(draw.choice([0, end - begin])) + data[end:]


def filled(data: bytes, draw: random.Random) -> bytes:
    begin = draw.randrange(len(data))
    size = draw.randrange(1, 12)
    return data[:begin] + draw.choice([b"\0", b"\xff", b"\x80"]) * size + data[begin + size :]


DAMAGE: list[Callable[[bytes, random.Random], bytes]] = [flipped, shortened, lengthened, spliced, filled]  # fmt: skip


def rewritten(pairs: dict[bytes, bytes], draw: random.Random) -> bytes:
    """An index with right checksums whose keys and values are damaged."""
    changed = dict(pairs)
    for _ in range(draw.choice([1, 1, 3])):
        key = draw.choice(sorted(changed))
        value = changed.pop(key) or b"\0"
        how = draw.choice(DAMAGE)
        if key and draw.random() < 0.2:
            key = how(key, draw)[:1500]
        elif draw.random() < 0.3:
            numbers = [draw.choice([0, 1, 2, 16, 1 << 16, 1 << 31, (1 << 48) - 1, 1 << 62, -1]) for _ in range(5)]  # fmt: skip
            value = entry(draw.choice([1, 3, 7, 99]), numbers[:2], draw.choice([0, 0, 9]), numbers[2], numbers[3], 5)  # fmt: skip
        else:
            value = how(value, draw)
        changed[key] = value
    return table(changed, draw.choice([2, 50]), draw.choice([1, 4]))


def complaint(prefix: Path, arrays: dict[str, np.ndarray], whole: bool) -> str | None:
    """Why a checkpoint is refused; what is not refused is read, and is what it says.

    `whole` opens it as a model, too, which takes longer.
    """
    try:
        bundle = TensorBundle(prefix)
        for name, tensor in bundle.tensors.items():
            if name in arrays and tensor.dtype == "F32":
                assert bundle.read(name).shape == tensor.shape
        if not whole:
            return None
        opened = open_checkpoint(prefix).bundle
    except InputError as refusal:
        return str(refusal)
    table = opened.encoder.table.numpy()
    assert table.tobytes() == arrays["bert/embeddings/word_embeddings"].tobytes()
    return None


def test_a_hostile_checkpoint_is_refused_or_whole(tmp_path: Path, seed: int) -> None:
    """With one reason on one line that names a file, soon, and in little memory."""
    draw = random.Random(seed)
    arrays = bert_arrays()
    folder = write_bert(tmp_path / "google", arrays | moments({"bert/pooler/dense/bias": arrays["bert/pooler/dense/bias"]}), per_block=9)  # fmt: skip
    prefix = folder / "bert_model.ckpt"
    pairs = write_bundle(tmp_path / "again" / "bert_model.ckpt", arrays)
    index = folder / "bert_model.ckpt.index"
    data = folder / "bert_model.ckpt.data-00000-of-00001"
    write_bundle(prefix, arrays, per_block=9)
    sound = {path: path.read_bytes() for path in (index, data, folder / "vocab.txt", folder / "bert_config.json")}  # fmt: skip
    names = ("bert_model.ckpt", "bert_config.json", "vocab.txt")
    refused = 0
    open_checkpoint(prefix)
    for number in range(count(4000)):
        path = draw.choices([index, data, folder / "bert_config.json"], [6, 2, 1])[0]
        if path == index and draw.random() < 0.6:
            path.write_bytes(rewritten(pairs, draw))
        else:
            path.write_bytes(draw.choice(DAMAGE)(sound[path], draw))
        traced = number % 8 == 0  # it makes all slow
        if traced:
            tracemalloc.start()
        begun = time.process_time()
        reason = complaint(prefix, arrays, path.suffix == ".json" or draw.random() < 0.2)
        refused += reason is not None
        if reason is not None:
            assert any(name in reason for name in names), reason
            assert len(reason.splitlines()) == 1
        assert time.process_time() - begun < SECONDS
        if traced:
            assert tracemalloc.get_traced_memory()[1] < ROOM
            tracemalloc.stop()
        path.write_bytes(sound[path])
    assert refused > count(4000) // 3


def test_a_config_that_asks_for_more_than_there_is_costs_nothing(tmp_path: Path) -> None:
    arrays = bert_arrays()
    huge = {"num_hidden_layers": 1024, "hidden_size": 1 << 16, "intermediate_size": 1 << 18, "vocab_size": 1 << 24}  # fmt: skip
    for key, value in huge.items():
        folder = write_bert(tmp_path / key, arrays, config=CONFIG | {key: value})
        begun = time.process_time()
        with pytest.raises(
            InputError, match=r"weights are missing|where bert_config\.json asks for"
        ):
            open_checkpoint(folder / "bert_model.ckpt")
        assert time.process_time() - begun < SECONDS
