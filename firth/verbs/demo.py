"""Show on built-in samples what models do: nearest texts, senses, training, a look inside.

What is printed comes with sections of a page, which is written at the end.
"""

import json
import math
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from firth.base.files import new_file, read_json
from firth.base.journal import Journal
from firth.evaluation.figures import named, percent
from firth.output.page import answer_of, attention_of
from firth.output.pagefile import checked_target
from firth.pages.attention import Chosen
from firth.pages.demo import (
    CaptionedTable,
    Near,
    command_section,
    cosines_section,
    demo_page,
    is_demo_page,
    nearest_section,
    pretraining_section,
    tables_section,
)
from firth.pages.page import PageSection
from firth.predictor import Predictor, load_predictor
from firth.probes.row import read_row
from firth.probes.senses import (
    Senses,
    compare_senses,
    contextual_vectors,
    nearest_texts,
    static_vectors,
)
from firth.recipes.host import temporary_runs
from firth.samples import library
from firth.samples.texts import MONEY, QUERIES, RIVER, TEXTS, WORD
from firth.samples.tickets import Ticket, tickets
from firth.tasks.classify import Classification
from firth.tasks.tag import NamedSpans
from firth.textbook.bank import draw_bank
from firth.verbs.finetune import FinetuneResult, finetune
from firth.verbs.pretrain import pretrain
from firth.verbs.vocab import VocabReport, vocab

PAGE = "demo.html"  # where nobody says otherwise
NEIGHBOURS = 2  # texts for each query
PIECES = 4000  # of the vocabulary
HELD_OUT = 4  # every so-many-th ticket
ASKED = (
    "The lid of my copper kettle does not close any more.",
    "Why did you charge my card again for the floor lamp?",
    "My parcel has been in Rotterdam for nine days.",
)
SHOWN = 6  # moments of the run
DRAWN = 100  # points of its curve
SENTENCE = "The animal didn't cross the street because it was too tired."
LOOKS = "it"
LAYER, HEAD = 3, 1  # of minilm, counted from 0: in which *it* looks at the animal
SEEN = 3  # words that it looks at most
OWN = "She sat by the bank of the river."
# What to do next: arguments, and what they do.
NEXT = {
    "embed minilm texts.txt -o vectors.npy": "a vector for each text",
    "embed minilm texts.txt --pool words -o words.jsonl": "a vector for each word, with its place",
    "pretrain letters/ -o my-bert/ --minutes 60": "a BERT of your own, from a folder of text",
    "finetune classify --model minilm --train t.csv -o x/": "a task of your own, from examples",
    'predict my-bert/ "Paris is the [MASK] of France."': "fills in what is hidden",
    "env": "what this machine has",
}

Part = str | VocabReport | FinetuneResult  # of the demo: a line, or what a function returned
Shown = Generator[Part, None, list[PageSection]]  # parts, and at their end sections of the page


def demo(
    minutes: float = 1.0,
    threads: int | None = None,
    out: str | Path = PAGE,
    force: bool = False,
    command: str = "firth",
) -> Iterator[Part]:
    """Yield lines on nearest texts, a word with two senses, and models that are trained.

    Among them are the results of the functions that train. At the end a page with pictures of all
    is written to `out`, in place of that of an earlier demo. `command` is what a person types for
    `firth`.
    """
    target, force = _page_target(out, force)
    begun = time.perf_counter()
    predictor = load_predictor("minilm", threads)
    opened = time.perf_counter() - begun
    encoder = predictor.bundle.encoder
    layers = f"{encoder.depth} layers of width {encoder.width}"
    yield f"minilm: {layers}, opened in {opened:.2f} s"

    sections = yield from _show_neighbours(predictor)
    sections += yield from _show_senses(predictor)
    sections += yield from _show_pretraining(minutes, threads)
    sections += yield from _show_finetuning(threads)
    sections += yield from _show_attention(predictor)
    look = f'{command} view minilm "{OWN}"'
    own = {f"{command} {words}": about for words, about in NEXT.items()}
    about = "Every head's attention, its arithmetic and more, as a page of your own sentence:"
    sections.append(command_section("A sentence of your own", about, look))
    with new_file(target, force) as path:
        path.write_text(demo_page(f"minilm: {layers}", sections), encoding="utf-8")

    seconds = time.perf_counter() - begun
    yield f"\nThe demo took {seconds:.1f} s.\n\nTo go on with texts of your own, one a line:"
    width = max(map(len, own))
    for line, about in own.items():
        yield f"  {line:{width}}  {about}"
    yield f"\n{target}: pictures of all this; open it in a browser."
    yield f"Where every head looks in a sentence of your own:\n\n  {look}"


def _page_target(out: str | Path, force: bool) -> tuple[Path, bool]:
    """Return where the page goes, and whether it may overwrite what is there."""
    path = Path(out)
    if path.is_file():
        force = force or is_demo_page(path.read_text(encoding="utf-8", errors="replace"))
    target = checked_target(path, force)
    assert target is not None
    return target, force


# Nearest texts


