"""The commands as typer has them: for help, for words that `plain` does not read, for documents.

typer is at home here; `review`, `install` and `bench` have an option each that only typer knows,
and so load it always.
"""

import inspect
import os
from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand

from .commands import ALL_COMMANDS, module_of
from .common import refused
from .options import Declared, Option

_BY_NAME = inspect.Parameter.KEYWORD_ONLY


app = typer.Typer(
    name="git-mem",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_groups: dict[str, typer.Typer] = {"": app}  # by name; "model" for `git mem model ...`
_added: set[str] = set()


def _version(show: bool) -> None:
    if show:
        from .. import __version__

        typer.echo(f"git-mem {__version__}")
        raise typer.Exit


def _no_pager(wanted: bool) -> None:
    if wanted:
        os.environ["GIT_PAGER"] = "cat"  # as git does


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
    no_pager: bool = typer.Option(
        False, "--no-pager", callback=_no_pager, help="Show long output without a pager."
    ),
) -> None:
    pass


class _PathsLast(TyperCommand):
    """What stands after `--` are paths, as for `git log`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            args = [*args[:at], *(f"--path={path}" for path in args[at + 1 :])]
        return super().parse_args(ctx, args)


def group(name: str, help: str) -> None:
    """A command that has commands, which begin with its name."""
    if name not in _groups:
        made = typer.Typer(name=name, no_args_is_help=True, rich_markup_mode=None, help=help)
        _groups[name] = made
        app.add_typer(made, name=name)


def add(commands: Iterable[Declared]) -> None:
    """Tells typer of commands that it does not know yet."""
    for command in commands:
        if command.name in _added:
            continue
        _added.add(command.name)
        parent, _, name = command.name.rpartition(" ")
        more = dict(command.more)
        if more.pop("paths_last", False):
            more["cls"] = _PathsLast
        _groups[parent].command(name, **more)(_function(command))


def _function(command: Declared) -> Any:
    """What typer takes for a command: a function with a signature."""

    def run(**given: Any) -> int:
        return command.run(**given)

    parameters = [
        inspect.Parameter(
            name, _BY_NAME, annotation=kind, default=_told(o) if isinstance(o, Option) else o
        )
        for name, (kind, o) in command.options.items()
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__doc__ = command.about
    return run


def _told(option: Option) -> Any:
    """An option as typer has it."""
    more: dict[str, Any] = {"help": option.help, "metavar": option.value}
    if not option.names:
        return typer.Argument(... if option.empty is None else option.empty(), **more)
    more |= {"min": option.least, "max": option.most, "callback": option.check}
    return typer.Option(
        ..., *option.names, default_factory=option.empty, show_default=False, **more
    )


_ClickError: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)


def run(argv: list[str], word: str) -> int:
    """Runs the command `word` by typer; returns its exit code."""
    try:
        status = app(argv, prog_name="git mem", standalone_mode=False)
    except _ClickError as e:
        if type(e).__name__ == "NoArgsIsHelpError":
            typer.echo(e.format_message())  # type: ignore[attr-defined]
            return 2
        refused(*_wrong_usage(e, word))
        return 2
    except typer.Exit as e:
        return e.exit_code
    except SystemExit as e:  # how typer ends where nobody reads the output any more
        raise BrokenPipeError from e
    except typer.Abort:
        return 130
    return status if isinstance(status, int) else 0


def _wrong_usage(e: Any, command: str) -> tuple[str, str]:
    """(what is wrong with the words of a call, where to look)."""
    context = getattr(e, "ctx", None)
    message = e.format_message().rstrip(".")
    hint = ALL_COMMANDS
    if module_of(command):
        path = context.command_path if context else f"git mem {command}"
        hint = f"`{path} -h` shows its options"
        if type(e).__name__ == "NoSuchOption" and command in ("recall", "remember"):
            hint += "; a text that begins with a dash goes behind `--`"
    return message[:1].lower() + message[1:], hint
