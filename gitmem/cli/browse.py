"""The command that shows memories on the whole terminal."""

from ..core.errors import MemError
from ..store import Store
from .common import interactive, warn
from .options import Filters, command


@command("browse")
def browse_command(store: Store, as_json: bool, filters: Filters) -> int:
    """Look through memories by keys.

    Arrows or `j` and `k` move, `/` searches as you type, Enter shows a memory whole, `q` goes back
    or ends. Nothing is changed.
    """
    if as_json or not interactive():
        hint = "`git mem list` and `git mem recall` answer in a pipe"
        raise MemError("browse needs a terminal to show memories on", hint=hint)
    try:
        from . import browse_terminal
    except ImportError as e:
        raise MemError("this Python has no curses, which browse needs") from e
    later: list[str] = []
    store.warn = later.append
    try:
        browse_terminal.show(store, filters.conditions(store), filters.at)
    finally:
        for line in later:
            warn(line)
    return 0
