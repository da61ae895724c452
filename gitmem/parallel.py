"""A second processor for pure computations.

Promise: the answer is that of the plain call. Where there is no fork (or it is
unsafe, as on macOS), one processor only, or the child fails, the plain call is
what happens.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
import threading
from collections.abc import Callable
from typing import Any


def halves(work: Callable[[list[Any]], list[Any]], items: list[Any]) -> list[Any]:
    """`work(items)` for a function that treats each item alone; results must be built of plain strings, bytes and numbers."""
    if sys.platform != "linux" or (os.cpu_count() or 1) < 2 or threading.active_count() > 1:
        return work(items)  # a fork beside a thread (a progress bar) could inherit a held lock
    middle = len(items) // 2
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        # Nothing of the parent may run on here: no exit handlers, no database, no buffers.
        try:
            os.close(reader)
            with os.fdopen(writer, "wb") as out:
                out.write(marshal.dumps(work(items[middle:])))
            os._exit(0)
        except BaseException:
            os._exit(1)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as answer:
            first = work(items[:middle])
            raw = answer.read()
    finally:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
    try:
        second = marshal.loads(raw)
    except (ValueError, EOFError, TypeError):
        second = None
    return first + (second if isinstance(second, list) and len(second) == len(items) - middle else work(items[middle:]))
