"""Files of word vectors: word2vec's text and binary formats and GloVe's, in sound files and in hostile ones."""

import gzip
import json
import pickle
import random
import struct
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import firth
from firth.base.errors import FirthWarning, InputError
from firth.folders.write import save
from firth.reading.wordvectors import LONGEST_LINE, read_word_vectors
from tests.conftest import count
from tests.unit.speakers import bundle

WORDS = ["the", ",", ".", "sea", "café", "new_york", "u.s.", "日本"]
Rows = NDArray[np.float32]


def rows(words: Sequence[str] = WORDS, width: int = 7, seed: int = 0) -> Rows:
    return np.random.default_rng(seed).normal(size=(len(words), width)).astype("f4")


def text_of(words: Sequence[str], numbers: Rows, header: bool = False, end: str = "") -> bytes:
    """The file as a person would write it: each number in the digits that Python shows."""
    lines = [f"{len(words)} {numbers.shape[1]}\n"] if header else []
    for word, row in zip(words, numbers, strict=True):
        lines.append(" ".join([word, *(repr(float(one)) for one in row)]) + end + "\n")
    return "".join(lines).encode()


def binary_of(words: Sequence[bytes], numbers: Rows, after: bytes = b"\n") -> bytes:
    """The file by the description of the format: a word, a blank, and floats of four bytes."""
    found = f"{len(words)} {numbers.shape[1]}\n".encode()
    for word, row in zip(words, numbers, strict=True):
        found += word + b" " + struct.pack(f"<{len(row)}f", *row.tolist()) + after
    return found


def binary(words: Sequence[str] = WORDS) -> bytes:
    return binary_of([word.encode() for word in words], rows(words))


def opened(folder: Path) -> tuple[list[str], Rows]:
    """The words of a folder that have a vector, and their vectors."""
    model = firth.load(folder).bundle
    table = model.encoder.table.detach().numpy()
    known = table.any(1)
    return [model.tokenizer.piece(int(row)) for row in known.nonzero()[0]], table[known]


FILES = {
    "word2vec.txt": text_of(WORDS, rows(), header=True),
    "trailing.vec": text_of(WORDS, rows(), header=True, end=" "),
    "windows.vec": text_of(WORDS, rows(), header=True, end="\r"),
    "marked.txt": "\ufeff".encode() + text_of(WORDS, rows(), header=True),
    "no-last-line.txt": text_of(WORDS, rows()).rstrip(b"\n"),
    "glove.txt": text_of(WORDS, rows()),
    "glove.txt.gz": gzip.compress(text_of(WORDS, rows())),
    "original.bin": binary(),
    "dense.bin": binary_of([word.encode() for word in WORDS], rows(), b""),
    "packed.bin.gz": gzip.compress(binary()),
}


