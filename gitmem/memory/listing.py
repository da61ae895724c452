"""Reading without a query: list, show, log, counts.

Promise: what is listed is what recall could find, plus what the caller asks
for by name (superseded, forgotten); order is by time, newest first, and ties
are broken by id, so the same state prints the same list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..anchors import (
    anchor_state,
    anchor_state_update,
    path_history,
    records_at,
    reinstate,
    snapshot_view,
)
from ..core import record
from ..core.errors import GitFailed, MemError
from ..engine import filters, memory_rows, path_state_store, reinstated
from ..engine.cache import Cache
from ..engine.document import ACTIVE, FORGOTTEN, SUPERSEDED
from ..engine.filters import Filter, newest_first
from ..store import Store
from . import memories, view


def rows_of(cache: Cache, wanted: Filter) -> list[int]:
    """One row of each memory that passes the filter, newest first."""
    sql, args = wanted.sql()
    rows = cache.db.execute(
        f"SELECT row FROM memory WHERE row IN ({sql}) ORDER BY {newest_first(cache)}, nth, row",
        args,
    )
    return memory_rows.firsts(cache, [row for (row,) in rows])


def list_memories(
    store: Store,
    wanted: Filter,
    *,
    limit: int | None = None,
    all_branches: bool = False,
    stale: bool = False,
    at: str = "",
) -> tuple[list[dict[str, Any]], int]:
    """(public objects, how many more there are).

    Unmerged memories only with `all_branches`; `stale`: a path changed or went; `at`: as of a
    revision.
    """

    def read(cache: Cache) -> tuple[list[dict[str, Any]], int]:
        if not at:
            reinstate.settle(store.repo, cache, store.table)
            return listed(cache, reinstated.seen_from(cache, wanted, store.repo.head()), None)
        with snapshot_view.opened(store, cache, at) as found:
            if found.reason:
                store.warn(f"warning: {found.reason}")
            return listed(found, found.filter(wanted), found)

    def listed(
        cache: Cache, wanted: Filter, past: snapshot_view.Snapshot | None
    ) -> tuple[list[dict[str, Any]], int]:
        rows = rows_of(cache, wanted)
        stands: dict[str, anchor_state.AnchorState] = dict(past.states) if past else {}
        if not all_branches and not past:
            stands = anchor_state.states(
                store.repo,
                cache,
                anchor_state.of_memories(cache, most=SUPERSEDED if wanted.superseded else ACTIVE),
                store.repo.head(),
            )
            hidden = sorted(
                c for c, stand in stands.items() if stand.state == anchor_state.UNMERGED
            )
            if hidden:
                rows = rows_of(cache, wanted.leaving_out(hidden))
            anchor_state_update.update_later(store, cache, stands)
        chosen = rows if stale else rows[:limit]
        objects = view.objects(store, cache, chosen, at or "HEAD", stands)
        if past:
            past.tell(objects)
        if not stale:
            return objects, len(rows) - len(chosen)
        found = [
            m for m in objects if any(p["state"] in path_state_store.STALE for p in m["paths"])
        ]
        return found[:limit], max(0, len(found) - len(found[:limit]))

    return store.with_cache(read)[0]


def show(store: Store, prefix: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(public object, its records oldest first) of one memory.

    Where it was edited at the same time in two places, `versions` has each
    version that is shown, the object's own included; `version` is its name in the records.
    """
    found = memories.find(store, prefix)

    def read(cache: Cache) -> dict[str, Any]:
        reinstate.settle(store.repo, cache, store.table)
        sql = (
            "SELECT m.row, l.version FROM memory m JOIN line l ON l.n = m.line WHERE m.id = ? ORDER"
            " BY m.row"
        )
        named = cache.db.execute(sql, (found.memory.id,)).fetchall()
        rows = [row for row, _ in named]
        store.trust.look(cache, rows)
        objects = view.objects(store, cache, rows)
        first = dict(
            next((o for o in objects if o["body"] == found.record.data["body"]), objects[0])
        )
        if len(objects) > 1:
            first["versions"] = [
                {"version": version.hex(), **item}
                for (_, version), item in zip(named, objects, strict=True)
            ]
        if found.memory.superseded_by:
            first["superseded_by"] = found.memory.superseded_by
        return first

    item = store.with_cache(read)[0]
    history = [
        {
            "version": r.version,
            "op": r.op,
            "at": record.moment(r.data.get("at")) or None,
            **{k: memory_rows.word(r.data.get(k)) for k in ("author", "reason")},
            "after": r.after,
        }
        for r in found.memory.records
    ]
    after = {r.version: r.after for r in found.memory.records}
    return item, sorted(
        history, key=lambda h: (_depth(h["version"], after), str(h["at"]), h["version"])
    )


