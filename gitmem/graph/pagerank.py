"""PageRank by power iteration, and what its numbers may be used for. Pure, plain Python.

Promise: the ranks of all nodes are positive and add up to 1; the same graph
gives the same numbers in every process; `tests/test_pagerank.py` compares them
with networkx. A rank says how well a memory is connected, nothing about a
question: it is 1/n in the middle, so it is never compared with or added to a
score of a search (an added one lets everything match everything).

Cost: an edge is looked at twice an iteration, some 0.1 microseconds each time.
"""

from __future__ import annotations

from array import array
from operator import mul

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    # For each node, by number, the nodes it leads to and how strongly.
    Links = Sequence[Mapping[int, float]]

DAMPING = 0.85
# The sum of all changes in one iteration below which the ranks stand; what is left then is at most
# six times as much. An iteration leaves at most DAMPING of the change before, and the first one is
# 2 at most: 2 * 0.85 ** 90 is 9e-7, so no graph needs more than ROUNDS. Thirty, as seed 002 has it,
# leave up to 1.5 %.
TOLERANCE = 1e-6
ROUNDS = 92


def pagerank(
    links: Links,
    *,
    damping: float = DAMPING,
    tolerance: float = TOLERANCE,
    rounds: int = ROUNDS,
    start: Sequence[float] | None = None,
) -> tuple[list[float], int]:
    """(rank of every node, iterations it took); the iterations are `rounds` where it did not
    converge.

    A node gives its rank to those it leads to, by their weights; one that leads
    nowhere gives it to all alike. Weights that are not above zero count as none.
    `start`: former ranks to begin with, of any sum; what is reached is the same.
    """
    n = len(links)
    if not n:
        return [], 0
    # From which nodes, and what part of their rank; arrays, since a tuple an edge would be 100 MB
    # for a million.
    into = [(array("L"), array("d")) for _ in range(n)]
    dangling = []
    for node, out in enumerate(links):
        total = sum([w for w in out.values() if w > 0])
        if not total:
            dangling.append(node)
            continue
        share = damping / total
        for other, w in out.items():
            if w > 0:
                into[other][0].append(node)
                into[other][1].append(w * share)
    ranks = _normal(start, n)
    for done in range(1, rounds + 1):
        # What a jump gives, and the ranks of those that lead nowhere.
        base = (1 - damping + damping * sum([ranks[node] for node in dangling])) / n
        rank_of = ranks.__getitem__
        new = [base + sum(map(mul, map(rank_of, nodes), shares)) for nodes, shares in into]
        change = sum([abs(a - b) for a, b in zip(new, ranks, strict=True)])
        ranks = new
        if change < tolerance:
            return ranks, done
    return ranks, rounds


def _normal(start: Sequence[float] | None, n: int) -> list[float]:
    total = sum(start) if start else 0.0
    if start is None or len(start) != n or not total > 0 or min(start) < 0:
        return [1 / n] * n
    return [value / total for value in start]
