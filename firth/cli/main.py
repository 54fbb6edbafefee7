"""The command line: one thin file a verb; nothing heavy is imported before a verb runs."""

import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer
from typer.exceptions import TyperException

from firth.base.errors import FirthError, FirthWarning, bounded, on_command_line
from firth.base.output import PIPE_CLOSED, Unread, discard_output
from firth.cli import check, demo, embed, env, evaluate, finetune, predict, pretrain, view, vocab

INTERRUPTED = 130  # what typer makes of a KeyboardInterrupt

app = typer.Typer(
    name="firth",
    help="Turn text into a language model that you own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("check")(check.check)
app.command("vocab")(vocab.vocab)
app.command("pretrain")(pretrain.pretrain)
app.command("finetune")(finetune.finetune)
app.command("evaluate")(evaluate.evaluate)
app.command("embed")(embed.embed)
app.command("predict")(predict.predict)
app.command("view")(view.view)
app.command("demo")(demo.demo)
app.command("env")(env.env)


@on_command_line()
def main() -> None:
    """Run a command; every failure is one sentence on standard error and an exit code from the contract."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # where an encoding was asked for that lacks signs
    debug = "--debug" in sys.argv[1:]
    arguments = [word for word in sys.argv[1:] if word != "--debug"]
    try:
        with _notes():
            code = app(arguments or ["--help"], prog_name="firth", standalone_mode=False)
        code = code if arguments else 2
        if code == INTERRUPTED:
            code = _say("stopped", 3, debug)
        sys.stdout.flush()
    except typer.Exit as stop:
        code = stop.exit_code
    except SystemExit as stop:  # typer's own answer to a pipe that is closed
        closed = stop.__context__
        code = _output_failed(closed, debug) if isinstance(closed, BrokenPipeError) else stop.code
    except TyperException as error:
        code = _say(error.format_message(), 2, debug)
    except FirthError as error:
        code = _say(str(error), error.exit_code, debug)
    except (KeyboardInterrupt, typer.Abort):
        code = _say("stopped", 3, debug)
    except OSError as error:
        code = _output_failed(error, debug)
    except Exception as error:  # noqa: BLE001 - the last resort: a person never sees a traceback unasked
        code = _say(
            f"{type(error).__name__}: {error} (this is a defect; --debug shows where)", 1, debug
        )
    try:
        sys.stdout.flush()
    except OSError as error:  # met only now by what ended without an answer: a help page, an error
        code = code or _output_failed(error, debug)
    sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _notes() -> Iterator[None]:
    """Print each warning of Firth's own once, as a note."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, FirthWarning):
                print(f"note: {message}", file=sys.stderr)
            else:
                usual(message, category, *where, **more)

        warnings.simplefilter("default", FirthWarning)
        warnings.showwarning = show
        yield


def _output_failed(error: OSError, debug: bool) -> int:
    """Give up on standard output; a reader that has gone, as `head -1` does, needs no message."""
    discard_output()
    if isinstance(error, BrokenPipeError):
        return 0 if isinstance(error, Unread) else PIPE_CLOSED
    return _say(f"{error.filename or 'standard output'}: {error.strerror or error}", 1, debug)


def _say(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    with suppress(BrokenPipeError):
        print("firth:", bounded(" ".join(message.splitlines())), file=sys.stderr)
    return code
