"""Tokenizer files that are damaged or made to do harm: one sentence with the file's name, soon, and nothing else."""

import copy
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firth.base.errors import InputError
from firth.text import backend
from firth.text.tokenizer import Tokenizer
from tests.conftest import count

Page = dict[str, Any]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    folder = tmp_path_factory.mktemp("sound")
    Tokenizer.train(["a sound little text about the river bank"] * 3, size=100).save(folder)
    return json.loads((folder / "tokenizer.json").read_text())


def added(content: str, number: int) -> Page:
    return {
        "id": number,
        "content": content,
        "special": True,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
    }


def template(*pieces: Page, special: Page | None = None) -> Page:
    return {
        "type": "TemplateProcessing",
        "single": list(pieces),
        "pair": list(pieces),
        "special_tokens": special or {},
    }


FIRST = {"Sequence": {"id": "A", "type_id": 0}}
ODD = {"SpecialToken": {"id": "X", "type_id": 0}}
REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"}
BAD: dict[str, Callable[[Page], Any]] = {
    "no model": lambda page: page.pop("model"),
    "a list for a model": lambda page: page.update(model=[1]),
    "no pieces": lambda page: page["model"].update(vocab={}),
    "an id for two pieces": lambda page: page["model"]["vocab"].update(river=7),
    "an id that is too large": lambda page: page["model"]["vocab"].update(zzz=4_000_000_000),
    "an id that is no number": lambda page: page["model"]["vocab"].update(zzz="seven"),
    "a negative id": lambda page: page["model"]["vocab"].update(zzz=-1),
    "an added token with another's place": lambda page: page["added_tokens"].append(
        added("[X]", 5000)
    ),
    "a word without a limit": lambda page: page["model"].update(max_input_chars_per_word=10**6),
    "no unknown": lambda page: page["model"].update(unk_token="[NONE]"),
    "replacements that explode": lambda page: page.update(
        normalizer={"type": "Sequence", "normalizers": [REPLACE] * 9}
    ),
    "bytes of bytes": lambda page: page.update(
        pre_tokenizer={
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "ByteLevel",
                    "add_prefix_space": False,
                    "trim_offsets": True,
                    "use_regex": False,
                }
            ]
            * 40,
        }
    ),
    "steps without end": lambda page: page.update(
        normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}] * 1000}
    ),
    "a length of nothing": lambda page: page.update(
        pre_tokenizer={"type": "FixedLength", "length": 0}
    ),
    "a table of nonsense": lambda page: page.update(
        normalizer={"type": "Precompiled", "precompiled_charsmap": "/////w=="}
    ),
    "a pattern that never closes": lambda page: page.update(
        pre_tokenizer={
            "type": "Split",
            "pattern": {"Regex": "("},
            "behavior": "Isolated",
            "invert": False,
        }
    ),
    "the text lost": lambda page: page.update(post_processor=template()),
    "the text twice": lambda page: page.update(post_processor=template(FIRST, FIRST)),
    "a special token that is not there": lambda page: page.update(
        post_processor=template(ODD, FIRST)
    ),
    "a special id that no piece has": lambda page: page.update(
        post_processor=template(
            ODD, FIRST, special={"X": {"id": "X", "ids": [7777], "tokens": ["X"]}}
        )
    ),
    "special tokens without end": lambda page: page.update(
        post_processor=template(
            ODD, FIRST, special={"X": {"id": "X", "ids": [2] * 100_000, "tokens": ["X"] * 100_000}}
        )
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_page_that_can_not_be_right_is_refused(tmp_path: Path, page: Page, name: str) -> None:
    wrong = copy.deepcopy(page)
    BAD[name](wrong)
    refused(tmp_path, json.dumps(wrong).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe{}",
        b"\x80\x04\x95",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"model": 1e999}',
        b"9" * 10_000,
    ],
    ids=[
        "empty",
        "open",
        "null",
        "list",
        "utf-16",
        "pickle",
        "deep list",
        "deep object",
        "infinite",
        "long number",
    ],
)
def test_what_is_no_page_is_refused(tmp_path: Path, data: bytes) -> None:
    refused(tmp_path, data)


def refused(folder: Path, data: bytes) -> None:
    path = folder / "tokenizer.json"
    path.write_bytes(data)
    begun = time.process_time()
    with pytest.raises(InputError, match=r"tokenizer\.json") as caught:
        Tokenizer.open(folder)
    assert "\n" not in str(caught.value)
    assert time.process_time() - begun < 5


def test_a_file_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "tokenizer.json").open("wb") as file:
        file.truncate(backend.LARGEST_FILE + 1)  # a hole: it takes no room on the disk
    begun = time.process_time()
    with pytest.raises(InputError, match="larger than 512 MB"):
        Tokenizer.open(tmp_path)
    assert time.process_time() - begun < 0.5


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no tokenizer\.json and no vocab\.txt"):
        Tokenizer.open(tmp_path)
    os.mkfifo(tmp_path / "tokenizer.json")
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        Tokenizer.open(tmp_path)


@pytest.mark.parametrize(
    "data", [b"", b"one\ntwo\n", b"[UNK]\n\xff\xfe\n"], ids=["empty", "no unknown", "not UTF-8"]
)
def test_a_bad_vocabulary_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "vocab.txt").write_bytes(data)
    with pytest.raises(InputError, match=r"vocab\.txt"):
        Tokenizer.open(tmp_path)


def test_a_pattern_that_runs_wild_stops_the_text_and_not_the_process(
    tmp_path: Path, page: Page
) -> None:
    split = {
        "type": "Split",
        "pattern": {"Regex": "(a+)+$"},
        "behavior": "Isolated",
        "invert": False,
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps({**page, "pre_tokenizer": split}))
    words = Tokenizer.open(tmp_path)
    begun = time.process_time()
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        words.encode(["a" * 5000 + "!"])
    assert time.process_time() - begun < 5


def test_no_mutated_page_does_harm(tmp_path: Path, page: Page, seed: int) -> None:
    draw = random.Random(seed)
    sound = json.dumps(page).encode()
    outcomes = {"refused": 0, "opened": 0, "unnamed": 0}
    for _ in range(count(10_000)):
        data = bytearray(sound)
        if draw.random() < 0.3:
            del data[draw.randrange(len(data)) :]
        for _ in range(draw.choice([1, 1, 1, 4])):
            if data:
                data[draw.randrange(len(data))] = draw.choice(
                    b'{}[]",:0159\\ntf' + bytes([draw.randrange(256)])
                )
        (tmp_path / "tokenizer.json").write_bytes(data)
        begun = time.process_time()
        try:
            words = Tokenizer.open(tmp_path)
            (found,) = words.encode(["The river bank: café, 中文!"], special=True)
            assert all(0 <= number < words.size for number in found.ids)
            outcomes["opened"] += 1
        except InputError as error:
            outcomes["refused" if "tokenizer.json" in str(error) else "unnamed"] += 1
        assert time.process_time() - begun < 5
    assert outcomes.pop("unnamed") == 0
    assert min(outcomes.values()) > 0, outcomes
