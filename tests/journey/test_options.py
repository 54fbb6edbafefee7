"""What options do that more than one command has: how long and how to train, earlier names, `--set`."""

import json
from pathlib import Path
from typing import Any

import pytest

import firth
from firth.base.errors import FirthWarning, InputError
from firth.metrics.decisions import Decided, Share, Sheet
from firth.recipes import finetune as recipe
from firth.recipes.settings import FinetuneSettings, PretrainSettings
from firth.text.tokenizer import Tokenizer
from firth.train.settings import TrainSettings
from tests.journey.command import run
from tests.journey.small import small_model

PLACES = {"task": "classify", "model": "m", "train": "t", "out": "o"}
SHORT = ("--steps", 1, "--size", "tiny", "--batch", 200, "--dtype", "fp32", "--threads", 1)
ROWS = [(f"the {part} of my pan broke", "defect") for part in ("lid", "handle", "rim", "base")]
ROWS += [(f"thank you for the {part}", "praise") for part in ("pan", "pot", "kettle", "cup")]


def made(folder: Path) -> dict[str, Any]:
    """What a folder says of how it was made."""
    found: dict[str, Any] = json.loads((folder / "firth.json").read_text())["made"]
    return found


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS]
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="module")
def model(vocab: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = Tokenizer.open(vocab)
    return small_model(tmp_path_factory.mktemp("small") / "base", None, words)


# Earlier names


def test_an_earlier_name_works_with_a_warning(tmp_path: Path) -> None:
    with pytest.warns(FirthWarning, match=r"^precision= is now called dtype=$"):
        settings = PretrainSettings.given(
            {"corpus": ["a"], "out": "b", "steps": 1, "precision": "fp32"}
        )
    assert settings.dtype == "fp32"
    with pytest.warns(FirthWarning, match=r"^precision= is now called target_precision=$"):
        assert FinetuneSettings.given(PLACES | {"precision": 0.5}).target_precision == 0.5

    missing = ("--model", tmp_path / "none", "--train", tmp_path / "none.csv", "-o", tmp_path / "o")
    for words in (("--precision", 0.9), ("--set", "precision=0.9")):
        ended = run("finetune", "classify", *missing, *words)
        said, complaint = ended.err.splitlines()
        assert said == "note: --precision is now called --target-precision"
        assert complaint.startswith("firth: there is no model folder")
    both = ("--precision", 0.9, "--target-precision", 0.8)
    ended = run("finetune", "classify", *missing, *both)
    assert ended.code == 2
    assert "--precision is an earlier name of --target-precision: give one" in ended.err
    ended = run("finetune", "regress", *missing, "--precision", 0.9)
    assert "--target-precision is for classes; leave it out of regress" in ended.err
    ended = run("pretrain", tmp_path, "-o", tmp_path / "o", "--steps", 1, "--precision", "fp8")
    assert ended.code == 2
    assert "'fp8' is not one of" in ended.err


def test_a_finished_folder_of_an_earlier_version_is_known(
    model: Path, rows: Path, tmp_path: Path
) -> None:
    words = ("finetune", "classify", "--model", model, "--train", rows, "-o", tmp_path / "out")
    words += ("--dev", rows, "--epochs", 1, "--threads", 1, "--target-precision", 0.5)
    assert run(*words).code == 0
    path = tmp_path / "out" / "firth.json"
    page = json.loads(path.read_text())
    settings = page["made"]["settings"]
    settings["precision"] = settings.pop("target_precision")
    for name in ("steps", "schedule", "weight_decay", "clip"):
        del settings[name]
    path.write_text(json.dumps(page))
    ended = run(*words, "--resume")
    assert (ended.code, "is finished" in ended.err) == (0, True), ended.err
    ended = run(*words, "--resume", "--clip", 2)
    assert ended.code == 2
    assert "holds a run with clip 1.0, not 2.0" in ended.err


# How to train


def test_a_constant_rate_for_so_many_steps(model: Path, rows: Path, tmp_path: Path) -> None:
    words = ("finetune", "classify", "--model", model, "--train", rows, "--dev", rows)
    words += ("--steps", 5, "--warmup", 0.2, "--rate", 1e-4, "--threads", 1)
    for schedule in ("linear", "constant"):
        out = tmp_path / schedule
        ended = run(*words, "-o", out, "--schedule", schedule)
        assert ended.code == 0, ended.err
        assert made(out)["steps"] == 5
        assert made(out)["settings"]["epochs"] is None
        records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        rates = [record["rate"] for record in records if "rate" in record]
        assert len(rates) == 5
        if schedule == "constant":
            assert rates[1:] == [1e-4] * 4
        else:
            assert rates[1:] == sorted(rates[1:], reverse=True)
            assert rates[-1] < 0.3e-4
        assert rates[0] == pytest.approx(1e-4 / 6 / 0.2)


def test_weight_decay_and_clipping_reach_the_loop(
    model: Path, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[TrainSettings] = []

    def watched(**values: Any) -> TrainSettings:
        seen.append(TrainSettings(**values))
        return seen[-1]

    monkeypatch.setattr(recipe, "TrainSettings", watched)
    options = {"steps": 1, "threads": 1, "dev": rows}
    firth.finetune(
        "classify", model, rows, tmp_path / "own", weight_decay=0.5, clip=0.25, **options
    )
    firth.finetune("classify", model, rows, tmp_path / "usual", **options)
    assert [(one.weight_decay, one.grad_clip) for one in seen] == [(0.5, 0.25), (0.01, 1.0)]


@pytest.mark.parametrize(("kind", "usual"), [("bert", (0.01, 1.0)), ("rnn", (0.0, 0.25))])
def test_pretraining_has_them_too(
    kind: str, usual: tuple[float, float], corpus: Path, tmp_path: Path
) -> None:
    size = () if kind == "rnn" else ("--size", "tiny")
    words = ("pretrain", corpus, "--model", kind, *size, "--steps", 1, "--batch", 200)
    words += ("--dtype", "fp32", "--threads", 1, "--set", "width=32")
    own = ("--weight-decay", 0.5, "--clip", 3, "--schedule", "constant")
    for name, options, wanted in (("usual", (), usual), ("own", own, (0.5, 3.0))):
        ended = run(*words, "-o", tmp_path / name, *options)
        assert ended.code == 0, ended.err
        training = made(tmp_path / name)["training"]
        assert (training["weight_decay"], training["grad_clip"]) == wanted
        assert training["schedule"] == ("constant" if options else "linear")


# Sizes of a new model


@pytest.mark.parametrize(
    ("kind", "words", "sizes"),
    [
        (
            "bert",
            ("depth=1", "width=32", "heads=4", "causal=true"),
            {
                "num_hidden_layers": 1,
                "hidden_size": 32,
                "intermediate_size": 128,
                "is_decoder": True,
            },
        ),
        (
            "gpt",
            ("depth=1", "width=32", "heads=4", "inner=48"),
            {"n_layer": 1, "n_embd": 32, "n_head": 4, "n_inner": 48},
        ),
        ("ffnn", ("width=16",), {"width": 16, "inner": 16}),
    ],
)
def test_set_reaches_the_models_own_sizes(
    kind: str, words: tuple[str, ...], sizes: dict[str, Any], corpus: Path, tmp_path: Path
) -> None:
    short = (
        SHORT if kind != "ffnn" else tuple(word for word in SHORT if word not in ("--size", "tiny"))
    )
    options = [option for word in words for option in ("--set", word)]
    ended = run("pretrain", corpus, "-o", tmp_path / "out", "--model", kind, *short, *options)
    assert ended.code == 0, ended.err
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert {name: config[name] for name in sizes} == sizes
    settings = made(tmp_path / "out")["settings"]
    given = dict(word.split("=") for word in words if not word.startswith("causal"))
    assert settings["model_settings"] == {name: int(value) for name, value in given.items()}


def test_a_file_reaches_them_too_and_set_wins(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("depth = 3\nwidth = 100\nsize = 'tiny'\n")
    words = ("pretrain", corpus, "-o", tmp_path / "out", *SHORT, "--set", "heads=3")
    ended = run(*words, "--config", tmp_path / "own.toml")
    assert ended.code == 2
    assert ended.err.splitlines()[-1] == "firth: bert: width 100 is not a multiple of heads 3"
    ended = run(*words, "--set", "width=99", "--config", tmp_path / "own.toml")
    assert ended.code == 2
    assert ended.err.splitlines()[-1] == "firth: a new bert has an even width, not 99"
    ended = run(*words, "--set", "width=96", "--config", tmp_path / "own.toml")
    assert ended.code == 0, ended.err
    assert made(tmp_path / "out")["settings"]["model_settings"] == {
        "depth": 3,
        "width": 96,
        "heads": 3,
    }
    ended = run("pretrain", corpus, "-o", tmp_path / "x", "--steps", 1, "--set", "width=wide")
    assert ended.code == 2
    assert "--width: Input should be a valid integer, not 'wide'" in ended.err


# A threshold for one call


def test_predict_takes_a_precision_for_one_call(vocab: Path, tmp_path: Path) -> None:
    folder = small_model(
        tmp_path / "model", "classify", Tokenizer.open(vocab), ("a", "b", "c"), temperature=4.0
    )
    texts = tmp_path / "texts.txt"
    texts.write_text(
        "".join(f"{word} for the {word}s\n" for word in "ab bc cd de ef fg gh".split())
    )

    def answers(*words: object) -> list[dict[str, Any]]:
        ended = run("predict", folder, texts, "--json", *words)
        assert ended.code == 0, ended.err
        return [json.loads(line) for line in ended.out.splitlines()]

    ended = run("predict", folder, texts, "--target-precision", 0.9)
    assert ended.code == 2
    assert "has no decisions on held-out texts" in ended.err

    before = answers()
    confidences = sorted(answer["confidence"] for answer in before)
    half, most = confidences[3] - 1e-4, confidences[5] - 1e-4
    some = Share(0.5, 0.4, 0.6)
    row = [Decided(0.9, half, some, some), Decided(0.95, most, some, some)]
    sheet = Sheet([*row, Decided(0.99, None, some, some)], {})
    page = json.loads((folder / "firth.json").read_text())
    page["made"] = {"decisions": sheet.page()}
    (folder / "firth.json").write_text(json.dumps(page))

    # Between two precisions of the sheet the higher one is taken.
    for precision, threshold in ((0.8, half), (0.9, half), (0.93, most), (0.95, most)):
        for answer, usual in zip(answers("--target-precision", precision), before, strict=True):
            sure = usual["confidence"] >= threshold
            assert answer["label"] == (usual["label"] if sure else "unsure")
    assert answers() == before
    ended = run("predict", folder, texts, "--target-precision", 0.99)
    assert ended.code == 2
    assert (
        "not right so often on held-out texts at any confidence; known are: 0.9, 0.95" in ended.err
    )

    page["made"] = {"decisions": {"all": [3]}}
    (folder / "firth.json").write_text(json.dumps(page))
    ended = run("predict", folder, texts, "--target-precision", 0.9)
    assert (ended.code, "the decisions are damaged" in ended.err) == (2, True)


# The version, and where an error came from


def test_the_version() -> None:
    ended = run("--version")
    assert (ended.code, ended.out) == (0, f"firth {firth.__version__}\n")


def test_a_wrong_option_in_python_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no option 'shedule'; did you mean 'schedule'"):
        firth.finetune("classify", "m", "t", tmp_path / "o", shedule="linear")  # type: ignore[call-arg]
