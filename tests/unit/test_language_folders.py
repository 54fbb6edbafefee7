"""Folders of language models: what each refuses, in one sentence that names the place, and what it costs to be promised much."""

import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import load as unpack
from safetensors.torch import save as pack
from torch import Tensor

from firth.base.errors import FirthWarning, InputError
from firth.base.files import tensor_header, write_arrays
from firth.folders.read import load
from firth.predictor import Predictor
from tests.unit.folders import LANGUAGE_KINDS, PAIR_KINDS, Folder, language_folders, write
from tests.unit.mutations import dumped

ROOT = Path(__file__).parents[2]
Change = Callable[[Any], Any]


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Folder]:
    """One of each kind, without the sums that would find any change."""
    folders = language_folders(tmp_path_factory.mktemp("spoken"))
    return {
        kind: {name: data for name, data in folder.items() if name != "firth.json"}
        for kind, folder in folders.items()
    }


def config(**changes: Any) -> Change:
    """Put values into config.json."""

    def change(folder: Folder) -> None:
        folder["config.json"] = dumped(json.loads(folder["config.json"]) | changes)

    return change


def tensor(name: str, change: Callable[[Tensor], Tensor | None]) -> Change:
    """Alter one tensor, or leave it out."""

    def rewrite(folder: Folder) -> None:
        tensors = unpack(folder["model.safetensors"])
        altered = change(tensors[name].clone())
        tensors = {key: value for key, value in tensors.items() if key != name} | (
            {} if altered is None else {name: altered}
        )
        folder["model.safetensors"] = pack(tensors)

    return rewrite


def put(place: Any, value: float) -> Callable[[Tensor], Tensor]:
    def change(given: Tensor) -> Tensor:
        given[place] = value
        return given

    return change


REFUSED: list[tuple[str, Change, str]] = [
    ("tanh", config(depht=1), "config.json: depht: Extra inputs"),
    (
        "tanh",
        config(width=16),
        r"table.weight has shape \[14, 8\] where config.json asks for \[14, 16\]",
    ),
    ("tanh", config(cell="lstm"), "layers.layers.0.take.weight has shape"),
    ("tanh", config(depth=3), "2 weights are missing: layers.layers.1.keep.weight"),
    ("tanh", config(start=3), "start mark leaves no token"),
    ("tanh", config(vocab=13, start=13), "the tokenizer has 14 pieces where the weights have 13"),
    ("tanh", tensor("output.bias", lambda given: None), "missing: output.bias"),
    (
        "tanh",
        tensor("output.bias", put(3, float("nan"))),
        "output.bias holds values that are not finite",
    ),
    (
        "tanh",
        tensor("table.weight", lambda given: given.long()),
        "table.weight holds I64, not floating-point",
    ),
    ("gru", config(tied=False), "missing: output.table"),
    ("gru", config(tied="yes"), "tied"),
    ("gru", tensor("output.share", put(5, -0.1)), "share does not hold shares"),
    ("gru", tensor("output.share", lambda given: given * 2), "share does not hold shares"),
    (
        "gru",
        tensor("output.share", lambda given: given.roll(1)),
        "share does not hold shares",
    ),  # the start mark would be drawn
    ("lstm", tensor("output.order", put(0, 5)), "not an order of the words"),
    ("lstm", tensor("output.order", put(0, 2)), "not an order of the words"),  # the start mark
    ("lstm", tensor("output.order", put(0, 1 << 40)), "not an order of the words"),
    ("lstm", tensor("output.place", put(0, -1)), "not an order of the words"),
    ("lstm", tensor("output.place", lambda given: given.roll(1)), "not an order of the words"),
    (
        "lstm",
        tensor("output.order", lambda given: given.int()),
        "output.order holds I32, not whole numbers of eight bytes",
    ),
    (
        "lstm",
        tensor("output.order", lambda given: given.float()),
        "output.order holds F32, not whole numbers of eight bytes",
    ),
    ("lstm", config(cutoffs=[3, 9]), "shape"),
    ("lstm", config(cutoffs=[8, 3]), "don't rise"),
    (
        "ffnn",
        config(order=4),
        r"hidden.weight has shape \[6, 8\] where config.json asks for \[6, 12\]",
    ),
    ("ffnn", config(direct=False), "output.table has shape"),
    ("ngram", config(order=4), "config.json has other sizes than the counts"),
    ("ngram", config(end=None), "config.json has other sizes than the counts"),
    ("ngram", config(width=8), "width: Extra inputs"),
    ("ngram", tensor("keys.2", lambda given: given.flip(0)), "keys.2 are not in order"),
    ("ngram", tensor("keys.3", put(-1, 1 << 60)), "keys.3 go beyond"),
    ("ngram", tensor("times.2", put(0, 0)), "times.2 are not counts"),
    ("ngram", tensor("times.1", lambda given: given[:-1]), "times.1 are not 15 counts"),
    (
        "ngram",
        tensor("times.1", lambda given: given.float()),
        "'times.1' holds F32, not F64 or I32 or I64",
    ),
    ("ngram", tensor("times.1", lambda given: given.bfloat16()), "'times.1' holds BF16"),
    ("ngram", tensor("discounts", put((0, 0), float("nan"))), "discounts are not between"),
    ("ngram", tensor("discounts", lambda given: given.float()), "'discounts' holds F32"),
    ("ngram", tensor("sizes", put(0, 1 << 24)), "times.1 are not 16777217 counts"),
    ("ngram", tensor("sizes", put(0, 1 << 50)), "sizes are wrong"),
    ("ngram", tensor("keys.2", lambda given: None), "lack 'keys.2'"),
    ("gpt", config(n_embd=16), "wte.weight has shape"),
    (
        "gpt",
        tensor("transformer.h.0.mlp.c_fc.weight", lambda given: given.t().contiguous()),
        r"has shape \[16, 8\] where",
    ),
    ("gpt", config(tie_word_embeddings=False), "tie_word_embeddings"),
    ("gpt", config(vocab_size=13), "wte.weight has shape"),
    ("gpt classes", config(id2label={"0": "no", "1": "so", "2": "yes"}), "score.weight has shape"),
    ("gpt tags", tensor("classifier.bias", lambda given: None), "missing: classifier.bias"),
    (
        "gpt",
        config(model_type="gpt3"),
        "model_type 'gpt3' is not one that Firth opens .*gpt2, firth-elmo, firth-rnn, firth-ffnn, firth-ngram",
    ),
]


