"""Anchor states for the HEAD of each worktree, as the worker kept them; read without git.

`anchor_state` asks git, `anchor_state_update` writes the answers; hooks and `recall --hot` read
them here. Promise: what is read was true for the HEAD that it is read for. An anchor without a kept
state is `unknown` with the reason WAITING: whoever reads that asks the worker. Standard library
only: every prompt waits for it.
"""

from __future__ import annotations

from ..git import refs_mtime
from .sql import Connection, select_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .cache import Cache

    Weights = tuple[float, float, float]

REACHABLE, SQUASHED, UNMERGED, UNKNOWN = "reachable", "squashed", "unmerged", "unknown"
UNBORN = "no commit here yet"
WAITING = "the history is not searched yet"  # `git mem index` goes on where an answer stopped
ABSENT = "its commit is not here"
ABANDONED = "no branch or tag holds it any more"  # of an unmerged commit

# In the cache's `meta`, when the states were computed: `refs_mtime.stamp`, and a digest of what
# decides which parents commits have.
REFS, HISTORY = "refs", "history"

# What the score of a memory is multiplied with if its commit is unmerged, abandoned, or unknown:
# where somebody asked, and at a session's start, where nobody did.
ASKED: Weights = (0.8, 0.65, 1.0)
UNASKED: Weights = (0.5, 0.4, 0.9)

_COLUMNS = "anchor, state, commit_id, into_commit, reason"


def weight(state: str, reason: str, of: Weights) -> float:
    """The prior of a state. A commit that is not here counts as unmerged."""
    unmerged, abandoned, unknown = of
    if state == UNMERGED or reason == ABSENT:
        return abandoned if reason == ABANDONED else unmerged
    return unknown if state == UNKNOWN else 1.0


class State:
    """What is kept of an anchor or of a path; `row`: its fields, in their order."""

    def row(self) -> tuple[str, ...]:
        return tuple(vars(self).values())

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.row()!r}"


class AnchorState(State):
    """`commit`: the one to show; `into`: the commit that carries its change, if it is squashed;
    `reason`: why it is unknown, or ABANDONED.
    """

    def __init__(self, state: str, commit: str, into: str = "", reason: str = "") -> None:
        self.state = state
        self.commit = commit
        self.into = into
        self.reason = reason


def slots(cache: Cache) -> dict[str, int]:
    """{HEAD: the number under which its states are kept}."""
    return dict(cache.db.execute("SELECT commit_id, slot FROM head ORDER BY slot"))


def kept(cache: Cache, slot: int) -> dict[str, AnchorState]:
    """{anchor: state} of a slot."""
    sql = f"SELECT {_COLUMNS} FROM anchor_state WHERE slot = ?"
    return {anchor: AnchorState(*state) for anchor, *state in cache.db.execute(sql, (slot,))}


def _kept_of(cache: Cache, anchors: Iterable[str], head: str) -> dict[str, AnchorState]:
    """The same of some anchors."""
    sql = f"SELECT {_COLUMNS} FROM anchor_state WHERE anchor IN {{}} AND slot = ?2"
    slot = slots(cache).get(head)
    found = select_in(cache.db, sql, anchors, slot) if slot is not None else []
    return {anchor: AnchorState(*state) for anchor, *state in found}


def read(cache: Cache, anchors: Iterable[str], head: str) -> dict[str, AnchorState]:
    """{anchor: state} as kept for `head` ("" where there is none), of every anchor asked about."""
    names = {a for a in anchors if a}
    if not head:
        return {a: AnchorState(UNKNOWN, a, reason=UNBORN) for a in names}
    out = {a: AnchorState(UNKNOWN, a, reason=WAITING) for a in names}
    out.update(_kept_of(cache, names, head))
    if head in names:
        out[head] = AnchorState(REACHABLE, head)
    return out


def may_have_moved(cache: Cache, common_dir: str) -> bool:
    """Whether a kept state may be out of date because branches or tags moved: a fetch runs no hook.
    What HEAD contains stays contained.
    """
    stamp = cache.meta(REFS)
    if not stamp or refs_mtime.same(common_dir, stamp):
        return False
    sql = "SELECT 1 FROM head CROSS JOIN anchor_state USING(slot) WHERE state NOT IN (?, ?) LIMIT 1"
    return cache.db.execute(sql, (REACHABLE, SQUASHED)).fetchone() is not None


def certain(
    cache: Cache, anchors: Iterable[str], head: str, common_dir: str
) -> dict[str, AnchorState]:
    """{anchor: state} of the kept states that are known and not out of date."""
    found = _kept_of(cache, anchors, head)
    sure = {REACHABLE, SQUASHED}
    if found and not may_have_moved(cache, common_dir):
        sure.add(UNMERGED)
    return {anchor: state for anchor, state in found.items() if state.state in sure}


def write(cache: Cache, slot: int, states: Mapping[str, AnchorState]) -> None:
    """Makes these the states of a slot; writes what differs. The caller owns the transaction."""
    before = kept(cache, slot)
    cache.db.executemany(
        "DELETE FROM anchor_state WHERE slot = ? AND anchor = ?",
        [(slot, a) for a in sorted(before.keys() - states.keys())],
    )
    cache.db.executemany(
        "INSERT OR REPLACE INTO anchor_state VALUES(?, ?, ?, ?, ?, ?)",
        [(slot, a, *s.row()) for a, s in sorted(states.items()) if before.get(a) != s],
    )


def forget(db: Connection, commits: Iterable[str], moved: bool = False) -> None:
    """Drops the kept states that a record about these commits may have changed, also of commits
    that were moved to them: the open ones, and with `moved` the squashed ones, and those that are
    reached where they were moved to: of two places the anchor names the first.
    """
    dropped = select_in(
        db,
        "WITH RECURSIVE before(id) AS (SELECT * FROM {} UNION"
        " SELECT old FROM move JOIN before ON new = before.id)"
        " SELECT slot, anchor FROM anchor_state WHERE slot IN (SELECT slot FROM head)"
        " AND anchor IN (SELECT id FROM before)"
        " AND (state NOT IN (?2, ?3) OR ?4 AND (state = ?3 OR commit_id <> anchor))",
        set(commits),
        REACHABLE,
        SQUASHED,
        moved,
    )
    db.executemany("DELETE FROM anchor_state WHERE slot = ? AND anchor = ?", dropped)
    db.executemany(
        "DELETE FROM path_state WHERE slot = ? AND state <> 'same' AND number IN"
        " (SELECT number FROM noted_path WHERE anchor = ?)",
        dropped,
    )


def waiting(states: Mapping[str, AnchorState]) -> bool:
    """Whether some states are unknown only because nobody has looked yet."""
    return any(s.reason == WAITING for s in states.values())
