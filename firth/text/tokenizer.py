"""The tokenizer: text in, pieces with their places in that text out, and back."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tokenizers import Encoding as Found
from tokenizers import Tokenizer as Backend

from firth.base.errors import InputError
from firth.text.backend import edge, read_backend, steps, vocab_backend
from firth.text.cuts import LONG, Piece, cutter, spec
from firth.text.marks import stretched
from firth.text.repair import repair
from firth.text.special import read_config, role_ids, token_names
from firth.text.vocabulary import NAMES, Split, apart, learn

BATCH = 1 << 20  # characters that the library holds at once
KINDS = {"WordPiece": "wordpiece", "BPE": "bpe", "WordLevel": "words", "Unigram": "unigram"}
Row = tuple[str, ...]  # a text, or a text and its pair
DROP_SPACE = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
FAR = 10**9  # libraries write a huge number for "no limit"


@dataclass(frozen=True, slots=True)
class Encoding:
    """The pieces of one text or pair, made from the text itself."""

    ids: list[int]
    segments: list[int]
    offsets: list[
        tuple[int, int]
    ]  # characters of the text that the piece came from; (0, 0) for special tokens
    words: list[int | None]  # index of the word within its text, None for special tokens
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
            self._cutter = cutter(backend)
            self._spaced = _keeps_space(backend)
            roles = role_ids(backend, names)
            self.size: int = 1 + max(backend.get_vocab(True).values())
        self.cls, self.sep, self.mask = roles["cls"], roles["sep"], roles["mask"]
        self.unk, self.pad = roles["unk"], roles["pad"]
        kind = KINDS.get(type(backend.model).__name__, "unknown")
        self.kind = "bytes" if kind == "bpe" and _by_bytes(backend) else kind
        self.split = _split(backend) if kind == "words" else None  # what parts words

    @classmethod
    def open(cls, folder: Path) -> "Tokenizer":
        """Open the tokenizer.json of a folder as it is, else the vocab.txt of a BERT."""
        config = read_config(folder)
        names = token_names(config)
        length = config.get("model_max_length")
        length = length if type(length) is int and 0 < length < FAR else None
        whole, plain = folder / "tokenizer.json", folder / "vocab.txt"
        if whole.exists():
            return cls(read_backend(whole), str(whole), names, length)
        if not plain.exists():
            raise InputError(f"{folder} has no tokenizer.json and no vocab.txt")
        lower, accents, chinese = (
            config.get(k) for k in ("do_lower_case", "strip_accents", "tokenize_chinese_chars")
        )
        for name, value in (
            ("do_lower_case", lower),
            ("strip_accents", accents),
            ("tokenize_chinese_chars", chinese),
        ):
            if value is not None and not isinstance(value, bool):
                raise InputError(
                    f"{folder / 'tokenizer_config.json'} has {value!r} for {name}: it must be true or false"
                )
        backend = vocab_backend(plain, lower is not False, accents, chinese is not False, names)
        return cls(backend, str(plain), names, length)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        kind: Literal["wordpiece", "bytes", "words"] = "wordpiece",
        size: int = 30000,
        case: Literal["lower", "keep"] | None = None,
        accents: Literal["keep", "strip"] | None = None,
        split: Split = "spaces",
    ) -> "Tokenizer":
        """Learn a vocabulary; what isn't said is lower case with its accents kept, and for `bytes` the text as it is."""
        if case not in ("lower", "keep", None) or accents not in ("keep", "strip", None):
            raise InputError(
                f"case is lower or keep and accents is keep or strip, not {case!r} and {accents!r}"
            )
        lower = case == "lower" or (case is None and kind != "bytes")
        backend = learn(texts, kind, size, lower, accents == "strip", split)
        return cls(backend, f"the learned {kind}", dict(NAMES[kind]))

    def save(self, folder: Path, length: int | None = None, segments: bool = True) -> None:
        """Write files that `transformers` opens to the same ids; without `segments` for a model that has none."""
        with edge(self.source):
            text = self._backend.to_str(pretty=True)
            vocab = sorted(self._backend.get_vocab(False).items(), key=lambda item: item[1])
            added = [
                token.content
                for token in self._backend.get_added_tokens_decoder().values()
                if token.special
            ]
        names = {key: name for key, name in self.names.items() if self.id(name) is not None}
        for role in ("pad", "unk", "cls", "sep", "mask"):
            number = getattr(self, role)
            if number is not None and self.piece(number) in added:
                names.setdefault(f"{role}_token", self.piece(number))
        length = length if length is not None else self.length
        config: dict[str, Any] = {
            # Any other class is rebuilt by transformers from the vocabulary, with rules of its own.
            "tokenizer_class": "TokenizersBackend",
            "model_input_names": [
                "input_ids",
                *(["token_type_ids"] if segments else []),
                "attention_mask",
            ],
            **({"model_max_length": length} if length is not None else {}),
            **names,
        }
        others = [name for name in added if name not in names.values()]
        if others:
            config["extra_special_tokens"] = others
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")
        (folder / "tokenizer_config.json").write_text(
            json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        lines = [piece for piece, _ in vocab]
        if (
            self.kind == "wordpiece"
            and len(lines) == self.size
            and not any("\n" in line for line in lines)
        ):
            (folder / "vocab.txt").write_text(
                "".join(f"{line}\n" for line in lines), encoding="utf-8"
            )

    @property
    def fingerprint(self) -> str:
        """What tells one set of rules and pieces from another: the sha256 of all that decides how a text is encoded."""
        with edge(self.source):
            return hashlib.sha256(self._backend.to_str().encode()).hexdigest()

    def encode(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, special: bool = True
    ) -> list[Encoding]:
        """Encode texts, or texts with their pairs, whole: nothing is cut and nothing is padded."""
        for given in (texts, pairs):
            if isinstance(given, str) or not all(isinstance(text, str) for text in given or ()):
                raise InputError("encode takes a list of texts, and nothing else")
        if pairs is not None and len(pairs) != len(texts):
            raise InputError(f"{len(texts)} texts can't be paired with {len(pairs)}")
        columns = [
            [repair(text)[0] for text in given] for given in (texts, pairs) if given is not None
        ]
        rows: list[Row] = list(zip(*columns, strict=True))
        found: list[Encoding] = []
        for batch in _batches(rows):
            if self._cutter and any(len(text) > LONG for text in batch[0]):
                found.append(self._long(batch[0], special))
            else:
                found.extend(
                    self._encoding(one, row)
                    for one, row in zip(self._run(batch, special), batch, strict=True)
                )
        return found

    def _run(self, rows: Sequence[Row], special: bool) -> list[Found]:
        """Call the library, which takes a text as such and a pair as a tuple."""
        with edge(self.source):
            if len(rows) == 1:
                first, second = (*rows[0], None)[:2]
                return [self._backend.encode(first, second, add_special_tokens=special)]
            inputs = [row[0] if len(row) == 1 else row for row in rows]
            return list(self._backend.encode_batch(inputs, add_special_tokens=special))

    def _encoding(self, found: Found, row: Row) -> Encoding:
        offsets, words, parts = found.offsets, found.word_ids, found.sequence_ids
        for part, text in enumerate(row):
            if (self._spaced or not text.isascii()) and part in parts:
                begin = parts.index(part)
                end = len(parts) - parts[::-1].index(part)
                offsets[begin:end] = self._places(offsets[begin:end], words[begin:end], text)
        return Encoding(found.ids, found.type_ids, offsets, words, parts)

    def _places(
        self, offsets: list[tuple[int, int]], words: list[int | None], text: str
    ) -> list[tuple[int, int]]:
        """Where pieces stand in a text, by where the library says that they do."""
        return stretched(_trimmed(offsets, words, text) if self._spaced else offsets, text)

    def _long(self, row: Row, special: bool) -> Encoding:
        """Encode a long text piece by piece, then put what stands around a short one around it."""
        assert self._cutter is not None
        bodies = [self._body(list(self._cutter.pieces(text))) for text in row]
        shell = self._run([tuple(body.sample for body in bodies)], special)[0]
        whole = Encoding([], [], [], [], [])
        done: set[int] = set()
        rows = zip(shell.ids, shell.type_ids, shell.sequence_ids, strict=True)
        for number, segment, part in rows:
            if part is None:
                whole.ids.append(number)
                whole.segments.append(segment)
                whole.offsets.append((0, 0))
                whole.words.append(None)
                whole.parts.append(None)
            elif part not in done:
                done.add(part)
                body = bodies[part]
                whole.ids.extend(body.ids)
                whole.segments.extend([segment] * len(body.ids))
                whole.offsets.extend(self._places(body.offsets, body.words, row[part]))
                whole.words.extend(body.words)
                whole.parts.extend([part] * len(body.ids))
        return whole

    def _body(self, pieces: list[Piece]) -> "_Body":
        body = _Body([], [], [])
        base = 0
        for begin in range(0, len(pieces), 16):
            group = pieces[begin : begin + 16]
            for piece, found in zip(
                group, self._run([(piece.text,) for piece in group], special=False), strict=True
            ):
                body.ids.extend(found.ids)
                body.offsets.extend(piece.places(found.offsets))
                words = found.word_ids
                body.words.extend([None if word is None else word + base for word in words])
                base += 1 + (words[-1] or 0) if words else 0
                if words and not body.sample:
                    body.sample = piece.text[: max(1, found.offsets[0][1])]
        return body

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """Turn ids back into text, with the special tokens only where they are asked for."""
        with edge(self.source):
            return self._backend.decode(list(ids), skip_special_tokens=not special)

    def normalise(self, text: str) -> str:
        """A text as the pieces spell it: in lower case, or however the vocabulary was learned."""
        with edge(self.source):
            return (
                self._backend.normalizer.normalize_str(text) if self._backend.normalizer else text
            )

    def piece(self, number: int) -> str:
        """The piece that has an id; empty where none has."""
        return self._backend.id_to_token(number) or "" if 0 <= number < self.size else ""

    def id(self, piece: str) -> int | None:
        """The id of a piece, if it is in the vocabulary."""
        return self._backend.token_to_id(repair(piece)[0])


@dataclass(slots=True)
class _Body:
    """What a long text encodes to without special tokens, and a start of it that has a piece."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    words: list[int | None]
    sample: str = ""


def _batches(rows: list[Row]) -> Iterator[list[Row]]:
    """Group rows so that the library holds few at once; one with a long text stands alone."""
    batch: list[Row] = []
    total = 0
    for row in rows:
        size = max(map(len, row))
        if batch and (size > LONG or total + size > BATCH):
            yield batch
            batch, total = [], 0
        batch.append(row)
        total += size if size <= LONG else BATCH
    if batch:
        yield batch


def _by_bytes(backend: Backend) -> bool:
    parts = [*steps(spec(backend.pre_tokenizer)), *steps(spec(backend.normalizer))]
    return any(step.get("type") == "ByteLevel" for step in parts)


def _split(backend: Backend) -> Split:
    return "punctuation" if spec(apart()) in steps(spec(backend.pre_tokenizer)) else "spaces"


def _keeps_space(backend: Backend) -> bool:
    """Whether the place of a piece may take in the white space around it, as with GPT-2's published tokenizer."""
    parts = [step.get("type") for step in steps(spec(backend.pre_tokenizer))]
    trims = any(step.get("trim_offsets") for step in steps(spec(backend.post_processor)))
    return not trims and not any(part in DROP_SPACE for part in parts)


def _trimmed(
    offsets: list[tuple[int, int]], words: list[int | None], text: str
) -> list[tuple[int, int]]:
    """Leave white space around a piece out of its place; a piece of nothing else keeps it, unless a word begins with it."""
    found = []
    for (first, last), word, following in zip(offsets, words, [*words[1:], None], strict=True):
        piece = text[first:last]
        if body := piece.strip():
            begin = last - len(piece.lstrip())
            found.append((begin, begin + len(body)))
        else:
            found.append((last if word is not None and word == following else first, last))
    return found
