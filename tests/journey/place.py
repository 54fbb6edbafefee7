"""Files of the sample tickets, and models with random weights that are quick to fine-tune."""

import json
from pathlib import Path
from typing import Any

import torch

from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.models.gpt import Gpt, GptSettings
from firth.samples.tickets import MARKED, tickets
from firth.tasks.head import make_head
from firth.tasks.tag import tags_of
from firth.text.tokenizer import Tokenizer
from tests.journey.command import Ended, run

QUEUES = ("praise", *sorted({*MARKED} - {"praise"}))  # in another order than that of the alphabet
STILL = (
    "--rate",
    "1e-9",
    "--epochs",
    "1",
    "--batch",
    "64",
    "--threads",
    "1",
)  # learns nothing that shows
OF_EACH = {name: [ticket for ticket in tickets() if ticket.about == name] for name in QUEUES}
CHOSEN = [ticket for some in OF_EACH.values() for ticket in some[:8]]
LATER = [some[8] for some in OF_EACH.values()]
TEXTS = [ticket.text for ticket in CHOSEN]


class Place:
    """A folder with files of tickets, and models with random weights."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokenizer = Tokenizer.train(TEXTS, "wordpiece", 400)
        self.rows: dict[str, list[dict[str, Any]]] = {
            "classify": [{"text": t.text, "label": t.about} for t in CHOSEN],
            "several": [
                {"text": t.text, "label": [t.about] if number % 4 else []}
                for number, t in enumerate(CHOSEN)
            ],
            "regress": [{"text": t.text, "label": 200.0 + len(t.text)} for t in CHOSEN],
            "tag": [{"text": t.text, "spans": [n._asdict() for n in t.names]} for t in CHOSEN],
        }
        names = {name.label for ticket in CHOSEN for name in ticket.names}
        self.labels = {
            "classify": QUEUES,
            "several": QUEUES,
            "regress": (),
            "tag": tuple(tags_of(sorted(names, reverse=True))),
        }
        for kind, rows in self.rows.items():
            self.file(kind, rows)

    def file(self, name: str, rows: list[dict[str, Any]]) -> Path:
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    def model(self, kind: str, labels: tuple[str, ...] | None = None, gpt: bool = False) -> Path:
        """A folder with a head for a kind of task, as transformers would leave it: without firth.json."""
        torch.manual_seed(5)
        sizes = {
            "vocab": self.tokenizer.size,
            "width": 16,
            "depth": 2,
            "heads": 2,
            "inner": 32,
            "length": 64,
            "dropout": 0.0,
        }
        encoder: Bert | Gpt = (
            Gpt(GptSettings(**sizes, start=2, end=3))
            if gpt
            else Bert(BertSettings(**sizes, spread=0.3, pooler=kind != "tag"))
        )
        names = self.labels[kind] if labels is None else labels
        head = make_head(kind, encoder, names)
        torch.nn.init.normal_(head.linear.weight, std=0.5)
        family = "gpt2" if gpt else "bert"
        place = self.folder / f"{kind}-{len(list(self.folder.iterdir()))}"
        folder = save(Bundle(encoder, self.tokenizer, family, kind, head, names), place)
        (folder / "firth.json").unlink()
        return folder

    def tune(self, kind: str, model: Path, out: str, *options: object, code: int = 0) -> Ended:
        """Fine-tune on the file of a kind, which is held out too."""
        task, train = kind.replace("several", "classify"), self.folder / f"{kind}.jsonl"
        given = ("--dev", train) if "--folds" not in options and "--dev" not in options else ()
        ended = run(
            "finetune",
            task,
            "--model",
            model,
            "--train",
            train,
            *given,
            "-o",
            self.folder / out,
            *STILL,
            *options,
        )
        assert ended.code == code, ended.err
        return ended
