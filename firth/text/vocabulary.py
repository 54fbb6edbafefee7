"""Vocabularies learned from text: the same text gives the same pieces with the same ids."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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
from firth.text.backend import edge, template
from firth.text.repair import repair
from firth.text.special import sentinel_names

BERT_NAMES = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
PLAIN_NAMES = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
}
NAMES = {"wordpiece": BERT_NAMES, "bytes": PLAIN_NAMES, "words": PLAIN_NAMES}
LEAST = {
    "wordpiece": 64,
    "bytes": 256 + len(PLAIN_NAMES),
    "words": 1 + len(PLAIN_NAMES),
}
BATCH = 256  # texts that the library is given at once
START = "\ue000"  # marks a word's start; private characters never get past the normalizer
RARE = 100_000  # one character in so many may be left out of a WordPiece alphabet
HAN = "㐀-鿿豈-﫿\U00020000-\U0002fa1f"
# Words too long to be known, or to be a word: learning from one costs its length times the number
# of pieces.
ENDLESS = {
    "wordpiece": re.compile(rf"(?<![^\W_{HAN}])[^\W_{HAN}]{{101,}}"),
    "bytes": re.compile(r"(?<![^\W_])[^\W_]{1001,}"),
}
LONGEST_WORD = 100  # characters; the patterns above are tried only where a word is longer
# How a vocabulary of words splits a text: at white space alone, or also between words and
# punctuation.
Split = Literal["punctuation", "spaces"]
# A text in which punctuation stands apart has at most this share of words that end in a comma.
MOST_COMMAS = 0.001
FIRST_WORDS = 1_000_000  # of a text, in which the share is measured
IN_WORD = r"[\p{L}\p{M}\p{N}_]"
# A mark such as <unk>; single letters with points (U.S., e.g.); a word, with hyphens and
# apostrophes inside it and points, commas and colons between its digits; or a run of one other
# sign.
APART = (
    r"</?[\p{L}\p{N}_]+>|(?:\p{L}\.){2,}"
    rf"|{IN_WORD}+(?:(?:['’‐‑-]|\p{{Cf}}+){IN_WORD}+|(?<=\p{{N}})[.,:](?=\p{{N}}){IN_WORD}+)*"
    r"|([^\s\p{L}\p{M}\p{N}_])\1*"
)
CLOSING = r".,;:!?…)\]}»”’"  # no blank before these
OPENING = r"(\[{«“‘¿¡"  # no blank after these


def learn(
    texts: Iterable[str],
    kind: str,
    size: int,
    lower: bool,
    strip: bool,
    split: Split = "spaces",
    end_last: bool = False,
    sentinels: int = 0,
) -> Backend:
    """Learn a vocabulary of at most `size` pieces, special tokens included.

    With `end_last` the end mark comes after the other special tokens: of a target it is the only
    one that is ever written, but for so many `sentinels`, which follow it.
    """
    if kind not in NAMES:
        raise InputError(f"no kind of vocabulary is called {kind!r}; there are {', '.join(NAMES)}")
    least = LEAST[kind] + sentinels
    if size < least:
        raise InputError(f"a vocabulary of {size} is too small: {kind} needs at least {least}")
    if split != "spaces" and kind != "words":
        raise InputError(f"a split is for a vocabulary of words, not of {kind}")

    names = dict(NAMES[kind])
    if end_last:
        names["sep_token"] = names.pop("sep_token")
    special = [*names.values(), *sentinel_names(sentinels)]
    source = _Source(texts, kind)
    with edge(f"learning {kind}"):
        if kind == "words":
            backend = _words(source, size, lower, strip, split, special)
        elif kind == "bytes":
            backend = _bytes(source, size, lower, strip, special)
        else:
            backend = _wordpiece(source, size, lower, strip, special)

        _add_special(backend, special)
        around = template(backend, names["cls_token"], names["sep_token"])
        if kind == "bytes":
            trim = processors.ByteLevel(add_prefix_space=False, trim_offsets=True)
            backend.post_processor = processors.Sequence([trim, around])
        else:
            backend.post_processor = around
    return backend


def list_words(words: Iterable[str], lower: bool, split: Split) -> Backend:
    """Make a vocabulary of given words, each with its place as its id.

    Special tokens that are not among them follow. None is put around a text, since vectors of words
    know nothing of where a text ends.
    """
    pieces = dict.fromkeys([*words, *PLAIN_NAMES.values()])
    with edge("a list of words"):
        model = models.WordLevel(_numbered(pieces), unk_token=PLAIN_NAMES["unk_token"])
        backend = _word_backend(model, lower, strip=False, split=split)
        _add_special(backend, PLAIN_NAMES.values())
    return backend


def _add_special(backend: Backend, names: Iterable[str]) -> None:
    """Make special tokens of pieces, or add those that are none yet."""
    backend.add_special_tokens([AddedToken(name, special=True) for name in names])


class _Source:
    """Texts on their way to the library: repaired, counted, and with their own errors kept."""

    def __init__(self, texts: Iterable[str], kind: str) -> None:
        self.texts = texts
        self.endless = ENDLESS.get(kind)
        self.count = kind == "wordpiece"
        self.characters: Counter[str] = Counter()
        self.empty = True
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[list[str]]:
        texts = self._repaired()
        while batch := list(islice(texts, BATCH)):
            yield batch

    def _repaired(self) -> Iterator[str]:
        """Yield the texts without lone surrogates and endless words."""
        try:
            for given in self.texts:
                text, _ = repair(given)
                self.empty = self.empty and not text.strip()
                if self.endless and _longest(text.split()) > LONGEST_WORD:
                    text = self.endless.sub(" ", text)
                if self.count:
                    self.characters.update(normalize("NFC", text))
                yield text
        except BaseException as error:
            self.error = error
            raise

    def train(self, backend: Backend, trainer: trainers.Trainer) -> None:
        """Train on the texts; an error of theirs comes out as it went in."""
        try:
            backend.train_from_iterator(iter(self), trainer)
        except BaseException:
            if self.error is not None:
                raise self.error from None
            raise
        if self.empty:
            raise InputError("there is no text to learn a vocabulary from")


def _longest(words: list[str]) -> int:
    """Return the length of the longest word, 0 where there is none."""
    return max(map(len, words), default=0)


def _wordpiece(
    source: _Source, size: int, lower: bool, strip: bool, special: Sequence[str]
) -> Backend:
    """Learn WordPiece by merging pairs of pieces, most frequent first.

    Schuster and Nakajima (2012), Sennrich et al. (2016). The library's own trainer numbers the
    pieces inside words by hash order, so that ties fall differently each time; here the start of a
    word is marked instead, and the pieces are renamed afterwards.
    """
    bert = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=strip, lowercase=lower
    )
    normalizer = normalizers.Sequence([bert, normalizers.NFC()])
    splitter = pre_tokenizers.BertPreTokenizer()
    marker = pre_tokenizers.Metaspace(replacement=START, prepend_scheme="always", split=False)

    learner = Backend(models.BPE())
    learner.normalizer = normalizer
    learner.pre_tokenizer = pre_tokenizers.Sequence([splitter, marker])
    # Twice the size, because rare characters take places here and not below; merges come in the
    # order of their frequency.
    trainer = trainers.BpeTrainer(vocab_size=2 * size, min_frequency=2, show_progress=False)
    source.train(learner, trainer)

    alphabet = _alphabet(source.characters, normalizer, size // 4)
    pieces = [*special, *alphabet]
    for sign in alphabet:
        # A sign that always stands alone, as punctuation does, is never inside a word.
        after_letter = normalizer.normalize_str(f"a{sign}")
        if len(splitter.pre_tokenize_str(after_letter)) == 1:
            pieces.append(f"##{sign}")

    vocab = dict.fromkeys(pieces)
    known = {START, *alphabet}
    merges = learner.get_vocab()
    for merged in sorted(merges, key=merges.__getitem__):
        if len(vocab) >= size:
            break
        if len(merged) > 1 and known.issuperset(merged):
            piece = merged[1:] if merged[0] == START else f"##{merged}"
            vocab[piece] = None

    model = models.WordPiece(
        _numbered(vocab), unk_token=BERT_NAMES["unk_token"], max_input_chars_per_word=LONGEST_WORD
    )
    backend = Backend(model)
    backend.normalizer = normalizer
    backend.pre_tokenizer = splitter
    backend.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    return backend


def _numbered(pieces: Iterable[str]) -> dict[str, int]:
    """Give each piece its place as its id."""
    return {piece: number for number, piece in enumerate(pieces)}


def _alphabet(counts: Counter[str], normalizer: normalizers.Normalizer, most: int) -> list[str]:
    """Return the characters worth a piece of their own, in order.

    They are all but the rarest, which together are next to nothing.
    """
    seen: Counter[str] = Counter()
    for sign, number in counts.items():
        for normal in normalizer.normalize_str(sign):
            if not normal.isspace():
                seen[normal] += number

    ranked = sorted(seen, key=lambda sign: (-seen[sign], sign))
    spare = seen.total() // RARE
    while ranked and seen[ranked[-1]] <= spare:
        spare -= seen[ranked.pop()]
    return sorted(ranked[:most])


def _bytes(source: _Source, size: int, lower: bool, strip: bool, special: Sequence[str]) -> Backend:
    """Learn byte-level BPE (Radford et al. 2019), which gives every text back as it was."""
    if lower or strip:
        what = "it has no lower case and strips no accents"
        raise InputError(f"a vocabulary of bytes keeps every text as it is: {what}")
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        show_progress=False,
        special_tokens=list(special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    source.train(backend, trainer)
    return backend


def comma_share(texts: Iterable[str]) -> float:
    """Return the share of a text's first million words that end in a comma.

    A comma that stands alone is none of them.
    """
    seen = 0
    commas = 0
    for text in texts:
        words = text.split()[: FIRST_WORDS - seen]
        seen += len(words)
        commas += sum(word.endswith(",") for word in words) - words.count(",")
        if seen >= FIRST_WORDS:
            break
    return commas / max(1, seen)


def punctuation_apart() -> pre_tokenizers.PreTokenizer:
    """Make the rule that splits words from punctuation, after a split at white space."""
    return pre_tokenizers.Split(Regex(APART), "isolated")


def _joiner() -> decoders.Decoder:
    """Make the rule that joins words by blanks, but not before or after punctuation."""
    # No word begins with a blank, so that each gets one.
    blanks = decoders.WordPiece(prefix=" ", cleanup=False)
    closing = decoders.Replace(Regex(f" (?=[{CLOSING}])"), "")
    opening = decoders.Replace(Regex(f"(?<=[{OPENING}]) "), "")
    return decoders.Sequence([blanks, decoders.Fuse(), closing, opening])


def _word_backend(model: models.WordLevel, lower: bool, strip: bool, split: Split) -> Backend:
    """Put the rules around a vocabulary of words."""
    normal: list[normalizers.Normalizer] = []
    if strip:
        normal += [normalizers.NFD(), normalizers.StripAccents()]
    if lower:
        normal.append(normalizers.Lowercase())
    normal.append(normalizers.NFC())
    splitter: pre_tokenizers.PreTokenizer = pre_tokenizers.WhitespaceSplit()
    if split == "punctuation":
        splitter = pre_tokenizers.Sequence([splitter, punctuation_apart()])

    backend = Backend(model)
    backend.normalizer = normalizers.Sequence(normal)
    backend.pre_tokenizer = splitter
    if split == "punctuation":
        backend.decoder = _joiner()
    return backend


def _words(
    source: _Source, size: int, lower: bool, strip: bool, split: Split, special: Sequence[str]
) -> Backend:
    """Learn the most frequent words between white space, or also between punctuation."""
    unknown = PLAIN_NAMES["unk_token"]
    learner = _word_backend(models.WordLevel(unk_token=unknown), lower, strip, split)
    # Room for the special tokens, which the text may hold too: a word must not be numbered twice.
    room = size + len(special)
    source.train(learner, trainers.WordLevelTrainer(vocab_size=room, show_progress=False))

    vocab = learner.get_vocab()
    words = sorted(vocab, key=vocab.__getitem__)
    pieces = list(dict.fromkeys([*special, *words]))
    model = models.WordLevel(_numbered(pieces[:size]), unk_token=unknown)
    return _word_backend(model, lower, strip, split)
