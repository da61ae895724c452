"""Memories for a hook: the cache opened, brought up to date where that is quick, and asked.

Promises. What arrived a second ago is found: up to 200 new records are taken in on the spot, in
small portions until the deadline, and those stay taken in. Where that is not enough the answer
comes from what the cache has, says that it is not fresh, and the worker is asked for the rest. A
missing or damaged cache stops no answer: the newest memories are read from the notes (`fallback`),
while the worker makes the file anew. No git process where nothing is new. Nothing is raised but
what `action` raises on a whole cache, a bug. Standard library only.
"""

from __future__ import annotations

from time import monotonic

from ..engine import anchor_state_store, cache_lock
from ..engine import cache as cache_file
from ..engine.cache import Cache as Cache
from ..git import refs_mtime
from ..hooks import spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeVar

    from ..engine.anchor_state_store import AnchorState
    from ..engine.embed import StaticTable
    from ..git.discover import Here

    T = TypeVar("T")

_ATTEMPTS = 3  # others may replace the cache while we open it
_LOCK = 0.02  # seconds to wait for another process that makes or checks the file
_LOOK = 0.1  # seconds that git may take while a session's start waits
_SIGNATURES = 0.05  # seconds that must be left for signatures to be checked now


class _Later(Exception):
    """More is new than can be taken in now, and nothing is there yet."""


_table: StaticTable | None = None


def table() -> StaticTable:
    """The packaged table, opened once: 2 ms. Raises TableDamaged."""
    global _table
    if _table is None:
        from ..engine.embed import StaticTable

        _table = StaticTable()
    return _table


def vector(text: str) -> bytes:
    """The packaged table's vector of a text. Raises TableDamaged."""
    return table().vector(text)


def with_memories(here: Here, action: Callable[[Cache], T], until: float) -> tuple[T | None, bool]:
    """(the answer of `action`, whether all memories were asked); (None, False) where nothing could
    be read by `until` (monotonic). `action` may run twice.
    """
    news = spool.BEHIND
    for _ in range(_ATTEMPTS):
        cache: Cache | None = None
        try:
            cache = _open(here)
            if cache is None:
                break
            fresh, added = _refresh(here, cache, until)
            answer = action(cache)
            # Also for added ones, whose states are not known yet, and after a fetch: no hook sees
            # it.
            if not fresh or added or anchor_state_store.may_have_moved(cache, here.common_dir):
                spool.ask(here.common_dir)
            return answer, fresh
        except _Later:
            break
        except Exception as e:
            from ..engine import error_kinds

            kind = error_kinds.kind(e, cache, check=False)  # a prompt waits
            if kind == error_kinds.OURS:
                raise
            if kind == error_kinds.DAMAGED:
                path = cache_file.path_of(here.mem_dir)
                inode = cache.inode if cache else cache_lock.inode(path)
                news = b'{"event":"behind","damaged":%d}' % inode
            if kind != error_kinds.MOVED:
                break
        finally:
            if cache is not None:
                _close(cache)
    spool.ask(here.common_dir, news)
    if monotonic() >= until:
        return None, False
    from . import fallback

    small = fallback.memories(here, table(), until)
    return (action(small), False) if small is not None else (None, False)


def _open(here: Here) -> Cache | None:
    """The cache; an empty one where there are no memories; None where making it takes too long."""
    path = cache_file.path_of(here.mem_dir)
    if not cache_lock.size(path) and not here.refs:
        return cache_file.open_in_memory()
    return cache_file.open_cache(here.mem_dir, wait=_LOCK)


_kept: list[Cache] = []


def _close(cache: Cache) -> None:
    """Ends the connection, unless the file has a log: then a writer is at work, for which closing
    would wait, or was killed, and closing would take in its log. The process ends soon.
    """
    if cache.how == "file" and cache_lock.has_log(cache.path):
        _kept.append(cache)
        return
    try:
        cache.close()
    except Exception:
        pass  # what is wrong with the file was seen before, or the next one sees it


def _refresh(here: Here, cache: Cache, until: float) -> tuple[bool, bool]:
    """(whether the cache has all memories, whether new ones were taken in just now)."""
    moved = [
        ref
        for ref, id in here.refs.items()
        if id != cache.meta("tip:" + ref)
        or refs_mtime.log_size(here.common_dir, ref) != cache.meta("log:" + ref)
        or ref in here.lost
    ]
    fresh, news = not (moved or cache.meta("scrub")), False
    if not fresh and monotonic() < until:
        fresh = news = _take_in(here, cache, until)
        if not fresh and not cache.count() and moved:
            raise _Later
    return _signatures(here, cache, until) and fresh, news


def _take_in(here: Here, cache: Cache, until: float) -> bool:
    """Takes in what is new, if that is little; whether the cache has all then."""
    from ..core.errors import MemError
    from ..engine import index
    from ..notes.note_store import Notes

    git = here.git(until)
    try:
        refs = [(scope, here.settings.ref(scope)) for scope in ("team", "private")]
        sources = [(scope, Notes(git, ref, here.hex_len)) for scope, ref in refs]
        done = index.refresh(cache, sources, table(), most=index.ON_THE_SPOT, until=until)
        return done is not None
    except MemError:
        return False  # git failed: the worker says why
    finally:
        git.close()


def stands(
    here: Here, cache: Cache, anchors: Sequence[str], until: float
) -> Mapping[str, AnchorState]:
    """States of anchors that the worker has not yet asked git for at this HEAD; empty where git
    fails or takes longer than _LOOK. For the start of a session, which can wait a little.
    """
    from ..anchors import anchor_state
    from ..core.errors import MemError
    from ..git.repository import Repo

    # A history of 100,000 commits without a commit-graph takes a second.
    until = min(until, monotonic() + _LOOK)
    git = here.git(until)
    try:
        repo = Repo(git, here.git_dir, here.common_dir, "", here.bare, here.hex_len, here.top)
        return anchor_state.states(repo, cache, anchors, here.head, until - monotonic())
    except MemError:
        return {}
    finally:
        git.close()


def _signatures(here: Here, cache: Cache, until: float) -> bool:
    """Where the policy asks for signatures: a few are checked now; whether none waits."""
    if here.settings["trust"] == "all":
        return True
    from ..signing import trust

    policy = trust.Trust(here.settings, here.home)
    return policy.catch_up(cache, 0 if until - monotonic() < _SIGNATURES else trust.AT_ONCE)
