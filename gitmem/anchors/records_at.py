"""Which records count as of a revision: what git can tell of when something was said.

A memory is known from the commit on that it is about, whenever it was written.
A record that takes a text away counts from a commit on as well: a `create` that
supersedes from its own, an `edit` or `forget` from the HEAD it was made at
(`head`). So a memory whose text was changed, superseded or forgotten after a
revision has its former text and status there.

Promise: a record is left out only where git says that it came later. What git
cannot tell (a record without `head`, a commit that is not here or was rewritten
and is held by nothing any more) counts everywhere: the present text is shown
then. Where memories are left out because nobody can tell (a shallow clone), the
reason is given. No clock decides. One walk of the history, however many
memories; two more processes where some record came later.
"""

from __future__ import annotations

import json
import os

from ..core import record
from ..core.record import Record
from ..engine.cache import Cache, Damaged
from ..git.repository import Repo
from . import anchor_state
from .reachability import Ancestry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

INSIDE = (anchor_state.REACHABLE, anchor_state.SQUASHED)


class Known:
    """What counts as of the commit `head`.

    `stands`: of every commit that memories are about; `later`: {line number:
    record} of those that take a text away only after it; `unsure`: commits of
    which nobody can tell, with the reason.
    """

    def __init__(
        self,
        head: str,
        stands: dict[str, anchor_state.Stand],
        anchors: set[str],
        later: dict[int, Record],
    ) -> None:
        self.head = head
        self.stands = stands
        self.later = later
        self.inside = {a for a in anchors if self.holds(a)}
        self.unsure = {
            a: stands[a].reason
            for a in anchors
            if a in stands and stands[a].state == anchor_state.UNKNOWN
        }

    def holds(self, anchor: str) -> bool:
        """Whether a memory about this commit is known there; one about no commit (made before the
        first) always is.
        """
        stand = self.stands.get(anchor) if record.object_id(anchor) else None
        return stand.state in INSIDE if stand else not record.object_id(anchor)


def known(repo: Repo, cache: Cache, head: str, seconds: float = anchor_state.ON_THE_SPOT) -> Known:
    """What counts as of a commit, by its full id.

    `seconds`: how long squash merges may be sought.
    """
    anchors = {a or "" for (a,) in cache.db.execute("SELECT DISTINCT anchor FROM memory")}
    covers = dict(_covers(cache))
    said = {
        n: record.object_id(r.data.get("commit" if r.op == "create" else "head"))
        for n, r in covers.items()
    }
    heads = {said[n] for n, r in covers.items() if r.op != "create" and said[n]} - {head}
    after, beside = _split(repo, heads, head) if heads else (set(), set())
    stands = anchor_state.stands(
        repo,
        cache,
        {
            a
            for a in {*anchors, *beside, *(said[n] for n, r in covers.items() if r.op == "create")}
            if record.object_id(a)
        },
        head,
        seconds,
    )
    doubtful = {c for c in beside if stands[c].state == anchor_state.UNMERGED}
    after |= _held(repo, doubtful) if doubtful else set()
    found = Known(head, stands, anchors, {})
    found.later = {
        n: r
        for n, r in covers.items()
        if (not found.holds(said[n]) if r.op == "create" else said[n] in after)
    }
    return found


def _covers(cache: Cache) -> Iterable[tuple[int, Record]]:
    """(line number, record) of all that takes versions away."""
    for n, raw in cache.db.execute(
        "SELECT n, raw FROM line WHERE n IN (SELECT by FROM cover) ORDER BY n"
    ):
        parsed = record.parse(raw)
        if parsed is None:
            raise Damaged("a stored record cannot be read")
        yield n, parsed


def _split(repo: Repo, commits: set[str], head: str) -> tuple[set[str], set[str]]:
    """(those of the commits that contain the revision, those that are beside it or not here)."""
    line = Ancestry(repo.git, [head], commits)
    after = {c for c in commits if head in line.forks(c)}
    return after, {c for c in commits - after if not line.contains(c)}


def _held(repo: Repo, commits: set[str]) -> set[str]:
    """Those of the commits that a branch, a tag, a remote or a worktree holds.

    The others were amended or rebased away: their place in the history is not known.
    """
    stdin = "".join(f"{c}\n" for c in [*sorted(commits), *("^" + h for h in repo.heads())]).encode()
    loose = set(
        repo.git.run(
            "rev-list", "--stdin", "--not", "--branches", "--tags", "--remotes", stdin=stdin
        )
        .decode()
        .split()
    )
    return commits - loose


def shallow(repo: Repo) -> bool:
    """Whether history ends where a clone was cut off."""
    return os.path.exists(os.path.join(repo.common_dir, "shallow"))


def hint(repo: Repo) -> str:
    """What helps where a commit is not here; "" where nothing is known to."""
    return (
        "this is a shallow clone: `git fetch --unshallow` brings the rest of the history"
        if shallow(repo)
        else ""
    )


def reason_of(cache: Cache, found: Known) -> str:
    """Why some memories are left out although they may belong there; "" where none is."""
    unsure = {
        a: why for a, why in found.unsure.items() if why != anchor_state.ABSENT
    }  # a commit that nobody here has is not in this history, as far as anybody knows
    if not unsure:
        return ""
    asked = json.dumps(sorted(unsure))
    (count,) = cache.db.execute(
        "SELECT count(DISTINCT id) FROM memory WHERE status = 0 AND anchor IN (SELECT value FROM"
        " json_each(?))",
        (asked,),
    ).fetchone()
    why = sorted(set(unsure.values()))
    return (
        f"{count} {'memory was' if count == 1 else 'memories were'} left out, nobody can tell"
        f" whether they were known then: {'; '.join(why)}"
        if count
        else ""
    )
