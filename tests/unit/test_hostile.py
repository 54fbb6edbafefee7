"""Model folders from strangers: each is refused with a reason or is exactly what its config.json says; nothing else happens."""

import copy
import faulthandler
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from safetensors.torch import save as pack_tensors

from firth.base.errors import InputError
from firth.bundle import Bundle, load, save
from firth.predict import Predictor
from tests.conftest import count

CASES = count(10_000)
SECONDS = 5
ROOM = 512 << 20  # address space above what the process has; the folders have a few kilobytes
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##a", "##b", "the", ".", "cat", "##s"]
Folder = dict[str, Any]  # file name -> bytes, or what a mutation put in its place


# A sound folder, small enough to be made ten thousand times


def body(family: str, prefix: str = "") -> dict[str, tuple[int, ...]]:
    """Names and shapes of a body of width 8 with one layer, as Hugging Face writes them."""
    v, d, inner, length = len(PIECES), 8, 16, 16
    if family == "distilbert":
        layer, parts = "transformer.layer.0.", ["attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"]
        norms, wide = ["sa_layer_norm", "output_layer_norm"], ("ffn.lin1", "ffn.lin2")
    else:
        layer = "encoder.layer.0."
        parts = [*(f"attention.self.{part}" for part in ("query", "key", "value")), "attention.output.dense"]
        norms, wide = ["attention.output.LayerNorm", "output.LayerNorm"], ("intermediate.dense", "output.dense")
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (v, d),
        "embeddings.position_embeddings.weight": (length, d),
    }
    if family != "distilbert":
        found |= {"embeddings.token_type_embeddings.weight": (2, d), "pooler.dense.weight": (d, d), "pooler.dense.bias": (d,)}
    for name in ["embeddings.LayerNorm", *(layer + norm for norm in norms)]:
        found |= {f"{name}.weight": (d,), f"{name}.bias": (d,)}
    for name in parts:
        found |= {f"{layer}{name}.weight": (d, d), f"{layer}{name}.bias": (d,)}
    found |= {
        f"{layer}{wide[0]}.weight": (inner, d),
        f"{layer}{wide[0]}.bias": (inner,),
        f"{layer}{wide[1]}.weight": (d, inner),
        f"{layer}{wide[1]}.bias": (d,),
    }
    return {prefix + name: shape for name, shape in found.items()}


def head() -> dict[str, tuple[int, ...]]:
    transform = "cls.predictions.transform."
    names = {
        f"{transform}dense.weight": (8, 8),
        f"{transform}dense.bias": (8,),
        f"{transform}LayerNorm.weight": (8,),
        f"{transform}LayerNorm.bias": (8,),
    }
    return {**names, "cls.predictions.bias": (len(PIECES),)}


BERT_CONFIG = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": len(PIECES),
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "initializer_range": 0.02,
    "pad_token_id": 0,
    "tie_word_embeddings": True,
}
DISTIL_CONFIG = {
    "model_type": "distilbert",
    "architectures": ["DistilBertModel"],
    "vocab_size": len(PIECES),
    "dim": 8,
    "n_layers": 1,
    "n_heads": 2,
    "hidden_dim": 16,
    "max_position_embeddings": 16,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "activation": "gelu",
    "initializer_range": 0.02,
    "pad_token_id": 0,
}


