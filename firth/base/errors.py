"""The errors that Firth raises on purpose; their text is one sentence that a person can act on."""


class FirthError(Exception):
    """The work failed."""

    exit_code = 1


class InputError(FirthError):
    """The call, the data or the model folder is wrong; the message names the file and the reason."""

    exit_code = 2


class Stopped(FirthError):
    """The run was stopped on request and can be resumed."""

    exit_code = 3
