"""The writer lock of the cache file, and the checks of that file when it is opened.

Promise: one process at a time writes, replaces or removes a cache file, and pages go from
SQLite's log to the file under the same lock (`take_log`). A lock on a file that was
removed meanwhile counts for nothing.

While SQLite has a cache open, nothing in this process may open and close that file as well:
closing any descriptor of it drops the POSIX locks which SQLite holds on it, and another process
would take itself for the last one and remove the log (sqlite.org/howtocorrupt.html, 2.2). So
the file is only ever looked at with `stat`, and `lockable` tries its lock on a file of its own.
"""

from __future__ import annotations

import os
import time

from ..git import memfile

try:
    import fcntl
except ImportError:  # Windows: SQLite's own locks remain
    fcntl = None  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .sql import Connection

# Of a cache. The database first: whoever comes between two removals finds none, and waits for the
# lock to make one.
FILES = ("", "-wal", "-shm")


class Damaged(Exception):
    """The cache file cannot be trusted; it holds nothing that the notes do not."""


class Moved(Exception):
    """The open file is no longer the cache of this repository; opening again helps."""


class locked:
    """The writer lock of a cache file ("": of none); False where it was not free within `wait`
    seconds. True where no lock can be kept (no flock on this system or disk, no directory).
    """

    def __init__(self, path: str, wait: float) -> None:
        self._path = path and path + ".lock"
        self._end = time.monotonic() + wait
        self._fd = -1

    def __enter__(self) -> bool:
        while True:
            if not fcntl or not self._path:
                return True
            try:
                self._fd = memfile.opened(self._path, os.O_RDWR | os.O_CREAT)
            except OSError:
                return True
            try:
                held = _flock(self._fd, self._end)
                if not held or os.fstat(self._fd).st_ino == inode(self._path):
                    return held
            except BaseException:
                self.close()
                raise
            self.close()  # removed while we waited: others lock another file by now

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _flock(fd: int, end: float) -> bool:
    pause = 0.001
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.05)
        except OSError:
            return True


def has_log(path: str) -> bool:
    return size(path + "-wal") > 0


def take_log(db: Connection) -> None:
    """Moves SQLite's log into the file and cuts it, so that it keeps no text; where a reader is in
    the way, a later call finishes. The caller holds the writer lock.
    """
    _, log, done = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    if log == done:
        db.execute("PRAGMA busy_timeout=200")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA busy_timeout=5000")


def lockable(mem_dir: str) -> bool:
    """Whether the file system keeps POSIX locks: without them SQLite waits as if another process
    held one.
    """
    try:
        fd = memfile.opened(os.path.join(mem_dir, "locks"), os.O_RDWR | os.O_CREAT) if fcntl else -1
    except OSError:
        return True  # what is wrong shows when the cache is opened
    try:
        if fd >= 0:
            fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return True
    except (BlockingIOError, PermissionError):
        return True  # another holds it
    except OSError:
        return False
    finally:
        if fd >= 0:
            os.close(fd)


def inode(path: str) -> int:
    """The inode of a path, 0 where there is no file."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def size(path: str) -> int:
    """The size of a file in bytes, 0 where there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def unlink(path: str, suffixes: Iterable[str] = FILES) -> None:
    """Removes the files of a cache; the lock stays."""
    for suffix in suffixes:
        try:
            os.unlink(path + suffix)
        except OSError:
            pass
