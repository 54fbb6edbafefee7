"""Make a command's options from its settings class; read `--config` and `--set`."""

import inspect
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
from firth.base.threads import keep_heap, usual
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

    def call(call_context: typer.Context, **given: Any) -> None:
        values = {name: _plain(given[name]) for name in given if name in known.model_fields}
        for old in known.renamed:
            if given[old] is not None:
                values[old] = given[old]
        if "threads" in values:
            values["threads"] = _threads(values["threads"])
        without_option = call_context.obj or {}
        settings = known.given(values | without_option)
        command(**dict(settings))

    parameters = [_keyword("call_context", typer.Context, inspect.Parameter.empty)]
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
    """Return how many threads to use: as asked, or as usual for this process.

    A command that computes has a process of its own, so that freed memory is kept for the next
    tensor.
    """
    keep_heap()
    return asked or usual()


# From settings to options


def _parameters(known: type[Settings]) -> Iterator[inspect.Parameter]:
    """Yield a parameter for each option, and hidden ones for the names that options once had."""
    for name, field in known.model_fields.items():
        if not Option.of(field).only_set:
            yield _parameter(name, field)
    for old, new in known.renamed.items():
        field = known.model_fields[new]
        shown = typer.Option(f"--{old}", hidden=True)
        kind: Any = Optional[_type(field)]  # noqa: UP045
        yield _keyword(old, Annotated[kind, shown], None)


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    """Return the parameter for one field: an argument or an option."""
    shown = Option.of(field)
    kind = _type(field)
    default = inspect.Parameter.empty
    if not field.is_required():
        default = field.get_default(call_default_factory=True)
    if shown.argument:
        argument = typer.Argument(metavar=shown.metavar, help=field.description)
        return _keyword(name, Annotated[kind, argument], default)
    names = shown.names or _names(name, field)
    limits = _limits(field, kind)
    option = typer.Option(*names, metavar=shown.metavar, help=field.description, **limits)
    return _keyword(name, Annotated[kind, option], default)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """Return a parameter that is given by its name."""
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
        if NoneType in get_args(kind):
            return Optional[choices]  # noqa: UP045
        return choices
    if not shown.path:
        return kind
    paths: dict[Any, Any] = {
        str: Path,
        str | None: Path | None,
        list[str]: list[Path],
    }
    return paths[kind]


def _limits(field: FieldInfo, kind: Any) -> dict[str, Any]:
    """Return the smallest and the largest value of a number.

    Where a fraction may not be equal to its limit, typer can't say so, and the settings refuse it.
    """
    bounds: dict[str, Any] = {}
    for limit in field.metadata:
        names = [name for name in ("ge", "gt", "le", "lt") if hasattr(limit, name)]
        for name in names:
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
    """Return the parameter for --config."""

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
        # What --set gave wins, whichever of the two is read first.
        before = context.default_map or {}
        context.default_map = {**options, **before}
        context.obj = _merged(others, context.obj or {})

    option = typer.Option(
        "--config",
        callback=read,
        is_eager=True,
        help="Settings from a TOML file; options given here win.",
    )
    return _keyword("config", Annotated[Path | None, option], None)


def _overrides(known: type[Settings]) -> inspect.Parameter:
    """Return the parameter for --set."""

    def read(context: typer.Context, pairs: list[str]) -> None:
        values = {}
        for pair in pairs:
            key, equals, value = pair.partition("=")
            if not equals:
                raise InputError(f"--set takes key=value, not {pair!r}")
            values[key] = value
        options, others = _divided(context, known, values, "--set")
        before = context.default_map or {}
        context.default_map = {**before, **options}
        context.obj = _merged(context.obj or {}, _scalars(others))

    more = sorted(only_set(known))
    about = "One setting, as in the TOML file"
    if more:
        names = ", ".join(more)
        about += f"; also one of the model's own: {names}"
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
    options = {}
    for parameter in context.command.params:
        if parameter.name in NO_SETTINGS:
            continue
        for name in parameter.opts:
            if name.startswith("--"):
                options[name.lstrip("-")] = parameter
    others = only_set(known)
    defaults: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in values.items():
        if key in options:
            parameter = options[key]
            # An option that may be repeated takes a list.
            is_one_of_many = getattr(parameter, "multiple", False) and isinstance(value, str)
            defaults[str(parameter.name)] = [value] if is_one_of_many else value
        elif key in others:
            name = others[key]
            setting = value if name == key else {key: value}
            rest = _merged(rest, {name: setting})
        else:
            meant = nearest(key, [*options, *others])
            raise InputError(f"{where}: unknown setting {key!r}{meant}")
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
        page = tomllib.loads(f"value = {value}")
        return page["value"]
    except tomllib.TOMLDecodeError:
        return value
