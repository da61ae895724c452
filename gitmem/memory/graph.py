"""The graph of memories, made when somebody asks: edges, ranks, communities.

| kind | between | weight |
|---|---|---|
| supersedes | a memory and the one that it replaced | 1 |
| mentions | a memory and one whose id stands in its text | 1 |
| session | memories of one agent's session | 1 |
| file | memories that name the same file | common paths as a share of all, from FILES_FROM |
| similar | texts with common runs of three words | Jaccard of the runs, above JACCARD |
| near | a text and the NEAR nearest in meaning before it | cosine of the vectors, from NEAR_FROM |
| time | two memories of one author within half an hour | 1 falling to 0 |

Promise: a weight depends on the two memories alone. Of a file, a session or a run of words that
many share, each memory is linked with the WINDOW before and behind it in time, so 10,000 memories
of one file make 40,000 edges. Like texts are found through sketches, which miss 6 % of the
pairs with a Jaccard of 0.3 and 0.4 % of those with 0.5. The newest MOST memories take part;
nothing is stored. Only ranks and communities need networkx (the extra `graph`).
"""

from __future__ import annotations

import datetime
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

from ..core import id_mentions, record, text
from ..core.errors import MemError
from ..engine import document, memory_rows
from ..engine.cache import Cache
from ..engine.document import ACTIVE

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
    "time": 0.25,
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
CLOSE = 30 * 60  # seconds; commits of one piece of work are closer
TYPED = 3  # more memories of one author and second were imported, and say nothing about time


class Node(NamedTuple):
    """One row of the cache, as edges need it."""

    row: int
    id: str
    title: str
    type: str
    active: bool
    at: str
    author: str
    session: str
    paths: frozenset[str]
    text: str


def nodes(cache: Cache) -> list[Node]:
    """The newest MOST memories that are not forgotten, the oldest first."""
    newest = cache.db.execute(
        "SELECT row, id, at, author FROM memory WHERE status < 2 AND nth = 0"
        " ORDER BY at DESC, row DESC LIMIT ?",
        (MOST,),
    ).fetchall()[::-1]
    loaded = memory_rows.load(cache, [row for row, *_ in newest])
    return [
        Node(
            row,
            id,
            record.clean(record.title_of(data)),
            memory_rows.word(data.get("type")) or record.DEFAULT_TYPE,
            status == ACTIVE,
            at,
            author,
            (memory_rows.word(data.get("session")) or "").strip(),
            frozenset(document.paths_of(data)),
            document.vector_text(data),
        )
        for (row, id, at, author), (data, _, status) in zip(newest, loaded, strict=True)
    ]


# Edges


def edges(cache: Cache, found: list[Node]) -> Edges:
    """All edges among these nodes, which stand in the order of time."""
    active = [n for n in found if n.active]
    words = {n.row: text.terms(n.text) for n in active}
    files = {
        _edge(a, b, "file"): len(a.paths & b.paths) / len(a.paths | b.paths)
        for a, b in _crowds(active, lambda n: n.paths)
    }
    return {
        **{
            _edge(a, b, "session"): 1.0
            for a, b in _crowds(active, lambda n: [n.session] if n.session else [])
        },
        **{pair: share for pair, share in files.items() if share >= FILES_FROM},
        **_supersedes(cache, {n.row for n in found}),
        **_mentions(active, words),
        **_similar(active, words),
        **_near(cache, active),
        **_time(active),
    }


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
        " JOIN cover c ON c.version = l.version JOIN line b ON b.n = c.by"
        " JOIN memory n ON n.id = CAST(b.memory AS TEXT)"
        " WHERE o.status < 2 AND n.status < 2 AND n.id <> o.id"
    )
    return {(new, old, "supersedes"): 1.0 for new, old in pairs if {new, old} <= rows}