def _show_neighbours(predictor: Predictor) -> Shown:
    """Yield the texts nearest to each query."""
    begun = time.perf_counter()
    topics = {}
    for topic, texts in TEXTS.items():
        topics.update(dict.fromkeys(texts, topic))
    queries = list(QUERIES)
    found = nearest_texts(predictor, queries, list(topics), len(topics))
    seconds = time.perf_counter() - begun

    count = len(topics) + len(queries)
    yield f"\n1. Nearest texts: {count} texts became vectors in {seconds:.2f} s"
    nearest = []
    cosines = []
    for query, every in zip(queries, found, strict=True):
        yield f"\n  {query}"
        for similarity, text in every[:NEIGHBOURS]:
            topic = topics[text]
            yield f"    {similarity:.2f}  {topic:8} {text}"
            nearest.append(Near(query, topic, text, similarity))
        of_texts = {text: similarity for similarity, text in every}
        cosines.append([of_texts[text] for text in topics])
    return [nearest_section(nearest), cosines_section(queries, topics, np.array(cosines))]


# The senses of a word


def _show_senses(predictor: Predictor) -> Shown:
    """Yield how far the two senses of a word are apart, without context and after each layer."""
    begun = time.perf_counter()
    sentences = [*RIVER, *MONEY]
    layers = contextual_vectors(predictor, WORD, sentences)
    seconds = time.perf_counter() - begun

    count = f"{len(sentences)} sentences with *{WORD}*"
    yield f"\n2. One word, two senses: {count}, each layer, in {seconds:.2f} s\n"
    yield f"  {'by a river':14} {RIVER[0]}"
    yield f"  {'with deposits':14} {MONEY[0]}"
    yield f"\n  cosine of two vectors of *{WORD}*    same sense   different sense"

    vectors_of_table = static_vectors(predictor, WORD, sentences)
    static = compare_senses(vectors_of_table, len(RIVER))
    yield _senses_row("static: the row of its table", static)
    for number, vectors in enumerate(layers, 1):
        senses = compare_senses(vectors, len(RIVER))
        yield _senses_row(f"in context: layer {number}", senses)

    yield (
        "\n  A static vector is the same everywhere. "
        f"In context, the nearest other *{WORD}* has the same sense"
    )
    yield f"  for {senses.right} of {len(sentences)} sentences."
    plane, numbers = draw_bank(predictor, "minilm").page_sections()
    return [
        plane._replace(title="One word, two senses"),
        numbers._replace(title="The two senses, layer by layer"),
    ]


def _senses_row(name: str, senses: Senses) -> str:
    return f"  {name:35} {senses.same:10.2f} {senses.different:17.2f}"


# Pretraining


def _show_pretraining(minutes: float, threads: int | None) -> Shown:
    """Pretrain a model; yield how the loss fell and what the model can guess."""
    long = "1 minute" if minutes == 1 else f"{minutes:g} minutes"
    work = f"{long} on the documentation that came with this Python"
    yield f"\n3. A BERT of its own: {work}\n"

    with tempfile.TemporaryDirectory() as place, temporary_runs():
        corpus = Path(place) / "python.txt"
        words = Path(place) / "words"
        model = Path(place) / "model"
        library.write(corpus)
        yield vocab([corpus], words, size=PIECES)
        pretrain([corpus], model, minutes=minutes, size="tiny", vocab=str(words), threads=threads)
        records = list(Journal(model / "metrics.jsonl"))
        made = read_json(model / "firth.json")["made"]

    rows = []
    yield "\n  up to step   mean loss"
    hidden = _means(records, "masked", SHOWN)
    for (step, loss), (_, masked) in zip(_means(records, "loss", SHOWN), hidden, strict=True):
        yield f"  {step:10,.0f}   {loss:9.3f}"
        rows.append([f"{step:,.0f}", f"{loss:.3f}", f"{math.exp(masked):,.1f}"])
    accuracy = made["dev"]["masked_accuracy"]
    yield f"\n  hidden words of held-out text that it names: {accuracy:.1%}"
    baseline = made["baseline"]
    piece = baseline["piece"]
    guessed = baseline["masked_accuracy"]
    yield f"  that always guessing {piece!r} names:     {guessed:.1%}"

    perplexities = [(step, math.exp(loss)) for step, loss in _means(records, "masked", DRAWN)]
    table = CaptionedTable(
        "Perplexity of hidden words", ["up to step", "mean loss", "perplexity"], rows, 3
    )
    note = (
        f"A tiny BERT, pretrained for {work}. Of the hidden words of held-out text it names "
        f"{accuracy:.1%}; always guessing {piece!r} would name {guessed:.1%}."
    )
    return [pretraining_section({"training": perplexities}, table, note)]


def _means(records: Sequence[dict[str, Any]], key: str, count: int) -> list[tuple[float, float]]:
    """Return means of a loss over that many stretches of a run, each with its last step."""
    losses = [(record["step"], record[key]) for record in records if key in record]
    parts = np.array_split(np.array(losses), min(count, len(losses)))
    return [(float(part[-1, 0]), float(part[:, 1].mean())) for part in parts]


