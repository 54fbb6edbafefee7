"""From a folder of text to a model folder: what is in it, who can open it, and what is said when it can't be made."""

import json
import math
import re
import signal
from html.parser import HTMLParser
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

import firth
from firth.base.errors import InputError
from firth.folders.find import find
from firth.folders.write import save
from firth.recipes.start import fresh
from firth.samples.daybook import documents
from firth.text.tokenizer import Tokenizer
from firth.train import checkpoint
from tests.journey.command import Ended, listing, run
from tests.journey.conftest import learn_vocab, write_corpus
from tests.journey.small import NARROW
from tests.journey.warm import PROCESSOR_CLOCK, Warm

STEPS = 100
PAGES = 120  # of the sample text, which is soon learned
ONE_THREAD = ("--length", 48, "--dtype", "fp32", "--threads", 1)
TINY = (*NARROW, *ONE_THREAD)
SHORT = (*TINY, "--batch", 400)
NAME = 'mine & <b>"yours"<b>'


def records(out: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def run_of(out: Path) -> Path:
    return out.with_name(f"{out.name}.run")


def refused(ended: Ended, *said: str, code: int = 2) -> None:
    """One sentence at the end, after what was said on the way."""
    assert ended.code == code, ended
    assert ended.out == ""
    assert "Traceback" not in ended.err
    assert "defect" not in ended.err
    lines = ended.err.splitlines()
    assert [line.startswith("firth: ") for line in lines] == [False] * (len(lines) - 1) + [True], (
        ended.err
    )
    for words in said:
        assert words in lines[-1], f"{words!r} is not in {lines[-1]!r}"


@pytest.fixture(scope="module")
def model(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT that was pretrained for some seconds.

    Its name is one that a page must not take for HTML.
    """
    folder = tmp_path_factory.mktemp("model")
    text = write_corpus(folder, ["\n".join(page) for page in islice(documents(), PAGES)])
    network = ("--size", "tiny", "--set", "width=64", "--set", "depth=1", "--rate", 0.006)
    words = ("pretrain", text, "--vocab", learn_vocab(text, 500), *network, *ONE_THREAD)
    out = folder / "made" / NAME
    ended = warm.run(*words, "--batch", 800, "--steps", STEPS, "-o", out)
    assert ended.code == 0, ended.err
    assert f"{STEPS} steps in" in ended.err
    return out


# What is made


def test_the_loss_falls(model: Path) -> None:
    steps = [record for record in records(model) if "loss" in record]
    assert [record["step"] for record in steps] == list(range(1, STEPS + 1))
    first, last = (
        sum(record["masked"] for record in part) / 15 for part in (steps[:15], steps[-15:])
    )
    assert last < first - 0.5
    held = [record["dev"] for record in records(model) if "dev" in record]
    assert len(held) == 11  # before the first step, and ten times on the way
    pieces = len((model / "vocab.txt").read_text(encoding="utf-8").splitlines())
    # It begins with how frequent the pieces are, and a coin for what is next.
    assert held[0]["loss"] < math.log(pieces)
    assert held[-1]["loss"] < held[0]["loss"] - 0.25
    assert held[-1]["masked_accuracy"] > 1.5 * held[0]["masked_accuracy"]
    assert {"masked_perplexity", "next_accuracy"} <= held[-1].keys()


def test_it_fills_blanks(model: Path) -> None:
    text = "The [MASK] statement is used to [MASK]."
    filled = firth.load(model).predict([text])[0]
    assert [text[blank.start : blank.end] for blank in filled.blanks] == ["[MASK]", "[MASK]"]
    ended = run("predict", model, text, "--json", "--top", 3)
    assert ended.code == 0, ended.err
    assert [len(blank["choices"]) for blank in json.loads(ended.out)["blanks"]] == [3, 3]


@pytest.mark.usefixtures("one_thread")
def test_transformers_opens_it(model: Path) -> None:
    from transformers import AutoTokenizer, BertForPreTraining

    theirs, loading = BertForPreTraining.from_pretrained(
        model, attn_implementation="eager", output_loading_info=True
    )
    assert not any(loading[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    ours = firth.load(model).bundle
    words = AutoTokenizer.from_pretrained(model)
    first, second = "The assert statement", "is a convenient way to insert [MASK] into a program."
    tokens = words(first, second, return_tensors="pt")
    encoding = ours.tokenizer.encode([first], [second])[0]
    assert list(encoding.ids) == tokens["input_ids"][0].tolist()
    with torch.inference_mode():
        expected = theirs.eval()(**tokens)
        count = len(encoding.ids)
        hidden = ours.encoder(
            tokens["input_ids"][0],
            torch.arange(count),
            tokens["token_type_ids"][0],
            torch.tensor([count]),
        )
        masked, follows = ours.head.masked(hidden.tokens), ours.head.next(hidden.pooled)
    for found, reference in (
        (masked, expected.prediction_logits[0]),
        (follows, expected.seq_relationship_logits),
    ):
        assert (found - reference).abs().max() <= 1e-5 * max(1.0, float(reference.abs().max()))


class Page(HTMLParser):
    """Everything in a page that could ask for something outside of it, and its data."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[tuple[str, str, str | None]] = []
        self.policy = ""
        self.data = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        outward = ("src", "href", "action", "data", "srcset")
        self.outside += [
            (tag, name, value)
            for name, value in attrs
            if name in outward or name.startswith("on") or "url(" in (value or "")
        ]
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = dict(attrs)["content"] or ""

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] == ["script"] and not self.data:
            self.data = data


def test_the_curves(model: Path) -> None:
    text = (model / "curves.html").read_text(encoding="utf-8")
    assert text == (run_of(model) / "curves.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    page.close()
    assert "b" not in page.tags
    assert page.tags.count("script") == 2  # its data, and what draws them
    assert not page.outside
    assert not {"link", "iframe", "img", "object"} & set(page.tags)
    # A name, which nothing is asked of.
    assert set(re.findall(r"https?://[^\"]*", text)) == {"http://www.w3.org/2000/svg"}
    assert page.policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src" not in page.policy
    found = json.loads(page.data)
    assert found["title"] == NAME
    (run,) = found["sections"][0]["data"]["runs"]
    steps = [one for one in records(model) if "loss" in one]
    checks = [one["dev"] for one in records(model) if "dev" in one]
    assert (run["name"], run["what"], run["state"]) == (NAME, "pretrain bert", "finished")
    assert run["steps"] == list(range(1, STEPS + 1))
    for key in ("loss", "rate"):
        assert run[key] == pytest.approx([one[key] for one in steps], rel=1e-5)
    for metric in run["metrics"]:
        expected = [one[metric["name"]] for one in checks]
        assert metric["values"] == pytest.approx(expected, rel=1e-5)
    # The same page, up to what the folder says beside the journal.
    again = firth.curves(model)
    assert again.steps == (STEPS,)
    assert again.page == text


def test_what_stands_in_the_folder(model: Path) -> None:
    assert {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "vocab.txt",
        "README.md",
    } <= listing(model).keys()
    page = json.loads((model / "firth.json").read_text(encoding="utf-8"))
    assert f'"steps": {STEPS}' in json.dumps(page)
    assert (model / "metrics.jsonl").read_bytes() == (run_of(model) / "metrics.jsonl").read_bytes()
    assert len(checkpoint.saved_steps(run_of(model) / "checkpoints")) <= 3
    assert not list(model.parent.rglob(".*"))


def test_a_vocabulary_of_its_own_and_epochs(warm: Warm, corpus: Path, tmp_path: Path) -> None:
    """Without --vocab one is learned; a run that is thrown away takes it along, though its folder is kept."""
    other = tmp_path / "other.txt"
    other.write_text(
        "\n\n".join(f"zebra {n} quagga\nzebu {n} xerus" for n in range(60)), encoding="utf-8"
    )
    for text, word, force in ((corpus, "statement", ()), (other, "quagga", ("--force",))):
        ended = warm.run("pretrain", text, "-o", tmp_path / "out", *SHORT, "--epochs", 0.05, *force)
        assert ended.code == 0, ended.err
        pieces = (tmp_path / "out/vocab.txt").read_text(encoding="utf-8").split("\n")
        assert word in pieces
    assert "statement" not in pieces


def test_a_run_that_gets_only_worse_still_ends(
    warm: Warm, corpus: Path, vocab: Path, tmp_path: Path
) -> None:
    """The untrained weights, which are the best then, are never what is kept."""
    ended = warm.run(
        "pretrain",
        corpus,
        "-o",
        tmp_path / "out",
        "--vocab",
        vocab,
        *SHORT,
        "--steps",
        4,
        "--rate",
        0.9,
    )
    assert ended.code == 0, ended.err
    assert "WARNING" not in ended.err
    held = [record["dev"]["loss"] for record in records(tmp_path / "out") if "dev" in record]
    assert held[0] == min(held)


WORSE = """
from firth.recipes.objectives import MaskedObjective
true, calls = MaskedObjective.metrics, []
MaskedObjective.metrics = lambda self, sums: calls.append(1) or {**true(self, sums), "loss": float(len(calls))}
"""


def test_a_best_checkpoint_that_is_damaged(
    warm: Warm, corpus: Path, vocab: Path, tmp_path: Path
) -> None:
    """The last weights are whole, so a run is never stuck at its end; it is said."""
    out = tmp_path / "out"
    words = (
        "pretrain",
        corpus,
        "-o",
        out,
        "--vocab",
        vocab,
        *SHORT,
        "--steps",
        8,
        "--check-every",
        2,
    )
    assert (
        warm.run(*words, before=WORSE, FIRTH_FAILPOINT="before-folder-rename:2").code
        == -signal.SIGKILL
    )
    assert checkpoint.newest(run_of(out) / "checkpoints").state["best"]["step"] == 2
    path = run_of(out) / "checkpoints/step-000000002/weights.safetensors"
    path.write_bytes(path.read_bytes()[:-4] + b"junk")
    ended = warm.run(*words, "--resume")
    assert ended.code == 0, ended.err
    assert f"{path} was damaged after it was written" in ended.err
    assert "the last weights are kept in place of the best" in ended.err
    assert json.loads((out / "firth.json").read_text(encoding="utf-8"))["made"]["best_step"] == 8


def test_by_the_minute(warm: Warm, corpus: Path, vocab: Path, tmp_path: Path) -> None:
    minutes = 0.1
    words = ("pretrain", corpus, "--vocab", vocab, "--minutes", minutes, "--threads", 1)
    ended = warm.run(*words, "-o", tmp_path / "out", before=PROCESSOR_CLOCK)
    took = float(ended.out)
    print(f"{minutes * 60:.0f} s asked for, {took:.1f} s taken")
    assert ended.code == 0, ended.err
    assert abs(took - minutes * 60) < 5
    forecasts = re.findall(
        r"^forecast: (\w+): [\d,]+ tokens/s, [\d.,]+ million tokens in 0\.\d minutes",
        ended.err,
        re.MULTILINE,
    )
    assert forecasts[0] == "tiny"
    chosen = re.search(r"^size (\w+) fits the time best$", ended.err, re.MULTILINE)
    assert chosen
    assert chosen[1] in forecasts


def test_paths_in_python(corpus: Path, vocab: Path, tmp_path: Path) -> None:
    options = {
        "size": "tiny",
        "batch": 400,
        "length": 48,
        "dtype": "fp32",
        "threads": 1,
        "steps": 1,
    }
    made = firth.pretrain([corpus], tmp_path / "out", vocab=vocab, dev=corpus, **options)
    assert made.steps == 1
    assert (tmp_path / "out/vocab.txt").read_bytes() == (vocab / "vocab.txt").read_bytes()


def test_going_on_from_minilm(warm: Warm, corpus: Path, vocab: Path, tmp_path: Path) -> None:
    try:
        find("minilm")
    except InputError as error:
        pytest.skip(str(error))
    words = (
        "pretrain",
        corpus,
        "--init",
        "minilm",
        "--steps",
        1,
        "--batch",
        300,
        "--length",
        48,
    )
    words = (*words, "--dtype", "fp32", "--threads", 1)
    ended = warm.run(*words, "-o", tmp_path / "own")
    assert ended.code == 0, ended.err
    assert (tmp_path / "own/vocab.txt").read_text(encoding="utf-8").count("\n") == 30522
    ended = warm.run(*words, "-o", tmp_path / "new", "--vocab", vocab)
    assert ended.code == 0, ended.err
    said = re.search(
        r"of the new pieces ([\d,]+) keep their vectors, ([\d,]+) begin as the mean .*, ([\d,]+) as the mean",
        ended.err,
    )
    assert said
    counts = [int(number.replace(",", "")) for number in said.groups()]
    assert sum(counts) == Tokenizer.open(vocab).size
    assert counts[0] > 250
    assert firth.load(tmp_path / "new").predict(["a [MASK] b"])[0].blanks[0].choices


def test_going_on_with_a_model_that_reads_less(
    warm: Warm, corpus: Path, vocab: Path, tmp_path: Path
) -> None:
    save(fresh("tiny", Tokenizer.open(vocab), 48, 0.0, True, 1), tmp_path / "short")
    words = (
        "pretrain",
        corpus,
        "--init",
        tmp_path / "short",
        "--steps",
        1,
        "--batch",
        400,
        "--dtype",
        "fp32",
        "--threads",
        1,
    )
    ended = warm.run(*words, "-o", tmp_path / "own")
    assert ended.code == 0, ended.err
    refused(
        warm.run(*words, "-o", tmp_path / "no", "--length", 64), "short reads 48 tokens, not 64"
    )


# What can't be done


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--minutes, --steps or --epochs"),
        (["--steps", 3, "--epochs", 1], "--minutes, --steps or --epochs"),
        (["--steps", 3, "--minutes", 1], "--minutes, --steps or --epochs"),
        (["--steps", 0], "--steps"),
        (["--steps", 3, "--size", "huge"], "'tiny', 'mini', 'small'"),
        (["--steps", 3, "--size", "tiny", "--init", "minilm"], "--init"),
        (["--steps", 3, "--vocab", "absent"], "absent"),
        (["--steps", 3, "--dev", "absent.txt"], "absent.txt"),
        (["--steps", 3, "--init", "absent"], "absent"),
        (["--steps", 3, "--dropout", 1], "--dropout"),
    ],
)
def test_a_wrong_call(words: list[object], said: str, corpus: Path, tmp_path: Path) -> None:
    refused(run("pretrain", corpus, "-o", tmp_path / "out", *words), said)
    assert not (tmp_path / "out").exists()


