"""A second processor for pure computations.

Where there is no fork (or it is unsafe: macOS, a running thread), one processor only, or the child
fails, the plain call is what happens.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

Work = Callable[[list[Any]], list[Any]]


def halved(work: Work, items: list[Any]) -> list[Any]:
    """`work(items)`, the second half of it in a child; `work` treats each item alone and returns
    plain strings, bytes and numbers.
    """
    # A fork beside a thread could inherit a lock that nobody will ever release.
    if sys.platform != "linux" or (os.cpu_count() or 1) < 2 or threading.active_count() > 1:
        return work(items)
    half = len(items) // 2
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        _answer(writer, work, items[half:])
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as answer:
            first = work(items[:half])
            raw = answer.read()
    finally:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
    try:
        second = marshal.loads(raw)
    except (ValueError, EOFError, TypeError):
        second = work(items[half:])
    return [*first, *second]


def _answer(writer: int, work: Work, items: list[Any]) -> None:
    """In the child, of which nothing else of the parent may run: no exit handlers, no database, no
    buffers. Its pipes are closed, or a git process that waits for the end of its input would wait.
    """
    try:
        os.closerange(3, writer)
        os.closerange(writer + 1, 65536)
        with os.fdopen(writer, "wb") as out:
            out.write(marshal.dumps(work(items)))
        os._exit(0)
    except BaseException:
        os._exit(1)
