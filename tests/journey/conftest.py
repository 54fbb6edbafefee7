"""What several journeys share."""

import re
from collections.abc import Iterator
from pathlib import Path
from pydoc_data.topics import topics

import pytest
import torch

from tests.journey.command import run
from tests.journey.warm import Warm

TOPICS = 12
BRIEF = 1300  # characters that a topic has at most


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small models gain nothing from a second thread, and two threads on a busy machine wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr("firth.cli.options.usual", lambda: 1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """Starts `firth` in processes of their own, without waiting for torch each time."""
    with Warm(tmp_path_factory.mktemp("warm")) as process:
        yield process


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real text that every Python has: some short topics of its own help, each a document."""
    brief = [text for _, text in sorted(topics.items()) if len(text) < BRIEF]
    return write_corpus(tmp_path_factory.mktemp("corpus"), brief[:TOPICS])


@pytest.fixture(scope="session")
def vocab(corpus: Path) -> Path:
    """A small vocabulary of that text."""
    return learn_vocab(corpus, 300)


def write_corpus(folder: Path, texts: list[str]) -> Path:
    """Write texts as documents: without an empty line inside, and with one between them."""
    documents = [re.sub(r"\n\s*\n", "\n", text.strip()) for text in texts]
    path = folder / "topics.txt"
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path


def learn_vocab(corpus: Path, size: int) -> Path:
    """Learn a vocabulary of a text in a folder beside it."""
    folder = corpus.with_name("vocab")
    ended = run("vocab", corpus, "-o", folder, "--size", size)
    assert ended.code == 0, ended.err
    return folder