def test_a_text_that_is_empty(warm: Warm, vocab: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "blank.txt").write_text("\n \n\t\n\n")
    (tmp_path / "folder").mkdir()
    for name, said in {
        "empty.txt": "no text",
        "blank.txt": "no text",
        "folder": "folder",
        "absent.txt": "absent.txt",
    }.items():
        for more in ((), ("--vocab", vocab)):
            ended = warm.run(
                "pretrain", tmp_path / name, "-o", tmp_path / "out", *SHORT, "--steps", 2, *more
            )
            refused(ended, said)
            assert not (tmp_path / "out").exists()


def test_a_single_document(warm: Warm, corpus: Path, vocab: Path, tmp_path: Path) -> None:
    single = tmp_path / "single.txt"
    single.write_text(re.sub(r"\n\n+", "\n", corpus.read_text(encoding="utf-8")), encoding="utf-8")
    words = ("pretrain", single, "-o", tmp_path / "out", "--vocab", vocab, *SHORT, "--steps", 2)
    refused(warm.run(*words), "single.txt is a single document", "--no-nsp")
    assert not (tmp_path / "out").exists()
    ended = warm.run(*words, "--no-nsp")
    assert ended.code == 0, ended.err
    assert all("next" not in record for record in records(tmp_path / "out"))
    # Its last passages are held out: a tenth of so small a text.
    tokens, held = (
        int(number.replace(",", ""))
        for number in re.findall(r"([\d,]+) tokens (?:in|are)", ended.err)
    )
    assert 0.1 * tokens <= held < 0.1 * tokens + 48
    dev = json.loads((tmp_path / "out" / "firth.json").read_text(encoding="utf-8"))["made"]["dev"]
    assert 0 <= dev["masked_accuracy"] < 1
    given = {
        "size": "tiny",
        "length": 48,
        "dtype": "fp32",
        "threads": 1,
        "batch": 400,
        "steps": 2,
        "model_settings": {"width": 16, "depth": 1},
    }
    assert (
        firth.pretrain(
            [single], tmp_path / "out", vocab=vocab, nsp=False, resume=True, **given
        ).metrics
        == dev
    )


