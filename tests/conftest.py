"""What every test may rely on: counts that scale, a seed that is printed, and no network."""

import os
import random
import sys
import zlib
from pathlib import Path

if sys.dont_write_bytecode:
    # The tests start processes by the dozen, and each would compile all of torch again.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Before any library that reads them is imported.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    # A core each, for its processes too: two threads that wait for each other while others run are many times slower than one.
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})

import hypothesis
import pytest

SOAK = os.environ.get("FIRTH_SOAK", "") not in ("", "0")
SEED = int(os.environ.get("FIRTH_SEED") or (random.SystemRandom().randrange(2**31) if SOAK else 0))
os.environ["FIRTH_SEED"] = str(SEED)  # for the workers of a parallel run

hypothesis.settings.register_profile("test", derandomize=True, deadline=None)
hypothesis.settings.register_profile("soak", deadline=None, print_blob=True)
hypothesis.settings.load_profile("soak" if SOAK else "test")


def count(full: int) -> int:
    """The size of a trial: in full under `make soak`, a twentieth of 1,000 or more under `make test`."""
    return full if SOAK or full < 1000 else full // 20


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A seed of the test's own, from FIRTH_SEED and its name; pytest shows the printed line when the test fails."""
    value = zlib.crc32(request.node.nodeid.encode()) ^ SEED
    print(f"seed {value} (FIRTH_SEED={SEED})")
    return value


def pytest_report_header() -> str:
    """Say how the run can be repeated."""
    return f"firth: FIRTH_SEED={SEED} FIRTH_SOAK={int(SOAK)} FIRTH_DATA={os.environ.get('FIRTH_DATA', '')}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the long tests to the long run."""
    if not SOAK:
        for item in items:
            if item.get_closest_marker("soak"):
                item.add_marker(pytest.mark.skip(reason="runs under `make soak`"))


def _offline(event: str, args: tuple[object, ...]) -> None:
    """Refuse every connection that leaves this machine, whichever library asks for it."""
    if event == "socket.connect":
        address = args[1]
        if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(f"a test opened a connection to {address[0]}")
    elif event == "socket.getaddrinfo" and args[0] not in (None, "127.0.0.1", "::1", "localhost"):
        raise OSError(f"a test looked up the host {args[0]!r}")


sys.addaudithook(_offline)