def words() -> str:
    """A tokenizer.json for the pieces."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(PIECES[:5])
    return tokenizer.to_str()


def random_tensors(shapes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    maker = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=maker) for name, shape in shapes.items()}


def sound_folders() -> dict[str, Folder]:
    """One of each kind that Firth opens, as bytes by file name."""
    special = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    shared = {
        "tokenizer.json": words().encode(),
        "tokenizer_config.json": json.dumps(
            {"tokenizer_class": "BertTokenizerFast", "do_lower_case": True, "model_max_length": 16, **special}
        ).encode(),
        "special_tokens_map.json": json.dumps(special).encode(),
        "vocab.txt": "".join(piece + "\n" for piece in PIECES).encode(),
    }
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    sentence = {
        "modules.json": json.dumps(
            [
                {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                for i, (kind, path) in enumerate(modules)
            ]
        ).encode(),
        "1_Pooling/config.json": json.dumps(
            {"word_embedding_dimension": 8, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
        ).encode(),
        "sentence_bert_config.json": json.dumps({"max_seq_length": 12, "do_lower_case": False}).encode(),
        "config_sentence_transformers.json": json.dumps({"prompts": {}, "default_prompt_name": None}).encode(),
    }
    roberta = {**BERT_CONFIG, "model_type": "roberta", "architectures": ["RobertaModel"], "pad_token_id": 1}

    def whole(config: dict[str, Any], shapes: dict[str, tuple[int, ...]], *more: Folder) -> Folder:
        weights = {
            "config.json": json.dumps(config).encode(),
            "model.safetensors": pack_tensors(random_tensors(shapes), {"format": "pt"}),
        }
        return {**shared, **weights, **{name: data for part in more for name, data in part.items()}}

    shards = pack_tensors(random_tensors({k: v for k, v in body("bert").items() if "encoder" in k}))
    rest = pack_tensors(random_tensors({k: v for k, v in body("bert").items() if "encoder" not in k}))
    split = whole(BERT_CONFIG, {}, {"model-1.safetensors": shards, "model-2.safetensors": rest})
    del split["model.safetensors"]
    table = {k: "model-1.safetensors" if "encoder" in k else "model-2.safetensors" for k in body("bert")}
    split["model.safetensors.index.json"] = json.dumps({"metadata": {}, "weight_map": table}).encode()
    old = whole(BERT_CONFIG, body("bert"))
    del old["tokenizer.json"]  # a vocabulary alone
    return {
        "sentence": whole(BERT_CONFIG, body("bert"), sentence),
        "masked": whole({**BERT_CONFIG, "architectures": ["BertForMaskedLM"]}, {**body("bert", "bert."), **head()}),
        "distilbert": whole(DISTIL_CONFIG, body("distilbert")),
        "roberta": whole(roberta, body("roberta")),
        "split": split,
        "old": old,
    }


def write(folder: Path, content: Folder) -> Path:
    """Put a folder on disk; content that is callable makes its own file."""
    folder.mkdir(parents=True)
    for name, data in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(data):
            data(path)
        else:
            path.write_bytes(data)
    return folder


# What must hold


def shapes_asked(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of each of our tensors, worked out from config.json alone."""
    distil = config["model_type"] == "distilbert"
    theirs = ("dim", "n_layers", "hidden_dim") if distil else ("hidden_size", "num_hidden_layers", "intermediate_size")
    v, length = config["vocab_size"], config.get("max_position_embeddings", 512)
    d, depth, inner = (config[key] for key in theirs)
    found: dict[str, tuple[int, ...]] = {"embedding.token.weight": (v, d), "embedding.position.weight": (length, d)}
    segments = 0 if distil else config.get("type_vocab_size", 2)
    if segments:
        found["embedding.segment.weight"] = (segments, d)
    norms = ["embedding.norm"]
    for i in range(depth):
        for name, shape in (("attention.qkv", (3 * d, d)), ("attention.out", (d, d)), ("up", (inner, d)), ("down", (d, inner))):
            found |= {f"blocks.{i}.{name}.weight": shape, f"blocks.{i}.{name}.bias": shape[:1]}
        norms += [f"blocks.{i}.attention_norm", f"blocks.{i}.norm"]
    for name in norms:
        found |= {f"{name}.weight": (d,), f"{name}.bias": (d,)}
    return found


def examine(bundle: Bundle, folder: Path) -> None:
    """Every tensor is there, has the shape that config.json asks for, and is finite; and the model runs."""
    config = json.loads((folder / "config.json").read_bytes())
    state = bundle.encoder.state_dict()
    asked = shapes_asked(config)
    d = asked["embedding.token.weight"][1]
    pooler = {"pooler.weight": (d, d), "pooler.bias": (d,)} if "pooler.weight" in state else {}
    assert {name: tuple(tensor.shape) for name, tensor in state.items()} == {**asked, **pooler}
    parts = [state, bundle.head.state_dict() if bundle.head is not None else {}]
    for name, tensor in ((name, tensor) for part in parts for name, tensor in part.items()):
        assert not tensor.is_meta, name
        assert tensor.dtype == torch.float32, name
        assert torch.isfinite(tensor).all(), name
    if bundle.kind in ("fill", "pretrain"):
        assert bundle.head is not None
        assert tuple(bundle.head.state_dict()["masked.table"].shape) == asked["embedding.token.weight"]
    vectors = Predictor(bundle, threads=1).embed(["", "the cats a.", "b " * 40], long="slide")
    assert vectors.shape == (3, d)


