"""What commands are made of: the answer that they give, and options that several share.

An option that is not given is "", [] or False; a number is None. Commands are declared here as
plain values: most calls are read by `plain`, the others by typer, which takes 40 ms to load.
"""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Annotated, Any, NamedTuple

from .. import render
from ..core.errors import MemError, UsageError
from ..engine.filters import Filter
from ..store import Store
from .common import opened, warn, when, write, write_json
from .pager import paged


class Answer(NamedTuple):
    """A value for --json, or else a text: lines, pairs of a name and a value, lists of memories.
    Then the command is refused with `error`.
    """

    value: Any
    text: Iterable[str | tuple[str, Any] | list[dict[str, Any]]] = ()
    status: int = 0
    error: MemError | None = None

    def print(self, as_json: bool) -> int:
        """Returns the exit code."""
        if as_json:
            write_json(self.value)
        for part in () if as_json else self.text:
            if isinstance(part, str):
                write(part)
            elif isinstance(part, tuple):
                render.pairs([part])
            else:
                render.listing(part)
        if self.error:
            raise self.error
        return self.status


class Option(NamedTuple):
    """How a parameter of a command is given.

    `names`: none for a word without a name. `value`: what the help shows for it, None for a flag.
    `empty` makes the value of what is not given; None: it must be there. `check` gets any value,
    and may raise UsageError. `least`: it is a number, to `most`.
    """

    names: tuple[str, ...]
    value: str | None
    help: str
    empty: Callable[[], Any] | None
    check: Callable[[Any], Any] | None = None
    least: int | None = None
    most: int | None = None


class Declared(NamedTuple):
    """A command. `options`: {parameter: (its type, its `Option`, or what only typer knows)};
    `more`: what typer is told beside.
    """

    name: str
    module: str
    run: Callable[..., int]
    about: str
    options: dict[str, tuple[Any, Any]]
    more: dict[str, Any]


DECLARED: dict[str, Declared] = {}  # of the modules that are loaded

_Command = Callable[..., Answer | int]


def command(
    name: str,
    parent: str = "",
    enabled: bool = True,
    pager: bool = False,
    elsewhere: str = "",
    json: bool = True,
    alias: str = "",
    **more: Any,
) -> Callable[[_Command], Callable[..., int]]:
    """Makes a function a command with --json, which prints the `Answer` that the function returns.

    The parameter `store` gets the opened store (`enabled`: not where git mem is switched off), and
    one whose type is a NamedTuple of options gets these. A function that must know of --json takes
    `as_json: bool`; one that prints by itself returns the exit code. `pager`: what a terminal
    is shown goes through the user's pager. `elsewhere`: an option with which no repository is
    needed here: `store` is None then. `json`: whether there is --json. `alias`: a name that works,
    too, and is listed nowhere.
    """

    def register(function: _Command) -> Callable[..., int]:
        takes = _parameters(function)
        bundles = {n: kind for n, (kind, _) in takes.items() if hasattr(kind, "_fields")}

        def run(**given: Any) -> int:
            as_json = given["as_json"] if "as_json" in takes else given.pop("as_json", False)
            for name, bundle in bundles.items():
                given[name] = bundle(*[given.pop(field) for field in bundle._fields])
            here = "store" in takes and not given.get(elsewhere)
            opening = opened(needs_enabled=enabled) if here else nullcontext()
            with paged(pager, opening) as store:
                if "store" in takes:
                    given["store"] = store
                said = function(**given)
                return said if isinstance(said, int) else said.print(as_json)

        options: dict[str, tuple[Any, Any]] = {}  # the help has them in this order
        for n, declared in takes.items():
            bundle = bundles.get(n)
            options.update(_fields(bundle) if bundle else {n: declared})
        options.pop("store", None)
        as_json = options.pop("as_json", (bool, None))
        if json:
            options["as_json"] = as_json if as_json[1] else (bool, _JSON)
        about = function.__doc__ or ""
        full = f"{parent} {name}".lstrip()
        module = function.__module__.rpartition(".")[2]
        DECLARED[full] = Declared(full, module, run, about, options, more)
        if alias:
            DECLARED[alias] = Declared(alias, module, run, about, options, {**more, "hidden": True})
        return run

    return register


