"""SQLite without the package around it, and lists of values in statements."""

from __future__ import annotations

from ..core import fastjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3 as sqlite3
    from collections.abc import Iterable
    from typing import Any
else:
    try:
        import _sqlite3 as sqlite3  # the package around it loads `datetime`: 4 ms
    except ImportError:
        import sqlite3

Connection = sqlite3.Connection


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
