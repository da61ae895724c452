"""The kind of an error at the cache: moved by others, busy, disk full, damaged, or none of these.
Standard library only: every prompt waits for it.
"""

from __future__ import annotations

import errno

from . import sql
from .cache import Cache, Damaged, Moved
from .sql import BUSY as BUSY
from .sql import DAMAGED as DAMAGED
from .sql import FULL as FULL
from .sql import sqlite3

MOVED, OURS = "moved", ""

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
    if found := sql.failure(e):
        return found
    if isinstance(e, OSError) and e.errno in _FULL_DISK:
        return FULL
    if check and cache is not None and cache.how != "memory":
        from . import cache_check  # only after an error

        try:
            return DAMAGED if cache_check.check_all(cache) else OURS
        except (cache_check.NotChecked, cache_check.TableDamaged, Moved):
            pass
    return OURS
