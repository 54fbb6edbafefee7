"""The tokenizer: files, roles, offsets, round trips, and texts cut where that changes nothing."""

import json
import random
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Backend

from firth.base.errors import InputError, Stopped
from firth.text import cuts, tokenizer
from firth.text.repair import repair
from firth.text.tokenizer import Encoding, Tokenizer
from tests.conftest import count

SWEDISH = "åäö ÅÄÖ ſ é"
PROSE = [
    "The river bank was green, and the bank by the river was closed.",
    "Åsa åt ägg på ön; \u00e9n caf\u00e9 \u00e4r inte tv\u00e5.",
    "J. R. Firth wrote in 1957 that you shall know a word by the company it keeps!",
    "東京 is 東 and 京, 서울 is one word.",
    SWEDISH,
] * 20
KINDS = ("wordpiece", "bytes", "words")
ODD = [
    *(
        "a",
        "word ",
        "  ",
        "\n",
        "\x00",
        "\u200b",
        "\u00a0",
        "\u3000",
        "x" * 40,
        "x" * 9000,
        "12",
        "'s",
        "!",
        "--",
        "<",
        "=",
    ),
    *(
        "[MASK]",
        "[SEP",
        "]",
        "<mask>",
        "</s>",
        "\u0301",
        "e\u0301",
        "\u0338",
        "\u1112\u1161\u11ab",
        "한",
        "中",
        "文",
        "。",
    ),
    *("😀", "İ", "ß", "é"),
]


@pytest.fixture(scope="module")
def learned() -> dict[str, Tokenizer]:
    return {kind: Tokenizer.train(PROSE, kind=kind, size=400) for kind in KINDS}


def spans(encoding: Encoding, part: int = 0) -> list[tuple[int, int]]:
    return [
        span for span, owner in zip(encoding.offsets, encoding.parts, strict=True) if owner == part
    ]


def test_a_pair_has_segments_parts_and_words(learned: dict[str, Tokenizer]) -> None:
    words = learned["wordpiece"]
    (found,) = words.encode(["the river bank"], ["the word!"])
    assert [words.piece(n) for n in found.ids] == [
        "[CLS]",
        "the",
        "river",
        "bank",
        "[SEP]",
        "the",
        "word",
        "!",
        "[SEP]",
    ]
    assert found.segments == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert found.parts == [None, 0, 0, 0, None, 1, 1, 1, None]
    assert found.words == [None, 0, 1, 2, None, 0, 1, 2, None]
    assert found.offsets == [
        (0, 0),
        (0, 3),
        (4, 9),
        (10, 14),
        (0, 0),
        (0, 3),
        (4, 8),
        (8, 9),
        (0, 0),
    ]
    assert len(found) == 9
    (bare,) = words.encode(["the river bank"], special=False)
    assert bare.ids == found.ids[1:4]


@pytest.mark.parametrize("kind", KINDS)
def test_empty_texts_and_no_texts(learned: dict[str, Tokenizer], kind: str) -> None:
    words = learned[kind]
    assert words.encode([]) == []
    assert words.encode([""])[0].ids == [words.cls, words.sep]
    assert words.encode([""], [""])[0].ids == [words.cls, words.sep, words.sep]


def test_wrong_calls_are_refused(learned: dict[str, Tokenizer]) -> None:
    words = learned["wordpiece"]
    for call in (
        lambda: words.encode("one text"),
        lambda: words.encode(["a", None]),
        lambda: words.encode(["a"], ["b", "c"]),
    ):
        with pytest.raises(InputError):
            call()
    with pytest.raises(InputError):
        words.decode([-1])


def test_lone_surrogates_are_replaced_one_for_one(learned: dict[str, Tokenizer]) -> None:
    assert repair("a\ud800\udc00b") == ("a\ufffd\ufffdb", 2)
    assert repair("plain é 😀") == ("plain é 😀", 0)
    for words in learned.values():
        broken, whole = words.encode(["bank \ud800 river", "bank \ufffd river"])
        assert broken == whole
        assert spans(broken)[-1][1] == len("bank \ud800 river")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_accents_survive_the_file_the_vocabulary_and_the_offsets(
    tmp_path: Path, encoding: str, form: str
) -> None:
    text = (
        SWEDISH.replace("ſ ", "") if encoding == "latin-1" else unicodedata.normalize(form, SWEDISH)
    )
    (tmp_path / "text").write_bytes(text.encode(encoding))
    read = (tmp_path / "text").read_text(encoding)
    for case, expected in (
        ("keep", unicodedata.normalize("NFC", text)),
        ("lower", unicodedata.normalize("NFC", text.lower())),
    ):
        words = Tokenizer.train([read] * 9, case=case)
        words.save(tmp_path / case)
        words = Tokenizer.open(tmp_path / case)
        (found,) = words.encode([read])
        assert words.unk not in found.ids
        assert words.decode(found.ids) == expected
        assert "".join(read[first:last] for first, last in spans(found)) == read.replace(" ", "")


