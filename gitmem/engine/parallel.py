"""A second processor for pure computations.

Where there is no fork (or it is unsafe: macOS, a running thread), one processor only, or the child
fails, the plain call is what happens.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any


class Task:
    """`work(items)`, the last `share` of it begun in a child; `work` treats each item alone and
    returns plain strings, bytes and numbers.

    Call `result` once: it does the rest here, then takes the child's part.
    """

    def __init__(
        self, work: Callable[[list[Any]], list[Any]], items: list[Any], share: float
    ) -> None:
        self._work = work
        self._items = items
        self._cut = len(items)
        self._child = self._reader = -1
        # A fork beside a thread could inherit a lock that nobody will ever release.
        if sys.platform == "linux" and (os.cpu_count() or 1) > 1 and threading.active_count() == 1:
            self._cut -= int(len(items) * share)
            self._start()

    def _start(self) -> None:
        self._reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._child = os.fork()
        if self._child:
            os.close(writer)
            return
        # Nothing of the parent may run on here: no exit handlers, no database, no buffers. Its
        # pipes are closed, or a git process that waits for the end of its input would wait for us.
        try:
            os.closerange(3, writer)
            os.closerange(writer + 1, 65536)
            with os.fdopen(writer, "wb") as out:
                out.write(marshal.dumps(self._work(self._items[self._cut :])))
            os._exit(0)
        except BaseException:
            os._exit(1)

    def cancel(self) -> None:
        if self._child > 0:
            os.close(self._reader)  # a child that writes gets an error and ends
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._child, signal.SIGKILL)
                os.waitpid(self._child, 0)
            self._child = -1

    def result(self) -> list[Any]:
        if self._child < 0:
            return self._work(self._items)
        try:
            with os.fdopen(self._reader, "rb") as answer:
                first = self._work(self._items[: self._cut])
                raw = answer.read()
        finally:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._child, 0)
        try:
            second = marshal.loads(raw)
        except (ValueError, EOFError, TypeError):
            second = None
        if not isinstance(second, list) or len(second) != len(self._items) - self._cut:
            second = self._work(self._items[self._cut :])
        return first + second
