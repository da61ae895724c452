"""Superseded memories that count at a HEAD all the same, read without git.

What was superseded on a branch that is not merged, or is gone, counts wherever
that branch does not (`reinstate` finds them, and gives them what active ones
have: their rows say active). The table `revived` has them for each HEAD that was
looked from. Promise: where nothing came back, which is nearly everywhere, it
costs one look at an empty table. From a HEAD that nobody looked from yet nothing is hidden.
"""

from __future__ import annotations

from ..core import record
from .cache import Damaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cache import Cache
    from .filters import Filter


def seen_from(cache: Cache, wanted: Filter, head: str) -> Filter:
    """The same conditions without what came back for other HEADs alone; the same object where there
    is none.
    """
    db = cache.db
    if (
        not db.execute("SELECT 1 FROM revived LIMIT 1").fetchone()
        or not db.execute("SELECT 1 FROM revivedhead WHERE head = ?", (head,)).fetchone()
    ):
        return wanted
    if not db.execute(
        "SELECT 1 FROM revived WHERE row NOT IN (SELECT row FROM revived WHERE head = ?) LIMIT 1",
        (head,),
    ).fetchone():
        return wanted
    narrowed = wanted.copy()
    narrowed.head = head
    return narrowed


def elsewhere(cache: Cache, rows: Sequence[int], head: str) -> set[int]:
    """Those of the rows that came back for other HEADs than this one: here they are superseded,
    whatever their rows say.
    """
    db = cache.db
    if (
        not rows
        or not db.execute("SELECT 1 FROM main.revived LIMIT 1").fetchone()
        or not db.execute("SELECT 1 FROM main.revivedhead WHERE head = ?", (head,)).fetchone()
    ):
        return set()
    sql = (
        f"SELECT row FROM main.revived WHERE row IN ({','.join(map(str, rows))}) AND row NOT IN"
        " (SELECT row FROM main.revived WHERE head = ?)"
    )
    return {row for (row,) in db.execute(sql, (head,))}


def told(cache: Cache, rows: Sequence[int]) -> dict[int, tuple[list[str], str, str]]:
    """{row: (ids of those that took its place, the branch, the commit where)} of those of the rows
    that came back.
    """
    out: dict[int, tuple[list[str], str, str]] = {}
    if not rows or not cache.db.execute("SELECT 1 FROM main.revived LIMIT 1").fetchone():
        return out
    marks = ",".join(map(str, rows))
    sql = (
        "SELECT m.row, b.raw, c.at FROM main.memory m JOIN line l ON l.n = m.line JOIN cover c ON"
        f" c.version = l.version JOIN line b ON b.n = c.by WHERE m.row IN ({marks}) AND m.row IN"
        " (SELECT row FROM main.revived) ORDER BY c.by"
    )
    for row, raw, at in cache.db.execute(sql):
        parsed = record.parse(raw)
        if parsed is None:
            raise Damaged("a stored record cannot be read")
        # The branch that an edit names is that of the text it goes on with.
        branch = parsed.data.get("branch") if parsed.op == "create" else ""
        ids, first, commit = out.get(row, ([], "", ""))
        out[row] = (
            [*ids, parsed.id] if parsed.id not in ids else ids,
            first or (record.clean(branch) if isinstance(branch, str) else ""),
            commit or at,
        )
    return out