def test_a_vocabulary_of_other_text(warm: Warm, corpus: Path, tmp_path: Path) -> None:
    text = tmp_path / "greek.txt"
    text.write_text(
        "Ἄνδρα μοι ἔννεπε, μοῦσα, πολύτροπον, ὃς μάλα πολλὰ\nπλάγχθη, ἐπεὶ Τροίης ἱερὸν πτολίεθρον ἔπερσεν.\n"
    )
    assert run("vocab", text, "-o", tmp_path / "greek", "--size", 200).code == 0
    before = listing(tmp_path / "greek")
    ended = warm.run(
        "pretrain",
        corpus,
        "-o",
        tmp_path / "out",
        "--vocab",
        tmp_path / "greek",
        *SHORT,
        "--steps",
        2,
    )
    refused(ended, "it was learned from other text", "firth vocab")
    assert not (tmp_path / "out").exists()
    assert listing(tmp_path / "greek") == before


@pytest.fixture
def half(warm: Warm, corpus: Path, vocab: Path, tmp_path: Path) -> tuple[object, ...]:
    """A call whose run was killed on its way, with a checkpoint of step 2 and of step 4."""
    text = tmp_path / "text.txt"
    text.write_bytes(corpus.read_bytes())
    words = (
        "pretrain",
        text,
        "-o",
        tmp_path / "out",
        "--vocab",
        vocab,
        *SHORT,
        "--steps",
        9,
        "--save-every",
        2,
        "--check-every",
        9,
    )
    assert warm.run(*words, FIRTH_FAILPOINT="before-write:3").code == -signal.SIGKILL
    assert checkpoint.saved_steps(tmp_path / "out.run/checkpoints") == [4, 2]
    return words


