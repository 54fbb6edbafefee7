"""What a Python call may give: paths, texts and values; anything else is refused in words, never answered as something else."""

import json
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.torch import load_file, save_file

import firth
from firth.base.errors import LONGEST, FirthError, InputError, Stopped, on_command_line
from firth.data.batch import make_batch
from firth.data.examples import Labelled, Line
from firth.data.record import Fault
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.predictor import Predictor
from firth.reading.columns import Named
from firth.recipes.settings import FinetuneSettings
from firth.tasks.encoded import ExampleError
from firth.tasks.head import make_head
from firth.text.tokenizer import Tokenizer
from firth.train.run import TooLate
from tests.unit.folders import sound_folders, write
from tests.unit.reads import open_file
from tests.unit.speakers import bundle as speaker

TEXTS = ["the cats", "a cat.", "b a"]


class Frame:
    """What a DataFrame does, of whichever library: its columns are what it iterates over."""

    columns = ("id", "Text")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, name: str) -> list[str]:
        return TEXTS


class Series(Frame):
    """What a column of one does; a row may even be called `columns`."""

    ndim = 1

    def __iter__(self) -> Iterator[str]:
        return iter(TEXTS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of small models, and two files."""
    place = tmp_path_factory.mktemp("arguments")
    for name, content in sound_folders().items():
        write(place / name, content)
    (place / "lm.txt").write_text(
        "The cat sat. The cat ran.\n\nA cat is a cat.\n" * 20, encoding="utf-8"
    )
    (place / "rows.csv").write_text("text,label\n" + "a cat,x\nthe cats,y\n" * 10, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def encoder(place: Path) -> Predictor:
    return Predictor(load(place / "sentence"), 1)


@pytest.fixture(scope="module")
def filler(place: Path) -> Predictor:
    return Predictor(load(place / "masked"), 1)


@pytest.fixture(scope="module")
def speaks() -> Predictor:
    return Predictor(speaker("ngram"), 1)


@pytest.fixture(scope="module")
def decides(place: Path) -> Predictor:
    plain = load(place / "sentence")
    torch.manual_seed(0)
    head = make_head("classify", plain.encoder, ("n", "y"))
    return Predictor(
        Bundle(plain.model, plain.tokenizer, "bert", "classify", head and head.eval(), ("n", "y")),
        1,
    )


# Paths


@pytest.mark.parametrize(
    "given",
    [
        str,
        Path,
        lambda path: [path],
        lambda path: iter((str(path),)),
        lambda path: np.array([str(path)]),
    ],
)
def test_one_path_or_several(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], given: Callable[[Path], Any]
) -> None:
    assert firth.vocab(given(place / "lm.txt"), tmp_path / "words", size=64).lines == 40
    assert capsys.readouterr() == ("", "")
    outcome = firth.pretrain(
        given(place / "lm.txt"), str(tmp_path / "gram"), model="ngram", order=np.int64(2)
    )
    assert outcome.steps == 0
    assert firth.load(tmp_path / "gram").bundle.kind == "continue"


@pytest.mark.parametrize(
    "given",
    [
        None,
        b"lm.txt",
        3,
        "",
        [],
        (),
        iter(()),
        [""],
        [None],
        ["a", 3],
        {"lm.txt"},
        {"lm.txt": 1},
        "a\0b",
        Frame(),
    ],
)
def test_what_is_no_path_is_refused(tmp_path: Path, given: Any) -> None:
    for call in (firth.vocab, firth.pretrain):
        with pytest.raises(InputError, match=r"^corpus"):
            call(given, tmp_path / "out", **({"steps": 1} if call is firth.pretrain else {}))
    with pytest.raises(InputError, match=r"^(models|there is no model)"):
        firth.evaluate(given, "rows.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", [b"x", 3, "", ["x"]])
def test_where_one_path_belongs_others_are_refused(place: Path, tmp_path: Path, given: Any) -> None:
    model, out = place / "sentence", tmp_path / "out"
    calls: dict[str, Callable[[], Any]] = {
        "out": lambda: firth.vocab(place / "lm.txt", given),
        "model": lambda: firth.load(given),
        "train": lambda: firth.finetune("classify", model, given, out),
        "dev": lambda: firth.finetune("classify", model, place / "rows.csv", out, dev=given),
        "init": lambda: firth.pretrain(place / "lm.txt", out, steps=1, init=given),
        "data": lambda: firth.evaluate(model, given),
        "counts": lambda: firth.evaluate(model, place / "rows.csv", counts=given),
    }
    for name, call in calls.items():
        with pytest.raises(InputError, match=rf"^{name} is a path"):
            call()
    with pytest.raises(InputError, match=r"^train is a path"):
        firth.finetune("classify", model, None, out)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


# Texts


@pytest.mark.parametrize(
    "given",
    [
        tuple(TEXTS),
        iter(TEXTS),
        (text for text in TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        Series(),
    ],
    ids=["tuple", "iterator", "generator", "array", "objects", "series"],
)
def test_any_list_of_texts_is_answered_alike(encoder: Predictor, given: Any) -> None:
    np.testing.assert_array_equal(encoder.embed(given), encoder.embed(TEXTS))


NO_LISTS = {
    "a table": (Frame(), r"like table\['Text'\]"),
    "a table of Arrow": (pa.table({"text": TEXTS}), r"like table\['text'\]"),
    "a dict": ({"text": TEXTS}, "texts is a list, tuple, array, Series or iterator of strings"),
    "a set": (set(TEXTS), "texts is a list"),
    "a frozen set": (frozenset(TEXTS), "texts is a list"),
    "a string": ("the cats", "not one string"),
    "bytes": (b"the cats", "texts is a list"),
    "nothing": (None, "texts is a list"),
    "a number": (3, "texts is a list"),
    "rows of three": (np.array([["a", "b", "c"]]), "texts is a list"),
    "an array of one": (np.array("a"), "texts is a list"),
}


@pytest.mark.parametrize(("given", "said"), NO_LISTS.values(), ids=NO_LISTS)
def test_what_is_no_list_of_texts_is_refused(
    encoder: Predictor,
    filler: Predictor,
    speaks: Predictor,
    decides: Predictor,
    given: Any,
    said: str,
) -> None:
    asked = (
        encoder.embed,
        filler.predict,
        decides.predict,
        decides.answers,
        decides.raw,
        speaks.predict,
        speaks.score,
        speaks.rank,
    )
    for ask in (*asked, speaks.write, speaks.complete):
        with pytest.raises(InputError, match=said):
            ask(given)


ODD = {
    "None": (None, r"text 3 is missing \(None\)"),
    "nan": (float("nan"), r"text 3 is missing \(nan\)"),
    "numpy's nan": (np.float32("nan"), r"text 3 is missing"),
    "a number": (7, r"text 3 is of type int \(7\)"),
    "bytes": (b"cat", r"text 3 is bytes .*\.decode"),
    "three": (("a", "b", "c"), r"text 3 is of type tuple"),
    "half a pair": (("a", None), r"text 3 is of type tuple"),
    "a dict": ({"text": "a"}, r"text 3 is of type dict"),
    "numbers": (np.array([1, 2]), r"text 3 is of type ndarray"),
}


@pytest.mark.parametrize(("item", "said"), ODD.values(), ids=ODD)
def test_what_is_no_text_is_refused_by_its_number(
    encoder: Predictor, decides: Predictor, speaks: Predictor, item: Any, said: str
) -> None:
    for ask in (
        encoder.embed,
        decides.predict,
        speaks.predict,
        speaks.score,
        speaks.rank,
        speaks.complete,
    ):
        with pytest.raises(InputError, match=said):
            ask(["[MASK]", "a", item])
        with pytest.raises(InputError, match=said):
            ask(iter(["[MASK]", "a", item]))


# Pairs


def test_a_pair_is_embedded_as_the_model_reads_pairs(encoder: Predictor) -> None:
    first, second = "the cats", "a b a."
    (row,) = encoder.bundle.tokenizer.encode([first], [second])
    assert set(row.segments) == {0, 1}
    with torch.inference_mode():
        hidden = encoder.bundle.encoder(*make_batch([row], [0]).stream)
    expected = torch.nn.functional.normalize(hidden.tokens.mean(0), dim=0).numpy()
    alone = encoder.embed([first])
    for given in (
        [(first, second)],
        [[first, second]],
        np.array([[first, second]]),
        iter([(first, second)]),
    ):
        found = encoder.embed(given)
        np.testing.assert_allclose(found[0], expected, atol=1e-6)
        assert np.abs(found - alone).max() > 1e-3, "the second text made no difference"
    mixed = encoder.embed([first, (first, second), second])
    np.testing.assert_allclose(
        mixed, np.stack([alone[0], expected, encoder.embed([second])[0]]), atol=1e-6
    )


def test_a_pair_is_refused_where_it_would_lose_its_second_text(
    encoder: Predictor, filler: Predictor, speaks: Predictor, place: Path
) -> None:
    pair = ("a [MASK].", "the cats")
    for pool in ("words", "none"):
        with pytest.raises(
            InputError,
            match=rf"text 2: it is a pair, and pool='{pool}' gives the places of words in one text",
        ):
            encoder.embed(["a", pair], pool=pool)  # type: ignore[arg-type]
    with pytest.raises(
        InputError, match="text 1: it is a pair, and this model has no next-sentence head"
    ):
        filler.predict([pair])
    for ask in (speaks.predict, speaks.write, speaks.complete, speaks.score, speaks.rank):
        with pytest.raises(InputError, match=r"text 1 is of type tuple .* not a string"):
            ask([pair])
    tags = encoder.bundle
    tagger = Predictor(
        Bundle(
            tags.model,
            tags.tokenizer,
            "bert",
            "tag",
            make_head("tag", tags.encoder, ("O", "B-x")),
            ("O", "B-x"),
        ),
        1,
    )
    with pytest.raises(
        InputError, match="text 1: it is a pair, and this model answers single texts"
    ):
        tagger.predict([pair])


def test_a_pair_is_refused_by_a_model_that_can_not_tell_it_from_one_text(
    place: Path, tmp_path: Path
) -> None:
    spec = json.loads((place / "sentence/tokenizer.json").read_text())
    (tmp_path / "tokenizer.json").write_text(
        json.dumps(spec | {"post_processor": None})
    )  # as GPT-2's
    plain, bare = load(place / "sentence"), Tokenizer.open(tmp_path)
    with pytest.raises(
        InputError,
        match="text 2: it is a pair, and this model's tokenizer puts no mark between two texts",
    ):
        Predictor(Bundle(plain.model, bare, "bert"), 1).embed(["a cat", ("a", "cat")])
    taught = Predictor(Bundle(plain.model, bare, "bert", settings={"pairs": True}), 1)
    assert taught.embed([("a", "cat")]).shape == (1, 8)
    one = write(tmp_path / "one", sound_folders()["sentence"])
    tensors = load_file(one / "model.safetensors")
    name = "embeddings.token_type_embeddings.weight"
    save_file(tensors | {name: tensors[name][:1].clone()}, one / "model.safetensors")
    (one / "config.json").write_text(
        json.dumps(json.loads((one / "config.json").read_text()) | {"type_vocab_size": 1})
    )
    with pytest.raises(InputError, match="text 1: it is a pair, and this model knows 1 segment"):
        Predictor(load(one), 1).embed([("a", "cat")])


# Values

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("embed", {"combine": "avg"}, "combine is one of mean, sum, concat, not 'avg'"),
    ("embed", {"combine": None}, "combine is one of"),
    ("embed", {"pool": "average"}, "pool is one of mean, cls, max, words, none, not 'average'"),
    ("embed", {"long": "nonsense"}, "long is one of cut, slide, error, not 'nonsense'"),
    ("embed", {"layers": -1}, "layers is a list of whole numbers, not -1"),
    ("embed", {"layers": "-1"}, "layers is a list of whole numbers"),
    ("embed", {"layers": [0.5]}, "layers is a list of whole numbers"),
    ("embed", {"layers": []}, "layers is a list of whole numbers"),
    ("embed", {"layers": [7]}, "layers go from 0"),
    ("fill", {"top": -3}, "top is a whole number from 1 to 1000, not -3"),
    ("fill", {"top": 0}, "top is a whole number"),
    ("fill", {"top": 2.0}, "top is a whole number"),
    ("fill", {"top": "two"}, "top is a whole number"),
    ("fill", {"top": True}, "top is a whole number"),
    ("fill", {"long": "slid"}, "long is one of"),
    ("decide", {"top": 2}, "top is for filling blanks"),
    ("decide", {"long": 1}, "long is one of"),
    ("continue", {"long": "nonsense"}, "long is one of"),
    ("continue", {"long": "slide"}, "long='slide' is not for continuing a text"),
    ("continue", {"top": 2}, "top is for filling blanks"),
    ("score", {"long": "nonsense"}, "long is one of"),
    ("score", {"context": None}, "context is a string, not None"),
    ("rank", {"long": "nonsense"}, "long is one of"),
    ("write", {"tokens": 0}, "tokens is a whole number of at least 1, not 0"),
    ("write", {"tokens": "many"}, "tokens is a whole number"),
    ("write", {"temperature": -1}, "temperature is a number of at least 0"),
    ("write", {"temperature": float("nan")}, "temperature is a number"),
    ("write", {"temperature": "hot"}, "temperature is a number"),
    ("write", {"temperature": 1, "top_k": 0}, "top_k is a whole number"),
    ("write", {"temperature": 1, "top_p": 1.5}, "top_p is a number of at least 0 and at most 1"),
    ("write", {"temperature": 1, "top_p": 0}, "top_p= above 0"),
    ("write", {"top_k": 3}, "top_k= and top_p= are for draws"),
    ("write", {"stop": "."}, "stop is a list of strings, not '.'"),
    ("write", {"stop": [3]}, "stop is a list of strings"),
    ("write", {"seed": -1}, "seed is a whole number of at least 0"),
    ("write", {"seed": None}, "seed is a whole number"),
    ("complete", {"top": 0}, "top is a whole number"),
    ("complete", {"tokens": -1}, "tokens is a whole number"),
]


@pytest.mark.parametrize(
    ("ask", "options", "said"), WRONG, ids=[f"{ask} {options}" for ask, options, _ in WRONG]
)
def test_a_wrong_value_is_refused(
    encoder: Predictor,
    filler: Predictor,
    decides: Predictor,
    speaks: Predictor,
    ask: str,
    options: dict[str, Any],
    said: str,
) -> None:
    asks: dict[str, Callable[..., Any]] = {
        "embed": encoder.embed,
        "fill": filler.predict,
        "decide": decides.predict,
        "continue": speaks.predict,
        **{name: getattr(speaks, name) for name in ("score", "rank", "write", "complete")},
    }
    with pytest.raises(ValueError, match=re.escape(said)) as found:
        asks[ask](["a [MASK]"], **options)
    assert type(found.value) is firth.InputError


def test_a_wrong_value_of_a_function_is_refused_before_any_work(
    place: Path, tmp_path: Path
) -> None:
    model, rows, text, out = (
        place / "sentence",
        place / "rows.csv",
        place / "lm.txt",
        tmp_path / "out",
    )
    calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
        *((firth.load, (model,), {"threads": threads}) for threads in (0, -1, "two", 1.5, 10**9)),
        *((Predictor, (load(model),), {"threads": threads}) for threads in (0, "two")),
        *((firth.vocab, (text, out), {"size": size}) for size in (0, -1, "many", 2.5, 1 << 30)),
        (firth.vocab, (text, out), {"kind": "word"}),
        (firth.vocab, (text, out), {"case": "upper"}),
        (firth.vocab, (text, out), {"accents": True}),
        (firth.vocab, (text, out), {"field": None}),
        (firth.vocab, (text, out), {"encoding": 8}),
        (firth.vocab, (text, out), {"encoding": ""}),
        (firth.vocab, (text, out), {"force": "yes"}),
        (firth.evaluate, (model, rows), {"long": "nonsense"}),
        (firth.evaluate, (model, rows), {"label": ["label"]}),
        (firth.evaluate, (model, rows), {"text": ""}),
        (firth.evaluate, (model, rows), {"threads": 0}),
        (firth.pretrain, (text, out), {"steps": "ten"}),
        (firth.pretrain, (text, out), {"steps": 0}),
        (firth.pretrain, (text, out), {"steps": 1, "size": "huge"}),
        (firth.pretrain, (text, out), {"steps": 1, "seed": -1}),
        (firth.pretrain, (text, out), {"steps": 1, "threads": 0}),
        (firth.pretrain, (text, out), {"steps": 1, "text": ""}),
        (firth.pretrain, (text, out), {"steps": 1, "length": 10**9}),
        (firth.pretrain, (text, out), {"minutes": float("nan")}),
        (firth.pretrain, (text, out), {"steps": 1, "resume": "no"}),
        (firth.finetune, ("sort", model, rows, out), {}),
        (firth.finetune, ("classify", model, rows, out), {"epochs": 0}),
        (firth.finetune, ("classify", model, rows, out), {"label": ""}),
        (firth.finetune, ("classify", model, rows, out), {"long": "nonsense"}),
        (firth.finetune, ("classify", model, rows, out), {"batch": 2.5}),
        (firth.finetune, ("classify", model, rows, out), {"force": None}),
        (firth.embed, (model, text), {"combine": "avg"}),
        (firth.embed, (model, text), {"layers": -1}),
        (firth.embed, (model, text), {"threads": 0}),
        (firth.predict, (place / "masked", text), {"top": -3}),
        (firth.predict, (place / "masked", text), {"temperature": "hot"}),
        (firth.predict, (place / "masked", text), {"stop": "."}),
        (firth.check, (rows,), {"task": "sort"}),
        (firth.check, (rows,), {"label": 1}),
        (firth.predict, (place / "masked", text), {"orders": 1}),
        (firth.gradients, (model, text), {"field": ""}),
        (firth.view, (model, ""), {}),
        (firth.curves, ([model, 3],), {}),
        (firth.curves, (model,), {"force": 1}),
        (firth.view, (model, "a text"), {"pair": 3}),
        (firth.view, (model, "a text"), {"with_model": "yes"}),
    ]
    for call, positional, options in calls:
        with pytest.raises(InputError) as found:
            call(*positional, **options)
        assert not options or next(reversed(options)) in str(found.value).replace(
            "field", "text field"
        ), (
            call,
            options,
            found.value,
        )
    assert not list(tmp_path.iterdir())


def test_an_unknown_option_names_the_nearest(place: Path, tmp_path: Path) -> None:
    rows = place / "rows.csv"
    with pytest.raises(InputError, match=r"there is no option 'epoch'; did you mean 'epochs'"):
        firth.finetune("classify", place / "sentence", rows, tmp_path / "out", epoch=3)
    with pytest.raises(InputError, match=r"there is no option 'minuets'; did you mean 'minutes'"):
        firth.pretrain(place / "lm.txt", tmp_path / "out", minuets=3)
    with pytest.raises(InputError, match=r"there is no option 'xyzzy'; there are: batch, "):
        firth.pretrain(place / "lm.txt", tmp_path / "out", xyzzy=3)


def test_numbers_of_numpy_are_numbers(
    encoder: Predictor, filler: Predictor, speaks: Predictor, place: Path, tmp_path: Path
) -> None:
    np.testing.assert_array_equal(
        encoder.embed(TEXTS, layers=np.array([0, 1])), encoder.embed(TEXTS, layers=[0, 1])
    )
    assert filler.predict(["a [MASK]"], top=np.int64(2)) == filler.predict(["a [MASK]"], top=2)
    drawn = {
        "tokens": np.int32(4),
        "temperature": np.float32(0.5),
        "top_k": np.int64(9),
        "top_p": np.float64(0.5),
        "seed": np.uint8(3),
    }
    plain = {name: value.item() for name, value in drawn.items()}
    assert speaks.write(["the"], **drawn) == speaks.write(["the"], **plain)
    assert speaks.complete(["the"], top=np.int64(2), tokens=np.int64(3)) == speaks.complete(
        ["the"], top=2, tokens=3
    )
    firth.vocab(place / "lm.txt", tmp_path / "words", size=np.int64(64), force=np.bool_(False))
    options: dict[str, Any] = {
        "epochs": np.int64(1),
        "seed": np.int64(2),
        "rate": np.float32(0.5),
        "balance": np.bool_(True),
    }
    places: dict[str, Any] = {"task": "classify", "model": "m", "train": "t", "out": "o"}
    settings = FinetuneSettings(**places, **options, threads=np.array(1))
    assert settings == FinetuneSettings(
        **places, epochs=1, seed=2, rate=0.5, balance=True, threads=1
    )
    assert type(settings.seed) is int


# Errors


def test_the_errors_are_public() -> None:
    assert firth.InputError is InputError
    assert firth.FirthError is FirthError
    assert issubclass(InputError, ValueError)
    assert not issubclass(Stopped, ValueError)
    assert {"FirthError", "InputError", *firth.__all__} <= set(dir(firth))


def test_an_error_survives_pickling() -> None:
    errors = [
        FirthError("a"),
        InputError("b --force"),
        Stopped("c --resume"),
        ExampleError(3, Line("a text"), "d"),
        TooLate("e"),
        Fault("label", "has none", 2),
    ]
    errors[1].__notes__ = ["a note"]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for error in errors:
            again = pickle.loads(pickle.dumps(error, protocol))
            assert type(again) is type(error)
            assert (str(again), again.args, again.__dict__) == (
                str(error),
                error.args,
                error.__dict__,
            )
    kinds = {type(error) for error in errors} | {Exception, ValueError, object, BaseException}
    assert all(kind in kinds for error in (FirthError, Fault) for kind in _below(error)), (
        "another class of errors, to be tried too"
    )


def _below(kind: type[BaseException]) -> set[type[BaseException]]:
    return {
        kind,
        *(
            found
            for one in kind.__subclasses__()
            if one.__module__.startswith("firth")
            for found in _below(one)
        ),
    }


def test_a_message_is_short_whatever_stands_in_it(
    encoder: Predictor, place: Path, tmp_path: Path
) -> None:
    long = "x" * (1 << 20)
    calls: list[Callable[[], Any]] = [
        lambda: firth.load(long),
        lambda: encoder.embed(["a"], combine=long),  # type: ignore[arg-type]
        lambda: encoder.embed(["a", long.encode()]),
        lambda: firth.finetune(
            "classify", place / "sentence", place / "rows.csv", tmp_path / "out", **{long: 3}
        ),
        lambda: firth.finetune(
            "classify", place / "sentence", place / "rows.csv", tmp_path / "out", label=long
        ),
        lambda: firth.vocab(place / "lm.txt", tmp_path / "out", encoding=long),
    ]
    for call in calls:
        with pytest.raises(InputError) as found:
            call()
        assert len(str(found.value)) <= LONGEST
        assert len(repr(found.value)) <= 2 * LONGEST


def test_options_are_named_as_the_caller_gives_them(tmp_path: Path) -> None:
    messages = {
        "it may be latin-1 (--encoding latin-1)": "it may be latin-1 (encoding='latin-1')",
        "--encoding utf-16-le or not text": "encoding='utf-16-le' or not text",
        "choose another name or say --force": "choose another name or say force=True",
        "--long cut or --long slide accepts it": "long='cut' or long='slide' accepts it",
        "--long is slide, cut or carry": "long= is slide, cut or carry",
        "--no-nsp and --whole-words are for bert": "nsp=False and whole_words=True are for bert",
        "leave --dev and --seeds out": "leave dev= and seeds= out",
        "after --save-every": "after save_every=",
        "(--text names the fields)": "(text= names the fields)",
        "are joined: --text subject,body": "are joined: text='subject,body'",
        # What is for a shell, or the user's own, is left alone.
        "rows can't be used (firth check --task tag names them)": None,
        "get it with: pip install --no-deps x": None,
        "the text 'use --force, please' isn't a label": None,
        "there is no file 'a --dev.txt'": None,
        "x--force.txt and --force.txt": None,
    }
    for written, said in messages.items():
        assert str(InputError(written)) == (written if said is None else said)
        with on_command_line():
            assert str(InputError(written)) == written

    latin = tmp_path / "latin.txt"
    latin.write_bytes("Müßiggang für Ältere\n".encode("latin-1") * 50)
    with pytest.raises(InputError, match=r"\(encoding='cp1252'\)"):
        firth.vocab(latin, tmp_path / "words")
    table = tmp_path / "table.csv"
    table.write_text("Body Text,queue\na cat,x\n", encoding="utf-8")
    with pytest.raises(InputError, match="perhaps text='Body Text' label='queue'"):
        open_file(table, Named(), None, "classify")
    with (
        on_command_line(),
        pytest.raises(InputError, match="perhaps --text 'Body Text' --label queue"),
    ):
        open_file(table, Named(), None, "classify")


def test_a_pair_is_an_example_too(decides: Predictor) -> None:
    given = [("a", "b"), ("the", "cats")]
    assert decides.predict(given) == list(decides.answers([Labelled(a, None, b) for a, b in given]))
    assert (
        decides.predict(given)
        == decides.predict(np.array(given))
        == decides.predict(map(list, given))
    )
