"""The table in docs/folder.md of what runs, family by family, compared with what does."""

import json
from pathlib import Path
from typing import Any

import pytest
import transformers

import firth
from firth.base.errors import InputError
from firth.families.registry import BUILT_IN, by_model_type
from firth.folders.bundle import Bundle
from firth.folders.read import load
from firth.folders.write import save
from firth.predictor import Predictor
from firth.tasks.head import make_head
from firth.text.tokenizer import Tokenizer
from tests.parity.test_folders import make
from tests.unit.folders import PIECES, language_models, words

PAGE = Path(__file__).parents[2] / "docs" / "folder.md"
TASKS = [
    *("embed", "fill masks", "classify", "tag", "regress", "answer", "choice", "generate"),
    "translate",
]
LEARNED = ("classify", "tag", "regress", "answer", "choice", "translate")
CLASSES = {
    "bert": "Bert",
    "distilbert": "DistilBert",
    "roberta": "Roberta",
    "xlm-roberta": "XLMRoberta",
    "mpnet": "MPNet",
    "gpt2": "GPT2",
}
ENDS = {
    "embed": ["Model"],
    "fill masks": ["ForMaskedLM"],
    "classify": ["ForSequenceClassification"],
    "tag": ["ForTokenClassification"],
    "regress": ["ForSequenceClassification"],
    "answer": ["ForQuestionAnswering"],
    "choice": ["ForMultipleChoice"],
    "generate": ["LMHeadModel", "ForCausalLM"],
    "translate": [],
}
VECTORS = [family.model_type for family in BUILT_IN if "static vectors" in family.contracts]
OWN: dict[str, str | None] = {
    "firth-elmo": "elmo",
    "firth-rnn": "tanh",
    "firth-ffnn": "ffnn",
    "firth-ngram": "ngram",
    "firth-seq2seq": "seq2seq",
    "firth-attention": "attention",
    "firth-transformer": "transformer",
    "marian": "marian",
    "t5": "t5",
    "mt5": "t5 1.1",
    "firth-mean": None,
    **dict.fromkeys(VECTORS),
}
OUTPUTS: dict[str, dict[str, Any]] = {
    "regress": {"num_labels": 1},
    "tag": {"id2label": {0: "O", 1: "B-x"}},
}
QUICK = {"epochs": 1.0, "batch": 8, "threads": 1, "workers": 0}


def promised() -> dict[str, list[str]]:
    """The rows of the table: what is said of each task, by family."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    begin = lines.index("| `model_type` | " + " | ".join(TASKS) + " |")
    rows: dict[str, list[str]] = {}
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        family, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[family.strip("`")] = cells
    return rows


def asked(model: Bundle, task: str) -> list[Any]:
    """What a model answers to real text; InputError where it can't."""
    predictor = Predictor(model, 1)
    if task == "embed":
        return [vector.tolist() for vector in predictor.embed(["a bad face"])]
    if task == "answer":
        return predictor.predict([("bad?", "a bad face")])
    if task == "translate":
        return predictor.translate(["a bad face"])
    if task == "choice":
        return [predictor.choose("a bad face", ["a jig", "a bad fig", "a cab"])]
    return predictor.predict(["a [MASK] face" if task == "fill masks" else "a bad face"])


def examples(task: str, folder: Path) -> Path:
    """A few rows to learn a task from."""
    learned: dict[str, Any] = {
        "classify": {"label": "AB"},
        "regress": {"label": [1.5, 2.5]},
        "tag": {"spans": [[{"start": 2, "end": 5, "label": "x"}]] * 2},
        "answer": {"context": ["bad", "a bad"], "answers": [[], [{"text": "bad", "start": 2}]]},
        "choice": {"choices": [["a fig", "a jig"], ["a fig", "a cab", "a bead"]], "label": [0, 2]},
        "translate": {"tgt": ["a fig", "a bad jig"]},
    }[task]
    words = ("face", "bead", "cab", "fig", "jig", "dig", "big", "gag")
    fields = {"answer": "question", "choice": "context", "translate": "src"}
    field = fields.get(task, "text")
    rows = [
        {field: f"a bad {word}", **{k: v[i % 2] for k, v in learned.items()}}
        for i, word in enumerate(words)
    ]
    path = folder / f"{task}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def folder_of(family: str, task: str, place: Path) -> Path | None:
    """A folder of a family with a head for a task, by whoever has such a class; None where nobody has."""
    if family in OWN:
        record = by_model_type(family, "here")
        does = {
            "embed": record.is_encoder,
            "generate": record.is_language_model,
            "translate": record.is_encoder_decoder,
        }
        if not does.get(task):
            return None
        (place / "words").mkdir(exist_ok=True)
        (place / "words" / "tokenizer.json").write_text(words())
        kind = None
        head = None
        name = OWN[family]
        if name:
            model, kind, _ = language_models()[name]
            head = make_head(kind, model) if family == "firth-elmo" else None
        else:
            model = record.network(record.settings(vocab=len(PIECES), width=8))
        bundle = Bundle(model, Tokenizer.open(place / "words"), family, kind, head)
        return save(bundle, place / task)
    names = [CLASSES[family] + end for end in ENDS[task]]
    name = next((name for name in names if hasattr(transformers, name)), None)
    if name is None:
        return None
    make(name, place / task, **OUTPUTS.get(task, {}))
    return place / task


def found(family: str, task: str, base: Path, place: Path) -> str:
    """What really runs, in the words of the table."""
    runs = []
    folder = folder_of(family, task, place)
    if folder is not None:
        try:
            opened = load(folder)
            answers = asked(opened, task)
        except InputError:
            pass
        else:
            runs.append("read")
            again = load(save(opened, place / f"{task} saved"))
            assert asked(again, task) == answers
    if task in LEARNED:
        try:
            firth.finetune(task, base, examples(task, place), place / f"{task} tuned", **QUICK)
        except InputError:
            assert not (place / f"{task} tuned.run").exists()
        else:
            runs.append("fine-tuned")
            assert asked(load(place / f"{task} tuned"), task)
    return ", ".join([*runs, *(["saved"] if runs else [])]) or "-"


def test_the_table_has_every_family() -> None:
    assert sorted(promised()) == sorted(family.model_type for family in BUILT_IN)


@pytest.mark.filterwarnings("ignore::firth.FirthWarning")
@pytest.mark.parametrize("family", [*CLASSES, *OWN])
def test_the_table_is_true(family: str, tmp_path: Path) -> None:
    record = by_model_type(family, "here")
    other = "translate" if record.is_encoder_decoder else "generate"
    base = folder_of(family, "embed" if record.is_encoder else other, tmp_path)
    assert base is not None
    place = tmp_path / "tried"
    place.mkdir()
    assert [found(family, task, base, place) for task in TASKS] == promised()[family]
