"""Reading without a query: list, show, log, counts.

Promise: what is listed is what recall could find, plus what the caller asks for by name; the newest
first, and ties are broken by id, so the same state prints the same list.
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from ..anchors import anchor_state, anchor_state_update, path_history, path_state
from ..anchors.snapshot_view import Snapshot
from ..core import fastjson, record
from ..core.errors import GitFailed, MemError
from ..engine import filters, memory_rows, path_state_store
from ..engine.cache import SPACE, Cache
from ..engine.filters import Filter, newest_first
from ..engine.memory_rows import ACTIVE, FORGOTTEN, SUPERSEDED
from ..store import Store
from . import view  # the others are loaded where they are needed: `list` does without them

_PART = 1_000  # memories read at a time
_FEW = 10_000  # memories of a list that are not sorted with all others


def rows_of(cache: Cache, wanted: Filter, limit: int | None = None) -> list[int]:
    """One row of each memory that passes the filter, or of the first so many, newest first."""
    sql, args = wanted.sql()
    if limit is not None and limit <= _FEW:
        # In the order of an index. Twice as many: alternatives of a memory count once. Where that
        # is not enough, and for times that cannot be, all are sorted.
        few = f"{sql} AND at <= ? ORDER BY at DESC, id, nth, row LIMIT ?"
        rows = cache.db.execute(few, [*args, filters.latest(cache), 2 * limit])
        found = memory_rows.firsts(cache, [row for (row,) in rows])
        if len(found) >= limit:
            return found[:limit]
    rows = cache.db.execute(f"{sql} ORDER BY {newest_first(cache)}, nth, row", args)
    return memory_rows.firsts(cache, [row for (row,) in rows])[:limit]


class Listed(NamedTuple):
    """Public objects, and how many memories that pass the filter are not among them: beyond the
    limit (`more`), of unmerged branches, superseded.
    """

    items: list[dict[str, Any]]
    more: int
    unmerged: int = 0
    superseded: int = 0


def list_memories(
    store: Store,
    wanted: Filter,
    *,
    limit: int | None = None,
    all_branches: bool = False,
    stale: bool = False,
    at: str = "",
) -> Listed:
    """`all_branches`: also unmerged memories; `stale`: only those with a path that changed or went,
    and of others no counts; `at` a revision neither.
    """

    def read(cache: Cache) -> Listed:
        with view.seen(store, cache, wanted, at) as (seen, conditions):
            stands = _stands(store, seen, conditions, all_branches)
            hidden = sorted(c for c, s in stands.items() if s.state == anchor_state.UNMERGED)
            merged = conditions.but(without=hidden) if hidden and not at else conditions
            rows = rows_of(seen, merged, None if stale else limit)
            if stale:
                aged = _stale(store, seen, rows)
                found = _objects(store, seen, [*aged][:limit], stands, aged)
                return Listed(found, len(aged) - len(found))
            found = _objects(store, seen, rows, stands)
            listed = merged.count(seen)
            left = (0, 0) if at else _left_out(seen, conditions, merged, listed)
            return Listed(found, listed - len(found), *left)

    return store.with_cache(read)[0]


def _stale(store: Store, cache: Cache, rows: list[int]) -> dict[int, list[path_state.PathState]]:
    """{row: the states of its paths}, in this order, of those with a path that changed or went:
    a quarter of the time that the objects of all take.
    """
    head = cache.head if isinstance(cache, Snapshot) else store.repo.head()
    found: dict[int, list[path_state.PathState]] = {}
    with store.progress("comparing paths", len(rows)) as advance:
        for start in range(0, len(rows), _PART):
            part = path_state.of_rows(store.repo, cache, rows[start : start + _PART], head)
            worst = {row: path_state_store.worst(states) for row, states in part.items()}
            found |= {r: part[r] for r, w in worst.items() if w in path_state_store.STALE}
            advance(len(part))
    return found


def _objects(
    store: Store,
    cache: Cache,
    rows: list[int],
    stands: dict[str, anchor_state.AnchorState],
    aged: dict[int, list[path_state.PathState]] | None = None,
) -> list[dict[str, Any]]:
    """`view.objects` of what may be many: 10,000 take two seconds."""
    found: list[dict[str, Any]] = []
    with store.progress("reading memories", len(rows)) as advance:
        for start in range(0, len(rows), _PART):
            part = rows[start : start + _PART]
            found += view.objects(store, cache, part, stands=stands, aged=aged)
            advance(len(part))
    return found


def list_forgotten(store: Store, wanted: Filter, limit: int | None) -> Listed:
    """What was forgotten, on all branches, the last first; `forgotten`: who did it, when, why."""
    from . import memories

    gone = wanted.but(forgotten=True)

    def read(cache: Cache) -> list[dict[str, Any]]:
        rows = rows_of(cache, gone)
        items = view.objects(store, cache, rows)
        # An object has the id as it may be shown.
        ids = dict(cache.among("SELECT row, id FROM memory WHERE row IN {}", rows))
        for row, item in zip(rows, items, strict=True):
            by = memories.load(cache, ids[row]).memory.hidden_by
            item["forgotten"] = max(map(_who, by), key=lambda said: str(said["at"] or ""))
        return items

    items = store.with_cache(read)[0]
    items.sort(key=lambda item: str(item["forgotten"]["at"] or ""), reverse=True)
    return Listed(items[:limit], len(items) - len(items[:limit]))


def _who(r: record.Record) -> dict[str, Any]:
    return {
        "at": record.moment(r.data.get("at")) or None,
        "author": memory_rows.word(r.data.get("author")),
        "reason": memory_rows.word(r.data.get("reason")),
    }


def _stands(
    store: Store, cache: Cache, wanted: Filter, all_branches: bool
) -> dict[str, anchor_state.AnchorState]:
    """The states of anchors, as far as they were asked for."""
    if isinstance(cache, Snapshot):
        if cache.reason:
            store.warn(f"warning: {cache.reason}")
        return dict(cache.states)
    if all_branches:
        return {}
    anchors = anchor_state.of_memories(cache, most=SUPERSEDED if wanted.superseded else ACTIVE)
    stands = anchor_state.states(store.repo, cache, anchors, store.repo.head())
    anchor_state_update.update_later(store, cache, stands)
    return stands


def _left_out(cache: Cache, wanted: Filter, merged: Filter, listed: int) -> tuple[int, int]:
    """How many memories of (unmerged branches, superseded) `merged` lacks, which has `listed`."""
    unmerged = wanted.count(cache) - listed if wanted is not merged else 0
    some = f"SELECT 1 FROM memory WHERE status = {SUPERSEDED} LIMIT 1"
    if merged.superseded or not cache.db.execute(some).fetchone():
        return unmerged, 0
    return unmerged, merged.but(superseded=True).count(cache) - listed


def show(store: Store, prefix: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(public object, its records oldest first) of one memory; `versions`: all that are shown."""
    from . import memories

    found = memories.find(store, prefix)

    def read(cache: Cache) -> dict[str, Any]:
        view.at_head(store, cache, Filter())
        shown = (
            "SELECT m.row, lower(hex(l.version)) FROM memory m JOIN line l ON l.n = m.line"
            " WHERE m.id = ? ORDER BY m.row"
        )
        versions: dict[int, str] = dict(cache.db.execute(shown, (found.memory.id,)).fetchall())
        rows = [*versions]
        store.trust.look(cache, rows)
        objects = view.objects(store, cache, rows)
        same = (o for o in objects if o["body"] == found.record.data["body"])
        first = dict(next(same, objects[0]))
        if len(objects) > 1:
            named = zip(versions.values(), objects, strict=True)
            first["versions"] = [{"version": version, **item} for version, item in named]
        if found.memory.superseded_by:
            first["superseded_by"] = found.memory.superseded_by
        return first

    history: list[dict[str, Any]] = [
        {"version": r.version, "op": r.op, **_who(r), "after": r.after}
        for r in found.memory.records
    ]
    history.sort(key=lambda h: (str(h["at"]), h["version"]))
    by_version = {h["version"]: h for h in history}
    before = {v: [seen for seen in h["after"] if seen in by_version] for v, h in by_version.items()}
    order = TopologicalSorter(before).static_order()  # needs no clock
    return store.with_cache(read)[0], [by_version[version] for version in order]


