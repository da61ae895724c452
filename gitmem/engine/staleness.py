"""What became of the paths of memories as seen from a HEAD, read without git.

The worker asks git (`aging`) and keeps the answers in the cache, for the HEAD
of each worktree; hooks and `recall --hot` read them here. Promise: what is read
was true for the HEAD it is read for. What nobody has looked at yet is
`unknown`, with the reason WAITING.

Standard library only: every prompt waits for it.
"""

from __future__ import annotations

from .standing import UNKNOWN as UNKNOWN
from .standing import WAITING as WAITING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .cache import Cache

SAME, CHANGED, RENAMED, GONE = "same", "changed", "renamed", "gone"
STALE = (CHANGED, GONE)  # a renamed path still says what it said
# What the score of a memory is multiplied with. Most files change some day and what was said of them mostly stays true (a rename loses nothing), so a change
# only decides between hits that are close; where all files are gone it weighs as much as an unmerged branch.
FACTORS = {CHANGED: 0.95, GONE: 0.8}


class State:
    """What became of a path. `now`: its name there, "" where it is the old one or none; `lines`: where its lines are, "" where they were; `reason`: why unknown."""

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
    found = cache.db.execute("SELECT slot FROM pathhead WHERE commit_id = ?", (head,)).fetchone() if head else None
    return int(found[0]) if found else None


def read(cache: Cache, rows: Iterable[int], head: str) -> dict[int, dict[int, State]]:
    """{memory row: {place of a path in its record: state}} as kept for `head`; what nobody has looked at is absent."""
    slot = slot_of(cache, head)
    wanted = ",".join(map(str, sorted(set(rows)))) if slot is not None else ""
    out: dict[int, dict[int, State]] = {}
    if wanted:
        sql = f"SELECT row, place, state, now, lines, reason FROM pathstate WHERE slot = ? AND row IN ({wanted})"
        for row, place, state, now, lines, reason in cache.db.execute(sql, (slot,)):
            out.setdefault(row, {})[place] = State(state, now, reason, lines)
    return out


def of(kept: Mapping[int, State] | None, places: int) -> list[State]:
    """The states of all paths of a memory, in their order."""
    return [(kept or {}).get(place) or State(UNKNOWN, reason=WAITING) for place in range(places)]


def waiting(found: Mapping[int, Iterable[State]]) -> bool:
    """Whether something is open only because nobody has looked yet."""
    return any(s.reason == WAITING for states in found.values() for s in states)


def worsts(cache: Cache, rows: Iterable[int], head: str) -> dict[int, str]:
    """{memory row: what became of its paths, as `worst` says it}, of those of which something is kept."""
    return {row: worst(found.values()) for row, found in read(cache, rows, head).items()}


def worst(states: Iterable[State]) -> str:
    """The state that a reader of a memory must know of: gone if all that is known of its paths is gone, else changed, else renamed; "" where nothing became of them."""
    found = [s.state for s in states]
    if GONE in found and not {SAME, CHANGED, RENAMED}.intersection(found):
        return GONE
    return CHANGED if CHANGED in found or GONE in found else RENAMED if RENAMED in found else ""


def remark(states: Sequence[State]) -> str:
    """What became of a memory's paths in a few words, "" where nothing did: gone, changed, or renamed and to what."""
    kind = worst(states)
    if kind != RENAMED:
        return kind
    return "renamed to " + ", ".join(dict.fromkeys([s.now for s in states if s.state == RENAMED and s.now]))
