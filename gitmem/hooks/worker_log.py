"""`mem/worker.log`: what failed in the worker, where `git mem doctor` finds it.
No line holds text of an event or a memory.
"""

from __future__ import annotations

import os
import time

from ..git import memfile
from . import spool

LOG = "worker.log"
_BOUND = 64 * 1024  # bytes after which it begins anew


def append(mem_dir: str, text: str) -> None:
    """Adds a line with the time. Raises nothing: there is nobody to tell."""
    path = os.path.join(mem_dir, LOG)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        if os.path.exists(path) and os.stat(path).st_size > _BOUND:
            memfile.write(path, b"")
        spool.put(path, f"{now} {' '.join(text.split())}\n".encode("utf-8", "replace"))
    except OSError:
        return


def lines(mem_dir: str) -> list[str]:
    """The lines of the log, oldest first."""
    try:
        return memfile.read(os.path.join(mem_dir, LOG)).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