@pytest.mark.parametrize(("kind", "change", "reason"), REFUSED)
def test_what_does_not_fit_is_refused(
    kind: str, change: Change, reason: str, spoken: dict[str, Folder], tmp_path: Path
) -> None:
    folder = dict(spoken[kind])
    load(write(tmp_path / "sound", folder))
    change(folder)
    with pytest.raises(InputError, match=reason) as caught:
        load(write(tmp_path / "model", folder))
    assert str(caught.value).startswith(str(tmp_path / "model"))
    assert "\n" not in str(caught.value)


LARGE = {"vocab": 1 << 24, "width": 1 << 16}


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        ("tanh", LARGE),
        ("tanh", {"depth": 1024}),
        ("lstm", LARGE | {"cutoffs": [1 << 20, 1 << 22, 1 << 23]}),
        ("gru", LARGE),
        ("ffnn", LARGE | {"order": 64, "inner": 1 << 18}),
        ("ngram", {"vocab": 1 << 24, "order": 64}),
        ("gpt", {"vocab_size": 1 << 24, "n_embd": 1 << 16, "n_inner": 1 << 18}),
        ("gpt", {"n_layer": 1024}),
        ("attention", LARGE),
        ("seq2seq", {"depth": 1024}),
        ("transformer", LARGE | {"length": 1 << 20}),
        ("transformer", {"decoder_depth": 1024}),
        ("marian", {"decoder_layers": 1024, "encoder_layers": 1024}),
        ("t5", {"num_decoder_layers": 1024, "num_layers": 1024}),
        ("t5", {"vocab_size": 1 << 24, "d_model": 1 << 16, "d_kv": 1 << 16, "num_heads": 1024}),
        ("t5 1.1", {"d_ff": 1 << 18}),
    ],
)
def test_a_huge_promise_costs_nothing(
    kind: str, promise: dict[str, Any], spoken: dict[str, Folder], tmp_path: Path
) -> None:
    folder = dict(spoken[kind])
    config(**promise)(folder)
    write(tmp_path / "model", folder)
    tracemalloc.start()
    began = time.monotonic()
    try:
        with pytest.raises(InputError):
            load(tmp_path / "model")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began < 2
    assert peak < 16 << 20


