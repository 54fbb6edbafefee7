"""A few rows in the layouts in which GLUE and SuperGLUE are published; all sentences are ours."""

import json
from collections.abc import Sequence
from pathlib import Path

Table = Sequence[Sequence[object]]

SENTENCES = (
    "The cat sat on the mat.",
    "Sat mat the on cat the.",
    'She said "no" and left',
    '"We wanted a quote that never closes',
    "Nobody rang the bell .",
    "The lid broke , and the glue failed .",
    "Un café à Genève",
    "It rained all day long",
)
PAIRS = tuple(zip(SENTENCES, (*SENTENCES[1:], SENTENCES[0]), strict=True))
PARSE = "( x )"
STS = "index genre filename year old_index source1 source2 sentence1 sentence2".split()


def table(path: Path, rows: Table, end: str = "\n") -> Path:
    """Write rows with tabs between fields and without quotes, as GLUE has them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join("\t".join(map(str, row)) + end for row in rows)
    path.write_text(text, encoding="utf-8", newline="")
    return path


def objects(path: Path, rows: Sequence[dict[str, object]]) -> Path:
    """Write an object a line, as SuperGLUE has them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def labelled(labels: Sequence[object]) -> list[tuple[int, str, str, object]]:
    """Return the number, two sentences and the label of eight rows."""
    return [(at, one, two, labels[at % len(labels)]) for at, (one, two) in enumerate(PAIRS)]


def write_glue(folder: Path) -> Path:
    """Write every task of GLUE, with test sets that have no labels."""
    binary = labelled([1, 0])
    entailment = labelled(["entailment", "not_entailment"])
    cola = folder / "CoLA"
    for part in ("train", "dev"):
        table(
            cola / f"{part}.tsv",
            [("gj04", label, "" if label else "*", one) for _, one, _, label in binary],
        )
        sst = [("sentence", "label"), *((f"{one} ", label) for _, one, _, label in binary)]
        table(folder / "SST-2" / f"{part}.tsv", sst)
        mrpc = [("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String")]
        mrpc += [(label, 70 + at, 90 + at, one, two) for at, one, two, label in binary]
        table(folder / "MRPC" / f"{part}.tsv", mrpc, end="\r\n")
        sts = [
            [*STS, "score"],
            *(
                (at, "main-captions", "MSRvid", "2012test", at, "none", "none", one, two, at * 0.6)
                for at, one, two, _ in binary
            ),
        ]
        table(folder / "STS-B" / f"{part}.tsv", sts)
        qqp = [("id", "qid1", "qid2", "question1", "question2", "is_duplicate")]
        qqp += [(at, at, at + 1, one, two, label) for at, one, two, label in binary]
        table(folder / "QQP" / f"{part}.tsv", qqp)
        qnli = [("index", "question", "sentence", "label"), *entailment]
        table(folder / "QNLI" / f"{part}.tsv", qnli)
        table(
            folder / "RTE" / f"{part}.tsv",
            [("index", "sentence1", "sentence2", "label"), *entailment],
        )
        table(
            folder / "WNLI" / f"{part}.tsv", [("index", "sentence1", "sentence2", "label"), *binary]
        )
    _write_mnli(folder / "MNLI")
    _write_tests(folder)
    return folder


def _write_mnli(folder: Path) -> None:
    names = ["index", "promptID", "pairID", "genre", "sentence1_binary_parse"]
    names += ["sentence2_binary_parse", "sentence1_parse", "sentence2_parse"]
    names += ["sentence1", "sentence2"]
    rows = labelled(["neutral", "contradiction", "entailment"])
    for part, votes in (("train", 1), ("dev_matched", 5), ("dev_mismatched", 5)):
        head = [*names, *(f"label{vote + 1}" for vote in range(votes)), "gold_label"]
        body = [
            (at, at, f"{at}n", "fiction", *[PARSE] * 4, one, two, *[label] * votes, label)
            for at, one, two, label in rows
        ]
        table(folder / f"{part}.tsv", [head, *body])
    for part in ("test_matched", "test_mismatched"):
        body = [
            (9000 + at, at, f"{at}n", "fiction", *[PARSE] * 4, one, two) for at, one, two, _ in rows
        ]
        table(folder / f"{part}.tsv", [names, *body])


def _write_tests(folder: Path) -> None:
    pairs = [(at, one, two) for at, (one, two) in enumerate(PAIRS)]
    for name in ("CoLA", "SST-2"):
        body = [(at, one) for at, one, _ in pairs]
        table(folder / name / "test.tsv", [("index", "sentence"), *body])
    mrpc = [("index", "#1 ID", "#2 ID", "#1 String", "#2 String")]
    table(folder / "MRPC" / "test.tsv", [*mrpc, *((at, 1, 2, one, two) for at, one, two in pairs)])
    body = [(at, "g", "f", "2012", at, "none", "none", one, two) for at, one, two in pairs]
    table(folder / "STS-B" / "test.tsv", [STS, *body])
    for name, head in (
        ("QQP", ("id", "question1", "question2")),
        ("QNLI", ("index", "question", "sentence")),
        ("RTE", ("index", "sentence1", "sentence2")),
        ("WNLI", ("index", "sentence1", "sentence2")),
    ):
        table(folder / name / "test.tsv", [head, *pairs])
    table(folder / "AX" / "AX.tsv", [("index", "sentence1", "sentence2"), *pairs])


def write_superglue(folder: Path) -> Path:
    """Write the tasks of SuperGLUE that are measured, and one that isn't."""
    rows = list(enumerate(PAIRS))
    for part in ("train", "val"):
        objects(
            folder / "BoolQ" / f"{part}.jsonl",
            [
                {"question": one, "passage": two, "idx": at, "label": at % 2 == 0}
                for at, (one, two) in rows
            ],
        )
        objects(
            folder / "CB" / f"{part}.jsonl",
            [
                {
                    "premise": one,
                    "hypothesis": two,
                    "label": ("contradiction", "entailment", "neutral")[at % 3],
                    "idx": at,
                }
                for at, (one, two) in rows
            ],
        )
        objects(
            folder / "COPA" / f"{part}.jsonl",
            [
                {
                    "premise": one,
                    "choice1": two,
                    "choice2": "Nothing.",
                    "question": ("cause", "effect")[at % 2],
                    "label": at % 2,
                    "idx": at,
                }
                for at, (one, two) in rows
            ],
        )
    (folder / "WiC").mkdir()
    return folder
