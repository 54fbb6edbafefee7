"""`firth predict` fills blanks with the pieces and probabilities that transformers computes on the same weights."""

import json
import random
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.journey.command import listing, run, spawn

WORDS = "the a cat dog sat ran on under mat river bank muddy money rates rose and was very big small red house".split()
PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    ".",
    ",",
    "?",
    *WORDS,
    *"abcdefghijklmnopqrstuvwxyz",
    *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz"),
]
LENGTH = 48
TOLERANCE = 1e-5


pytestmark = pytest.mark.usefixtures("one_thread")


class Oracle:
    """The same folder in transformers, one text at a time."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from transformers import AutoConfig, AutoModelForMaskedLM, AutoModelForPreTraining

            kind = AutoConfig.from_pretrained(folder).architectures[0]
            make = AutoModelForPreTraining if kind == "BertForPreTraining" else AutoModelForMaskedLM
            self.model = make.from_pretrained(folder, attn_implementation="eager").eval()
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    @torch.no_grad()
    def ranked(self, ids: list[int], place: int, top: int) -> list[tuple[str, float]]:
        """The best pieces at one token."""
        given = torch.tensor([ids])
        out = self.model(input_ids=given, attention_mask=torch.ones_like(given))
        logits = out.logits if "logits" in out else out.prediction_logits
        best = logits[0, place].softmax(-1).topk(top)
        return [
            (self.tokenizer.id_to_token(int(i)), float(p))
            for p, i in zip(best.values, best.indices, strict=True)
        ]

    def blanks(self, text: str, top: int = 5) -> list[list[tuple[str, float]]]:
        """The best pieces at every [MASK] of a text that fits."""
        ids = self.tokenizer.encode(text).ids
        return [
            self.ranked(ids, at, top)
            for at, token in enumerate(ids)
            if token == PIECES.index("[MASK]")
        ]


def make(folder: Path, kind: str, train: list[str] | None = None, **options: Any) -> Path:
    """A small BERT with random weights and a word piece vocabulary, saved by transformers; `train` teaches it a sentence."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(
        models.WordPiece({piece: i for i, piece in enumerate(PIECES)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.add_special_tokens(PIECES[:5])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers

        torch.manual_seed(1)
        config = transformers.BertConfig(
            vocab_size=len(PIECES),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_position_embeddings=LENGTH,
            initializer_range=0.1 if train else 0.4,
            **options,
        )
        model = getattr(transformers, kind)(config)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if name.endswith("bias"):
                    weight.normal_(0, 0.5)  # biases that are zero would hide a bias that is lost
        if train:
            teach(model, [tokenizer.encode(text).ids for text in train])
        model.save_pretrained(folder)
        names = {
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "mask_token": "[MASK]",
        }
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, model_max_length=LENGTH, **names
        ).save_pretrained(folder)
    return folder


def teach(model: Any, rows: list[list[int]]) -> None:
    """MaskedObjective each word of each row in turn until the model knows them all."""
    inputs, labels = [], []
    for row in rows:
        for place in range(1, len(row) - 1):
            inputs.append([*row[:place], PIECES.index("[MASK]"), *row[place + 1 :]])
            labels.append([-100] * place + [row[place]] + [-100] * (len(row) - place - 1))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    model.train()
    model.config.hidden_dropout_prob = 0.0
    for _ in range(60):
        optimizer.zero_grad()
        model(input_ids=torch.tensor(inputs), labels=torch.tensor(labels)).loss.backward()
        optimizer.step()
    model.eval()


KINDS = {
    "masked": ("BertForMaskedLM", {}),
    "pretraining": ("BertForPreTraining", {}),
    "untied": ("BertForMaskedLM", {"tie_word_embeddings": False}),
    "relu": ("BertForMaskedLM", {"hidden_act": "relu", "layer_norm_eps": 1e-5}),
}


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind, options = KINDS[request.param]
    return make(tmp_path_factory.mktemp(request.param) / "model", kind, **options)


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("masked") / "model", "BertForMaskedLM")


def answers(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]