@pytest.mark.parametrize("name", FILES)
def test_each_format_is_told_by_its_content(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    found = read_word_vectors(path)
    form = "binary" if ".bin" in name else "word2vec"
    assert found.form == ("glove" if name[:2] in ("gl", "no") else form)
    assert found.words == WORDS
    assert found.rows.tobytes() == rows().tobytes()
    assert (found.repeated, found.replaced) == (0, 0)


@pytest.mark.parametrize(
    ("name", "form"), [("out.txt", None), ("out.vec", None), ("out.bin", None), ("out.txt", "glove")]
)  # fmt: skip
def test_a_round_trip_keeps_every_bit(name: str, form: str | None, tmp_path: Path) -> None:
    """Of numbers of every size, those next to a power of two and the smallest there are."""
    draw = np.random.default_rng(1)
    bits = draw.integers(0, 1 << 32, size=(count(20_000) // 5 + 40, 5), dtype=np.uint32)
    numbers = bits.view(np.float32)
    numbers[~np.isfinite(numbers)] = 0.1
    numbers[0] = [1e-45, -0.0, np.nextafter(np.float32(1), np.float32(2)), 3.4028235e38, 0.3]
    words = [f"w{number}" for number in range(len(numbers))]
    (tmp_path / "in.bin").write_bytes(binary_of([word.encode() for word in words], numbers))
    firth.convert(tmp_path / "in.bin", tmp_path / "v")
    made = firth.convert(tmp_path / "v", tmp_path / name, form=form)  # type: ignore[arg-type]
    assert made.vectors is not None
    assert made.vectors.words == len(words)
    again = read_word_vectors(tmp_path / name)
    assert again.words == words
    assert again.rows.tobytes() == numbers.tobytes()
    assert again.form == made.vectors.form
    firth.convert(tmp_path / name, tmp_path / "again")
    for one, other in zip(opened(tmp_path / "v"), opened(tmp_path / "again"), strict=True):
        assert np.array_equal(one, other)


def test_words_with_blanks_are_gloves_alone(tmp_path: Path) -> None:
    words = ["the", ". . .", "at name@place.org", "sea"]
    (tmp_path / "glove.txt").write_bytes(text_of(words, rows(words)))
    firth.convert(tmp_path / "glove.txt", tmp_path / "v")
    assert opened(tmp_path / "v")[0] == words
    firth.convert(tmp_path / "v", tmp_path / "again.txt", form="glove")
    assert read_word_vectors(tmp_path / "again.txt").words == words
    with pytest.warns(FirthWarning, match="2 words have blanks, which word2vec can't hold"):
        firth.convert(tmp_path / "v", tmp_path / "out.txt")
    assert read_word_vectors(tmp_path / "out.txt").words == ["the", "sea"]
    (near,) = firth.neighbours(tmp_path / "v", ". . .", top=5)
    assert {one.word for one in near.nearest} == set(words) - {". . ."}


def test_special_tokens_of_a_file_keep_their_vectors(tmp_path: Path) -> None:
    words = ["</s>", "the", "sea", "<unk>"]
    (tmp_path / "in.txt").write_bytes(text_of(words, rows(words), header=True))
    firth.convert(tmp_path / "in.txt", tmp_path / "v")
    firth.convert(tmp_path / "v", tmp_path / "out.txt")
    again = read_word_vectors(tmp_path / "out.txt")
    assert again.words == words
    assert again.rows.tobytes() == rows(words).tobytes()
    with pytest.raises(InputError, match="has no word '<unk>'"):
        firth.neighbours(tmp_path / "v", "<unk>")


def test_the_words_tell_how_a_text_is_read(tmp_path: Path) -> None:
    """Case, and whether punctuation stands apart; a text is read without marks around it."""
    apart, joined = ["The", "sea", ",", "Don't"], ["the", "sea,", "sea", "don't"]
    for name, words in (("apart", apart), ("joined", joined)):
        (tmp_path / name).write_bytes(text_of(words, rows(words)))
        firth.convert(tmp_path / name, tmp_path / f"{name}.v")
    models = {name: firth.load(tmp_path / f"{name}.v").bundle for name in ("apart", "joined")}
    texts = {name: model.tokenizer.encode(["The sea, Don't"])[0] for name, model in models.items()}
    assert texts["apart"].ids == [0, 1, 2, 3]
    assert texts["joined"].ids == [0, 1, 3]
    made = {name: json.loads((tmp_path / f"{name}.v/firth.json").read_text()) for name in models}
    assert made["apart"]["made"]["split"] == "punctuation"
    assert made["joined"]["made"] == {"file": "joined", "form": "glove", "case": "lower", "split": "spaces"}  # fmt: skip
    vectors = firth.load(tmp_path / "apart.v").embed(["The sea"])
    assert np.allclose(vectors[0], rows(apart)[:2].mean(0), atol=1e-6)


def test_a_word_that_comes_again_is_counted_and_its_first_vector_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = ["sea", "the", "sea", "sea"]
    (tmp_path / "in.txt").write_bytes(text_of(words, rows(words), header=True))
    with caplog.at_level("INFO"):
        made = firth.convert(tmp_path / "in.txt", tmp_path / "v")
    assert made.vectors is not None
    assert (made.vectors.words, made.vectors.repeated) == (2, 2)
    assert "2 words came again; the first vector of each is kept" in caplog.text
    assert opened(tmp_path / "v")[1].tobytes() == rows(words)[:2].tobytes()


@pytest.mark.parametrize("packed", ["text", "binary"])
def test_words_that_are_not_utf8_are_replaced_and_counted(packed: str, tmp_path: Path) -> None:
    words = [b"sea", b"caf\xe9", b"\xff\xfe", b"the"]
    numbers = rows(["a"] * 4)
    path = tmp_path / "in"
    if packed == "binary":
        path.write_bytes(binary_of(words, numbers))
    else:
        lines = text_of(["a"] * 4, numbers).split(b"\n")[:4]
        joined = [word + line[1:] for word, line in zip(words, lines, strict=True)]
        path.write_bytes(b"\n".join(joined) + b"\n")
    with pytest.warns(FirthWarning, match="2 words have bytes that are not UTF-8"):
        made = firth.convert(path, tmp_path / "v")
    assert made.vectors is not None
    assert made.vectors.replaced == 2
    assert opened(tmp_path / "v")[0] == ["sea", "caf\ufffd", "\ufffd\ufffd", "the"]


GOOD = text_of(WORDS, rows(), header=True)
HOSTILE = {
    "fewer": (GOOD.replace(b"8 7", b"9 7", 1), "ends after 8 words where its header says 9"),
    "more": (GOOD.replace(b"8 7", b"6 7", 1), ":8 is a word more than the 6 words that"),
    "vast": (GOOD.replace(b"8 7", b"9000000 7", 1), "9,000,000 words of 7 numbers, which don't fit in its"),
    "beyond": (GOOD.replace(b"8 7", b"90000000000000000000 7", 1), "Firth reads at most 16,777,208 words"),
    "none": (b"0 7\n", "has 0 words of 7 numbers"),
    "flat": (b"3 0\na\nb\nc\n", "has 3 words of 0 numbers"),
    "wide": (b"2 70000\n" + b"a 1\nb 1\n", "2 words of 70,000 numbers"),
    "narrower": (GOOD.replace(b"8 7", b"8 6", 1), ":2 has 7 numbers where 6 belong"),
    "wider": (GOOD.replace(b"8 7", b"8 8", 1), ":2 has 7 numbers where 8 belong"),
    "ragged": (text_of(WORDS, rows()) + b"ship 1 2 3\n", ":9 has 3 numbers where 7 belong"),
    "longer": (text_of(WORDS, rows()) + b"ship 1 2 3 4 5 6 7 8\n", ":9 has 8 numbers where 7 belong"),
    "nan": (text_of(WORDS, rows()) + b"ship 1 2 3 nan 5 6 7\n", ":9 has a number that is not finite"),
    "infinite": (text_of(WORDS, rows()) + b"ship 1 2 3 4 5 -inf 7\n", ":9 has a number that is not finite"),
    "huge": (text_of(WORDS, rows()) + b"ship 1 2 3 4 5 6 1e39\n", ":9 has a number that is not finite"),
    "letters": (text_of(WORDS, rows()) + b"ship 1 2 3 4 five 6 7\n", ":9 has 'five' where a number belongs"),
    "no word": (text_of(WORDS, rows()) + b" 1 2 3 4 5 6 7\n", ":9 has 6 numbers where 7 belong"),
    "text": (b"The sea was calm that day.\n" * 20, "is no file of word vectors: its first line"),
    "empty": (b"", "is no file of word vectors"),
    "blank": (b"\n\n", "is no file of word vectors"),
    "cut": (binary()[:-9], "word 8 is cut off inside its vector"),
    "cut word": (binary()[:-31], "word 8 is cut off, or longer than any word"),
    "binary more": (binary() + binary(), "goes on after the 8 words of its header"),
    "binary vast": (b"16000000 60000\n" + binary()[4:], "which don't fit in its"),
    "binary nan": (binary_of([b"sea"], np.array([[1, np.nan, 2.5]], "f4")), "word 1 has a number that is not finite"),
    "nameless": (binary_of([b"", b"sea"], rows(["a", "b"])), "word 1 has no word before its numbers"),
    "pickle": (pickle.dumps({"vectors": 1}), "is a pickle, which can run code"),
    "zip": (b"PK\x03\x04" + bytes(200), "is a zip archive, not text: unpack it first"),
    "fasttext": (b"\xba\x16\x4f\x2f" + bytes(100), "fastText's own format: use the .vec"),
    "packed": (gzip.compress(GOOD)[:-40], "is damaged or cut short"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    content, said = HOSTILE[name]
    (tmp_path / "hostile").write_bytes(content)
    with pytest.raises(InputError) as refused:
        firth.convert(tmp_path / "hostile", tmp_path / "v")
    assert said in str(refused.value)
    assert str(refused.value).startswith(str(tmp_path / "hostile"))
    assert [path.name for path in tmp_path.iterdir()] == ["hostile"]


@pytest.mark.parametrize("place", [1, 3])
def test_a_line_of_100_mb_is_refused_at_once(place: int, tmp_path: Path) -> None:
    """Before it is taken apart, also behind a packing that makes it small."""
    lines = text_of(["a", "b"], rows(["a", "b"])).split(b"\n")
    lines.insert(place - 1, b"c " + b"0.25 " * 20_000_000)
    path = tmp_path / "long.txt.gz"
    path.write_bytes(gzip.compress(b"\n".join(lines), 1))
    begun = time.process_time()
    with pytest.raises(InputError, match=f"{path}:{place} is longer than {LONGEST_LINE >> 20} MB"):
        read_word_vectors(path)
    assert time.process_time() - begun < 3


def test_any_damage_is_refused_or_read(tmp_path: Path, seed: int) -> None:
    """Bytes that are flipped, lost and repeated: there is a reading, or one sentence."""
    draw = random.Random(seed)
    whole = [GOOD, text_of(WORDS, rows()), binary()]
    refused = 0
    path = tmp_path / "damaged"
    for _ in range(count(2000)):
        data = bytearray(draw.choice(whole))
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(data))
            if draw.random() < 0.5:
                data[place] = draw.randrange(256)
            elif draw.random() < 0.5:
                del data[place : place + draw.randint(1, 20)]
            else:
                data[place:place] = data[place : place + draw.randint(1, 20)]
        path.write_bytes(bytes(data))
        try:
            found = read_word_vectors(path)
        except InputError:
            refused += 1
        else:
            assert len(found.words) == len(found.rows) == len(set(found.words))
            assert np.isfinite(found.rows).all()
    assert refused > 0


def test_the_words_of_a_language_model_are_written(tmp_path: Path) -> None:
    made = bundle("ffnn")
    firth.convert(save(made, tmp_path / "ffnn"), tmp_path / "out.bin")
    found = read_word_vectors(tmp_path / "out.bin")
    layer = made.network.token_layer  # type: ignore[operator,union-attr]
    assert torch.equal(torch.from_numpy(found.rows), layer.weight[: len(found.words)])
    assert len(found.words) == made.tokenizer.size


def test_what_can_not_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(GOOD)
    firth.convert(tmp_path / "in.txt", tmp_path / "v")
    with pytest.raises(InputError, match=r"word vectors are written to .txt, .vec, .bin"):
        firth.convert(tmp_path / "v", tmp_path / "w")
    with pytest.raises(InputError, match="case= is for what is read"):
        firth.convert(tmp_path / "v", tmp_path / "w.txt", case="lower")
    with pytest.raises(InputError, match="form= is for a file of word vectors"):
        firth.convert(tmp_path / "in.txt", tmp_path / "w", form="glove")
    with pytest.raises(InputError, match=r"in\.txt exists"):
        firth.convert(tmp_path / "v", tmp_path / "in.txt")
    with pytest.raises(InputError, match="of the family ngram, which has no vectors of words"):
        firth.convert(save(bundle("ngram"), tmp_path / "counts"), tmp_path / "n.txt")
