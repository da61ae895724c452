"""Long output on a terminal, through the pager that git would choose.
GIT_PAGER, `core.pager`, PAGER, less. With `git mem`, git itself follows `--no-pager`,
`--paginate` and `pager.mem`.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stdout

from ..store import Store

_DEFAULTS = {"LESS": "FRX", "LV": "-c"}  # as git sets them


class Held(io.StringIO):
    """What a terminal is going to show."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@contextmanager
def paged(wanted: bool, opening: AbstractContextManager[Store | None]) -> Iterator[Store | None]:
    """Opens the store. What is written to a terminal is held back, if `wanted`, and shown when the
    store is closed, and its locks and processes are gone.
    """
    if not (wanted and sys.stdout.isatty()):
        with opening as store:
            yield store
        return
    held, pager = Held(), ""
    try:
        with redirect_stdout(held), opening as store:
            chosen = store.repo.program("GIT_PAGER") if store else ""
            yield store
            pager = chosen  # an error comes right behind what was found
    finally:
        if pager in ("", "cat") or not _through(pager, held.getvalue()):
            sys.stdout.write(held.getvalue())


def _through(pager: str, text: str) -> bool:
    """Whether the pager could be started."""
    if not text:
        return True
    import signal
    import subprocess

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
