"""SQLite without the package around it, and lists of values in statements."""

from __future__ import annotations

import sys

from ..core import fastjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3 as sqlite3
    from collections.abc import Iterable
    from typing import Any
else:

    def _driver():
        """`_sqlite3`, without the package around it, which loads `datetime` (4 ms), and without
        `functools`, of which it wants `lru_cache` alone, for its statements (another 4 ms). No
        thread imports `functools` meanwhile: `threading` has done so, and the only one that is
        started without it, the deadline's of a hook, needs none.
        """
        try:
            from _functools import _lru_cache_wrapper

            stand_in = type(sys)("functools")
            stand_in.lru_cache = lambda size: lambda f: _lru_cache_wrapper(f, size, False, tuple)
            sys.modules.setdefault("functools", stand_in)
            try:
                import _sqlite3
            finally:
                if sys.modules["functools"] is stand_in:
                    del sys.modules["functools"]
            return _sqlite3
        except ImportError:
            import sqlite3

            return sqlite3

    sqlite3 = _driver()

Connection = sqlite3.Connection

BUSY, FULL, DAMAGED = "busy", "full", "damaged"
_FAILURES = {
    BUSY: ("SQLITE_BUSY", "SQLITE_LOCKED"),
    # A disk that is full, read-only or gone, or a limit of this process.
    FULL: tuple(
        "SQLITE_FULL SQLITE_READONLY SQLITE_CANTOPEN SQLITE_IOERR_WRITE SQLITE_IOERR_FSYNC"
        " SQLITE_IOERR_TRUNCATE SQLITE_IOERR_SHM".split()
    ),
    DAMAGED: tuple(
        "SQLITE_CORRUPT SQLITE_CONSTRAINT SQLITE_NOTADB SQLITE_FORMAT SQLITE_IOERR SQLITE_SCHEMA"
        " SQLITE_PROTOCOL".split()
    ),
}


def failure(e: Exception) -> str:
    """BUSY, FULL or DAMAGED for an error of SQLite, "" for any other."""
    name = getattr(e, "sqlite_errorname", "")
    return next((kind for kind, names in _FAILURES.items() if name.startswith(names)), "")


def select_in(
    db: Connection, sql: str, values: Iterable[Any], *more: object
) -> list[tuple[Any, ...]]:
    """All rows of a statement in which `{}` stands for a list of values, however many; for changes,
    too. `more`: its other parameters, which follow the list.

    `db` is one of `cache.connect`: texts and bytes go as hexadecimal digits, since SQLite ends a
    text of JSON at its first NUL.
    """
    asked = list(values)
    inside = "value"
    if asked and isinstance(asked[0], str):
        asked = [text.encode("utf-8", "surrogatepass").hex() for text in asked]
        inside = "CAST(unhexed(value) AS TEXT)"
    elif asked and isinstance(asked[0], bytes):
        asked = [value.hex() for value in asked]
        inside = "unhexed(value)"
    sql = sql.replace("{}", f"(SELECT {inside} FROM json_each(?1))")
    return db.execute(sql, (fastjson.dumps(asked), *more)).fetchall()
