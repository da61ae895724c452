"""Gives superseded memories back to the HEADs at which what took their place does not count.

A record that supersedes counts from a commit on: a `create` from its own, an
`edit` that took another memory in from the HEAD it was made at (`cover.at`, as
`records_at` has it). Where all that cover the last text of a memory are about commits that a
HEAD has not, on a branch that is not merged or that nobody has any more, the memory
counts there. What a record does not say counts everywhere, and what git cannot tell, too.

Promise: only what git says brings a memory back, and it goes when the branch is
merged, as it is, rewritten or squashed. Where no record names such a commit it costs one query.
"""

from __future__ import annotations

from ..core import fastjson, record
from ..engine.cache import Cache
from ..engine.document import ACTIVE, SUPERSEDED
from ..engine.update import Update
from ..git import refs_mtime
from ..git.repository import Repo
from . import anchor_state

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..engine.embed import StaticTable

_Rows = set[tuple[str, int]]
_REFS = "refs:revived"  # in the cache's `meta`: `refs_mtime.stamp` when somebody last looked


def settle(
    repo: Repo,
    cache: Cache,
    table: StaticTable,
    seconds: float = anchor_state.ON_THE_SPOT,
    thorough: bool = False,
) -> None:
    """Looks from the HEAD of every worktree; what came back for other HEADs goes.

    So the rows of the cache, and with them how rare a word is, depend on the notes and on these
    HEADs, never on where somebody asked from before: a rebuilt cache gives the same scores.
    `thorough`: that nothing came back is kept, too, so that the next reader need not look.
    """
    db = cache.db
    if cache.blind or cache.meta("space") != table.space:
        return  # what comes back is indexed as the others are
    named = db.execute("SELECT 1 FROM cover WHERE at <> '' LIMIT 1").fetchone()
    before: _Rows = set(db.execute("SELECT head, row FROM revived").fetchall())
    if not named and not before:
        return
    (last,) = db.execute("SELECT coalesce(max(n), 0) FROM line").fetchone()
    looked = dict(db.execute("SELECT head, n FROM revivedhead").fetchall())
    heads = repo.heads()
    moved = bool(named) and not refs_mtime.same(
        repo.common_dir, cache.meta(_REFS)
    )  # a branch that a fetch brought may tell where something was squashed
    refs = refs_mtime.stamp(repo.common_dir, wait=False) if moved else ""
    open_ = [head for head in heads if moved or looked.get(head) != last]
    now: _Rows = {pair for pair in before if pair[0] in heads and pair[0] not in open_}
    seen = {head: n for head, n in looked.items() if head in heads}
    for head in open_:
        rows, sure = _rows(repo, cache, head, seconds)
        now |= {(head, row) for row in rows}
        seen[head] = last if sure else -1
    # From a HEAD that was not looked from nothing is hidden: that there is nothing to show must be
    # known, too.
    if now != before or (now and seen.keys() != looked.keys()) or (seen != looked and thorough):
        cache.keep(0.5, lambda _: _write(cache, table, before, now, seen))
    if moved:
        cache.keep(0.5, lambda _: cache.set_meta(_REFS, refs))


def counts(repo: Repo, cache: Cache, id: str, head: str) -> bool:
    """Whether a memory that its records call superseded counts at this HEAD all the same."""
    if not head or not cache.db.execute("SELECT 1 FROM cover WHERE at <> '' LIMIT 1").fetchone():
        return False
    rows, _ = _rows(repo, cache, head, anchor_state.ON_THE_SPOT)
    return any(
        row in rows for (row,) in cache.db.execute("SELECT row FROM memory WHERE id = ?", (id,))
    )


# A text that is united from several lines comes back where one of them does.
_OF_LINE = (
    "SELECT row FROM memory WHERE line = l.n UNION"
    " SELECT u.row FROM united u, json_each(u.lines) j WHERE j.value = l.n"
)


def _rows(repo: Repo, cache: Cache, head: str, seconds: float) -> tuple[set[int], bool]:
    """(rows of memories that count at this HEAD again, whether all is known)."""
    db = cache.db
    asked = {at for (at,) in db.execute("SELECT DISTINCT at FROM cover WHERE at <> ''")}
    stands = anchor_state.stands(repo, cache, asked, head, seconds)
    away = fastjson.dumps(sorted(a for a, s in stands.items() if _away(s)))
    sql = (
        "SELECT DISTINCT m.row, m.anchor FROM cover c CROSS JOIN line l ON l.version = c.version"
        f" CROSS JOIN memory m ON m.row IN ({_OF_LINE}) WHERE c.at <> '' AND c.at IN (SELECT value"
        " FROM json_each(?1)) AND (m.status = ?2 OR m.row IN (SELECT row FROM revived)) AND NOT"
        " EXISTS (SELECT 1 FROM cover d WHERE d.version = c.version AND d.at NOT IN (SELECT value"
        " FROM json_each(?1)))"
    )
    found = db.execute(sql, (away, SUPERSEDED)).fetchall()
    own = anchor_state.stands(
        repo, cache, {a for _, a in found if record.object_id(a)}, head, seconds
    )
    # What is itself about a branch that is not merged has no place here: on its branch it was
    # superseded.
    return {
        row for row, a in found if a not in own or own[a].state != anchor_state.UNMERGED
    }, not anchor_state.waiting({**stands, **own})


def _away(stand: anchor_state.Stand) -> bool:
    return stand.state == anchor_state.UNMERGED or (
        stand.state == anchor_state.UNKNOWN and stand.reason == anchor_state.ABSENT
    )


def _write(
    cache: Cache, table: StaticTable, before: _Rows, now: _Rows, seen: dict[str, int]
) -> None:
    db = cache.db
    if set(db.execute("SELECT head, row FROM revived").fetchall()) != before:
        return  # another process was there first
    old, new = {row for _, row in before}, {row for _, row in now}
    update = Update(cache, table, None)
    moved = {
        **_again(cache, update, new - old, SUPERSEDED, ACTIVE),
        **_again(cache, update, old - new, ACTIVE, SUPERSEDED),
    }
    if moved:
        update.finish()
    db.execute("DELETE FROM revived")
    db.executemany(
        "INSERT INTO revived VALUES(?, ?)",
        sorted((head, moved.get(row, row)) for head, row in now if row in old or row in moved),
    )
    db.execute("DELETE FROM revivedhead")
    db.executemany("INSERT INTO revivedhead VALUES(?, ?)", sorted(seen.items()))


def _again(
    cache: Cache, update: Update, rows: Iterable[int], was: int, status: int
) -> dict[int, int]:
    """{row: its new number}: made anew with another status, so that all that looks at new rows
    looks at them.
    """
    out = {}
    for row in sorted(rows):
        sql = "SELECT 1 FROM memory WHERE row = ? AND status = ?"
        if cache.db.execute(sql, (row, was)).fetchone():  # else records changed it meanwhile
            out[row] = update.again(row, status)
    return out
