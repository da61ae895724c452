"""Lets superseded memories count again at HEADs where their replacement does not count.

A record that supersedes counts from a commit on (`cover.at`, as in `snapshot_view`). Where all
records that cover the last text of a memory are about commits that a HEAD lacks, the memory counts
at that HEAD. A record without a commit, or with one that git cannot place, counts everywhere.

Promise: only what git says brings a memory back, and it goes when the branch is merged, as it is,
rewritten or squashed. Where no record names such a commit it costs one query.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core import record
from ..engine.anchor_state_store import ABSENT, UNMERGED
from ..engine.cache import Cache
from ..engine.embed import StaticTable
from ..engine.memory_rows import ACTIVE, SUPERSEDED
from ..engine.update import Update
from ..git import refs_mtime
from ..git.repository import Repo
from . import anchor_state

Pairs = set[tuple[str, int]]  # HEADs and rows of memories

_REFS = "refs:reinstated"  # in the cache's `meta`: `refs_mtime.stamp` when somebody last looked
_PATIENCE = 0.5  # seconds to wait for another process that writes the cache


def settle(
    repo: Repo,
    cache: Cache,
    table: StaticTable,
    seconds: float = anchor_state.ON_THE_SPOT,
    thorough: bool = False,
) -> None:
    """Looks from the HEAD of every worktree; what was reinstated for other HEADs goes, so that a
    rebuilt cache has the same rows and gives the same scores. `thorough`: that nothing was
    reinstated is kept, too, so that the next reader need not look.
    """
    db = cache.db
    named = db.execute("SELECT 1 FROM cover WHERE at <> '' LIMIT 1").fetchone()
    before: Pairs = set(db.execute("SELECT head, row FROM reinstated").fetchall())
    if not named and not before:
        return
    (last,) = db.execute("SELECT coalesce(max(n), 0) FROM line").fetchone()
    looked = dict(db.execute("SELECT head, n FROM reinstated_head").fetchall())
    heads = repo.heads()
    # A branch that a fetch brought may tell where something was squashed.
    moved = bool(named) and not refs_mtime.same(repo.common_dir, cache.meta(_REFS))
    refs = refs_mtime.stamp(repo.common_dir, wait=False) if moved else ""
    due = [head for head in heads if moved or looked.get(head) != last]
    now: Pairs = {pair for pair in before if pair[0] in heads and pair[0] not in due}
    seen = {head: n for head, n in looked.items() if head in heads}
    for head in due:
        rows, sure = _rows(repo, cache, head, seconds)
        now |= {(head, row) for row in rows}
        seen[head] = last if sure else -1
    # That a HEAD has nothing to show must be known, too: else nothing is hidden from it.
    if now != before or (now and seen.keys() != looked.keys()) or (seen != looked and thorough):
        cache.keep(_PATIENCE, lambda _: _write(cache, table, before, now, seen))
    if moved:
        cache.keep(_PATIENCE, lambda _: cache.set_meta(_REFS, refs))


def counts(repo: Repo, cache: Cache, id: str, head: str) -> bool:
    """Whether a memory that its records call superseded counts at this HEAD all the same."""
    if not head or not cache.db.execute("SELECT 1 FROM cover WHERE at <> '' LIMIT 1").fetchone():
        return False
    rows, _ = _rows(repo, cache, head, anchor_state.ON_THE_SPOT)
    own = cache.db.execute("SELECT row FROM memory WHERE id = ?", (id,))
    return any(row in rows for (row,) in own)


# A text that is united from several lines comes back where one of them does.
_OF_LINE = (
    "SELECT row FROM memory WHERE line = l.n UNION"
    " SELECT u.row FROM united u, json_each(u.lines) j WHERE j.value = l.n"
)


def _rows(repo: Repo, cache: Cache, head: str, seconds: float) -> tuple[set[int], bool]:
    """(rows of memories that count at this HEAD all the same, whether all is known)."""
    db = cache.db
    asked = {at for (at,) in db.execute("SELECT DISTINCT at FROM cover WHERE at <> ''")}
    states = anchor_state.states(repo, cache, asked, head, seconds)
    # Those that `head` certainly does not have.
    away = [a for a, s in states.items() if s.state == UNMERGED or s.reason == ABSENT]
    found = cache.among(
        "SELECT DISTINCT m.row, m.anchor FROM effective_cover c"
        f" CROSS JOIN line l ON l.version = c.version CROSS JOIN memory m ON m.row IN ({_OF_LINE})"
        " WHERE c.at <> '' AND c.at IN {}"
        " AND (m.status = ?2 OR m.row IN (SELECT row FROM reinstated)) AND NOT EXISTS"
        " (SELECT 1 FROM effective_cover d WHERE d.version = c.version AND d.at NOT IN {})",
        away,
        SUPERSEDED,
    )
    about = {a for _, a in found if record.object_id(a)}
    own = anchor_state.states(repo, cache, about, head, seconds)
    # A memory that is itself about an unmerged branch was superseded on that branch.
    rows = {row for row, a in found if a not in own or own[a].state != UNMERGED}
    return rows, not anchor_state.waiting({**states, **own})


def _write(
    cache: Cache, table: StaticTable, before: Pairs, now: Pairs, seen: dict[str, int]
) -> None:
    db = cache.db
    if set(db.execute("SELECT head, row FROM reinstated").fetchall()) != before:
        return  # another process was there first
    old, new = {row for _, row in before}, {row for _, row in now}
    update = Update(cache, table, None)
    moved = {
        **_with_status(cache, update, new - old, SUPERSEDED, ACTIVE),
        **_with_status(cache, update, old - new, ACTIVE, SUPERSEDED),
    }
    if moved:
        update.finish()
    db.execute("DELETE FROM reinstated")
    db.executemany(
        "INSERT INTO reinstated VALUES(?, ?)",
        sorted((head, moved.get(row, row)) for head, row in now if row in old or row in moved),
    )
    db.execute("DELETE FROM reinstated_head")
    db.executemany("INSERT INTO reinstated_head VALUES(?, ?)", sorted(seen.items()))


def _with_status(
    cache: Cache, update: Update, rows: Iterable[int], was: int, status: int
) -> dict[int, int]:
    """{row: its new number}: made anew, so that whoever looks at new rows looks at them."""
    out = {}
    for row in sorted(rows):
        sql = "SELECT 1 FROM memory WHERE row = ? AND status = ?"
        if cache.db.execute(sql, (row, was)).fetchone():  # else records changed it meanwhile
            out[row] = update.memories.again(row, status)
    return out
