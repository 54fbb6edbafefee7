"""The `tokenizers` library behind one edge: its files may be damaged or hostile and its complaints may be Rust panics."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from tokenizers import decoders as decoding

from firth.base.errors import FirthError, InputError
from firth.base.files import parse_json, read_bytes

LARGEST_FILE = 512 << 20
LARGEST_ID = 1 << 24
LONGEST_WORD = 1000  # WordPiece tries every end of every piece: a word's cost grows with the square of its length
MOST_STEPS = 64
MOST_GROWTH = 1000  # times that a chain of replacements may lengthen a text
MOST_SPECIAL = 32
STEP_LISTS = ("normalizers", "pretokenizers", "processors", "decoders")


@contextmanager
def edge(where: str) -> Iterator[None]:
    """Turn whatever the library raises into an InputError; a Rust panic arrives as a BaseException without a public name."""
    try:
        yield
    except FirthError:  # ours already; a request to stop may come at any moment
        raise
    except BaseException as problem:
        if not isinstance(problem, Exception) and type(problem).__name__ != "PanicException":
            raise
        lines = str(problem).splitlines() or [type(problem).__name__]
        raise InputError(f"{where}: the tokenizer can't work: {lines[0][:200]}") from problem


def read_backend(path: Path) -> Backend:
    """Open a tokenizer.json as it is, but for what would cut, pad or vary the result, and refuse one that can't be right."""
    where = str(path)
    data = read_bytes(path, LARGEST_FILE)
    spec: dict[str, Any] = parse_json(data, where)
    if not isinstance(spec.get("model"), dict):
        raise InputError(f"{where} is not a tokenizer: it has no model")
    _check_steps(spec, where)
    with edge(where):
        backend = Backend.from_buffer(data)
        backend.no_truncation()
        backend.no_padding()
        if isinstance(backend.model, models.BPE):
            backend.model.dropout = None
        elif isinstance(backend.model, models.Unigram):
            backend.model.alpha = backend.model.nbest_size = None
        _check_ids(backend, spec, where)
        _check_frame(backend, where)
    return backend


def vocab_backend(
    path: Path, lower: bool, strip_accents: bool | None, chinese: bool, names: dict[str, str]
) -> Backend:
    """Build BERT's own tokenizer around a vocab.txt, a piece a line."""
    try:
        lines = read_bytes(path, LARGEST_FILE).decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as problem:
        raise InputError(
            f"{path} is not UTF-8: {problem.reason} at byte {problem.start}"
        ) from problem
    vocab = {
        piece: number for number, line in enumerate(lines) if (piece := line.removesuffix("\r"))
    }
    unknown = names.get("unk_token", "[UNK]")
    if unknown not in vocab:
        raise InputError(f"{path} has no {unknown}, so it can't be a WordPiece vocabulary")
    with edge(str(path)):
        backend = Backend(models.WordPiece(vocab, unk_token=unknown, max_input_chars_per_word=100))
        backend.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=chinese,
            strip_accents=strip_accents,
            lowercase=lower,
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoding.WordPiece(prefix="##", cleanup=True)
        special = [
            names.get(f"{role}_token", f"[{role.upper()}]")
            for role in ("pad", "unk", "cls", "sep", "mask")
        ]
        backend.add_special_tokens(
            [AddedToken(name, special=True) for name in special if name in vocab]
        )
        if special[2] in vocab and special[3] in vocab:
            backend.post_processor = frame(backend, special[2], special[3])
        _check_ids(backend, {}, str(path))
    return backend


def frame(backend: Backend, first: str, last: str) -> processors.TemplateProcessing:
    """Put special tokens around one text or two, the second in segment 1."""
    return processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(name, backend.token_to_id(name)) for name in (first, last)],
    )


def steps(part: Any) -> Iterator[dict[str, Any]]:
    """Walk the steps of a normalizer, pre-tokenizer, post-processor or decoder, those inside sequences too."""
    for step in part if isinstance(part, list) else [part]:
        if isinstance(step, dict):
            yield step
            for name in STEP_LISTS:
                yield from steps(step.get(name))


def _check_steps(spec: dict[str, Any], where: str) -> None:
    """Refuse steps whose time or memory would explode on an innocent text: running out of memory ends the process."""
    found = {
        part: list(steps(spec.get(part)))
        for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    }
    if sum(map(len, found.values())) > MOST_STEPS:
        raise InputError(f"{where} is not a usable tokenizer: it has more than {MOST_STEPS} steps")
    for part in ("normalizer", "decoder"):
        if prod(max(1, len(str(step.get("content", "")))) for step in found[part]) > MOST_GROWTH:
            raise InputError(
                f"{where} is not a usable tokenizer: its {part} lengthens a text more than {MOST_GROWTH} times"
            )
    if (
        sum(
            step.get("type") == "ByteLevel" for step in found["normalizer"] + found["pre_tokenizer"]
        )
        > 2
    ):
        raise InputError(
            f"{where} is not a usable tokenizer: it turns text to bytes again and again"
        )
    longest = spec["model"].get("max_input_chars_per_word", 0)
    if isinstance(longest, int) and longest > LONGEST_WORD:
        raise InputError(
            f"{where} is not a usable tokenizer: max_input_chars_per_word is {longest}, over {LONGEST_WORD}"
        )


def _check_ids(backend: Backend, spec: dict[str, Any], where: str) -> None:
    """Every piece needs an id of its own that a table of vectors can have, and the one that the file gives it."""
    vocab = backend.get_vocab(True)
    if not vocab:
        raise InputError(f"{where} has no pieces")
    greatest = max(vocab.values())
    if greatest >= LARGEST_ID:
        raise InputError(f"{where} gives a piece the id {greatest}, which is too large")
    if len(set(vocab.values())) < len(vocab):
        number = Counter(vocab.values()).most_common(1)[0][0]
        twice = sorted(piece for piece, other in vocab.items() if other == number)[:2]
        raise InputError(f"{where} gives the id {number} to both {twice[0]!r} and {twice[1]!r}")
    if (
        isinstance(backend.model, models.WordPiece | models.WordLevel)
        and backend.model.unk_token not in vocab
    ):
        raise InputError(
            f"{where} has no piece {backend.model.unk_token!r} for what it doesn't know"
        )
    for token in spec.get("added_tokens") or []:
        if vocab.get(token["content"]) != token["id"]:
            given = vocab.get(token["content"])
            raise InputError(
                f"{where} gives {token['content']!r} the id {token['id']} where {given} is next"
            )


def _check_frame(backend: Backend, where: str) -> None:
    """The post-processor may only put special tokens around the pieces of each text: everything else counts on that."""
    processor, backend.post_processor = backend.post_processor, None
    alone = backend.encode("a").ids
    backend.post_processor = processor
    for texts in (("a",), ("a", "a")):
        found = backend.encode(*texts)
        parts = found.sequence_ids
        if len(parts) - parts.count(0) - parts.count(1) > MOST_SPECIAL:
            raise InputError(f"{where} puts more than {MOST_SPECIAL} special tokens around a text")
        for part in range(len(texts)):
            places = [place for place, owner in enumerate(parts) if owner == part]
            whole = [found.ids[place] for place in places] == alone
            if not whole or (places and places[-1] - places[0] >= len(places)):
                raise InputError(
                    f"{where} is not a usable tokenizer: its post-processor loses or repeats the text"
                )
        for number in found.ids:
            if backend.id_to_token(number) is None:
                raise InputError(f"{where} uses the id {number}, which no piece has")
