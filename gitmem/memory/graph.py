"""The graph of memories, made on demand: edges, ranks, communities, neighbours; JSON and DOT.

| kind | between | weight |
|---|---|---|
| supersedes | a memory and the one that it replaced | 1 |
| mentions | a memory and one whose id stands in its text | 1 |
| session | memories of one agent's session | 1 |
| file | memories that name the same file | common paths as a share of all, from FILES_FROM |
| similar | texts with common runs of three words | Jaccard of the runs, above JACCARD |
| near | a text and the NEAR nearest in meaning before it | cosine of the vectors, from NEAR_FROM |

Promise: a weight depends on the two memories alone. Of a file, a session or a run of words that
many share, each memory is linked with the WINDOW before and behind it in time, so 10,000 memories
of one file make 40,000 edges. Like texts are found through sketches, which miss 6 % of the
pairs with a Jaccard of 0.3 and 0.4 % of those with 0.5. The newest MOST memories take part;
nothing is stored. Only ranks and communities need networkx (the extra `graph`).
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any
from zlib import crc32

from ..core import id_mentions, record, sanitize, text
from ..core.errors import MemError
from ..engine import document, memory_rows, model_vectors
from ..engine.cache import SPACE, Cache
from ..engine.memory_rows import ACTIVE
from ..store import Store
from . import memories

Edges = dict[tuple[int, int, str], float]  # of rows, the lower first; the new one of `supersedes`

# How much ranks and communities follow an edge of each kind: what somebody said, then what was
# done together, then likeness.
STRENGTH = {
    "supersedes": 1.0,
    "mentions": 1.0,
    "session": 0.5,
    "file": 0.5,
    "similar": 1.0,
    "near": 0.5,
}
MOST = 10_000  # memories: 8 s and 400 MB with ranks and communities
DAMPING = 0.85
WINDOW = 4
FILES_FROM = 0.1  # less: a commit over the whole tree, beside one that touched a file of it
JACCARD = 0.3
RUN = 3  # words
SKETCH = 8  # smallest hashes that stand for a text
# Commits of one topic (restic, 960 pairs) reach it in 15 of 100 pairs, two drawn by chance from its
# history in 8 of 10,000; 0.6: 22 and 22, 0.7: 9 and 3.
NEAR_FROM = 0.65
NEAR = 5
CENTRAL = 5  # memories shown of a community
COMMUNITIES = 10
NEIGHBOURS = 20
NODES = 100
_LONG = 60  # characters of a title in a drawing


class Node:
    """One row of the cache, as edges need it."""

    def __init__(self, row: int, data: dict[str, Any], status: int) -> None:
        self.row, self.id, self.active = row, str(data["id"]), status == ACTIVE
        self.session = (memory_rows.word(data.get("session")) or "").strip()
        self.paths = frozenset(memory_rows.paths(data))
        self.text = document.vector_text(data)
        self.shown = {
            "id": record.clean(self.id),
            "title": record.clean(record.title_of(data)),
            "type": memory_rows.word(data.get("type")) or record.DEFAULT_TYPE,
            **({} if self.active else {"status": "superseded"}),
        }


def nodes(cache: Cache) -> list[Node]:
    """The newest MOST memories that are not forgotten, the oldest first."""
    sql = "SELECT row FROM memory WHERE status < 2 AND nth = 0 ORDER BY at DESC, row DESC LIMIT ?"
    rows = [row for (row,) in cache.db.execute(sql, (MOST,))][::-1]
    loaded = memory_rows.load(cache, rows)
    return [Node(row, data, status) for row, (data, _, status) in zip(rows, loaded, strict=True)]


# Edges


def edges(cache: Cache, found: list[Node]) -> Edges:
    """All edges among these nodes, which stand in the order of time."""
    active = [n for n in found if n.active]
    words = {n.row: text.terms(n.text) for n in active}
    of = {row: runs(said) for row, said in words.items()}
    out = {**_supersedes(cache, {n.row for n in found}), **_mentions(active, words)}
    for a, b in _crowds(active, lambda n: [n.session] if n.session else []):
        out[_edge(a, b, "session")] = 1.0
    for a, b in set(_crowds(active, lambda n: n.paths)):
        if (share := jaccard(a.paths, b.paths)) >= FILES_FROM:
            out[_edge(a, b, "file")] = share
    for a, b in set(_crowds(active, lambda n: sorted(of[n.row])[:SKETCH])):
        if (share := jaccard(of[a.row], of[b.row])) > JACCARD:
            out[_edge(a, b, "similar")] = share
    return {**out, **_near(cache, active)}


def _edge(a: Node, b: Node, kind: str) -> tuple[int, int, str]:
    return min(a.row, b.row), max(a.row, b.row), kind


def _crowds(
    active: list[Node], keys: Callable[[Node], Iterable[Hashable]]
) -> Iterator[tuple[Node, Node]]:
    """Pairs that have a key in common, the nearest in time."""
    members: dict[Hashable, list[Node]] = defaultdict(list)
    for node in active:
        for key in keys(node):
            members[key].append(node)
    for crowd in members.values():
        for at, node in enumerate(crowd):
            for other in crowd[at + 1 : at + 1 + WINDOW]:
                yield node, other


def _supersedes(cache: Cache, rows: set[int]) -> Edges:
    # By the memory that covers a version, not by its line: an edit since has another one.
    pairs = cache.db.execute(
        "SELECT n.row, o.row FROM memory o JOIN line l ON l.n = o.line"
        " JOIN effective_cover c ON c.version = l.version JOIN line b ON b.n = c.by"
        " JOIN memory n ON n.id = CAST(b.memory AS TEXT)"
        " WHERE o.status < 2 AND n.status < 2 AND n.id <> o.id"
    )
    return {(new, old, "supersedes"): 1.0 for new, old in pairs if {new, old} <= rows}


def _mentions(active: list[Node], words: dict[int, list[str]]) -> Edges:
    by_start: dict[str, list[Node]] = defaultdict(list)
    for node in active:
        by_start[node.id[: id_mentions.LEAST]].append(node)
    out: Edges = {}
    for node in active:
        for word in id_mentions.words(words[node.row]):
            named = [n for n in by_start[word[: id_mentions.LEAST]] if n.id.startswith(word)]
            if len({n.id for n in named}) == 1 and named[0].id != node.id:
                out[_edge(node, named[0], "mentions")] = 1.0
    return out


def runs(words: list[str]) -> frozenset[int]:
    """Hashes of all runs of three words, without stop words; a shorter text is one run."""
    # A CRC of like texts is alike; the product spreads it, so the smallest are a fair sample.
    starts = range(max(1, len(words) - RUN + 1) if words else 0)
    said = (" ".join(words[i : i + RUN]).encode("utf-8", "replace") for i in starts)
    return frozenset([crc32(run) * 0x9E3779B1 & 0xFFFFFFFF for run in said])


def jaccard(a: frozenset[Any], b: frozenset[Any]) -> float:
    return len(a & b) / len(a | b) if a or b else 0.0


def _near(cache: Cache, active: list[Node]) -> Edges:
    """Each memory chooses among the memories before it, so later ones change no choice."""
    kept = model_vectors.of(cache, SPACE, [n.row for n in active])[0]
    some = [n for n in active if n.row in kept]
    if len(some) < 2:
        return {}
    from ..engine import vectors

    dims = len(kept[some[0].row])
    blocks = vectors.near_pairs([kept[n.row] for n in some], dims, 0, NEAR_FROM, NEAR)
    return {_edge(some[i], some[j], "near"): near for _, block in blocks for i, j, near in block}


# Ranks and communities


def ranks(found: list[Node], links: Edges) -> tuple[dict[int, float], dict[int, int]]:
    """({row: PageRank, 1 on average}, {row: the row of highest rank in its community}).

    An edge `supersedes` gives rank from the old memory to the new one alone. Superseded
    memories without an edge are left out. Raises MemError where networkx is missing.
    """
    try:
        import networkx
        import scipy  # noqa: F401  # PageRank imports it only when it runs
    except ImportError as e:
        raise MemError(
            "ranks and communities need networkx and scipy, which are not installed",
            hint=f"`{sys.executable} -m pip install networkx scipy`;"
            " `git mem graph ID` works without them",
        ) from e
    linked = {row for a, b, _ in links for row in (a, b)}
    rows = sorted(node.row for node in found if node.active or node.row in linked)
    if not rows:
        return {}, {}
    weights: dict[tuple[int, int], float] = defaultdict(float)
    for (a, b, kind), weight in sorted(links.items()):
        weights[b, a] += STRENGTH[kind] * weight
        if kind != "supersedes":
            weights[a, b] += STRENGTH[kind] * weight
    graph = networkx.DiGraph()
    graph.add_nodes_from(rows)
    graph.add_weighted_edges_from((a, b, weight) for (a, b), weight in weights.items())
    rank = networkx.pagerank(graph, alpha=DAMPING)
    centre = {}
    both = graph.to_undirected()
    for group in networkx.community.louvain_communities(both, weight="weight", seed=0):
        first = min(group, key=lambda row: (-rank[row], row))
        centre.update(dict.fromkeys(group, first))
    return {row: value * len(rank) for row, value in rank.items()}, centre


# For readers


def overview(store: Store, kinds: Iterable[str], limit: int | None) -> dict[str, Any]:
    """Communities, the largest first; the first memories by rank, and the edges between them."""
    found, links = store.with_cache(_made)[0]
    rank, centre = ranks(found, links)
    by_row = {n.row: n for n in found}
    counts = Counter(kind for _, _, kind in links)
    order = sorted(rank, key=lambda row: (-rank[row], row))
    groups: dict[int, list[int]] = defaultdict(list)
    for row in order:
        groups[centre[row]].append(row)
    several = sorted((g for g in groups.values() if len(g) > 1), key=lambda g: (-len(g), g[0]))
    drawn = order[: limit or NODES]

    def shown(row: int) -> dict[str, Any]:
        community = by_row[centre[row]].shown["id"]
        return {**by_row[row].shown, "rank": round(rank[row], 3), "community": community}

    return {
        "memories": len({n.id for n in found if n.active}),
        "edges": {kind: counts[kind] for kind in kinds},
        "communities": [
            {
                "size": len(group),
                "paths": _common_paths([by_row[row] for row in group]),
                "central": [shown(row) for row in group[:CENTRAL]],
            }
            for group in several[: limit or COMMUNITIES]
        ],
        "single": len(groups) - len(several),
        "nodes": [shown(row) for row in drawn],
        "links": _links([by_row[row] for row in drawn], links, kinds),
    }


def around(store: Store, prefix: str, kinds: Iterable[str], limit: int | None) -> dict[str, Any]:
    """One memory, its neighbours with kinds and weights, strongest first, and all their links."""
    id, _ = store.with_cache(lambda cache: memories.full_id(cache, prefix))
    found, links = store.with_cache(_made)[0]
    by_row = {n.row: n for n in found}
    own = [n for n in found if n.id == id][:1]
    near: dict[int, dict[str, float]] = defaultdict(dict)
    strength: dict[int, float] = defaultdict(float)
    for (a, b, kind), weight in links.items():
        if kind in kinds and id in (by_row[a].id, by_row[b].id):
            newer = by_row[a].id == id
            other = b if newer else a
            name = "superseded by" if kind == "supersedes" and not newer else kind
            near[other][name] = round(weight, 3)
            strength[other] += STRENGTH[kind] * weight
    order = sorted(near, key=lambda row: (-strength[row], row))[: limit or NEIGHBOURS]
    return {
        **(own[0].shown if own else {"id": id}),
        "neighbours": [{**by_row[row].shown, "kinds": near[row]} for row in order],
        "more": len(near) - len(order),
        "links": _links([*own, *(by_row[row] for row in order)], links, kinds),
    }


def _made(cache: Cache) -> tuple[list[Node], Edges]:
    found = nodes(cache)
    return found, edges(cache, found)


def _common_paths(nodes: list[Node]) -> list[str]:
    counts = Counter(path for n in nodes for path in n.paths)
    named = [(-count, path) for path, count in counts.items() if count > 1]
    return [path for _, path in sorted(named)[:3]]


def _links(nodes: list[Node], links: Edges, kinds: Iterable[str]) -> list[dict[str, Any]]:
    ids = {n.row: n.shown["id"] for n in nodes}
    return [
        {"a": ids[a], "b": ids[b], "kind": kind, "weight": round(weight, 3)}
        for (a, b, kind), weight in sorted(links.items())
        if a in ids and b in ids and kind in kinds
    ]


def dot(nodes: list[dict[str, Any]], links: list[dict[str, Any]]) -> list[str]:
    """The lines of a drawing for Graphviz; `supersedes` has an arrow."""
    out = ["digraph memories {", "  node [shape=box, style=rounded];", "  edge [dir=none];"]
    for node in nodes:
        title = " ".join(node["title"].split())[:_LONG]
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
