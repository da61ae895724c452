"""Path states for the HEAD of each worktree, as the worker kept them; read without git.

`path_state` asks git, `anchor_state_update` writes the answers; hooks and `recall --hot` read them
here. Promise: what is read was true for the HEAD that it is read for. Standard library only: every
prompt waits for it.
"""

from __future__ import annotations

from .anchor_state_store import UNKNOWN as UNKNOWN
from .anchor_state_store import WAITING as WAITING
from .anchor_state_store import State
from .sql import select_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .cache import Cache

    Kept = tuple[str, ...]  # a row of `path_state`: PathState.row() and the blob

SAME, CHANGED, RENAMED, GONE = "same", "changed", "renamed", "gone"
STALE = (CHANGED, GONE)  # a renamed path still says what it said
# What the score of a memory is multiplied with. Most files change some day and what was said of
# them mostly stays true; where all files are gone it weighs as much as an unmerged branch.
FACTORS = {CHANGED: 0.95, GONE: 0.8}

BESIDE = "HEAD has neither it nor the commit it was noted at"
NO_BLOB = "it was not there when the memory was made"
ODD = "\ufffd"  # stands for bytes that are not UTF-8: git finds nothing under such a name
NO_NAME = "its name is not UTF-8, so no memory can hold it"


def why_nothing(path: str) -> str:
    """Why no content is known of a path."""
    return NO_NAME if ODD in path else NO_BLOB


class PathState(State):
    """`now`: its name at HEAD, "" where that is the old one or there is none; `lines`: where its
    lines are now, "" where they were; `reason`: why it is unknown.
    """

    def __init__(self, state: str, now: str = "", reason: str = "", lines: str = "") -> None:
        self.state = state
        self.now = now
        self.reason = reason
        self.lines = lines


def read(cache: Cache, rows: Iterable[int], head: str) -> dict[int, dict[int, PathState]]:
    """{memory row: {place of a path in its record: state}} as kept for `head`."""
    out: dict[int, dict[int, PathState]] = {}
    # CROSS JOIN: in this order, from the few rows that are asked about.
    sql = (
        "SELECT m.row, m.place, s.state, s.now, s.reason, s.lines FROM head h"
        " CROSS JOIN memory_path m ON m.row IN {} CROSS JOIN path_state s ON s.slot = h.slot"
        " AND s.number = m.number WHERE h.commit_id = ?2"
    )
    for row, place, *state in select_in(cache.db, sql, rows, head):
        out.setdefault(row, {})[place] = PathState(*state)
    return out


def kept(cache: Cache, slot: int) -> dict[int, Kept]:
    """{number of a noted path: its row} of a slot."""
    rows = cache.db.execute(
        "SELECT number, state, now, reason, lines, blob FROM path_state WHERE slot = ?", (slot,)
    )
    return {number: tuple(row) for number, *row in rows}


def write(cache: Cache, slot: int, rows: Mapping[int, Kept]) -> None:
    """Makes these the states of a slot; writes what differs. The caller owns the transaction."""
    before = kept(cache, slot)
    cache.db.executemany(
        "DELETE FROM path_state WHERE slot = ? AND number = ?",
        [(slot, n) for n in sorted(before.keys() - rows.keys())],
    )
    cache.db.executemany(  # a path that was purged meanwhile leaves nothing here
        "INSERT OR REPLACE INTO path_state SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7"
        " WHERE EXISTS (SELECT 1 FROM noted_path WHERE number = ?2)",
        [(slot, n, *row) for n, row in sorted(rows.items()) if before.get(n) != row],
    )


def of(kept: Mapping[int, PathState] | None, places: int) -> list[PathState]:
    """The states of all paths of a memory, in their order."""
    found = kept or {}
    return [found.get(n) or PathState(UNKNOWN, reason=WAITING) for n in range(places)]


def waiting(found: Mapping[int, Iterable[PathState]]) -> bool:
    """Whether some states are unknown only because nobody has looked yet."""
    return any(s.reason == WAITING for states in found.values() for s in states)


def worsts(cache: Cache, rows: Iterable[int], head: str) -> dict[int, str]:
    """{memory row: the worst of its kept path states}, of rows that have any."""
    return {row: worst(found.values()) for row, found in read(cache, rows, head).items()}


def worst(states: Iterable[PathState]) -> str:
    """The state that a reader of a memory must know of: gone if every known path is gone, else
    changed, else renamed; "" where all are the same.
    """
    found = [s.state for s in states]
    if GONE in found and not {SAME, CHANGED, RENAMED}.intersection(found):
        return GONE
    return CHANGED if CHANGED in found or GONE in found else RENAMED if RENAMED in found else ""


def remark(states: Sequence[PathState]) -> str:
    """The worst state in a few words, with the new names after a rename."""
    kind = worst(states)
    if kind != RENAMED:
        return kind
    return "renamed to " + ", ".join(
        dict.fromkeys(s.now for s in states if s.state == RENAMED and s.now)
    )
