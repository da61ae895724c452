"""The command line: one thin function a command; the work is in the use cases.

Owns typer. Promise: `--help` loads neither numpy nor pygit2, every command
that prints data has `--json`, wrong words exit 2 with one line and where to look.
"""

import os
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import typer

from .commands import COMMANDS, SYNONYMS, module_of
from .common import check_arguments, refused

app = typer.Typer(
    name="git-mem",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


def load(word: str = "") -> typer.Typer:
    """The app with the commands of the module that has `word`, or with all commands."""
    module = module_of(word)
    for name in [module] if module else {command.module: 0 for command in COMMANDS.values()}:
        import_module(f".{name}", __name__)
    return app


_ClickError: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)


def run(argv: list[str]) -> int:
    """Runs one command; returns its exit code. MemError passes through to the door's caller."""
    check_arguments(argv)
    if argv in ([], ["-h"], ["--help"]):
        return run(["help"]) or 2 * (not argv)
    word = next((word for word in argv if not word.startswith("-")), "")
    if word and word == argv[0] and not module_of(word):
        nearest = _nearest_command(word)
        meant = f"; did you mean {nearest}?" if nearest else ""
        refused(f"no such command: {word}{meant}", _ALL_COMMANDS)
        return 2
    try:
        status = (load(word) if word else app)(argv, prog_name="git mem", standalone_mode=False)
    except _ClickError as e:
        if type(e).__name__ == "NoArgsIsHelpError":
            typer.echo(e.format_message())  # type: ignore[attr-defined]
            return 2
        refused(*_wrong_usage(e, word))
        return 2
    except typer.Exit as e:
        return e.exit_code
    except typer.Abort:
        return 130
    return status if isinstance(status, int) else 0


_ALL_COMMANDS = "`git mem help -a` lists the commands"


def _nearest_command(word: str) -> str:
    """The command that somebody meant who typed `word`, "" where nobody can tell; never `purge`."""
    known = {**{name: name for name in COMMANDS}, **SYNONYMS}
    nearest = known.get(next(iter(get_close_matches(word.lower(), known, 1)), ""), "")
    return "" if nearest == "purge" else nearest


def _wrong_usage(e: Any, command: str) -> tuple[str, str]:
    """(what is wrong with the words of a call, where to look)."""
    context = getattr(e, "ctx", None)
    message = e.format_message().rstrip(".")
    hint = _ALL_COMMANDS
    if module_of(command):
        path = context.command_path if context else f"git mem {command}"
        hint = f"`{path} -h` shows its options"
    return message[:1].lower() + message[1:], hint