def test_a_request_to_stop_is_no_fault_of_the_vocabulary() -> None:
    def texts() -> Iterator[str]:
        yield from PROSE
        raise Stopped("stopped as asked")

    with pytest.raises(Stopped, match="stopped as asked"):
        Tokenizer.train(texts())


def test_accents_go_only_when_asked() -> None:
    stripped = Tokenizer.train(PROSE, size=400, accents="strip")
    assert stripped.decode(stripped.encode([SWEDISH])[0].ids) == "aao aao ſ e"
    words = Tokenizer.train(PROSE, kind="words", size=400, accents="strip")
    assert words.decode(words.encode([SWEDISH])[0].ids) == "aao aao ſ e"


@settings(max_examples=count(2000))
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
@example("e\u0301")
@example("\u1112\u1161\u11ab e")
@example("xe\u0301\u0327 t")
@example("\u00d9\u08ed")
def test_each_piece_lies_on_the_text_that_it_came_from(text: str) -> None:
    words = (
        Tokenizer.train([text, "plain words"], case="keep")
        if text.strip()
        else Tokenizer.train(PROSE)
    )
    for form in ("NFC", "NFD"):
        given_text = unicodedata.normalize(form, text)
        (found,) = words.encode([given_text])
        covered = spans(found)
        assert all(0 <= first <= last <= len(given_text) for first, last in covered)
        assert all(a[0] <= b[0] and a[1] <= b[1] for a, b in pairwise(covered))
        for first, last, numbers in letters(found, given_text):
            if words.unk not in numbers:
                origin = words.encode([given_text[first:last]], special=False)[0].ids
                assert spelled(words, origin) == spelled(words, numbers)


def letters(found: Encoding, text: str) -> list[tuple[int, int, list[int]]]:
    """Each piece with its place; one that begins with an accent goes with the letter before it, where it may have jumped a queue.

    A grave written after a mark that stands below the letter is composed with the letter first, so that the letter's piece comes
    from two places with the mark's between them.
    """
    whole: list[tuple[int, int, list[int]]] = []
    for number, part, (first, last) in zip(found.ids, found.parts, found.offsets, strict=True):
        if part == 0:
            accent = bool(whole) and first < len(text) and unicodedata.combining(text[first]) > 0
            begin, _, before = whole.pop() if accent else (first, last, [])
            whole.append((begin, last, [*before, number]))
    return whole


def spelled(words: Tokenizer, numbers: list[int]) -> str:
    return "".join(words.piece(number).removeprefix("##") for number in numbers)


@settings(max_examples=count(2000))
@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("<s> a</s><mask> <unk>")
@example(" \u00a0\t e\u0301 \x00\x85")
def test_bytes_are_lossless(text: str) -> None:
    words = BYTES
    (found,) = words.encode([text], special=False)
    assert words.decode(found.ids, special=True) == text
    assert all(0 <= first <= last <= len(text) for first, last in found.offsets)


BYTES = Tokenizer.train(PROSE, kind="bytes", size=400)


def test_the_space_before_a_word_is_not_its_place() -> None:
    # GPT-2's published tokenizer does not trim the places of its pieces.
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        PROSE, trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, show_progress=False)
    )
    words = Tokenizer(backend, "bytes", {})
    text = "the river  bank\n\tby 東京 ☃ "
    (first,) = words.encode([text], ["a river bank"])
    assert spans(first, 1) == [(0, 1), (2, 7), (8, 12)]
    pieces = {text[start:end] for start, end in spans(first)}
    assert {"river", " ", "bank", "東"} <= pieces
    assert all(piece.strip() == piece or piece.isspace() for piece in pieces)
    for sign in (
        "東",
        "☃",
    ):  # a space and the first bytes of a sign may be pieces of their own: the word begins at the sign
        at = text.index(sign)
        number = next(
            word
            for word, place in zip(first.words, first.offsets, strict=True)
            if place == (at, at + 1)
        )
        assert first.offsets[first.words.index(number)][0] == at
    long = text * 4000
    (whole,) = words.encode([long])
    pieces = {long[start:end] for start, end in spans(whole)}
    assert all(piece.strip() == piece or piece.isspace() for piece in pieces)


def test_bytes_change_nothing_on_request_either() -> None:
    for wrong in ({"case": "lower"}, {"accents": "strip"}):
        with pytest.raises(InputError, match="keeps every text as it is"):
            Tokenizer.train(PROSE, kind="bytes", **wrong)


