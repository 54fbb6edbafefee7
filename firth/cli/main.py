"""The command line: one thin file a verb; nothing heavy is imported before a verb runs."""

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Annotated

import typer
from typer.exceptions import TyperException

from firth import __version__
from firth.base.arguments import misspelt
from firth.base.errors import FirthError, bounded, on_command_line
from firth.base.notes import on_standard_error
from firth.base.output import PIPE_CLOSED, Unread, discard_output
from firth.cli import (
    align,
    check,
    convert,
    demo,
    embed,
    env,
    evaluate,
    finetune,
    glue,
    neighbours,
    predict,
    pretrain,
    view,
    vocab,
)
from firth.cli.root import Debug, Plugin, plugin_files

INTERRUPTED = 130  # what typer makes of a KeyboardInterrupt
# How typer refuses a word that is none of an option's choices.
NO_CHOICE = re.compile(r"(?:Value error, )?('(?P<given>[^']*)' is not one of (?P<known>'.*'))\.?$")

COMMANDS: dict[str, Callable[..., None]] = {
    "check": check.check,
    "vocab": vocab.vocab,
    "pretrain": pretrain.pretrain,
    "finetune": finetune.finetune,
    "evaluate": evaluate.evaluate,
    "embed": embed.embed,
    "predict": predict.predict,
    "view": view.view,
    "neighbours": neighbours.neighbours,
    "align": align.align,
    "glue": glue.glue,
    "convert": convert.convert,
    "demo": demo.demo,
    "env": env.env,
}


def make_app(words: Collection[str]) -> typer.Typer:
    """Return the command line, in which only the commands named in `words` have their options.

    Reading them takes pydantic, for which the list of commands should not wait.
    """
    app = typer.Typer(
        name="firth",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_root)
    for name, command in COMMANDS.items():
        app.command(name, help=inspect.getdoc(command))(_options(name, command, words))
    return app


def _options(
    name: str, command: Callable[..., None], words: Collection[str]
) -> Callable[..., None]:
    if name not in words:
        return lambda: None

    from firth.cli.options import with_options
    from firth.cli.settings import SETTINGS, UNCONFIGURED, WITHOUT_PLUGINS

    return with_options(
        command,
        SETTINGS[name],
        configured=name not in UNCONFIGURED,
        plugins=name not in WITHOUT_PLUGINS,
    )


def _read_plugins(words: Sequence[str]) -> None:
    """Execute the files of --plugin: the choices of options are made of what they register."""
    files = plugin_files(words)
    if not files:
        return

    from firth.plugins import read_plugin

    for file in files:
        read_plugin(file)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"firth {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    plugin: Plugin = [],  # noqa: B006 - typer reads it and gives a list of its own
    debug: Debug = False,
) -> None:
    """Turn text into a language model that you own."""


@on_command_line()
def main() -> None:
    """Run a command; every failure is one sentence on standard error and an exit code."""
    # An encoding that somebody asked for may lack signs.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    debug = "--debug" in sys.argv[1:]
    arguments = [word for word in sys.argv[1:] if word != "--debug"]
    try:
        with on_standard_error():
            _read_plugins(arguments)
            app = make_app(arguments)
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
        code = _say(_refusal(error.format_message()), 2, debug)
    except FirthError as error:
        code = _say(str(error), error.exit_code, debug)
    except (KeyboardInterrupt, typer.Abort):
        code = _say("stopped", 3, debug)
    except OSError as error:
        code = _output_failed(error, debug)
    # The last resort: a person never sees a traceback unasked.
    except Exception as error:  # noqa: BLE001
        code = _say(
            f"{type(error).__name__}: {error} (this is a defect; --debug shows where)", 1, debug
        )
    try:
        sys.stdout.flush()
    except OSError as error:  # met only now by what ended without an answer: a help page, an error
        code = code or _output_failed(error, debug)
    sys.exit(code if isinstance(code, int) else 0)


def _refusal(message: str) -> str:
    """Return typer's message, with the choice that a misspelt word may stand for."""
    found = NO_CHOICE.search(message)
    if found is None:
        return message
    choices = re.findall("'([^']*)'", found["known"])
    return f"{message[: found.start()]}{found[1]}{misspelt(found['given'], choices)}"


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
