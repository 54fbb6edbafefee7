"""Model folders from strangers: each is refused with a reason or is exactly what its config.json says; nothing else happens."""

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
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, product
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch

from firth.base.errors import FirthWarning, InputError
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.models.bert import Bert
from firth.models.ngram import NGram
from firth.models.protocols import EncoderDecoder
from firth.models.search import Beam
from firth.models.translate import translate
from firth.predictor import Predictor
from tests.conftest import count
from tests.unit.folders import (
    BERT_CONFIG,
    LANGUAGE_KINDS,
    Folder,
    language_folders,
    sound_folders,
    write,
)
from tests.unit.mutations import dumped, loop, mutate, packed, whole_numbers

CASES = count(10_000)
SECONDS = 5
ROOM = 512 << 20  # address space above what the process has; the folders have a few kilobytes


# What must hold


def shapes_asked(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of each of our tensors, worked out from config.json alone."""
    distil = config["model_type"] == "distilbert"
    theirs = (
        ("dim", "n_layers", "hidden_dim")
        if distil
        else ("hidden_size", "num_hidden_layers", "intermediate_size")
    )
    v, length = config["vocab_size"], config.get("max_position_embeddings", 512)
    d, depth, inner = (config[key] for key in theirs)
    found: dict[str, tuple[int, ...]] = {
        "embedding.token.weight": (v, d),
        "embedding.position.weight": (length, d),
    }
    segments = 0 if distil else config.get("type_vocab_size", 2)
    if segments:
        found["embedding.segment.weight"] = (segments, d)
    norms = ["embedding.norm"]
    for i in range(depth):
        for name, shape in (
            ("attention.qkv", (3 * d, d)),
            ("attention.out", (d, d)),
            ("up", (inner, d)),
            ("down", (d, inner)),
        ):
            found |= {f"blocks.{i}.{name}.weight": shape, f"blocks.{i}.{name}.bias": shape[:1]}
        norms += [f"blocks.{i}.attention_norm", f"blocks.{i}.norm"]
    for name in norms:
        found |= {f"{name}.weight": (d,), f"{name}.bias": (d,)}
    return found


def language_shapes(s: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The same of the language models that descend."""
    if s["model_type"] == "gpt2":
        d, inner = s["n_embd"], s["n_inner"] or 4 * s["n_embd"]
        found: dict[str, tuple[int, ...]] = {
            "token.weight": (s["vocab_size"], d),
            "position.weight": (s["n_positions"], d),
        }
        for i in range(s["n_layer"]):
            for name, shape in (
                ("attention.qkv", (3 * d, d)),
                ("attention.out", (d, d)),
                ("up", (inner, d)),
                ("down", (d, inner)),
            ):
                found |= {f"blocks.{i}.{name}.weight": shape, f"blocks.{i}.{name}.bias": shape[:1]}
            found |= {
                f"blocks.{i}.{part}norm.{field}": (d,)
                for part in ("attention_", "")
                for field in ("weight", "bias")
            }
        return found | {"norm.weight": (d,), "norm.bias": (d,)}
    symbols, d = max(s["vocab"], s["start"] + 1), s["width"]
    if s["model_type"] == "firth-elmo":
        depth = s.get("depth", 2)
        found = {"embedding.weight": (symbols, d), "mix.shares": (1 + depth,), "mix.scale": (1,)}
        for layer in (f"{way}.{i}." for way in ("forwards", "backwards") for i in range(depth)):
            found |= {
                f"{layer}take.weight": (4 * d, d),
                f"{layer}take.bias": (4 * d,),
                f"{layer}keep.weight": (4 * d, d),
            }
        return found
    inputs = s.get("inputs") or d
    found = {"table.weight": (symbols, inputs)}
    if s["model_type"] == "firth-rnn":
        reach, gates = d, {"tanh": 1, "gru": 3, "lstm": 4}[s.get("cell", "lstm")]
        ways = ["forwards", "backwards"] if s.get("bidirectional") else ["layers"]
        for way, i in product(ways, range(s.get("depth", 2))):
            layer = f"layers.{way}.{i}."
            found |= {
                f"{layer}take.weight": (gates * d, len(ways) * d if i else inputs),
                f"{layer}take.bias": (gates * d,),
                f"{layer}keep.weight": (gates * d, d),
            }
            found |= {f"{layer}bias": (d,)} if gates == 3 else {}
        if s.get("output") == "none":
            return found
    else:
        seen = (s["order"] - 1) * d
        reach = s["inner"] + seen * s.get("direct", False)
        found |= {"hidden.weight": (s["inner"], seen), "hidden.bias": (s["inner"],)}
    if s.get("output", "full") != "classes":
        found |= {"output.share": (symbols,)} if s.get("output") == "sampled" else {}
        return found | {"output.table": (symbols, reach), "output.bias": (symbols,)}
    cuts = [*s["cutoffs"], symbols - 1]
    head = cuts[0] + len(cuts) - 1
    found |= {"output.order": (symbols - 1,), "output.place": (symbols,)}
    found |= {"output.layers.head.weight": (head, reach), "output.layers.head.bias": (head,)}
    for i, size in enumerate(b - a for a, b in pairwise(cuts)):
        narrow = reach // 4 ** (i + 1)
        found |= {
            f"output.layers.tail.{i}.0.weight": (narrow, reach),
            f"output.layers.tail.{i}.1.weight": (size, narrow),
        }
    return found


MARIAN = {
    "vocab": "vocab_size",
    "start": "decoder_start_token_id",
    "end": "eos_token_id",
    "width": "d_model",
    "depth": "encoder_layers",
    "decoder_depth": "decoder_layers",
    "inner": "encoder_ffn_dim",
}


def t5_shapes(page: dict[str, Any], names: set[str]) -> dict[str, tuple[int, ...]]:
    """The same of T5, whose output layer may be there or not."""
    d, inner = page["d_model"], page["d_ff"]
    attended = page["num_heads"] * page["d_kv"]
    depth = page["num_layers"]
    below = page.get("num_decoder_layers") or depth
    found: dict[str, tuple[int, ...]] = {"source.weight": (page["vocab_size"], d)}
    if "output_layer.weight" in names:
        found["output_layer.weight"] = (page["vocab_size"], d)
    gated = page.get("is_gated_act", page.get("feed_forward_proj", "relu").startswith("gated-"))
    for side, layers, norms in (("encoder", depth, ()), ("decoder", below, ("cross_norm",))):
        found |= {
            f"{side}_distance.table.weight": (32, page["num_heads"]),
            f"{side}_norm.weight": (d,),
        }
        for layer in (f"{side}.{i}." for i in range(layers)):
            found |= {
                f"{layer}attention.qkv.weight": (3 * attended, d),
                f"{layer}attention.out.weight": (d, attended),
                f"{layer}down.weight": (d, inner),
            }
            found |= {f"{layer}{norm}.weight": (d,) for norm in ("attention_norm", "norm", *norms)}
            up = {"gated_up": 2 * inner} if gated else {"up": inner}
            found |= {f"{layer}{name}.weight": (rows, d) for name, rows in up.items()}
            if norms:
                found |= {
                    f"{layer}cross.query.weight": (attended, d),
                    f"{layer}cross.kv.weight": (2 * attended, d),
                    f"{layer}cross.out.weight": (d, attended),
                }
    return found


def pair_shapes(page: dict[str, Any], names: set[str]) -> dict[str, tuple[int, ...]]:
    """The same of the encoder-decoders."""
    kind = page["model_type"]
    if kind in ("t5", "mt5"):
        return t5_shapes(page, names)
    s = {ours: page[theirs] for ours, theirs in MARIAN.items()} if kind == "marian" else page
    d, depth = s["width"], s.get("depth", 1)
    targets = s.get("target_vocab") or s["vocab"]
    words = targets - s["end"]
    found: dict[str, tuple[int, ...]] = {"source.weight": (s["vocab"], d)}
    if s.get("target_vocab"):
        found["target.weight"] = (targets, d)
    if not s.get("tied", True):
        found["weight"] = (words, d)
    if kind == "marian":
        found["bias"] = (1, targets)
    if kind in ("marian", "firth-transformer"):
        parts = {"attention.qkv": (3 * d, d), "attention.out": (d, d)}
        parts |= {"up": (s["inner"], d), "down": (d, s["inner"])}
        cross = {"cross.query": (d, d), "cross.kv": (2 * d, d), "cross.out": (d, d)}
        below = s.get("decoder_depth") or depth
        sides = (("encoder", depth, parts, ()), ("decoder", below, parts | cross, ("cross_norm",)))
        norms = []
        for side, layers, shapes, more in sides:
            for i in range(layers):
                for name, shape in shapes.items():
                    found |= {f"{side}.{i}.{name}.weight": shape}
                    found |= {f"{side}.{i}.{name}.bias": shape[:1]}
                norms += [f"{side}.{i}.{name}" for name in ("attention_norm", "norm", *more)]
        norms += ["encoder_norm", "decoder_norm"] if s.get("norm") == "pre" else []
        return found | {f"{name}.{field}": (d,) for name in norms for field in ("weight", "bias")}
    found["bias"] = (words,)
    gates = {"tanh": 1, "gru": 3, "lstm": 4}[s.get("cell", "lstm")]
    states = 2 if gates == 4 else 1
    found |= {"bridge.weight": (depth * states * d, d), "bridge.bias": (depth * states * d,)}
    if kind == "firth-attention":
        found |= {
            "look.keys.weight": (d, d),
            "look.join.weight": (d, 2 * d),
            "look.join.bias": (d,),
        }
    both = s.get("bidirectional", True)
    ways = [("encoder.forwards", d // 2), ("encoder.backwards", d // 2)]
    for way, width in [*(ways if both else [("encoder.layers", d)]), ("decoder.layers", d)]:
        for layer in (f"{way}.{i}." for i in range(depth)):
            found |= {
                f"{layer}take.weight": (gates * width, d),
                f"{layer}take.bias": (gates * width,),
            }
            found |= {f"{layer}keep.weight": (gates * width, width)}
            found |= {f"{layer}bias": (width,)} if gates == 3 else {}
    return found


def examine_pairs(bundle: Bundle, folder: Path) -> None:
    """The same of an encoder-decoder."""
    config = json.loads((folder / "config.json").read_bytes())
    model = bundle.translator
    state = model.state_dict()
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    assert found == pair_shapes(config, set(found))
    for name, tensor in state.items():
        assert not tensor.is_meta, name
        assert tensor.dtype == torch.float32, name
        assert torch.isfinite(tensor).all(), name
    rows = [row.ids for row in bundle.tokenizer.encode(["the cats a.", "b a"])]
    ids = torch.tensor([word for row in rows for word in row])
    lengths = torch.tensor([len(row) for row in rows])
    with torch.inference_mode():
        assert model(ids, lengths, ids, lengths).shape == (len(ids), model.width)
        assert len(translate(model, ids, lengths, Beam(2), most=4)) == 2


def examine_language(bundle: Bundle, folder: Path) -> None:
    """The same of a language model: what it holds is what config.json asks for, and it reads and writes."""
    config = json.loads((folder / "config.json").read_bytes())
    model = bundle.model
    if isinstance(model, NGram):
        assert {"model_type": "firth-ngram", "end": None, **config} == {
            "model_type": "firth-ngram",
            **model.settings.model_dump(),
        }
        assert all((np.diff(keys) > 0).all() for keys in model.counts.keys)
        assert all((times >= (n > 0)).all() for n, times in enumerate(model.counts.times))
    else:
        state = model.state_dict()
        assert {name: tuple(tensor.shape) for name, tensor in state.items()} == language_shapes(
            config
        )
        for name, tensor in state.items():
            assert not tensor.is_meta, name
            assert tensor.dtype == (
                torch.int64 if name in ("output.order", "output.place") else torch.float32
            ), name
            assert torch.isfinite(tensor).all(), name
        if "output.order" in state:
            assert sorted(state["output.order"].tolist()) == [
                i for i in range(len(state["output.place"])) if i != model.settings.start
            ]
    if bundle.kind == "continue":
        rows = [
            [*row.ids, bundle.end]
            for row in bundle.tokenizer.encode(["the cats a.", "", "b a"], special=False)
        ]
        with torch.inference_mode():
            ids, lengths = (
                torch.tensor([word for row in rows for word in row]),
                torch.tensor([len(row) for row in rows]),
            )
            scores, reached = bundle.language.score(ids, lengths)
            assert scores.shape == ids.shape
            assert bundle.language.step(torch.tensor([row[-1] for row in rows]), reached)[
                0
            ].shape == (3, model.settings.vocab)
    elif bundle.kind is not None:
        assert len(Predictor(bundle, threads=1).predict(["", "the cats a."])) == 2


def examine(bundle: Bundle, folder: Path) -> None:
    """Every tensor is there, has the shape that config.json asks for, and is finite; and the model runs."""
    if isinstance(bundle.model, EncoderDecoder):
        examine_pairs(bundle, folder)
        return
    if not isinstance(bundle.model, Bert):
        examine_language(bundle, folder)
        return
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
        assert (
            tuple(bundle.head.state_dict()["masked.table"].shape) == asked["embedding.token.weight"]
        )
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
                with warnings.catch_warnings(
                    record=True, action="always", category=FirthWarning
                ) as said:
                    bundle = load(folder)
            except InputError as error:
                reason = str(error)
                return (
                    "refused"
                    if reason.strip() and "\n" not in reason
                    else f"a reason that is not one line: {reason!r}"
                )
            if any("\n" in str(one.message) for one in said):
                return "a warning that is not one line"
            try:
                examine(bundle, folder)
            except InputError:
                return "sound, but its texts are refused"
        return "sound"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of a library written in Rust is no Exception
        return f"{type(error).__name__}: {str(error)[:300]}"


# The trials


@pytest.fixture(scope="module")
def sound() -> dict[str, Folder]:
    return sound_folders()


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Folder]:
    return language_folders(tmp_path_factory.mktemp("spoken"))


@pytest.mark.parametrize("kind", ["sentence", "masked", "distilbert", "roberta", "split", "old"])
def test_a_sound_folder_is_opened(kind: str, sound: dict[str, Folder], tmp_path: Path) -> None:
    folder = write(tmp_path / "model", sound[kind])
    assert verdict(folder) == "sound"
    bundle = load(folder)
    assert bundle.unmatched == ((), ())
    saved = save(bundle, tmp_path / "saved")
    assert verdict(saved) == "sound"


def content(folder: Path) -> Folder:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


Ways = Sequence[Callable[[Folder, random.Random], None]]


def no_harm(kinds: dict[str, Folder], ways: Ways, seed: int, tmp_path: Path) -> None:
    """Change folders at random: each is refused or sound, and one that has its sums is refused if any file differs."""
    tally: Counter[str] = Counter()
    wrong = []
    began = time.monotonic()
    for case in range(CASES):
        draw = random.Random(f"{seed} {case}")
        kind = draw.choice(sorted(kinds))
        whole, changed = kinds[kind], dict(kinds[kind])
        done = mutate(changed, draw, ways)
        folder = write(tmp_path / "case", changed)
        outcome = verdict(folder)
        summed = "firth.json" in whole and changed.get("firth.json") == whole["firth.json"]
        if (
            summed
            and outcome != "refused"
            and any(changed.get(name) != data for name, data in whole.items())
        ):
            outcome = f"a changed file was not found: {outcome}"
        tally[
            outcome
            if outcome in ("refused", "sound", "sound, but its texts are refused")
            else "wrong"
        ] += 1
        if outcome not in ("refused", "sound", "sound, but its texts are refused"):
            wrong.append(f"seed {seed} case {case}: {kind}, {', '.join(done)}: {outcome}")
        shutil.rmtree(folder)
    print(f"{CASES} folders in {time.monotonic() - began:.0f} s: {dict(tally)}")
    assert not wrong, f"{len(wrong)} of {CASES} folders did harm:\n" + "\n".join(wrong[:40])
    assert tally["refused"] > CASES // 2  # the mutations bite
    assert tally["sound"] > CASES // 50  # and are not all of one kind


def test_no_mutated_folder_does_harm(sound: dict[str, Folder], tmp_path: Path, seed: int) -> None:
    write(tmp_path / "start", sound["masked"])
    no_harm(
        {**sound, "saved": content(save(load(tmp_path / "start"), tmp_path / "saved"))},
        (),
        seed,
        tmp_path,
    )


def test_no_mutated_language_model_does_harm(
    spoken: dict[str, Folder], tmp_path: Path, seed: int
) -> None:
    """Of each kind one with its sums, and one without, in which damage has to be found by what it does."""
    bare = {
        f"{kind} of others": {k: v for k, v in folder.items() if k != "firth.json"}
        for kind, folder in spoken.items()
    }

    def whole(folder: Folder, draw: random.Random) -> None:
        if b'"I64"' in folder.get("model.safetensors", b""):
            whole_numbers(folder, draw)

    no_harm({**spoken, **bare}, (whole, whole), seed, tmp_path)


@pytest.mark.parametrize("kind", LANGUAGE_KINDS)
def test_a_sound_language_model_is_opened(
    kind: str, spoken: dict[str, Folder], tmp_path: Path
) -> None:
    folder = write(tmp_path / "model", spoken[kind])
    assert verdict(folder) == "sound"
    assert load(folder).unmatched == ((), ())
    (folder / "firth.json").unlink()
    assert verdict(folder) == "sound"


HUGE = {
    "config": {
        "config.json": dumped(
            {
                **BERT_CONFIG,
                "vocab_size": 1 << 24,
                "hidden_size": 1 << 16,
                "intermediate_size": 1 << 18,
            }
        )
    },
    "layers": {"config.json": dumped({**BERT_CONFIG, "num_hidden_layers": 1024})},
    "positions": {"config.json": dumped({**BERT_CONFIG, "max_position_embeddings": 1 << 20})},
    "labels": {
        "config.json": dumped(
            {
                **BERT_CONFIG,
                "architectures": ["BertForSequenceClassification"],
                "num_labels": (1 << 16) - 1,
            }
        ),
        "modules.json": lambda path: None,  # with it, a head without weights is none
    },
    "vocabulary": {
        "config.json": dumped(
            {
                **BERT_CONFIG,
                "architectures": ["BertForMaskedLM"],
                "vocab_size": 1 << 24,
                "tie_word_embeddings": False,
            }
        )
    },
    "tensor": {
        "model.safetensors": packed(
            dumped({"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}), b""
        )
    },
    "header": {"model.safetensors": struct.pack("<Q", 1 << 40) + b"{}"},
    "header that fits": {"model.safetensors": struct.pack("<Q", (64 << 20) + 1) + b"{}"},
    "dimensions": {
        "model.safetensors": packed(
            dumped(
                {"a": {"dtype": "F32", "shape": [(1 << 47) - 1] * 100_000, "data_offsets": [0, 4]}}
            ),
            bytes(4),
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
    for name in (
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "modules.json",
        "1_Pooling/config.json",
    ):
        for number, put in enumerate(
            (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir(), loop)
        ):
            folder = write(
                tmp_path / f"{number}{name.replace('/', '')}", {**sound["sentence"], name: put}
            )
            outcome = verdict(folder)
            # A link that leads to itself is as good as no file, and not every file has to be there.
            assert outcome == "refused" or (
                put is loop and name in ("tokenizer.json", "modules.json") and outcome == "sound"
            ), (
                name,
                number,
                outcome,
            )


def test_a_text_that_the_weights_have_no_row_for_is_no_crash(
    sound: dict[str, Folder], tmp_path: Path
) -> None:
    """The number of pieces may fit and yet an id be too high."""
    page = json.loads(sound["sentence"]["tokenizer.json"])
    del page["model"]["vocab"]["cat"]
    page["model"]["vocab"]["dog"] = 5000
    assert (
        verdict(write(tmp_path / "model", {**sound["sentence"], "tokenizer.json": dumped(page)}))
        != "sound"
    )


AUDIT = """
import sys
events = []
sys.addaudithook(lambda event, args: events.append((event, str(args))) if event.startswith(("pickle.", "marshal.loads")) else None)
import warnings
import firth
from firth.folders.read import load
from firth.folders.write import save
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
assert "torch._dynamo" not in sys.modules, "the compiler was imported, which takes seconds"
import pickle
pickle.loads(pickle.dumps(OSError))
assert any(event[0] == "pickle.find_class" for event in events), "the hook is deaf"
print("no pickle")
"""


def test_no_pickle_is_opened_over_load_embed_predict_and_save(
    sound: dict[str, Folder], tmp_path: Path
) -> None:
    folder = write(tmp_path / "model", sound["masked"])
    program = AUDIT.format(model=str(folder), saved=str(tmp_path / "saved"))
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert (run.returncode, run.stdout) == (0, "no pickle\n"), run.stderr
