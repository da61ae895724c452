"""Which memories are stale: one kind of finding of `git mem check`.

Stale is a memory of which a path says something else than when it was noted, or is gone. With a
revision, only what became so since. Memories of branches that HEAD does not contain are not asked
about.

Promise: it fails closed. What nobody can tell (where a path went, in a shallow clone) is listed as
unknown and does not pass, nor does anything where notes cannot be read. A path that never can be
compared (its name is not UTF-8) is told and stops nobody.
"""

from __future__ import annotations

from typing import Any

from ..anchors import anchor_state, path_state, records_at, snapshot_view
from ..anchors.anchor_state import AnchorState
from ..core import record
from ..engine import filters, memory_rows
from ..engine.cache import Cache
from ..memory import view
from ..store import Store

PATIENCE = 60.0  # seconds git may look for renames
# Unknown, and no wonder: nobody ever knew what was there, there is no history, or the memory is not
# about this one as far as anybody knows.
_HARMLESS = (path_state.NO_BLOB, path_state.NO_NAME, anchor_state.UNBORN, anchor_state.ABSENT)

Places = list[tuple[int, path_state.Noted]]  # rows of memories, and paths as they noted them


def check(store: Store, since: str = "") -> dict[str, Any]:
    """What the JSON object of `git mem check` says of stale memories; `complete`: whether all notes
    could be read.

    Raises MemError where there is no such revision.
    """
    repo = store.repo
    head = repo.head()
    before = snapshot_view.commit_of(store, since) if since else ""

    def read(cache: Cache) -> dict[str, Any]:
        rows = _rows(cache)
        found = path_state.of_rows(store.repo, cache, rows, head, PATIENCE)
        places: Places = []
        for row, (data, _, _) in zip(rows, memory_rows.load(cache, rows), strict=True):
            anchor = memory_rows.commit_of(data)
            places += [(row, (anchor, *place)) for place in memory_rows.places(data)]
        states = [state for row in rows for state in found[row]]
        anchors = {asked[0] for _, asked in places}
        stands = anchor_state.states(repo, cache, anchors, head, PATIENCE)
        stale: Places = []
        unknown: set[int] = set()
        never: set[int] = set()
        for (row, asked), state in zip(places, states, strict=True):
            stand = stands.get(asked[0])
            if stand and stand.state == anchor_state.UNMERGED:
                continue
            if state.state == path_state.UNKNOWN:
                unknown.update({row} if state.reason not in _HARMLESS else ())
                never.update({row} if state.reason == path_state.NO_NAME else ())
            elif state.state in path_state.STALE and _doubtful(stand):
                unknown.add(row)
            elif state.state in path_state.STALE:
                stale.append((row, asked))
        shown = {row for row, _ in stale}
        if before:
            shown, unsure = _since(store, cache, stale, before)
            unknown |= unsure
        unknown -= shown
        return {
            "since": {"name": since, "commit": before} if since else None,
            "head": head or None,
            "checked": len(rows),
            "shallow": anchor_state.shallow(repo),
            "stale": _objects(store, cache, shown, stands),
            "unknown": _objects(store, cache, unknown, stands),
            "not_compared": _objects(store, cache, never - shown - unknown, stands),
        }

    found, fresh = store.with_cache(read)
    return {**found, "complete": fresh and not any(notes.missing for _, notes in store.sources)}


def _doubtful(stand: AnchorState | None) -> bool:
    return bool(stand and stand.state == anchor_state.UNKNOWN and stand.reason not in _HARMLESS)


def _rows(cache: Cache) -> list[int]:
    sql = (
        "SELECT row FROM memory WHERE status = 0 AND row IN"
        " (SELECT row FROM label WHERE kind = 'path') ORDER BY row"
    )
    return [row for (row,) in cache.db.execute(sql)]


def _since(store: Store, cache: Cache, stale: Places, before: str) -> tuple[set[int], set[int]]:
    """(rows that were not stale or not there at a revision, rows of which nobody can tell)."""
    anchors = {asked[0] for _, asked in stale if asked[0]}
    stands = anchor_state.states(store.repo, cache, anchors, before, PATIENCE)
    states = path_state.states(store.repo, cache, [asked for _, asked in stale], before, PATIENCE)
    became: set[int] = set()
    unsure: set[int] = set()
    for (row, asked), state in zip(stale, states, strict=True):
        stand = stands.get(asked[0])
        if stand and stand.state not in records_at.INSIDE and not _doubtful(stand):
            became.add(row)
        elif state.state == path_state.UNKNOWN:
            unsure.add(row)
        elif state.state not in path_state.STALE:
            became.add(row)
        elif _doubtful(stand):
            unsure.add(row)
    return became, unsure - became


def _objects(
    store: Store, cache: Cache, rows: set[int], stands: dict[str, AnchorState]
) -> list[dict[str, Any]]:
    latest = filters.latest(cache)
    items = view.objects(store, cache, sorted(rows), stands=stands)
    return sorted(
        items, key=lambda m: (record.when(m["created_at"], latest), m["id"]), reverse=True
    )
