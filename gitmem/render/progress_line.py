"""How far a long job is, on stderr, for a person who waits."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PATIENCE = 1.0  # seconds that nobody minds
_EVERY = 0.1  # seconds between two looks


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """One line as git's own, on a terminal only, after a second; it is gone at the end. Yields a
    function that takes how many more are done.
    """
    done, due, shown = 0, time.monotonic() + _PATIENCE, False

    def advance(more: int) -> None:
        nonlocal done, due, shown
        done += more
        now = time.monotonic()
        if now < due or not sys.stderr.isatty():
            return
        due, shown = now + _EVERY, True
        share = f" {100 * done // total:3}% ({done:,}/{total:,})" if total else f" {done:,}"
        sys.stderr.write(f"\r{what}:{share}\x1b[K")
        sys.stderr.flush()

    try:
        yield advance
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
