"""What language models are used for: rating, choosing, continuing, completing, and being measured on a text."""

import gzip
import json
import math
import re
import tracemalloc
from collections import Counter
from importlib.resources import files
from itertools import islice
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest
import torch
import zstandard

import firth
from firth.evaluation.text import by_frequency, count_words
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.models.gpt import Gpt, GptSettings
from firth.models.rnn import Rnn, RnnSettings
from firth.nn.softmax import FullSoftmax
from firth.samples.library import documents
from firth.text.tokenizer import Tokenizer
from tests.journey.command import listing, run

pytestmark = pytest.mark.usefixtures("one_thread")
HELD_OUT = 40  # lines
TEXT = "the value of the expression"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text that every Python carries, and models of it: an n-gram, a small RNN that knows frequent words, a fresh GPT."""
    folder = tmp_path_factory.mktemp("language")
    lines = [line for topic in islice(documents(), len(topics)) for line in topic]
    (folder / "later.txt").write_text("\n".join(lines[-HELD_OUT:]) + "\n")
    (folder / "text.txt").write_text("\n".join(lines[:-HELD_OUT]) + "\n")
    ended = run("pretrain", folder / "text.txt", "--model", "ngram", "-o", folder / "gram")
    assert ended.code == 0, ended.err
    words = Tokenizer.open(folder / "gram")
    save(Bundle(taught(words, lines[:-HELD_OUT]), words, "firth-rnn", "continue"), folder / "rnn")
    pieces = Tokenizer.train(lines[:300], "bytes", 400)
    torch.manual_seed(0)
    sizes = GptSettings(
        vocab=pieces.size,
        width=16,
        depth=1,
        heads=2,
        inner=32,
        length=32,
        start=pieces.cls or 0,
        end=pieces.sep,
    )
    save(Bundle(Gpt(sizes).eval(), pieces, "gpt2", "continue"), folder / "gpt")
    return folder


def taught(words: Tokenizer, lines: list[str]) -> Rnn:
    """A recurrent model that carries its memory over lines, and knows which words are frequent."""
    torch.manual_seed(0)
    model = Rnn(
        RnnSettings(vocab=words.size, start=words.cls or 0, end=None, width=16, depth=1, spread=0.3)
    )
    ids = [
        token
        for found in words.encode(lines, special=False)
        for token in [*found.ids, words.sep or 0]
    ]
    assert isinstance(model.output, FullSoftmax)
    with torch.no_grad():
        model.output.bias += (torch.bincount(torch.tensor(ids), minlength=words.size) + 0.1).log()
    return model.eval()


def answers(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


def refused(*words: object) -> str:
    """The one sentence of a call that is refused."""
    ended = run(*words)
    assert (ended.code, ended.out) == (2, ""), ended
    assert re.fullmatch(r"firth: [^\n]+\n", ended.err), ended.err
    return ended.err


@pytest.mark.parametrize("name", ["gram", "rnn", "gpt"])
def test_texts_are_rated(shop: Path, name: str) -> None:
    single = answers(run("predict", shop / name, TEXT, "--score", "--json").out)
    rated = firth.load(shop / name).score([TEXT])[0]
    assert single[0]["score"] == pytest.approx(rated.score, abs=1e-4)
    assert [(piece["start"], piece["end"]) for piece in single[0]["pieces"]] == [
        (p.start, p.end) for p in rated.pieces
    ]
    assert sum(piece["score"] for piece in single[0]["pieces"]) == pytest.approx(
        rated.score, abs=1e-4
    )
    assert ("order" in single[0]["pieces"][0]) == (name == "gram")
    assert single[0]["perplexity"] == pytest.approx(math.exp(-rated.score / 6), rel=1e-4)
    (shop / "two.txt").write_text(f"{TEXT}\n\nraise an error\n")
    table = run("predict", shop / name, shop / "two.txt", "--score")
    assert (table.code, table.err, len(table.out.splitlines())) == (0, "", 3)
    assert f"{rated.score:.4f}" in table.out.splitlines()[0]
    assert table.out.splitlines()[0].endswith(TEXT)
    piped = run("predict", shop / name, "-", "--score", stdin=(shop / "two.txt").read_bytes())
    assert piped.out == table.out


def test_lists_are_ranked(shop: Path, tmp_path: Path) -> None:
    rows = [
        {"candidates": ["expression the of value the", TEXT]},
        {"context": "the value", "candidates": ["off the", "of the"]},
        {"text": "of the expression", "context": "the value"},
    ]
    (tmp_path / "heard.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    assert (
        run(
            "predict",
            shop / "gram",
            tmp_path / "heard.jsonl",
            "--score",
            "-o",
            tmp_path / "out.jsonl",
        ).code
        == 0
    )
    first, second, third = answers((tmp_path / "out.jsonl").read_text())
    assert first["best"] == first["candidates"][0]["text"] == TEXT
    assert [one["place"] for one in first["candidates"]] == [1, 0]
    assert sum(one["share"] for one in first["candidates"]) == pytest.approx(1)
    assert (second["context"], second["best"]) == ("the value", "of the")
    assert (third["context"], third["text"], third["words"]) == (
        "the value",
        "of the expression",
        3,
    )
    other = [{"nbest": row.get("candidates", ["a"])} for row in rows]
    (tmp_path / "other.jsonl").write_text("\n".join(json.dumps(row) for row in other) + "\n")
    table = run(
        "predict", shop / "gram", tmp_path / "other.jsonl", "--score", "--text", "nbest"
    ).out
    assert table.splitlines()[0] == TEXT


def test_candidates_are_rescored(shop: Path, tmp_path: Path) -> None:
    rows = [
        {"candidates": [TEXT, "the value of the expansion"], "scores": [-40, -3.5]},
        {"candidates": ["off the", "of the"], "scores": None},
    ]
    heard = tmp_path / "heard.jsonl"
    heard.write_text("".join(json.dumps(row) + "\n" for row in rows))
    call = ("predict", shop / "gram", heard, "--score")
    printed = run(*call)
    assert (printed.code, printed.err) == (0, "")
    assert re.search(r"= -40\.0000 \+ 1 \* -\d+\.\d{4}  the value of the expr", printed.out)
    first, second = answers(run(*call, "--json").out)
    assert (first["best"], first["weight"]) == ("the value of the expansion", 1)
    assert [one["proposer_score"] for one in first["candidates"]] == [-3.5, -40]
    for one in first["candidates"]:
        assert one["total"] == pytest.approx(one["proposer_score"] + one["score"])
    assert sum(one["share"] for one in first["candidates"]) == pytest.approx(1)
    assert second["best"] == "of the"
    assert "weight" not in second
    assert "total" not in second["candidates"][0]

    heard.write_text(json.dumps(rows[0]) + "\n")
    weighed = run(*call, "--weight", 20, "--json")
    assert answers(weighed.out)[0]["best"] == TEXT
    piped = run(
        "predict", shop / "gram", "-", "--score", "--json", "--weight", 20, "--format", "jsonl",
        stdin=heard.read_bytes(),
    )  # fmt: skip
    assert piped.out == weighed.out
    alone = answers(run(*call, "--weight", 0, "--json").out)[0]
    assert [one["total"] for one in alone["candidates"]] == [-3.5, -40]
    from_python = firth.predict(shop / "gram", heard, score=True, weight=20.0)
    assert [one.as_json() for one in from_python] == answers(weighed.out)
    assert run(*call, "-o", tmp_path / "out.csv").code == 0
    assert "proposer_score" in (tmp_path / "out.csv").read_text()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"candidates": ["a", "b"]}', ":2 has no field 'scores', and --weight is for"),
        ('{"text": "a b"}', ":2: the field 'text' holds one text, and --weight is for"),
    ],
)
def test_a_row_without_scores_has_no_weight(
    shop: Path, tmp_path: Path, row: str, said: str
) -> None:
    heard = tmp_path / "heard.jsonl"
    heard.write_text('{"candidates": ["a", "b"], "scores": [-1, -2]}\n' + row + "\n")
    call = ("predict", shop / "gram", heard, "--score")
    assert f"heard.jsonl{said}" in refused(*call, "--weight", 1)
    assert run(*call).code == 0


def test_a_weight_is_for_lists(shop: Path) -> None:
    gram, heard = shop / "gram", shop / "heard.jsonl"
    heard.write_text('{"candidates": ["a", "b"], "scores": [-1, -2]}\n')
    assert "--weight is for --score" in refused("predict", gram, heard, "--weight", 1)
    for source in (TEXT, shop / "later.txt", "-"):
        said = refused("predict", gram, source, "--score", "--weight", 1)
        assert "rows of a .jsonl file" in said
    for weight in ("-1", "nan", "inf", "1001", "x"):
        said = refused("predict", gram, heard, "--score", "--weight", weight)
        assert "Invalid value for '--weight'" in said


def test_several_fields_are_rated_as_one_text(shop: Path, tmp_path: Path) -> None:
    rows = [
        {"subject": "the value", "body": "of the expression"},
        {"subject": "of", "body": "the value", "context": "the value"},
    ]
    (tmp_path / "mails.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    call = ("predict", shop / "gram", tmp_path / "mails.jsonl", "--score", "--json", "--text")
    first, second = answers(run(*call, "subject,body").out)
    assert first["score"] == pytest.approx(firth.load(shop / "gram").score([TEXT])[0].score)
    assert (second["context"], second["text"]) == ("the value", "of\nthe value")
    assert "mails.jsonl:1 has no field 'title'" in refused(*call, "title,body")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"candidates": []}', ":2: the field 'candidates' holds neither"),
        ('{"candidates": ["a", 3]}', ":2: the field 'candidates' holds neither"),
        ('{"candidates": ["a"], "scores": []}', ":2: the field 'scores' is a list of 1 finite"),
        ('{"candidates": ["a"], "scores": [NaN]}', ":2: the field 'scores' is a list of 1"),
        ('{"candidates": ["a"], "scores": [-Infinity]}', ":2: the field 'scores' is a list"),
        ('{"candidates": ["a"], "scores": ["-1"]}', ":2: the field 'scores' is a list of 1"),
        ('{"candidates": ["a"], "scores": -1}', ":2: the field 'scores' is a list of 1"),
        ('{"candidates": ["a"], "context": 3}', ":2: the field 'context' holds int"),
        ('{"other": 1}', ":2 has no field 'text'; it has other"),
        ('{"candidates"', ":2 is not valid JSON"),
        ("[1]", ":2 holds a JSON list"),
    ],
)
def test_a_bad_row_is_named(shop: Path, tmp_path: Path, row: str, said: str) -> None:
    (tmp_path / "bad.jsonl").write_text('{"candidates": ["a", "b"]}\n' + row + "\n")
    before = listing(tmp_path)
    assert f"bad.jsonl{said}" in refused(
        "predict", shop / "gram", tmp_path / "bad.jsonl", "--score", "-o", tmp_path / "out.jsonl"
    )
    assert listing(tmp_path) == before


def test_options_that_make_no_sense_are_refused(shop: Path) -> None:
    gram = shop / "gram"
    assert "no language model" in refused("predict", "minilm", TEXT, "--score")
    assert "no language model" in refused("predict", "minilm", TEXT, "--complete")
    assert "no language model" in refused("predict", "minilm", TEXT, "--temperature", 1)
    assert "one of the two" in refused("predict", gram, TEXT, "--score", "--complete")
    assert "--seed is for continuing" in refused("predict", gram, TEXT, "--score", "--seed", 1)
    assert "--temperature is for continuing" in refused(
        "predict", gram, TEXT, "--complete", "--temperature", 1
    )
    assert "need a temperature above 0" in refused("predict", gram, TEXT, "--top-k", 3)
    assert "--long slide is not for continuing" in refused("predict", gram, TEXT, "--long", "slide")
    assert "at least one character" in refused("predict", gram, TEXT, "--stop", "")
    assert "room for 32 tokens" in refused("predict", shop / "gpt", TEXT, "--tokens", 32)
    assert "holds the mark" in refused("predict", gram, "a <s> b", "--score")
    assert (
        "--top is for filling blanks, for questions, for translating and for --complete"
        in refused("predict", gram, TEXT, "--top", 5)
    )
    assert (
        "--top is for filling blanks, for questions, for translating and for --complete"
        in refused("predict", gram, TEXT, "--score", "--top", 5)
    )


def test_texts_are_continued(shop: Path) -> None:
    model = firth.load(shop / "gram")
    found = answers(run("predict", shop / "gram", TEXT, "--tokens", 12, "--json").out)[0]
    written = model.write([TEXT], tokens=12)[0]
    assert found["text"] == TEXT + found["continuation"] == written.text
    assert found["score"] == pytest.approx(written.score)
    assert run("predict", shop / "gram", TEXT, "--tokens", 12).out == found["text"] + "\n"
    options = ("--temperature", 0.9, "--top-k", 40, "--top-p", 0.9, "--tokens", 12)
    drawn = [
        run("predict", shop / "gram", TEXT, *options, "--seed", seed).out for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    letter = found["continuation"][3]
    stopped = run(
        "predict", shop / "gram", TEXT, "--tokens", 12, "--stop", "@@", "--stop", letter
    ).out
    assert stopped == TEXT + found["continuation"].split(letter)[0] + "\n"


def test_a_prompt_too_long_keeps_its_end_and_that_is_said(shop: Path) -> None:
    ended = run("predict", shop / "gpt", " ".join([TEXT] * 20), "--tokens", 8)
    assert ended.code == 0
    assert re.search(
        r"note: 1 of 1 texts .* cut: \d+ tokens unseen \(the ends were kept", ended.err
    )


def test_lines_are_completed(shop: Path) -> None:
    found = answers(
        run("predict", shop / "gram", "the value", "--complete", "--top", 3, "--json").out
    )[0]
    assert (found["text"], len(found["completions"])) == ("the value", 3)
    chances = [one["probability"] for one in found["completions"]]
    assert chances == sorted(chances, reverse=True)
    model = firth.load(shop / "gram")
    for one in found["completions"]:
        if one["ended"] and one["continuation"]:
            after = model.score([one["continuation"].strip()], context="the value")[0]
            assert math.exp(after.score) == pytest.approx(one["probability"])
    table = run("predict", shop / "gram", "the value", "--complete", "--top", 3).out.splitlines()
    assert table[0] == "the value"
    assert [line.split("%  ")[1] for line in table[1:]] == [
        one["text"] for one in found["completions"]
    ]


def perplexity(folder: Path, lines: list[str]) -> float:
    """By ratings of single lines, each of which begins anew."""
    rated = firth.load(folder).score(lines)
    return math.exp(-sum(one.score for one in rated) / sum(one.words + 1 for one in rated))


def test_perplexity_is_that_of_the_lines(shop: Path) -> None:
    lines = (shop / "later.txt").read_text().splitlines()
    ended = run("evaluate", shop / "gram", "--data", shop / "later.txt", "--json")
    assert (ended.code, ended.err) == (0, "")
    page = json.loads(ended.out)
    value, low, high = page["models"][0]["metrics"]["perplexity"].values()
    assert page["metrics"] == {"perplexity": value}
    assert value == pytest.approx(perplexity(shop / "gram", lines), rel=1e-6)
    assert low < value < high
    assert page["examples"] == HELD_OUT
    assert page["models"][0]["words"] == sum(len(line.split()) for line in lines)
    unknown = load(shop / "gram").tokenizer
    assert (
        page["models"][0]["unknown"]
        == sum(e.ids.count(unknown.unk or 0) for e in unknown.encode(lines, special=False))
        > 0
    )


def test_a_memory_is_carried_over_lines(shop: Path) -> None:
    lines = (shop / "later.txt").read_text().splitlines()
    found = firth.evaluate(shop / "rnn", shop / "later.txt").models[0]
    bundle = load(shop / "rnn")
    ids = [
        token
        for one in bundle.tokenizer.encode(lines, special=False)
        for token in [*one.ids, bundle.end]
    ]
    with torch.inference_mode():
        scores = bundle.language.score(
            torch.tensor([bundle.end, *ids]), torch.tensor([len(ids) + 1])
        )[0][1:]
    assert found.text is not None
    assert (found.text.tokens, len(scores)) == (len(ids) - len(lines), len(ids))
    expected = math.exp(-float(scores.double().sum()) / (found.text.words + len(lines)))
    assert found.metrics["perplexity"].value == pytest.approx(expected, rel=1e-5)
    assert found.metrics["perplexity"].value != pytest.approx(
        perplexity(shop / "rnn", lines), rel=1e-4
    )


def test_bits_per_byte_of_a_gpt(shop: Path) -> None:
    found = {
        long: firth.evaluate(shop / "gpt", shop / "later.txt", long=long).models[0]
        for long in ("slide", "cut")
    }
    size = len((shop / "later.txt").read_bytes())
    for one in found.values():
        assert one.text is not None
        words = one.text.words + HELD_OUT
        bits = math.log2(one.metrics["perplexity"].value) * words / size
        assert one.metrics["bits_per_byte"].value == pytest.approx(bits, rel=1e-6)
    assert found["slide"].metrics != found["cut"].metrics
    assert "slide, cut or carry" in refused(
        "evaluate", shop / "gpt", shop / "later.txt", "--long", "error"
    )


def test_only_a_gpt_made_for_it_carries_in_silence(shop: Path, tmp_path: Path) -> None:
    save(load(shop / "gpt"), tmp_path / "carries", made={"settings": {"carry": True}})
    call = ("--data", shop / "later.txt", "--long", "carry")
    plain, carries = (
        run("evaluate", folder, *call) for folder in (shop / "gpt", tmp_path / "carries")
    )
    assert (plain.code, carries.code) == (0, 0)
    assert plain.err.startswith(f"note: {shop / 'gpt'} was not made with --carry")
    assert carries.err == ""
    assert "--long carry is for a gpt" in refused("evaluate", shop / "gram", shop / "rnn", *call)
    assert "--long slide is for a gpt" in refused(
        "evaluate", shop / "rnn", "--data", shop / "later.txt", "--long", "slide"
    )
    assert run("evaluate", tmp_path / "carries", shop / "gram", *call).code == 0


def test_models_are_compared_on_the_same_lines(shop: Path) -> None:
    ended = run(
        "evaluate",
        shop / "rnn",
        shop / "gram",
        shop / "gpt",
        "--data",
        shop / "later.txt",
        "--json",
    )
    page = json.loads(ended.out)
    by_name = {
        Path(one["model"]).name: one["metrics"]["perplexity"]["value"] for one in page["models"]
    }
    assert by_name["gram"] < by_name["rnn"] < by_name["gpt"]
    first, second = (one["metrics"]["perplexity"] for one in page["differences"])
    assert first["value"] == pytest.approx(by_name["gram"] - by_name["rnn"])
    assert first["high"] < 0 < second["low"]
    assert first["chance"] < 0.005
    table = run("evaluate", shop / "rnn", shop / "gram", "--data", shop / "later.txt").out
    assert "on the same lines\n  perplexity" in table


def test_rare_words_are_told_apart(shop: Path) -> None:
    counts = count_words(shop / "text.txt")
    found = by_frequency(shop / "gram", shop / "later.txt", counts)
    words = Counter(
        word for line in (shop / "later.txt").read_text().splitlines() for word in line.split()
    )
    assert {band.times: band.words for band in found} == {
        "0": sum(many for word, many in words.items() if counts[word] == 0),
        "1-9": sum(many for word, many in words.items() if 1 <= counts[word] <= 9),
        "10-99": sum(many for word, many in words.items() if 10 <= counts[word] <= 99),
        "100-999": sum(many for word, many in words.items() if 100 <= counts[word] <= 999),
        "1000+": sum(many for word, many in words.items() if counts[word] >= 1000),
    }
    by_band = {band.times: band.perplexity.value for band in found}
    assert by_band["1-9"] > by_band["100-999"] > by_band["1000+"]
    page = json.loads(
        run(
            "evaluate", shop / "gram", shop / "later.txt", "--counts", shop / "text.txt", "--json"
        ).out
    )
    frequency = page["models"][0]["frequency"]
    assert {one["times"]: one["perplexity"]["value"] for one in frequency} == pytest.approx(by_band)
    assert (
        "1000+"
        in run("evaluate", shop / "gram", shop / "later.txt", "--counts", shop / "text.txt").out
    )


def test_words_are_counted_in_the_field_that_is_named(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "later.jsonl").write_text(
        "".join(json.dumps({"body": line}) + "\n" for line in (TEXT, TEXT))
    )
    ended = run(
        "evaluate",
        shop / "gram",
        tmp_path / "later.jsonl",
        "--text",
        "body",
        "--counts",
        tmp_path / "later.jsonl",
        "--json",
    )
    assert ended.code == 0, ended.err
    assert [
        (band["times"], band["words"]) for band in json.loads(ended.out)["models"][0]["frequency"]
    ] == [("1-9", 10)]


def test_text_is_read_as_pretraining_reads_it(shop: Path, tmp_path: Path) -> None:
    text = (shop / "later.txt").read_text()
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "b.txt.zst").write_bytes(zstandard.compress(text.encode()))
    (tmp_path / "c.txt").write_text("\n\n" + text.replace("\n", "\n\n"))
    lines = text.splitlines()
    (tmp_path / "d.jsonl").write_text(
        "\n".join(
            json.dumps({"body": "\n".join(lines[at : at + 3])}) for at in range(0, HELD_OUT, 3)
        )
    )
    expected = firth.evaluate(shop / "gram", shop / "later.txt").models
    for name in ("a.txt.gz", "b.txt.zst", "c.txt"):
        assert firth.evaluate(shop / "gram", tmp_path / name).models == expected, name
    assert firth.evaluate(shop / "gram", tmp_path / "d.jsonl", text="body").models == expected


def test_a_text_that_is_none_is_refused(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n \n")
    assert "there is no text in" in refused(
        "evaluate", shop / "gram", "--data", tmp_path / "empty.txt"
    )
    assert "there is no file" in refused(
        "evaluate", shop / "gram", "--data", tmp_path / "absent.txt"
    )
    (tmp_path / "mark.txt").write_text("one line\na <s> b\n")
    assert "'a <s> b' holds the mark" in refused(
        "evaluate", shop / "gram", "--data", tmp_path / "mark.txt"
    )
    assert "--label is not for" in refused(
        "evaluate", shop / "gram", "--data", shop / "later.txt", "--label", "x"
    )


def test_memory_does_not_grow_with_the_text(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("firth.text.lines.CHUNK", 1 << 14)
    text = (shop / "later.txt").read_text().splitlines()
    firth.evaluate(shop / "gram", shop / "later.txt")
    peaks = []
    for times in (20, 100):
        (tmp_path / "long.txt").write_text("\n".join(text * times) + "\n")
        tracemalloc.start()
        firth.evaluate(shop / "gram", tmp_path / "long.txt")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + (1 << 20), peaks


@pytest.mark.parametrize("name", ["spelling.jsonl", "readings.jsonl"])
def test_the_right_candidate_is_chosen(shop: Path, name: str) -> None:
    """The recipes: far more often right than by chance or by the first candidate."""
    source = files("firth.samples") / name
    rows = answers(source.read_text())
    found = answers(run("predict", shop / "gram", source, "--score", "--json").out)
    right = sum(one["best"] == row["right"] for one, row in zip(found, rows, strict=True))
    first = sum(row["candidates"][0] == row["right"] for row in rows)
    chance = sum(1 / len(row["candidates"]) for row in rows)
    assert right >= 26
    assert right > 2 * max(first, chance)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The samples as files, and an n-gram model of the day book."""
    folder = tmp_path_factory.mktemp("day")
    assert run("demo", "--files", folder / "samples").code == 0
    book = folder / "samples" / "daybook.txt"
    assert run("pretrain", book, "--model", "ngram", "-o", folder / "gram").code == 0
    return folder


@pytest.mark.parametrize(("name", "good"), [("speech.jsonl", 13), ("translations.jsonl", 10)])
def test_rescoring_is_better_than_either_alone(day: Path, name: str, good: int) -> None:
    """The recipes: both scores choose better than the proposer's own or the model's alone."""
    source = day / "samples" / name
    rows = answers(source.read_text())
    right = {}
    for weight in ("0", "0.1", "1000"):
        found = answers(
            run("predict", day / "gram", source, "--score", "--weight", weight, "--json").out
        )
        right[weight] = sum(
            one["best"] == row["right"] for one, row in zip(found, rows, strict=True)
        )
    assert right["0.1"] >= good
    assert right["0.1"] > right["1000"] > right["0"]