def _mentions(active: list[Node], words: dict[int, list[str]]) -> Edges:
    by_start: dict[str, list[Node]] = defaultdict(list)
    for node in active:
        by_start[node.id[: id_mentions.LEAST].lower()].append(node)
    out: Edges = {}
    for node in active:
        for word in id_mentions.words(words[node.row]):
            starting = by_start[word[: id_mentions.LEAST]]
            named = {n.id: n for n in starting if n.id.lower().startswith(word)}
            if len(named) == 1 and node.id not in named and id_mentions.named(node.text, named):
                (other,) = named.values()
                out[_edge(node, other, "mentions")] = 1.0
    return out


def runs(words: list[str]) -> frozenset[int]:
    """Hashes of all runs of three words, without stop words; a shorter text is one run."""
    # A CRC of like texts is alike; the product spreads it, so the smallest are a fair sample.
    starts = range(max(1, len(words) - RUN + 1) if words else 0)
    said = (" ".join(words[i : i + RUN]).encode("utf-8", "replace") for i in starts)
    return frozenset([crc32(run) * 0x9E3779B1 & 0xFFFFFFFF for run in said])


def jaccard(a: frozenset[int], b: frozenset[int]) -> float:
    return len(a & b) / len(a | b) if a or b else 0.0


def _similar(active: list[Node], words: dict[int, list[str]]) -> Edges:
    """Texts with an entry of their sketches in common are compared."""
    of = {row: runs(said) for row, said in words.items()}
    pairs = set(_crowds(active, lambda n: sorted(of[n.row])[:SKETCH]))
    shares = {_edge(a, b, "similar"): jaccard(of[a.row], of[b.row]) for a, b in pairs}
    return {pair: share for pair, share in shares.items() if share > JACCARD}


def _near(cache: Cache, active: list[Node]) -> Edges:
    """Each memory chooses among the memories before it, so later ones change no choice."""
    kept = cache.vectors([n.row for n in active])
    some = [n for n in active if n.row in kept]
    if len(some) < 2:
        return {}
    from ..engine import vectors

    dims = len(kept[some[0].row])
    blocks = vectors.near_pairs([kept[n.row] for n in some], dims, 0, NEAR_FROM, NEAR)
    pairs = (pair for _, block in blocks for pair in block)
    return {_edge(some[i], some[j], "near"): cosine for i, j, cosine in pairs}


def _time(active: list[Node]) -> Edges:
    """An author's memories that follow each other."""
    typed = Counter((n.author, n.at) for n in active)
    last: dict[str, tuple[float, Node]] = {}
    out: Edges = {}
    for node in active:
        at = _seconds(node.at)
        if at is None or typed[node.author, node.at] > TYPED:
            continue
        before, other = last.get(node.author, (at - CLOSE, node))
        if at - before < CLOSE:
            out[_edge(node, other, "time")] = 1 - (at - before) / CLOSE
        last[node.author] = at, node
    return out


def _seconds(at: str) -> float | None:
    """Seconds since 1970; None for a time that another tool wrote otherwise."""
    try:
        return datetime.datetime.fromisoformat(at).timestamp() if at.endswith("Z") else None
    except (ValueError, OverflowError):
        return None


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
            hint="`pip install 'git-mem[graph]'`; `git mem graph ID` works without them",
        ) from e
    linked = {row for a, b, _ in links for row in (a, b)}
    directed, both = networkx.DiGraph(), networkx.Graph()
    rows = [node.row for node in sorted(found) if node.active or node.row in linked]
    directed.add_nodes_from(rows)
    both.add_nodes_from(rows)
    for (a, b, kind), weight in sorted(links.items()):
        strength = STRENGTH[kind] * weight
        _add(both, a, b, strength)
        _add(directed, b, a, strength)
        if kind != "supersedes":
            _add(directed, a, b, strength)
    if not rows:
        return {}, {}
    rank = networkx.pagerank(directed, alpha=DAMPING)
    centre = {}
    for group in networkx.community.louvain_communities(both, weight="weight", seed=0):
        first = min(group, key=lambda row: (-rank[row], row))
        centre.update(dict.fromkeys(group, first))
    return {row: value * len(rank) for row, value in rank.items()}, centre


def _add(graph: Any, a: int, b: int, strength: float) -> None:
    before = graph[a][b]["weight"] if graph.has_edge(a, b) else 0.0
    graph.add_edge(a, b, weight=before + strength)