def _depth(version: str, after: dict[str, list[str]]) -> int:
    """How many versions lie before one: the order that needs no clock."""
    depth, level, seen = 0, {version}, {version}
    while level:
        level = {v for here in level for v in after.get(here, ()) if v in after} - seen
        seen |= level
        depth += bool(level)
    return depth


def log(
    store: Store, revisions: list[str], limit: int | None, paths: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Memories in the order of the commits they are about, newest commit first; `revisions` as for
    `git log`. `paths`: only about these, under whatever name.
    """
    for name in revisions:
        if name.startswith("-"):
            raise MemError(f"'{name}' is no revision")
    try:
        walk = (
            store.repo.git.text("rev-list", *(revisions or ["HEAD"]), "--").split()
            if store.repo.head() or revisions
            else []
        )
    except GitFailed as e:
        raise MemError(
            f"no such revision or range: '{' '.join(revisions)}'",
            hint=records_at.hint(store.repo) or "write it as for `git log`",
        ) from e
    order = {commit: i for i, commit in enumerate(walk)}

    def read(cache: Cache) -> list[dict[str, Any]]:
        anchors = anchor_state.of_memories(cache)
        elsewhere = {a for a in anchors if a not in order}
        stands = (
            anchor_state.states(store.repo, cache, elsewhere, store.repo.head())
            if elsewhere
            else {}
        )  # finds what was squashed into this range
        stood = anchor_state.places(cache, anchors)
        placed: dict[int, tuple[int, str, str]] = {}
        latest = filters.latest(cache)
        reinstate.settle(store.repo, cache, store.table)
        wanted = reinstated.seen_from(
            cache,
            Filter(
                paths=[
                    name
                    for path in paths
                    if path != "."
                    for name in path_history.at(store.repo, cache, store.repo.head(), path).labels
                ]
            ),
            store.repo.head(),
        )
        sql, args = wanted.sql()
        for row, anchor, at, id in cache.db.execute(
            f"SELECT row, anchor, at, id FROM memory WHERE row IN ({sql})", args
        ):
            found = [order[a] for a in stood.get(anchor, ()) if a in order]
            if found:
                placed[row] = (min(found), record.when(at, latest), id)
        newest_first = sorted(placed, key=lambda row: placed[row][1], reverse=True)
        chosen = memory_rows.firsts(cache, sorted(newest_first, key=lambda row: placed[row][0]))[
            :limit
        ]
        return view.objects(store, cache, chosen, stands=stands)

    return store.with_cache(read)[0]


def counts(store: Store, cache: Cache) -> dict[str, Any]:
    """Numbers about the store, as it is seen from HEAD; every one is counted, none estimated."""
    db = cache.db
    reinstate.settle(store.repo, cache, store.table)
    wanted = reinstated.seen_from(cache, Filter(), store.repo.head())
    only, args = wanted.sql()
    active = "status = 0" if wanted.empty else f"row IN ({only})"
    args = [] if wanted.empty else args

    def number(sql: str) -> int:
        return int(db.execute(f"SELECT count({sql} AND {active}", args).fetchone()[0])

    def table(columns: str, rest: str) -> dict[str, int]:
        return {str(k): n for k, n in db.execute(f"SELECT {columns} AND {active} {rest}", args)}

    rows = db.execute(
        f"SELECT CASE WHEN status = 0 AND NOT {active} THEN {SUPERSEDED} ELSE status END,"
        " count(DISTINCT id) FROM memory GROUP BY 1",
        args,
    )
    status: dict[int, int] = dict(rows.fetchall())
    return {
        "memories": status.get(ACTIVE, 0),
        "superseded": status.get(SUPERSEDED, 0),
        "forgotten": status.get(FORGOTTEN, 0),
        "concurrent": (
            db.execute(
                f"SELECT count(*) FROM (SELECT id FROM memory WHERE {active} GROUP BY id HAVING"
                " count(*) > 1)",
                args,
            ).fetchone()[0]
        ),
        "team": number("DISTINCT id) FROM memory WHERE scope & 1 > 0"),
        "private": number("DISTINCT id) FROM memory WHERE scope = 2"),
        "types": table(
            "type, count(DISTINCT id) FROM memory WHERE 1", "GROUP BY type ORDER BY 2 DESC, 1"
        ),
        "authors": table(
            "author, count(DISTINCT id) FROM memory WHERE 1",
            "GROUP BY author ORDER BY 2 DESC, 1 LIMIT 20",
        ),
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
        "vectors": db.execute("SELECT count(*) FROM vector").fetchone()[0],
        "without_vectors": cache.count() - db.execute("SELECT count(*) FROM vector").fetchone()[0],
        "space": cache.meta("space"),
    }
