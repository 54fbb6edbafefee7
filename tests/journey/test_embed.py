"""`firth embed`: from a file of any text to the same vectors as sentence-transformers, in order."""

import csv
import gzip
import inspect
import json
import os
import pydoc_data.topics
import random
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from firth.base import progress
from firth.folders.find import find
from firth.tasks.task import EXAMPLES_AT_ONCE
from tests.conftest import count
from tests.journey.command import listing, run, spawn

TOLERANCE = 1e-5
LINES = count(1000)  # real ones; all that are odd come on top
SPECIAL = [
    "",
    "   ",
    " \t ",
    "",
    "a\tb\tc",
    "control \x01 and \x02\x03 and \x7f, \x1b[31mred\x1b[0m",
    "zero\u200bwidth\u200djoiner\ufeff and soft\u00adhyphen",
    "one\u2028line\u2029only\x0b\x0c\x1c\x1d\x1e\x85 even so",
    "no\u00a0break\u3000space\u2003em",
    "👍🏽 👩‍👩‍👧‍👦 🇸🇪 ☃️ 🤷🏻‍♀️",
    "👍🏽" * 300,
    "cafe\u0301 A\u030angstro\u0308m e\u0301\u0301\u0301 n\u0303",
    "\u0301\u0302 accents without a letter",
    "Zürich, Łódź, naïve, İstanbul, ﬁnance, ß, ǅ, ſ",
    "语言模型学习词语的上下文。東京タワー、한국어 문장",
    "中" * 700,
    "مرحبا بالعالم هذا نص من اليمين إلى اليسار",
    "שלום עולם \u202eabc\u202c ועוד",
    "हिन्दी में एक वाक्य और ไทยไม่มีช่องว่าง",
    "x" * 5000,
    "!" * 600,
    "[CLS] [SEP] [MASK] [PAD] [UNK] are only words of a text",
    "\U0001d54c\U0001d55f\U0001d55a \U00020bb7\U0001f9ff \U0010ffff \ufffd \ufffe",
    "0123456789 3.14159 1e-5 1,000,000 §4(b)",
]


def real_lines() -> list[str]:
    """Lines that people wrote: an encyclopedia's where it is at hand, the standard library's own otherwise."""
    source = Path(os.environ.get("FIRTH_DATA") or "absent") / "corpus/wikipedia_en.dev.txt.gz"
    if source.is_file():
        with gzip.open(source, "rt", encoding="utf-8") as file:
            return [line.rstrip("\n") for line in file]
    modules = (random, re, json, inspect, os, gzip, warnings)
    pages = [
        *pydoc_data.topics.topics.values(),
        *(inspect.getdoc(module) or "" for module in modules),
    ]
    pages += [
        inspect.getdoc(thing) or ""
        for module in modules
        for _, thing in inspect.getmembers(module, callable)
    ]
    return [re.sub(r"\s*\n\s*", " ", part) for page in pages for part in page.split("\n\n")]


def mixed_lines(seed: int) -> list[str]:
    """Real lines in a random order, and between them all that is odd, and one of ten thousand words."""
    draw = random.Random(seed)
    real = real_lines()
    words = " ".join(real).split()
    odd = [*SPECIAL, " ".join(draw.choices(words, k=10_000))]
    lines = odd + draw.choices(real, k=LINES)
    draw.shuffle(lines)
    return lines


pytestmark = pytest.mark.usefixtures("one_thread")


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(line + "\n" for line in lines).encode("utf-8"))
    return path


@contextmanager
def quiet() -> Iterator[None]:
    """Other libraries' warnings are not ours to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def oracle(folder: Path, lines: list[str]) -> np.ndarray[Any, Any]:
    """What sentence-transformers makes of the same lines."""
    with quiet():
        from sentence_transformers import SentenceTransformer

        vectors = SentenceTransformer(str(folder), device="cpu").encode(
            lines, batch_size=32, show_progress_bar=False
        )
    return np.asarray(vectors)


def from_lines(text: str) -> np.ndarray[Any, Any]:
    """The vectors of JSON lines, in single precision."""
    return np.array([json.loads(line)["vector"] for line in text.split("\n") if line], np.float32)


@pytest.fixture(scope="module")
def minilm() -> Path:
    return find("minilm")


def sizes(vocab: int, depth: int, length: int) -> Any:
    """The settings of a small BERT whose random weights are spread so widely that an error shows."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=vocab,
        hidden_size=48,
        num_hidden_layers=depth,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=length,
        initializer_range=0.3,
    )


