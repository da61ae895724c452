"""Options that several commands share: each is declared once, with its names and its help.

A command names them in its signature after `*`, for example `as_json: Json`. An option that is not
given is "", [] or False; a limit is None.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from ..core import record
from ..core.errors import UsageError
from ..engine.filters import Filter
from ..store import Store
from .common import when


def flag(*names: str, help: str) -> Any:
    return typer.Option(..., *names, default_factory=bool, show_default=False, help=help)


def texts(*names: str, help: str, metavar: str | None = None) -> Any:
    """May be repeated."""
    return typer.Option(
        ..., *names, default_factory=list, show_default=False, help=help, metavar=metavar
    )


def text(*names: str, help: str, metavar: str | None = None, filled: bool = False) -> Any:
    """`filled`: the option may not be given empty."""
    callback = not_empty if filled else None
    return typer.Option(
        ...,
        *names,
        default_factory=str,
        show_default=False,
        help=help,
        metavar=metavar,
        callback=callback,
    )


def limit_option(*names: str, help: str = "How many at most.") -> Any:
    return typer.Option(None, "-n", *names, "--limit", min=1, show_default=False, help=help)


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


Limit = Annotated[
    int,
    typer.Option(
        *("-n", "--limit"), min=1, default_factory=lambda: None, show_default=False,
        help="How many at most.",
    ),
]  # fmt: skip
Json = Annotated[bool, flag("--json", help="Print JSON.")]
At = Annotated[
    str,
    text(
        *("--at", "--as-of"),
        metavar="REV",
        filled=True,
        help="As of this revision: its lines, and what was known there, as far as git can tell.",
    ),
]

Id = Annotated[str, typer.Argument(help="The memory, by a unique prefix of its id.")]
Ids = Annotated[
    list[str],
    typer.Argument(metavar="ID...", help="The memories, by unique prefixes of their ids."),
]

# What a memory says and is about.
Message = Annotated[
    list[str], texts("-m", "--message", help="The text; several become paragraphs.")
]
Stdin = Annotated[bool, flag("--stdin", help="Read the text from standard input.")]
Type = Annotated[
    str, text("--type", help=f"One of {', '.join(record.TYPES)}, or a word of your own.")
]
Tags = Annotated[list[str], texts("--tag", "--tags", help="A tag; may be repeated.")]
Paths = Annotated[
    list[str],
    texts(
        *("--path", "--paths"),
        help="A file, a directory or lines (FILE:10-20) the memory is about; may be repeated.",
    ),
]
Provenance = Annotated[str, text("--provenance", help=f"{', '.join(record.PROVENANCE)}.")]
AllowSecret = Annotated[
    bool, flag("--allow-secret", help="Store it although it looks like it holds a secret.")
]


class Filters(NamedTuple):
    """The options that say which memories are searched or listed."""

    type: Annotated[list[str], texts("--type", help="Only this type; may be repeated.")]
    tag: Annotated[
        list[str],
        texts("--tag", "--tags", help="Only with this tag; may be repeated (any of them)."),
    ]
    path: Annotated[
        list[str],
        texts("--path", "--paths", help="Only about this file or directory; may be repeated."),
    ]
    phase: Annotated[str, text("--phase", help="Only of this phase.")]
    since: Annotated[
        str, text("--since", "--after", filled=True, help="Only newer, as for `git log`.")
    ]
    until: Annotated[
        str, text("--until", "--before", filled=True, help="Only older, as for `git log`.")
    ]
    author: Annotated[
        str, text("--author", help="Only by an author whose name or address contains this.")
    ]
    scope: Annotated[str, text("--scope", help="Only `team` or `private`.")]
    at: Annotated[
        str,
        text(
            *("--at", "--as-of"),
            metavar="REV",
            filled=True,
            help=(
                "As of this revision: what was known there, with text, status and paths of then as"
                " far as git can tell."
            ),
        ),
    ]

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
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint)
        for name, hint in get_type_hints(Filters, include_extras=True).items()
    ]

    @functools.wraps(command)
    def run(**given: Any) -> int:
        filters = Filters(**{name: given.pop(name) for name in Filters._fields})
        return command(filters=filters, **given)

    parameters: list[inspect.Parameter] = []
    signature = inspect.signature(command, eval_str=True)
    for parameter in signature.parameters.values():
        parameters += options if parameter.name == "filters" else [parameter]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run
