"""The cache as it would be at a revision, for all code that reads caches.

The cache is copied into memory, and there the records that came later are taken out of it: memories
that they changed are folded and indexed again without them, and memories that are not known at the
revision are hidden. So all readers answer for that time unchanged.

A memory is known from the commit on that it is about, whenever it was written. A record that takes
a text away, or brings one back, counts from a commit on as well: a `create` that supersedes from
its own, an `edit`, `forget` or `restore` from the HEAD it was made at (`head`). Before that the
former text and status stand.

Promise: nothing is written to the file. A record is left out only where git says that it came
later. What git cannot tell (a record without `head`, a commit that is not here, or that nothing
holds any more) counts everywhere. Where memories are left out because nobody can tell (a shallow
clone), the reason is given. Frequencies of words are those of all memories of today.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core import record
from ..core.errors import MemError
from ..core.record import Record
from ..engine import cache as cache_file
from ..engine.cache import Cache, Damaged
from ..engine.filters import Filter
from ..engine.memory_rows import ACTIVE, FORGOTTEN, SUPERSEDED
from ..engine.update import Update
from ..git.repository import Repo
from ..store import Store
from . import anchor_state
from .anchor_state import AnchorState
from .reachability import Reachability, unreferenced

Rows = dict[str, list[tuple[int, int, bytes]]]  # {id: (line, status, digest of a united text)}

INSIDE = (anchor_state.REACHABLE, anchor_state.SQUASHED)
_HIDDEN = 3  # status of a memory that is not known at the revision: no reader asks for it
_SLOT = -1  # of the states at the revision: no worktree has this number


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


def known_at(
    repo: Repo, cache: Cache, head: str, seconds: float = anchor_state.ON_THE_SPOT
) -> Known:
    """What counts as of a commit (its full id). `seconds`: how long squash merges may be sought."""
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


class Snapshot(Cache):
    """A cache in memory whose readers see what was known at the commit `head`. `reason`: why some
    memories are left out, "" where none is.
    """

    def __init__(self, cache: Cache, known: Known) -> None:
        super().__init__(cache_file.copied_in_memory(cache), "memory", "")
        self.known = known
        self.head = known.head
        self.states = known.states
        self.reason = reason_of(cache, known)
        self._since: dict[str, tuple[str, list[str]]] = {}

    def filter(self, wanted: Filter) -> Filter:
        return wanted.but(hidden=True)

    def tell(self, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Adds to objects of memories what became of them since the revision."""
        for item in objects:
            since, by = self._since.get(item["id"], ("", []))
            if since and item["status"] == "active":
                item["since"] = since
                if by:
                    item["superseded_by"] = by
        return objects

    def serve(self, key: str, value: str) -> None:
        """Readies it for readers that never ask git: states of anchors, and a value of `meta`."""
        self.set_meta(key, value)
        self.db.execute("DELETE FROM head")
        self.db.execute("INSERT INTO head VALUES(?, ?)", (_SLOT, self.head))
        self.db.executemany(
            "INSERT INTO anchor_state VALUES(?, ?, ?, ?, ?, ?)",
            [(_SLOT, anchor, *state.row()) for anchor, state in self.states.items()],
        )

    def take_out(self, store: Store) -> None:
        changed = self._changed()
        today = self._rows(changed)
        update = Update(self, store.table, None)
        update.take_out(changed, sorted(self.known.later))
        update.finish()
        for table in ("reinstated", "reinstated_head"):
            self.db.execute(f"DELETE FROM {table}")
        anchors = {a for (a,) in self.db.execute("SELECT DISTINCT anchor FROM memory") if a}
        hidden = [a for a in anchors if not self.known.holds(a)]
        self.among(f"UPDATE memory SET status = {_HIDDEN} WHERE anchor IN {{}}", hidden)
        self._compare(today, self._rows(changed))

    def _changed(self) -> set[str]:
        """The memories that a later record changed, or that are reinstated at a HEAD of today."""
        # Few covers, many lines: in the other order a thousand edits among 100,000 memories take a
        # minute.
        covered = self.among(
            "SELECT DISTINCT l.memory FROM cover c CROSS JOIN line l ON l.version = c.version"
            " WHERE +c.by IN {}",
            self.known.later,
        )
        back = "SELECT id FROM memory WHERE row IN (SELECT row FROM reinstated)"
        return {
            *(memory.decode() for (memory,) in covered),
            *(r.id for r in self.known.later.values() if r.op != "create"),
            *(id for (id,) in self.db.execute(back)),
        }

    def _rows(self, ids: set[str]) -> Rows:
        out: Rows = {}
        sql = (
            "SELECT m.id, m.line, m.status, coalesce(u.digest, x'') FROM memory m"
            " LEFT JOIN united u ON u.row = m.row"
            f" WHERE m.id IN {{}} AND m.status < {_HIDDEN} ORDER BY m.nth"
        )
        for id, *row in self.among(sql, ids):
            out.setdefault(id, []).append(tuple(row))
        return out

    def _compare(self, today: Rows, then: Rows) -> None:
        """Finds out what became of memories since."""
        for id, rows in then.items():
            now = today.get(id, [])
            status = min((status for _, status, _ in now), default=ACTIVE)
            if rows == now:
                continue
            self._since[id] = "edited", []
            if status == FORGOTTEN:
                self._since[id] = "forgotten", []
            elif status == SUPERSEDED:
                lines = [line for line, _, _ in rows]
                versions = self.among("SELECT version FROM line WHERE n IN {}", lines)
                shown = {version.hex() for (version,) in versions}
                later = self.known.later.values()
                by = {r.id for r in later if r.id != id and shown.intersection(r.after)}
                self._since[id] = "superseded", sorted(by)


@contextmanager
def opened(store: Store, cache: Cache, revision: str) -> Iterator[Snapshot]:
    """The cache as of a revision. Raises MemError where there is no such commit."""
    store.trust.catch_up(cache, store.trust.most)
    known = known_at(store.repo, cache, commit_of(store, revision))
    snapshot = Snapshot(cache, known)
    try:
        snapshot.take_out(store)
        yield snapshot
    finally:
        snapshot.close()


def commit_of(store: Store, revision: str) -> str:
    """The full id of the commit that a revision names. Raises MemError."""
    found = store.repo.commit(revision)
    if not found:
        raise MemError(
            f"no commit '{revision[:80]}' in this repository", hint=anchor_state.hint(store.repo)
        )
    return found
