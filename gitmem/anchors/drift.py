"""What became of the paths that memories are about, as seen from a revision.

A path is same, changed, renamed, gone or unknown; `now` is its name there where
that is another one. Every caller asks `states`; nobody else works it out.

Promise: git decides (blob ids, rename detection), in a bounded number of
processes and seconds however many paths are asked about. What cannot be known
(no content was recorded, a shallow or partial clone, no time to look) is
`unknown`, with the reason, never guessed.
"""

from __future__ import annotations

from ..engine.cache import Cache
from ..git.layout import Repo
from .standing import UNBORN, UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SAME, CHANGED, RENAMED, GONE = "same", "changed", "renamed", "gone"
STALE = (CHANGED, GONE)  # a renamed path still says what it said

ON_THE_SPOT = 1.0  # seconds an answer waits for what git has to look up in the history
NO_BLOB = "it was not there when the memory was made"


class State:
    """What became of a path. `now`: its name there, "" where it is the old one or none; `lines`: where its lines are now; `reason`: why unknown."""

    __slots__ = ("lines", "now", "reason", "state")

    def __init__(self, state: str, now: str = "", reason: str = "", lines: str = "") -> None:
        self.state = state
        self.now = now
        self.reason = reason
        self.lines = lines

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and (self.state, self.now, self.reason, self.lines) == (other.state, other.now, other.reason, other.lines)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"State({self.state!r}, {self.now!r}, {self.reason!r}, {self.lines!r})"


def states(repo: Repo, cache: Cache, wanted: Sequence[tuple[str, str, str, str]], revision: str, seconds: float = ON_THE_SPOT) -> list[State]:
    """The state of each (anchor, path, blob, lines) at a commit `revision` ("" while there is none), in their order.

    `anchor`: the commit the path was noted at, "" for none; `blob`: its object id
    then, "" where it was not there; `lines`: "" for all of it, else as
    `stored.places` gives them. `seconds`: how long git may search the history.
    """
    if not revision:
        return [State(UNKNOWN, reason=UNBORN)] * len(wanted)
    ids = repo.git.ids([f"{revision}:{path.rstrip('/')}" for _, path, _, _ in wanted]) if wanted else []
    return [State(UNKNOWN, reason=NO_BLOB) if not blob else State(GONE) if not id else State(SAME if id == blob else CHANGED)
            for (_, _, blob, _), id in zip(wanted, ids, strict=True)]
