"""Feedback: changed files that speak for memories that were told, and contradictions.

What a session used stands in its receipt (`agents/receipts`), what a person found to be wrong in a
record of op `feedback`. `docs/format.md` has the fields: ids and counts, no text, no path.
`confidence` says what follows from them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable

from ..anchors import anchor_state, path_removals, path_state
from ..core import confidence, record
from ..core.digest import sha256
from ..engine import memory_rows
from ..engine.cache import Cache
from ..engine.filters import above
from ..engine.memory_rows import ACTIVE
from ..engine.sql import select_in
from ..store import Store

_Paths = dict[str, set[str]]
_IN_PLACE = (path_state.SAME, path_state.CHANGED)


def naming(
    store: Store, paths: Iterable[str], told: set[str], heads: set[str]
) -> tuple[_Paths, _Paths]:
    """({memory told: those of the paths, as they are given, that it is about}, {memory told: those
    that it may be about}).

    A memory is about what its paths are called at HEAD, and what is below that: under an old name
    something else may stand by now. `heads`: where the session was told; if HEAD has moved since,
    an old name may have been the right one then.
    """
    names = _names(store, paths)
    if not names or not told:
        return {}, {}

    def read(cache: Cache) -> tuple[_Paths, _Paths]:
        repo, head = store.repo, store.repo.head()
        # Without the history a file that says something else may be another one.
        short = anchor_state.shallow(repo) or repo.git.promised
        about: _Paths = defaultdict(set)
        unsure: _Paths = defaultdict(set)
        sql = (
            f"SELECT row, id FROM memory WHERE status = {ACTIVE}"
            " AND row IN (SELECT row FROM label WHERE kind = 'path') AND id IN {}"
        )
        ids = dict(select_in(cache.db, sql, sorted(told)))
        states = path_state.of_rows(repo, cache, ids, head)
        loaded = memory_rows.load(cache, list(ids))
        for (row, id), (data, _, _) in zip(ids.items(), loaded, strict=True):
            for (path, blob, _), state in zip(memory_rows.places(data), states[row], strict=True):
                sure, doubt = _about(names, path, blob, state, short)
                if blob and heads != {head} and state.state not in _IN_PLACE:
                    later = path_removals.later_names(cache, path)
                    doubt = doubt.union(*(names.get(name, set()) for name in later))
                about[id] |= sure
                unsure[id] |= doubt
        return about, unsure

    return store.with_cache(read)[0]


def _names(store: Store, paths: Iterable[str]) -> _Paths:
    """{name at HEAD, of a file or a directory above: paths as given}."""
    names: _Paths = {}
    for path in paths:
        absolute = os.path.isabs(path)
        inside = os.path.relpath(path, store.home) if absolute else os.path.normpath(path)
        if not inside.startswith(".."):
            for name in above(inside.replace(os.sep, "/")):
                names.setdefault(name.encode("utf-8", "replace").decode(), set()).add(path)
    return names


def _about(
    names: _Paths, path: str, blob: str, state: path_state.PathState, short: bool
) -> tuple[set[str], set[str]]:
    """(paths that one path of a memory stands for, paths that it may stand for)."""
    if not blob:  # no content tells it from another: the name is all there is
        return names.get(path, set()), set()
    if state.state == path_state.UNKNOWN or state.reason:
        return set(), set().union(*names.values())
    if state.state == path_state.GONE or (state.state == path_state.CHANGED and short):
        return set(), names.get(path, set())
    return names.get(state.now or path, set()), set()


def contradict(store: Store, ids: Iterable[str]) -> int:
    """Notes that memories, as they read now, were found to be wrong, until an edit answers it.
    Returns how many; those that are not here are left out.
    """
    wanted = sorted({id for id in ids if confidence.is_id(id)})

    def read(cache: Cache) -> dict[str, list[str]]:
        versions = memory_rows.versions_of(cache.db, wanted)
        return {id: sorted(versions[id]) for id in wanted if id in versions}

    found = store.with_cache(read)[0] if wanted else {}
    if found:
        name = sha256(b"git mem feedback\n" + record.dump(found)).hexdigest()
        data = record.envelope(
            "feedback", {"id": name[:32], "contradicted": found, "author": store.author}, "", {}
        )
        store.append("private", [("", record.dump(data))], "git mem: 1 contradiction")
    return len(found)
