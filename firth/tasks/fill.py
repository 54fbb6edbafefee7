"""Fill the blanks of a text with the most probable words; say whether a text follows another.

M chosen tokens, B rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from firth.base.errors import InputError
from firth.data.examples import Example, is_pair
from firth.data.window import Window
from firth.reading.layout import Cell
from firth.tasks.encoded import EncodedTask
from firth.tasks.task import Answer, OpenModel
from firth.tasks.texts import encode_mixed

if TYPE_CHECKING:
    from torch import Tensor, nn

    from firth.data.batch import Batch
    from firth.models.protocols import Encoder
    from firth.nn.heads import PretrainHead
    from firth.text.tokenizer import Encoding, Tokenizer

PRETRAIN = "pretrain"  # the kind of a model that also says whether a text follows another
TOP = 5  # pieces for each blank
LONGEST_QUOTE = 60  # characters of a text in a message


@dataclass(frozen=True)
class LikelyPiece:
    """A word piece and how probable the model finds it."""

    piece: str
    probability: float


@dataclass(frozen=True)
class Blank:
    """One `[MASK]` of a text: its characters, and the most probable pieces, best first.

    There are none if the text was cut before it. `field` says in which text of a pair it stands.
    """

    start: int
    end: int
    choices: tuple[LikelyPiece, ...]
    field: Literal["text", "second"] = "text"


@dataclass(frozen=True)
class Filled(Answer):
    """A text with its blanks; of a pair also whether the second text follows the first."""

    text: str
    blanks: tuple[Blank, ...]
    next: bool | None = None  # None for a single text
    next_probability: float | None = None  # that the second text follows the first

    def as_json(self) -> dict[str, object]:
        """Return the answer as a JSON object."""
        blanks = []
        for blank in self.blanks:
            page = asdict(blank)
            if self.next is None:
                page.pop("field")
            blanks.append(page)
        page = {"text": self.text, "blanks": blanks}
        if self.next is not None:
            page |= {"next": self.next, "next_probability": self.next_probability}
        return page | {"truncated_tokens": self.truncated_tokens}

    def figures(self) -> dict[str, float]:
        """Return the probability of each piece for each blank, and that the second text follows."""
        found: dict[str, float] = {}
        for number, blank in enumerate(self.blanks, 1):
            where = f"blank {number}: " if len(self.blanks) > 1 else ""
            found |= {f"{where}{one.piece}": one.probability for one in blank.choices}
        if self.next_probability is not None:
            found["next"] = self.next_probability
        return found


class RankedPieces(NamedTuple):
    """The best pieces of one blank, before they have a text."""

    probabilities: Tensor
    ids: Tensor
    context: int  # tokens between the blank and the nearer edge of its text in the window


class BlankPlace(NamedTuple):
    """Where a blank stands."""

    part: int  # 0 first text, 1 second text
    start: int  # its first character in that text


class PretrainLogits(NamedTuple):
    """What the heads of pretraining say of one row."""

    blanks: dict[BlankPlace, RankedPieces]
    next: Tensor | None  # (2): that the second text follows, that it is another; None for one text


class Fill(EncodedTask[PretrainLogits, Filled]):
    """Fill the blanks of a text with the `top` most probable pieces.

    Of a pair, say also whether the second text follows the first.
    """

    name = "fill"
    help = "The most probable pieces for each [MASK] of a text."
    kinds = {
        name: "pieces for each blank",
        PRETRAIN: "pieces for each blank, and whether a text follows another",
    }
    heads = {name: "a head for hidden words", PRETRAIN: "the heads of pretraining"}
    measured_on = "masked text"
    predict_options = ("top",)
    columns = {"blanks": "json"}
    pair_columns: ClassVar[Mapping[str, Cell]] = {
        **columns,
        "next": "truth",
        "next_probability": "number",
    }

    def __init__(self, tokenizer: Tokenizer, top: int = TOP) -> None:
        if tokenizer.mask is None:
            raise InputError(
                "this model's tokenizer has no mask token, so there are no blanks to fill"
            )
        self.tokenizer = tokenizer
        self.mask = tokenizer.mask
        self.top = top

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the task of a folder; the option `top` is how many pieces a blank gets."""
        return cls(bundle.tokenizer, options.get("top") or TOP)

    @classmethod
    def make_head(
        cls,
        encoder: Encoder,
        kind: str,
        labels: tuple[str, ...],
        tied: bool = True,
        width: int | None = None,
    ) -> nn.Module | None:
        """Make fresh heads of pretraining."""
        from torch import nn

        from firth.nn.heads import MaskedHead, PretrainHead

        if encoder.table.shape[1] != encoder.width:
            raise InputError(
                f"the task {kind!r} is for encoders whose table is as wide as their vectors"
            )
        table = encoder.table if tied else None
        vocab = encoder.settings.vocab
        masked = MaskedHead(encoder.width, vocab, encoder.eps, encoder.activation, table)
        next_sentence = None
        if kind == PRETRAIN:
            next_sentence = nn.Linear(encoder.width, 2)
        return PretrainHead(masked, next_sentence)

    def columns_for(self, example: Example | None) -> Mapping[str, Cell]:
        """Return the columns of a table: those of pairs if this example is one."""
        if example is not None and is_pair(example):
            return self.pair_columns
        return self.columns

    def check(self, example: Example, bundle: OpenModel) -> None:
        """Refuse a pair where the model has no head for it."""
        if is_pair(example) and bundle.kind != PRETRAIN:
            raise InputError(
                "it is a pair, and this model has no next-sentence head: it fills the blanks of "
                "single texts"
            )
        super().check(example, bundle)

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[Encoding]]:
        """Encode each text or pair whole; a single text without a blank is refused."""
        encodings = encode_mixed(examples, tokenizer)
        for example, encoding in zip(examples, encodings, strict=True):
            if self.mask not in encoding.ids and not is_pair(example):
                quote = _shortened(example.text)
                raise InputError(f"no {tokenizer.piece(self.mask)} to fill in {quote!r}")
        return [[encoding] for encoding in encodings]

    def logits(
        self, model: Any, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[PretrainLogits]:
        """Rank the vocabulary at each blank of each row, and judge pairs."""
        is_blank = batch.ids == self.mask
        blanks = is_blank.nonzero()[:, 0]
        pairs = any(1 in window.row.parts for window in rows)
        logits, following = pretrain_logits(model, head, batch, blanks, pairs)
        vocab = logits.shape[-1]
        best = logits.softmax(-1).topk(min(self.top, vocab))
        best_probabilities = iter(best.values.cpu())
        best_ids = iter(best.indices.cpu())

        found = []
        for number, window in enumerate(rows):
            row = window.row
            of_row = PretrainLogits({}, None)
            if following is not None and 1 in row.parts:
                of_row = PretrainLogits({}, following[number].cpu())
            # Blanks stand in the stream in this order too.
            for place, token in enumerate(row.ids):
                if token != self.mask:
                    continue
                blank = _blank_place(row, place)
                context = _context(row, place)
                of_row.blanks[blank] = RankedPieces(
                    next(best_probabilities),
                    next(best_ids),
                    context,
                )
            found.append(of_row)
        return found

    def combine(self, rows: Sequence[Window], logits: Sequence[PretrainLogits]) -> PretrainLogits:
        """Take each blank from the window in which it is furthest from an edge.

        Whether a text follows is the mean over the windows, as classes of long texts are.
        """
        import torch

        blanks: dict[BlankPlace, RankedPieces] = {}
        for one in logits:
            for place, ranked in one.blanks.items():
                if place not in blanks or ranked.context > blanks[place].context:
                    blanks[place] = ranked
        of_pair = [one.next for one in logits if one.next is not None]
        if not of_pair:
            return PretrainLogits(blanks, None)
        mean = torch.stack(of_pair).mean(0)
        return PretrainLogits(blanks, mean)

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[PretrainLogits],
        truncated: int,
    ) -> Filled:
        """Name the pieces, and whether the second text is the next one."""
        encoding = encodings[0]
        found = logits[0]
        blanks = []
        for place, token in enumerate(encoding.ids):
            if token != self.mask:
                continue
            start, end = encoding.offsets[place]
            ranked = found.blanks.get(_blank_place(encoding, place))
            choices = self._choices(ranked)
            field: Literal["text", "second"] = "second" if encoding.parts[place] else "text"
            blanks.append(Blank(start, end, choices, field))

        filled = Filled(example.text, tuple(blanks), truncated_tokens=truncated)
        if found.next is None:
            return filled
        probability = float(found.next.softmax(0)[0])
        follows = probability >= 0.5
        return replace(filled, next=follows, next_probability=probability)

    def _choices(self, ranked: RankedPieces | None) -> tuple[LikelyPiece, ...]:
        """Return the pieces for a blank, the best first; none for a blank that was cut off."""
        if ranked is None:
            return ()
        choices = []
        for number, probability in zip(
            ranked.ids.tolist(), ranked.probabilities.tolist(), strict=True
        ):
            piece = self.tokenizer.piece(number)
            choices.append(LikelyPiece(piece, probability))
        return tuple(choices)

    def line(self, example: Example, answer: Filled) -> str:
        """Return the text, the pieces for each blank below, and what is said of a pair."""
        in_text = [one for one in answer.blanks if one.field == "text"]
        lines = _blank_lines(answer.text, in_text)
        probability = answer.next_probability
        if example.second is not None and probability is not None:
            in_second = [one for one in answer.blanks if one.field == "second"]
            lines += _blank_lines(example.second, in_second)
            if answer.next:
                lines.append(f"{probability:7.2%}  next")
            else:
                lines.append(f"{1 - probability:7.2%}  not next")
        return "\n".join(lines)