def same(blank: dict[str, Any], expected: list[tuple[str, float]]) -> None:
    """The same pieces in the same order with the same probabilities."""
    assert [choice["piece"] for choice in blank["choices"]] == [piece for piece, _ in expected]
    for choice, (_, probability) in zip(blank["choices"], expected, strict=True):
        assert abs(choice["probability"] - probability) <= TOLERANCE


TEXTS = [
    "The [MASK] sat on the mat.",
    "[MASK]",
    "the river [MASK] was [MASK] , and the [MASK] bank rose[MASK]",
    "[MASK][MASK] Zyx ångström 👍 [MASK] ?",
    " the  big\t[MASK] ",
]


def test_blanks_are_filled_as_transformers_does(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "texts.txt"
    source.write_text("".join(text + "\n" for text in TEXTS), encoding="utf-8")
    ended = run("predict", folder, source, "--json", "--top", 7)
    assert (ended.code, ended.err) == (0, ""), ended.err
    found, oracle = answers(ended.out), Oracle(folder)
    assert [answer["text"] for answer in found] == TEXTS
    for answer in found:
        expected = oracle.blanks(answer["text"], 7)
        assert [answer["text"][blank["start"] : blank["end"]] for blank in answer["blanks"]] == [
            "[MASK]"
        ] * len(expected)
        for blank, best in zip(answer["blanks"], expected, strict=True):
            same(blank, best)
    probabilities = [c["probability"] for a in found for b in a["blanks"] for c in b["choices"]]
    assert max(probabilities) > 0.1  # weights with a spread: the ranking is not by chance


def test_what_was_taught_is_known(tmp_path: Path) -> None:
    taught = make(
        tmp_path / "model",
        "BertForMaskedLM",
        train=["the cat sat on the mat .", "the dog ran under the house ."],
    )
    ended = run("predict", taught, "The cat sat on the [MASK].", "--json", "--top", 3)
    best = answers(ended.out)[0]["blanks"][0]["choices"][0]
    assert best["piece"] == "mat"
    assert best["probability"] > 0.8
    same(
        answers(ended.out)[0]["blanks"][0],
        Oracle(taught).blanks("The cat sat on the [MASK].", 3)[0],
    )
    table = run("predict", taught, "the dog ran under the [MASK] .")
    assert table.code == 0
    assert re.search(r"^\s+\d+\.\d\d%  house$", table.out.split("\n")[2]), table.out


def test_all_pieces_sum_to_one(masked: Path) -> None:
    ended = run("predict", masked, "a [MASK] .", "--json", "--top", 1000)
    choices = answers(ended.out)[0]["blanks"][0]["choices"]
    assert len(choices) == len(PIECES)
    assert abs(sum(choice["probability"] for choice in choices) - 1) < 1e-5
    assert [choice["probability"] for choice in choices] == sorted(
        (choice["probability"] for choice in choices), reverse=True
    )


def test_every_way_in_and_out_gives_the_same_answers(masked: Path, tmp_path: Path) -> None:
    text = "the [MASK] sat on the [MASK] ."
    direct = run("predict", masked, text, "--json")
    assert direct.code == 0, direct.err
    (tmp_path / "a.txt").write_text(text + "\n")
    (tmp_path / "a.jsonl").write_text(json.dumps({"said": text}) + "\n")
    ways = [
        run("predict", masked, tmp_path / "a.txt", "--json"),
        run("predict", masked, tmp_path / "a.jsonl", "--text", "said", "--json"),
        run("predict", masked, "-", "--json", stdin=text.encode()),
        run("predict", masked, "--json", stdin=text.encode() + b"\n"),
        spawn("predict", masked, text, "--json"),
    ]
    for ended in ways:
        assert (ended.code, ended.err) == (0, "")
        assert [b["choices"][0]["piece"] for b in answers(ended.out)[0]["blanks"]] == [
            b["choices"][0]["piece"] for b in answers(direct.out)[0]["blanks"]
        ]
    assert all(ended.out == direct.out for ended in ways[:4])
    saved = run("predict", masked, text, "-o", tmp_path / "out.jsonl")
    assert saved == (0, "", "")
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == direct.out
    before = listing(tmp_path)
    again = run("predict", masked, text, "-o", tmp_path / "out.jsonl")
    assert again.code == 2
    assert "--force" in again.err
    assert listing(tmp_path) == before
    other = run("predict", masked, text, "-o", tmp_path / "out.xlsx")
    assert other.code == 2
    assert ".jsonl" in other.err
    assert run("predict", masked, text, "-o", tmp_path / "out.jsonl", "--force").code == 0


def test_a_long_text_is_filled_from_end_to_end(masked: Path, seed: int) -> None:
    draw = random.Random(seed)
    words = draw.choices(WORDS, k=200)
    for place in (0, 50, 99, 120, 199):
        words[place] = "[MASK]"
    text = " ".join(words)
    assert len(text) > 255  # longer than a file's name may be
    slid = run("predict", masked, text, "--json", "--long", "slide")
    assert (slid.code, slid.err) == (0, ""), slid.err
    found = answers(slid.out)[0]["blanks"]
    assert [text[blank["start"] : blank["end"]] for blank in found] == ["[MASK]"] * 5
    oracle = Oracle(masked)
    body, room = oracle.tokenizer.encode(text).ids[1:-1], LENGTH - 2
    starts = range(0, len(body) - room // 4, room - room // 4)
    assert len(starts) > 4
    places = [at for at, token in enumerate(body) if token == PIECES.index("[MASK]")]
    for blank, at in zip(found, places, strict=True):
        rows = [
            (start, body[start : start + room]) for start in starts if start <= at < start + room
        ]
        edges = [min(at - start, start + len(row) - 1 - at) for start, row in rows]
        choices = [
            oracle.ranked([2, *row, 3], at - start + 1, 5)
            for (start, row), edge in zip(rows, edges, strict=True)
            if edge == max(edges)
        ]
        pieces = [[piece for piece, _ in best] for best in choices]
        same(blank, choices[pieces.index([choice["piece"] for choice in blank["choices"]])])
    cut = run("predict", masked, text, "--json")
    assert cut.code == 0
    assert "note: 1 of 1 texts were longer" in cut.err
    assert [bool(blank["choices"]) for blank in answers(cut.out)[0]["blanks"]] == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert "cut off before this blank" in run("predict", masked, text).out
    stopped = run("predict", masked, text, "--json", "--long", "error")
    assert (stopped.code, stopped.out) == (2, "")
    assert "--long slide" in stopped.err


@pytest.mark.parametrize(
    "text", ["the cat sat on the mat .", "a [mask] in small letters", "x MASK y"]
)
def test_a_text_without_a_blank_is_refused(masked: Path, text: str) -> None:
    ended = run("predict", masked, text)
    assert (ended.code, ended.out) == (2, "")
    assert re.fullmatch(r"firth: [^\n]*\[MASK\][^\n]*\n", ended.err)
    assert text in ended.err


def test_a_file_with_a_line_without_a_blank_writes_nothing(masked: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the [MASK] .\nnothing to fill\n")
    before = listing(tmp_path)
    ended = run("predict", masked, tmp_path / "a.txt", "-o", tmp_path / "out.jsonl")
    assert ended.code == 2
    assert "nothing to fill" in ended.err
    assert listing(tmp_path) == before


@pytest.mark.parametrize("kind", ["BertModel", "BertLMHeadModel"])
def test_a_model_without_the_head_is_refused(kind: str, tmp_path: Path) -> None:
    bare = make(tmp_path / "model", kind)
    ended = run("predict", bare, "the [MASK] .")
    assert (ended.code, ended.out) == (2, "")
    assert re.fullmatch(r"firth: [^\n]*head[^\n]*\n", ended.err)
    assert run("predict", "minilm", "the [MASK] .").code == 2


def test_a_word_that_is_neither_text_nor_file_is_a_missing_file(masked: Path) -> None:
    ended = run("predict", masked, "absent.txt")
    assert (ended.code, ended.out) == (2, "")
    assert "absent.txt" in ended.err
    assert "a text of one word goes in on standard input" in run("predict", masked, "Terrible!").err