def _parameters(function: Callable[..., Any]) -> dict[str, tuple[Any, Any]]:
    """{parameter: (type, Option)}; `inspect` takes 10 ms to load."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = function.__defaults__ or ()
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return {n: _typed(function.__annotations__[n], given.get(n)) for n in names}


def _fields(bundle: Any) -> dict[str, tuple[Any, Any]]:
    return {name: _typed(bundle.__annotations__[name], None) for name in bundle._fields}


def _typed(kind: Any, option: Any) -> tuple[Any, Any]:
    """(type, Option) of a parameter, which may have it as the annotation of its type."""
    said = getattr(kind, "__metadata__", ())
    return (kind.__origin__, said[0]) if said else (kind, option)


def argument(metavar: str, help: str, default: Any = ...) -> Any:
    """A word without a name; it must be there where there is no default."""
    return Option((), metavar, help, None if default is ... else lambda: default)


def flag(names: str, help: str) -> Any:
    return _option(names, help, bool)


def texts(names: str, help: str) -> Any:
    """May be repeated."""
    return _option(names, help, list)


def text(names: str, help: str, filled: bool = False) -> Any:
    """`filled`: the option may not be given empty."""
    if not filled:
        return _option(names, help, str)
    return _option(names, help, _nothing, check=lambda value: _filled(names.split()[0], value))


def _filled(name: str, value: str | None) -> str:
    """Refuses what was given empty, as by a variable that is not set: without the option the call
    would mean something else.
    """
    if value == "":
        hint = "a variable that is not set? leave the option out to do without it"
        raise UsageError(f"{name} is empty", hint=hint)
    return value or ""


def number(names: str, help: str, most: int | None = None) -> Any:
    """1 or more; None where it is not given."""
    names = names if names[-1].isupper() else f"{names} N"
    return _option(names, help, _nothing, least=1, most=most)


def change(names: str, help: str) -> Any:
    """What is to be changed: None, of a list [], where it is not given."""
    return _option(names, help, _nothing)


def _nothing() -> None:
    return None


def _option(names: str, help: str, empty: Callable[[], Any], **more: Any) -> Any:
    """`names` as in a synopsis, with what stands for the value: `-o --output FILE`; without that
    the first long name does.
    """
    words = names.split()
    options = [word for word in words if word.startswith("-")]
    long = next(name for name in options if name.startswith("--"))
    value = None if empty is bool else " ".join(words[len(options) :]) or long[2:].upper()
    return Option(tuple(options), value, help, empty, **more)


def only(help: str) -> Any:
    """Of the two kinds of hits one, "" where it is not given."""
    return one_of("--only memories|history", help)


def one_of(names: str, help: str, several: bool = False) -> Any:
    """One of the words that stand for the value, "" where it is not given; `several`: a list."""
    name, value = names.split()
    known = value.split("|")

    def checked(given: Any) -> Any:
        for word in given if several else filter(None, [_filled(name, given)]):
            if word not in known:
                listed = f"{', '.join(known[:-1])} or {known[-1]}"
                raise UsageError(f"{name} is '{word}', not {listed}")
        return given if several else given or ""

    return _option(names, help, list if several else _nothing, check=checked)


def wants_json(as_json: bool, format: str) -> bool:
    """Whether --json or --format asks for JSON. Raises UsageError where they name two formats."""
    if as_json and format not in ("", "json"):
        raise UsageError(f"--json and --format {format} are two formats")
    return as_json or format == "json"


PATH = "--path --paths"
_JSON = flag("--json", "Print JSON.")
_AT = "As of this revision: text, status, paths and lines, as far as git can tell."
At = Annotated[str, text("--at --as-of REV", _AT, filled=True)]
Id = Annotated[str, argument("ID", "The memory, by a unique prefix of its id.")]
_IDS = "Memories, by unique prefixes of their ids."
Ids = Annotated[list[str], argument("ID...", _IDS)]
_SECRET = "Store it although it looks like it holds a secret."
AllowSecret = Annotated[bool, flag("--allow-secret", _SECRET)]


class Filters(NamedTuple):
    """The options that say which memories are searched or listed."""

    type: Annotated[list[str], texts("--type", "Only this type; repeatable.")]
    tag: Annotated[list[str], texts("--tag --tags", "Only with one of these; repeatable.")]
    path: Annotated[
        list[str], texts(PATH, "Only about this file or directory, as noted then; repeatable.")
    ]
    phase: Annotated[str, text("--phase", "Only of this phase.", filled=True)]
    since: Annotated[
        str, text("--since --after TIME", "Only newer, as for `git log`.", filled=True)
    ]
    until: Annotated[
        str, text("--until --before TIME", "Only older, as for `git log`.", filled=True)
    ]
    author: Annotated[
        str, text("--author", "Only by authors whose name or address has this.", filled=True)
    ]
    scope: Annotated[str, one_of("--scope team|private", "Only memories of these notes.")]
    at: At

    def conditions(self, store: Store, superseded: bool = False) -> Filter:
        """What a memory must fulfil; `at` says at which revision."""
        since, until = when(store, self.since, "--since"), when(store, self.until, "--until")
        if since and until and since > until:
            message = f"--since {self.since} is later than --until {self.until}"
            raise UsageError(message, hint="no memory is between them; did you mean them swapped?")
        paths = [store.repo.path_in_tree(path) for path in self.path]
        if paths or self.type:
            from ..memory import misnamed

            for line in misnamed.notes(store, paths, self.type, self.at or "HEAD"):
                warn(f"note: {line}")
        return Filter(
            types=self.type,
            tags=self.tag,
            paths=[path.rstrip("/") for path in paths if path != "."],
            phase=self.phase,
            since=since,
            until=until,
            author=self.author,
            scope=self.scope,
            superseded=superseded,
        )
