"""The kind of an error at the cache: moved by others, busy, disk full, damaged, or none of these.
Standard library only: every prompt waits for it.
"""

from __future__ import annotations

import errno

from .cache import Cache, Damaged, Moved
from .sql import sqlite3

MOVED, DAMAGED, BUSY, FULL, OURS = "moved", "damaged", "busy", "full", ""

_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")
# A disk that is full, read-only or gone, or a limit of this process.
_FULL = tuple(
    "SQLITE_FULL SQLITE_READONLY SQLITE_CANTOPEN SQLITE_IOERR_WRITE SQLITE_IOERR_FSYNC"
    " SQLITE_IOERR_TRUNCATE SQLITE_IOERR_SHM".split()
)
_DAMAGED = tuple(
    "SQLITE_CORRUPT SQLITE_CONSTRAINT SQLITE_NOTADB SQLITE_FORMAT SQLITE_IOERR SQLITE_SCHEMA"
    " SQLITE_PROTOCOL".split()
)
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG, errno.EIO)


def kind(e: Exception, cache: Cache | None, check: bool = True) -> str:
    """MOVED, DAMAGED, BUSY, FULL, or OURS for a bug of ours. A changed value can raise anything:
    with `check` the full check tells that from a bug, which may take seconds.
    """
    if isinstance(e, Moved) or (
        cache is not None and isinstance(e, (sqlite3.Error, Damaged, OSError)) and cache.moved()
    ):
        return MOVED
    if isinstance(e, Damaged):
        return DAMAGED
    if isinstance(e, sqlite3.Error):
        name = getattr(e, "sqlite_errorname", "")
        if name.startswith((*_BUSY, *_FULL)):
            return BUSY if name.startswith(_BUSY) else FULL
        if name.startswith(_DAMAGED):
            return DAMAGED
    if isinstance(e, OSError) and e.errno in _FULL_DISK:
        return FULL
    if check and cache is not None and cache.how != "memory":
        from . import cache_check  # only after an error

        try:
            return DAMAGED if cache_check.check_all(cache) else OURS
        except (cache_check.NotChecked, cache_check.TableDamaged, Moved):
            pass
    return OURS