@pytest.fixture(scope="module")
def small(minilm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A body that runs in no time, under the vocabulary and the habits of minilm."""
    folder = tmp_path_factory.mktemp("small") / "model"
    shutil.copytree(minilm, folder, ignore=shutil.ignore_patterns("model.safetensors", "*.md"))
    with quiet():
        from transformers import BertModel

        torch.manual_seed(0)
        BertModel(sizes(30522, depth=6, length=512)).save_pretrained(folder)
    return folder


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """A few short lines, in a file."""
    return write(
        tmp_path / "short.txt",
        ["The river bank was muddy.", "", "The bank raised its rates; ångström 👍🏽!", "ok"],
    )


def test_lines_of_any_text_agree_with_sentence_transformers(
    minilm: Path, tmp_path: Path, seed: int
) -> None:
    lines = mixed_lines(seed)
    source, out = write(tmp_path / "texts.txt", lines), tmp_path / "vectors.npy"
    ended = run("embed", "minilm", source, "-o", out)
    assert (ended.code, ended.out) == (0, ""), ended.err
    ours, theirs = np.load(out), oracle(minilm, lines)
    assert ours.shape == theirs.shape == (len(lines), 384)
    assert ours.dtype == np.float32
    worst = np.abs(ours - theirs).max(1)
    at = int(worst.argmax())
    print(
        f"largest difference over {len(lines)} lines: {worst[at]:.2e} at line {at + 1}: {lines[at][:60]!r}"
    )
    assert worst.max() <= TOLERANCE
    assert re.search(
        rf"^note: \d+ of {len(lines):,} texts were longer .*\(--long slide reads", ended.err, re.M
    )
    # The check can fail: the same vectors one row further are nowhere near.
    assert np.abs(np.roll(ours, 1, 0) - theirs).max() > 0.1


@pytest.fixture(scope="module", params=["metaspace", "whitespace"])
def unigram(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small BERT body with random weights under a Unigram vocabulary of over 30,000 pieces, as multilingual encoders have."""
    from tokenizers import (
        Regex,
        Tokenizer,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    if request.param == "whitespace":
        squeeze = normalizers.Replace(Regex(" {2,}"), " ")
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Nmt(), normalizers.NFKC(), squeeze]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
        )
    pages = "\n".join(pydoc_data.topics.topics.values())
    trainer = trainers.UnigramTrainer(
        vocab_size=20_000, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator([line for line in pages.split("\n") if line.strip()], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    known = {piece for piece, _ in model["vocab"]}
    parts = [first + second for first in "bcdfghjklmnprstvz" for second in "aeiou"]
    made = (f"▁{a}{b}{c}" for a in parts for b in parts for c in parts)
    grown = [(piece, score) for piece, score in model["vocab"]] + [
        (piece, -14.0) for piece, _ in zip(made, range(26_000), strict=False) if piece not in known
    ]
    tokenizer.model = models.Unigram(grown, unk_id=model["unk_id"])
    tokenizer.add_special_tokens(special)
    tokenizer.post_processor = processors.TemplateProcessing(
        "<s> $A </s>", "<s> $A </s> $B </s>", [("<s>", 0), ("</s>", 2)]
    )
    folder = tmp_path_factory.mktemp("unigram")
    with quiet():
        from sentence_transformers import SentenceTransformer
        from transformers import BertModel, PreTrainedTokenizerFast

        names = {
            "bos_token": "<s>",
            "cls_token": "<s>",
            "eos_token": "</s>",
            "sep_token": "</s>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "mask_token": "<mask>",
        }
        torch.manual_seed(0)
        size = tokenizer.get_vocab_size()
        BertModel(sizes(size, depth=2, length=130)).save_pretrained(folder / "plain")
        PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, model_max_length=128, **names
        ).save_pretrained(folder / "plain")
        SentenceTransformer(str(folder / "plain"), device="cpu").save(str(folder / "model"))
    assert size > 30_000
    return folder / "model"


def test_a_large_unigram_vocabulary_agrees_too(unigram: Path, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    spaces = [
        "two  spaces",
        "  leading",
        "trailing  ",
        "\ttab\t\ttab",
        " \u00a0\u3000 ",
        "a \u2028 b",
        "many" + " " * 50 + "spaces",
        "bakale dufo zuvizu",
    ]
    lines = [*spaces, *SPECIAL, *draw.choices(real_lines(), k=200)]
    source, out = write(tmp_path / "texts.txt", lines), tmp_path / "vectors.npy"
    ended = run("embed", unigram, source, "-o", out)
    assert ended.code == 0, ended.err
    ours, theirs = np.load(out), oracle(unigram, lines)
    worst = np.abs(ours - theirs).max(1)
    print(
        f"largest difference: {worst.max():.2e} at {lines[worst.argmax()][:60]!r}; largest value {np.abs(theirs).max():.2f}"
    )
    assert worst.max() <= TOLERANCE * max(1.0, float(np.abs(theirs).max()))
    assert (
        len(np.unique(theirs.round(3), axis=0)) > 180
    )  # texts that differ have vectors that differ


def test_the_formats_hold_the_same_bits(small: Path, short: Path, tmp_path: Path) -> None:
    import pyarrow.parquet

    for ending in ("npy", "jsonl", "parquet"):
        ended = run("embed", small, short, "-o", tmp_path / f"v.{ending}")
        assert ended == (0, "", ""), ended
    array = np.load(tmp_path / "v.npy")
    table = pyarrow.parquet.read_table(tmp_path / "v.parquet")
    rows = [
        json.loads(line)
        for line in (tmp_path / "v.jsonl").read_text(encoding="utf-8").split("\n")
        if line
    ]
    columns = np.array(table["vector"].to_pylist(), np.float32)
    lines = np.array([row["vector"] for row in rows], np.float32)
    screen = from_lines(run("embed", small, short).out)
    assert array.tobytes() == columns.tobytes() == lines.tobytes() == screen.tobytes()
    assert array.shape == (4, 48)
    texts = short.read_text(encoding="utf-8").split("\n")[:-1]
    assert table["text"].to_pylist() == [row["text"] for row in rows] == texts
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.iterdir()} == {
        "short.txt",
        "v.npy",
        "v.jsonl",
        "v.parquet",
    }


def test_words_have_the_same_bits_in_both_formats(small: Path, short: Path, tmp_path: Path) -> None:
    import pyarrow.parquet

    for ending in ("jsonl", "parquet"):
        assert (
            run("embed", small, short, "--pool", "words", "-o", tmp_path / f"v.{ending}").code == 0
        )
    rows = [
        json.loads(line)
        for line in (tmp_path / "v.jsonl").read_text(encoding="utf-8").split("\n")
        if line
    ]
    spans = [{"row": i, **span} for i, row in enumerate(rows) for span in row["spans"]]
    table = pyarrow.parquet.read_table(tmp_path / "v.parquet").to_pylist()
    keys = ("row", "start", "end", "text")
    assert [[row[key] for key in keys] for row in table] == [
        [span[key] for key in keys] for span in spans
    ]
    assert (
        np.array([r["vector"] for r in table], np.float32).tobytes()
        == np.array([s["vector"] for s in spans], np.float32).tobytes()
    )
    refused = run("embed", small, short, "--pool", "words", "-o", tmp_path / "v.npy")
    assert refused.code == 2
    assert ".jsonl or .parquet" in refused.err


def test_a_process_of_its_own_prints_only_data(small: Path, short: Path) -> None:
    ended = spawn("embed", small, "-", stdin=short.read_bytes() + " ".join(["word"] * 300).encode())
    assert ended.code == 0, ended.err
    lines = ended.out.split("\n")
    assert lines.pop() == ""
    assert [json.loads(line)["text"] for line in lines] == [
        *short.read_text(encoding="utf-8").split("\n")[:-1],
        " ".join(["word"] * 300),
    ]
    assert re.fullmatch(
        r"note: 1 of 5 texts were longer than the model reads and were cut: 46 tokens .*\n",
        ended.err,
    ), ended.err
    assert (
        np.abs(from_lines(ended.out)[:4] - from_lines(run("embed", small, short).out)).max() <= 1e-6
    )


def test_every_way_in_gives_the_same_vectors(small: Path, short: Path, tmp_path: Path) -> None:
    expected = from_lines(run("embed", small, short).out)
    texts = short.read_text(encoding="utf-8").split("\n")[:-1]
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(short.read_bytes()))
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"text": t, "body": "x"}) + "\n" for t in texts), encoding="utf-8"
    )
    (tmp_path / "b.jsonl").write_text(
        "".join(json.dumps({"text": "x", "body": t}) + "\n" for t in texts), encoding="utf-8"
    )
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress((tmp_path / "b.jsonl").read_bytes()))
    (tmp_path / "w.txt").write_bytes(short.read_bytes().replace(b"\n", b"\r\n"))
    (tmp_path / "open.txt").write_bytes(short.read_bytes().removesuffix(b"\n"))
    for name, header, delimiter in (
        ("a.csv", ["id", "text", "label"], ","),
        ("b.tsv", ["id", "body", "label"], "\t"),
    ):
        with (tmp_path / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
            writer.writerows(
                [
                    header,
                    *([number, text, "" if number else "a"] for number, text in enumerate(texts)),
                ]
            )
    named = ("--text", "body")
    plain, fields = (
        [["a.txt.gz"], ["w.txt"], ["open.txt"]],
        [["a.jsonl"], ["b.jsonl", *named], ["c.jsonl.gz", *named]],
    )
    ways = [*plain, *fields, ["a.csv"], ["b.tsv", *named]]
    for name, *options in ways:
        ended = run("embed", small, tmp_path / name, *options)
        assert ended.code == 0, (name, ended.err)
        assert from_lines(ended.out).tobytes() == expected.tobytes(), name
    assert (
        from_lines(run("embed", small, stdin=short.read_bytes()).out).tobytes()
        == expected.tobytes()
    )
    assert (
        from_lines(run("embed", small, "-", stdin=short.read_bytes()).out).tobytes()
        == expected.tobytes()
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("text,label\na,b\nc\n", "t.csv:3 has 1 field where there should be 2"),
        (
            "subject,label\na,b\n",
            "which column holds the text? It has subject, label; perhaps --text subject (several",
        ),
        (
            "sentence1,sentence2\na,b\n",
            "t.csv has pairs of texts, where one text is wanted: --text names its column",
        ),
    ],
)
def test_a_table_that_can_not_be_read_gives_no_vectors(
    small: Path, tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "t.csv").write_text(content)
    ended = run("embed", small, tmp_path / "t.csv", "-o", tmp_path / "t.npy")
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert not (tmp_path / "t.npy").exists()


