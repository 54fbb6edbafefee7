"""Named spans of a text: the user gives and gets characters and never sees word pieces.

T tokens in the stream, K tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from firth.base.errors import InputError
from firth.data.examples import Example, Tagged
from firth.data.record import on_a_line
from firth.data.window import Window, most_context
from firth.data.words import Word, misaligned_spans, words
from firth.reading.tagged import OUTSIDE, TagReader
from firth.tasks.task import Answer, OpenModel
from firth.tasks.trained import Scoring, TrainedTask, TrainingData

if TYPE_CHECKING:
    from torch import Tensor, nn

    from firth.data.batch import Batch
    from firth.data.rows import Targets
    from firth.models.protocols import Backbone
    from firth.text.tokenizer import Encoding, Tokenizer

NOT_SCORED = -1


@dataclass(frozen=True)
class FoundSpan:
    """A named span, how sure the model is of it, and its words."""

    start: int
    end: int
    label: str
    confidence: float
    text: str


@dataclass(frozen=True)
class NamedSpans(Answer):
    """The named spans of a text, in order."""

    spans: tuple[FoundSpan, ...]

    def as_json(self) -> dict[str, object]:
        """Return the answer as a JSON object."""
        spans = [asdict(span) for span in self.spans]
        return {"spans": spans, "truncated_tokens": self.truncated_tokens}

    def figures(self) -> dict[str, float]:
        """Return how sure the model is of each span."""
        return {f"{span.text} ({span.label})": span.confidence for span in self.spans}


class TokenTags(NamedTuple):
    """The true and the predicted tags of a text's tokens, and its spans that fit no words."""

    truth: list[str]
    predicted: list[str]
    misaligned: int
    tokens: tuple[tuple[int, int], ...]  # their characters; a span without one has a tag behind
    truncated_tokens: int


def tags_of(types: Sequence[str]) -> list[str]:
    """Return the tags that entity types need."""
    tags = [OUTSIDE]
    for name in types:
        tags += [f"B-{name}", f"I-{name}"]
    return tags


