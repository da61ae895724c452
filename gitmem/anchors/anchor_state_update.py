"""Keeps the states of anchors and paths for the HEAD of each worktree, where hooks read them.

The worker calls `update` after a move of HEAD, a fetch or new records. Promise: what is kept is
what `anchor_state.states` and `path_state.states` say of every anchor and path, for the present
HEADs only, written in one transaction for each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..core import record
from ..engine import anchor_state_store, cache_lock, path_state_store
from ..engine.anchor_state_store import HISTORY, REACHABLE, REFS, SQUASHED, WAITING
from ..engine.cache import Cache
from ..engine.path_state_store import PathState
from ..git import commit_reader, refs_mtime
from ..git.repository import Repo
from ..hooks import spool
from ..store import Store
from . import anchor_state, equivalent_commits, path_state, reinstate

BACKGROUND = 200.0  # seconds a search in the background goes on: some 500,000 commits
_PATIENCE = 0.5  # seconds to wait for another process that writes the cache


def _lock(store: Store) -> str:
    return os.path.join(store.repo.mem_dir, "anchors")


def update_later(
    store: Store,
    cache: Cache,
    states: Mapping[str, anchor_state.AnchorState],
    paths: Mapping[int, Sequence[PathState]] | None = None,
) -> None:
    """Starts the worker, unless one is at it, where an answer left something open, or what is kept
    is out of date or missing.
    """
    searched = any(s.state != REACHABLE for s in states.values())
    if (
        anchor_state.waiting(states)
        or (searched and not anchor_state_store.slots(cache))
        or path_state_store.waiting(paths or {})
        or equivalent_commits.unstated(cache)
        or anchor_state_store.may_have_moved(cache, store.repo.common_dir)
    ):
        with cache_lock.locked(_lock(store), 0) as free:
            pass
        if free:
            spool.ask(store.repo.common_dir)


def update(store: Store, seconds: float = BACKGROUND, patience: float = 0.0) -> bool:
    """Brings the kept states up to date, in about `seconds`; what git said until then is kept, and
    the next call goes on there. False, and nothing is done, where another process is at it for
    `patience` seconds.
    """
    if not os.path.isdir(store.repo.mem_dir):
        return True

    def work(cache: Cache) -> None:
        end = time.monotonic() + seconds
        _update(store.repo, cache, end)
        reinstate.settle(store.repo, cache, store.table, end - time.monotonic(), True)

    with cache_lock.locked(_lock(store), patience) as free:
        if free:
            store.with_cache(work, refresh=False)
    return free


def _update(repo: Repo, cache: Cache, end: float) -> None:
    refs = refs_mtime.stamp(repo.common_dir)  # before they are read: a later move is seen next time
    heads = [head for head in repo.heads() if head]
    shape = commit_reader.shape(repo.git)
    if cache.meta(HISTORY) != shape and not cache.keep(_PATIENCE, lambda _: _forget(cache, shape)):
        return
    moved = cache.meta(REFS) != refs
    done = [_update_head(repo, cache, heads, head, moved, end) for head in heads]

    def settle(db: Any) -> None:
        for head, slot in anchor_state_store.slots(cache).items():
            if head not in heads:
                for table in ("head", "anchor_state", "path_state"):
                    db.execute(f"DELETE FROM {table} WHERE slot = ?", (slot,))
        cache.set_meta(REFS, refs)

    if all(done) and (moved or anchor_state_store.slots(cache).keys() - set(heads)):
        cache.keep(_PATIENCE, settle)


def _forget(cache: Cache, shape: str) -> None:
    """Commits have other parents than before: everything is asked anew."""
    for table in ("head", "anchor_state", "path_state", "path_removal"):
        cache.db.execute(f"DELETE FROM {table}")
    cache.set_meta(HISTORY, shape)


def _update_head(
    repo: Repo, cache: Cache, heads: Collection[str], head: str, moved: bool, end: float
) -> bool:
    """Computes and keeps the states for one HEAD; False where they could not be written."""
    slots = anchor_state_store.slots(cache)
    free = [slot for commit, slot in slots.items() if commit not in heads]
    slot = slots.get(head, free[0] if free else max(slots.values(), default=-1) + 1)
    kept = anchor_state_store.kept(cache, slot) if head in slots else {}
    anchors = anchor_state.of_memories(cache) | _covering(cache)
    states = {
        anchor: state
        for anchor, state in kept.items()
        if anchor in anchors
        and (state.state in (REACHABLE, SQUASHED) if moved else state.reason != WAITING)
    }
    if head in slots and states.keys() == anchors and not _paths_missing(cache, slot):
        return True
    purges = _purges(cache)
    left = anchors - states.keys()
    seconds = max(end - time.monotonic(), 0.0)
    states.update(anchor_state.states(repo, cache, left, head, seconds, kept=False))
    seconds = max(end - time.monotonic(), 0.0)
    paths = path_rows(repo, cache, head, slot, states, seconds)
    written = False

    def write(db: Any) -> None:
        nonlocal written
        if _purges(cache) != purges:
            return  # what was found may rest on what is gone now
        anchor_state_store.write(cache, slot, states)
        path_state_store.write(cache, slot, paths)
        db.execute("INSERT OR REPLACE INTO head VALUES(?, ?)", (slot, head))
        written = True

    return cache.keep(_PATIENCE, write) and written


def path_rows(
    repo: Repo,
    cache: Cache,
    head: str,
    slot: int,
    anchors: Mapping[str, anchor_state.AnchorState],
    seconds: float,
) -> dict[int, tuple[str, ...]]:
    """{number of a noted path: its row for `head`}. Lines are sought again only where their file
    has another content than at the last look, which was kept in `slot`.
    """
    noted = {
        number: (anchor, name + "/" * slashes, blob, lines)
        for number, anchor, name, slashes, blob, lines in cache.db.execute(
            "SELECT number, anchor, name, slashes, blob, lines FROM noted_path ORDER BY number"
        )
    }
    known = {
        noted[number]: (now, blob, PathState(state, now, reason, lines))
        for number, (state, now, reason, lines, blob) in path_state_store.kept(cache, slot).items()
        if blob and number in noted
    }
    finder = path_state.Finder(repo, known)
    states = path_state.states(repo, cache, list(noted.values()), head, seconds, anchors, finder)
    return {
        number: (*state.row(), finder.blobs.get(item, ""))
        for (number, item), state in zip(noted.items(), states, strict=True)
    }


def _paths_missing(cache: Cache, slot: int) -> bool:
    """Whether a path has no kept state, or one that waits."""
    sql = (
        "SELECT 1 FROM noted_path WHERE number NOT IN"
        " (SELECT number FROM path_state WHERE slot = ? AND reason <> ?) LIMIT 1"
    )
    return cache.db.execute(sql, (slot, WAITING)).fetchone() is not None


def _purges(cache: Cache) -> int:
    (count,) = cache.db.execute("SELECT count(*) FROM line WHERE op = 'purge'").fetchone()
    return int(count)


def _covering(cache: Cache) -> set[str]:
    rows = cache.db.execute("SELECT DISTINCT at FROM cover WHERE at <> ''")
    return {at for (at,) in rows if record.object_id(at)}
