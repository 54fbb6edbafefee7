"""One browser for all tests of pages, and small models to look into."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from firth.folders.bundle import Bundle
from firth.folders.write import save
from firth.models.bert import Bert, BertSettings
from firth.models.rnn import Rnn, RnnSettings
from firth.tasks.head import make_head
from tests.browser.browser import Browser, missing
from tests.unit.speakers import TRANSLATORS, bundle, tokenizer, translator

WIDTH = 32
LONGEST = 160


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser; without one the tests are skipped, with the reason."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The browser with a light screen, as every test finds it."""
    chromium.media()
    return chromium


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of small models with lively random weights."""
    folder = tmp_path_factory.mktemp("models")
    words = tokenizer("wordpiece")
    for name, kind, labels in (
        ("bert", "pretrain", ()),
        ("queues", "classify", ("billing", "delivery", "praise")),
        ("names", "tag", ("O", "B-PLACE", "I-PLACE")),
        ("bare", None, ()),
    ):
        torch.manual_seed(3)
        encoder = Bert(
            BertSettings(
                vocab=words.size,
                width=WIDTH,
                depth=2,
                heads=4,
                inner=2 * WIDTH,
                length=LONGEST,
                spread=0.3,
                pooler=kind not in (None, "tag"),
            )
        )
        head = make_head(kind, encoder, labels)
        made = Bundle(
            encoder.eval(), words, kind=kind, head=head.eval() if head else None, labels=labels
        )
        save(made, folder / name)
    spoken = tokenizer("words")
    marks = {"vocab": spoken.size, "start": spoken.cls, "end": spoken.sep}
    network = Rnn(RnnSettings(**marks, width=8, output="none", spread=0.5))
    head = make_head("classify", network, ("good", "bad"))
    assert head is not None
    mood = Bundle(
        network.eval(), spoken, "firth-rnn", "classify", head.eval(), labels=("good", "bad")
    )
    mood.values = mood.labels
    save(mood, folder / "mood")
    save(bundle("gpt"), folder / "gpt")
    save(bundle("rnn"), folder / "rnn")
    save(bundle("elmo"), folder / "elmo")
    save(bundle("ngram"), folder / "counts")
    for name in TRANSLATORS:
        save(translator(name), folder / name)
    return folder
