"""Options that several commands share: each is declared once, with its names and its help.

A command names them in its signature after `*`, for example `as_json: Json`. An option that is not
given is "", [] or False; a limit is None. One without names has that of its parameter.
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


def argument(help: str, metavar: str | None = None, default: Any = ...) -> Any:
    """A word without a name; it must be there where there is no default."""
    return typer.Argument(default, metavar=metavar, help=help)


def flag(help: str, *names: str) -> Any:
    return typer.Option(..., *names, default_factory=bool, show_default=False, help=help)


def texts(help: str, *names: str, metavar: str | None = None) -> Any:
    """May be repeated."""
    return typer.Option(
        ..., *names, default_factory=list, show_default=False, help=help, metavar=metavar
    )


def text(help: str, *names: str, metavar: str | None = None, filled: bool = False) -> Any:
    """`filled`: the option may not be given empty."""
    return typer.Option(
        ..., *names, default_factory=str, show_default=False, help=help, metavar=metavar,
        callback=not_empty if filled else None,
    )  # fmt: skip


def number(help: str, *names: str, metavar: str | None = None) -> Any:
    """1 or more; None where it is not given."""
    return typer.Option(None, *names, min=1, show_default=False, help=help, metavar=metavar)


def limit_option(help: str = "How many at most.", *names: str) -> Any:
    return number(help, "-n", *names, "--limit")


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


TAG, PATH, AT = ("--tag", "--tags"), ("--path", "--paths"), ("--at", "--as-of")

Json = Annotated[bool, flag("Print JSON.", "--json")]
_AT = "As of this revision: its lines, and what was known there, as far as git can tell."
At = Annotated[str, text(_AT, *AT, metavar="REV", filled=True)]
Id = Annotated[str, typer.Argument(help="The memory, by a unique prefix of its id.")]
_IDS = "The memories, by unique prefixes of their ids."
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help=_IDS)]

# What a memory says and is about.
Message = Annotated[list[str], texts("The text; several become paragraphs.", "-m", "--message")]
Stdin = Annotated[bool, flag("Read the text from standard input.", "--stdin")]
Type = Annotated[str, text(f"One of {', '.join(record.TYPES)}, or a word of your own.")]
Tags = Annotated[list[str], texts("A tag; may be repeated.", *TAG)]
_PATHS = "A file, a directory or lines (FILE:10-20) the memory is about; may be repeated."
Paths = Annotated[list[str], texts(_PATHS, *PATH)]
_SECRET = "Store it although it looks like it holds a secret."
AllowSecret = Annotated[bool, flag(_SECRET, "--allow-secret")]

_THEN = (
    "As of this revision: what was known there, with text, status and paths of then as far as git"
    " can tell."
)


class Filters(NamedTuple):
    """The options that say which memories are searched or listed."""

    type: Annotated[list[str], texts("Only this type; may be repeated.", "--type")]
    tag: Annotated[list[str], texts("Only with this tag; may be repeated (any of them).", *TAG)]
    path: Annotated[list[str], texts("Only about this file or directory; may be repeated.", *PATH)]
    phase: Annotated[str, text("Only of this phase.")]
    since: Annotated[str, text("Only newer, as for `git log`.", "--since", "--after", filled=True)]
    until: Annotated[str, text("Only older, as for `git log`.", "--until", "--before", filled=True)]
    author: Annotated[str, text("Only by an author whose name or address contains this.")]
    scope: Annotated[str, text("Only `team` or `private`.")]
    at: Annotated[str, text(_THEN, *AT, metavar="REV", filled=True)]

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
