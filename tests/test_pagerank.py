"""PageRank and communities against networkx, and what must hold for any graph."""

from __future__ import annotations

import random
from typing import Any

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from gitmem.graph.communities import communities
from gitmem.graph.pagerank import DAMPING, ROUNDS, pagerank

Links = list[dict[int, float]]

pairs = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), st.floats(0.01, 5)), max_size=40)


def undirected(n: int, found: list[tuple[int, int, float]]) -> Links:
    out: Links = [{} for _ in range(n)]
    for a, b, w in found:
        out[a][b] = out[b][a] = w
    return out


def directed(n: int, found: list[tuple[int, int, float]]) -> Links:
    out: Links = [{} for _ in range(n)]
    for a, b, w in found:
        out[a][b] = w
    return out


def graphs() -> list[Any]:
    """Graphs of all kinds: known ones, chance, a path, two halves, a star, directed with dead ends,
    weighted, no edge.
    """
    rng = random.Random(5)
    weighted = nx.gnp_random_graph(80, 0.1, seed=4)
    for _, _, data in weighted.edges(data=True):
        data["weight"] = rng.random()
    return [
        nx.karate_club_graph(),
        nx.les_miserables_graph(),
        nx.relaxed_caveman_graph(20, 8, 0.1, seed=1),
        nx.gnp_random_graph(200, 0.03, seed=2),
        nx.path_graph(6),
        nx.disjoint_union(nx.complete_graph(5), nx.cycle_graph(9)),
        nx.star_graph(40),
        nx.gnp_random_graph(100, 0.02, seed=3, directed=True),
        weighted,
        nx.empty_graph(5),
    ]


def links_of(graph: Any) -> Links:
    number = {node: i for i, node in enumerate(graph)}
    found = [
        (number[a], number[b], float(data.get("weight", 1.0)))
        for a, b, data in graph.edges(data=True)
    ]
    return (directed if graph.is_directed() else undirected)(len(number), found)


def test_ranks_are_those_of_networkx() -> None:
    # Its google matrix, solved by linear algebra: nothing of the iteration is shared, and scipy is
    # not needed.
    import numpy as np

    for graph in graphs():
        matrix = np.asarray(nx.google_matrix(graph, alpha=DAMPING))
        n = len(matrix)
        wanted = np.linalg.lstsq(
            np.vstack([matrix.T - np.eye(n), np.ones(n)]), np.array([0.0] * n + [1.0]), rcond=None
        )[0]
        ranks, rounds = pagerank(links_of(graph))
        assert rounds < ROUNDS
        assert float(np.abs(np.array(ranks) - wanted).sum()) < 6e-6


@given(pairs)
def test_ranks_are_positive_and_add_up_to_one(found: list[tuple[int, int, float]]) -> None:
    ranks, _ = pagerank(directed(12, found))
    assert min(ranks) > 0
    assert abs(sum(ranks) - 1) < 1e-9


@given(pairs, st.lists(st.floats(0, 10), min_size=12, max_size=12))
def test_former_ranks_change_the_way_and_not_the_end(
    found: list[tuple[int, int, float]], start: list[float]
) -> None:
    links = directed(12, found)
    assert (
        max(
            abs(a - b)
            for a, b in zip(pagerank(links)[0], pagerank(links, start=start)[0], strict=True)
        )
        < 2e-5
    )


def test_it_converges_within_the_bound_where_it_is_slowest() -> None:
    # Two nodes that lead to each other, all rank on one of them: each iteration leaves 0.85 of the
    # difference.
    links: Links = [{1: 1.0}, {0: 1.0}]
    ranks, rounds = pagerank(links, start=[1.0, 0.0])
    assert abs(ranks[0] - 0.5) < 6e-6
    assert 80 < rounds < ROUNDS
    # The thirty iterations of seed 002 leave nearly one part in two hundred here.
    early, _ = pagerank(links, start=[1.0, 0.0], rounds=30)
    assert abs(early[0] - 0.5) > 0.003


def test_no_node_no_rank_and_a_weight_of_zero_is_no_edge() -> None:
    assert pagerank([]) == ([], 0)
    assert pagerank([{1: 0.0}, {}])[0] == [0.5, 0.5]


def test_a_node_without_an_edge_out_gives_to_all() -> None:
    ranks, _ = pagerank([{1: 1.0}, {}, {}])
    assert ranks[1] > ranks[0] == ranks[2]


# --- communities ------------------------------------------------------------


def parts(at: list[int]) -> list[set[int]]:
    out: dict[int, set[int]] = {}
    for node, name in enumerate(at):
        out.setdefault(name, set()).add(node)
    return list(out.values())


def modularity(links: list[dict[int, float]], at: list[int]) -> float:
    """How much more weight lies within communities than chance would put there: below 0 to nearly
    1; 0 where there is no edge.
    """
    degree = [sum(out.values()) + out.get(node, 0.0) for node, out in enumerate(links)]
    total = sum(degree)
    if total <= 0:
        return 0.0
    inner: dict[int, float] = {}
    weight: dict[int, float] = {}
    for node, out in enumerate(links):
        weight[at[node]] = weight.get(at[node], 0.0) + degree[node]
        for other, w in out.items():
            if at[other] == at[node]:
                inner[at[node]] = inner.get(at[node], 0.0) + (2 * w if other == node else w)
    return sum([inner.get(name, 0.0) / total - (weight[name] / total) ** 2 for name in weight])


def test_modularity_is_that_of_networkx_and_as_good_as_its_own_search() -> None:
    for graph in graphs():
        if graph.is_directed() or not graph.number_of_edges():
            continue
        links, nodes = links_of(graph), list(graph)
        at = communities(links)
        reached = modularity(links, at)
        assert (
            abs(
                reached
                - nx.community.modularity(graph, [{nodes[i] for i in part} for part in parts(at)])
            )
            < 1e-9
        )
        best = max(
            nx.community.modularity(graph, nx.community.louvain_communities(graph, seed=seed))
            for seed in range(5)
        )
        assert reached > best - 0.045, (graph, reached, best)
        greedy = nx.community.modularity(
            graph, nx.community.greedy_modularity_communities(graph, weight="weight")
        )
        assert reached > greedy - 0.01


@given(pairs)
def test_every_node_is_in_one_community_named_after_its_first(
    found: list[tuple[int, int, float]],
) -> None:
    links = undirected(12, found)
    at = communities(links)
    assert at == communities(links)
    assert all(min(part) == at[min(part)] for part in parts(at))
    alone = list(range(12))
    assert modularity(links, at) >= modularity(links, alone) - 1e-9


def test_two_cliques_with_a_bridge_are_two_communities() -> None:
    inside = [
        (a, b, 1.0) for side in (0, 4) for a in range(side, side + 4) for b in range(a) if b >= side
    ]
    assert communities(undirected(9, [*inside, (3, 4, 1.0)])) == [0, 0, 0, 0, 4, 4, 4, 4, 8]


def test_it_ends_when_time_is_up_with_what_it_has() -> None:
    links = undirected(40, [(a, (a + 1) % 40, 1.0) for a in range(40)])
    assert len(communities(links, lambda: True)) == 40
