"""The states that the cache keeps (`anchor_state_store`), slot by slot: one for the HEAD of each
worktree, and a few for HEADs that were left.

Who goes far away mostly comes back: to the branch after a look at an old
release, to where a bisection began. The states of a branch's tip that HEAD left
by a far move stay, out of the readers' sight, with what they rest on beside HEAD;
coming back costs what changed meanwhile.

Promise: readers see the states of the HEADs of worktrees only. What records said
since of an anchor (`look_again`) is open in the states of a HEAD that was left.
"""

from __future__ import annotations

import json

from ..engine import anchor_state_store
from ..engine.cache import Cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ..engine.anchor_state_store import Stand

_MOST = 2  # HEADs that were left
_PATIENCE = 0.5  # seconds to wait for another process that writes the cache


def left(cache: Cache) -> dict[str, int]:
    """{HEAD that was left: the slot of its states}, the last one first."""
    return {
        commit: int(slot)
        for commit, slot in cache.db.execute("SELECT commit_id, slot FROM former ORDER BY n DESC")
    }


def ground(cache: Cache, head: str) -> dict[str, int]:
    """What the states of a HEAD that was left rest on, as the table `tip` had it."""
    (text,) = cache.db.execute("SELECT ground FROM former WHERE commit_id = ?", (head,)).fetchone()
    return dict(json.loads(text))


def keep(
    cache: Cache,
    head: str,
    stands: Mapping[str, Stand],
    heads: Collection[str] = (),
    also: Callable[[], object] | None = None,
) -> bool:
    """Keeps the states of all anchors for a HEAD; False where nothing can be written now.

    `heads`: those of all worktrees; the states of another HEAD make room. Only what changed is
    written: a commit changes few states."""
    had = anchor_state_store.slots(cache)
    free = [slot for commit, slot in had.items() if commit not in heads and commit != head]
    slot = had[head] if head in had else min(free) if free else _unused(cache)
    before = {s.row(anchor) for anchor, s in anchor_state_store.rows(cache, slot).items()}
    now = {s.row(anchor) for anchor, s in stands.items()}
    rest = [n for n in free if n != slot]
    if head in had and before == now and not rest and also is None:
        return True

    def write(_: object) -> None:
        cache.db.executemany(
            "DELETE FROM stand WHERE slot = ? AND anchor = ?",
            sorted((slot, row[0]) for row in before - now),
        )
        cache.db.executemany(
            "INSERT INTO stand VALUES(?, ?, ?, ?, ?, ?)",
            sorted((slot, *row) for row in now - before),
        )
        _name(cache, slot, head)
        for n in rest:
            _drop(cache, n)
        if also is not None:
            also()

    return cache.keep(_PATIENCE, write)


def change(
    cache: Cache,
    slot: int,
    head: str,
    changed: Mapping[str, Stand],
    stays: bool,
    also: Callable[[], object] | None = None,
) -> bool:
    """Keeps for `head` the states of a slot with these changes; False where nothing can be written
    now.

    Only the changes are written, unless the slot `stays` as it is, for another HEAD. `also` is done
    in the same transaction."""
    new = _unused(cache) if stays else slot
    if (
        not stays
        and not changed
        and also is None
        and anchor_state_store.slots(cache).get(head) == slot
    ):
        return True

    written = False

    def write(_: object) -> None:
        nonlocal written
        if slot not in (*anchor_state_store.slots(cache).values(), *left(cache).values()):
            return  # a purge took it meanwhile: what was found may rest on what is gone
        if stays:
            cache.db.execute("DELETE FROM stand WHERE slot = ?", (new,))
            cache.db.execute(
                "INSERT INTO stand SELECT ?, anchor, state, commit_id, into_commit, reason FROM"
                " stand WHERE slot = ?",
                (new, slot),
            )
        _name(cache, new, head)
        cache.db.executemany(
            "INSERT OR REPLACE INTO stand VALUES(?, ?, ?, ?, ?, ?)",
            sorted((new, *s.row(anchor)) for anchor, s in changed.items()),
        )
        if also is not None:
            also()
        written = True

    return cache.keep(_PATIENCE, write) and written


def leave(cache: Cache, heads: Collection[str], worth: Collection[str]) -> None:
    """Takes the states of HEADs that no worktree has any more from the readers: those of `worth`
    stay, the others go. The caller owns the transaction.

    Before the table `tip` is written anew: what stays rests on what it says.
    """
    tips = json.dumps(sorted(cache.db.execute("SELECT commit_id, main FROM tip").fetchall()))
    for commit, slot in anchor_state_store.slots(cache).items():
        if commit not in heads and commit in worth:
            cache.db.execute("DELETE FROM head WHERE slot = ?", (slot,))
            cache.db.execute(
                "INSERT OR REPLACE INTO former(slot, commit_id, ground) VALUES(?, ?, ?)",
                (slot, commit, tips),
            )
        elif commit not in heads:
            _drop(cache, slot)
    for slot in list(left(cache).values())[_MOST:]:
        _drop(cache, slot)


def look_again(cache: Cache, anchors: Iterable[str]) -> None:
    """Something new was said of these anchors: for HEADs that were left nobody looks now.

    The caller owns the transaction.
    """
    sql = (
        "INSERT OR REPLACE INTO stand SELECT slot, value, ?, '', '', ? FROM former CROSS JOIN"
        " json_each(?)"
    )
    cache.db.execute(
        sql, (anchor_state_store.UNKNOWN, anchor_state_store.WAITING, json.dumps(sorted(anchors)))
    )


def forget(cache: Cache) -> None:
    """Drops the states of HEADs that were left; the caller owns the transaction."""
    for slot in left(cache).values():
        _drop(cache, slot)


def _unused(cache: Cache) -> int:
    taken = {*anchor_state_store.slots(cache).values(), *left(cache).values()}
    return next(n for n in range(len(taken) + 1) if n not in taken)


def _name(cache: Cache, slot: int, head: str) -> None:
    cache.db.execute("DELETE FROM former WHERE slot = ? OR commit_id = ?", (slot, head))
    cache.db.execute("INSERT OR REPLACE INTO head VALUES(?, ?)", (slot, head))


def _drop(cache: Cache, slot: int) -> None:
    for table in ("stand", "head", "former"):
        cache.db.execute(f"DELETE FROM {table} WHERE slot = ?", (slot,))
