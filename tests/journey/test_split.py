"""What parts the words of a vocabulary of words: spaces, or punctuation too."""

import json
import re
from pathlib import Path

import pytest

import firth
from firth.base.errors import InputError
from firth.text.tokenizer import Tokenizer
from tests.journey.command import Ended, run

# Commas on words, as people write; and commas apart, as in Penn Treebank.
RAW = (
    'Is it here, or there? It is here. (He didn\'t say.) "Here," he said, "and there."\nHere it is, e.g. 3.5 of 1,000.\n'
    * 20
)
APART = RAW.translate(str.maketrans({sign: f" {sign} " for sign in ',.?()"'}))
BLANK = re.compile(r"\s[.,;:!?)\]]|[(\[]\s")


@pytest.fixture(scope="module")
def grams(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Ended]]:
    """N-grams of both texts, by what was chosen for each."""
    folder = tmp_path_factory.mktemp("grams")
    found = {}
    for name, text in {"punctuation": RAW, "spaces": APART}.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        out = folder / name
        found[name] = (
            out,
            run("pretrain", folder / f"{name}.txt", "-o", out, "--model", "ngram", "--order", 4),
        )
    return found


def test_auto_looks_for_commas_on_words(grams: dict[str, tuple[Path, Ended]]) -> None:
    for name, (out, ended) in grams.items():
        assert ended.code == 0, ended.err
        assert (
            json.loads((out / "firth.json").read_text())["made"]["split"]
            == Tokenizer.open(out).split
            == name
        )
    said = "words are split at spaces and punctuation: 13.04% of words end in a comma (--split spaces overrides)\n"
    assert said in grams["punctuation"][1].err
    assert (
        "words are split at spaces: 0.00% of words end in a comma (--split punctuation"
        in grams["spaces"][1].err
    )


def test_a_word_is_the_same_with_a_full_stop(grams: dict[str, tuple[Path, Ended]]) -> None:
    words = Tokenizer.open(grams["punctuation"][0])
    text = "Here, here. (here) didn't 3.5, 1,000; e.g. U.S. well-known <unk> <eos> ... it’s"
    (encoding,) = words.encode([text], special=False)
    pieces = [text[start:end] for start, end in encoding.offsets]
    assert (
        " ".join(pieces)
        == "Here , here . ( here ) didn't 3.5 , 1,000 ; e.g. U.S. well-known <unk> <eos> ... it’s"
    )
    assert len({encoding.ids[at] for at in (0, 2, 5)}) == 1
    assert len(set(encoding.words)) == len(encoding)
    kept = Tokenizer.open(grams["spaces"][0])
    assert len(kept.encode([text], special=False)[0]) == len(text.split())


def test_a_long_text_is_encoded_as_it_would_be_whole(grams: dict[str, tuple[Path, Ended]]) -> None:
    words = Tokenizer.open(grams["punctuation"][0])
    text = RAW.replace("\n", " ") * 4 + "y" * 9000 + ".5" + " it is here." * 1000
    (whole,) = words.encode([text], special=False)
    found = words._backend.encode(text, add_special_tokens=False)
    assert len(text) > 1 << 14
    assert (whole.ids, whole.offsets, whole.words) == (found.ids, found.offsets, found.word_ids)


def test_what_is_written_has_no_blank_before_punctuation(
    grams: dict[str, tuple[Path, Ended]],
) -> None:
    for name, (out, _) in grams.items():
        told = run("predict", out, "-", "--json", stdin=b'is it here\nit is\n"here\n')
        assert told.code == 0, told.err
        texts = [json.loads(line)["text"] for line in told.out.splitlines()]
        assert all(re.search("[.,?]", text) for text in texts)
        assert any(map(BLANK.search, texts)) == (name == "spaces"), texts
    words = Tokenizer.open(grams["punctuation"][0])
    line = "(he didn't say.) is it 3.5, or here?"
    assert words.decode(words.encode([line])[0].ids) == line
    assert Tokenizer.open(grams["spaces"][0]).decode(words.encode(["here"])[0].ids) == "here"


