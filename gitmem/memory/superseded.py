"""Findings that need no comparison of texts: the records themselves say which memories were
replaced or edited in two places. `consolidate` asks for them.

Promise: what is asked of each replaced memory is bounded in time, the newest first; one statement
each finds the replaced memories and the concurrent edits, and these are not bounded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from ..core import id_mentions, record
from ..engine import memory_rows
from ..engine.cache import Cache
from ..engine.document import SUPERSEDED, TEAM


class TimeLimit:
    """`cut`: whether rows were left when the time was over."""

    def __init__(self, end: float) -> None:
        self._end = end
        self.cut = False

    def until(self, rows: list[Any]) -> Iterator[Any]:
        """The rows, until the time is over."""
        for row in rows:
            if time.monotonic() >= self._end:
                self.cut = True
                return
            yield row


def edited_twice(cache: Cache) -> list[tuple[str, int]]:
    """(id, row) of memories that were edited in two places at once, and by nobody since."""
    return cache.db.execute(
        "SELECT id, max(row) FROM memory WHERE status = 0 GROUP BY id HAVING count(*) > 1"
        " ORDER BY 2"
    ).fetchall()


def successors(cache: Cache, id: str) -> list[str]:
    """The active memories at the end of the chain of those that took the place of a superseded
    one.
    """
    sql = (
        "SELECT DISTINCT c.memory FROM memory m JOIN line l ON l.n = m.line JOIN cover v ON"
        " v.version = l.version JOIN line c ON c.n = v.by WHERE m.id = ? AND m.status = ?"
        " AND c.memory <> CAST(m.id AS BLOB)"
    )
    active: set[str] = set()
    seen, level = {id}, [id]
    while level:
        following: set[str] = set()
        for replaced in level:
            for (by,) in cache.db.execute(sql, (replaced, SUPERSEDED)):
                following.add(bytes(by).decode("utf-8", "replace"))
        following -= seen
        seen |= following
        ended = {i for i in following if _is_active(cache, i)}
        active |= ended
        level = sorted(following - ended)
    return sorted(active)


def _is_active(cache: Cache, id: str, condition: str = "") -> bool:
    sql = f"SELECT 1 FROM memory WHERE id = ? AND status = 0{condition}"
    return cache.db.execute(sql, (id,)).fetchone() is not None


def replaced_privately(cache: Cache, limit: TimeLimit) -> list[tuple[str, str, int]]:
    """(id, id of its successor, row) of the team's memories that only a private one has replaced:
    superseded here, in force for everybody else.
    """
    sql = (
        "SELECT DISTINCT m.id, m.row FROM memory m JOIN line l ON l.n = m.line JOIN cover v ON"
        f" v.version = l.version JOIN line c ON c.n = v.by WHERE m.status = {SUPERSEDED} AND"
        f" l.scope & {TEAM} > 0 GROUP BY m.row HAVING max(c.scope & {TEAM}) = 0 ORDER BY m.row DESC"
    )
    out = []
    for id, row in limit.until(cache.db.execute(sql).fetchall()):
        by = successors(cache, id)
        if len(by) == 1 and _is_active(cache, by[0], f" AND scope & {TEAM} = 0"):
            out.append((id, by[0], row))
    return out


def citing_replaced(cache: Cache, limit: TimeLimit) -> list[tuple[str, str, str, int]]:
    """(id, the superseded id, its successor, row) of memories whose body names a memory that was
    superseded since, by the first digits of its id or all of them.
    """
    sql = f"SELECT id FROM memory WHERE status = {SUPERSEDED} GROUP BY id ORDER BY max(row) DESC"
    naming = (
        "SELECT fts.rowid FROM fts JOIN memory m ON m.row = fts.rowid AND m.status = 0"
        " WHERE fts MATCH ? LIMIT 20"
    )
    out = []
    for (id,) in limit.until(cache.db.execute(sql).fetchall()):
        if len(id) < id_mentions.LEAST or not id.isalnum() or not id.isascii():
            continue
        prefix = f'"{id[: id_mentions.LEAST].lower()}" *'
        for (row,) in cache.db.execute(naming, (prefix,)).fetchall():
            data = memory_rows.load(cache, [row])[0][0]
            body = record.clean(data["body"])
            by = successors(cache, id) if id_mentions.named(body, [id]) else []
            if len(by) == 1 and data["id"] not in (id, by[0]):
                out.append((str(data["id"]), id, by[0], row))
    return out