def show_any(store: Store, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(a memory, its records oldest first), or (a commit, []). Raises MemError."""
    try:
        return show(store, name)
    except MemError:
        from . import commit_hits

        if commit := commit_hits.find(store, name):
            return commit, []
        raise


def log(
    store: Store, revisions: list[str], limit: int | None, paths: Sequence[str]
) -> list[dict[str, Any]]:
    """Memories in the order of the commits they are about, newest commit first; `revisions` as for
    `git log`. `paths`: only about these, under whatever name.
    """
    head = store.repo.head()
    order = {commit: i for i, commit in enumerate(_walk(store, revisions))}

    def read(cache: Cache) -> list[dict[str, Any]]:
        anchors = anchor_state.of_memories(cache)
        elsewhere = anchors - order.keys()  # some may have been squashed into this range
        stands = anchor_state.states(store.repo, cache, elsewhere, head) if elsewhere else {}
        stood = anchor_state.places(cache, anchors)
        names, moved = _followed(store, cache, paths, view.at_head(store, cache, Filter()))
        sql, args = view.at_head(store, cache, Filter(paths=names)).sql()
        # By row: another file may have the former name now, and its directory is not meant.
        rows = f"row IN ({sql}) OR row IN (SELECT value FROM json_each(?))"
        args = [*args, fastjson.dumps([row for row, _ in moved])]
        newest = f"SELECT row, anchor FROM memory WHERE {rows} ORDER BY {newest_first(cache)}"
        placed: list[tuple[int, int]] = []
        for row, anchor in cache.db.execute(newest, args):
            found = [order[a] for a in stood.get(anchor, ()) if a in order]
            if found:
                placed.append((min(found), row))
        placed.sort(key=lambda place: place[0])
        chosen = memory_rows.firsts(cache, [row for _, row in placed])[:limit]
        return view.objects(store, cache, chosen, stands=stands)

    return store.with_cache(read)[0]


def log_commits(
    store: Store, revisions: list[str], limit: int | None, paths: Sequence[str]
) -> list[dict[str, Any]]:
    """The searchable commits of a range in the order of `git log`, else as `log`."""
    from . import commit_hits

    walk = _walk(store, revisions)
    if not paths:
        return commit_hits.among(store, walk, [], limit)
    names, moved = store.with_cache(lambda cache: _followed(store, cache, paths, Filter()))[0]
    return commit_hits.among(store, walk, [*names, *(name for _, name in moved)], limit)


def _followed(
    store: Store, cache: Cache, paths: Sequence[str], wanted: Filter
) -> tuple[list[str], list[tuple[int, str]]]:
    """All names that these paths have had; (row, former name) of what moved into them."""
    repo, head = store.repo, store.repo.head()
    names: list[str] = []
    moved: list[tuple[int, str]] = []
    for path in paths:
        if path != ".":
            found = path_history.at(repo, cache, head, path)
            names += found.labels
            if found.kind == "tree":
                below = path_history.below(repo, cache, head, record.clean(found.now), wanted)
                moved += [(row, name) for row, name, now in below if name != now]
    return names, moved


def _walk(store: Store, revisions: list[str]) -> list[str]:
    """The commits of a range, as `git log` orders them. Raises MemError for none."""
    for name in revisions:
        if name.startswith("-"):
            raise MemError(f"'{name}' is no revision")
    if not revisions and not store.repo.head():
        return []
    try:
        return store.repo.git.text("rev-list", *(revisions or ["HEAD"]), "--").split()
    except GitFailed as e:
        raise MemError(
            f"no such revision or range: '{' '.join(revisions)}'",
            hint=anchor_state.hint(store.repo) or "write it as for `git log`",
        ) from e


# Memories, of rows. Only the rows of those with several are compared, which takes a quarter of the
# time of `count(DISTINCT id)`.
_SEVERAL = "id IN (SELECT id FROM memory WHERE nth > 0)"
_COUNT = f"count(DISTINCT CASE WHEN {_SEVERAL} THEN id END) + sum(NOT {_SEVERAL}) FROM memory"


def _active(store: Store, cache: Cache) -> tuple[str, list[Any]]:
    """A condition, with its values, for the rows of memories that count at HEAD."""
    wanted = view.at_head(store, cache, Filter())
    if wanted.empty:
        return "status = 0", []
    only, args = wanted.sql()
    return f"row IN ({only})", args


def totals(store: Store, cache: Cache) -> dict[str, int]:
    """How many memories there are, as seen from HEAD; every one is counted, none estimated."""
    db, (active, args) = cache.db, _active(store, cache)
    by_status = (
        f"SELECT CASE WHEN status = 0 AND NOT {active} THEN {SUPERSEDED} ELSE status END,"
        f" {_COUNT} GROUP BY 1"
    )
    status: dict[int, int] = dict(db.execute(by_status, args).fetchall())
    # An index would lead to each row apart.
    by_scope = f"SELECT scope & 1, {_COUNT} NOT INDEXED WHERE {active} GROUP BY 1"
    scopes: dict[int, int] = dict(db.execute(by_scope, args).fetchall())
    vectors = cache.embedded(SPACE)
    return {
        "memories": status.get(ACTIVE, 0),
        "superseded": status.get(SUPERSEDED, 0),
        "forgotten": status.get(FORGOTTEN, 0),
        "team": scopes.get(1, 0),
        "private": scopes.get(0, 0),
        "vectors": vectors,
        "without_vectors": cache.count() - vectors,
    }


def counts(store: Store, cache: Cache) -> dict[str, Any]:
    """`totals`, and how they are spread over types, authors, tags and months."""
    db, (active, args) = cache.db, _active(store, cache)

    def table(columns: str, rest: str) -> dict[str, int]:
        return {str(k): n for k, n in db.execute(f"SELECT {columns} AND {active} {rest}", args)}

    every = f"{_COUNT} WHERE TRUE"  # `AND` and a condition follow
    several = f"SELECT id FROM memory WHERE {active} GROUP BY id HAVING count(*) > 1"
    found = totals(store, cache)
    vectors = {name: found.pop(name) for name in ("vectors", "without_vectors")}
    return {
        **found,
        "concurrent": len(db.execute(several, args).fetchall()),
        "types": table(f"type, {every}", "GROUP BY type ORDER BY 2 DESC, 1"),
        "authors": table(f"author, {every}", "GROUP BY author ORDER BY 2 DESC, 1 LIMIT 20"),
        "tags": table(
            "value, count(DISTINCT id) FROM label JOIN memory USING(row) WHERE kind = 'tag'",
            "GROUP BY value ORDER BY 2 DESC, 1 LIMIT 20",
        ),
        # Of those whose time is one and can be.
        "months": table(
            "substr(at, 1, 7), count(DISTINCT id) FROM memory WHERE at BETWEEN '0' AND"
            f" '{filters.latest(cache)}'",
            "GROUP BY 1 ORDER BY 1 DESC LIMIT 24",
        ),
        "records": db.execute("SELECT count(*) FROM line").fetchone()[0],
        **vectors,
        "space": SPACE,
    }
