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
    """Communities, the largest first; where it is `drawn`, the memories of highest rank and the
    edges among them instead. Raises MemError where networkx is missing.
    """
    nodes, links = _made(store)
    rank, centre = graph.ranks(nodes, links)
    by_row = {n.row: n for n in nodes}
    counts = Counter(kind for _, _, kind in links)

    def shown(row: int) -> dict[str, Any]:
        community = record.clean(by_row[centre[row]].id)
        return {**_shown(by_row[row]), "rank": round(rank[row], 3), "community": community}

    out: dict[str, Any] = {
        "memories": len({n.id for n in nodes if n.active}),
        "edges": {kind: counts[kind] for kind in kinds},
    }
    order = sorted(rank, key=lambda row: (-rank[row], row))
    if drawn:
        rows = order[: limit or NODES]
        return {
            **out,
            "nodes": [shown(row) for row in rows],
            "links": _links([by_row[row] for row in rows], links, kinds),
        }
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
    return {**out, "single": len(groups) - len(several)}


def around(store: Store, prefix: str, kinds: list[str], limit: int | None) -> dict[str, Any]:
    """One memory, its neighbours with kinds and weights, strongest first, and the links among all
    of them.
    """
    id, _ = store.with_cache(lambda cache: memories.full_id(cache, prefix))
    nodes, links = _made(store)
    by_row = {n.row: n for n in nodes}
    own = [n for n in nodes if n.id == id]
    near: dict[int, dict[str, float]] = defaultdict(dict)
    for (a, b, kind), weight in links.items():
        if kind in kinds and (by_row[a].id == id) != (by_row[b].id == id):
            newer = by_row[a].id == id
            name = "superseded by" if kind == "supersedes" and not newer else kind
            of = near[b if newer else a]
            of[name] = max(weight, of.get(name, 0.0))
    order = sorted(near, key=lambda row: (-_strength(near[row]), row))[: limit or NEIGHBOURS]
    return {
        **(_shown(own[0]) if own else {"id": id}),
        "neighbours": [
            {
                **_shown(by_row[row]),
                "kinds": {
                    kind: round(weight, 3)
                    for kind, weight in sorted(near[row].items(), key=lambda item: -item[1])
                },
            }
            for row in order
        ],
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
