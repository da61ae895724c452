"""The paths that active memories name, in the cache: the same path noted at the same commit is one
row, however many memories name it, so that its state is computed once.

Promise: with the last memory that names it a noted path goes, and its states with it.
"""

from __future__ import annotations

from . import memory_rows
from .sql import select_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from .cache import Connection

    NotedPath = tuple[str, str, int, str, str]  # anchor, name, slashes at its end, blob, lines

_COLUMNS = ("anchor", "name", "slashes", "blob", "lines")
_EQUAL = " AND ".join(f"{column} = ?" for column in _COLUMNS)


def of(data: dict[str, Any]) -> list[NotedPath]:
    """The noted paths of a record, in the order of its paths."""
    anchor = memory_rows.commit_of(data)
    return [
        (anchor, memory_rows.bare(path), len(path) - len(path.rstrip("/")), blob, lines)
        for path, blob, lines in memory_rows.places(data)
    ]


def add(db: Connection, shown: Iterable[tuple[int, dict[str, Any]]]) -> None:
    """Takes in the paths of new memories, (row, record)."""
    numbers: dict[NotedPath, int] = {}
    rows = []
    for row, data in shown:
        for place, path in enumerate(of(data)):
            if path not in numbers:
                sql = f"INSERT OR IGNORE INTO noted_path({', '.join(_COLUMNS)})"
                db.execute(f"{sql} VALUES(?, ?, ?, ?, ?)", path)
                sql = f"SELECT number FROM noted_path WHERE {_EQUAL}"
                (numbers[path],) = db.execute(sql, path).fetchone()
            rows.append((row, place, numbers[path]))
    db.executemany("INSERT INTO memory_path VALUES(?, ?, ?)", rows)


def leave(db: Connection, rows: Sequence[int]) -> None:
    """Takes away the paths of some memories, and the states of those that no other memory names."""
    named = select_in(db, "SELECT DISTINCT number FROM memory_path WHERE row IN {}", rows)
    left = sorted(set(named))
    select_in(db, "DELETE FROM memory_path WHERE row IN {}", rows)
    unused = [
        number
        for number in left
        if not db.execute("SELECT 1 FROM memory_path WHERE number = ? LIMIT 1", number).fetchone()
    ]
    db.executemany(
        "DELETE FROM path_state WHERE slot IN (SELECT slot FROM head) AND number = ?", unused
    )
    db.executemany("DELETE FROM noted_path WHERE number = ?", unused)