class Late(BaseException):
    """A case took too long; not an Exception, so that nothing swallows it."""


@contextmanager
def limits() -> Iterator[None]:
    """Five seconds, and little more memory than there is now; a hang that no signal ends kills the run with a trace."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Late

    old = signal.signal(signal.SIGALRM, ring)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, hard))
    signal.alarm(SECONDS)
    faulthandler.dump_traceback_later(SECONDS * 6, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def verdict(folder: Path) -> str:
    """Load a folder under the limits: `refused`, `sound`, or what went wrong."""
    try:
        with limits():
            try:
                bundle = load(folder)
            except InputError as error:
                assert str(error).strip(), "an error without a reason"
                assert "\n" not in str(error), f"a reason of several lines: {error}"
                return "refused"
            try:
                examine(bundle, folder)
            except InputError:
                return "sound, but its texts are refused"
        return "sound"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of a library written in Rust is no Exception
        return f"{type(error).__name__}: {str(error)[:300]}"


# Mutations: each takes a folder and a source of chance, and changes the folder


def numbers(draw: random.Random) -> Any:
    """A number that a size should not be."""
    return draw.choice(
        [
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
            10**30,
            -(1 << 63),
            10**4000,
        ]
        + [0.5, 8.0, -0.0, 1e308, float("nan"), float("inf"), float("-inf"), True, False]
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
            ["bert", "roberta", "distilbert", "gpt2", "mean", "gelu", "absolute", "BertForMaskedLM", "[MASK]", "0", "8"]
        ),
        lambda: draw.choice(
            ["../../x", "/etc/passwd", "a\0b", "line\nline", "\x1b[31m", "\ud800", "x" * 10_000, "é" * 300, "{}", "."]
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
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
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
        parent[draw.choice([str(last) + "x", "", "a", str(last).upper()])] = parent.pop(last) if how < 0.9 else parent[last]
    else:
        parent.insert(last, junk(draw) if how < 0.9 else parent[last])
    return value


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def json_file(folder: Folder, draw: random.Random) -> None:
    """Change something in one of the JSON files."""
    name = draw.choice([name for name in folder if name.endswith(".json") and isinstance(folder[name], bytes)])
    value = json.loads(folder[name])
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        value = change(value, draw)
    folder[name] = dumped(value)


def config_sizes(folder: Folder, draw: random.Random) -> None:
    """Put a wrong size, type or name in config.json."""
    config = json.loads(folder["config.json"])
    for _ in range(draw.choice([1, 1, 2, 3])):
        config[draw.choice([*config, "num_labels", "id2label", "position_embedding_type", "is_decoder"])] = junk(draw)
    if draw.random() < 0.2:
        config["model_type"] = draw.choice(
            ["bert", "roberta", "xlm-roberta", "distilbert", "gpt2", "BERT", ["bert"], {"bert": 1}, None]
        )
    if draw.random() < 0.3:
        names = [
            "BertForPreTraining",
            "BertForMaskedLM",
            "BertForSequenceClassification",
            "BertForTokenClassification",
            "BertForQuestionAnswering",
        ]
        config["architectures"] = draw.choice(
            [[draw.choice(names)], [draw.choice(names)] * 2, "BertModel", [], [1], [["BertModel"]], {"0": "x"}]
        )
    folder["config.json"] = dumped(config)


def config_alike(folder: Folder, draw: random.Random) -> None:
    """Sizes that are possible, and huge or wrong for these weights."""
    config = json.loads(folder["config.json"])
    keys = [key for key, value in config.items() if type(value) is int]
    for key in draw.sample(keys, draw.choice([1, 2, 3])):
        config[key] = draw.choice(
            [1, 2, 4, 8, 16, 32, 1000, 1 << 16, 1 << 20, 1 << 24, config[key] + 1, config[key] - 1, config[key] * 2]
        )
    folder["config.json"] = dumped(config)


def json_text(folder: Folder, draw: random.Random) -> None:
    """JSON that is no JSON, or is JSON of a kind that nobody writes."""
    name = draw.choice([name for name in folder if name.endswith(".json") and isinstance(folder[name], bytes)])
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
    if "tokenizer.json" not in folder:
        return vocabulary(folder, draw)
    page = json.loads(folder["tokenizer.json"])
    big = draw.choice([14, 15, 1000, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, -1])
    vocab, added = page["model"]["vocab"], page["added_tokens"]
    template = page["post_processor"]
    moves: list[Callable[[], Any]] = [
        lambda: vocab.__setitem__(draw.choice([*vocab, "new"]), big),
        lambda: vocab.__setitem__("new", big),
        lambda: vocab.update({f"word{i}": len(vocab) + i for i in range(draw.choice([1, 5, 3000]))}),
        lambda: [vocab.pop(key) for key in draw.sample(list(vocab), min(5, len(vocab)))],
        vocab.clear,
        lambda: page["model"].__setitem__("vocab", {key: 0 for key in vocab}),
        lambda: added.append({**added[0], "id": big, "content": draw.choice(["[NEW]", "", "a", "[MASK]", " "])}),
        lambda: draw.choice(added).__setitem__("id", big),
        lambda: draw.choice(added).__setitem__("content", draw.choice(["", "a", "[CLS]", "\0", " ", "x" * 1000])),
        lambda: template["special_tokens"]["[CLS]"].__setitem__("ids", draw.choice([[big], [], [2] * 50, [2, big]])),
        lambda: template.__setitem__(
            "single",
            draw.choice([[], template["pair"], template["single"] * 9, [{"Sequence": {"id": "A", "type_id": big & 0xFFFF}}]]),
        ),
        lambda: page.__setitem__(
            "padding",
            {
                "strategy": {"Fixed": 1 << 33},
                "direction": "Right",
                "pad_to_multiple_of": None,
                "pad_id": 0,
                "pad_type_id": 0,
                "pad_token": "[PAD]",
            },
        ),
        lambda: page.__setitem__(
            "padding",
            {
                "strategy": "BatchLongest",
                "direction": "Left",
                "pad_to_multiple_of": 1 << 40,
                "pad_id": big,
                "pad_type_id": 9,
                "pad_token": "",
            },
        ),
        lambda: page.__setitem__(
            "truncation",
            {
                "direction": "Right",
                "max_length": draw.choice([0, 1, 2, 5]),
                "strategy": "LongestFirst",
                "stride": draw.choice([0, 1, 9]),
            },
        ),
        lambda: page["model"].__setitem__("type", draw.choice(["BPE", "Unigram", "WordLevel", "Nothing", None])),
        lambda: page.__setitem__(
            "model",
            {
                "type": "Unigram",
                "unk_id": draw.choice([0, 99, None]),
                "vocab": draw.choice([[], [["a", 0.0]], [["a", float("nan")]]]),
            },
        ),
        lambda: page.__setitem__(
            "model", {"type": "BPE", "vocab": vocab, "merges": draw.choice([[], ["a b"], [["a", "zz"]], ["a"], 7])}
        ),
        lambda: page["model"].__setitem__("unk_token", draw.choice(["[NO]", "", None, 3])),
        lambda: page["model"].__setitem__("max_input_chars_per_word", draw.choice([0, 1, 1 << 60])),
        lambda: page["model"].__setitem__("continuing_subword_prefix", draw.choice(["", "a", "##" * 100])),
        lambda: page.__setitem__(
            "normalizer",
            draw.choice(
                [
                    None,
                    {"type": "Precompiled", "precompiled_charsmap": "AAAA"},
                    {"type": "Replace", "pattern": {"Regex": "("}, "content": "x"},
                    {"type": "Prepend", "prepend": "x" * 1000},
                ]
            ),
        ),
        lambda: page.__setitem__(
            "pre_tokenizer",
            draw.choice(
                [
                    None,
                    {"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": False},
                    {"type": "Sequence", "pretokenizers": []},
                    {"type": "Digits"},
                ]
            ),
        ),
        lambda: page.__setitem__(
            "post_processor",
            draw.choice(
                [
                    None,
                    {"type": "BertProcessing", "sep": ["[SEP]", big & 0xFFFF], "cls": ["[CLS]", 2]},
                    {"type": "Sequence", "processors": []},
                ]
            ),
        ),
    ]
    for _ in range(draw.choice([1, 1, 2])):
        draw.choice(moves)()
        template = (
            page["post_processor"]
            if isinstance(page["post_processor"], dict) and "special_tokens" in page["post_processor"]
            else template
        )
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
        draw.choice(["Transformer", "Pooling", "Normalize", "Dense", "WeightedLayerPooling"]) for _ in range(draw.randrange(5))
    ]
    where = ["", "1_Pooling", "../x", "/etc", "1_Pooling/../..", "a\0b", ".", "1_Pooling", "x" * 300]
    listed: Any = [{"idx": i, "path": draw.choice(where), "type": f"x.{kind}"} for i, kind in enumerate(kinds)]
    folder["modules.json"] = dumped(
        draw.choice(
            [listed, listed, [], {}, [1], [{}], [{"type": "Transformer", "path": ""}, {"type": "Pooling", "path": "1_Pooling"}]]
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
        {mode: draw.choice([True, False, 1, "mean", None, [], "cls"]) for mode in draw.sample(modes, 2)}
    )
    folder["sentence_bert_config.json"] = dumped({"max_seq_length": junk(draw)})


def weight_file(folder: Folder, draw: random.Random) -> str:
    return draw.choice(
        [name for name in folder if name.endswith(".safetensors") and isinstance(folder[name], bytes)] or ["model.safetensors"]
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
    names = [key for key in header if key != "__metadata__"] if isinstance(header, dict) else []
    if not names or not all(isinstance(header[key], dict) for key in names):
        return
    for _ in range(draw.choice([1, 1, 2])):
        one, two = header[draw.choice(names)], header[draw.choice(names)]
        moves: list[Callable[[], Any]] = [
            lambda a=one: a.__setitem__("shape", [numbers(draw) for _ in range(draw.randrange(4))]),
            lambda a=one: a.__setitem__("shape", list(reversed(a["shape"]))),
            lambda a=one: a.__setitem__("shape", [*a["shape"], 1]),
            lambda a=one: a.__setitem__("shape", [*a["shape"], *[(1 << 47) - 1] * 20_000]),
            lambda a=one: a.__setitem__("shape", []),
            lambda a=one: a.__setitem__(
                "dtype", draw.choice(["F32", "F16", "BF16", "I32", "I64", "U8", "F8_E4M3", "f32", "", None, 7, ["F32"]])
            ),
            lambda a=one: a.__setitem__("data_offsets", [numbers(draw), numbers(draw)]),
            lambda a=one, b=two: a.__setitem__("data_offsets", b["data_offsets"]),
            lambda a=one: a.__setitem__("data_offsets", [a["data_offsets"][0] + 4, a["data_offsets"][1] + 4]),
            lambda a=one, b=two: (a.update(copy.deepcopy(b)), b.update(copy.deepcopy(a))),
            lambda: header.pop(draw.choice(names), None),
            lambda a=one: header.__setitem__(
                draw.choice(["extra", "", "bert." + names[0], names[0] + "\n", "\ud800"]), copy.deepcopy(a)
            ),
            lambda: header.__setitem__("__metadata__", junk(draw)),
            lambda a=one: a.__setitem__("more", junk(draw)),
            lambda: header.__setitem__(draw.choice(names), junk(draw)),
        ]
        try:
            draw.choice(moves)()
        except (AttributeError, IndexError, KeyError, TypeError):
            continue  # an earlier one has been here
        if not all(isinstance(header.get(key), dict) for key in names):
            break
    text = dumped(header)
    if draw.random() < 0.15:  # the same key twice
        text = text.replace(b"{", b"{" + dumped({names[0]: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})[1:-1] + b",", 1)
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
            packed(dumped({**header, "huge": entry} if isinstance(header, dict) else {"huge": entry}), rest),
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
        values[at : at + 4] = draw.choice([struct.pack("<f", x) for x in (float("nan"), float("inf"), float("-inf"), 3e38, 0.0)])
    folder[name] = packed(dumped(header), bytes(values[: len(rest)]))


def truncation(folder: Folder, draw: random.Random) -> None:
    """A file that ends too soon."""
    name = draw.choice([name for name in folder if isinstance(folder[name], bytes)])
    folder[name] = folder[name][: draw.randrange(len(folder[name]) + 1)]


def flips(folder: Folder, draw: random.Random) -> None:
    """Bits that have turned over."""
    name = draw.choice([name for name in folder if isinstance(folder[name], bytes) and folder[name]] or [None])
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
    middle = draw.choice([b"", data[begin:end] * 2, draw.randbytes(end - begin), bytes(end - begin), b"\xff" * (end - begin)])
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
            [{"a": "../x"}, {"a": "/etc/passwd"}, {"a": 1}, {"a": "model-00001.safetensors"}, [], {"a": ""}, {"a": "config.json"}]
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
    name = draw.choice([*sorted(folder), "modules.json", "firth.json", "config.json", "model.safetensors", "tokenizer.json"])
    folder[name] = draw.choice(
        [os.mkfifo, loop, nowhere, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to("/dev/null")]
    )


MUTATIONS = [
    json_file, json_file, config_sizes, config_alike, json_text, tokenizer_parts, tokenizer_parts, vocabulary, modules, tensor_header, tensor_header,
    tensor_sizes, tensor_values, truncation, flips, header_flips, splices, swaps, losses, additions, oddities,
]  # fmt: skip


def mutate(folder: Folder, draw: random.Random) -> list[str]:
    """Change a folder once, sometimes up to three times, and say how."""
    done = []
    for step in draw.choices(MUTATIONS, k=draw.choice([1, 1, 1, 2, 3])):
        try:
            step(folder, draw)
        except (AttributeError, IndexError, KeyError, RecursionError, StopIteration, TypeError, UnicodeError, ValueError):
            if not done:  # after another mutation there may be nothing left for this one to change
                raise
        done.append(step.__name__)
    return done


# The trials


@pytest.fixture(scope="module")
def sound() -> dict[str, Folder]:
    return sound_folders()


@pytest.mark.parametrize("kind", ["sentence", "masked", "distilbert", "roberta", "split", "old"])
def test_a_sound_folder_is_opened(kind: str, sound: dict[str, Folder], tmp_path: Path) -> None:
    folder = write(tmp_path / "model", sound[kind])
    assert verdict(folder) == "sound"
    bundle = load(folder)
    assert bundle.unmatched == ((), ())
    saved = save(bundle, tmp_path / "saved")
    assert verdict(saved) == "sound"


def test_no_mutated_folder_does_harm(sound: dict[str, Folder], tmp_path: Path, seed: int) -> None:
    write(tmp_path / "start", sound["masked"])
    saved = save(load(tmp_path / "start"), tmp_path / "saved")
    written = {str(path.relative_to(saved)): path.read_bytes() for path in saved.rglob("*") if path.is_file()}
    kinds = {**sound, "saved": written}
    tally: Counter[str] = Counter()
    wrong = []
    began = time.monotonic()
    for case in range(CASES):
        draw = random.Random(f"{seed} {case}")
        kind = draw.choice(sorted(kinds))
        content = dict(kinds[kind])
        done = mutate(content, draw)
        folder = write(tmp_path / "case", content)
        outcome = verdict(folder)
        whole = content.get("firth.json") == written["firth.json"]
        if kind == "saved" and whole and outcome != "refused" and any(content.get(name) != data for name, data in written.items()):
            outcome = f"a changed file was not found: {outcome}"
        tally[outcome if outcome in ("refused", "sound", "sound, but its texts are refused") else "wrong"] += 1
        if outcome not in ("refused", "sound", "sound, but its texts are refused"):
            wrong.append(f"seed {seed} case {case}: {kind}, {', '.join(done)}: {outcome}")
        shutil.rmtree(folder)
    print(f"{CASES} folders in {time.monotonic() - began:.0f} s: {dict(tally)}")
    assert not wrong, f"{len(wrong)} of {CASES} folders did harm:\n" + "\n".join(wrong[:40])
    assert tally["refused"] > CASES // 2  # the mutations bite
    assert tally["sound"] > CASES // 50  # and are not all of one kind


HUGE = {
    "config": {"config.json": dumped({**BERT_CONFIG, "vocab_size": 1 << 24, "hidden_size": 1 << 16, "intermediate_size": 1 << 18})},
    "layers": {"config.json": dumped({**BERT_CONFIG, "num_hidden_layers": 1024})},
    "positions": {"config.json": dumped({**BERT_CONFIG, "max_position_embeddings": 1 << 20})},
    "labels": {
        "config.json": dumped({**BERT_CONFIG, "architectures": ["BertForSequenceClassification"], "num_labels": (1 << 16) - 1})
    },
    "vocabulary": {
        "config.json": dumped(
            {**BERT_CONFIG, "architectures": ["BertForMaskedLM"], "vocab_size": 1 << 24, "tie_word_embeddings": False}
        )
    },
    "tensor": {"model.safetensors": packed(dumped({"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}), b"")},
    "header": {"model.safetensors": struct.pack("<Q", 1 << 40) + b"{}"},
    "header that fits": {"model.safetensors": struct.pack("<Q", (64 << 20) + 1) + b"{}"},
    "dimensions": {
        "model.safetensors": packed(
            dumped({"a": {"dtype": "F32", "shape": [(1 << 47) - 1] * 100_000, "data_offsets": [0, 4]}}), bytes(4)
        )
    },
}


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_promise_costs_nothing(name: str, sound: dict[str, Folder], tmp_path: Path) -> None:
    folder = write(tmp_path / "model", {**sound["sentence"], **HUGE[name]})
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    tracemalloc.start()
    began = time.monotonic()
    try:
        assert verdict(folder) == "refused"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began < 2
    assert peak < 10 * size + (16 << 20)


def test_a_device_without_end_is_not_read(sound: dict[str, Folder], tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "tokenizer.json", "modules.json", "1_Pooling/config.json"):
        for number, put in enumerate((os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir(), loop)):
            folder = write(tmp_path / f"{number}{name.replace('/', '')}", {**sound["sentence"], name: put})
            outcome = verdict(folder)
            # A link that leads to itself is as good as no file, and not every file has to be there.
            assert outcome == "refused" or (put is loop and name in ("tokenizer.json", "modules.json") and outcome == "sound"), (
                name,
                number,
                outcome,
            )


def test_a_text_that_the_weights_have_no_row_for_is_no_crash(sound: dict[str, Folder], tmp_path: Path) -> None:
    """The number of pieces may fit and yet an id be too high."""
    page = json.loads(sound["sentence"]["tokenizer.json"])
    del page["model"]["vocab"]["cat"]
    page["model"]["vocab"]["dog"] = 5000
    assert verdict(write(tmp_path / "model", {**sound["sentence"], "tokenizer.json": dumped(page)})) != "sound"


AUDIT = """
import sys
events = []
sys.addaudithook(lambda event, args: events.append((event, str(args))) if event.startswith(("pickle.", "marshal.loads")) else None)
import warnings
import firth
from firth.bundle import load, save
start = len(events)
model = firth.load({model!r})
model.embed(["the cats a.", "", "b " * 100], long="slide")
model.embed(["the cats a."], pool="words")
model.predict(["the [MASK] ."])
saved = save(model.bundle, {saved!r})
again = firth.load(saved)
again.predict(["the [MASK] ."])
found = [event for event in events[start:] if event[0] == "pickle.find_class"]
assert not found, found
import pickle
pickle.loads(pickle.dumps(OSError))
assert any(event[0] == "pickle.find_class" for event in events), "the hook is deaf"
print("no pickle")
"""


def test_no_pickle_is_opened_over_load_embed_predict_and_save(sound: dict[str, Folder], tmp_path: Path) -> None:
    folder = write(tmp_path / "model", sound["masked"])
    program = AUDIT.format(model=str(folder), saved=str(tmp_path / "saved"))
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )
    assert (run.returncode, run.stdout) == (0, "no pickle\n"), run.stderr
