"""`mem/worker.log`: what failed in the worker, where `git mem doctor` finds it. No line holds text
of an event or a memory.
"""

from __future__ import annotations

import os
import time
import traceback

from ..git import memfile

LOG = "worker.log"
_BOUND = 64 * 1024  # bytes after which it begins anew


def append(mem_dir: str, text: str) -> None:
    """Adds a line with the time. Raises nothing: there is nobody to tell."""
    path = os.path.join(mem_dir, LOG)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        full = os.path.exists(path) and os.stat(path).st_size > _BOUND
        mode = os.O_TRUNC if full else os.O_APPEND
        fd = memfile.opened(path, os.O_WRONLY | os.O_CREAT | mode)
        with open(fd, "a", encoding="utf-8", errors="replace") as f:
            f.write(f"{now} {' '.join(text.split())}\n")
    except OSError:
        return


def lines(mem_dir: str) -> list[str]:
    """The lines of the log, oldest first."""
    try:
        return memfile.read(os.path.join(mem_dir, LOG)).decode("utf-8", "replace").splitlines()
    except OSError:
        return []


def failure(subject: str, e: Exception) -> str:
    """Class and place only: a message may hold the text of a memory."""
    last = traceback.extract_tb(e.__traceback__)[-1]
    return f"{subject}: {type(e).__name__} in {os.path.basename(last.filename)}:{last.lineno}"
