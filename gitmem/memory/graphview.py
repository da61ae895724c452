"""The graph of memories for readers: communities, the neighbours of one memory, and both as DOT.

Promise: titles come from stored lines that were hashed before (`memory_rows.load`).
What is shown is brought up to date first, for PATIENCE seconds at most; where that does not
do, the answer says so. Nothing is drawn of memories that were forgotten.
"""

from __future__ import annotations

from typing import Any

from ..core import record, sanitize
from ..core.errors import UsageError
from ..engine import memory_rows
from ..engine.cache import Cache
from ..graph import edges, graphing
from ..store import Store
from . import memories

PATIENCE = 30.0  # seconds; a worker goes on, where the graph is in use
CENTRAL = 5  # memories shown of a community
COMMUNITIES = 10
NEIGHBOURS = 20
NODES = 100
_LONG = 60  # characters of a title in a drawing


def kinds_of(names: list[str]) -> list[int]:
    """Numbers of kinds of edges, all where none is named. Raises UsageError."""
    for name in names:
        if name not in edges.KINDS:
            raise UsageError(
                f"no kind of edge '{name[:40]}'", hint=f"one of {', '.join(edges.KINDS)}"
            )
    return [edges.KINDS.index(name) for name in names] or list(range(len(edges.KINDS)))


def overview(store: Store, kinds: list[int], most: int | None, drawn: bool) -> dict[str, Any]:
    """Communities, the largest first; where it is `drawn`, the memories of highest rank and the
    edges among them instead.
    """

    def read(cache: Cache) -> dict[str, Any]:
        whole = graphing.catch_up(cache, PATIENCE, whole=True)
        counts = dict(cache.db.execute("SELECT kind, count(*) FROM edge GROUP BY kind").fetchall())
        out: dict[str, Any] = {
            "memories": (
                cache.db.execute(
                    "SELECT count(DISTINCT id) FROM memory WHERE status = 0"
                ).fetchone()[0]
            ),
            "complete": whole,
            "edges": {
                name: counts.get(kind, 0) for kind, name in enumerate(edges.KINDS) if kind in kinds
            },
        }
        if drawn:
            rows = [
                row
                for (row,) in cache.db.execute(
                    "SELECT row FROM rank ORDER BY value DESC, row LIMIT ?", (most or NODES,)
                )
            ]
            out["nodes"], out["links"] = _nodes(cache, rows), _links(cache, rows, kinds)
        else:
            out["communities"] = [
                _community(cache, *found) for found in _largest(cache, most or COMMUNITIES)
            ]
            out["single"] = cache.db.execute(
                "SELECT count(*) FROM (SELECT community FROM rank GROUP BY community HAVING"
                " count(*) = 1)"
            ).fetchone()[0]
        return out

    return store.with_cache(read)[0]


def around(store: Store, prefix: str, kinds: list[int], most: int | None) -> dict[str, Any]:
    """One memory, its neighbours with kinds and weights, strongest first, and the links among all
    of them.
    """

    def read(cache: Cache) -> dict[str, Any]:
        id = memories.full_id(cache, prefix)
        whole = graphing.catch_up(cache, PATIENCE, whole=True)
        own = [
            row
            for (row,) in cache.db.execute(
                "SELECT row FROM memory WHERE id = ? AND status < 2 ORDER BY row", (id,)
            )
        ]
        near: dict[int, dict[str, float]] = {}
        for row in own:
            for a, b, kind, weight in cache.db.execute(
                "SELECT a, b, kind, weight FROM edge WHERE a = ?1 OR b = ?1", (row,)
            ):
                other = b if a == row else a
                name = (
                    "superseded by" if kind == edges.SUPERSEDES and b == row else edges.KINDS[kind]
                )
                if kind in kinds and other not in own:
                    kept = near.setdefault(other, {})
                    kept[name] = max(weight, kept.get(name, 0.0))
        order = sorted(near, key=lambda row: (-_strength(near[row]), row))[: most or NEIGHBOURS]
        found = _nodes(cache, [*own[:1], *order])
        said = [
            {
                **node,
                "kinds": {
                    k: round(w, 3) for k, w in sorted(near[row].items(), key=lambda item: -item[1])
                },
            }
            for row, node in zip(order, found[len(own[:1]) :], strict=True)
        ]
        first = found[0] if own else {"id": id}
        return {
            **first,
            "complete": whole,
            "neighbours": said,
            "more": len(near) - len(order),
            "links": _links(cache, [*own[:1], *order], kinds),
        }

    return store.with_cache(read)[0]


