"""Memory rows as the records they were made of.

Promise: what `load` gives was hashed against the version it is stored under, so a damaged cache
cannot show changed text: it raises Damaged. Standard library only: every prompt waits for it.
"""

from __future__ import annotations

from ..core import record
from .cache import Cache, Connection, Damaged
from .sql import select_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

# Of a row: its status, and the refs that its lines lie in, as bits, for they may lie in both.
ACTIVE, SUPERSEDED, FORGOTTEN = 0, 1, 2
TEAM, PRIVATE = 1, 2
SCOPE_BITS = {"team": TEAM, "private": PRIVATE}
# A text that is united from several lines was stored under its own name (`unite`).
TEXT = (
    "coalesce(u.raw, l.raw) FROM memory m JOIN line l ON l.n = m.line"
    " LEFT JOIN united u ON u.row = m.row"
)
_ROW = f"SELECT coalesce(u.digest, l.version), m.scope, m.status, {TEXT} WHERE m.row = ?"
# (id, version) of every line behind a row that is shown.
_LINES = (
    "SELECT m.id, l.version FROM memory m JOIN line l ON l.n = m.line WHERE {where} UNION"
    " SELECT m.id, l.version FROM united u CROSS JOIN memory m ON m.row = u.row"
    " CROSS JOIN json_each(u.lines) j CROSS JOIN line l ON l.n = j.value WHERE {where}"
)


def parsed(raw: bytes) -> record.Record:
    """The record of a stored line. Raises Damaged."""
    found = record.parse(raw)
    if found is None:
        raise Damaged("a stored record cannot be read")
    return found


def versions_of(db: Connection, ids: Sequence[str], where: str = "1") -> dict[str, set[str]]:
    """{id: the versions behind its rows}, of rows for which the SQL condition `where` holds."""
    out: dict[str, set[str]] = {}
    sql = _LINES.format(where=f"{where} AND m.id IN {{}}")
    for id, version in select_in(db, sql, ids):
        out.setdefault(id, set()).add(version.hex())
    return out


def load(cache: Cache, rows: Sequence[int]) -> list[tuple[dict[str, Any], int, int]]:
    """(record data, scope bits, status) of memory rows, in their order. Raises Damaged."""
    out = []
    for row in rows:
        found = cache.db.execute(_ROW, (row,)).fetchone()
        if found is None:
            raise Damaged("a memory has lost its record")
        version, scope, status, raw = found
        read = record.parse(raw)
        if read is None or read.version != version.hex():
            raise Damaged("a stored record has changed")
        out.append((read.data, scope, status))
    return out


def firsts(cache: Cache, rows: Sequence[int]) -> list[int]:
    """The rows without those of a memory that an earlier one of them stands for."""
    if not cache.db.execute("SELECT 1 FROM memory WHERE nth > 0 LIMIT 1").fetchone():
        return list(rows)
    ids = dict(select_in(cache.db, "SELECT row, id FROM memory WHERE row IN {}", rows))
    seen: dict[str, int] = {}
    return [row for row in rows if seen.setdefault(ids[row], row) == row]


def beside(cache: Cache, ids: Iterable[str]) -> dict[str, list[int]]:
    """{id: its active rows, the one to show first first}, of those that have alternatives."""
    sql = (
        "SELECT id, row FROM memory WHERE status = 0 AND id IN"
        " (SELECT id FROM memory WHERE nth > 0 AND id IN {}) ORDER BY nth"
    )
    out: dict[str, list[int]] = {}
    for id, row in select_in(cache.db, sql, sorted(set(ids))):
        out.setdefault(id, []).append(row)
    return {id: rows for id, rows in out.items() if len(rows) > 1}


def commit_of(data: dict[str, Any]) -> str:
    return record.object_id(data.get("commit"))


def word(value: Any) -> str | None:
    """A text of a record whoever wrote it; None for other shapes."""
    return record.clean(value) if isinstance(value, str) else None


def words(value: Any) -> list[str]:
    found = value[: record.MAX_ITEMS] if isinstance(value, list) else []
    return [record.clean(v) for v in found if isinstance(v, str)]


def made_at(data: Mapping[str, Any]) -> str:
    """When a memory was made, "" where its record has no time in the stored form."""
    return record.moment(data.get("created")) or record.moment(data.get("at"))


def entries(value: Any) -> list[dict[str, Any]]:
    """The entries of a record's `paths` that have a name; of very many the first ones."""
    found = value[: record.MAX_ITEMS] if isinstance(value, list) else []
    named = [p for p in found if isinstance(p, dict) and isinstance(p.get("path"), str)]
    return [p for p in named if p["path"]]


def paths(data: Mapping[str, Any]) -> list[str]:
    return [record.clean(p["path"]) for p in entries(data.get("paths"))]


def places(data: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(path, blob id seen then or "", lines or "") of a record; lines as "10-20", with "@" and
    their content anchor where the record has one.
    """
    return [
        (record.clean(p["path"]), record.object_id(p.get("blob")), _lines(p))
        for p in entries(data.get("paths"))
    ]


def bare(path: str) -> str:
    """The name under which git has a path: no slash at the end of a directory; "." is the top."""
    return path.rstrip("/") or "."


def _lines(entry: Mapping[str, Any]) -> str:
    lines, content = word(entry.get("lines")) or "", word(entry.get("content")) or ""
    return f"{lines}@{content}" if lines and content else lines
