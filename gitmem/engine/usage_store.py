"""What use has taught: the cache's tables `usage_records` and `confidence`, made from records.

Promise: an update leaves what a rebuild would, in whatever order lines came. Only private records
count, and no id that was purged. What sessions did stands in `usage_record` under short names; one
that two memories here share counts for neither.

Standard library only: every prompt reads `lifts`.
"""

from __future__ import annotations

from ..core import confidence, record, short
from .memory_rows import PRIVATE, versions_of
from .sql import select_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..core.record import Record
    from .cache import Cache, Connection

LOOKED_AT = 64  # rows of `usage_record` that a prompt reads of one memory: 200 took 5 ms
# Of files that speak for a memory the surest count stands, of answers the highest: neither depends
# on which record came first.
_ADD = (
    "INSERT INTO usage_record(id, session, how, number) VALUES(?, ?, ?, ?)"
    " ON CONFLICT(id, session, how) DO UPDATE SET number = CASE how"
    " WHEN 'touched' THEN min(number, excluded.number) ELSE max(number, excluded.number) END"
)


def take(
    db: Connection, records: Iterable[Record], changed: Iterable[str], purged: set[str]
) -> None:
    """Takes records in whose lines are private, and counts anew for the memories they name and for
    those that `changed`. `purged`: ids that may not be here.
    """
    gone = _named(purged)
    said = [row for r in records if r.op in confidence.OPS for row in confidence.rows(r.data)]
    rows = [row for row in said if row[0] not in gone]
    db.executemany(_ADD, rows)
    if rows or db.execute("SELECT 1 FROM usage_record LIMIT 1").fetchone():
        _count(db, {*changed, *(row[0] for row in rows)})


def again(db: Connection, purged: set[str]) -> None:
    """Everything anew from the stored lines: some of them are gone."""
    db.execute("DELETE FROM usage_record")
    db.execute("DELETE FROM confidence")
    take(db, stored(db), (), purged)


def stored(db: Connection) -> list[Record]:
    """The private records that say something of use."""
    out = []
    for op in confidence.OPS:  # the word stands in the statement, so that the partial index serves
        sql = f"SELECT raw FROM line WHERE op = '{op}' AND scope & {PRIVATE}"
        out += [r for (raw,) in db.execute(sql) if (r := record.parse(raw))]
    return out


def _named(ids: Iterable[str]) -> set[str]:
    return {name for id in ids for name in (id, short.of(id))}


def _count(db: Connection, names: set[str]) -> None:
    """Counts anew for these ids and short names of memories."""
    asked = sorted(_named(names))
    spoken = select_in(db, "SELECT DISTINCT id FROM usage_record WHERE id IN {}", asked)
    select_in(db, "DELETE FROM confidence WHERE id IN {}", asked)
    found: dict[str, list[tuple[str, str, int]]] = {}
    for first in sorted({short.of(id) for (id,) in spoken}):
        db.execute("DELETE FROM confidence WHERE id >= ? AND id < ?", (first, first + "g"))
        found.update(_said(db, first))
    made = []
    for id, versions in sorted(versions_of(db, list(found)).items()):
        if e := confidence.count(found[id], versions):
            made.append((id, confidence.value(e), e.used, e.ignored, e.against, e.vain))
    db.executemany(
        "INSERT INTO confidence(id, value, used, ignored, against, vain) VALUES(?, ?, ?, ?, ?, ?)",
        made,
    )


def _here(db: Connection, first: str) -> list[str]:
    """Ids of the memories here that begin so."""
    sql = "SELECT DISTINCT id FROM memory WHERE id >= ? AND id < ?"
    return [id for (id,) in db.execute(sql, (first, first + "g"))]


def _said(db: Connection, first: str) -> dict[str, list[tuple[str, str, int]]]:
    """{id of a memory here with this short name: its rows of `usage_record`}."""
    ids = _here(db, first)
    sql = "SELECT session, how, number FROM usage_record WHERE id IN (?, ?)"
    out = {id: db.execute(sql, (id, first if len(ids) == 1 else id)).fetchall() for id in ids}
    return {id: rows for id, rows in out.items() if rows and confidence.is_id(id)}


def full(cache: Cache, names: Iterable[str]) -> dict[str, str]:
    """{short name: id} of those that stand for one memory here."""
    found = {name: _here(cache.db, name) for name in names}
    return {
        name: ids[0] for name, ids in found.items() if len(ids) == 1 and confidence.is_id(ids[0])
    }


def values(cache: Cache, rows: Iterable[int]) -> dict[int, float]:
    """{memory row: what use says, 0 to 1}; rows of which nothing was counted are left out."""
    sql = "SELECT m.row, c.value FROM memory m JOIN confidence c ON c.id = m.id WHERE m.row IN {}"
    return dict(select_in(cache.db, sql, rows))


def lifts(cache: Cache, near: Mapping[int, float]) -> dict[int, float]:
    """{memory row: what its score as an answer is multiplied with}; rows of which nothing was
    counted are left out. `near`: what was found, with its score.
    """
    # The rows of a short name that another memory shares are nobody's.
    alone = (
        "NOT EXISTS (SELECT 1 FROM memory o WHERE o.id >= substr(m.id, 1, ?2)"
        " AND o.id < substr(m.id, 1, ?2) || 'g' AND o.id <> m.id)"
    )
    sql = (
        f"SELECT m.row, CASE WHEN {alone} THEN m.id ELSE '' END, c.used, c.against"
        " FROM memory m JOIN confidence c ON c.id = m.id WHERE m.row IN {}"
    )
    found = select_in(cache.db, sql, near, short.DIGITS)
    counted = {row: (id, used, against) for row, id, used, against in found}
    vain = confidence.in_vain(
        near, {row: _told(cache, counted[row][0]) for row in near if row in counted}
    )
    return {
        row: confidence.lift(used, vain[row], against)
        for row, (_, used, against) in counted.items()
    }


def _told(cache: Cache, id: str) -> dict[str, bool]:
    """{session that was told a memory for a prompt or a file: whether it used it}; of many sessions
    the first ones by name, which says nothing about them.
    """
    sql = "SELECT session, how FROM usage_record WHERE id = ? ORDER BY session LIMIT ?"
    rows = cache.db.execute(sql, (short.of(id), LOOKED_AT)).fetchall()
    if len(rows) == LOOKED_AT:  # the last session may have more
        rows = [row for row in rows if row[0] != rows[-1][0]]
    used = {session for session, how in rows if how in (confidence.CITED, confidence.TOUCHED)}
    return {session: session in used for session, how in rows if how in confidence.MEANT}


def evidence(cache: Cache, ids: Iterable[str]) -> dict[str, confidence.Evidence]:
    """{id: what was counted}; ids without any are left out."""
    sql = "SELECT id, used, ignored, against, vain FROM confidence WHERE id IN {}"
    found = select_in(cache.db, sql, sorted(set(ids)))
    return {id: confidence.Evidence(*counted) for id, *counted in found}