@pytest.mark.filterwarnings("ignore:.*not used. firth.head")  # which firth.json would know
@pytest.mark.parametrize("kind", LANGUAGE_KINDS)
def test_a_model_is_asked_for_what_it_is(
    kind: str, spoken: dict[str, Folder], tmp_path: Path
) -> None:
    """Vectors of an encoder, the next word of a language model; of another, a sentence says why not."""
    folder = write(tmp_path / "model", spoken[kind])
    if kind.startswith("elmo"):  # what its output layer is for stands in firth.json alone
        with pytest.warns(FirthWarning, match="not used: firth.head"):
            bundle = load(folder)
    else:
        bundle = load(folder)
    others = ("gpt bare", "gpt classes", "gpt tags", "rnn classes", "elmo", "elmo classes")
    if kind in (*others, *PAIR_KINDS):
        with pytest.raises(InputError, match="is no language model"):
            bundle.language  # noqa: B018 - asking is what is refused
        with pytest.raises(InputError, match="is no language model"):
            bundle.end  # noqa: B018
    else:
        assert bundle.language is bundle.model
        assert bundle.end == 3  # the lstm's own is None: its tokenizer's is
    if bundle.record.is_encoder:
        shape = (2, bundle.encoder.width)
        assert Predictor(bundle, threads=1).embed(["the cat", ""]).shape == shape
    else:
        with pytest.raises(InputError, match="gives no vectors"):
            Predictor(bundle, threads=1).embed(["the cat"])
    with pytest.raises(InputError, match="is no language model"):
        load("minilm").language  # noqa: B018


def test_a_folder_that_claims_another_task_is_refused(tmp_path: Path) -> None:
    folders = language_folders(tmp_path)
    for kind in ("lstm", "gpt", "ngram"):
        page = json.loads(folders[kind]["firth.json"])
        with pytest.raises(InputError, match="the task is 'embed' where"):
            load(
                write(
                    tmp_path / "other" / kind,
                    folders[kind] | {"firth.json": dumped(page | {"task": "embed"})},
                )
            )


def test_opening_one_does_not_import_the_compiler(
    spoken: dict[str, Folder], tmp_path: Path
) -> None:
    """Which takes seconds, and comes with many an operation on tensors without memory."""
    for kind in LANGUAGE_KINDS:
        write(tmp_path / kind, spoken[kind])
    program = f"import sys\nfrom firth.folders.read import load\n[load({str(tmp_path)!r} + '/' + kind) for kind in {LANGUAGE_KINDS!r}]\n"
    done = subprocess.run(
        [sys.executable, "-c", program + "assert 'torch._dynamo' not in sys.modules"],
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0


def test_a_card_says_what_the_model_is(spoken: dict[str, Folder]) -> None:
    for kind, said in {
        "gpt": "GPT-2: 1 layers of width 8 with 2 heads, 14 pieces, reads 16 tokens of a text.",
        "gru": "A recurrent network: 2 GRU layers of width 8, 14 pieces, reads texts of any length.",
        "ffnn": "A feed-forward network that sees 2 of 14 pieces as vectors of width 4, through 6 units, reads texts of any",
        "elmo": "ELMo: a forward and a backward language model of 2 LSTM layers of width 8, 14 pieces, whose layers are "
        "mixed as gamma sum_j s_j h_j with gamma 1.000 and s = (0.333, 0.333, 0.333), reads texts of any length.",
        "ngram": "An n-gram model: 36 n-grams of up to 3 of 14 pieces, counted and smoothed, reads texts of any length.",
    }.items():
        assert f"Saved by Firth. {said}" in spoken[kind]["README.md"].decode()
    assert "transformers" in spoken["gpt"]["README.md"].decode()
    assert "transformers" not in spoken["ngram"]["README.md"].decode()


def test_arrays_are_written_as_they_are(tmp_path: Path) -> None:
    """Of any of four types and any shape, each where a reader may map it."""
    arrays = {
        "a": np.arange(3, dtype=np.int32),
        "b": np.array([[1.5], [-2.5]], np.float64),
        "c": np.arange(5, dtype=np.int64)[::-2],
        "d": np.ones((1, 2, 3), np.float32),
        "e": np.zeros(0, np.int64),
    }
    written = write_arrays(tmp_path / "x.safetensors", arrays)
    assert written.size == (tmp_path / "x.safetensors").stat().st_size
    assert {name: one.dtype for name, one in tensor_header(tmp_path / "x.safetensors").items()} == {
        "a": "I32", "b": "F64", "c": "I64", "d": "F32", "e": "I64"
    }  # fmt: skip
    again = load_file(tmp_path / "x.safetensors")
    assert all(
        again[name].dtype == array.dtype and np.array_equal(again[name], array)
        for name, array in arrays.items()
    )
    assert torch.equal(
        unpack((tmp_path / "x.safetensors").read_bytes())["b"], torch.from_numpy(arrays["b"])
    )