def pretrain_logits(
    model: Any, head: nn.Module | None, batch: Batch, chosen: Tensor, pairs: bool
) -> tuple[Tensor, Tensor | None]:
    """Return the logits of chosen tokens (M, V) and, if asked, of the next sentence (B, 2)."""
    hidden = model(*batch.stream)
    logits = masked_logits(head, hidden.tokens[chosen])
    if not pairs:
        return logits, None
    return logits, next_logits(head, hidden.pooled)


def masked_logits(head: nn.Module | None, vectors: Tensor) -> Tensor:
    """Return the logits over the vocabulary (... V) of vectors (... D)."""
    return _pretrain_head(head).masked(vectors)  # type: ignore[no-any-return]


def next_logits(head: nn.Module | None, pooled: Tensor | None) -> Tensor | None:
    """Return the logits of the next sentence (B, 2), that it follows first; None without a head."""
    following = _pretrain_head(head).next
    if following is None or pooled is None:
        return None
    return following(pooled)  # type: ignore[no-any-return]


def _pretrain_head(head: nn.Module | None) -> PretrainHead:
    """Return the heads of pretraining; another head is refused."""
    from firth.nn.heads import PretrainHead

    if not isinstance(head, PretrainHead):
        raise InputError("this model has no head for hidden words, so it can't fill blanks")
    return head


def _blank_place(encoding: Encoding, place: int) -> BlankPlace:
    """Return in which text a token stands, and where it begins there."""
    part = encoding.parts[place] or 0
    start, _ = encoding.offsets[place]
    return BlankPlace(part, start)


def _context(row: Encoding, place: int) -> int:
    """Return how many tokens of its text stand between a token and the nearer edge."""
    part = row.parts[place]
    first = row.parts.index(part)
    from_end = row.parts[::-1].index(part)
    last = len(row) - 1 - from_end
    return min(place - first, last - place)


def _blank_lines(text: str, blanks: Sequence[Blank]) -> list[str]:
    """Return a text that has blanks, and the pieces for each below."""
    if not blanks:
        return []
    lines = [text]
    for blank in blanks:
        lines.append(f"  characters {blank.start}-{blank.end}")
        lines += [f"    {one.probability:7.2%}  {one.piece}" for one in blank.choices]
        if not blank.choices:
            lines.append("    cut off before this blank")
    return lines


def _shortened(text: str) -> str:
    """Return a text, or its beginning, for a message."""
    if len(text) <= LONGEST_QUOTE:
        return text
    return text[: LONGEST_QUOTE - 1] + "…"


TASK = Fill
