"""Superseded memories that count at a HEAD all the same, read without git.

What was superseded on a branch that is not merged, or is gone, counts wherever that branch does not
(`anchors/reinstate` finds such memories and gives them the rows of active ones). The table
`reinstated` names them for each HEAD that was looked from; from any other HEAD nothing is hidden.
"""

from __future__ import annotations

from ..core import record
from .memory_rows import parsed
from .sql import select_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .cache import Cache
    from .filters import Filter


# Those that are reinstated for other HEADs alone, where somebody looked from this one.
_ELSEWHERE = (
    "SELECT row FROM reinstated WHERE {rows} AND EXISTS (SELECT 1 FROM reinstated_head WHERE"
    " head = ?2) AND row NOT IN (SELECT row FROM reinstated WHERE head = ?2)"
)


def seen_from(cache: Cache, wanted: Filter, head: str) -> Filter:
    """The same conditions without what is reinstated for other HEADs alone."""
    other = cache.db.execute(_ELSEWHERE.format(rows="?1"), (1, head)).fetchone()
    return wanted.but(head=head) if other else wanted


def elsewhere(cache: Cache, rows: Sequence[int], head: str) -> set[int]:
    """Those of the rows that are reinstated for other HEADs alone: here they are superseded."""
    sql = _ELSEWHERE.format(rows="row IN {}")
    return {row for (row,) in select_in(cache.db, sql, rows, head)} if rows else set()


def told(cache: Cache, rows: Sequence[int]) -> dict[int, tuple[list[str], str, str]]:
    """`replaced` of the reinstated ones of the rows."""
    if not rows or not cache.db.execute("SELECT 1 FROM reinstated LIMIT 1").fetchone():
        return {}
    sql = "SELECT row FROM reinstated WHERE row IN {}"
    return replaced(cache, [row for (row,) in select_in(cache.db, sql, rows)])


def replaced(cache: Cache, rows: Iterable[int]) -> dict[int, tuple[list[str], str, str]]:
    """{row: (ids of those that took its place, the branch, the commit where)}."""
    out: dict[int, tuple[list[str], str, str]] = {}
    sql = (
        "SELECT m.row, b.raw, c.at FROM memory m JOIN line l ON l.n = m.line"
        " JOIN effective_cover c ON c.version = l.version JOIN line b ON b.n = c.by"
        " WHERE m.row IN {} ORDER BY c.by"
    )
    for row, raw, at in select_in(cache.db, sql, rows):
        found = parsed(raw)
        # The branch that an edit names is that of the text it goes on with.
        branch = found.data.get("branch") if found.op == "create" else ""
        ids, first, commit = out.get(row, ([], "", ""))
        out[row] = (
            [*ids, found.id] if found.id not in ids else ids,
            first or (record.clean(branch) if isinstance(branch, str) else ""),
            commit or at,
        )
    return out
