"""The command line: one thin function a command; the work is in the use cases.

Owns typer. Promise: `--help` loads neither numpy nor pygit2, every command
that prints data has `--json`, wrong words exit 2 with one line.
"""

import os

import typer

from .common import check_arguments, refused

app = typer.Typer(
    name="git-mem",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Memory for coding agents and the people beside them, kept in the repository's own git"
    " notes.",
    epilog="Settings: git config mem.* or GIT_MEM_*; `git mem config` lists them. Manual: `git mem"
    " --help` or docs/.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        from .. import __version__

        typer.echo(f"git-mem {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


# Where each command lives: a call loads only its own module, and typer builds only its options.
_COMMANDS = {
    "setup": ("init", "install", "uninstall"),
    "read": ("recall", "search", "list", "show"),
    "timeline": ("log", "why", "blame", "diff", "bisect", "check"),
    "agents": ("context", "hook", "receipts"),
    "sync": ("sync", "push", "pull"),
    "write": ("remember", "edit", "supersede", "forget", "share", "sign"),
    "verify": ("verify",),
    "reanchor": ("reanchor",),
    "capture": ("capture",),
    "purge": ("purge",),
    "graph": ("graph",),
    "review": ("review", "consolidate"),
    "calibrate": ("calibrate",),
    "bench": ("bench",),
    "model": ("model",),
    "admin": ("status", "index", "stats", "doctor", "config", "help"),
    "transfer": ("export", "import"),
}


def load(word: str = "") -> typer.Typer:
    """The app with the commands of the module that has `word`, or with all commands."""
    from importlib import import_module

    modules = [module for module, words in _COMMANDS.items() if word in words] or list(_COMMANDS)
    for module in modules:
        import_module(f".{module}", __name__)
    return app


_ClickError: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)


def run(argv: list[str]) -> int:
    """Runs one command; returns its exit code. MemError passes through to the door's caller."""
    # Completion scripts are made for the executable's own name: with a space in it, bash would take
    # over `git`.
    completing = "_GIT_MEM_COMPLETE" in os.environ or {
        "--install-completion",
        "--show-completion",
    }.intersection(argv)
    check_arguments(argv)
    try:
        status = load(argv[0] if argv else "")(
            argv, prog_name="git-mem" if completing else "git mem", standalone_mode=False
        )
    except _ClickError as e:
        if type(e).__name__ == "NoArgsIsHelpError":
            typer.echo(e.format_message())  # type: ignore[attr-defined]
            return 2
        message = e.format_message().rstrip(".")  # type: ignore[attr-defined]
        hint = "`git mem --help` lists the commands, `git mem COMMAND --help` their options"
        refused(message[:1].lower() + message[1:], hint)
        return 2
    except typer.Exit as e:
        return e.exit_code
    except typer.Abort:
        return 130
    return status if isinstance(status, int) else 0
