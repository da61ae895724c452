"""Feedback: which of the memories that were told the changed files speak for, and contradictions.

What a session used stands in its receipt (`agents/receipts`), what a person
found to be wrong in a record of op `feedback`. `docs/format.md` has the
fields: ids and counts, no text, no path. `confidence` says what follows from them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..anchors import patch_id, path_removals, path_state
from ..core import confidence, record
from ..core.digest import sha256
from ..engine import memory_rows, path_state_store
from ..engine.cache import Cache
from ..engine.document import ACTIVE
from ..engine.filters import above
from ..store import Store

# (commit a memory is about, its paths as `memory_rows.places` gives them)
_Places = tuple[str, list[tuple[str, str, str]]]
_Names = dict[str, set[str]]  # {name at HEAD, of a file or a directory above: paths as given}
_IN_PLACE = (path_state.SAME, path_state.CHANGED)
_PART = 500  # values in one SQL condition


def naming(
    store: Store, paths: Iterable[str], told: set[str], heads: set[str]
) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """({memory told: those of the paths, as they are given, that it is about}, {memory told: those
    that it may be about}).

    A memory is about what its paths are called at HEAD, and what is below that:
    under an old name something else may stand by now. `heads`: where the session
    was told; if HEAD has moved since, an old name may have been the right one then.
    """
    names = _names(store, paths)
    if not names or not told:
        return {}, {}

    def read(cache: Cache) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        head = store.repo.head()
        # Without the history a file that says something else may be another one.
        short = os.path.exists(os.path.join(store.repo.common_dir, "shallow")) or patch_id.partial(
            store.repo
        )
        about: dict[str, set[str]] = {}
        unsure: dict[str, set[str]] = {}
        rows = _with_paths(cache, told)
        places = {
            row: (memory_rows.commit_of(data), memory_rows.places(data))
            for row, (data, _, _) in zip(rows, memory_rows.load(cache, list(rows)), strict=True)
        }
        states = _states(store, cache, places, head)
        for row, id in rows.items():
            for (path, blob, _), state in zip(places[row][1], states[row], strict=True):
                sure, doubt = _about(names, path, blob, state, short)
                if blob and heads != {head} and state.state not in _IN_PLACE:
                    later = path_removals.later_names(cache, path)
                    doubt = doubt.union(*(names.get(name, set()) for name in later))
                if sure:
                    about.setdefault(id, set()).update(sure)
                if doubt:
                    unsure.setdefault(id, set()).update(doubt)
        return about, unsure

    return store.with_cache(read)[0]


def _names(store: Store, paths: Iterable[str]) -> _Names:
    names: _Names = {}
    for path in paths:
        absolute = os.path.isabs(path)
        inside = os.path.relpath(path, store.home) if absolute else os.path.normpath(path)
        if not inside.startswith(".."):
            for name in above(inside.replace(os.sep, "/")):
                names.setdefault(name.encode("utf-8", "replace").decode(), set()).add(path)
    return names


def _about(
    names: _Names, path: str, blob: str, state: path_state.PathState, short: bool
) -> tuple[set[str], set[str]]:
    """(paths that one path of a memory stands for, paths that it may stand for)."""
    if not blob:  # no content tells it from another: the name is all there is
        return names.get(path, set()), set()
    if state.state == path_state.UNKNOWN or state.reason:
        return set(), set().union(*names.values())
    if state.state == path_state.GONE or (state.state == path_state.CHANGED and short):
        return set(), names.get(path, set())
    return names.get(state.now or path, set()), set()


def _with_paths(cache: Cache, told: Iterable[str]) -> dict[int, str]:
    """{row: id} of those that name a path and are active."""
    out: dict[int, str] = {}
    ordered = sorted(told)
    for at in range(0, len(ordered), _PART):
        part = ordered[at : at + _PART]
        sql = (
            f"SELECT row, id FROM memory WHERE status = {ACTIVE} AND id IN"
            f" ({','.join('?' * len(part))}) AND row IN (SELECT row FROM label WHERE kind = 'path')"
        )
        out.update(cache.db.execute(sql, part))
    return out


def _states(
    store: Store, cache: Cache, places: dict[int, _Places], head: str
) -> dict[int, list[path_state.PathState]]:
    """{row: states of its paths at HEAD}: as they are kept, else as git says now."""
    kept = path_state_store.read(cache, places, head)
    found = {
        row: path_state_store.of(kept.get(row), len(where)) for row, (_, where) in places.items()
    }
    asked = [row for row, states in found.items() if path_state_store.waiting({row: states})]
    noted = [(places[row][0], *where) for row in asked for where in places[row][1]]
    answers = iter(path_state.states(store.repo, cache, noted, head) if noted else [])
    for row in asked:
        found[row] = [next(answers) for _ in places[row][1]]
    return found


def contradict(store: Store, ids: Iterable[str]) -> int:
    """Notes that memories, as they read now or read last, were found to be wrong: their confidence
    falls at once. Returns how many.

    For whoever has a person's word for it: of a contradiction that was accepted
    it is the one that did not stay, should it ever come back. It counts until
    the memory is edited, which is the answer to it; said twice it counts once.
    Memories that are not here are left out.
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
