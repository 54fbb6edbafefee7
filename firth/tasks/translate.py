"""Text to text: the target that an encoder-decoder makes of a source, as a translation.

S source tokens, U target tokens, B pairs, D width, V words that are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from firth.base.errors import InputError
from firth.data.examples import Example, TextToText
from firth.data.record import on_a_line
from firth.data.window import Long, Window
from firth.reading.sides import PairReader, SourceReader
from firth.tasks.task import Answer, OpenModel
from firth.tasks.trained import Scoring, TrainedTask, TrainingData

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor, nn

    from firth.data.batch import Batch
    from firth.data.rows import Targets
    from firth.models.protocols import EncoderDecoder
    from firth.models.search import Generated
    from firth.text.tokenizer import Encoding, Tokenizer

BEAM, MOST_BEAM = 4, 100  # how many beginnings are kept at every length
MOST_TOKENS = 256  # of a translation, where the model has no limit


@dataclass(frozen=True)
class TranslationCandidate:
    """A translation, and its log-probability divided by its number of tokens."""

    translation: str
    score: float


@dataclass(frozen=True)
class AlignedWord:
    """A word of a translation, and the word of the source that the model attended to most."""

    target: str
    source: str
    target_word: int  # number from 0
    source_word: int
    weight: float  # share of the attention


@dataclass(frozen=True)
class Translation(Answer):
    """A translation with the candidates that it is the best of.

    The words are aligned where that was asked for.
    """

    translation: str
    score: float
    candidates: tuple[TranslationCandidate, ...]
    alignment: tuple[AlignedWord, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return the answer as a JSON object."""
        lists = {
            "candidates": [asdict(one) for one in self.candidates],
            "alignment": [asdict(one) for one in self.alignment],
        }
        return super().as_json() | lists


class Found(NamedTuple):
    """What was found for a source: the best first."""

    candidates: tuple[TranslationCandidate, ...]
    weights: NDArray[Any] | None  # (U, S) of the best one's tokens, if words are to be aligned


