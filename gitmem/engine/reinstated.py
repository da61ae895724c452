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
    from collections.abc import Sequence

    from .cache import Cache
    from .filters import Filter


_AT_HEAD = "SELECT row FROM reinstated WHERE head = ?"


def seen_from(cache: Cache, wanted: Filter, head: str) -> Filter:
    """The same conditions without what is reinstated for other HEADs alone."""
    other = f"SELECT 1 FROM reinstated WHERE row NOT IN ({_AT_HEAD})"
    if not _looked_from(cache, head) or not cache.db.execute(other, (head,)).fetchone():
        return wanted
    return wanted.but(head=head)


def elsewhere(cache: Cache, rows: Sequence[int], head: str) -> set[int]:
    """Those of the rows that are reinstated for other HEADs alone: here they are superseded."""
    if not rows or not _looked_from(cache, head):
        return set()
    mine = {row for (row,) in cache.db.execute(_AT_HEAD, (head,))}
    back = select_in(cache.db, "SELECT row FROM reinstated WHERE row IN {}", rows)
    return {row for (row,) in back} - mine


def _looked_from(cache: Cache, head: str) -> bool:
    """Whether anything is reinstated at all, and somebody looked from this HEAD."""
    one = cache.db.execute("SELECT 1 FROM reinstated LIMIT 1").fetchone()
    sql = "SELECT 1 FROM reinstated_head WHERE head = ?"
    return bool(one and cache.db.execute(sql, (head,)).fetchone())


def told(cache: Cache, rows: Sequence[int]) -> dict[int, tuple[list[str], str, str]]:
    """{row: (ids of those that took its place, the branch, the commit where)} of the reinstated
    ones of the rows.
    """
    out: dict[int, tuple[list[str], str, str]] = {}
    if not rows or not cache.db.execute("SELECT 1 FROM reinstated LIMIT 1").fetchone():
        return out
    sql = (
        "SELECT m.row, b.raw, c.at FROM memory m JOIN line l ON l.n = m.line"
        " JOIN effective_cover c ON c.version = l.version JOIN line b ON b.n = c.by"
        " WHERE m.row IN {} AND m.row IN (SELECT row FROM reinstated) ORDER BY c.by"
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