def _strength(kinds: dict[str, float]) -> float:
    return sum(
        graphing.STRENGTH[edges.KINDS.index(name) if name in edges.KINDS else edges.SUPERSEDES]
        * weight
        for name, weight in kinds.items()
    )


def _largest(cache: Cache, most: int) -> list[tuple[int, int]]:
    """(centre, size) of the communities of more than one memory."""
    return cache.db.execute(
        "SELECT community, count(*) FROM rank GROUP BY community HAVING count(*) > 1 ORDER BY 2"
        " DESC, 1 LIMIT ?",
        (most,),
    ).fetchall()


def _community(cache: Cache, centre: int, size: int) -> dict[str, Any]:
    rows = [
        row
        for (row,) in cache.db.execute(
            "SELECT row FROM rank WHERE community = ? ORDER BY value DESC, row LIMIT ?",
            (centre, CENTRAL),
        )
    ]
    paths = cache.db.execute(
        "SELECT b.value, count(*) FROM label b JOIN rank r ON r.row = b.row WHERE b.kind = 'path'"
        " AND r.community = ? GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3",
        (centre,),
    )
    return {"size": size, "paths": [p for p, n in paths if n > 1], "central": _nodes(cache, rows)}


def _nodes(cache: Cache, rows: list[int]) -> list[dict[str, Any]]:
    ranks = {
        row: (value, community)
        for row in rows
        for value, community in cache.db.execute(
            "SELECT value, community FROM rank WHERE row = ?", (row,)
        )
    }
    out = []
    for row, (data, _, status) in zip(rows, memory_rows.load(cache, rows), strict=True):
        value, community = ranks.get(row, (0.0, row))
        centre = cache.db.execute("SELECT id FROM memory WHERE row = ?", (community,)).fetchone()
        out.append(
            {
                "id": record.clean(data["id"]),
                "title": record.clean(record.title_of(data)),
                "type": memory_rows.word(data.get("type")) or record.DEFAULT_TYPE,
                "rank": round(value, 3),
                "community": record.clean(centre[0]) if centre else None,
                **({"status": "superseded"} if status else {}),
            }
        )
    return out


def _links(cache: Cache, rows: list[int], kinds: list[int]) -> list[dict[str, Any]]:
    """Edges among these rows."""
    inside = set(rows)
    ids: dict[int, str] = {
        row: id
        for row in rows
        for (id,) in cache.db.execute("SELECT id FROM memory WHERE row = ?", (row,))
    }
    found = [
        (a, b, kind, weight)
        for row in sorted(inside)
        for a, b, kind, weight in cache.db.execute(
            "SELECT a, b, kind, weight FROM edge WHERE a = ? ORDER BY b, kind", (row,)
        )
        if b in inside and kind in kinds
    ]
    return [
        {"a": ids[a], "b": ids[b], "kind": edges.KINDS[kind], "weight": round(weight, 3)}
        for a, b, kind, weight in found
    ]


# --- DOT -----------------------------------------------------------------------


def dot(nodes: list[dict[str, Any]], links: list[dict[str, Any]]) -> list[str]:
    """The lines of a drawing for Graphviz: any title is one label, whatever stands in it;
    `supersedes` has an arrow.
    """
    out = ["digraph memories {", "  node [shape=box, style=rounded];", "  edge [dir=none];"]
    for node in nodes:
        title = " ".join(sanitize.shown(node["title"]).split())
        out.append(
            f"  {quoted(node['id'])}"
            f" [label={quoted(title if len(title) <= _LONG else title[: _LONG - 1] + '…')},"
            f" tooltip={quoted(node['type'])}];"
        )
    for link in links:
        style = ", dir=forward, style=bold" if link["kind"] == "supersedes" else ""
        out.append(
            f"  {quoted(link['a'])} -> {quoted(link['b'])} [label={quoted(link['kind'])},"
            f" weight={max(1, round(10 * link['weight']))}{style}];"
        )
    return [*out, "}"]


def quoted(text: str) -> str:
    """A string of DOT: a backslash would begin an escape of labels, a quotation mark would end
    it."""
    return '"' + sanitize.shown(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
