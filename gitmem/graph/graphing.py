"""Keeps the graph of memories in the cache up to date, in the background.

Promises. Incremental: only rows that are new since the last call are looked at
(`edges.Finder`); a memory that changed has a new row, one that is gone took its
edges along (`update`). Bounded: at the end of its time it stops, what was found
is kept, and the next call goes on there. Ranks and communities follow the edges
at once in a small store; in a large one when enough has changed, since they cost
a pass over all edges. Nothing is asked of git; everything can be made again.
"""

from __future__ import annotations

import time

from . import communities, edges, pagerank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..engine.cache import Cache

    Links = list[dict[int, float]]

BACKGROUND = 60.0  # seconds a worker spends on edges, and again on ranks
SMALL = 3_000  # memories up to which ranks follow every change
DUE = 0.02  # share of memories that came or went, from which ranks of more are made anew
# How much a rank and a community follow an edge of each kind, by its weight: what somebody said,
# then what was done together, then likeness.
STRENGTH = {
    edges.SUPERSEDES: 1.0,
    edges.MENTIONS: 1.0,
    edges.SESSION: 0.5,
    edges.FILE: 0.5,
    edges.SIMILAR: 1.0,
    edges.NEARBY: 0.5,
    edges.TIME: 0.25,
}
_FIRST, _BATCH = 500, 5_000  # rows whose edges are found and written at a time
_WAIT = 2.0  # seconds to wait for others who write to the cache


def catch_up(cache: Cache, seconds: float = BACKGROUND, *, whole: bool = False) -> bool:
    """Brings edges, ranks and communities up to date; False where time was up, or nothing can be
    written now. `whole`: ranks, too, whatever little has changed.
    """
    if not cache.writable:
        return False
    end = time.monotonic() + seconds
    done = _edges(cache, end)
    if done and due(cache, 0.0 if whole else DUE):
        end = time.monotonic() + seconds
        done = rank(cache, lambda: time.monotonic() > end)
    return done


def tend(cache: Cache, wanted: bool) -> bool:
    """The worker's part: nothing where no setting asks for the graph and nobody has looked at it
    since the cache was made.
    """
    return cache.how == "file" and (wanted or cache.meta("graph") != "") and catch_up(cache)


def pending(cache: Cache) -> int:
    """Rows whose edges are not known yet."""
    (count,) = cache.db.execute(
        "SELECT count(*) FROM memory WHERE row >= ? AND status < 2",
        (int(cache.meta("graph", "0")),),
    ).fetchone()
    return int(count)


def _edges(cache: Cache, end: float) -> bool:
    finder: edges.Finder | None = None
    size = _FIRST
    while True:
        start = int(cache.meta("graph", "0"))
        rows = [
            row
            for (row,) in cache.db.execute(
                "SELECT row FROM memory WHERE row >= ? AND status < 2 ORDER BY row LIMIT ?",
                (start, size),
            )
        ]
        if not rows:
            return True
        if time.monotonic() > end:
            return False
        finder = finder or edges.Finder(cache)
        found, sketches = finder.edges(rows)
        if not cache.keep(_WAIT, _writer(cache, found, sketches, rows[-1] + 1)):
            return False
        size = _BATCH


def _writer(
    cache: Cache, found: edges.Edges, sketches: list[tuple[int, bytes, int]], upto: int
) -> Callable[[object], None]:
    def write(_: object) -> None:
        # A row that went since it was read is not there again: numbers are given once.
        cache.db.executemany(
            "INSERT OR REPLACE INTO edge SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM memory"
            " WHERE row = ?1) AND EXISTS (SELECT 1 FROM memory WHERE row = ?2)",
            [(a, b, kind, weight) for (a, b, kind), weight in sorted(found.items())],
        )
        cache.db.executemany(
            "INSERT OR REPLACE INTO sketch SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM memory"
            " WHERE row = ?1)",
            sketches,
        )
        cache.set_meta("graph", str(max(upto, int(cache.meta("graph", "0")))))

    return write


# --- ranks and communities -----------------------------------------------------


def due(cache: Cache, share: float = DUE) -> bool:
    """Whether more than this share came or went since ranks were made; in a small store
    anything."""
    ranked = int(cache.meta("graph:ranked", "-1"))
    if ranked < 0:
        return True
    new, left = (
        int(cache.db.execute(sql).fetchone()[0])
        for sql in (
            f"SELECT count(*) FROM memory WHERE row >= {ranked} AND status < 2",
            "SELECT count(*) FROM rank",
        )
    )
    changed = new + int(cache.meta("graph:nodes", "0")) - left
    return changed > (0 if left <= SMALL else share * left)


def links(cache: Cache, rows: Iterable[int] | None = None) -> tuple[list[int], Links, Links]:
    """(rows, their links for ranks, their links for communities), of all memories or of some.

    Nodes are numbered in the order of `rows`: active memories, and superseded ones that have an
    edge. In the first an edge `supersedes` leads from the old memory to the new one alone: what was
    worth something makes its successor worth more."""
    chosen = (
        sorted(rows)
        if rows is not None
        else [
            row
            for (row,) in cache.db.execute(
                "SELECT row FROM memory WHERE status = 0 OR row IN (SELECT b FROM edge WHERE kind ="
                " 0) ORDER BY row"
            )
        ]
    )
    number = {row: i for i, row in enumerate(chosen)}
    both: Links = [{} for _ in chosen]
    replaced = []
    for a, b, kind, weight in cache.db.execute("SELECT a, b, kind, weight FROM edge"):
        if a in number and b in number:
            i, j = number[a], number[b]
            w = STRENGTH.get(kind, 0.0) * weight
            both[i][j] = both[j][i] = both[i].get(j, 0.0) + w
            if kind == edges.SUPERSEDES:
                replaced.append((i, j, w))
    ranked = list(both)  # the same links, but of those that replaced another
    for i, j, w in replaced:
        ranked[i] = dict(ranked[i])
        ranked[i][j] -= w
    return chosen, ranked, both


def rank(cache: Cache, late: Callable[[], bool] = lambda: False) -> bool:
    """Makes ranks and communities anew; False where they could not be kept."""
    upto = cache.meta("rows", "0")
    before = dict(cache.db.execute("SELECT row, value FROM rank"))
    rows, ranked, both = links(cache)
    start = [before.get(row, 1.0) for row in rows] if before else None
    values, _ = pagerank.pagerank(ranked, start=start)
    found = communities.communities(both, late)
    best: dict[
        int, int
    ] = {}  # the centre of each community: its highest rank, the oldest of equals
    for node, name in enumerate(found):
        if name not in best or values[node] > values[best[name]] + 1e-12:
            best[name] = node
    # A value of 1 is the average, so it says the same in stores of any size.
    new = [
        (row, round(values[i] * len(rows), 6), rows[best[found[i]]]) for i, row in enumerate(rows)
    ]

    def write(_: object) -> None:
        cache.db.execute("DELETE FROM rank")
        cache.db.executemany(
            "INSERT INTO rank SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM memory WHERE row = ?1)",
            new,
        )
        cache.set_meta("graph:ranked", upto)
        cache.set_meta("graph:nodes", str(len(new)))

    return cache.keep(_WAIT, write)
