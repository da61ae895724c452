"""The cache as it would be at a revision, for all code that reads caches.

The cache is copied into memory, and there the records that came later are taken out of it
(`records_at`): memories that they changed are folded and indexed again without them, and memories
that are not known at the revision are hidden. So all readers answer for that time unchanged.

Promise: nothing is written to the file. Frequencies of words are those of all memories of today.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.errors import MemError
from ..engine import cache as cache_file
from ..engine.cache import Cache
from ..engine.filters import Filter
from ..engine.memory_rows import ACTIVE, FORGOTTEN, SUPERSEDED
from ..engine.update import Update
from ..store import Store
from . import records_at

Rows = dict[str, list[tuple[int, int, bytes]]]  # {id: (line, status, digest of a united text)}

_HIDDEN = 3  # status of a memory that is not known at the revision: no reader asks for it
_SLOT = -1  # of the states at the revision: no worktree has this number


class Snapshot(Cache):
    """A cache in memory whose readers see what was known at the commit `head`. `reason`: why some
    memories are left out, "" where none is.
    """

    def __init__(self, cache: Cache, known: records_at.Known) -> None:
        super().__init__(cache_file.copied_in_memory(cache), "memory", "")
        self.known = known
        self.head = known.head
        self.states = known.states
        self.reason = records_at.reason_of(cache, known)
        self._since: dict[str, tuple[str, list[str]]] = {}

    def filter(self, wanted: Filter) -> Filter:
        """The same conditions, on the memories that are known there."""
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
        """Takes out what came later."""
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
    known = records_at.known(store.repo, cache, commit_of(store, revision))
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
            f"no commit '{revision[:80]}' in this repository", hint=records_at.hint(store.repo)
        )
    return found