def whole(folder: Path) -> dict[str, bytes | None]:
    """A run's folder without its lock, which names whoever asked last."""
    return {name: data for name, data in listing(folder).items() if name != "lock"}


def test_a_folder_that_holds_another_run(
    warm: Warm, half: tuple[object, ...], tmp_path: Path
) -> None:
    before = whole(tmp_path / "out.run")
    refused(warm.run(*half), "out.run holds another run", "--resume", "--force")
    for word, value, key in (
        ("--steps", 10, "steps"),
        ("--batch", 500, "batch"),
        ("--size", "mini", "size"),
        ("--seed", 9, "seed"),
        ("--dropout", 0.2, "dropout"),
    ):
        refused(
            warm.run(*half, "--resume", word, value),
            f"out.run holds a run with {key} ",
            f"not {value!r}",
        )
    refused(warm.run(*half, "--resume", "--whole-words"), "whole_words False, not True")
    text = tmp_path / "text.txt"
    text.write_text(text.read_text(encoding="utf-8") + "\n\nOne document more.\n", encoding="utf-8")
    refused(warm.run(*half, "--resume"), "out.run holds a run with another text or vocabulary")
    assert {name: whole(tmp_path / "out.run")[name] for name in before} == before
    ended = warm.run(*half, "--force")
    assert ended.code == 0, ended.err
    refused(
        warm.run(*half, "--resume", "--seed", 9), "out holds a run with seed 1, not 9"
    )  # of a finished one no less


