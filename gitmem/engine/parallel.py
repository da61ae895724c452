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
from typing import Any, NoReturn


class Helper:
    """`work(items)` in a child, one list after the other: what it has learnt it keeps.

    `work` treats each item alone; items and answers are plain strings, bytes, numbers, and lists
    and dictionaries of them. Call `result` once for each `begin`, and `close` at the end.
    """

    def __init__(self, work: Callable[[list[Any]], list[Any]]) -> None:
        self._work = work
        self._items: list[Any] = []
        self._cut = 0  # of them this process does so many
        self._child = self._to = self._from = -1
        # A fork beside a thread could inherit a lock that nobody will ever release.
        if sys.platform == "linux" and (os.cpu_count() or 1) > 1 and threading.active_count() == 1:
            self._start()

    def _start(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        pipes: list[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            self._child = os.fork()
        except OSError:  # no process or no file is left
            for fd in pipes:
                os.close(fd)
            return
        asked, self._to, self._from, made = pipes
        if not self._child:
            _serve(self._work, asked, made)
        os.close(asked)
        os.close(made)

    def begin(self, items: list[Any], share: float = 1.0) -> None:
        """Starts the child on the last `share` of a list; `result` does the rest here."""
        self._items, self._cut = items, len(items)
        if self._child > 0:
            self._cut -= int(len(items) * share)
        if rest := items[self._cut :]:
            try:
                _send(self._to, rest)
            except (OSError, ValueError):  # it has ended, or marshal does not know a type
                self.close()

    def result(self) -> list[Any]:
        first = self._work(self._items[: self._cut])
        rest = self._items[self._cut :]
        if rest and self._child > 0:
            found = _receive(self._from)
            if isinstance(found, list) and len(found) == len(rest):
                return first + found
            self.close()
        return first + (self._work(rest) if rest else [])

    def close(self) -> None:
        """Ends the child, whatever it does."""
        if self._child > 0:
            os.close(self._to)
            os.close(self._from)
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._child, signal.SIGKILL)
                os.waitpid(self._child, 0)
            self._child = -1


def _serve(work: Callable[[list[Any]], list[Any]], asked: int, made: int) -> NoReturn:
    """The child. Nothing of the parent may run on here: no exit handlers, no database, no buffers.
    Its pipes are closed, or a git process that waits for the end of its input would wait for us.
    """
    try:
        for first, end in ((3, asked), (asked + 1, made), (made + 1, 1 << 16)):
            os.closerange(first, end)
        while isinstance(items := _receive(asked), list):
            _send(made, work(items))
        os._exit(0)
    except BaseException:
        os._exit(1)


def _send(fd: int, items: list[Any]) -> None:
    data = memoryview(marshal.dumps(items))
    data = memoryview(len(data).to_bytes(8, "little") + data)
    while data:
        data = data[os.write(fd, data) :]


def _receive(fd: int) -> object:
    """What the other side has sent; None where it has ended."""
    try:
        size = int.from_bytes(_exactly(fd, 8), "little")
        return marshal.loads(_exactly(fd, size))
    except (OSError, ValueError, EOFError, TypeError):
        return None


def _exactly(fd: int, size: int) -> bytes:
    parts = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