# Fine-tuning


def _show_finetuning(threads: int | None) -> Shown:
    """Fine-tune the default encoder for two tasks; yield metrics and what the models answer."""
    begun = time.perf_counter()
    written = tickets()
    count = f"{len(written)} tickets of a shop, every {HELD_OUT}th held out"
    yield f"\n4. A task of its own: {count}\n"

    train = [ticket for number, ticket in enumerate(written) if number % HELD_OUT]
    dev = written[::HELD_OUT]
    with tempfile.TemporaryDirectory() as place, temporary_runs():
        folder = Path(place)
        _write_examples(folder, "train", train)
        _write_examples(folder, "dev", dev)

        about = _finetune(folder, "classify", "about", "triage", threads)
        yield about._replace(out="triage")
        names = _finetune(folder, "tag", "names", "names", threads)
        f1 = names.scores["f1"]
        interval = f"{f1.value:.3f} ({f1.low:.3f} to {f1.high:.3f})"
        yield f"names: F1 of named products, places and people {interval}\n"

        triage = load_predictor(folder / "triage", threads)
        decisions = triage.predict(ASKED)
        found = load_predictor(folder / "names", threads).predict(ASKED)
        answer = answer_of(triage, read_row(triage, ASKED[0]))

    answers = []
    for text, decision, names_found in zip(ASKED, decisions, found, strict=True):
        assert isinstance(decision, Classification)
        assert isinstance(names_found, NamedSpans)
        spans = [f"{span.text} ({span.label})" for span in names_found.spans]
        said = ", ".join(spans) or "no names"
        yield f"  {text}"
        yield f"    {decision.label}, {decision.confidence:.0%} sure; {said}"
        answers.append([text, said, str(decision.label), f"{decision.confidence:.0%}"])
    seconds = time.perf_counter() - begun
    yield f"\n  ({seconds:.0f} s)"
    tables = [
        CaptionedTable(
            "Three other tickets", ["ticket", "names", "it is about", "sure"], answers, 1
        ),
        _metrics_table(about, names),
        _decisions_table(about),
    ]
    return [tables_section("A task of its own", f"{count}.", tables), answer]


def _metrics_table(about: FinetuneResult, names: FinetuneResult) -> CaptionedTable:
    """Return the metrics of both models on held-out tickets."""
    scores = {named(name, about.positive): interval for name, interval in about.scores.items()}
    scores["f1 of names"] = names.scores["f1"]
    rows = []
    for name, interval in scores.items():
        rows.append([name, *(f"{value:.4f}" for value in interval)])
    heads = ["metric", "value", "from", "to"]
    return CaptionedTable("On held-out tickets, with 95 % intervals", heads, rows, 3)


def _decisions_table(about: FinetuneResult) -> CaptionedTable:
    """Return which share of tickets the model may decide alone."""
    assert about.sheet is not None
    rows = []
    for decided in about.sheet.all:
        cells = ["none", "", ""]
        if decided.threshold is not None:
            cells = [f"{value:.0%}" for value in decided.decided]
        rows.append([percent(decided.precision), *cells])
    heads = ["if it is to be right so often", "tickets", "from", "to"]
    return CaptionedTable("May decide alone", heads, rows, 3)


def _finetune(
    folder: Path, task: str, examples: str, out: str, threads: int | None
) -> FinetuneResult:
    """Fine-tune the default encoder on files of a folder."""
    return finetune(
        task,
        "minilm",
        folder / f"train.{examples}.jsonl",
        folder / out,
        dev=str(folder / f"dev.{examples}.jsonl"),
        epochs=8.0,
        batch=8,
        rate=3e-4,
        threads=threads,
    )


def _write_examples(folder: Path, name: str, rows: list[Ticket]) -> None:
    """Write what tickets are about, and the names in them, as examples."""
    about = [{"text": ticket.text, "label": ticket.about} for ticket in rows]
    _write_lines(folder / f"{name}.about.jsonl", about)
    names = []
    for ticket in rows:
        spans = [span._asdict() for span in ticket.names]
        names.append({"text": ticket.text, "spans": spans})
    _write_lines(folder / f"{name}.names.jsonl", names)


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    lines = [json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# Attention


def _show_attention(predictor: Predictor) -> Shown:
    """Yield where a word of a sentence looks in one head; the page has all heads."""
    row = read_row(predictor, SENTENCE)
    place = row.tokens.index(LOOKS)
    (found,) = predictor.attention([SENTENCE])
    weights = found.weights[LAYER, HEAD, place]
    best = np.argsort(-weights)[:SEEN]
    seen = ", ".join(f"{row.tokens[key]} {weights[key]:.2f}" for key in best)
    yield f"\n5. Look inside: where each head of minilm looks\n\n  {SENTENCE}"
    yield f"    layer {LAYER + 1}, head {HEAD + 1}: *{LOOKS}* looks at {seen}"
    return [attention_of(predictor, row, Chosen(LAYER, HEAD, place))]