def test_another_text_to_measure_on(warm: Warm, half: tuple[object, ...], tmp_path: Path) -> None:
    held = tmp_path / "held.txt"
    held.write_text((tmp_path / "text.txt").read_text(encoding="utf-8")[:6000], encoding="utf-8")
    words = (
        *(word if word != tmp_path / "out" else tmp_path / "other" for word in half),
        "--dev",
        held,
    )
    assert warm.run(*words, FIRTH_FAILPOINT="before-write:2").code == -signal.SIGKILL
    held.write_text(held.read_text(encoding="utf-8")[:3000], encoding="utf-8")
    refused(warm.run(*words, "--resume"), "other.run holds a run with another text or vocabulary")


def test_a_journal_with_a_hole(warm: Warm, half: tuple[object, ...], tmp_path: Path) -> None:
    """As a machine that lost its power may leave it."""
    path = tmp_path / "out.run/metrics.jsonl"
    path.write_text(
        "".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:2]), encoding="utf-8"
    )
    ended = warm.run(*half, "--resume")
    assert ended.code == 0, ended.err
    assert f"WARNING: {path} lacks 3 of the 4 steps before" in ended.err


def test_a_folder_of_somebody_else(warm: Warm, corpus: Path, vocab: Path, tmp_path: Path) -> None:
    (tmp_path / "out.run/.git").mkdir(parents=True)
    (tmp_path / "out.run/.git/config").write_text("mine")
    before = listing(tmp_path)
    words = ("pretrain", corpus, "-o", tmp_path / "out", "--vocab", vocab, *SHORT, "--steps", 2)
    for more in ((), ("--force",), ("--resume",)):
        refused(warm.run(*words, *more), "out.run is no folder of a run")
        assert listing(tmp_path) == before


