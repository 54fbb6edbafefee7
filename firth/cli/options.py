"""Make a command's options from its settings class; read `--config` and `--set`."""

import inspect
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, Optional, get_args

import typer
from pydantic.fields import FieldInfo

from firth.base.arguments import nearest
from firth.base.errors import InputError
from firth.base.settings import Option, Settings
from firth.base.threads import available, keep_heap
from firth.cli.root import Debug, Plugin

# Options that --set and --config can't reach.
NO_SETTINGS = ("config", "overrides", "plugin", "debug", "help")

# A larger limit only keeps a number within 64 bits, and is not worth a place in the help.
LARGEST_SHOWN = 1 << 48


def with_options(
    command: Callable[..., None],
    known: type[Settings],
    *,
    configured: bool = True,
    plugins: bool = True,
) -> Callable[..., None]:
    """Return a command for typer whose options are the fields of a settings class.

    Values are checked before the command is called, so that it imports nothing for a wrong call.
    `configured` gives it --config and --set, `plugins` --plugin.
    """

    def call(invocation: typer.Context, **given: Any) -> None:
        values = {name: _plain(given[name]) for name in given if name in known.model_fields}
        for old in known.renamed:
            if given[old] is not None:
                values[old] = given[old]
        if "threads" in values:
            values["threads"] = _threads(values["threads"])
        command(**dict(known.given(values | (invocation.obj or {}))))

    parameters = [_keyword("invocation", typer.Context, inspect.Parameter.empty)]
    parameters += _parameters(known)
    if configured:
        parameters += [_config(known), _overrides(known)]
    if plugins:
        parameters.append(_keyword("plugin", Plugin, []))
    parameters.append(_keyword("debug", Debug, False))
    call.__doc__ = command.__doc__
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _plain(value: Any) -> Any:
    """Return a path as a string, as settings hold it."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


def _threads(asked: int | None) -> int:
    """Return how many threads to use: as asked, or this process's part of the cores.

    A command that computes has a process of its own, so that freed memory is kept for the next
    tensor.
    """
    keep_heap()
    return asked or max(1, available() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


# From settings to options


def _parameters(known: type[Settings]) -> Iterator[inspect.Parameter]:
    for name, field in known.model_fields.items():
        if not Option.of(field).only_set:
            yield _parameter(name, field)
    for old, new in known.renamed.items():
        field = known.model_fields[new]
        shown = typer.Option(f"--{old}", hidden=True)
        yield _keyword(old, Annotated[Optional[_type(field)], shown], None)  # noqa: UP045


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    shown = Option.of(field)
    kind = _type(field)
    default = inspect.Parameter.empty
    if not field.is_required():
        default = field.get_default(call_default_factory=True)
    if shown.argument:
        argument = typer.Argument(metavar=shown.metavar, help=field.description)
        return _keyword(name, Annotated[kind, argument], default)
    option = typer.Option(
        *(shown.names or _names(name, field)),
        metavar=shown.metavar,
        help=field.description,
        **_limits(field, kind),
    )
    return _keyword(name, Annotated[kind, option], default)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _names(name: str, field: FieldInfo) -> tuple[str, ...]:
    """Return how an option is typed; what is on by default can be switched off."""
    typed = name.replace("_", "-")
    if field.default is True:
        return (f"--{typed}/--no-{typed}",)
    return (f"--{typed}",)


def _type(field: FieldInfo) -> Any:
    """Return the type that a word is turned into."""
    shown = Option.of(field)
    kind = field.annotation
    if shown.choices:
        choices: Any = Literal.__getitem__(tuple(shown.choices()))
        return Optional[choices] if NoneType in get_args(kind) else choices  # noqa: UP045
    if not shown.path:
        return kind
    return {str: Path, str | None: Path | None, list[str]: list[Path]}[kind]  # type: ignore[index]


def _limits(field: FieldInfo, kind: Any) -> dict[str, Any]:
    """Return the smallest and the largest value of a number.

    Where a fraction may not be equal to its limit, typer can't say so, and the settings refuse it.
    """
    bounds: dict[str, Any] = {}
    for limit in field.metadata:
        for name in ("ge", "gt", "le", "lt"):
            if hasattr(limit, name):
                bounds[name] = getattr(limit, name)

    whole = int in (kind, *get_args(kind))
    least = bounds.get("ge")
    if whole and "gt" in bounds:
        least = bounds["gt"] + 1
    most = bounds.get("le")
    if whole and "lt" in bounds:
        most = bounds["lt"] - 1
    if most is not None and most > LARGEST_SHOWN:
        most = None
    return {"min": least, "max": most}


# --config and --set
#
# New defaults of options go to the context's `default_map`, settings without an option to `obj`.


def _config(known: type[Settings]) -> inspect.Parameter:
    def read(context: typer.Context, path: Path | None) -> None:
        if path is None:
            return
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path} can't be read: {error.strerror}") from error
        except ValueError as error:
            raise InputError(f"{path} is not valid TOML: {error}") from error
        options, others = _divided(context, known, values, str(path))
        context.default_map = {**options, **(context.default_map or {})}
        context.obj = _merged(others, context.obj or {})

    option = typer.Option(
        "--config",
        callback=read,
        is_eager=True,
        help="Settings from a TOML file; options given here win.",
    )
    return _keyword("config", Annotated[Path | None, option], None)


def _overrides(known: type[Settings]) -> inspect.Parameter:
    def read(context: typer.Context, pairs: list[str]) -> None:
        values = {}
        for pair in pairs:
            key, equals, value = pair.partition("=")
            if not equals:
                raise InputError(f"--set takes key=value, not {pair!r}")
            values[key] = value
        options, others = _divided(context, known, values, "--set")
        context.default_map = {**(context.default_map or {}), **options}
        context.obj = _merged(context.obj or {}, _scalars(others))

    more = sorted(only_set(known))
    about = "One setting, as in the TOML file"
    if more:
        about += f"; also one of the model's own: {', '.join(more)}"
    option = typer.Option(
        "--set", metavar="KEY=VALUE", callback=read, is_eager=True, help=f"{about}."
    )
    return _keyword("overrides", Annotated[list[str], option], [])


def _divided(
    context: typer.Context, known: type[Settings], values: Mapping[str, Any], where: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide settings into new defaults of the command's options, and those that have no option.

    Options have the names that the help shows; one that is given in the call still wins.
    """
    options = {
        name.lstrip("-"): parameter
        for parameter in context.command.params
        for name in parameter.opts
        if name.startswith("--") and parameter.name not in NO_SETTINGS
    }
    others = only_set(known)
    defaults: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in values.items():
        if key in options:
            parameter = options[key]
            repeated = getattr(parameter, "multiple", False) and isinstance(value, str)
            defaults[str(parameter.name)] = [value] if repeated else value
        elif key in others:
            name = others[key]
            rest = _merged(rest, {name: value} if name == key else {name: {key: value}})
        else:
            raise InputError(f"{where}: unknown setting {key!r}{nearest(key, [*options, *others])}")
    return defaults, rest


def only_set(known: type[Settings]) -> dict[str, str]:
    """Return the keys that only --set and --config reach, with the setting that each belongs to."""
    found: dict[str, str] = {}
    for name, field in known.model_fields.items():
        shown = Option.of(field)
        if shown.keys:
            found |= dict.fromkeys(shown.keys(), name)
        elif shown.only_set:
            found[name] = name
    return found


def _merged(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of both; the second wins, key by key where they are mappings."""
    merged = one | two
    for name in one.keys() & two.keys():
        if isinstance(one[name], dict):
            merged[name] = one[name] | two[name]
    return merged


def _scalars(value: Any) -> Any:
    """Return what a word, or each word of a mapping, says as a TOML file would have it."""
    if isinstance(value, dict):
        return {key: _scalars(one) for key, one in value.items()}
    try:
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return value
