"""Real texts to measure with: a spread of lengths from a word to a long review, mean about 60 tokens."""

import gzip
import inspect
import json
import os
import pkgutil
import random
from importlib import import_module
from pathlib import Path
from pydoc_data import topics

# data set, file, how many of a thousand texts
SHARES = (("sst2", "train", 350), ("ag_news", "test", 400), ("imdb", "test", 120))
WIKIPEDIA = 130


def real_texts(count: int, seed: int = 1) -> tuple[list[str], str]:
    """Draw texts from the data sets under FIRTH_DATA, or from Python's own documentation where there are none."""
    draw = random.Random(seed)
    folder = os.environ.get("FIRTH_DATA")
    if not folder or not Path(folder).is_dir():
        return draw.sample(_documentation(), count), "Python's documentation"
    texts: list[str] = []
    for name, split, share in SHARES:
        with gzip.open(Path(folder) / name / f"{split}.jsonl.gz", "rt", encoding="utf-8") as lines:
            texts += draw.sample(
                [json.loads(line)["text"] for line in lines], share * count // 1000
            )
    with gzip.open(
        Path(folder) / "corpus" / "wikipedia_en.dev.txt.gz", "rt", encoding="utf-8"
    ) as lines:
        texts += draw.sample([line.strip() for line in lines if line.strip()], count - len(texts))
    draw.shuffle(texts)
    return texts, "SST-2, AG News, IMDB and Wikipedia"


def paragraphs() -> list[str]:
    """Paragraphs of running text in their order: Wikipedia where the data is at hand, else Python's own documentation."""
    folder = os.environ.get("FIRTH_DATA")
    if not folder or not Path(folder).is_dir():
        return _documentation()
    with gzip.open(
        Path(folder) / "corpus" / "wikipedia_en.dev.txt.gz", "rt", encoding="utf-8"
    ) as lines:
        return [line.strip() for line in lines if line.strip()]


def _documentation() -> list[str]:
    pages = list(topics.topics.values())
    for module in sorted(
        info.name
        for info in pkgutil.iter_modules()
        if info.name in ("ast", "csv", "json", "os", "re", "ssl", "typing")
    ):
        pages += [inspect.getdoc(value) or "" for value in vars(import_module(module)).values()]
    return [" ".join(part.split()) for page in pages for part in page.split("\n\n") if part.strip()]
