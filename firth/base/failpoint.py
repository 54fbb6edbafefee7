"""Named points at which a test can kill the process, to show that nothing is lost there."""

import os
import signal

VARIABLE = "FIRTH_FAILPOINT"  # NAME, or NAME:3 for the third time that the point is passed
_passed: dict[str, int] = {}


def failpoint(name: str) -> None:
    """Kill this process, as a power cut would, if the environment names this point."""
    asked, _, times = os.environ.get(VARIABLE, "").partition(":")
    if asked != name:
        return
    passed = _passed.get(name, 0) + 1
    _passed[name] = passed
    if passed >= int(times or 1):
        os.kill(os.getpid(), signal.SIGKILL)
