"""What can be wrong with a model folder: each function takes a folder and a source of chance, and changes the folder."""

import copy
import json
import os
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.unit.folders import PIECES, Folder


def numbers(draw: random.Random) -> Any:
    """A number that a size should not be."""
    whole = [
        0,
        -1,
        1,
        2,
        3,
        7,
        9,
        1 << 10,
        1 << 16,
        (1 << 31) - 1,
        1 << 32,
        1 << 48,
        1 << 63,
        (1 << 64) - 1,
        -(1 << 63),
        10**4000,
    ]
    return draw.choice(
        [*whole, 0.5, 8.0, -0.0, 1e308, float("nan"), float("inf"), float("-inf"), True, False]
    )


def nested(depth: int, draw: random.Random) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if draw.random() < 0.5 else {"a": value}
    return value


def junk(draw: random.Random) -> Any:
    """A value of any type."""
    choices: list[Callable[[], Any]] = [
        lambda: numbers(draw),
        lambda: numbers(draw),
        lambda: None,
        lambda: "",
        lambda: draw.choice(
            [
                "bert",
                "roberta",
                "distilbert",
                "gpt2",
                "firth-rnn",
                "classes",
                "mean",
                "gelu",
                "absolute",
                "BertForMaskedLM",
                "[MASK]",
                "0",
                "8",
            ]
        ),
        lambda: draw.choice(
            [
                "../../x",
                "/etc/passwd",
                "a\0b",
                "line\nline",
                "\x1b[31m",
                "\ud800",
                "x" * 10_000,
                "é" * 300,
                "{}",
                ".",
            ]
        ),
        list,
        dict,
        lambda: [numbers(draw) for _ in range(3)],
        lambda: {"a": numbers(draw), "0": "b"},
        lambda: nested(draw.choice([3, 50, 90]), draw),
    ]
    return draw.choice(choices)()


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a JSON value."""
    keys = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else ()
    )
    return [path, *(place for key in keys for place in places(value[key], (*path, key)))]


def change(value: Any, draw: random.Random) -> Any:
    """Replace, delete, double or rename one thing in a JSON value."""
    value = copy.deepcopy(value)
    path = draw.choice(places(value))
    if not path:
        return junk(draw)
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    last, how = path[-1], draw.random()
    if how < 0.6:
        parent[last] = junk(draw)
    elif how < 0.75:
        del parent[last]
    elif isinstance(parent, dict):
        parent[draw.choice([str(last) + "x", "", "a", str(last).upper()])] = (
            parent.pop(last) if how < 0.9 else parent[last]
        )
    else:
        parent.insert(last, junk(draw) if how < 0.9 else parent[last])
    return value


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def json_file(folder: Folder, draw: random.Random) -> None:
    """Change something in one of the JSON files."""
    name = draw.choice(
        [name for name in folder if name.endswith(".json") and isinstance(folder[name], bytes)]
    )
    value = json.loads(folder[name])
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        value = change(value, draw)
    folder[name] = dumped(value)


def config_sizes(folder: Folder, draw: random.Random) -> None:
    """Put a wrong size, type or name in config.json."""
    config = json.loads(folder["config.json"])
    for _ in range(draw.choice([1, 1, 2, 3])):
        config[
            draw.choice(
                [*config, "num_labels", "id2label", "position_embedding_type", "is_decoder"]
            )
        ] = junk(draw)
    if draw.random() < 0.2:
        config["model_type"] = draw.choice(
            [
                "bert",
                "roberta",
                "distilbert",
                "gpt2",
                "firth-rnn",
                "firth-ffnn",
                "firth-ngram",
                "BERT",
                ["bert"],
                {"bert": 1},
                None,
            ]
        )
    if draw.random() < 0.3:
        names = [
            "BertForPreTraining",
            "BertForMaskedLM",
            "BertForSequenceClassification",
            "BertForTokenClassification",
            "BertForQuestionAnswering",
            "GPT2LMHeadModel",
            "GPT2ForSequenceClassification",
            "GPT2ForTokenClassification",
        ]
        config["architectures"] = draw.choice(
            [
                [draw.choice(names)],
                [draw.choice(names)] * 2,
                "BertModel",
                [],
                [1],
                [["BertModel"]],
                {"0": "x"},
            ]
        )
    folder["config.json"] = dumped(config)


def config_alike(folder: Folder, draw: random.Random) -> None:
    """Sizes that are possible, and huge or wrong for these weights."""
    config = json.loads(folder["config.json"])
    keys = [key for key, value in config.items() if type(value) is int]
    for key in draw.sample(keys, draw.choice([1, 2, 3])):
        config[key] = draw.choice(
            [
                1,
                2,
                4,
                8,
                16,
                32,
                1000,
                1 << 16,
                1 << 20,
                1 << 24,
                config[key] + 1,
                config[key] - 1,
                config[key] * 2,
            ]
        )
    folder["config.json"] = dumped(config)


def json_text(folder: Folder, draw: random.Random) -> None:
    """JSON that is no JSON, or is JSON of a kind that nobody writes."""
    name = draw.choice(
        [name for name in folder if name.endswith(".json") and isinstance(folder[name], bytes)]
    )
    text = folder[name]
    deep = draw.choice([100, 900, 990, 5000, 100_000])
    folder[name] = draw.choice(
        [
            b"",
            b" \n",
            b"null",
            b"[]",
            b"{}",
            b'"text"',
            b"1e999",
            text[:-1],
            text + b"}",
            text.replace(b"{", b'{"model_type": "bert", "vocab_size": 14,', 1),  # a key twice
            text.replace(b":", b":" + b"[" * deep, 1),
            text.replace(b"}", b', "x": ' + b"[" * deep + b"]" * deep + b"}", 1),
            text.replace(b"}", b', "x": ' + b'{"a":' * deep + b"1" + b"}" * deep + b"}", 1),
            text.decode().encode("utf-16"),
            b"\xef\xbb\xbf" + text,
            text.replace(b'"', b"'"),
            text.replace(b"1", b"NaN"),
            text.replace(b"1", b"9" * 5000),
            b"\x80\x04\x95" + text,
            text.replace(b"a", b"\xff"),
            b"[" * deep + b"]" * deep,
        ]
    )


def tokenizer_parts(folder: Folder, draw: random.Random) -> None:
    """A tokenizer.json that gives ids which the weights don't have, or options that take memory or time."""
    page = json.loads(folder["tokenizer.json"]) if "tokenizer.json" in folder else None
    if page is None:
        vocabulary(folder, draw)
        return
    big = draw.choice([14, 15, 1000, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, -1])
    vocab, added, frame = page["model"]["vocab"], page["added_tokens"], page["post_processor"]
    some = dict(draw.sample(sorted(vocab.items()), len(vocab) // 2))
    many = {f"word{i}": len(vocab) + i for i in range(draw.choice([1, 5, 3000]))}
    other = {
        **draw.choice(added),
        draw.choice(["id", "content"]): draw.choice([big, "", "a", "[CLS]", "\0", " ", "x" * 1000]),
    }
    pad = {
        "direction": "Left",
        "pad_to_multiple_of": draw.choice([None, 1 << 40]),
        "pad_id": big,
        "pad_type_id": 9,
        "pad_token": "",
    }
    cut = {
        "direction": "Right",
        "strategy": "LongestFirst",
        "max_length": draw.choice([0, 1, 2, 5]),
        "stride": draw.choice([0, 1, 9]),
    }
    ids = draw.choice([[big], [], [2] * 50, [2, big]])
    first = {
        **frame,
        "special_tokens": {
            **frame["special_tokens"],
            "[CLS]": {"id": "[CLS]", "ids": ids, "tokens": ["[CLS]"] * len(ids)},
        },
    }
    segment = {"Sequence": {"id": "A", "type_id": big & 0xFFFF}}
    unigram = {
        "type": "Unigram",
        "unk_id": draw.choice([0, 99, None]),
        "vocab": draw.choice([[], [["a", 0.0]], [["a", float("nan")]]]),
    }
    moves: list[tuple[dict[str, Any], str, list[Any]]] = [
        (
            page["model"],
            "vocab",
            [{**vocab, draw.choice(sorted(vocab)): big}, {**vocab, "new": big}, {**vocab, **many}],
        ),
        (page["model"], "vocab", [some, {}, dict.fromkeys(vocab, 0), {**vocab, "": 14}]),
        (
            page,
            "added_tokens",
            [
                [*added, {**added[0], "id": big, "content": "[NEW]"}],
                [*added, other],
                [other],
                [],
                added * 2,
            ],
        ),
        (
            page,
            "post_processor",
            [
                first,
                first,
                None,
                {**frame, "single": frame["pair"]},
                {**frame, "single": frame["single"] * 9},
            ],
        ),
        (
            page,
            "post_processor",
            [
                {**frame, "single": []},
                {**frame, "single": [segment]},
                {"type": "Sequence", "processors": []},
            ],
        ),
        (
            page,
            "post_processor",
            [{"type": "BertProcessing", "sep": ["[SEP]", big & 0xFFFF], "cls": ["[CLS]", 2]}],
        ),
        (
            page,
            "padding",
            [{**pad, "strategy": {"Fixed": 1 << 33}}, {**pad, "strategy": "BatchLongest"}],
        ),
        (page, "truncation", [cut]),
        (
            page,
            "model",
            [
                unigram,
                {
                    "type": "BPE",
                    "vocab": vocab,
                    "merges": draw.choice([[], ["a b"], [["a", "zz"]], ["a"], 7]),
                },
            ],
        ),
        (page["model"], "type", ["BPE", "Unigram", "WordLevel", "Nothing", None]),
        (page["model"], "unk_token", ["[NO]", "", None, 3]),
        (page["model"], "max_input_chars_per_word", [0, 1, 1 << 60]),
        (page["model"], "continuing_subword_prefix", ["", "a", "##" * 100]),
        (
            page,
            "normalizer",
            [
                None,
                {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
                {"type": "Prepend", "prepend": "x" * 1000},
            ],
        ),
        (
            page,
            "normalizer",
            [
                {"type": "Replace", "pattern": {"Regex": regex}, "content": "xy"}
                for regex in ("(", "", ".")
            ],
        ),
        (
            page,
            "pre_tokenizer",
            [None, {"type": "Sequence", "pretokenizers": []}, {"type": "Digits"}],
        ),
        (
            page,
            "pre_tokenizer",
            [{"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": False}],
        ),
    ]
    for target, key, values in draw.sample(moves, draw.choice([1, 1, 2])):
        target[key] = draw.choice(values)
    folder["tokenizer.json"] = dumped(page)


def vocabulary(folder: Folder, draw: random.Random) -> None:
    """A vocab.txt that is too long, too short, doubled, binary or empty; often the only vocabulary there is."""
    if draw.random() < 0.7:
        folder.pop("tokenizer.json", None)
    lines = PIECES.copy()
    draw.shuffle(lines)
    folder["vocab.txt"] = draw.choice(
        [
            b"",
            b"\n",
            b"\n\n\n",
            b"\0" * 100,
            bytes(draw.randrange(256) for _ in range(200)),
            "\n".join(lines).encode(),
            "\n".join([*PIECES, "more"]).encode(),
            "\n".join(PIECES * 2).encode(),
            "\n".join(PIECES[1:]).encode(),
            "\n".join(PIECES[5:]).encode(),
            "\r\n".join(PIECES).encode(),
            "\n".join(PIECES).encode("utf-16"),
            "\n".join([*PIECES[:5], "x" * 100_000]).encode(),
            "\n".join([*PIECES[:5], "a", "a", "b"]).encode(),
            "\n".join(["[CLS]"] * 14).encode(),
            b"\x80\x04\x95" + "\n".join(PIECES).encode(),
        ]
    )


def modules(folder: Folder, draw: random.Random) -> None:
    """A modules.json, a pooling or a length that Firth doesn't run, or whose path leads outside."""
    kinds = [
        draw.choice(["Transformer", "Pooling", "Normalize", "Dense", "WeightedLayerPooling"])
        for _ in range(draw.randrange(5))
    ]
    where = [
        "",
        "1_Pooling",
        "../x",
        "/etc",
        "1_Pooling/../..",
        "a\0b",
        ".",
        "1_Pooling",
        "x" * 300,
    ]
    listed: Any = [
        {"idx": i, "path": draw.choice(where), "type": f"x.{kind}"} for i, kind in enumerate(kinds)
    ]
    folder["modules.json"] = dumped(
        draw.choice(
            [
                listed,
                listed,
                [],
                {},
                [1],
                [{}],
                [{"type": "Transformer", "path": ""}, {"type": "Pooling", "path": "1_Pooling"}],
            ]
        )
    )
    modes = [
        "pooling_mode_cls_token",
        "pooling_mode_max_tokens",
        "pooling_mode_mean_tokens",
        "pooling_mode_weightedmean_tokens",
        "pooling_mode",
    ]
    folder["1_Pooling/config.json"] = dumped(
        {
            mode: draw.choice([True, False, 1, "mean", None, [], "cls"])
            for mode in draw.sample(modes, 2)
        }
    )
    folder["sentence_bert_config.json"] = dumped({"max_seq_length": junk(draw)})


def weight_file(folder: Folder, draw: random.Random) -> str:
    return draw.choice(
        [
            name
            for name in folder
            if name.endswith(".safetensors") and isinstance(folder[name], bytes)
        ]
        or ["model.safetensors"]
    )


def unpacked(data: bytes) -> tuple[Any, bytes]:
    """The header and the body of a safetensors file; nothing where another mutation has been."""
    try:
        (length,) = struct.unpack("<Q", data[:8])
        return json.loads(data[8 : 8 + length]), data[8 + length :]
    except (struct.error, ValueError, RecursionError):
        return {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)


def packed(header: bytes, rest: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + rest


def tensor_header(folder: Folder, draw: random.Random) -> None:
    """Shapes, types, offsets and names that contradict each other, the file, or config.json."""
    name = weight_file(folder, draw)
    header, rest = unpacked(folder.get(name, b""))
    names = [key for key in header if key != "__metadata__"]
    for _ in range(draw.choice([1, 1, 2])):
        one, two = (header[draw.choice(names)] for _ in range(2))
        shape, (begin, end) = one["shape"], one["data_offsets"]
        odd = [
            [numbers(draw) for _ in range(draw.randrange(4))],
            shape[::-1],
            [*shape, 1],
            [*shape, *[(1 << 47) - 1] * 20_000],
            [],
        ]
        moves: list[tuple[dict[str, Any], str, list[Any]]] = [
            (one, "shape", odd),
            (one, "shape", odd),
            (
                one,
                "dtype",
                ["F32", "F16", "BF16", "I32", "I64", "U8", "F8_E4M3", "f32", "", None, 7, ["F32"]],
            ),
            (
                one,
                "data_offsets",
                [
                    [numbers(draw), numbers(draw)],
                    two["data_offsets"],
                    [begin + 4, end + 4],
                    [end, begin],
                ],
            ),
            (one, "more", [junk(draw)]),
            (header, draw.choice(names), [copy.deepcopy(two), junk(draw)]),
            (
                header,
                draw.choice(["extra", "", "bert." + names[0], names[0] + "\n", "\ud800"]),
                [copy.deepcopy(one)],
            ),
            (header, "__metadata__", [junk(draw)]),
        ]
        target, key, values = draw.choice(moves)
        target[key] = draw.choice(values)
        if draw.random() < 0.1:
            del header[draw.choice(names)]
        names = [
            key
            for key in names
            if isinstance(header.get(key), dict) and {"shape", "data_offsets"} <= header[key].keys()
        ]
    text = dumped(header)
    if draw.random() < 0.15:  # the same key twice
        text = text.replace(
            b"{",
            b"{"
            + dumped({names[0]: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})[1:-1]
            + b",",
            1,
        )
    folder[name] = packed(text, rest)


def tensor_sizes(folder: Folder, draw: random.Random) -> None:
    """Lengths that promise more than there is, or less."""
    name = weight_file(folder, draw)
    data = folder.get(name, b"")
    header, rest = unpacked(data)
    length = draw.choice(
        [
            0,
            1,
            2,
            8,
            len(data),
            abs(len(data) - 8),
            abs(len(data) - 7),
            64 << 20,
            (64 << 20) + 1,
            100_000_000,
            1 << 40,
            1 << 63,
            (1 << 64) - 1,
        ]
    )
    entry = {"dtype": "F32", "shape": [1 << 30, 1 << 10], "data_offsets": [0, 1 << 42]}
    folder[name] = draw.choice(
        [
            struct.pack("<Q", length) + data[8:],
            packed(
                dumped({**header, "huge": entry} if isinstance(header, dict) else {"huge": entry}),
                rest,
            ),
            packed(dumped(header) + b" " * draw.randrange(1000), rest),
            packed(dumped(header), rest + bytes(draw.randrange(1, 100))),
            packed(dumped(header), rest[: -draw.randrange(1, 100)]),
            packed(b"", rest),
            packed(b"{}", b""),
            packed(b"{}", rest),
        ]
    )


def tensor_values(folder: Folder, draw: random.Random) -> None:
    """Weights that are not finite, or merely other weights."""
    name = weight_file(folder, draw)
    header, rest = unpacked(folder.get(name, b""))
    values = bytearray(rest)
    for _ in range(draw.choice([1, 10])):
        at = 4 * draw.randrange(max(1, len(values) // 4))
        values[at : at + 4] = draw.choice(
            [struct.pack("<f", x) for x in (float("nan"), float("inf"), float("-inf"), 3e38, 0.0)]
        )
    folder[name] = packed(dumped(header), bytes(values[: len(rest)]))


def whole_numbers(folder: Folder, draw: random.Random) -> None:
    """Counts, keys and ranks that are none, or stand in another's place."""
    name = weight_file(folder, draw)
    header, rest = unpacked(folder.get(name, b""))
    values = bytearray(rest)
    kinds = {"I32": "<i", "I64": "<q"}
    entry = draw.choice(
        [one for key, one in header.items() if key != "__metadata__" and one.get("dtype") in kinds]
    )
    form, (begin, end) = kinds[entry["dtype"]], entry["data_offsets"]
    size = struct.calcsize(form)
    for _ in range(draw.choice([1, 1, 3])):
        one, two = (begin + size * draw.randrange((end - begin) // size) for _ in range(2))
        if draw.random() < 0.5:
            values[one : one + size], values[two : two + size] = (
                values[two : two + size],
                values[one : one + size],
            )
        else:
            odd = draw.choice(
                [
                    0,
                    -1,
                    1,
                    2,
                    5,
                    14,
                    1 << 24,
                    (1 << 31) - 1,
                    (1 << 53) + 1,
                    1 << 62,
                    -(1 << 63),
                    (1 << 63) - 1,
                ]
            )
            values[one : one + size] = struct.pack("<q", odd)[:size]
    folder[name] = packed(dumped(header), bytes(values))


def truncation(folder: Folder, draw: random.Random) -> None:
    """A file that ends too soon."""
    name = draw.choice([name for name in folder if isinstance(folder[name], bytes)])
    folder[name] = folder[name][: draw.randrange(len(folder[name]) + 1)]


def flips(folder: Folder, draw: random.Random) -> None:
    """Bits that have turned over."""
    name = draw.choice(
        [name for name in folder if isinstance(folder[name], bytes) and folder[name]] or [None]
    )
    if name is None:
        return
    data = bytearray(folder[name])
    for _ in range(draw.choice([1, 1, 2, 8, 64])):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    folder[name] = bytes(data)


def header_flips(folder: Folder, draw: random.Random) -> None:
    """Bits that have turned over where they hurt most."""
    name = weight_file(folder, draw)
    data = bytearray(folder.get(name, b"0"))
    for _ in range(draw.choice([1, 1, 2, 8])):
        data[draw.randrange(min(len(data), 2500))] ^= 1 << draw.randrange(8)
    folder[name] = bytes(data)


def splices(folder: Folder, draw: random.Random) -> None:
    """A part of a file cut out, doubled, or filled with noise."""
    name = draw.choice([name for name in folder if isinstance(folder[name], bytes)])
    data = folder[name]
    begin, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    middle = draw.choice(
        [
            b"",
            data[begin:end] * 2,
            draw.randbytes(end - begin),
            bytes(end - begin),
            b"\xff" * (end - begin),
        ]
    )
    folder[name] = data[:begin] + middle + data[end:]


def swaps(folder: Folder, draw: random.Random) -> None:
    """Two files under each other's names."""
    one, two = draw.sample(sorted(folder), 2)
    folder[one], folder[two] = folder[two], folder[one]


def losses(folder: Folder, draw: random.Random) -> None:
    """Files that are not there, or are folders."""
    for name in draw.sample(sorted(folder), draw.choice([1, 1, 2, 4])):
        if draw.random() < 0.8:
            del folder[name]
        else:
            folder[name] = lambda path: path.mkdir()


def additions(folder: Folder, draw: random.Random) -> None:
    """Files that nobody asked for."""
    index = {
        "weight_map": draw.choice(
            [
                {"a": "../x"},
                {"a": "/etc/passwd"},
                {"a": 1},
                {"a": "model-00001.safetensors"},
                [],
                {"a": ""},
                {"a": "config.json"},
            ]
        )
    }
    more = {
        "pytorch_model.bin": b"PK\x03\x04" + bytes(100),
        "model.safetensors.index.json": dumped(index),
        "firth.json": dumped(
            draw.choice(
                [
                    {},
                    {"sha256": {}},
                    {"sha256": {"config.json": "0"}},
                    {"sha256": {"../x": "0"}},
                    {"sha256": {"/dev/zero": "0"}},
                    {"sha256": [1]},
                ]
            )
        ),
        "modules.json": dumped(junk(draw)),
        "spiece.model": draw.randbytes(50),
        "added_tokens.json": dumped({"[NEW]": draw.choice([14, -1, 1 << 40])}),
        "weird\nname": b"x",
    }
    for name in draw.sample(sorted(more), 2):
        folder[name] = more[name]
    if draw.random() < 0.3:
        folder.pop("model.safetensors", None)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def nowhere(path: Path) -> None:
    path.symlink_to("absent")


def oddities(folder: Folder, draw: random.Random) -> None:
    """A pipe, a link to itself, to nothing or to a device in the place of a file."""
    name = draw.choice(
        [
            *sorted(folder),
            "modules.json",
            "firth.json",
            "config.json",
            "model.safetensors",
            "tokenizer.json",
        ]
    )
    folder[name] = draw.choice(
        [
            os.mkfifo,
            loop,
            nowhere,
            lambda path: path.symlink_to("/dev/zero"),
            lambda path: path.symlink_to("/dev/null"),
        ]
    )


MUTATIONS = [
    *(
        json_file,
        json_file,
        config_sizes,
        config_alike,
        json_text,
        tokenizer_parts,
        tokenizer_parts,
        vocabulary,
        modules,
    ),
    *(
        tensor_header,
        tensor_header,
        tensor_sizes,
        tensor_values,
        truncation,
        flips,
        header_flips,
        splices,
    ),
    *(swaps, losses, additions, oddities),
]


def mutate(
    folder: Folder,
    draw: random.Random,
    more: Sequence[Callable[[Folder, random.Random], None]] = (),
) -> list[str]:
    """Change a folder once, sometimes up to three times, and say how; `more` are ways of its own kind."""
    done = []
    for step in draw.choices([*MUTATIONS, *more], k=draw.choice([1, 1, 1, 2, 3])):
        try:
            step(folder, draw)
        except (
            AttributeError,
            IndexError,
            KeyError,
            RecursionError,
            StopIteration,
            TypeError,
            UnicodeError,
            ValueError,
        ):
            if not done:  # after another mutation there may be nothing left for this one to change
                raise
        done.append(step.__name__)
    return done
