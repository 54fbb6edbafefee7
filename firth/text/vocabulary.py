"""Learn a vocabulary from text: the same text gives the same pieces with the same ids."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Literal
from unicodedata import normalize

from tokenizers import (
    AddedToken,
    Regex,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from tokenizers import Tokenizer as Backend

from firth.base.errors import InputError
from firth.text.backend import edge, frame
from firth.text.repair import repair

BERT_NAMES = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
PLAIN_NAMES = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
}
NAMES = {"wordpiece": BERT_NAMES, "bytes": PLAIN_NAMES, "words": PLAIN_NAMES}
LEAST = {"wordpiece": 64, "bytes": 256 + len(PLAIN_NAMES), "words": len(PLAIN_NAMES) + 1}
START = "\ue000"  # marks a word's start; private characters never get past the normalizer
RARE = 100_000  # one character in so many may be left out of a WordPiece alphabet
HAN = "㐀-鿿豈-﫿\U00020000-\U0002fa1f"
# Words too long to be known, or to be a word: learning from one costs its length times the number of pieces.
ENDLESS = {
    "wordpiece": re.compile(rf"(?<![^\W_{HAN}])[^\W_{HAN}]{{101,}}"),
    "bytes": re.compile(r"(?<![^\W_])[^\W_]{1001,}"),
}
# How a vocabulary of words parts a text: at white space alone, or also between words and punctuation.
Split = Literal["punctuation", "spaces"]
MOST_COMMAS, FIRST_WORDS = (
    0.001,
    1_000_000,
)  # share of a text's first words that end in a comma if punctuation stands apart
IN_WORD = r"[\p{L}\p{M}\p{N}_]"
# A mark such as <unk>; single letters with points (U.S., e.g.); a word, with hyphens and apostrophes inside it and points, commas
# and colons between its digits; or a run of one other sign.
APART = (
    r"</?[\p{L}\p{N}_]+>|(?:\p{L}\.){2,}"
    rf"|{IN_WORD}+(?:(?:['’‐‑-]|\p{{Cf}}+){IN_WORD}+|(?<=\p{{N}})[.,:](?=\p{{N}}){IN_WORD}+)*"
    r"|([^\s\p{L}\p{M}\p{N}_])\1*"
)
CLOSING, OPENING = r".,;:!?…)\]}»”’", r"(\[{«“‘¿¡"  # no blank before, none after


def learn(
    texts: Iterable[str], kind: str, size: int, lower: bool, strip: bool, split: Split = "spaces"
) -> Backend:
    """Learn a vocabulary of at most `size` pieces, special tokens included."""
    if kind not in NAMES:
        raise InputError(f"no kind of vocabulary is called {kind!r}; there are {', '.join(NAMES)}")
    if size < LEAST[kind]:
        raise InputError(
            f"a vocabulary of {size} is too small: {kind} needs at least {LEAST[kind]}"
        )
    if split != "spaces" and kind != "words":
        raise InputError(f"a split is for a vocabulary of words, not of {kind}")
    source = _Source(texts, kind)
    with edge(f"learning {kind}"):
        if kind == "words":
            backend = _words(source, size, lower, strip, split)
        else:
            backend = {"wordpiece": _wordpiece, "bytes": _bytes}[kind](source, size, lower, strip)
        names = NAMES[kind]
        backend.add_special_tokens([AddedToken(name, special=True) for name in names.values()])
        first, last = names["cls_token"], names["sep_token"]
        around = frame(backend, first, last)
        if kind == "bytes":
            trim = processors.ByteLevel(add_prefix_space=False, trim_offsets=True)
            backend.post_processor = processors.Sequence([trim, around])
        else:
            backend.post_processor = around
    return backend


class _Source:
    """The texts on their way to the library: mended, counted, and with their own errors kept whole."""

    def __init__(self, texts: Iterable[str], kind: str) -> None:
        self.texts = texts
        self.endless = ENDLESS.get(kind)
        self.count = kind == "wordpiece"
        self.characters: Counter[str] = Counter()
        self.empty = True
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[list[str]]:
        texts = self._mended()
        while batch := list(islice(texts, 256)):
            yield batch

    def _mended(self) -> Iterator[str]:
        try:
            for given in self.texts:
                text, _ = repair(given)
                self.empty = self.empty and not text.strip()
                if self.endless and max(map(len, text.split()), default=0) > 100:
                    text = self.endless.sub(" ", text)
                if self.count:
                    self.characters.update(normalize("NFC", text))
                yield text
        except BaseException as error:
            self.error = error
            raise

    def teach(self, backend: Backend, trainer: trainers.Trainer) -> None:
        """Train on the texts; an error of theirs comes out as it went in."""
        try:
            backend.train_from_iterator(iter(self), trainer)
        except BaseException:
            if self.error is not None:
                raise self.error from None
            raise
        if self.empty:
            raise InputError("there is no text to learn a vocabulary from")


def _wordpiece(source: _Source, size: int, lower: bool, strip: bool) -> Backend:
    """Learn WordPiece by merging pairs of pieces, most frequent first (Schuster and Nakajima 2012, Sennrich et al. 2016).

    The library's own trainer numbers the pieces inside words by hash order, so that ties fall differently each time; here the
    start of a word is marked instead, and the pieces are renamed afterwards.
    """
    normalizer = normalizers.Sequence(
        [
            normalizers.BertNormalizer(
                clean_text=True, handle_chinese_chars=True, strip_accents=strip, lowercase=lower
            ),
            normalizers.NFC(),
        ]
    )
    splitter = pre_tokenizers.BertPreTokenizer()
    marker = pre_tokenizers.Metaspace(replacement=START, prepend_scheme="always", split=False)
    learner = Backend(models.BPE())
    learner.normalizer = normalizer
    learner.pre_tokenizer = pre_tokenizers.Sequence([splitter, marker])
    # Twice the size, because rare characters take places here and not below; merges come in the order of their worth.
    source.teach(
        learner, trainers.BpeTrainer(vocab_size=2 * size, min_frequency=2, show_progress=False)
    )
    alphabet = _alphabet(source.characters, normalizer, size // 4)
    joined = [
        sign
        for sign in alphabet
        if len(splitter.pre_tokenize_str(normalizer.normalize_str(f"a{sign}"))) == 1
    ]
    pieces = dict.fromkeys([*BERT_NAMES.values(), *alphabet, *(f"##{sign}" for sign in joined)])
    known = {START, *alphabet}
    for merged, _ in sorted(learner.get_vocab().items(), key=lambda item: item[1]):
        if len(pieces) >= size:
            break
        if len(merged) > 1 and known.issuperset(merged):
            pieces[merged[1:] if merged[0] == START else f"##{merged}"] = None
    vocab = {piece: number for number, piece in enumerate(pieces)}
    backend = Backend(
        models.WordPiece(vocab, unk_token=BERT_NAMES["unk_token"], max_input_chars_per_word=100)
    )
    backend.normalizer = normalizer
    backend.pre_tokenizer = splitter
    backend.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    return backend


def _alphabet(counts: Counter[str], normalizer: normalizers.Normalizer, most: int) -> list[str]:
    """The characters worth a piece of their own, in order: all but the rarest, which together are next to nothing."""
    seen: Counter[str] = Counter()
    for sign, number in counts.items():
        for normal in normalizer.normalize_str(sign):
            if not normal.isspace():
                seen[normal] += number
    ranked = sorted(seen, key=lambda sign: (-seen[sign], sign))
    spare = seen.total() // RARE
    while ranked and (spare := spare - seen[ranked[-1]]) >= 0:
        ranked.pop()
    return sorted(ranked[:most])


def _bytes(source: _Source, size: int, lower: bool, strip: bool) -> Backend:
    """Learn byte-level BPE (Radford et al. 2019); nothing is normalised, so that every text comes back as it was."""
    if lower or strip:
        raise InputError(
            "a vocabulary of bytes keeps every text as it is: it has no lower case and strips no accents"
        )
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        show_progress=False,
        special_tokens=list(PLAIN_NAMES.values()),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    source.teach(backend, trainer)
    return backend


def comma_share(texts: Iterable[str]) -> float:
    """Return the share of a text's first million words that end in a comma, one that stands alone left out."""
    seen = commas = 0
    for text in texts:
        words = text.split()[: FIRST_WORDS - seen]
        seen += len(words)
        commas += sum(word[-1] == "," and len(word) > 1 for word in words)
        if seen >= FIRST_WORDS:
            break
    return commas / max(1, seen)


