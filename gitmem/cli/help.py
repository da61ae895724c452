"""The command help, and what `git mem -h` prints."""

from . import run
from .commands import overview
from .common import write
from .options import argument, command, flag

_USAGE = "usage: git mem COMMAND [ARGUMENTS]"
_MORE = (
    "'git mem help COMMAND' (or 'git mem COMMAND -h') shows the help of one command,",
    "'git mem help -a' lists all commands, 'git mem --help' opens the manual,",
    "'git mem config' lists the settings, 'git mem tour' shows how it works.",
)


@command("help", json=False)
def help_command(
    words: list[str] = argument("[COMMAND]...", "A command.", None),
    all: bool = flag("-a --all", "List all commands, low-level ones too."),
) -> int:
    """Show the help of a command; without one, the commands for every day."""
    if words:
        return run([*words, "-h"])
    for line in (_USAGE, *overview(all), "", *_MORE):
        write(line)
    return 0