def test_words_are_what_white_space_parts(learned: dict[str, Tokenizer]) -> None:
    words = Tokenizer.train(["a b b <unk> c\tc c"], kind="words", size=8)
    assert [words.piece(n) for n in range(words.size)] == [
        "<pad>",
        "<unk>",
        "<s>",
        "</s>",
        "<mask>",
        "c",
        "b",
        "a",
    ]
    (found,) = words.encode(["b unseen <unk> a."])
    assert [words.piece(n) for n in found.ids] == ["<s>", "b", "<unk>", "<unk>", "<unk>", "</s>"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_gives_the_same_vocabulary_in_another_process(kind: str) -> None:
    program = (
        "import sys, json; from firth.text.tokenizer import Tokenizer;"
        "words = Tokenizer.train(json.load(sys.stdin), kind=sys.argv[1], size=400);"
        "print(json.dumps([words.piece(n) for n in range(words.size)]))"
    )
    # Many words seen equally often: what breaks a tie must not be chance.
    draw = random.Random(7)
    texts = [
        " ".join("".join(draw.choices("abcdefghijklmnopåäöéü", k=5)) for _ in range(20))
        for _ in range(50)
    ] * 2
    run = [sys.executable, "-c", program, kind]
    found = {
        subprocess.run(
            run, input=json.dumps(texts), text=True, capture_output=True, check=True
        ).stdout
        for _ in range(3)
    }
    assert len(found) == 1
    assert len(json.loads(found.pop())) == 400


def test_a_vocabulary_that_can_not_be_learned_says_why() -> None:
    for wrong in ({"size": 10}, {"kind": "letters"}, {"case": "upper"}):
        with pytest.raises(InputError):
            Tokenizer.train(PROSE, **wrong)
    for kind in KINDS:
        with pytest.raises(InputError, match="no text"):
            Tokenizer.train(["", " \n"], kind=kind)

    def broken():
        yield "fine"
        raise InputError("corpus.txt:2 is damaged")

    with pytest.raises(InputError, match=r"^corpus\.txt:2 is damaged$"):
        Tokenizer.train(broken())


def test_one_endless_word_does_not_stall_the_learning() -> None:
    endless = "".join(random.Random(3).choices("acgt", k=300_000))
    words = Tokenizer.train([endless, *PROSE], size=300)
    assert words.unk in words.encode([endless])[0].ids
    assert words.id("the") is not None


def test_the_size_is_kept_and_rare_characters_are_left_out() -> None:
    common = "the quick brown fox jumps over the lazy dog " * 5000
    words = Tokenizer.train([common, "ꙮ"], size=100)
    assert words.size <= 100
    assert words.id("ꙮ") is None
    assert words.id("fox") is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_comes_back(
    tmp_path: Path, learned: dict[str, Tokenizer], kind: str
) -> None:
    learned[kind].save(tmp_path, 77)
    back = Tokenizer.open(tmp_path)
    texts = [*PROSE[:5], unicodedata.normalize("NFD", SWEDISH), "", "[MASK] <mask>"]
    assert back.encode(texts) == learned[kind].encode(texts)
    for name in ("kind", "size", "cls", "sep", "mask", "unk", "pad"):
        assert getattr(back, name) == getattr(learned[kind], name)
    assert back.length == 77
    assert (tmp_path / "vocab.txt").exists() == (kind == "wordpiece")
    assert (
        json.loads((tmp_path / "tokenizer_config.json").read_text())["tokenizer_class"]
        == "TokenizersBackend"
    )


def test_a_vocabulary_alone_obeys_its_configuration(tmp_path: Path) -> None:
    pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "cafe",
        "café",
        "Café",
        "中",
        "文",
        "中文",
    ]
    (tmp_path / "vocab.txt").write_text("\r\n".join(pieces) + "\n", encoding="utf-8")

    def read(text: str) -> list[str]:
        words = Tokenizer.open(tmp_path)
        return [words.piece(n) for n in words.encode([text])[0].ids]

    assert read("Café 中文") == ["[CLS]", "cafe", "中", "文", "[SEP]"]
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"do_lower_case": false, "tokenize_chinese_chars": false}')
    assert read("Café 中文") == ["[CLS]", "Café", "中文", "[SEP]"]
    config.write_text('{"do_lower_case": true, "strip_accents": false}')
    assert read("Café") == ["[CLS]", "café", "[SEP]"]
    config.write_text('{"do_lower_case": "yes"}')
    with pytest.raises(InputError, match=r"tokenizer_config\.json.*do_lower_case"):
        read("Café")


def test_a_stale_map_of_special_tokens_does_not_win(tmp_path: Path) -> None:
    """Newer releases of transformers write the names to tokenizer_config.json alone and leave an old map where it is."""
    backend = Backend(
        models.WordLevel({"[UNK]": 0, "[OLD]": 1, "[NEW]": 2, "word": 3}, unk_token="[UNK]")
    )
    backend.add_special_tokens(["[OLD]", "[NEW]"])
    backend.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "special_tokens_map.json").write_text(
        '{"mask_token": "[OLD]", "pad_token": "[OLD]"}'
    )
    assert Tokenizer.open(tmp_path).mask == 1

    (tmp_path / "tokenizer_config.json").write_text('{"mask_token": {"content": "[NEW]"}}')
    words = Tokenizer.open(tmp_path)
    assert (words.mask, words.pad) == (
        2,
        1,
    )  # what the newer file doesn't name is read from the older


