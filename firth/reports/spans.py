"""What a page shows of named spans: which are found, missed or made up, in their sentences."""

from collections import Counter
from collections.abc import Iterator

from firth.data.examples import Example
from firth.metrics.classes import LabelCounts
from firth.metrics.entities import Entities, Entity, entities
from firth.pages.page import PageSection
from firth.reports.case import Case, Cell, SpanKind, SpanMark, clipped, passage, unread
from firth.reports.report import CountTable, TaskReport, frequent, label_section
from firth.tasks.tag import EntityScoring, TokenTags

NOTHING = "no such span"
EDGES = "missed by their edges"


class SpanReport(TaskReport):
    """Looks at the spans of texts, as conlleval compares them: by whole words."""

    def __init__(self, scoring: EntityScoring) -> None:
        super().__init__()
        self.tally: Entities = scoring.tally
        self.counts: Counter[Cell] = Counter()
        self.edges: Counter[str] = Counter()  # missed spans that one of their type overlaps

    def case(self, line: int, example: Example, graded: TokenTags) -> Case:
        """Return a text with its spans; the more of them are wrong, the worse it is."""
        true = set(entities(graded.truth))
        predicted = set(entities(graded.predicted))
        cells = _pairs(true, predicted)
        self.counts.update(cells)
        for one in true - predicted:
            overlaps = (other.type == one.type and _overlap(one, other) for other in predicted)
            self.edges[one.type] += any(overlaps)

        wrong = true ^ predicted
        marks, homeless = _marks(true, predicted, graded.tokens)
        notes = [f"a true {clipped(label)} without a word" for label in homeless]
        return Case(
            line,
            not wrong,
            float(len(wrong)),
            tuple(dict.fromkeys(cells)),
            (passage(example.text, marks=marks),),
            _counted(true),
            _counted(predicted),
            notes=(*notes, *unread(graded.truncated_tokens)),
        )

    def sections(self) -> Iterator[PageSection]:
        """Yield which types are taken for which, with their sentences, and each type."""
        counts = LabelCounts.of(self.tally.sums.totals[0], len(self.tally.types))
        shown = frequent(self.tally.types, counts)
        names = [*shown, None]
        right = frozenset((name, name) for name in shown)
        note = (
            "Spans with the same words stand together, whatever their types; a span whose words "
            f"are no other's is in the row or the column “{NOTHING}”."
        )
        table = CountTable(
            names, names, self.counts, right, "true type", "predicted type", NOTHING, note
        )
        yield self.cases_section("Types and sentences", table)
        yield label_section("Each type", self.tally.types, counts, {EDGES: self.edges})


def _pairs(true: set[Entity], predicted: set[Entity]) -> list[Cell]:
    """Return the types of spans with the same words; of one that has no like only its own."""
    by_words = {(one.start, one.end): one.type for one in predicted}
    cells: list[Cell] = [
        (one.type, by_words.pop((one.start, one.end), None)) for one in sorted(true)
    ]
    return [*cells, *((None, kind) for kind in by_words.values())]


def _overlap(one: Entity, other: Entity) -> bool:
    return one.start < other.end and other.start < one.end


def _marks(
    true: set[Entity], predicted: set[Entity], tokens: tuple[tuple[int, int], ...]
) -> tuple[list[SpanMark], list[str]]:
    """Return the spans as characters, and the types of those that have no word."""
    marks = []
    homeless = []
    for one in sorted(true | predicted):
        kind: SpanKind = "predicted"
        if one in true:
            kind = "right" if one in predicted else "true"
        if one.start >= len(tokens):
            homeless.append(one.type)
            continue
        start, _ = tokens[one.start]
        _, end = tokens[one.end - 1]
        marks.append(SpanMark(start, end, kind, clipped(one.type)))
    return marks, homeless


def _counted(spans: set[Entity]) -> str:
    """Return how many spans there are of each type."""
    counts = Counter(one.type for one in sorted(spans))
    return ", ".join(f"{clipped(kind)} {count}" for kind, count in counts.items()) or "no span"
