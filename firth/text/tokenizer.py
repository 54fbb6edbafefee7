"""The tokenizer: text in, pieces with their offsets in that text out, and back."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from tokenizers import AddedToken
from tokenizers import Encoding as LibraryEncoding
from tokenizers import Tokenizer as Backend
from tokenizers.processors import Sequence as Sequenced
from tokenizers.processors import TemplateProcessing

from firth.base.errors import InputError
from firth.text.backend import BERT_ROLES, edge, pipeline_steps, read_backend, vocab_backend
from firth.text.cuts import LONG, Chunk, cutter, spec
from firth.text.marks import Offsets, with_marks
from firth.text.repair import repair
from firth.text.special import SENTINEL, read_config, role_ids, sentinel_names, token_names
from firth.text.vocabulary import NAMES, Split, learn, punctuation_apart

BATCH = 1 << 20  # characters that the library holds at once
CHUNKS_AT_ONCE = 16
KINDS = {"WordPiece": "wordpiece", "BPE": "bpe", "WordLevel": "words", "Unigram": "unigram"}
TextOrPair = tuple[str, ...]  # a text, or a text and its pair
Words = list[int | None]  # the word that each piece belongs to
DROP_SPACE = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
SENTENCEPIECE = "spiece.model"  # of T5 and others
NO_LIMIT = 10**9  # libraries write a huge number for "no limit"


@dataclass(frozen=True, slots=True)
class Encoding:
    """The pieces of one text or pair, made from the text itself."""

    ids: list[int]
    segments: list[int]
    # Characters of the text that the piece came from; (0, 0) for special tokens.
    offsets: Offsets
    words: Words  # index of the word within its text, None for special tokens
    parts: list[int | None]  # 0 first text, 1 second text, None for special tokens

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """A vocabulary with the rules that turn text into its pieces."""

    def __init__(
        self, backend: Backend, source: str, names: dict[str, str], length: int | None = None
    ) -> None:
        self.source = source
        self.names = names
        self.length = length  # tokens that the folder's model takes, where it says so
        self._backend = backend
        with edge(source):
            ids = backend.get_vocab(True).values()
            self.size: int = 1 + max(ids)
            self._cutter = cutter(backend)
            self._keeps_space = _keeps_space(backend)
            roles = role_ids(backend, names)
        self.cls = roles["cls"]
        self.sep = roles["sep"]
        self.mask = roles["mask"]
        self.unk = roles["unk"]
        self.pad = roles["pad"]
        self.kind = _kind(backend)
        self.split = _split(backend) if self.kind == "words" else None  # what splits words

    @classmethod
    def open(cls, folder: Path) -> "Tokenizer":
        """Open the tokenizer.json of a folder as it is, else the vocab.txt of a BERT."""
        config = read_config(folder)
        names = token_names(config)
        length = config.get("model_max_length")
        if type(length) is not int or not 0 < length < NO_LIMIT:
            length = None

        whole = folder / "tokenizer.json"
        if whole.exists():
            return cls(read_backend(whole), str(whole), names, length)
        vocab = folder / "vocab.txt"
        if not vocab.exists():
            raise InputError(_missing(folder))

        flags = _bert_flags(config, folder / "tokenizer_config.json")
        backend = vocab_backend(
            vocab,
            lower=flags["do_lower_case"] is not False,
            strip_accents=flags["strip_accents"],
            chinese=flags["tokenize_chinese_chars"] is not False,
            names=names,
        )
        return cls(backend, str(vocab), names, length)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        kind: Literal["wordpiece", "bytes", "words"] = "wordpiece",
        size: int = 30000,
        case: Literal["lower", "keep"] | None = None,
        accents: Literal["keep", "strip"] | None = None,
        split: Split = "spaces",
        end_last: bool = False,
        sentinels: int = 0,
    ) -> "Tokenizer":
        """Learn a vocabulary from texts.

        By default they are brought to lower case with their accents kept, and for `bytes` they
        stay as they are. `end_last` puts the end mark after the other special tokens, and behind it
        come so many `sentinels`.
        """
        if case not in ("lower", "keep", None) or accents not in ("keep", "strip", None):
            raise InputError(
                f"case is lower or keep and accents is keep or strip, not {case!r} and {accents!r}"
            )
        lower = case == "lower"
        if case is None:
            lower = kind != "bytes"
        strip = accents == "strip"
        backend = learn(texts, kind, size, lower, strip, split, end_last, sentinels)
        names = dict(NAMES[kind])
        return cls(backend, f"the learned {kind}", names)

    def save(self, folder: Path, length: int | None = None, segments: bool = True) -> None:
        """Write files that `transformers` opens to the same ids.

        `segments` says whether the model that it is saved for has them.
        """
        with edge(self.source):
            text = self._backend.to_str(pretty=True)
            vocab = self._backend.get_vocab(False)
            tokens = self._backend.get_added_tokens_decoder().values()
            special = [token.content for token in tokens if token.special]
        if length is None:
            length = self.length
        config = self._config(special, length, segments)
        page = json.dumps(config, indent=2, ensure_ascii=False)

        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")
        (folder / "tokenizer_config.json").write_text(f"{page}\n", encoding="utf-8")
        if self.kind == "wordpiece" and len(vocab) == self.size:
            pieces = sorted(vocab, key=vocab.__getitem__)
            if not any("\n" in piece for piece in pieces):
                lines = "".join(f"{piece}\n" for piece in pieces)
                (folder / "vocab.txt").write_text(lines, encoding="utf-8")

    def _config(self, special: list[str], length: int | None, segments: bool) -> dict[str, Any]:
        """Return what tokenizer_config.json says; `special` are the special tokens."""
        names = {key: name for key, name in self.names.items() if self.id(name) is not None}
        for role in BERT_ROLES:
            number = getattr(self, role)
            if number is None:
                continue
            token = self.piece(number)
            if token in special:
                names.setdefault(f"{role}_token", token)

        inputs = ["input_ids", "attention_mask"]
        if segments:
            inputs.insert(1, "token_type_ids")
        config: dict[str, Any] = {
            # Any other class is rebuilt by transformers from the vocabulary, with rules of its own.
            "tokenizer_class": "TokenizersBackend",
            "model_input_names": inputs,
        }
        if length is not None:
            config["model_max_length"] = length
        config.update(names)
        others = [name for name in special if name not in names.values()]
        if others:
            config["extra_special_tokens"] = others
        return config

    @cached_property
    def special(self) -> frozenset[int]:
        """The ids of the special tokens, whatever their role."""
        roles = {self.cls, self.sep, self.mask, self.unk, self.pad}
        with edge(self.source):
            added = self._backend.get_added_tokens_decoder()
        return frozenset(
            {number for number in roles if number is not None}
            | {number for number, token in added.items() if token.special}
        )

    @cached_property
    def sentinels(self) -> tuple[int, ...]:
        """The ids of the tokens that stand for spans of a text, in their order."""
        found: list[int] = []
        while (number := self.id(SENTINEL.format(len(found)))) is not None:
            found.append(number)
        return tuple(found)

    def with_sentinels(self, count: int) -> "Tokenizer":
        """Return a copy that has so many sentinels; new ones come after all pieces."""
        with edge(self.source):
            backend = Backend.from_str(self._backend.to_str())
            names = sentinel_names(count)
            backend.add_special_tokens([AddedToken(name, special=True) for name in names])
        return Tokenizer(backend, self.source, self.names, self.length)

    @property
    def rules(self) -> dict[str, Any]:
        """Return what a tokenizer.json holds: the steps, and the pieces with their ids."""
        with edge(self.source):
            page: dict[str, Any] = json.loads(self._backend.to_str())
        return page

    @property
    def fingerprint(self) -> str:
        """The sha256 of all that decides how a text is encoded: the rules and the pieces."""
        with edge(self.source):
            page = self._backend.to_str()
        return hashlib.sha256(page.encode()).hexdigest()

    @cached_property
    def separates_pairs(self) -> bool:
        """Whether a special token stands between the two texts of a pair."""
        (encoding,) = self.encode(["a"], ["a"])
        parts = encoding.parts
        if 0 not in parts or 1 not in parts:
            return False
        between = parts[parts.index(0) : parts.index(1)]
        return None in between

    def separating_pairs(self) -> "Tokenizer":
        """Return a copy that puts this tokenizer's own end mark between the texts of a pair.

        Without a mark a model can't tell where the first text ends.
        """
        processor = spec(self._backend.post_processor) or {}
        around = processor.get("type")
        if self.sep is None or around not in (None, "ByteLevel"):
            raise InputError(
                "this model's tokenizer puts no mark between two texts: join them in one column"
            )
        mark = self.piece(self.sep)
        with edge(self.source):
            backend = Backend.from_str(self._backend.to_str())
            template = TemplateProcessing(
                single="$A",
                pair=f"$A {mark} $B:1",
                special_tokens=[(mark, self.sep)],
            )
            steps = [template]
            if backend.post_processor:
                steps.insert(0, backend.post_processor)
            backend.post_processor = Sequenced(steps)
        return Tokenizer(backend, self.source, self.names, self.length)

    def without_marks(self) -> "Tokenizer":
        """Return a copy that puts no special tokens around a text.

        To a model without layers they would be words like any other.
        """
        with edge(self.source):
            backend = Backend.from_str(self._backend.to_str())
            backend.post_processor = None
        return Tokenizer(backend, self.source, self.names, self.length)

    def encode(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, special: bool = True
    ) -> list[Encoding]:
        """Encode texts, or texts with their pairs, whole: nothing is cut and nothing is padded."""
        columns = [_repaired(texts)]
        if pairs is not None:
            columns.append(_repaired(pairs))
            if len(pairs) != len(texts):
                raise InputError(f"{len(texts)} texts can't be paired with {len(pairs)}")
        rows: list[TextOrPair] = list(zip(*columns, strict=True))

        found: list[Encoding] = []
        for batch in _batches(rows):
            first = batch[0]
            # A long text is alone in its batch.
            if self._cutter and any(len(text) > LONG for text in first):
                found.append(self._encode_long(first, special))
                continue
            encoded = self._run(batch, special)
            found.extend(map(self._encoding, encoded, batch))
        return found

    def _run(self, rows: Sequence[TextOrPair], special: bool) -> list[LibraryEncoding]:
        """Call the library, which takes a text as such and a pair as a tuple."""
        with edge(self.source):
            if len(rows) == 1:
                first, *rest = rows[0]
                second = rest[0] if rest else None
                return [self._backend.encode(first, second, add_special_tokens=special)]
            inputs = [row[0] if len(row) == 1 else row for row in rows]
            return list(self._backend.encode_batch(inputs, add_special_tokens=special))

    def _encoding(self, found: LibraryEncoding, row: TextOrPair) -> Encoding:
        """Return what the library found, with offsets that cover what a person would mark."""
        # The library makes a new list at each of these calls.
        offsets = found.offsets
        words = found.word_ids
        parts = found.sequence_ids
        for part, text in enumerate(row):
            if part not in parts or (text.isascii() and not self._keeps_space):
                continue
            begin = parts.index(part)
            end = len(parts) - parts[::-1].index(part)
            place = slice(begin, end)
            offsets[place] = self._exact(offsets[place], words[place], text)
        return Encoding(found.ids, found.type_ids, offsets, words, parts)

    def _exact(self, offsets: Offsets, words: Words, text: str) -> Offsets:
        """Return the library's offsets of pieces without white space and with their marks."""
        if self._keeps_space:
            offsets = _without_space(offsets, words, text)
        return with_marks(offsets, text)

    def _encode_long(self, row: TextOrPair, special: bool) -> Encoding:
        """Encode a long text chunk by chunk, and put special tokens around it."""
        assert self._cutter is not None
        bodies = []
        for text in row:
            chunks = list(self._cutter.chunks(text))
            bodies.append(self._body(chunks))
        # Where special tokens stand is told by a short text with the same beginning.
        samples = tuple(body.sample for body in bodies)
        (short,) = self._run([samples], special)

        whole = Encoding([], [], [], [], [])
        done: set[int] = set()
        pieces = zip(short.ids, short.type_ids, short.sequence_ids, strict=True)
        for number, segment, part in pieces:
            if part is None:
                whole.ids.append(number)
                whole.segments.append(segment)
                whole.offsets.append((0, 0))
                whole.words.append(None)
                whole.parts.append(None)
            elif part not in done:
                # The sample may have several pieces; the long text takes the place of all.
                done.add(part)
                body = bodies[part]
                count = len(body.ids)
                offsets = self._exact(body.offsets, body.words, row[part])
                whole.ids.extend(body.ids)
                whole.segments.extend([segment] * count)
                whole.offsets.extend(offsets)
                whole.words.extend(body.words)
                whole.parts.extend([part] * count)
        return whole

    def _body(self, chunks: list[Chunk]) -> "_Body":
        """Encode the chunks of a text without special tokens and join what they give."""
        body = _Body()
        first_word = 0  # the index of a chunk's first word in the whole text
        for begin in range(0, len(chunks), CHUNKS_AT_ONCE):
            group = chunks[begin : begin + CHUNKS_AT_ONCE]
            encoded = self._run([(chunk.text,) for chunk in group], special=False)
            for chunk, found in zip(group, encoded, strict=True):
                body.ids.extend(found.ids)
                body.offsets.extend(chunk.spans_in_text(found.offsets))
                words = found.word_ids
                if not words:
                    continue
                for word in words:
                    body.words.append(None if word is None else word + first_word)
                first_word += 1 + (words[-1] or 0)
                if not body.sample:
                    _, end = found.offsets[0]
                    body.sample = chunk.text[: max(1, end)]
        return body

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """Turn ids back into text, with the special tokens only where they are asked for."""
        with edge(self.source):
            return self._backend.decode(list(ids), skip_special_tokens=not special)

    def normalise(self, text: str) -> str:
        """Return a text as the pieces spell it: in lower case, or as the vocabulary was learned."""
        with edge(self.source):
            normalizer = self._backend.normalizer
            if normalizer is None:
                return text
            return str(normalizer.normalize_str(text))

    def piece(self, number: int) -> str:
        """Return the piece that has an id; empty where none has."""
        if not 0 <= number < self.size:
            return ""
        return self._backend.id_to_token(number) or ""

    def id(self, piece: str) -> int | None:
        """Return the id of a piece, if it is in the vocabulary."""
        repaired, _ = repair(piece)
        return self._backend.token_to_id(repaired)


