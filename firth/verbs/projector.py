"""Draw many texts, or words in their sentences, as points on two axes: a page for a browser."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from firth.base.arguments import (
    as_path,
    as_strings,
    check_choice,
    check_flags,
    check_names,
)
from firth.base.errors import InputError
from firth.base.notes import note
from firth.base.progress import Progress
from firth.data.record import shortened
from firth.folders.find import find
from firth.output.pagefile import checked_target, save_page
from firth.output.projector import (
    clouds,
    excerpts,
    first_colour,
    shortened_texts,
    value_columns,
    word_column,
)
from firth.pages.page import PageSection, write_page
from firth.pages.projector import WordLine, projector_section
from firth.predictor import Coverage, Predictor, load_predictor, say_coverage, say_unmatched
from firth.probes.axes import find_umap, need_umap
from firth.probes.projection import (
    FEWEST,
    MOST_POINTS,
    PointVectors,
    ProjectedFrame,
    SoughtTexts,
    embed_points,
    find_whole_texts,
    find_words,
    layer_frames,
    shown_layers,
    static_rows,
    table_frame,
)
from firth.reading.asked import is_text
from firth.reading.columns import USUAL, Columns
from firth.reading.format import Format
from firth.reading.source import Source, opened
from firth.text.occurrences import WordFinder
from firth.verbs.view import View, shown_name

PlaneAxes = Literal["pca", "umap"]
CURE = "(a file with one sentence a line has short texts)"  # of texts that were cut


class ProjectedWord(NamedTuple):
    """A word that was looked for: its pieces, where it stands, and how many points it has."""

    word: str
    pieces: tuple[str, ...]
    texts: int  # in which it stands
    places: int  # where it stands
    points: int  # of these places, in the page


class _Projected(NamedTuple):
    """The points with their vectors, and the pictures of them."""

    placed: PointVectors
    layers: list[int]  # that are shown
    static: list[int]  # the words whose rows of the embedding table are points too
    frames: list[ProjectedFrame]
    coverage: Coverage  # of the texts by what the model reads


@dataclass(frozen=True)
class ProjectorView(View):
    """A page with points on two axes; a notebook displays it."""

    points: int = 0
    texts: int = 0  # that were read
    words: tuple[ProjectedWord, ...] = ()
    frames: tuple[str, ...] = ()  # the pictures that one can choose among
    notes: tuple[str, ...] = ()  # what is not in the page, and why

    def as_json(self) -> dict[str, object]:
        """Return what is in the page as a JSON object."""
        return {
            "points": self.points,
            "texts": self.texts,
            "words": [word._asdict() for word in self.words],
            "frames": list(self.frames),
            "notes": list(self.notes),
            "tokens": self.tokens,
            "truncated_tokens": self.truncated_tokens,
        }


def projector(
    model: str | Path,
    source: str | Path,
    out: str | Path | None = None,
    *,
    words: str | Sequence[str] | None = None,
    axes: PlaneAxes | None = None,
    field: str | None = None,
    encoding: str | None = None,
    form: Format | None = None,
    threads: int | None = None,
    force: bool = False,
) -> ProjectorView:
    """Return a page with the texts of a file as points, and write it to `out`, an .html file.

    With `words` each place where one of them stands is a point, beside the word's row in the
    embedding table. `axes` are principal components, and those of UMAP too where umap-learn is
    installed.
    """
    model = as_path("model", model)
    source = as_path("source", source)
    wanted = _checked_words(words)
    check_choice("axes", axes, get_args(PlaneAxes), optional=True)
    check_names(field=field, encoding=encoding)
    check_flags(force=force)
    target = checked_target(out, force)
    if is_text(source):
        one = shortened(source)
        raise InputError(f"a projector draws the texts of a file, and {one} is one text")
    find(model)
    if axes == "umap":
        need_umap()

    with opened(Source(source, field or USUAL, encoding, form=form)) as texts:
        texts.survey()
        predictor = load_predictor(model, threads)
        say_unmatched(predictor)
        _check_vectors(predictor, model, wanted)
        finder = WordFinder(predictor.bundle.tokenizer, wanted) if wanted else None
        found = _find(texts, finder, predictor.bundle.length)
        texts.say()
    made = _project(predictor, found, finder, axes)
    every = _words(found, made.placed, finder)
    notes = [*_found_notes(found, every, finder), *_made_notes(predictor, made, axes)]
    section, left_out = _section(found, made, every, notes)
    notes += left_out
    for said in notes:
        note(said)
    say_coverage(made.coverage)

    title = Path(texts.title).name
    if wanted:
        title = f"{', '.join(wanted)} in {title}"
    count = len(made.placed.points)
    lead = f"{shown_name(model)}, {predictor.bundle.family}, {count:,} points"
    page = write_page(title, [lead], [section])
    save_page(page, target, force)
    return ProjectorView(
        page,
        (section.title,),
        made.placed.tokens,
        made.coverage.unseen,
        target,
        points=count,
        texts=found.read,
        words=tuple(every),
        frames=tuple(frame.name for frame in made.frames),
        notes=tuple(notes),
    )


def _checked_words(words: object) -> tuple[str, ...]:
    """Return the words to look for; none where whole texts are drawn."""
    if words is None:
        return ()
    found = [words] if isinstance(words, str) else as_strings("words", words)
    named = tuple(dict.fromkeys(word.strip() for word in found))
    if not named or not all(named):
        raise InputError("words names no word: give one or several, as in --words bank,river")
    return named


def _check_vectors(predictor: Predictor, model: str, words: Sequence[str]) -> None:
    """Refuse a model that gives no vectors, or gives words one whatever stands around them."""
    if words and not predictor.bundle.encoder.depth:
        raise InputError(
            f"{model} has one vector a word, whatever stands around it: --projector draws texts "
            "by the means of their words, and firth neighbours finds words near a word"
        )


def _find(texts: Source, finder: WordFinder | None, length: int | None) -> SoughtTexts:
    """Return the texts that have points; refuse a file without any."""
    if texts.path is not None and texts.is_table:
        columns = texts.reading().columns or Columns()
        own = {*columns.text, columns.tokens}
    else:
        own = set(texts.fields.split(","))

    def rows() -> Iterator[tuple[str, dict[str, Any]]]:
        for one in map(texts.alone, texts.given()):
            row = {name: value for name, value in one.row.items() if name not in own}
            yield one.example.text, row

    found = find_words(rows(), finder, length) if finder else find_whole_texts(rows())
    if not found.texts:
        if found.unread:
            raise InputError(
                f"{texts.title}: every place of these words stands beyond the {length} tokens "
                "that the model reads of a text"
            )
        if finder is None or found.read == found.empty:
            raise InputError(f"{texts.title} holds no text: there is nothing to draw")
        names = ", ".join(map(repr, finder.words))
        case = " (upper and lower case differ for this model)" if finder.keeps_case else ""
        word = "word" if len(finder.words) == 1 else "words"
        raise InputError(f"{texts.title}: no text has the {word} {names}{case}")
    return found


def _project(
    predictor: Predictor, found: SoughtTexts, finder: WordFinder | None, axes: PlaneAxes | None
) -> _Projected:
    """Return the vectors of all points, and where they are in each picture."""
    encoder = predictor.bundle.encoder
    coverage = Coverage()
    layers = shown_layers(encoder.depth, found.points, encoder.width) or [-1]
    with Progress("embedding", "texts", len(found.texts)) as progress:
        placed = embed_points(predictor, found.texts, layers, coverage, progress)
    coverage.cure = CURE
    umap = None if axes == "pca" else find_umap()
    if umap is not None and len(placed.points) >= FEWEST:
        note("UMAP draws the last layer too, which takes a while: --axes pca leaves it out")
    static = sorted({point.place.word for point in placed.points if point.place is not None})
    rows = None
    frames = []
    total = len(placed.points) * len(layers)
    with predictor.computing(), Progress("neighbours", "points", total) as progress:
        if finder is not None:
            rows = static_rows(predictor, finder, static)
            frames.append(table_frame(placed.points, static, rows))
        frames += layer_frames(layers, placed.vectors, rows, umap, progress)
    return _Projected(placed, layers, static, frames, coverage)


def _words(
    found: SoughtTexts, placed: PointVectors, finder: WordFinder | None
) -> list[ProjectedWord]:
    """Return what was found of each word."""
    if finder is None:
        return []
    points = Counter(point.place.word for point in placed.points if point.place is not None)
    every = []
    for number, word in enumerate(finder.words):
        counts = (found.with_word[number], found.places[number], points[number])
        every.append(ProjectedWord(word, finder.pieces(number), *counts))
    return every


def _section(
    found: SoughtTexts, made: _Projected, every: Sequence[ProjectedWord], notes: Sequence[str]
) -> tuple[PageSection, list[str]]:
    """Return what the page shows, and which columns it leaves out."""
    points = made.placed.points
    words = [word.word for word in every]
    columns, left_out = value_columns(points, found.texts, len(made.static))
    if words:
        columns = [word_column(points, words, made.static), *columns]
    cut = [str(made.coverage)] if made.coverage.cut else []
    section = projector_section(
        "Words in their sentences" if words else "Texts",
        excerpts(points, found.texts),
        [words[number] for number in made.static],
        clouds(made.frames),
        columns,
        first_colour(columns, len(words)),
        [WordLine(*word) for word in every],
        [*notes, *left_out, *cut],
    )
    return section, left_out


def _found_notes(
    found: SoughtTexts, words: Sequence[ProjectedWord], finder: WordFinder | None
) -> Iterator[str]:
    """Yield what is to be said of the texts and words."""
    if found.empty:
        yield f"empty texts that are left out: {found.empty:,}"
    for number, word in enumerate(words):
        if not word.places:
            yield f"no text has the word {word.word!r}"
        elif finder is not None and finder.tokenizer.unk in finder.ids(number):
            yield f"the vocabulary lacks {word.word!r}: it is read as {' '.join(word.pieces)}"
        elif len(word.pieces) > 1:
            pieces = " ".join(word.pieces)
            yield f"{word.word!r} is {len(word.pieces)} pieces ({pieces}): a vector is their mean"
    if found.unread:
        yield f"places beyond what the model reads of their texts: {found.unread:,}"
    if found.every > 1:
        yield (
            f"of the texts with points one in {found.every} is in the page, which has room for "
            f"{MOST_POINTS:,} points"
        )
    longer = shortened_texts(found.texts)
    if longer:
        yield f"long texts of which the page has a part: {longer:,}"


def _made_notes(predictor: Predictor, made: _Projected, axes: PlaneAxes | None) -> Iterator[str]:
    """Yield what is to be said of vectors and pictures."""
    depth = predictor.bundle.encoder.depth
    if len(made.layers) < depth:
        names = ", ".join(map(str, made.layers))
        yield f"of {depth} layers the page has {names}: with all it would be too large"
    if axes == "umap" and len(made.placed.points) < FEWEST:
        yield f"UMAP needs {FEWEST} points: the page has principal components alone"
