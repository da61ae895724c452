"""Long output on a terminal, through the pager that git would choose.
GIT_PAGER, `core.pager`, PAGER, less. With `git mem`, git itself follows `--no-pager`,
`--paginate` and `pager.mem`.
"""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..store import Store

_DEFAULTS = {"LESS": "FRX", "LV": "-c"}  # as git sets them


class Held(io.StringIO):
    """What a terminal is going to show."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@contextmanager
def paged(wanted: bool) -> Iterator[Callable[[Store], None]]:
    """Holds back what is written to a terminal, if `wanted`, and shows it at the end, when locks
    and processes are gone. Yields what takes the store, which knows the pager.
    """
    terminal, pager = sys.stdout, ""

    def choose(store: Store) -> None:
        nonlocal pager
        pager = store.repo.program("GIT_PAGER")

    if not (wanted and terminal.isatty()):
        yield lambda store: None
        return
    held = Held()
    try:
        sys.stdout = held
        yield choose
    except BaseException:
        pager = ""  # an error comes right behind what was found
        raise
    finally:
        sys.stdout = terminal
        if pager in ("", "cat") or not _through(pager, held.getvalue()):
            terminal.write(held.getvalue())


def _through(pager: str, text: str) -> bool:
    """Whether the pager could be started."""
    if not text:
        return True
    sys.stdout.flush()
    try:
        process = subprocess.Popen(
            ["sh", "-c", pager], stdin=subprocess.PIPE, env={**_DEFAULTS, **os.environ}
        )
    except OSError:
        return False
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a key of the pager's
    process.communicate(text.encode(sys.stdout.encoding, "backslashreplace"))
    signal.signal(signal.SIGINT, before)
    return process.returncode not in (126, 127)  # the shell could not run it, has not found it
