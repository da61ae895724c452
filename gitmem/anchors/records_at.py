"""Which records count as of a revision, by what git can tell of when each was written.

A memory is known from the commit on that it is about, whenever it was written. A record that takes
a text away, or brings one back, counts from a commit on as well: a `create` that supersedes from
its own, an `edit`, `forget` or `restore` from the HEAD it was made at (`head`). Before that the
former text and status stand.

Promise: a record is left out only where git says that it came later. What git cannot tell (a record
without `head`, a commit that is not here, or that nothing holds any more) counts everywhere. Where
memories are left out because nobody can tell (a shallow clone), the reason is given.
"""

from __future__ import annotations

from ..core import record
from ..core.record import Record
from ..engine.cache import Cache, Damaged
from ..git.repository import Repo
from . import anchor_state
from .anchor_state import AnchorState
from .reachability import Reachability, unreferenced

INSIDE = (anchor_state.REACHABLE, anchor_state.SQUASHED)


class Known:
    """What counts as of the commit `head`.

    `states`: of every commit that memories are about; `inside`: those of `anchors` about which
    memories are known there; `later`: {line number: record} of those that take a text away only
    after it.
    """

    def __init__(self, head: str, states: dict[str, AnchorState], anchors: set[str]) -> None:
        self.head = head
        self.states = states
        self.later: dict[int, Record] = {}
        self.inside = {a for a in anchors if self.holds(a)}

    def holds(self, anchor: str) -> bool:
        """Whether memories about this commit are known there; those about none always are."""
        if not record.object_id(anchor):
            return True
        return anchor in self.states and self.states[anchor].state in INSIDE


def known(repo: Repo, cache: Cache, head: str, seconds: float = anchor_state.ON_THE_SPOT) -> Known:
    """What counts as of a commit, by its full id.

    `seconds`: how long squash merges may be sought.
    """
    anchors = {a or "" for (a,) in cache.db.execute("SELECT DISTINCT anchor FROM memory")}
    covers = _covers(cache)
    created: set[str] = set()
    made_at: set[str] = set()
    for r, commit in covers.values():
        (created if r.op == "create" else made_at).add(commit)
    made_at -= {"", head}
    reached = Reachability(repo.git, [head], made_at)
    after = {c for c in made_at if head in reached.forks(c)}
    beside = {c for c in made_at - after if not reached.contains(c)}
    asked = {a for a in anchors | beside | created if record.object_id(a)}
    states = anchor_state.states(repo, cache, asked, head, seconds)
    doubtful = {c for c in beside if states[c].state == anchor_state.UNMERGED}
    # What nothing holds was amended or rebased away: its place in the history is not known.
    after |= doubtful - unreferenced(repo.git, doubtful, repo.heads())
    found = Known(head, states, anchors)
    for n, (r, commit) in covers.items():
        if commit in after if r.op != "create" else not found.holds(commit):
            found.later[n] = r
    return found


def _covers(cache: Cache) -> dict[int, tuple[Record, str]]:
    """{line number: (record, commit from which on it counts)} of all that takes versions away."""
    out = {}
    sql = "SELECT n, raw FROM line WHERE n IN (SELECT by FROM cover) ORDER BY n"
    for n, raw in cache.db.execute(sql):
        r = record.parse(raw)
        if r is None:
            raise Damaged("a stored record cannot be read")
        out[n] = r, record.object_id(r.data.get("commit" if r.op == "create" else "head"))
    return out


def hint(repo: Repo) -> str:
    """What helps where a commit is not here; "" where nothing is known to."""
    if not anchor_state.shallow(repo):
        return ""
    return "this is a shallow clone: `git fetch --unshallow` brings the rest of the history"


def reason_of(cache: Cache, found: Known) -> str:
    """Why some memories are left out although they may belong there; "" where none is."""
    unknown = {a: s for a, s in found.states.items() if s.state == anchor_state.UNKNOWN}
    # A commit that nobody here has is not in this history, as far as anybody knows.
    unsure = {a: s.reason for a, s in unknown.items() if s.reason != anchor_state.ABSENT}
    sql = "SELECT count(DISTINCT id) FROM memory WHERE status = 0 AND anchor IN {}"
    ((count,),) = cache.among(sql, unsure)
    if not count:
        return ""
    were = "memory was" if count == 1 else "memories were"
    why = "; ".join(sorted(set(unsure.values())))
    return f"{count} {were} left out, nobody can tell whether they were known then: {why}"
