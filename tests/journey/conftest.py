"""What several journeys share."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small models gain nothing from a second thread, and two threads on a busy machine wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr("firth.predict.available", lambda: 1)
    yield
    torch.set_num_threads(before)
