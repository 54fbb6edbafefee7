"""`firth convert`: from what Google published to answers, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import firth
from tests.journey.command import listing, run
from tests.unit.bundles import CASED, CONFIG, bert_arrays, moments, write_bert, write_bundle


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    arrays = bert_arrays()
    return write_bert(tmp_path / "google", arrays | moments(arrays))


def test_a_checkpoint_becomes_a_model(google: Path, tmp_path: Path) -> None:
    before = listing(google)
    ended = run("convert", "google", "-o", "bert")
    assert ended.code == 0
    count = len(bert_arrays())
    total = sum(array.size for array in bert_arrays().values())
    assert ended.out == (
        f"bert: {count} tensors, {total:,} parameters from google/bert_model.ckpt (task: pretrain)\n"
        f"  {2 * count + 1} tensors of the optimizer were left behind\n"
    )
    assert "0 of 14 pieces have capital letters, so text is brought to lower case" in ended.err
    assert "(--case keep overrides)" in ended.err
    assert listing(google) == before
    filled = run("predict", "bert", "the [MASK] .", "--json")
    assert filled.code == 0
    assert len(json.loads(filled.out)["blanks"]) == 1
    assert run("embed", "bert", "-o", "v.npy", stdin=b"the cat\n").code == 0
    made = json.loads((tmp_path / "bert" / "firth.json").read_text())["made"]
    assert made == {"checkpoint": "bert_model.ckpt", "case": "lower", "left_out": []}


@pytest.mark.parametrize("given", ["google", "google/", "google/bert_model.ckpt", "google/bert_model.ckpt.index"])  # fmt: skip
def test_the_folder_the_name_and_the_index_are_one(google: Path, given: str) -> None:
    ended = run("convert", given, "-o", "bert", "--json")
    assert ended.code == 0
    record = json.loads(ended.out)
    assert record["checkpoint"] == "google/bert_model.ckpt"
    assert record["task"] == "pretrain"
    assert record["tensors"] == len(bert_arrays())
    assert record["ignored"] == 2 * len(bert_arrays()) + 1
    assert record["pieces"] == CONFIG["vocab_size"]
    assert (record["left_out"], record["labels"]) == ([], [])


def test_the_folder_that_somebody_stands_in(
    google: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(google)
    ended = run("convert", ".", "-o", tmp_path / "bert")
    assert ended.code == 0, ended.err


def test_of_several_checkpoints_one_is_named(google: Path) -> None:
    (google / "bert_model.ckpt.index").unlink()
    for step in (100, 200):
        write_bundle(google / f"model.ckpt-{step}", bert_arrays(seed=step))
    ended = run("convert", "google", "-o", "bert")
    assert ended.code == 2
    assert ended.err == (
        "firth: google holds several checkpoints ('model.ckpt-100', 'model.ckpt-200'): name one, "
        "as google/model.ckpt-200\n"
    )
    assert run("convert", "google/model.ckpt-200", "-o", "bert").code == 0


def test_case_is_chosen_or_told_by_the_pieces(google: Path, tmp_path: Path) -> None:
    cased = write_bert(tmp_path / "cased", bert_arrays(), CASED)
    ended = run("convert", cased, "-o", "a", "--json")
    assert json.loads(ended.out)["case"] == "keep"
    assert "2 of 14 pieces have capital letters, so text keeps its case (--case lower" in ended.err
    assert json.loads(run("convert", cased, "-o", "b", "--case", "lower", "--json").out)["case"] == "lower"  # fmt: skip
    chosen = run("convert", google, "-o", "c", "--case", "keep", "--json")
    assert json.loads(chosen.out)["case"] == "keep"
    assert chosen.err == ""


def test_what_has_no_place_is_named(google: Path) -> None:
    arrays = bert_arrays(None)
    other = {"crf/transitions": arrays["bert/pooler/dense/bias"], "output_weights": arrays["bert/pooler/dense/bias"]}  # fmt: skip
    write_bundle(google / "bert_model.ckpt", arrays | other)
    ended = run("convert", "google", "-o", "bert", "--json")
    assert ended.code == 0
    record = json.loads(ended.out)
    assert record["task"] == "embed"
    assert record["left_out"] == ["crf/transitions", "output_weights"]
    assert "no place in the folder: 'crf/transitions', 'output_weights'" in ended.err


def without(*names: str) -> Callable[[Path], None]:
    """Write the checkpoint without some tensors."""

    def change(folder: Path) -> None:
        arrays = bert_arrays()
        for name in names:
            del arrays[name]
        write_bundle(folder / "bert_model.ckpt", arrays)

    return change


def edited(**values: object) -> Callable[[Path], None]:
    """Change the configuration; None takes a key away."""

    def change(folder: Path) -> None:
        page = {key: value for key, value in (CONFIG | values).items() if value is not None}
        (folder / "bert_config.json").write_text(json.dumps(page))

    return change


def removed(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def object_names(folder: Path) -> None:
    arrays = bert_arrays()
    write_bundle(folder / "bert_model.ckpt", {"_CHECKPOINTABLE_OBJECT_GRAPH": arrays["bert/pooler/dense/bias"]})  # fmt: skip


def cut_off(folder: Path) -> None:
    path = folder / "bert_model.ckpt.data-00000-of-00001"
    path.write_bytes(path.read_bytes()[:-9])


def not_finite(folder: Path) -> None:
    arrays = bert_arrays()
    arrays["bert/pooler/dense/bias"][3] = float("nan")
    write_bundle(folder / "bert_model.ckpt", arrays)


WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "no config": (removed("bert_config.json"), "google/bert_config.json is missing: it belongs beside the checkpoint"),
    "no vocabulary": (removed("vocab.txt"), "google/vocab.txt is missing: it belongs beside the checkpoint"),
    "no index": (removed("bert_model.ckpt.index"), "google holds no checkpoint of TensorFlow: no file ends in .index"),
    "no data": (removed("bert_model.ckpt.data-00000-of-00001"), "bert_model.ckpt.data-00000-of-00001 is missing"),
    "cut off": (cut_off, "bert_model.ckpt.data-00000-of-00001 is cut off: it has"),
    "tensors missing": (
        without("bert/encoder/layer_1/output/dense/kernel", "cls/predictions/output_bias"),
        "google/bert_model.ckpt: 2 weights are missing: bert/encoder/layer_1/output/dense/kernel, cls/predictions/output_bias",
    ),
    "layers missing": (edited(num_hidden_layers=9), "google/bert_model.ckpt: 7 weights are missing: bert/encoder/layer_2/"),
    "other width": (edited(intermediate_size=25), "has shape [16, 24] where bert_config.json asks for [16, 25]"),
    "no width": (edited(hidden_size=None), "google/bert_config.json: hidden_size: Field required"),
    "other activation": (edited(hidden_act="tanh"), "google/bert_config.json: hidden_act: "),
    "small vocabulary": (edited(vocab_size=9), "google/vocab.txt has 14 pieces where bert_config.json has a vocab_size of 9"),
    "TensorFlow 2": (object_names, "google/bert_model.ckpt was written by TensorFlow 2, under names of its own"),
    "not finite": (not_finite, "bert/pooler/dense/bias holds values that are not finite"),
    "no index at all": (lambda folder: (folder / "bert_model.ckpt.index").write_bytes(b"x" * 99), "is no index of a checkpoint, or is cut off"),
    "no unknown piece": (lambda folder: (folder / "vocab.txt").write_text("a\nb\n"), "google/vocab.txt has no [UNK]"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_cant_be_converted_is_refused(google: Path, tmp_path: Path, case: str) -> None:
    change, reason = WRONG[case]
    change(google)
    ended = run("convert", "google", "-o", "bert", "--case", "lower")
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("firth: ")
    assert ended.err.count("\n") == 1
    assert reason in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["google"]


def test_a_vocabulary_that_is_too_small_is_said(google: Path) -> None:
    edited(vocab_size=20)(google)
    write_bundle(google / "bert_model.ckpt", bert_arrays(vocab_size=20))
    ended = run("convert", "google", "-o", "bert")
    assert ended.code == 0
    assert "vocab.txt has 14 pieces where the model has 20" in ended.err


def test_nothing_is_overwritten_unasked(google: Path, tmp_path: Path) -> None:
    assert run("convert", "google", "-o", "bert").code == 0
    before = listing(tmp_path)
    again = run("convert", "google", "-o", "bert")
    assert again.code == 2
    assert again.err == "firth: bert exists and holds something; choose another name or say --force\n"  # fmt: skip
    assert run("convert", "google", "-o", "google", "--force").code == 2
    assert run("convert", "nowhere", "-o", "new").err == "firth: there is no folder and no checkpoint 'nowhere'\n"  # fmt: skip
    assert listing(tmp_path) == before
    assert run("convert", "google", "-o", "bert", "--force").code == 0
    # A folder with a model's files and the checkpoint in it would be thrown away with both.
    (google / "config.json").write_text("{}")
    ended = run("convert", "google", "-o", "google", "--force")
    assert ended.code == 2
    assert "holds the checkpoint itself" in ended.err
    assert (google / "bert_model.ckpt.index").exists()


def test_from_python(google: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="firth"):
        result = firth.convert(google, "bert")
    assert "(case='keep' overrides)" in caplog.text
    assert result.out == "bert"
    assert json.loads(json.dumps(result.as_json()))["case"] == "lower"
    with pytest.raises(firth.InputError, match="case is one of lower, keep, not 'upper'"):
        firth.convert(google, "b", case="upper")  # type: ignore[arg-type]
    with pytest.raises(firth.InputError, match="force=True"):
        firth.convert(google, "bert")