def apart() -> pre_tokenizers.PreTokenizer:
    """Return the rule that parts words from punctuation, for texts that white space has parted."""
    return pre_tokenizers.Split(Regex(APART), "isolated")


def _joiner() -> decoders.Decoder:
    """Return the rule that joins words by blanks, with none before closing punctuation and none after opening."""
    return decoders.Sequence(
        [
            decoders.WordPiece(
                prefix=" ", cleanup=False
            ),  # no word begins with a blank, so that each gets one
            decoders.Fuse(),
            decoders.Replace(Regex(f" (?=[{CLOSING}])"), ""),
            decoders.Replace(Regex(f"(?<=[{OPENING}]) "), ""),
        ]
    )


def _words(source: _Source, size: int, lower: bool, strip: bool, split: Split) -> Backend:
    """Learn the most frequent words between white space, or between white space and punctuation."""
    strippers = [normalizers.NFD(), normalizers.StripAccents()] if strip else []
    lowerers = [normalizers.Lowercase()] if lower else []
    learner = Backend(models.WordLevel(unk_token=PLAIN_NAMES["unk_token"]))
    learner.normalizer = normalizers.Sequence([*strippers, *lowerers, normalizers.NFC()])
    spaces = pre_tokenizers.WhitespaceSplit()
    learner.pre_tokenizer = (
        spaces if split == "spaces" else pre_tokenizers.Sequence([spaces, apart()])
    )
    # Room for the special tokens, which the text may hold too: a word must not be numbered twice.
    source.teach(
        learner, trainers.WordLevelTrainer(vocab_size=size + len(PLAIN_NAMES), show_progress=False)
    )
    words = sorted(learner.get_vocab().items(), key=lambda item: item[1])
    pieces = list(dict.fromkeys([*PLAIN_NAMES.values(), *(word for word, _ in words)]))[:size]
    backend = Backend(
        models.WordLevel(
            {piece: number for number, piece in enumerate(pieces)},
            unk_token=PLAIN_NAMES["unk_token"],
        )
    )
    backend.normalizer = learner.normalizer
    backend.pre_tokenizer = learner.pre_tokenizer
    if split == "punctuation":
        backend.decoder = _joiner()
    return backend