class Tag(TrainedTask["Tensor", NamedSpans]):
    """Learn and find named spans by a tag for each word, at its first piece.

    The first word inside a span is tagged B-, the others I-.
    """

    name = "tag"
    help = "Named spans of texts: people, places, amounts."
    kinds = {name: "named spans"}
    reader = TagReader
    twins = {"spans": "predicted_spans"}
    selectable = {name: ("f1", "accuracy")}
    most_epochs = 30.0  # most words are no name, so that names take longer
    pooled = False
    single = True
    sums = ("true", "said", "both", "right", "words", "loss")
    columns = {"predicted_spans": "json"}

    def __init__(self, tags: Sequence[str], select: str | None = None) -> None:
        self.tags = list(tags)
        self.select = select or self.selectable[self.name][0]
        self.number = {tag: number for number, tag in enumerate(tags)}
        if OUTSIDE not in self.number:
            known = ", ".join(tags)
            raise InputError(f"the tags {known} have no {OUTSIDE} for words outside every span")

    @classmethod
    def of_bundle(cls, bundle: OpenModel, **options: Any) -> Self:
        """Return the tags of a folder."""
        return cls(bundle.labels)

    @classmethod
    def of_examples(
        cls,
        kind: str,
        labels: Sequence[str],
        examples: Sequence[Example] = (),
        select: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the tags to learn."""
        return cls(labels, select)

    @classmethod
    def plan(cls, data: TrainingData) -> tuple[str, tuple[str, ...]]:
        """Return the tags of the names that spans have."""
        known = data.train_names
        if not known:
            raise InputError(
                f"{data.train_name} has no named span in any text: there is nothing to learn"
            )
        names = sorted(known | data.dev_names)
        return cls.name, tuple(tags_of(names))

    @classmethod
    def label_names(cls, labels: Iterable[str]) -> list[str]:
        """Return the names of spans, without the tags' letters."""
        names = (tag.partition("-")[2] for tag in labels if tag != OUTSIDE)
        return list(dict.fromkeys(names))

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[list[Encoding]]:
        """Encode each text whole, from the text itself."""
        encodings = tokenizer.encode([example.text for example in examples])
        return [[encoding] for encoding in encodings]

    def logits(
        self, model: Any, head: nn.Module | None, batch: Batch, rows: Sequence[Window]
    ) -> list[Tensor]:
        """Return the logits of every token of each row that came from the text."""
        if head is None:
            raise InputError("this model has no head for tags")
        tokens = model(*batch.stream).tokens  # (T, D)
        every = head(tokens).cpu()  # (T, K)
        by_row = every.split(batch.lengths.tolist())
        found = []
        for logits, window in zip(by_row, rows, strict=True):
            found.append(logits[_own_places(window.row)])
        return found

    def combine(self, rows: Sequence[Window], logits: Sequence[Tensor]) -> Tensor:
        """Take a token that two windows have from the one where it is further from an edge."""
        import torch

        if len(rows) == 1:
            return logits[0]
        chosen = [logits[number][at] for number, at in most_context(rows)]
        return torch.stack(chosen)

    def answer(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[Tensor],
        truncated: int,
    ) -> NamedSpans:
        """Return named spans in characters; of a text cut short, those of what was read."""
        from firth.metrics.entities import entities

        encoding = encodings[0]
        of_pieces = logits[0]  # (pieces of the text, K)
        given = _with_tokens(example, encoding)
        places = _first_pieces(given, encoding, len(of_pieces))
        tags = self.token_tags(given, encoding, of_pieces)
        confidences = of_pieces.softmax(-1).amax(-1).tolist()

        found = []
        for first, last, label in entities(tags):
            own = [place for place in places[first:last] if place is not None]
            confidence = sum(confidences[place] for place in own) / len(own)
            start, _ = given.tokens[first]
            _, end = given.tokens[last - 1]
            text = example.text[start:end]
            found.append(FoundSpan(start, end, label, confidence, text))
        return NamedSpans(tuple(found), truncated_tokens=truncated)

    def token_tags(self, example: Tagged, encoding: Encoding, logits: Tensor) -> list[str]:
        """Return the tag of each of the user's tokens, read at its first piece.

        A token without pieces is outside every span.
        """
        best = logits.argmax(-1).tolist()
        tags = []
        for place in _first_pieces(example, encoding, len(logits)):
            if place is None:
                tags.append(OUTSIDE)
            else:
                tags.append(self.tags[best[place]])
        return tags

    def line(self, example: Example, answer: NamedSpans) -> str:
        """Return the text, and its spans below."""
        lines = [example.text]
        for one in answer.spans:
            label = on_a_line(one.label)
            lines.append(f"  {one.start}-{one.end}  {label}  {one.confidence:.2%}")
        if not answer.spans:
            lines.append("  nothing")
        return "\n".join(lines)

    def cells(self, example: Example, answer: NamedSpans) -> dict[str, Any]:
        """Return the spans as one column."""
        return {"predicted_spans": answer.as_json()["spans"]}

    def targets(
        self, example: Example, encodings: Sequence[Encoding], number: int, window: Window
    ) -> Targets:
        """Return the tag of each word at its first piece, and which pieces are measured."""
        import numpy as np

        assert isinstance(example, Tagged)
        row = window.row
        tags = np.full(len(row), NOT_SCORED)
        read = np.zeros(len(row), bool)
        firsts = {start for start, _ in example.tokens}
        for word, tag in _tagged(words(row), example):
            if tag not in self.number:
                known = ", ".join(self.tags)
                raise InputError(f"the tag {tag!r} is not one of {known}")
            tags[word.token] = self.number[tag]
            read[word.token] = not firsts or word.start in firsts
        return {"tags": tags, "read": read}

    def counts(self, batch: Batch) -> dict[str, float]:
        """Count words, each with the weight of its row."""
        is_scored = batch.targets["tags"] != NOT_SCORED
        weights = _weight(batch) * is_scored
        return {"tags": float(weights.sum())}

    def losses(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, Tensor]:
        """Sum the cross-entropy of the tags."""
        import torch.nn.functional as F

        tokens = encoder(*batch.stream).tokens  # (T, D)
        logits = head(tokens)  # (T, K)
        tags = batch.targets["tags"]
        each = F.cross_entropy(logits, tags, ignore_index=NOT_SCORED, reduction="none")  # (T)
        weighted = each * _weight(batch)
        return {"tags": weighted.sum()}

    def tally(self, encoder: Backbone, head: nn.Module, batch: Batch) -> dict[str, float]:
        """Count the entities of a batch by conlleval's rules, on the tokens that the user gave."""
        import numpy as np
        import torch.nn.functional as F

        from firth.metrics.entities import entities

        tokens = encoder(*batch.stream).tokens  # (T, D)
        logits = head(tokens)  # (T, K)
        truth = batch.targets["tags"]  # (T)
        read = batch.targets["read"]  # (T) whether a token is measured
        loss = float(F.cross_entropy(logits[read], truth[read], reduction="sum"))

        lengths = batch.lengths.tolist()
        best = logits.argmax(-1)
        rows = zip(truth.split(lengths), best.split(lengths), read.split(lengths), strict=True)
        counts = np.zeros(3)
        right = 0
        for true, predicted, chosen in rows:
            gold = [self.tags[number] for number in true[chosen].tolist()]
            said = [self.tags[number] for number in predicted[chosen].tolist()]
            true_entities = set(entities(gold))
            found_entities = set(entities(said))
            both = true_entities & found_entities
            counts += [len(true_entities), len(found_entities), len(both)]
            right += sum(x == y for x, y in zip(gold, said, strict=True))
        words = float(read.sum())
        return dict(zip(self.sums, [*counts.tolist(), float(right), words, loss], strict=True))

    def metrics(self, sums: Mapping[str, float]) -> dict[str, float]:
        """Return entity F1, and the share of words with the right tag."""
        count = max(1.0, sums["words"])
        entities = max(1.0, sums["true"] + sums["said"])
        return {
            "loss": sums["loss"] / count,
            "f1": 2 * sums["both"] / entities,
            "accuracy": sums["right"] / count,
        }

    def misaligned(self, example: Example, encoding: Encoding) -> int:
        """Count the spans that begin or end inside a word."""
        if not isinstance(example, Tagged):
            return 0
        return misaligned_spans(example, encoding)

    def graded(
        self,
        example: Example,
        encodings: Sequence[Encoding],
        logits: Sequence[Tensor],
        truncated: int,
    ) -> TokenTags:
        """Return the true and the predicted tags of a text's tokens.

        They are the tokens that the user gave or, where the text is all there is, the tokenizer's
        words.
        """
        assert isinstance(example, Tagged)
        encoding = encodings[0]
        given = _with_tokens(example, encoding)
        truth = true_tags(given)
        predicted = self.token_tags(given, encoding, logits[0])
        letters = {tag.partition("-")[0] for tag in self.tags}
        if letters - {OUTSIDE} != {"B", "I"}:
            # A model from elsewhere, in another scheme than the examples.
            predicted = in_two_letters(predicted)
        # A span without a token is missed behind the tokens.
        missed = len(truth) - len(predicted)
        predicted += [OUTSIDE] * missed
        misaligned = misaligned_spans(example, encoding)
        return TokenTags(truth, predicted, misaligned, given.tokens, truncated)

    def scoring(
        self, others: Iterable[str] = (), positive: str | None = None, keep: bool = True
    ) -> Scoring:
        """Return what adds up entities."""
        known = self.label_names(self.tags)
        return EntityScoring(sorted({*known, *others}))


class EntityScoring(Scoring):
    """Adds up entities of some types."""

    def __init__(self, types: Sequence[str]) -> None:
        from firth.metrics.entities import Entities

        self.tally: Entities = Entities(types)

    def add(self, example: Example, graded: TokenTags) -> None:
        """Count the tags of a text."""
        self.tally.add(graded.truth, graded.predicted)
        self.misaligned += graded.misaligned


def _weight(batch: Batch) -> Tensor:
    """Return the weight of each token (T): that of its row."""
    of_row = batch.targets["weight"]  # (B)
    return of_row.repeat_interleave(batch.lengths)


def _own_places(row: Encoding) -> list[int]:
    """Return where the tokens stand that came from the text."""
    return [place for place, part in enumerate(row.parts) if part is not None]


def _with_tokens(example: Example, encoding: Encoding) -> Tagged:
    """Return an example with the tokens that it has or, if none, the tokenizer's words."""
    if isinstance(example, Tagged) and example.tokens:
        return example
    spans = example.spans if isinstance(example, Tagged) else ()
    places = tuple((word.start, word.end) for word in words(encoding))
    return Tagged(example.text, spans, places)


def _first_pieces(example: Tagged, encoding: Encoding, read: int) -> list[int | None]:
    """Return where the first piece of each token stands among those that were read, if any."""
    import numpy as np

    body = _own_places(encoding)[:read]
    piece_starts = [encoding.offsets[place][0] for place in body]
    token_starts = [start for start, _ in example.tokens]
    places = np.searchsorted(piece_starts, token_starts).tolist()
    found: list[int | None] = []
    for at, (_, end) in zip(places, example.tokens, strict=True):
        inside = at < len(piece_starts) and piece_starts[at] < end
        found.append(at if inside else None)
    return found


def _tagged(seen: Sequence[Word], example: Tagged) -> Iterator[tuple[Word, str]]:
    """Yield each word with its tag: of the first span that it shares a character with.

    It is B- on the first such word and I- after it.
    """
    spans = iter(sorted(example.spans))
    span = next(spans, None)
    begun = False
    for number, word in enumerate(seen):
        while span is not None and span.end <= word.start:
            span = next(spans, None)
            begun = False
        if span is None or word.end <= span.start:
            yield word, OUTSIDE
            continue

        # In a later window a span may have begun before its first word.
        begun = begun or (number == 0 and span.start < word.start)
        letter = "I" if begun else "B"
        yield word, f"{letter}-{span.label}"
        begun = True


def in_two_letters(tags: Sequence[str]) -> list[str]:
    """Return the same entities in IOB2, B- and then I-, as those of the examples are written."""
    from firth.metrics.entities import entities

    found = [OUTSIDE] * len(tags)
    for start, end, kind in entities(tags):
        found[start:end] = [f"I-{kind}"] * (end - start)
        found[start] = f"B-{kind}"
    return found


def true_tags(example: Tagged) -> list[str]:
    """Return the tags of tokens by the spans.

    A token is in the first span that it shares a character with.

    A span that is left without a token can't be found: it is missed at a place of its own behind
    the tokens.
    """
    tags = [OUTSIDE] * len(example.tokens)
    missed = []
    for span in sorted(example.spans):
        letter = "B"  # of the next token of the span
        for at, (start, end) in enumerate(example.tokens):
            shared = start < span.end and end > span.start
            if shared and tags[at] == OUTSIDE:
                tags[at] = f"{letter}-{span.label}"
                letter = "I"
        if letter == "B":
            missed.append(f"B-{span.label}")
    return tags + missed


TASK = Tag