@dataclass(slots=True)
class _Body:
    """What a long text encodes to without special tokens, and a start of it that has a piece."""

    ids: list[int] = field(default_factory=list)
    offsets: Offsets = field(default_factory=list)
    words: Words = field(default_factory=list)
    sample: str = ""


def _repaired(texts: Sequence[str]) -> list[str]:
    """Return texts without lone surrogates; what is no list of texts is refused."""
    wrong = "encode takes a list of texts, and nothing else"
    if isinstance(texts, str):
        raise InputError(wrong)
    found = []
    for text in texts:
        if not isinstance(text, str):
            raise InputError(wrong)
        repaired, _ = repair(text)
        found.append(repaired)
    return found


def _batches(rows: list[TextOrPair]) -> Iterator[list[TextOrPair]]:
    """Group rows so that the library holds few at once; one with a long text stands alone."""
    batch: list[TextOrPair] = []
    total = 0
    for row in rows:
        size = max(map(len, row))
        is_long = size > LONG
        if batch and (is_long or total + size > BATCH):
            yield batch
            batch = []
            total = 0
        batch.append(row)
        total += size
        if is_long:
            total = BATCH  # full: the next row begins another batch
    if batch:
        yield batch


def _missing(folder: Path) -> str:
    """Say that a folder has no vocabulary that Firth reads, and what would make one."""
    if not (folder / SENTENCEPIECE).exists():
        return f"{folder} has no tokenizer.json and no vocab.txt"
    name = repr(str(folder))
    return (
        f"{folder} has a {SENTENCEPIECE}, which Firth doesn't read, and no tokenizer.json; where "
        "transformers, sentencepiece and protobuf are installed, this makes one: "
        'python -c "from transformers import AutoTokenizer; '
        f'AutoTokenizer.from_pretrained({name}).save_pretrained({name})"'
    )