def test_what_a_kill_left_beside_the_model_goes(
    warm: Warm, half: tuple[object, ...], tmp_path: Path
) -> None:
    assert (
        warm.run(*half, "--resume", FIRTH_FAILPOINT="before-folder-rename:1").code
        == -signal.SIGKILL
    )
    assert len([*tmp_path.glob(".out.*")]) == 1
    (tmp_path / ".out.notes").write_text("mine")
    ended = warm.run(*half, "--resume")
    assert ended.code == 0, ended.err
    assert [path.name for path in tmp_path.glob(".out.*")] == [".out.notes"]


def test_a_place_without_a_name(warm: Warm, corpus: Path, vocab: Path, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    words = ("pretrain", corpus, "--vocab", vocab, *SHORT, "--steps", 2, "-o")
    ended = warm.run(*words, ".", before=f"import os; os.chdir({str(tmp_path / 'here')!r})")
    assert ended.code == 0, ended.err
    assert (tmp_path / "here/model.safetensors").exists()
    refused(warm.run(*words, "/"), "/ can't be written: name a folder for the model")


def test_time_that_is_over_before_it_begins(
    warm: Warm, corpus: Path, vocab: Path, tmp_path: Path
) -> None:
    words = (
        "pretrain",
        corpus,
        "-o",
        tmp_path / "out",
        "--vocab",
        vocab,
        *SHORT,
        "--minutes",
        0.01,
    )
    slow = "import time, firth.verbs.pretrain as p; t = p.open_shards; p.open_shards = lambda *a: (time.sleep(1), t(*a))[1]"
    refused(
        warm.run(*words, before=slow),
        "reading the text took",
        "and the run was to take 1: ask for more",
    )
    assert not (tmp_path / "out").exists()


def test_a_step_without_a_hidden_word(warm: Warm, vocab: Path, tmp_path: Path) -> None:
    text = tmp_path / "short.txt"
    text.write_text("A list.\n")
    ended = warm.run(
        "pretrain",
        text,
        "-o",
        tmp_path / "out",
        "--vocab",
        vocab,
        *TINY,
        "--no-nsp",
        "--steps",
        20,
        "--batch",
        4,
    )
    assert ended.code == 0, ended.err
    assert not all(record.get("masked") for record in records(tmp_path / "out") if "rate" in record)


def test_characters_that_could_not_be_read(
    warm: Warm, corpus: Path, vocab: Path, tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(corpus.read_bytes() + b"caf\xe9\n")
    ended = warm.run(
        "pretrain", text, "-o", tmp_path / "out", "--vocab", vocab, *SHORT, "--steps", 1
    )
    assert ended.code == 0, ended.err
    assert "note: 1 characters could not be read and were replaced by \ufffd" in ended.err


def test_an_output_that_is_there(warm: Warm, corpus: Path, vocab: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/letter.txt").write_text("dear")
    before = listing(tmp_path)
    words = ("pretrain", corpus, "-o", tmp_path / "out", "--vocab", vocab, *SHORT, "--steps", 2)
    refused(warm.run(*words), "out exists and holds something", "--force")
    refused(warm.run(*words, "--resume"), "out exists and holds something", "--force")
    refused(
        warm.run(*words, "--force"), "out is no folder of a model", "--force would throw it away"
    )
    assert listing(tmp_path) == before
    (tmp_path / "out/config.json").write_text("{}")
    ended = warm.run(*words, "--force")
    assert ended.code == 0, ended.err
    assert (tmp_path / "out/model.safetensors").exists()
    assert not (tmp_path / "out/letter.txt").exists()


LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))"


def test_a_disk_that_fills_up(warm: Warm, half: tuple[object, ...], tmp_path: Path) -> None:
    """At a checkpoint, in the journal, and for the folder at the end: nothing from before is lost, and the run can go on."""
    run_folder = tmp_path / "out.run"
    before = {
        name: data
        for name, data in whole(run_folder).items()
        if name.startswith("checkpoints/step")
    }
    journal = (run_folder / "metrics.jsonl").stat().st_size
    for limit, said in (
        (30_000, "the checkpoint of step 6 can't be written"),
        (journal - 300, "metrics.jsonl can't be written"),
    ):
        refused(
            warm.run(*half, "--resume", before=LIMIT.format(limit)), said, "File too large", code=1
        )
        assert {
            name: data
            for name, data in whole(run_folder).items()
            if name.startswith("checkpoints/")
        } == before
        assert not (tmp_path / "out").exists()
    ended = warm.run(*half, "--resume")
    assert ended.code == 0, ended.err
    assert "going on from step 4" in ended.err
    refused(
        warm.run(*half, "--force", "-o", tmp_path / "new", before=LIMIT.format(20_000)),
        "can't be written: File too large",
        code=1,
    )
    assert not (tmp_path / "new").exists()


HIDE = """
import torch
from firth.recipes.objectives import MaskedObjective
true, calls = MaskedObjective.losses, []
def losses(self, encoder, head, batch):
    found = true(self, encoder, head, batch)
    calls.append(1)
    if len(calls) == {call}:
        found["masked"] = {what}
    return found
MaskedObjective.losses = losses
"""
LOSS, GRADIENT = 'found["masked"] * float("nan")', 'found["masked"] + (0 * found["masked"]).sqrt()'


@pytest.mark.parametrize(
    ("what", "named"), [(LOSS, "masked nan, gradient nan"), (GRADIENT, "gradient nan")]
)
def test_a_loss_that_is_not_finite(
    what: str, named: str, warm: Warm, half: tuple[object, ...], tmp_path: Path
) -> None:
    """The step isn't taken, the examples are named, and without the fault the run goes on as if nothing had been."""
    words = (*half, "--micro", 150, "--force")
    calm = warm.run(*words, "-o", tmp_path / "calm")
    assert calm.code == 0, calm.err
    words = tuple(tmp_path / "bad" if word == tmp_path / "out" else word for word in words)
    ended = warm.run(*words, before=HIDE.format(call=3 * 5 + 2, what=what))
    said = re.search(
        r"firth: step (\d+) gave (.+), so it was not taken; it came from (\d+) examples: \d+ \('.+' \.\.\.\).* "
        r"\(last checkpoint: step (\d+)\)\n$",
        ended.err,
    )
    refused(ended, code=1)
    assert said, ended.err
    step, found, count, last = said.groups()
    assert found == named
    assert (int(step), int(last)) == (6, 4)
    sizes = (3, 40) if what == LOSS else (8, 120)  # a piece of the step, or all of it
    assert sizes[0] <= int(count) <= sizes[1]
    assert [record["step"] for record in records(tmp_path / "bad.run") if "loss" in record] == [
        1,
        2,
        3,
        4,
        5,
    ]
    assert checkpoint.newest(tmp_path / "bad.run/checkpoints").step == 4
    again = warm.run(*(word for word in words if word != "--force"), "--resume")
    assert again.code == 0, again.err
    model, other = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("calm", "bad")
    )
    assert model == other
