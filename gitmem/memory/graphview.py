"""The graph of memories for readers: communities, the neighbours of one memory, and both as DOT."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from ..core import record, sanitize
from ..core.errors import UsageError
from ..engine.cache import Cache
from ..store import Store
from . import graph, memories
from .graph import Edges, Node

CENTRAL = 5  # memories shown of a community
COMMUNITIES = 10
NEIGHBOURS = 20
NODES = 100
_LONG = 60  # characters of a title in a drawing


def kinds_of(names: list[str]) -> list[str]:
    """The kinds of edges that were asked for, all where none is named. Raises UsageError."""
    for name in names:
        if name not in graph.STRENGTH:
            raise UsageError(
                f"no kind of edge '{name[:40]}'", hint=f"one of {', '.join(graph.STRENGTH)}"
            )
    return names or list(graph.STRENGTH)


def overview(store: Store, kinds: list[str], limit: int | None, drawn: bool) -> dict[str, Any]:
    """Communities, the largest first; if `drawn`, the first memories by rank and their edges."""
    nodes, links = _made(store)
    rank, centre = graph.ranks(nodes, links)
    by_row = {n.row: n for n in nodes}
    counts = Counter(kind for _, _, kind in links)
    order = sorted(rank, key=lambda row: (-rank[row], row))

    def shown(row: int) -> dict[str, Any]:
        community = record.clean(by_row[centre[row]].id)
        return {**_shown(by_row[row]), "rank": round(rank[row], 3), "community": community}

    out: dict[str, Any] = {
        "memories": len({n.id for n in nodes if n.active}),
        "edges": {kind: counts[kind] for kind in kinds},
    }
    if drawn:
        rows = order[: limit or NODES]
        out["nodes"] = [shown(row) for row in rows]
        out["links"] = _links([by_row[row] for row in rows], links, kinds)
        return out
    groups: dict[int, list[int]] = defaultdict(list)
    for row in order:
        groups[centre[row]].append(row)
    several = sorted((g for g in groups.values() if len(g) > 1), key=lambda g: (-len(g), g[0]))
    out["communities"] = [
        {
            "size": len(group),
            "paths": _common_paths([by_row[row] for row in group]),
            "central": [shown(row) for row in group[:CENTRAL]],
        }
        for group in several[: limit or COMMUNITIES]
    ]
    out["single"] = len(groups) - len(several)
    return out


def around(store: Store, prefix: str, kinds: list[str], limit: int | None) -> dict[str, Any]:
    """One memory, its neighbours with kinds and weights, strongest first, and all their links."""
    id, _ = store.with_cache(lambda cache: memories.full_id(cache, prefix))
    nodes, links = _made(store)
    by_row = {n.row: n for n in nodes}
    own = [n for n in nodes if n.id == id]
    near: dict[int, dict[str, float]] = defaultdict(dict)
    for (a, b, kind), weight in links.items():
        if kind in kinds and id in (by_row[a].id, by_row[b].id):
            newer = by_row[a].id == id
            name = "superseded by" if kind == "supersedes" and not newer else kind
            near[b if newer else a][name] = round(weight, 3)
    order = sorted(near, key=lambda row: (-_strength(near[row]), row))[: limit or NEIGHBOURS]
    neighbours = [
        {**_shown(by_row[row]), "kinds": dict(sorted(near[row].items(), key=lambda item: -item[1]))}
        for row in order
    ]
    return {
        **(_shown(own[0]) if own else {"id": id}),
        "neighbours": neighbours,
        "more": len(near) - len(order),
        "links": _links([*own[:1], *(by_row[row] for row in order)], links, kinds),
    }


def _made(store: Store) -> tuple[list[Node], Edges]:
    def read(cache: Cache) -> tuple[list[Node], Edges]:
        nodes = graph.nodes(cache)
        return nodes, graph.edges(cache, nodes)

    return store.with_cache(read)[0]


def _strength(kinds: dict[str, float]) -> float:
    return sum(graph.STRENGTH.get(kind, 1.0) * weight for kind, weight in kinds.items())


def _common_paths(nodes: list[Node]) -> list[str]:
    """The three files that most of these memories name."""
    counts = Counter(path for n in nodes for path in n.paths)
    named = [(-count, path) for path, count in counts.items() if count > 1]
    return [record.clean(path) for _, path in sorted(named)[:3]]


def _shown(node: Node) -> dict[str, Any]:
    out = {"id": record.clean(node.id), "title": node.title, "type": node.type}
    return out if node.active else {**out, "status": "superseded"}


def _links(nodes: list[Node], links: Edges, kinds: list[str]) -> list[dict[str, Any]]:
    """The edges among these nodes."""
    ids = {n.row: record.clean(n.id) for n in nodes}
    return [
        {"a": ids[a], "b": ids[b], "kind": kind, "weight": round(weight, 3)}
        for (a, b, kind), weight in sorted(links.items())
        if a in ids and b in ids and kind in kinds
    ]


def dot(nodes: list[dict[str, Any]], links: list[dict[str, Any]]) -> list[str]:
    """The lines of a drawing for Graphviz; `supersedes` has an arrow."""
    out = ["digraph memories {", "  node [shape=box, style=rounded];", "  edge [dir=none];"]
    for node in nodes:
        title = " ".join(sanitize.shown(node["title"]).split())
        if len(title) > _LONG:
            title = title[: _LONG - 1] + "…"
        id, label, tip = quoted(node["id"]), quoted(title), quoted(node["type"])
        out.append(f"  {id} [label={label}, tooltip={tip}];")
    for link in links:
        a, b, label = quoted(link["a"]), quoted(link["b"]), quoted(link["kind"])
        weight = max(1, round(10 * link["weight"]))
        style = ", dir=forward, style=bold" if link["kind"] == "supersedes" else ""
        out.append(f"  {a} -> {b} [label={label}, weight={weight}{style}];")
    return [*out, "}"]


def quoted(text: str) -> str:
    """A string of DOT: a backslash would begin an escape, a quotation mark would end it."""
    return '"' + sanitize.shown(text).replace("\\", "\\\\").replace('"', '\\"') + '"'
