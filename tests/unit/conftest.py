"""What several unit tests share."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def without_onednn() -> Iterator[None]:
    """Products in bf16 by torch's own loops: on some processors those of oneDNN end the process."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    yield
    torch._C._set_mkldnn_enabled(before)
