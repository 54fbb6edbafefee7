"""The errors that Firth raises on purpose; their text is one sentence that a person can act on."""

import sys
import warnings


class FirthError(Exception):
    """The work failed."""

    exit_code = 1


class InputError(FirthError):
    """The call, the data or the model folder is wrong; the message names the file and the reason."""

    exit_code = 2


class Stopped(FirthError):
    """The run was stopped on request and can be resumed."""

    exit_code = 3


class FirthWarning(UserWarning):
    """Something was left out or is other than it seems, and the work goes on; the command line prints it as a note."""


def warn(message: str) -> None:
    """Issue a FirthWarning at the caller's line that is outside of this package."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "firth":
        level += 1
        frame = frame.f_back
    warnings.warn(message, FirthWarning, stacklevel=level)
