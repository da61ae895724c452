"""The command line: one thin function a command; the work is in the use cases.

Promise: `--help` loads neither numpy nor pygit2, every command that prints data has `--json`, wrong
words exit 2 with one line and where to look.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from . import plain
from .commands import ALL_COMMANDS, COMMANDS, SYNONYMS, module_of
from .common import check_arguments, refused
from .options import DECLARED


def load(word: str = "") -> Any:
    """typer's app with the commands of the module that has `word`, or with all commands."""
    from . import typer_app

    _import(word)
    wanted = module_of(word)
    typer_app.add(c for c in list(DECLARED.values()) if not wanted or c.module == wanted)
    return typer_app.app


def _import(word: str) -> None:
    module = module_of(word)
    for name in [module] if module else {command.module: 0 for command in COMMANDS.values()}:
        import_module(f".{name}", __name__)


def run(argv: list[str]) -> int:
    """Runs one command; returns its exit code. MemError passes through to the door's caller."""
    check_arguments(argv)
    if argv in ([], ["-h"], ["--help"]):
        return run(["help"]) or 2 * (not argv)
    if argv == ["--version"]:
        from .. import __version__

        print(f"git-mem {__version__}")
        return 0
    word = next((word for word in argv if not word.startswith("-")), "")
    if word and word == argv[0]:
        if not module_of(word):
            nearest = _nearest_command(word)
            meant = f"; did you mean {nearest}?" if nearest else ""
            refused(f"no such command: {word}{meant}", ALL_COMMANDS)
            return 2
        _import(word)
        command = DECLARED.get(word)
        if command and (values := plain.parse(command, argv[1:])) is not None:
            return _ended(command.run, values)
    from . import typer_app

    if word:
        load(word)
    return typer_app.run(argv, word)


def _ended(function: Callable[..., int], values: dict[str, Any]) -> int:
    """The exit code of a command, also where its user ends it."""
    try:
        return function(**values)
    except KeyboardInterrupt:
        return 130
    except EOFError:
        print(file=sys.stderr)  # nobody answered the question before
        return 130


def _nearest_command(word: str) -> str:
    """The command that somebody meant who typed `word`, "" where nobody can tell; never `purge`."""
    from difflib import get_close_matches

    known = {**{name: name for name in COMMANDS}, **SYNONYMS}
    nearest = known.get(next(iter(get_close_matches(word.lower(), known, 1)), ""), "")
    return "" if nearest == "purge" else nearest
