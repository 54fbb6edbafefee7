"""Classes, numbers and named spans: what is learned from an example, and what is answered, in the user's own terms."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from firth.base.errors import InputError
from firth.data.examples import Labelled, Line, Span, Tagged
from firth.data.rows import EncodedExample, ExampleFeed
from firth.data.window import Window, most_context, windows
from firth.folders.bundle import Bundle
from firth.folders.find import find
from firth.folders.read import load
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.recipes.finetune import decided
from firth.recipes.settings import FinetuneSettings
from firth.tasks.classify import Classify
from firth.tasks.head import make_head
from firth.tasks.regress import Regress
from firth.tasks.tag import FoundSpan, Tag, in_two_letters, tags_of, true_tags, words
from firth.text.tokenizer import Encoding, Tokenizer
from firth.train.learner import Learner, Objective

LABELS = ["billing", "delivery", "praise"]
TICKETS = [
    ("I was charged twice for invoice 17.", "billing"),
    ("Where is my parcel? It should have come on Monday.", "delivery"),
    ("Wonderful service, thank you!", "praise"),
    ("The refund has not reached my bank account.", "billing"),
    ("The driver left the box in the rain.", "delivery"),
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.open(find("minilm"))


def small(kind: str, labels: tuple[str, ...], tokenizer: Tokenizer) -> Bundle:
    torch.manual_seed(0)
    encoder = Bert(
        BertSettings(
            vocab=tokenizer.size,
            width=32,
            depth=2,
            heads=2,
            inner=64,
            length=64,
            dropout=0.0,
            attention_dropout=0.0,
        )
    )
    return Bundle(
        encoder, tokenizer, kind=kind, head=make_head(kind, encoder, labels), labels=labels
    )


def ready(
    task: Classify | Regress | Tag,
    examples: list[Labelled] | list[Tagged],
    tokenizer: Tokenizer,
    length: int = 64,
) -> ExampleFeed:
    rows = []
    for example, encodings in zip(examples, task.encode(examples, tokenizer), strict=True):
        cut = windows(encodings[0], length, "slide")
        targets = [task.targets(example, encodings, 0, window) for window in cut]
        rows.append(EncodedExample.of([cut], [targets]))
    return ExampleFeed(rows, [example.text for example in examples])


def learn(
    bundle: Bundle, objective: Objective, feed: ExampleFeed, steps: int = 60
) -> dict[str, float]:
    learner = Learner(bundle.encoder, bundle.head, objective)
    optimizer = torch.optim.AdamW(learner.parameters(), lr=3e-3)
    numbers = np.arange(len(feed.sizes))
    for _ in range(steps):
        batch = feed.batch(0, numbers)
        counts = objective.counts(batch)
        sum(loss / counts[name] for name, loss in learner(batch).items()).backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.inference_mode():
        return objective.metrics(
            objective.tally(bundle.encoder, bundle.head, feed.batch(0, numbers))
        )


def test_classes_are_learned_and_answered(tokenizer: Tokenizer) -> None:
    task = Classify(LABELS)
    examples = [Labelled(text, label) for text, label in TICKETS]
    bundle = small("classify", tuple(LABELS), tokenizer)
    metrics = learn(bundle, task, ready(task, examples, tokenizer))
    assert metrics["accuracy"] == 1.0
    assert metrics["loss"] < 0.2
    assert task.select_value(metrics) == 1.0
    encodings = task.encode(examples[:1], tokenizer)[0]
    row = Window(encodings[0], 0)
    with torch.inference_mode():
        batch = ExampleFeed([EncodedExample.of([[row]], [[{}]])], [""]).batch(0, np.array([0]))
        logits = task.logits(bundle.encoder, bundle.head, batch, [row])
    decision = task.answer(examples[0], encodings, [task.combine([row], logits)], 0)
    assert decision.label == "billing"
    assert sum(decision.probabilities.values()) == pytest.approx(1, abs=1e-5)
    assert decision.confidence == max(decision.probabilities.values())
    assert json.loads(json.dumps(decision.as_json()))["label"] == "billing"


def test_below_the_threshold_it_is_unsure() -> None:
    task = Classify(["no", "yes"], threshold=0.9)
    sure, unsure = torch.tensor([0.0, 4.0]), torch.tensor([0.0, 1.0])
    example, encoding = Labelled("x", None), Encoding([], [], [], [], [])
    assert task.answer(example, [encoding], [sure], 0).label == "yes"
    assert task.answer(example, [encoding], [unsure], 0).label is None
    assert task.answer(example, [encoding], [unsure], 0).as_json()["label"] == "unsure"
    cooler = Classify(["no", "yes"], temperature=4.0)
    assert cooler.answer(example, [encoding], [sure], 0).confidence == pytest.approx(
        float(torch.tensor([0.0, 1.0]).softmax(0)[1])
    )


def test_several_labels_at_once(tokenizer: Tokenizer) -> None:
    task = Classify(LABELS, several=True)
    examples = [
        Labelled("Late and charged twice.", ("billing", "delivery")),
        Labelled("Thank you!", ("praise",)),
        Labelled("Hm.", ()),
    ]
    bundle = small("several", tuple(LABELS), tokenizer)
    metrics = learn(bundle, task, ready(task, examples, tokenizer), 120)
    assert metrics["exact"] == 1.0
    assert metrics["micro_f1"] == 1.0
    encodings, logits = task.encode(examples, tokenizer)[0], torch.tensor([3.0, 2.0, -4.0])
    decision = task.answer(examples[0], encodings, [logits], 7)
    assert decision.label == ("billing", "delivery")
    assert decision.confidence == pytest.approx(float(logits.abs().sigmoid().prod()), abs=1e-6)
    strict = Classify(LABELS, several=True, threshold=0.9)
    unsure = strict.answer(examples[0], encodings, [logits], 7)
    assert unsure.as_json() == {
        "label": "unsure",
        "confidence": decision.confidence,
        "shares": decision.probabilities,
        "truncated_tokens": 7,
    }


def test_pairs_are_encoded_as_pairs(tokenizer: Tokenizer) -> None:
    task = Classify(["no", "yes"])
    pair = Labelled("A man sleeps.", "yes", "Somebody sleeps.")
    ((encoding,),) = task.encode([pair], tokenizer)
    assert encoding.segments[-1] == 1
    with pytest.raises(InputError, match="some texts have a second one"):
        task.encode([Labelled("a", "yes", "b"), Labelled("c", "no")], tokenizer)


def test_weights_of_classes_are_those_of_torch(tokenizer: Tokenizer) -> None:
    weights = [1.0, 2.0, 5.0]
    task = Classify(LABELS, weights=weights)
    examples = [Labelled(text, label) for text, label in TICKETS]
    bundle = small("classify", tuple(LABELS), tokenizer)
    batch = ready(task, examples, tokenizer).batch(0, np.arange(len(examples)))
    with torch.inference_mode():
        ours = (
            task.losses(bundle.encoder, bundle.head, batch)["class"] / task.counts(batch)["class"]
        )
        scores = bundle.head(bundle.encoder(*batch.stream).pooled)
    assert ours == pytest.approx(
        float(F.cross_entropy(scores, batch.targets["label"], torch.tensor(weights))), abs=1e-6
    )


def test_the_loss_of_several_labels_is_torchs_mean(tokenizer: Tokenizer) -> None:
    task = Classify(LABELS, several=True)
    examples = [Labelled(text, (label,)) for text, label in TICKETS]
    bundle = small("several", tuple(LABELS), tokenizer)
    batch = ready(task, examples, tokenizer).batch(0, np.arange(len(examples)))
    with torch.inference_mode():
        ours = (
            task.losses(bundle.encoder, bundle.head, batch)["class"] / task.counts(batch)["class"]
        )
        scores = bundle.head(bundle.encoder(*batch.stream).pooled)
        measured = task.metrics(task.tally(bundle.encoder, bundle.head, batch))
    theirs = float(F.binary_cross_entropy_with_logits(scores, batch.targets["label"]))
    assert ours == pytest.approx(theirs, abs=1e-6)
    assert measured["loss"] == pytest.approx(theirs, abs=1e-6)


def test_windows_of_a_text_weigh_as_one(tokenizer: Tokenizer) -> None:
    task = Classify(LABELS)
    long = Labelled("The parcel never came and nobody answers the telephone. " * 8, "delivery")
    examples = [long, Labelled("Thanks!", "praise")]
    feed = ready(task, examples, tokenizer, length=32)
    batch = feed.batch(0, np.array([0, 1]))
    assert len(batch.lengths) > 3
    assert task.counts(batch)["class"] == pytest.approx(2.0, abs=1e-6)
    bundle = small("classify", tuple(LABELS), tokenizer)
    with torch.inference_mode():
        sums = task.tally(bundle.encoder, bundle.head, batch)
    assert sums["count"] == 2.0
    assert sums["true delivery"] == sums["true praise"] == 1.0


def test_an_unknown_label_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="'anger' is not one of billing, delivery, praise"):
        ready(Classify(LABELS), [Labelled("Grr.", "anger")], tokenizer)
    with pytest.raises(InputError, match="'much' is not a number"):
        ready(Regress(), [Labelled("Grr.", "much")], tokenizer)


def test_numbers_are_learned_and_answered(tokenizer: Tokenizer) -> None:
    task = Regress()
    examples = [
        Labelled("terrible", 0.0),
        Labelled("bad", 1.0),
        Labelled("fine", 2.5),
        Labelled("good", 4.0),
        Labelled("superb", 5.0),
    ]
    bundle = small("regress", (), tokenizer)
    metrics = learn(bundle, task, ready(task, examples, tokenizer), 150)
    assert metrics["pearson"] > 0.95
    assert metrics["loss"] < 1.0
    encodings = task.encode(examples, tokenizer)[0]
    assert task.answer(examples[0], encodings, [torch.tensor([2.5])], 0).value == 2.5


def test_numbers_that_are_all_one_have_a_spread() -> None:
    task = Regress.of_examples("regress", (), [Labelled(text, 0.1) for text in ("a", "b", "c")])
    assert (task.mean, task.spread) == (pytest.approx(0.1), 1.0)


TEXT = "Åsa Lindström met U.S. officials in New York-based Acme."
SPANS = (Span(0, 13, "PER"), Span(18, 22, "LOC"), Span(36, 44, "LOC"), Span(51, 55, "ORG"))


def test_words_are_the_tokenizers_own(tokenizer: Tokenizer) -> None:
    encoding = tokenizer.encode([TEXT])[0]
    assert [TEXT[word.start : word.end] for word in words(encoding)][:6] == [
        "Åsa",
        "Lindström",
        "met",
        "U",
        ".",
        "S",
    ]


def test_every_word_inside_a_span_is_tagged(tokenizer: Tokenizer) -> None:
    task = Tag(tags_of(["PER", "LOC", "ORG"]))
    encoding = tokenizer.encode([TEXT])[0]
    targets = task.targets(Tagged(TEXT, SPANS), [encoding], 0, Window(encoding, 0))
    said = {TEXT[w.start : w.end]: task.tags[targets["tags"][w.token]] for w in words(encoding)}
    assert said["Åsa"] == "B-PER"
    assert said["Lindström"] == "I-PER"
    assert said["U"] == "B-LOC"
    assert said["S"] == "I-LOC"
    assert said["New"] == "B-LOC"
    assert said["York"] == "I-LOC"
    assert said["based"] == said["met"] == "O"
    assert said["Acme"] == "B-ORG"
    scored = (targets["tags"] != -1).sum()
    assert scored == len(words(encoding))  # the first piece of each word, and no other


def test_tags_come_back_as_the_spans_that_were_given(tokenizer: Tokenizer) -> None:
    task = Tag(tags_of(["PER", "LOC", "ORG"]))
    encoding = tokenizer.encode([TEXT])[0]
    targets = task.targets(Tagged(TEXT, SPANS), [encoding], 0, Window(encoding, 0))["tags"]
    scores = (
        F.one_hot(torch.tensor(np.where(targets < 0, 0, targets)), len(task.tags)).float()[1:-1] * 9
    )
    found = task.answer(Tagged(TEXT, ()), [encoding], [scores], 0).spans
    assert [(f.start, f.end, f.label) for f in found] == [tuple(span) for span in SPANS]
    assert all(f.confidence > 0.9 for f in found)
    assert isinstance(found[0], FoundSpan)


def test_a_users_token_is_read_at_its_first_piece(tokenizer: Tokenizer) -> None:
    tokens = ["Åsa", "Lindström", "met", "U.S.", "officials", "\u200b"]
    text = " ".join(tokens)
    places, at = [], 0
    for token in tokens:
        places.append((at, at + len(token)))
        at += len(token) + 1
    example = Tagged(text, (Span(0, 13, "PER"), Span(18, 22, "LOC")), tuple(places))
    task = Tag(tags_of(["PER", "LOC"]))
    encoding = tokenizer.encode([text])[0]
    targets = task.targets(example, [encoding], 0, Window(encoding, 0))
    assert targets["read"].sum() == 5  # the last has no piece
    scores = F.one_hot(
        torch.tensor(np.where(targets["tags"] < 0, 0, targets["tags"])), len(task.tags)
    ).float()[1:-1]
    assert task.token_tags(example, encoding, scores) == ["B-PER", "I-PER", "O", "B-LOC", "O", "O"]


def test_answers_are_in_the_tokens_that_the_user_gave(tokenizer: Tokenizer) -> None:
    """They are what the scores are of: the tokenizer's words inside a token are not heard."""
    text = "a 26-year-old in Lund"
    example = Tagged(text, (), ((0, 1), (2, 13), (14, 16), (17, 21)))
    task = Tag(tags_of(["AGE", "LOC"]))
    encoding = tokenizer.encode([text])[0]
    best = [
        task.number["B-LOC" if text[a:b] == "lund" or a == 17 else "B-AGE" if a in (2, 5) else "O"]
        for a, b in encoding.offsets
    ]
    scores = 9 * F.one_hot(torch.tensor(best), len(task.tags)).float()[1:-1]

    def spans(asked: Tagged | Line) -> list[tuple[int, int, str]]:
        answer = task.answer(asked, [encoding], [scores], 0)
        assert [one.text for one in answer.spans] == [text[o.start : o.end] for o in answer.spans]
        return [(one.start, one.end, one.label) for one in answer.spans]

    assert spans(example) == [
        (2, 13, "AGE"),
        (17, 21, "LOC"),
    ]
    assert spans(Line(text)) == [
        (2, 4, "AGE"),
        (5, 9, "AGE"),
        (17, 21, "LOC"),
    ]