class Translate(TrainedTask[Found, Translation]):
    """Learn from pairs of texts, and make a target of a source by beam search.

    `beam` beginnings are kept at every length (1 takes the likeliest token each time), `top` of
    what they end as is named, and `align` says which word of the source each word comes from.
    """

    name = "translate"
    help = "A translation, or any other text that is made of a text."
    kinds = {name: "a translation"}
    contract = "encoder-decoder"
    reader = PairReader
    asks = SourceReader
    single = True
    options = {
        "smoothing": "text to text",
        "target": "text to text",
        "dev_target": "text to text",
        "vocab_kind": "text to text",
        "case": "text to text",
        "separate_vocabs": "text to text",
    }
    usual = {"micro": 8192, "dropout": 0.3, "smoothing": 0.1, "average": 0.1}
    unused = frozenset(
        {"second", "missing", "features", "combine", "head", "new_head", "top", "vectors"}
    )
    predict_options = ("beam", "top", "align", "tokens")
    extra_fields = ("candidates", "alignment")
    selectable = {name: ("perplexity",)}
    select = "perplexity"
    sums = ("loss", "targets")
    columns = {"translation": "text", "score": "number"}

    def __init__(
        self,
        target_tokenizer: Tokenizer | None = None,
        beam: int | None = None,
        top: int | None = None,
        align: bool = False,
        tokens: int = MOST_TOKENS,
        smoothing: float = 0.0,
    ) -> None:
        self.target_tokenizer = target_tokenizer
        self.beam = beam or BEAM
        self.top = top
        self.align = align
        self.tokens = tokens
        self.smoothing = smoothing

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task of a folder; the options are those of its `predict`."""
        most = min(MOST_TOKENS, bundle.length or MOST_TOKENS)
        return cls(
            bundle.targets,
            options.get("beam"),
            options.get("top"),
            options.get("align", False),
            min(most, options.get("tokens") or most),
        )

    @classmethod
    def of_examples(
        cls,
        kind: str,
        labels: Sequence[str],
        examples: Sequence[Example] = (),
        select: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the task to learn."""
        return cls(smoothing=(options or {}).get("smoothing") or 0.0)

    @classmethod
    def plan(cls, data: TrainingData) -> tuple[str, tuple[str, ...]]:
        """Return that targets are no labels."""
        return cls.name, ()

    @classmethod
    def check_dev(cls, dev: Sequence[Example], name: str, options: Mapping[str, Any]) -> None:
        """Refuse to train where what was learned couldn't be measured in the end."""
        from firth.metrics.bleu import sacrebleu_metrics

        sacrebleu_metrics()

    def model(self, bundle: OpenModel) -> EncoderDecoder:
        """Return the whole model: there is no head."""
        return bundle.translator

    def check_long(self, long: Long) -> None:
        """Refuse to translate in windows: a sentence that is cut in two is no sentence."""
        if long == "slide":
            raise InputError(
                "--long slide is not for translating: split long texts into sentences first"
            )

    def cure(self, long: Long) -> str:
        """Say what would let the model read what was cut off."""
        return "(split long texts into sentences)"

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[Encoding]]:
        """Encode each source once."""
        return [[one] for one in tokenizer.encode([example.text for example in examples])]

    def encode_targets(
        self, examples: Sequence[Example], tokenizer: Tokenizer, end: int
    ) -> list[list[int]]:
        """Encode targets, each with its end mark."""
        texts = [example.target for example in examples if isinstance(example, TextToText)]
        return [[*one.ids, end] for one in tokenizer.encode(texts, special=False)]

    def logits(
        self, model: EncoderDecoder, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[Found]:
        """Return the best translations of each row, and the attention behind the first."""
        every = self.search(model, batch)
        found = [Found(self._candidates(one, model.end), None) for one in every]
        if not self.align:
            return found
        weights = self._weights(model, batch, [one.candidates[0].translation for one in found])
        return [one._replace(weights=row) for one, row in zip(found, weights, strict=True)]

    def search(self, model: EncoderDecoder, batch: Batch) -> list[list[Generated]]:
        """Return the targets that are found for each source, the best first."""
        from firth.models.search import Beam, Greedy
        from firth.models.translate import translate

        width = max(self.beam, self.top or 1)
        how = Greedy() if width == 1 else Beam(width, width)
        return translate(model, batch.ids, batch.lengths, how, most=self.tokens)

    def text(self, found: Generated, end: int) -> str:
        """Return a target as text."""
        assert self.target_tokenizer is not None
        ids = found.ids[:-1] if found.ids[-1] == end else found.ids
        return self.target_tokenizer.decode(ids)

    def _candidates(self, found: Sequence[Generated], end: int) -> tuple[TranslationCandidate, ...]:
        """Return what was found as texts; several ways to spell one text are one."""
        every: dict[str, TranslationCandidate] = {}
        for one in found:
            text = self.text(one, end)
            score = sum(one.scores) / len(one.scores)
            every.setdefault(text, TranslationCandidate(text, score))
        return tuple(every.values())

    def _weights(
        self, model: EncoderDecoder, batch: Batch, texts: Sequence[str]
    ) -> list[NDArray[Any]]:
        """Return how the tokens of each translation weigh those of its source (U, S)."""
        import torch

        assert self.target_tokenizer is not None
        encoded = self.target_tokenizer.encode(texts, special=False)
        # A translation that was cut is as long as the model takes without its end mark.
        targets = [[*one.ids, model.end][: model.length] for one in encoded]
        ids = torch.tensor([number for target in targets for number in target])
        lengths = torch.tensor([len(target) for target in targets])
        found = model.align(batch.ids, batch.lengths, ids, lengths)
        if found is None:
            raise InputError(
                "--align shows attention, and this model has none between source and target"
            )
        return [weights.float().cpu().numpy() for weights in found]

    def combine(self, rows: Sequence[Window], logits: Sequence[Found]) -> Found:
        """Return what was found for the one window of a source."""
        (found,) = logits
        return found

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[Found],
        truncated: int,
    ) -> Translation:
        """Return the best translation, with the others and the alignment of its words.

        Of white space nothing is made, whatever a model would write that never learned of such.
        """
        if not example.text.strip():
            nothing = TranslationCandidate("", 0.0)
            return Translation("", 0.0, (nothing,), truncated_tokens=truncated)
        (found,) = logits
        best = found.candidates[0]
        alignment: tuple[AlignedWord, ...] = ()
        if found.weights is not None:
            alignment = self._aligned(example.text, encodings[0], best.translation, found.weights)
        return Translation(
            best.translation,
            best.score,
            found.candidates[: self.top],
            alignment,
            truncated_tokens=truncated,
        )

    def _aligned(
        self, source: str, encoding: Encoding, target: str, weights: NDArray[Any]
    ) -> tuple[AlignedWord, ...]:
        """Return for each word of a translation the word of the source with the most attention."""
        import numpy as np

        assert self.target_tokenizer is not None
        (target_encoding,) = self.target_tokenizer.encode([target], special=False)
        words = source.split()
        columns = word_of_tokens(source, encoding)[: weights.shape[1]]
        rows = word_of_tokens(target, target_encoding)[: len(weights)]
        by_word = np.zeros((len(weights), len(words)))
        for token, place in enumerate(columns):
            if place is not None:
                by_word[:, place] += weights[:, token]
        found = []
        for number, word in enumerate(target.split()):
            tokens = [token for token, of in enumerate(rows) if of == number]
            if not tokens or not words:
                continue
            shares = by_word[tokens].mean(0)
            best = int(shares.argmax())
            found.append(AlignedWord(word, words[best], number, best, float(shares[best])))
        return tuple(found)

    def line(self, example: Example, answer: Translation) -> str:
        """Return the translation; with `top` the candidates below, with `align` the words."""
        lines = [on_a_line(answer.translation)]
        if self.top is not None:
            for one in answer.candidates:
                said = on_a_line(one.translation)
                lines.append(f"    {one.score:8.4f}  {said}")
        for pair in answer.alignment:
            words = f"{pair.target} <- {pair.source}"
            lines.append(f"    {pair.weight:7.2%}  {words}")
        return "\n".join(lines)

    def targets(
        self, example: Example, encodings: Sequence[Encoding], number: int, window: Window
    ) -> Targets:
        """Refuse: the targets of pairs are texts, which `encode_targets` encodes."""
        raise NotImplementedError("the targets of pairs are encoded with their own tokenizer")

    def counts(self, batch: Batch) -> dict[str, float]:
        """Count the tokens to name, end marks included."""
        from firth.data.sides import SAID

        return {"target": float(batch.targets[SAID].sum())}

    def losses(self, encoder: Any, head: Any, batch: Batch) -> dict[str, Tensor]:
        """Sum the cross-entropy of the targets' tokens, smoothed."""
        return {"target": _loss(encoder, batch, self.smoothing)}

    def tally(self, encoder: Any, head: Any, batch: Batch) -> dict[str, float]:
        """Sum the cross-entropy as it is."""
        loss = _loss(encoder, batch, 0.0)
        return {"loss": float(loss), "targets": self.counts(batch)["target"]}

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return the loss of a token and its perplexity."""
        loss = sums["loss"] / max(1.0, sums["targets"])
        return {"loss": loss, "perplexity": math.exp(min(loss, MOST_LOSS))}

    def select_value(self, metrics: Mapping[str, float]) -> float:
        """Return BLEU where it was measured, and else the perplexity, of which less is better."""
        return metrics["bleu"] if "bleu" in metrics else -metrics["perplexity"]

    def scoring(
        self, others: Iterable[str] = (), positive: str | None = None, keep: bool = True
    ) -> Scoring:
        """Return what adds up translations."""
        return TranslationScoring()


MOST_LOSS = 700.0  # whose exponential is still a number


class TranslationScoring(Scoring):
    """Adds up translations by BLEU and chrF."""

    def __init__(self) -> None:
        from firth.metrics.bleu import TranslationTally

        self.tally: TranslationTally = TranslationTally()
        self.signatures = self.tally.signatures

    def add(self, example: Example, graded: Translation) -> None:
        """Count a translation."""
        assert isinstance(example, TextToText)
        self.tally.add(example.target, graded.translation)


def word_of_tokens(text: str, encoding: Encoding) -> list[int | None]:
    """Return the number of the word, between white space, that each token stands in."""
    words: list[int] = []  # of each character, that of the word that it begins or continues
    number = -1
    inside = False
    for sign in text:
        if sign.isspace():
            inside = False
        elif not inside:
            number += 1
            inside = True
        words.append(number)
    found: list[int | None] = []
    for start, end in encoding.offsets:
        place = next((at for at in range(start, end) if not text[at].isspace()), None)
        found.append(None if place is None else words[place])
    return found


def _loss(encoder: EncoderDecoder, batch: Batch, smoothing: float) -> Tensor:
    """Return the summed cross-entropy of what can be written of the targets."""
    from firth.data.batch import TARGET
    from firth.data.sides import LENGTHS, SAID
    from firth.nn.vocab import cross_entropy

    targets = batch.targets
    x = encoder(batch.ids, batch.lengths, targets[TARGET], targets[LENGTHS])  # (U, D)
    rows = targets[TARGET] - encoder.first  # (U)
    said = targets[SAID]
    if not said.all():
        x = x[said]
        rows = rows[said]
    output = encoder.output
    return cross_entropy(x, output.weight, rows, output.bias, smoothing)


TASK = Translate