def _bert_flags(config: dict[str, Any], path: Path) -> dict[str, bool | None]:
    """Return the switches of BERT's own rules; what is not true or false is refused."""
    flags: dict[str, bool | None] = {}
    for name in ("do_lower_case", "strip_accents", "tokenize_chinese_chars"):
        value = config.get(name)
        if value is not None and not isinstance(value, bool):
            raise InputError(f"{path} has {value!r} for {name}: it must be true or false")
        flags[name] = value
    return flags


def _kind(backend: Backend) -> str:
    """Return the kind of a vocabulary: wordpiece, bpe, bytes, words, unigram or unknown."""
    model = type(backend.model).__name__
    kind = KINDS.get(model, "unknown")
    if kind == "bpe":
        steps = _step_types(backend.pre_tokenizer, backend.normalizer)
        if "ByteLevel" in steps:
            return "bytes"
    return kind


def _split(backend: Backend) -> Split:
    """Return what splits the words of a vocabulary of words."""
    steps = pipeline_steps(spec(backend.pre_tokenizer))
    apart = spec(punctuation_apart())
    return "punctuation" if apart in steps else "spaces"


def _keeps_space(backend: Backend) -> bool:
    """Return whether a piece's offsets may take in white space, as with GPT-2's tokenizer."""
    steps = pipeline_steps(spec(backend.post_processor))
    if any(step.get("trim_offsets") for step in steps):
        return False
    return not DROP_SPACE & _step_types(backend.pre_tokenizer)


def _step_types(*parts: Any) -> set[Any]:
    """Return the types of all steps of a tokenizer's parts."""
    found = set()
    for part in parts:
        for step in pipeline_steps(spec(part)):
            found.add(step.get("type"))
    return found


def _without_space(offsets: Offsets, words: Words, text: str) -> Offsets:
    """Leave white space around pieces out of their offsets.

    A piece of nothing else keeps it, unless a word begins with it.
    """
    found = []
    following = [*words[1:], None]
    for (first, last), word, next_word in zip(offsets, words, following, strict=True):
        piece = text[first:last]
        body = piece.strip()
        if body:
            begin = last - len(piece.lstrip())
            found.append((begin, begin + len(body)))
        elif word is not None and word == next_word:
            found.append((last, last))
        else:
            found.append((first, last))
    return found
