"""The clock of a run: seconds over all the processes that it lived in."""

import os
import time
from pathlib import Path

START_FIELD = 19  # of /proc/self/stat, counted after the process name: ticks from boot to start


class Clock:
    """Count seconds since it was made, or since its process began, and those of earlier ones."""

    def __init__(self, of_process: bool = False) -> None:
        self.earlier = 0.0
        self._begun = time.monotonic()
        if of_process:
            self._begun -= _process_age()

    def __call__(self) -> float:
        """Return the seconds so far."""
        return self.earlier + time.monotonic() - self._begun


def _process_age() -> float:
    """Return the seconds since this process was started; 0 where the system doesn't tell."""
    try:
        # The name may hold blanks and brackets, so the fields are counted after its last bracket.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[START_FIELD]) / os.sysconf("SC_CLK_TCK")
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    return uptime - started
