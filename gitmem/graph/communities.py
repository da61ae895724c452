"""Communities by modularity (Louvain). Pure, plain Python, no chance.

Promise: the same graph gives the same division in every process: nodes are
taken in their order, ties go to the lower number. Every node is in exactly one
community; nodes without an edge are alone in theirs. `tests/test_pagerank.py`
compares the modularity with networkx.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    # For each node, by number, its neighbours and the weight of the edge; each edge stands on both
    # sides, an edge to itself once.
    Links = Sequence[Mapping[int, float]]

_SWEEPS = 20  # over all nodes, of one level
_LEVELS = 20
_GAIN = 1e-9  # of a move, as a share of all weight: less is rounding


def communities(links: Links, late: Callable[[], bool] = lambda: False) -> list[int]:
    """For each node the lowest number among the nodes of its community.

    `late` is asked after each sweep and ends the search with what was found so far.
    """
    level = links
    place = list(range(len(level)))  # of each node of the graph, its node of this level
    for _ in range(_LEVELS):
        found = _one_level(level, late)
        names = sorted(set(found))
        if len(names) == len(level):
            break
        number = {name: i for i, name in enumerate(names)}
        place = [number[found[at]] for at in place]
        level = _merged(level, [number[name] for name in found], len(names))
        if late():
            break
    first: dict[int, int] = {}
    for node, at in enumerate(place):
        first.setdefault(at, node)
    return [first[at] for at in place]


def _one_level(links: Links, late: Callable[[], bool]) -> list[int]:
    """For each node the community it ends in, when no single move makes the modularity better."""
    # An edge to itself counts at both of its ends.
    degree = [sum(out.values()) + out.get(node, 0.0) for node, out in enumerate(links)]
    total = sum(degree)
    at = list(range(len(links)))
    if total <= 0:
        return at
    weight = list(degree)  # of each community
    todo: Iterable[int] = range(len(links))
    for _ in range(_SWEEPS):
        again: set[int] = set()  # whose neighbours moved: for others nothing has changed, or hardly
        for node in todo:
            out = links[node]
            own = at[node]
            to: dict[int, float] = {own: 0.0}
            for other, w in out.items():
                if other != node:
                    to[at[other]] = to.get(at[other], 0.0) + w
            weight[own] -= degree[node]
            share = degree[node] / total
            best, most = own, to[own] - weight[own] * share
            for name, w in to.items():
                gain = w - weight[name] * share
                if gain > most + _GAIN * total or (
                    gain > most - _GAIN * total and name < best and name != own and best != own
                ):
                    best, most = name, gain
            weight[best] += degree[node]
            if best != own:
                at[node] = best
                again.update([other for other in out if at[other] != best])
        if not again or late():
            break
        todo = sorted(again)
    return at


def _merged(links: Links, number: Sequence[int], count: int) -> list[dict[int, float]]:
    """The graph whose nodes are the communities; the weight within one becomes an edge to
    itself."""
    out: list[dict[int, float]] = [{} for _ in range(count)]
    for node, some in enumerate(links):
        a = number[node]
        for other, w in some.items():
            b = number[other]
            # Each inner edge is met from both of its sides.
            out[a][b] = out[a].get(b, 0.0) + (w / 2 if a == b and other != node else w)
    return out
