"""How long a run has taken, over all the processes that it lived in."""

import os
import time
from pathlib import Path


class Clock:
    """Seconds since it was made, or since its process began, plus those of the run's earlier processes."""

    def __init__(self, of_process: bool = False) -> None:
        self.earlier = 0.0
        self._begun = time.monotonic() - (_age() if of_process else 0.0)

    def __call__(self) -> float:
        """Seconds so far."""
        return self.earlier + time.monotonic() - self._begun


def _age() -> float:
    """Seconds since this process was started; where the system doesn't tell, since now."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return float(Path("/proc/uptime").read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0