def test_joined_fields_are_read_in_the_order_asked(small: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"body": "world", "subject": "hello"}) + "\n")
    ended = run("embed", small, tmp_path / "a.jsonl", "--text", "subject,body")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["text"].split() == ["hello", "world"]
    absent = run("embed", small, tmp_path / "a.jsonl", "--text", "title")
    assert absent.code == 2
    assert "title" in absent.err
    assert "body" in absent.err  # the fields that there are


def test_no_text_gives_no_vectors(small: Path, tmp_path: Path) -> None:
    (tmp_path / "none.txt").touch()
    assert run("embed", small, tmp_path / "none.txt", "-o", tmp_path / "v.npy").code == 0
    assert len(np.load(tmp_path / "v.npy")) == 0
    said = f"note: {tmp_path / 'none.txt'} holds no rows: there is nothing to embed\n"
    assert run("embed", small, tmp_path / "none.txt") == (0, "", said)


# Layers, words and pieces, against the hidden states of transformers


class Reference:
    """The hidden states of transformers for one text at a time, without padding."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        with quiet():
            from transformers import AutoModel

            self.model = AutoModel.from_pretrained(str(folder), attn_implementation="eager").eval()
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    @torch.no_grad()
    def states(self, ids: list[int]) -> list[torch.Tensor]:
        """The embedding and every layer, (T, D) each."""
        return [
            layer[0]
            for layer in self.model(
                input_ids=torch.tensor([ids]), output_hidden_states=True
            ).hidden_states
        ]


@pytest.fixture(scope="module")
def reference(small: Path) -> Reference:
    return Reference(small)


TEXTS = [
    "The river bank was muddy.",
    "",
    "Unbelievably, electroencephalography isn't easy; ångström 👍🏽!",
    "東京タワー",
]


@pytest.mark.parametrize("combine", ["concat", "mean", "sum"])
@pytest.mark.parametrize("layers", ["-4..-1", "0", "1,6", "-7..-6"])
def test_layers_are_those_of_transformers(
    small: Path, reference: Reference, combine: str, layers: str
) -> None:
    ended = run(
        "embed", small, f"--layers={layers}", "--combine", combine, stdin="\n".join(TEXTS).encode()
    )
    assert ended.code == 0, ended.err
    ours = from_lines(ended.out)
    chosen = {"-4..-1": [-4, -3, -2, -1], "0": [0], "1,6": [1, 6], "-7..-6": [0, 1]}[layers]
    for text, vector in zip(TEXTS, ours, strict=True):
        states = [reference.states(reference.tokenizer.encode(text).ids)[i].mean(0) for i in chosen]
        whole = torch.cat(states) if combine == "concat" else torch.stack(states).sum(0)
        theirs = torch.nn.functional.normalize(
            whole / (len(chosen) if combine == "mean" else 1), dim=0
        ).numpy()
        assert vector.shape == theirs.shape
        assert np.abs(vector - theirs).max() <= TOLERANCE


@pytest.mark.parametrize("layers", ["7", "-8", "x", "2..1", "-1..1", "", "1.5", "99999"])
def test_layers_that_are_not_there_are_refused(small: Path, layers: str) -> None:
    ended = run("embed", small, f"--layers={layers}", stdin=b"x\n")
    assert (ended.code, ended.out) == (2, "")
    assert re.fullmatch(r"firth: [^\n]*layers[^\n]*\n", ended.err)


@pytest.mark.parametrize("pool", ["cls", "max"])
def test_poolings_are_those_of_transformers(small: Path, reference: Reference, pool: str) -> None:
    ours = from_lines(run("embed", small, "--pool", pool, stdin="\n".join(TEXTS).encode()).out)
    for text, vector in zip(TEXTS, ours, strict=True):
        last = reference.states(reference.tokenizer.encode(text).ids)[-1]
        theirs = torch.nn.functional.normalize(
            last[0] if pool == "cls" else last.amax(0), dim=0
        ).numpy()
        assert np.abs(vector - theirs).max() <= TOLERANCE


def spans(small: Path, *options: str, texts: list[str]) -> list[list[dict[str, Any]]]:
    ended = run(
        "embed", small, *options, stdin="".join(text + "\n" for text in texts).encode("utf-8")
    )
    assert ended.code == 0, ended.err
    rows = [json.loads(line) for line in ended.out.split("\n") if line]
    assert [row["text"] for row in rows] == texts
    return [row["spans"] for row in rows]


def test_pieces_have_the_vectors_and_places_of_transformers(
    small: Path, reference: Reference
) -> None:
    for text, found in zip(TEXTS, spans(small, "--pool", "none", texts=TEXTS), strict=True):
        encoding = reference.tokenizer.encode(text)
        last = reference.states(encoding.ids)[-1].numpy()
        assert [(span["start"], span["end"]) for span in found] == encoding.offsets[1:-1]
        for span, vector in zip(found, last[1:-1], strict=True):
            assert np.abs(np.array(span["vector"], np.float32) - vector).max() <= TOLERANCE * max(
                1.0, float(np.abs(last).max())
            )


def test_words_are_means_of_their_pieces(small: Path, reference: Reference) -> None:
    for text, found in zip(TEXTS, spans(small, "--pool", "words", texts=TEXTS), strict=True):
        encoding = reference.tokenizer.encode(text)
        last = reference.states(encoding.ids)[-1].numpy()
        words = sorted({word for word in encoding.word_ids if word is not None})
        assert len(found) == len(words)
        for span, word in zip(found, words, strict=True):
            pieces = [i for i, owner in enumerate(encoding.word_ids) if owner == word]
            assert (span["start"], span["end"]) == (
                encoding.offsets[pieces[0]][0],
                encoding.offsets[pieces[-1]][1],
            )
            assert np.abs(
                np.array(span["vector"], np.float32) - last[pieces].mean(0)
            ).max() <= TOLERANCE * max(1.0, float(np.abs(last).max()))


def test_words_are_found_where_they_stand(small: Path) -> None:
    text = "  The bank, un­believably:  l'été  at 3.14 — ok?"
    found = spans(small, "--pool", "words", texts=[text])[0]
    covered = [text[span["start"] : span["end"]] for span in found]
    assert covered == [span["text"] for span in found]
    assert covered == [
        "The",
        "bank",
        ",",
        "un­believably",
        ":",
        "l",
        "'",
        "été",
        "at",
        "3",
        ".",
        "14",
        "—",
        "ok",
        "?",
    ]


@pytest.mark.parametrize("pool", ["words", "none"])
@pytest.mark.parametrize("long", ["cut", "slide"])
def test_places_are_inside_the_text_in_order_and_cover_it(
    small: Path, pool: str, long: str
) -> None:
    texts = [text for text in SPECIAL if "\r" not in text]
    for text, found in zip(
        texts, spans(small, "--pool", pool, "--long", long, texts=texts), strict=True
    ):
        before = (0, 0)
        for span in found:
            assert 0 <= span["start"] < span["end"] <= len(text)
            assert span["text"] == text[span["start"] : span["end"]]
            # Words stand one after another; pieces may share a character, as the letters of a Korean syllable do.
            assert (
                span["start"] >= before[1]
                if pool == "words"
                else (span["start"] >= before[0] and span["end"] >= before[1])
            )
            before = (span["start"], span["end"])
        rest = list(text)
        for span in found:
            rest[span["start"] : span["end"]] = [" "] * (span["end"] - span["start"])
        if len(text) < 200 or long == "slide":
            assert not re.search(r"[^\W_]", "".join(rest)), "a letter or digit belongs to no word"


# Long texts


def test_a_long_text_slides_or_stops(small: Path, reference: Reference) -> None:
    draw = random.Random(1)
    words = " ".join(
        draw.choices(
            "the river bank was muddy and its rates rose again unbelievably".split(), k=1000
        )
    )
    given = f"short\n{words}\n".encode()
    cut, slid, stopped = (
        run("embed", small, "--long", how, stdin=given) for how in ("cut", "slide", "error")
    )
    assert (cut.code, slid.code, stopped.code) == (0, 0, 2)
    ids = reference.tokenizer.encode(words).ids
    assert (
        f"note: 1 of 2 texts were longer than the model reads and were cut: {len(ids) - 256:,} tokens "
        in cut.err
    )
    assert slid.err == ""
    assert (stopped.out, stopped.err.count("\n")) == ("", 1)
    assert stopped.err.startswith("firth: ")
    assert f"text 2: a text has {len(ids)} tokens where the model takes 256" in stopped.err
    assert "--long slide" in stopped.err
    # Windows of 256 tokens with both ends, sharing a quarter of their room; each weighs as many tokens as it has.
    body, room = ids[1:-1], 254
    pieces = [body[at : at + room] for at in range(0, len(body) - room // 4, room - room // 4)]
    rows = [reference.states([ids[0], *piece, ids[-1]])[-1] for piece in pieces]
    theirs = torch.nn.functional.normalize(torch.cat(rows).mean(0), dim=0).numpy()
    assert len(rows) > 5
    assert np.abs(from_lines(slid.out)[1] - theirs).max() <= TOLERANCE
    theirs = torch.nn.functional.normalize(rows[0].mean(0), dim=0).numpy()
    assert np.abs(from_lines(cut.out)[1] - theirs).max() <= TOLERANCE
    assert from_lines(cut.out)[0].tobytes() == from_lines(slid.out)[0].tobytes()


# What is on the disk and on the screen


def test_an_output_that_exists_is_kept_unless_told(
    small: Path, short: Path, tmp_path: Path
) -> None:
    for ending in ("npy", "jsonl", "parquet"):
        out = tmp_path / f"kept.{ending}"
        out.write_bytes(b"mine")
        before = listing(tmp_path)
        ended = run("embed", small, short, "-o", out)
        assert (ended.code, ended.out) == (2, "")
        assert re.fullmatch(rf"firth: [^\n]*kept.{ending} exists[^\n]*--force[^\n]*\n", ended.err)
        assert listing(tmp_path) == before
        assert run("embed", small, short, "-o", out, "--force").code == 0
        assert out.read_bytes() != b"mine"


def test_progress_is_plain_lines_away_from_a_terminal(
    small: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = run("embed", small, short)
    assert ended.err == ""  # too short a run for a word on how far it is
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    talking = run("embed", small, short)
    assert talking.out == ended.out
    assert talking.err
    for line in talking.err.splitlines():
        assert re.fullmatch(r"embedding: [\d,]+ of 4 texts, [\d,]+/s, [\d,]+ s left", line), line


def test_order_holds_over_the_pieces_of_a_large_file(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("firth.tasks.task.Task.at_once", 7)
    assert EXAMPLES_AT_ONCE > 7
    draw = random.Random(seed)
    lines = [
        " ".join(draw.choices(["river", "bank", "money", "rates", "mud"], k=draw.randrange(12)))
        for _ in range(60)
    ]
    source = write(tmp_path / "a.txt", lines)
    ended = run("embed", small, source)
    rows = [json.loads(line) for line in ended.out.split("\n") if line]
    assert [row["text"] for row in rows] == lines
    alone = {
        line: from_lines(run("embed", small, stdin=f"{line}\n".encode()).out)[0]
        for line in lines[:5]
    }
    for line, vector in alone.items():
        assert (
            np.abs(np.array(rows[lines.index(line)]["vector"], np.float32) - vector).max() <= 1e-6
        )
