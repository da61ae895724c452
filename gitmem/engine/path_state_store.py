"""What became of the paths of memories as seen from a HEAD, read without git.

The worker asks git (`path_state_update`) and keeps the answers in the cache, for the HEAD
of each worktree; hooks and `recall --hot` read them here. Promise: what is read
was true for the HEAD it is read for. What nobody has looked at yet is
`unknown`, with the reason WAITING.

Standard library only: every prompt waits for it.
"""

from __future__ import annotations

from ..core import fastjson
from .anchor_state_store import UNKNOWN as UNKNOWN
from .anchor_state_store import WAITING as WAITING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .cache import Cache

SAME, CHANGED, RENAMED, GONE = "same", "changed", "renamed", "gone"
STALE = (CHANGED, GONE)  # a renamed path still says what it said
# What the score of a memory is multiplied with. Most files change some day and what was said of
# them mostly stays true (a rename loses nothing), so a change only decides between hits that are
# close; where all files are gone it weighs as much as an unmerged branch.
FACTORS = {CHANGED: 0.95, GONE: 0.8}


# what the worker leaves to whoever asks: a comparison of two trees for each such commit
BESIDE = "HEAD has neither it nor the commit it was noted at"
NO_BLOB = "it was not there when the memory was made"
# what stands for a byte that is no UTF-8: records hold no other, and git finds nothing under such a
# name
ODD = "\ufffd"
NO_NAME = "its name is not UTF-8, so no memory can hold it"


def why_nothing(path: str) -> str:
    """Why no content is known of a path."""
    return NO_NAME if ODD in path else NO_BLOB


class State:
    """What became of a path.

    `now`: its name there, "" where it is the old one or none; `lines`: where its lines are, ""
    where they were; `reason`: why unknown.
    """

    __slots__ = ("lines", "now", "reason", "state", "via")

    def __init__(self, state: str, now: str = "", reason: str = "", lines: str = "") -> None:
        self.via: frozenset[str] = frozenset()  # names on the way, where it has one
        self.state = state
        self.now = now
        self.reason = reason
        self.lines = lines

    def row(self) -> tuple[str, str, str, str]:
        return self.state, self.now, self.lines, self.reason

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.row() == other.row()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"State{self.row()!r}"


def slot_of(cache: Cache, head: str) -> int | None:
    """Under which number the states of paths at this HEAD are kept, None where they are not."""
    found = (
        cache.db.execute("SELECT slot FROM pathhead WHERE commit_id = ?", (head,)).fetchone()
        if head
        else None
    )
    return int(found[0]) if found else None


# The objects under the names say it of most paths, and move with HEAD; what they do not say is kept
# beside them. Of a name without one nothing is said where HEAD lacks the commit, too (`BESIDE`).
_PLAIN = (
    f"CASE WHEN p.blob = '' OR e.id = '' THEN '{UNKNOWN}' WHEN e.id = p.blob THEN '{SAME}' ELSE"
    f" '{CHANGED}' END"
)
# CROSS: in this order, from the few that are asked about; SQLite would begin at all names, and take
# seconds.
_KEPT = (
    "CROSS JOIN spot p ON p.spot < h.spots {on} CROSS JOIN entry e ON e.slot = h.slot AND e.name ="
    " p.name LEFT JOIN pathstate s ON s.slot = h.slot AND s.spot = p.spot WHERE h.commit_id = ?"
)
_STATE = f"p.name, p.blob, {_PLAIN}, s.state, s.now, s.reason, s.lines"


def read(cache: Cache, rows: Iterable[int], head: str) -> dict[int, dict[int, State]]:
    """{memory row: {place of a path in its record: state}} as kept for `head`; what nobody has
    looked at is absent.
    """
    wanted = ",".join(map(str, sorted(set(rows)))) if head else ""
    out: dict[int, dict[int, State]] = {}
    if wanted:
        sql = (
            f"SELECT m.row, m.place, {_STATE} FROM pathhead h CROSS JOIN place m"
            f" {_KEPT.format(on='AND p.spot = m.spot')} AND m.row IN ({wanted})"
        )
        for row, place, *found in cache.db.execute(sql, (head,)):
            out.setdefault(row, {})[place] = _state(*found)
    return out


def of_spots(cache: Cache, spots: Iterable[int], head: str) -> dict[int, State]:
    """{spot: state} as kept for `head`; what nobody has looked at is absent."""
    sql = (
        f"SELECT p.spot, {_STATE} FROM pathhead h {_KEPT.format(on='')} AND p.spot IN (SELECT value"
        " FROM json_each(?))"
    )
    return {
        spot: _state(*found)
        for spot, *found in cache.db.execute(sql, (head, fastjson.dumps(sorted(spots))))
    }


def _state(
    name: str, blob: str, plain: str, state: str | None, now: str, reason: str, lines: str
) -> State:
    if state is not None:
        return State(state, now, reason, lines)
    return State(plain, reason="" if plain != UNKNOWN else BESIDE if blob else why_nothing(name))


def open_rows(cache: Cache, head: str) -> set[int] | None:
    """The memory rows with a path that is not known to say what it said, or that nobody has looked
    at; None where nothing is kept for `head`.
    """
    if slot_of(cache, head) is None:
        return None
    sure = (
        f"SELECT p.spot FROM pathhead h {_KEPT.format(on='')} AND coalesce(s.state, {_PLAIN}) IN"
        " (?, ?)"
    )
    return {
        row
        for (row,) in cache.db.execute(
            f"SELECT DISTINCT row FROM place WHERE spot NOT IN ({sure})", (head, SAME, RENAMED)
        )
    }


def of(kept: Mapping[int, State] | None, places: int) -> list[State]:
    """The states of all paths of a memory, in their order."""
    return [(kept or {}).get(place) or State(UNKNOWN, reason=WAITING) for place in range(places)]


def waiting(found: Mapping[int, Iterable[State]]) -> bool:
    """Whether something is open only because nobody has looked yet."""
    return any(s.reason == WAITING for states in found.values() for s in states)


def ask_git(states: Iterable[State]) -> bool:
    """Whether git may know more than what is kept."""
    return any(s.reason in (WAITING, BESIDE) for s in states)


def worsts(cache: Cache, rows: Iterable[int], head: str) -> dict[int, str]:
    """{memory row: what became of its paths, as `worst` says it}, of those of which something is
    kept.
    """
    return {row: worst(found.values()) for row, found in read(cache, rows, head).items()}


def worst(states: Iterable[State]) -> str:
    """The state that a reader of a memory must know of: gone if all that is known of its paths is
    gone, else changed, else renamed; "" where nothing became of them.
    """
    found = [s.state for s in states]
    if GONE in found and not {SAME, CHANGED, RENAMED}.intersection(found):
        return GONE
    return CHANGED if CHANGED in found or GONE in found else RENAMED if RENAMED in found else ""


def remark(states: Sequence[State]) -> str:
    """What became of a memory's paths in a few words, "" where nothing did: gone, changed, or
    renamed and to what.
    """
    kind = worst(states)
    if kind != RENAMED:
        return kind
    return "renamed to " + ", ".join(
        dict.fromkeys([s.now for s in states if s.state == RENAMED and s.now])
    )
