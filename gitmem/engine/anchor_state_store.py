"""Where anchors stand as seen from a HEAD, read without git.

The worker asks git (`reanchor.finish`) and keeps the answers in the cache (`slots`),
for the HEAD of each worktree; hooks and `recall --hot` read them here. Promise: what is
read was true for the HEAD it is read for. HEAD itself is reachable, whatever
is kept. What nobody has looked at yet is `unknown`, with the reason WAITING:
whoever reads that asks the worker.

Standard library only: every prompt waits for it.
"""

from __future__ import annotations

from ..core import fastjson
from ..git import refs_mtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from .cache import Cache

    Weights = tuple[float, float, float]

REACHABLE, SQUASHED, UNMERGED, UNKNOWN = "reachable", "squashed", "unmerged", "unknown"
UNBORN = "no commit here yet"
WAITING = "the history is not searched yet"  # `git mem index` goes on where an answer stopped


ABSENT = "its commit is not here"
ABANDONED = "no branch or tag holds it any more"  # of an unmerged commit

_FEW = 500  # commits above which all rows are read: a query would be asked for each of them
# in the cache's `meta`: `refs_mtime.stamp` of the branches and tags that kept states rest on
REFS = "refs"

# What a score is multiplied with for a memory from a branch that HEAD does not contain, for one
# from a branch that was given up, and for one whose place nobody knows: in an answer somebody asked
# for it, at a session's start nobody did.
ASKED: Weights = (0.8, 0.65, 1.0)
UNASKED: Weights = (0.5, 0.4, 0.9)


def weight(state: str, reason: str, of: Weights) -> float:
    """The prior of a state.

    A commit that is not here is in no history that is: it counts as unmerged.
    """
    unmerged, left, unknown = of
    if state == UNMERGED or reason == ABSENT:
        return left if reason == ABANDONED else unmerged
    return unknown if state == UNKNOWN else 1.0


class Stand:
    """The state of an anchor.

    `commit`: the one to show; `into`: the commit that carries its change; `reason`: why unknown, or
    ABANDONED.
    """

    __slots__ = ("commit", "into", "reason", "state")

    def __init__(self, state: str, commit: str, into: str = "", reason: str = "") -> None:
        self.state = state
        self.commit = commit
        self.into = into
        self.reason = reason

    def row(self, anchor: str) -> tuple[str, str, str, str, str]:
        """As the table `stand` has it, less the slot."""
        return (
            anchor,
            self.state,
            self.commit if self.commit != anchor else "",
            self.into,
            self.reason,
        )


def slot_of(cache: Cache, head: str) -> int | None:
    """Under which number the states of this HEAD are kept, None where they are not."""
    found = (
        cache.db.execute("SELECT slot FROM head WHERE commit_id = ?", (head,)).fetchone()
        if head
        else None
    )
    return int(found[0]) if found else None


def slots(cache: Cache) -> dict[str, int]:
    """{HEAD: under which number its states are kept}."""
    return {
        commit: int(slot)
        for slot, commit in cache.db.execute("SELECT slot, commit_id FROM head ORDER BY slot")
    }


def read(cache: Cache, anchors: Iterable[str], head: str) -> dict[str, Stand]:
    """{anchor: its state} as seen from `head` ("" while there is none), for every anchor asked
    about.
    """
    names = {a for a in anchors if a}
    if not head:
        return {a: Stand(UNKNOWN, a, reason=UNBORN) for a in names}
    out = {
        a: Stand(REACHABLE, a) if a == head else Stand(UNKNOWN, a, reason=WAITING) for a in names
    }
    slot = slot_of(cache, head) if len(names) > (head in names) else None
    if slot is not None:
        asked = fastjson.dumps(sorted(names - {head}))
        rows = cache.db.execute(
            f"{_ROWS} AND anchor IN (SELECT value FROM json_each(?))", (slot, asked)
        )
        out.update(
            (anchor, Stand(state, commit or anchor, into, reason))
            for anchor, state, commit, into, reason in rows
        )
    return out


def may_have_moved(cache: Cache, common_dir: str) -> bool:
    """Whether a kept state may be another one by now, since branches or tags moved: a fetch runs no
    hook. What HEAD contains it goes on to contain.
    """
    said = cache.meta(REFS)
    return (
        bool(said)
        and not refs_mtime.same(common_dir, said)
        and cache.db.execute(
            "SELECT 1 FROM head JOIN stand USING(slot) WHERE state NOT IN (?, ?) LIMIT 1",
            (REACHABLE, SQUASHED),
        ).fetchone()
        is not None
    )


def certain(cache: Cache, anchors: Iterable[str], head: str, common_dir: str) -> dict[str, Stand]:
    """{anchor: its state} of those whose kept state for `head` nothing has been said against since,
    by a record or a ref; none of them is unknown.
    """
    slot = slot_of(cache, head)
    if slot is None:
        return {}
    asked = fastjson.dumps(sorted(anchors))
    sure = (
        (REACHABLE, SQUASHED)
        if may_have_moved(cache, common_dir)
        else (REACHABLE, SQUASHED, UNMERGED)
    )
    return rows(
        cache,
        slot,
        f"anchor IN (SELECT value FROM json_each(?)) AND state IN ({','.join('?' * len(sure))}) AND"
        " anchor NOT IN (SELECT commit_id FROM fresh)",
        asked,
        *sure,
    )


_ROWS = "SELECT anchor, state, commit_id, into_commit, reason FROM stand WHERE slot = ?"


def rows(cache: Cache, slot: int, where: str = "", *values: object) -> dict[str, Stand]:
    """{anchor: its state} of a slot, those that the SQL condition `where` selects."""
    found = cache.db.execute(_ROWS + (f" AND ({where})" if where else ""), (slot, *values))
    return {
        anchor: Stand(state, commit or anchor, into, reason)
        for anchor, state, commit, into, reason in found
    }


def touching(cache: Cache, slot: int, commits: Collection[str]) -> dict[str, Stand]:
    """{anchor: its state} of a slot, of those that lie at one of these commits or stand at it, or
    whose change it carries.
    """
    if len(commits) < _FEW:
        asked, inside = fastjson.dumps(sorted(commits)), "SELECT value FROM json_each(?)"
        return (
            rows(
                cache,
                slot,
                f"anchor IN ({inside}) OR commit_id IN ({inside}) OR into_commit IN ({inside})",
                asked,
                asked,
                asked,
            )
            if commits
            else {}
        )
    # Of most only the anchor says something.
    plain = cache.db.execute(
        "SELECT anchor FROM stand WHERE slot = ? AND state = ? AND commit_id = '' AND into_commit ="
        " '' AND reason = ''",
        (slot, REACHABLE),
    )
    out = {a: Stand(REACHABLE, a) for (a,) in plain if a in commits}
    others = rows(
        cache,
        slot,
        "NOT (state = ? AND commit_id = '' AND into_commit = '' AND reason = '')",
        REACHABLE,
    )
    out.update(
        (a, s)
        for a, s in others.items()
        if a in commits or s.commit in commits or s.into in commits
    )
    return out


def waiting(stands: Mapping[str, Stand]) -> bool:
    """Whether some states are unknown only because nobody has looked yet."""
    return any(s.reason == WAITING for s in stands.values())


def any_for(cache: Cache, reason: str) -> bool:
    """Whether a kept state has this reason."""
    return (
        cache.db.execute(
            "SELECT 1 FROM head JOIN stand USING(slot) WHERE reason = ? LIMIT 1", (reason,)
        ).fetchone()
        is not None
    )