def test_a_span_without_a_word_of_its_own_is_missed() -> None:
    example = Tagged("Lund", (Span(2, 4, "PART"), Span(0, 2, "LOC")), ((0, 4),))
    assert true_tags(example) == [
        "B-LOC",
        "B-PART",
    ]  # the first has the word, and the other a place where nothing is found
    assert true_tags(Tagged("a b", (Span(0, 3, "X"),), ((0, 1), (2, 3)))) == ["B-X", "I-X"]


@pytest.mark.parametrize(
    ("numbers", "complaint"),
    [
        ([1e9 + 0.5, 1e9 + 7.5], "take 1000000004 off them"),
        ([1e20, 2e20], "learn them in another unit"),
        ([1e308, -1e308, 1e308], "learn them in another unit"),
        ([1e-200, 2e-200], "learn them in another unit"),
    ],
)
def test_numbers_that_single_precision_can_not_tell_are_refused(
    numbers: list[float], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        Regress.of_examples("regress", (), [Labelled("text", number) for number in numbers])
    assert Regress.of_examples(
        "regress", (), [Labelled("text", 1e6 + number) for number in range(100)]
    ).mean == pytest.approx(1e6 + 49.5)


def test_spans_are_learned(tokenizer: Tokenizer) -> None:
    task = Tag(tags_of(["PER", "LOC", "ORG"]))
    examples = [
        Tagged(TEXT, SPANS),
        Tagged("Nothing here.", ()),
        Tagged("Acme hired Åsa.", (Span(0, 4, "ORG"), Span(11, 14, "PER"))),
    ]
    bundle = small("tag", tuple(task.tags), tokenizer)
    metrics = learn(bundle, task, ready(task, examples, tokenizer), 100)
    assert metrics["f1"] == 1.0
    assert metrics["accuracy"] == 1.0


def test_a_span_goes_on_in_the_next_window(tokenizer: Tokenizer) -> None:
    text = "They saw " + "Great Northern Railway " * 12 + "go."
    span = Span(9, 9 + len("Great Northern Railway " * 12) - 1, "ORG")
    task = Tag(tags_of(["ORG"]))
    encoding = tokenizer.encode([text])[0]
    cut = windows(encoding, 16, "slide")
    rows = [task.targets(Tagged(text, (span,)), [encoding], 0, window)["tags"] for window in cut]
    assert (
        sum((row == task.number["B-ORG"]).sum() for row in rows) == 1
    )  # it begins once, however many windows see it
    order = most_context(cut)
    assert len(order) == len(encoding) - 2
    scores = [F.one_hot(torch.tensor(np.where(row < 0, 0, row)), 3).float()[1:-1] for row in rows]
    whole = task.combine(cut, scores)
    assert [
        (f.start, f.end) for f in task.answer(Tagged(text, ()), [encoding], [whole], 0).spans
    ] == [(span.start, span.end)]


def test_tags_without_an_outside_are_refused() -> None:
    with pytest.raises(InputError, match="have no O"):
        Tag(["B-PER", "I-PER"])


@pytest.mark.parametrize(
    ("kind", "labels", "problem"),
    [("several", ("a", "b", "c"), "multi_label_classification"), ("regress", (), "regression")],
)
def test_transformers_opens_them(
    kind: str, labels: tuple[str, ...], problem: str, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    from transformers import AutoModelForSequenceClassification

    bundle = small(kind, labels, tokenizer)
    bundle.settings = {"temperature": 1.5} if labels else {}
    folder = save(bundle, tmp_path / kind)
    theirs = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    assert theirs.config.problem_type == problem
    ours = load(folder)
    assert (ours.kind, ours.labels, ours.settings) == (kind, labels, bundle.settings)
    encoding = tokenizer.encode(["A short text."])[0]
    row = EncodedExample.of([[Window(encoding, 0)]], [[{}]])
    batch = ExampleFeed([row], [""]).batch(0, np.array([0]))
    with torch.inference_mode():
        expected = theirs(input_ids=torch.tensor([encoding.ids])).logits[0]
        assert (ours.head(ours.encoder(*batch.stream).pooled)[0] - expected).abs().max() < 1e-5
    theirs.save_pretrained(tmp_path / "back")
    tokenizer.save(tmp_path / "back")
    assert load(tmp_path / "back").kind == kind


@pytest.mark.parametrize(
    ("task", "examples", "epochs", "batch"),
    [
        ("classify", 100, 10, 8),
        ("regress", 100, 10, 8),
        ("tag", 100, 30, 8),
        ("tag", 500, 20, 16),
        ("tag", 1000, 10, 16),
        ("classify", 2500, 4, 32),
        ("tag", 14041, 3, 32),
    ],
)
def test_few_examples_are_seen_more_often(
    task: str, examples: int, epochs: int, batch: int
) -> None:
    settings = FinetuneSettings(task=task, model="minilm", train="a", out="b")  # type: ignore[arg-type]
    found = decided(settings, examples, 384)
    assert (found.epochs, found.batch) == (epochs, batch)
    assert decided(settings.model_copy(update={"epochs": 2.0}), examples, 384).epochs == 2


@pytest.mark.parametrize(
    "tags",
    ["I-PER O I-LOC I-LOC", "S-PER O B-LOC E-LOC", "U-PER O B-LOC L-LOC", "B-PER O B-LOC I-LOC"],
    ids=["iob1", "iobes", "bilou", "iob2"],
)
def test_tags_of_other_models_are_compared_in_one_writing(tags: str) -> None:
    assert in_two_letters(tags.split()) == "B-PER O B-LOC I-LOC".split()
