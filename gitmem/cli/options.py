"""Options that several commands share: each is declared once, with its names and its help.

A command names them in its signature after `*`, for example `as_json: Json`. An option that is not
given is "", [] or False; a number is None.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from ..core import record
from ..core.errors import UsageError
from ..engine.filters import Filter
from ..store import Store
from .common import when


def argument(metavar: str, help: str, default: Any = ...) -> Any:
    """A word without a name; it must be there where there is no default."""
    return typer.Argument(default, metavar=metavar or None, help=help)


def flag(names: str, help: str) -> Any:
    return _option(names, help, bool)


def texts(names: str, help: str) -> Any:
    """May be repeated."""
    return _option(names, help, list)


def text(names: str, help: str, filled: bool = False) -> Any:
    """`filled`: the option may not be given empty."""
    return _option(names, help, str, callback=not_empty if filled else None)


def number(names: str, help: str) -> Any:
    """1 or more; None where it is not given."""
    return _option(names, help, lambda: None, min=1)


def _option(names: str, help: str, empty: Callable[[], Any], **more: Any) -> Any:
    """`names` as in a synopsis, with what stands for the value: `-o --output FILE`."""
    words = names.split()
    options = [word for word in words if word.startswith("-")]
    metavar = " ".join(words[len(options) :]) or None
    return typer.Option(
        ..., *options, default_factory=empty, show_default=False, help=help, metavar=metavar, **more
    )


def not_empty(param: typer.CallbackParam, value: str, ctx: typer.Context) -> str:
    """Refuses an option that was given empty, as by a variable that is not set: without it the call
    would mean something else.
    """
    source = ctx.get_parameter_source(param.name or "")
    if not value and source is not None and source.name == "COMMANDLINE":
        raise UsageError(
            f"{param.opts[0]} is empty",
            hint="a variable that is not set? leave the option out to do without it",
        )
    return value


TAG, PATH, AT = "--tag --tags", "--path --paths", "--at --as-of REV"

Json = Annotated[bool, flag("--json", "Print JSON.")]
_AT = "As of this revision: its lines, and what was known there, as far as git can tell."
At = Annotated[str, text(AT, _AT, filled=True)]
Id = Annotated[str, typer.Argument(help="The memory, by a unique prefix of its id.")]
_IDS = "The memories, by unique prefixes of their ids."
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help=_IDS)]

# What a memory says and is about.
Message = Annotated[list[str], texts("-m --message", "The text; several become paragraphs.")]
Stdin = Annotated[bool, flag("--stdin", "Read the text from standard input.")]
Type = Annotated[str, text("--type", f"One of {', '.join(record.TYPES)}, or a word of your own.")]
Tags = Annotated[list[str], texts(TAG, "A tag; may be repeated.")]
_PATHS = "A file, a directory or lines (FILE:10-20) the memory is about; may be repeated."
Paths = Annotated[list[str], texts(PATH, _PATHS)]
_SECRET = "Store it although it looks like it holds a secret."
AllowSecret = Annotated[bool, flag("--allow-secret", _SECRET)]

_THEN = (
    "As of this revision: what was known there, with text, status and paths of then as far as git"
    " can tell."
)


class Filters(NamedTuple):
    """The options that say which memories are searched or listed."""

    type: Annotated[list[str], texts("--type", "Only this type; may be repeated.")]
    tag: Annotated[list[str], texts(TAG, "Only with this tag; may be repeated (any of them).")]
    path: Annotated[list[str], texts(PATH, "Only about this file or directory; may be repeated.")]
    phase: Annotated[str, text("--phase", "Only of this phase.")]
    since: Annotated[str, text("--since --after", "Only newer, as for `git log`.", filled=True)]
    until: Annotated[str, text("--until --before", "Only older, as for `git log`.", filled=True)]
    author: Annotated[
        str, text("--author", "Only by an author whose name or address contains this.")
    ]
    scope: Annotated[str, text("--scope", "Only `team` or `private`.")]
    at: Annotated[str, text(AT, _THEN, filled=True)]

    def conditions(self, store: Store, superseded: bool = False) -> Filter:
        """What a memory must fulfil; `at` says at which revision."""
        if self.scope not in ("", "team", "private"):
            raise UsageError(f"--scope is team or private, not '{self.scope}'")
        paths = map(store.repo.path_in_tree, self.path)
        return Filter(
            types=self.type,
            tags=self.tag,
            paths=[path.rstrip("/") for path in paths if path != "."],
            phase=self.phase,
            since=when(store, self.since, "--since"),
            until=when(store, self.until, "--until"),
            author=self.author,
            scope=self.scope,
            superseded=superseded,
        )


def with_filters(command: Callable[..., int]) -> Callable[..., int]:
    """Gives a command the options of `Filters`, where it has the parameter `filters`."""

    @functools.wraps(command)
    def run(**given: Any) -> int:
        filters = Filters(*[given.pop(name) for name in Filters._fields])
        return command(filters=filters, **given)

    signature = inspect.signature(command)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name == "filters":
            fields = inspect.signature(Filters).parameters.values()
            parameters += [field.replace(kind=parameter.KEYWORD_ONLY) for field in fields]
        else:
            parameters.append(parameter)
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run
