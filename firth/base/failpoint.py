"""Named places at which a test can kill the process, to show that nothing is lost there."""

import os
import signal

VARIABLE = "FIRTH_FAILPOINT"  # NAME, or NAME:3 for the third time that the place is passed
_passed: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Die here, as by a power cut, if the environment names this place; otherwise do nothing."""
    asked, _, times = os.environ.get(VARIABLE, "").partition(":")
    if asked != name:
        return
    _passed[name] = _passed.get(name, 0) + 1
    if _passed[name] >= int(times or 1):
        os.kill(os.getpid(), signal.SIGKILL)