def test_a_half_typed_word_and_scores_have_their_places(
    grams: dict[str, tuple[Path, Ended]],
) -> None:
    out = grams["punctuation"][0]
    ends = json.loads(run("predict", out, "(he did", "--complete", "--json").out)["completions"]
    assert ends[0]["text"] == '(he didn\'t say.) "here," he said, "and there."'
    text = "Is it here, or there?"
    rated = json.loads(run("predict", out, text, "--score", "--json").out)
    assert [text[piece["start"] : piece["end"]] for piece in rated["pieces"]] == [
        *re.findall(r"\w+|\S", text),
        "",
    ]
    assert (rated["tokens"], rated["words"]) == (7, 5)
    assert rated["score"] == pytest.approx(sum(piece["score"] for piece in rated["pieces"]))
    page = json.loads(
        run("evaluate", out, "--data", out.with_name("punctuation.txt"), "--json").out
    )
    read = page["models"][0]
    assert (read["words"], read["unknown"]) == (len(RAW.split()), 0)
    assert read["tokens"] == len(APART.split()) - 20 * 7  # 3.5, 1,000 and e.g. stay whole


def test_the_report_and_the_option(tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text(RAW, encoding="utf-8")
    for asked, chosen in (
        (("--split", "auto"), "punctuation"),
        (("--split", "spaces"), "spaces"),
        ((), "punctuation"),
    ):
        ended = run(
            "vocab",
            tmp_path / "raw.txt",
            "-o",
            tmp_path / "words",
            "--kind",
            "words",
            "--json",
            "--force",
            *asked,
        )
        assert json.loads(ended.out)["split"] == Tokenizer.open(tmp_path / "words").split == chosen
    firth.vocab(
        [tmp_path / "raw.txt"], tmp_path / "words", kind="words", split="spaces", force=True
    )
    assert Tokenizer.open(tmp_path / "words").id("here.") is not None
    with pytest.raises(InputError, match="split is one of auto, punctuation, spaces, not 'commas'"):
        firth.vocab(
            [tmp_path / "raw.txt"], tmp_path / "words", kind="words", split="commas", force=True
        )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words",
    [
        ("vocab", "--split", "auto"),
        ("vocab", "--kind", "bytes", "--split", "spaces"),
        ("pretrain", "--steps", 1, "--split", "punctuation"),
        ("pretrain", "--model", "gpt", "--steps", 1, "--split", "auto"),
        ("pretrain", "--model", "ngram", "--vocab", "words", "--split", "spaces"),
    ],
)
def test_a_split_of_what_has_no_words_is_refused(words: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "raw.txt").write_text(RAW, encoding="utf-8")
    command, *rest = words
    ended = run(command, tmp_path / "raw.txt", "-o", tmp_path / "out", *rest)
    assert ended.code == 2
    assert "--split is for" in ended.err
    assert not (tmp_path / "out").exists()


def test_a_run_of_an_earlier_version_goes_on(
    grams: dict[str, tuple[Path, Ended]], tmp_path: Path
) -> None:
    """Its record has no split, and its vocabulary stays what it was."""
    (tmp_path / "raw.txt").write_text(RAW, encoding="utf-8")
    words = (
        "pretrain",
        tmp_path / "raw.txt",
        "-o",
        tmp_path / "out",
        "--model",
        "ngram",
        "--order",
        4,
    )
    assert run(*words, "--split", "spaces").code == 0
    for path in (tmp_path / "out" / "firth.json", tmp_path / "out.run" / "plan.json"):
        page = json.loads(path.read_text())
        record = page.get("made", page)
        record.pop("split", None)
        del record.get("asked", record.get("settings"))["split"]
        path.write_text(json.dumps(page))
    ended = run(*words, "--resume")
    assert (ended.code, ended.err) == (0, f"{tmp_path / 'out'} is finished\n")
    (tmp_path / "out").rename(tmp_path / "before")
    ended = run(*words, "--resume")
    assert ended.code == 0, ended.err
    assert Tokenizer.open(tmp_path / "out").split == "spaces"
