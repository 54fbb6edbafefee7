"""The `tokenizers` library behind one edge: its files may be hostile, its errors Rust panics."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from tokenizers import decoders as decoding

from firth.base.errors import FirthError, InputError
from firth.base.files import parse_json, read_bytes

LARGEST_FILE = 512 << 20
LARGEST_ID = 1 << 24
# WordPiece tries every end of every piece: a word's cost grows with the square of its length.
LONGEST_WORD = 1000
MOST_STEPS = 64
MOST_GROWTH = 1000  # times that a chain of replacements may lengthen a text
MOST_SPECIAL = 32
PARTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
STEP_LISTS = ("normalizers", "pretokenizers", "processors", "decoders")
BERT_ROLES = ("pad", "unk", "cls", "sep", "mask")


@contextmanager
def edge(where: str) -> Iterator[None]:
    """Turn whatever the library raises into an InputError.

    A Rust panic arrives as a BaseException whose class has no public name.
    """
    try:
        yield
    except FirthError:  # ours already; a request to stop may come at any moment
        raise
    except BaseException as problem:
        kind = type(problem).__name__
        if not isinstance(problem, Exception) and kind != "PanicException":
            raise
        first, *_ = str(problem).splitlines() or [kind]
        raise InputError(f"{where}: the tokenizer can't work: {first[:200]}") from problem


def read_backend(path: Path) -> Backend:
    """Open a tokenizer.json, without truncation, padding and sampling; refuse one that is wrong."""
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
        # Both draw at random between ways to split a word, so that a text has many encodings.
        if isinstance(backend.model, models.BPE):
            backend.model.dropout = None
        elif isinstance(backend.model, models.Unigram):
            backend.model.alpha = None
            backend.model.nbest_size = None
        _check_ids(backend, spec, where)
        _check_special_tokens(backend, where)
    return backend


def vocab_backend(
    path: Path, lower: bool, strip_accents: bool | None, chinese: bool, names: dict[str, str]
) -> Backend:
    """Build BERT's own tokenizer around a vocab.txt, which has a piece a line."""
    vocab = read_vocab(path)
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

        special = {}
        for role in BERT_ROLES:
            customary = f"[{role.upper()}]"
            name = names.get(f"{role}_token", customary)
            if name in vocab:
                special[role] = name
        added = [AddedToken(name, special=True) for name in special.values()]
        backend.add_special_tokens(added)
        if "cls" in special and "sep" in special:
            backend.post_processor = template(backend, special["cls"], special["sep"])
        _check_ids(backend, {}, str(path))
    return backend


def read_vocab(path: Path) -> dict[str, int]:
    """Read the pieces of a vocab.txt with their ids, which are the numbers of their lines."""
    try:
        lines = read_bytes(path, LARGEST_FILE).decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as problem:
        raise InputError(
            f"{path} is not UTF-8: {problem.reason} at byte {problem.start}"
        ) from problem
    vocab = {}
    for number, line in enumerate(lines):
        piece = line.removesuffix("\r")
        if piece:
            vocab[piece] = number
    return vocab


def template(backend: Backend, first: str, last: str) -> processors.TemplateProcessing:
    """Make the step that puts special tokens around one text or two, the second in segment 1."""
    return processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(name, backend.token_to_id(name)) for name in (first, last)],
    )


def pipeline_steps(part: Any) -> Iterator[dict[str, Any]]:
    """Walk the steps of a part of the pipeline (see PARTS), those inside sequences too."""
    for step in part if isinstance(part, list) else [part]:
        if isinstance(step, dict):
            yield step
            for name in STEP_LISTS:
                yield from pipeline_steps(step.get(name))


def _check_steps(spec: dict[str, Any], where: str) -> None:
    """Refuse steps whose time or memory would explode on an innocent text.

    Running out of memory inside the library ends the process; there is no error to catch.
    """
    unusable = f"{where} is not a usable tokenizer"
    found = {part: list(pipeline_steps(spec.get(part))) for part in PARTS}
    steps = sum(map(len, found.values()))
    if steps > MOST_STEPS:
        raise InputError(f"{unusable}: it has more than {MOST_STEPS} steps")

    for part in ("normalizer", "decoder"):
        growth = 1
        for step in found[part]:
            content = str(step.get("content", ""))
            growth *= max(1, len(content))
        if growth > MOST_GROWTH:
            raise InputError(
                f"{unusable}: its {part} lengthens a text more than {MOST_GROWTH} times"
            )

    before_model = found["normalizer"] + found["pre_tokenizer"]
    kinds = [step.get("type") for step in before_model]
    if kinds.count("ByteLevel") > 2:
        raise InputError(f"{unusable}: it turns text to bytes again and again")

    longest = spec["model"].get("max_input_chars_per_word", 0)
    if isinstance(longest, int) and longest > LONGEST_WORD:
        raise InputError(f"{unusable}: max_input_chars_per_word is {longest}, over {LONGEST_WORD}")


def _check_ids(backend: Backend, spec: dict[str, Any], where: str) -> None:
    """Check that each piece has an id of its own, which is the one that the file gives it."""
    vocab = backend.get_vocab(True)
    if not vocab:
        raise InputError(f"{where} has no pieces")
    greatest = max(vocab.values())
    if greatest >= LARGEST_ID:
        raise InputError(f"{where} gives a piece the id {greatest}, which is too large")
    if len(set(vocab.values())) < len(vocab):
        ((number, _),) = Counter(vocab.values()).most_common(1)
        pieces = [piece for piece, other in vocab.items() if other == number]
        first, second, *_ = sorted(pieces)
        raise InputError(f"{where} gives the id {number} to both {first!r} and {second!r}")

    model = backend.model
    if isinstance(model, models.WordPiece | models.WordLevel):
        unknown = model.unk_token
        if unknown not in vocab:
            raise InputError(f"{where} has no piece {unknown!r} for what it doesn't know")

    for token in spec.get("added_tokens") or []:
        content = token["content"]
        wanted = token["id"]
        given = vocab.get(content)
        if given != wanted:
            raise InputError(f"{where} gives {content!r} the id {wanted} where {given} is next")


def _check_special_tokens(backend: Backend, where: str) -> None:
    """Check that the post-processor only puts special tokens around the pieces of each text.

    Windows, pairs and offsets all count on that.
    """
    processor = backend.post_processor
    backend.post_processor = None
    alone = backend.encode("a").ids
    backend.post_processor = processor

    for texts in (("a",), ("a", "a")):
        found = backend.encode(*texts)
        all_ids = found.ids
        owners = found.sequence_ids
        if owners.count(None) > MOST_SPECIAL:
            raise InputError(f"{where} puts more than {MOST_SPECIAL} special tokens around a text")
        for part in range(len(texts)):
            positions = [position for position, owner in enumerate(owners) if owner == part]
            ids = [all_ids[position] for position in positions]
            apart = False
            if positions:
                reach = positions[-1] - positions[0] + 1
                apart = reach > len(positions)
            if ids != alone or apart:
                raise InputError(
                    f"{where} is not a usable tokenizer: "
                    "its post-processor loses or repeats the text"
                )
        for number in all_ids:
            if backend.id_to_token(number) is None:
                raise InputError(f"{where} uses the id {number}, which no piece has")