def test_roles_of_other_conventions(tmp_path: Path) -> None:
    backend = Backend(models.Unigram())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=200, special_tokens=names, unk_token="<unk>", show_progress=False
    )
    backend.train_from_iterator(PROSE, trainer)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    backend.enable_padding(length=50)
    backend.enable_truncation(4)
    backend.save(str(tmp_path / "tokenizer.json"))
    words = Tokenizer.open(tmp_path)
    assert (words.kind, words.cls, words.pad, words.sep, words.unk, words.mask) == (
        "unigram",
        0,
        1,
        2,
        3,
        4,
    )
    (found,) = words.encode(["the river bank was green"])
    assert 7 <= len(found) < 50  # neither cut at 4 nor padded to 50
    assert words.pad not in found.ids


def test_dropout_in_the_file_does_not_make_the_result_a_matter_of_luck(tmp_path: Path) -> None:
    BYTES.save(tmp_path)
    page = json.loads((tmp_path / "tokenizer.json").read_text())
    page["model"]["dropout"] = 0.5
    (tmp_path / "tokenizer.json").write_text(json.dumps(page))
    assert Tokenizer.open(tmp_path).encode(PROSE) == BYTES.encode(PROSE)


def other_backends() -> dict[str, Backend]:
    """Tokenizers with added tokens of every manner."""
    made = {}
    for name, options in (
        ("left", {"lstrip": True}),
        ("word", {"single_word": True}),
        ("right", {"rstrip": True}),
        ("normal", {}),
    ):
        backend = Backend.from_str(Tokenizer.train(PROSE, size=400)._backend.to_str())
        backend.add_tokens(
            [AddedToken("<x>", normalized=name == "normal", **options), AddedToken("!!", **options)]
        )
        made[name] = backend
    spaced = Backend.from_str(BYTES._backend.to_str())
    spaced.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    made["prefix"] = spaced
    kept = Backend.from_str(Tokenizer.train(PROSE, size=400)._backend.to_str())
    kept.normalizer = normalizers.Replace(" a", "b c")
    made["replace"] = kept
    return made


def test_a_text_cut_in_pieces_encodes_as_the_whole(
    learned: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    others = {name: Tokenizer(backend, name, {}) for name, backend in other_backends().items()}
    cut = 0
    for name, words in (learned | others).items():
        for _ in range(count(3000) // 5):
            text, second = (
                "".join(draw.choices([*ODD, "<x>", "!!"], k=draw.randint(0, most)))
                for most in (60, 10)
            )
            monkeypatch.setattr(tokenizer, "LONG", 10**9)
            whole = words.encode([text], [second]), words.encode([text], special=False)
            monkeypatch.setattr(tokenizer, "LONG", 10)
            monkeypatch.setattr(cuts, "CHUNK", draw.choice([2, 5, 50]))
            assert (words.encode([text], [second]), words.encode([text], special=False)) == whole, (
                name,
                text,
            )
            cut += words._cutter is not None and len(list(words._cutter.chunks(text))) > 1
    assert cut > 100  # the comparison is not of whole texts with themselves
    assert learned["wordpiece"]._cutter
    assert others["replace"]._cutter is None


def test_heaps_of_accents_and_endless_words_encode_as_they_would_whole(
    learned: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    shortened = 0
    stripping = Tokenizer.train(PROSE, size=400, case="lower", accents="strip")
    for words in (stripping, *learned.values()):
        for _ in range(count(6000) // 10):
            parts = []
            for _ in range(draw.randint(1, 6)):
                signs = draw.choice(
                    ["\u0301", "\u0316\u0334\u0301\u0344", "a", "acgt", "\u0301\u0903", " "]
                )
                parts.append("".join(draw.choices(signs, k=draw.choice([1, 3, 5000, 9000]))))
            text = draw.choice(["", "river"]).join(parts)
            monkeypatch.setattr(tokenizer, "LONG", 10**9)
            whole = words.encode([text])
            monkeypatch.setattr(tokenizer, "LONG", 1000)
            assert words.encode([text]) == whole, (words.kind, ascii(text))
            shortened += words._cutter is not None and any(
                chunk.joints for chunk in words._cutter.chunks(text)
            )
    assert shortened > 20
    assert stripping._cutter
    assert [len(chunk.text) for chunk in stripping._cutter.chunks("\u0301" * 9000)] == [
        2 * cuts.KEPT
    ]
