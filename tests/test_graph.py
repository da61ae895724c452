"""The graph of memories: which edges there are, and that ranks and communities admit nothing."""

from __future__ import annotations

import json
import pathlib
import random
import re
import sys
from typing import Any

import pytest
from conftest import Lab
from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st

from gitmem.core import record, record_content
from gitmem.engine import cache as cache_file
from gitmem.engine import embed
from gitmem.engine.update import Update, batch_of
from gitmem.memory import graph

TABLE = embed.StaticTable()
LONG = (
    "the nightly export of invoices waits until every warehouse has sent its numbers because a late"
    " one would be missing for a month"
)


def fields(body: str, minute: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "body": body,
        "author": "Ada <ada@example.org>",
        "at": f"2026-01-{1 + minute // 1440:02}T{minute // 60 % 24:02}:{minute % 60:02}:00Z",
        **more,
    }


class World:
    """A cache in memory; memories by name."""

    def __init__(self) -> None:
        self.cache = cache_file.open_in_memory()
        self.ids: dict[str, str] = {}
        self.records: dict[str, record.Record] = {}

    def add(self, *named: tuple[str, dict[str, Any]]) -> None:
        lines = []
        for name, said in named:
            more = {"at": said["at"], **{k: said[k] for k in ("after", "supersedes") if k in said}}
            given = {k: v for k, v in said.items() if k not in more}
            content = record_content.checked({"source": f"test:{name}", **given})
            line = record.dump(record.create(content, **more))
            self.records[name] = parsed(line)
            self.ids[name] = self.records[name].id
            lines.append(line)
        self.take(*lines)

    def take(self, *lines: bytes) -> None:
        with self.cache.writing(1):
            update = Update(self.cache, TABLE, None)
            update.take(batch_of(("", line, 1) for line in lines))
            update.finish()

    def edges(self, kind: str = "") -> dict[tuple[str, str, str], float]:
        """{(name, name, kind): weight}, names in order, except for `supersedes`."""
        nodes = graph.nodes(self.cache)
        names = {id: name for name, id in self.ids.items()}
        of = {n.row: names[n.id] for n in nodes}
        out = {}
        for (a, b, found), weight in graph.edges(self.cache, nodes).items():
            if kind in ("", found):
                one, other = (of[a], of[b])
                if found != "supersedes":
                    one, other = sorted((one, other))
                out[one, other, found] = round(weight, 4)
        return out

    def ranks(self) -> tuple[dict[str, float], dict[str, str]]:
        """(rank, centre of the community) by name."""
        nodes = graph.nodes(self.cache)
        rank, centre = graph.ranks(nodes, graph.edges(self.cache, nodes))
        names = {id: name for name, id in self.ids.items()}
        of = {n.row: names[n.id] for n in nodes}
        return (
            {of[row]: value for row, value in rank.items()},
            {of[row]: of[to] for row, to in centre.items()},
        )


def parsed(line: bytes) -> record.Record:
    found = record.parse(line)
    assert found
    return found


@pytest.fixture
def world() -> World:
    return World()


# Which edges


def test_memories_of_one_file_are_linked_by_the_share_of_their_common_files(world: World) -> None:
    world.add(
        ("a", fields("alpha", paths=["x.py", "y.py"])),
        ("b", fields("beta", 100, paths=["x.py"])),
        ("c", fields("gamma", 200, paths=["z.py"])),
    )
    assert world.edges("file") == {("a", "b", "file"): 0.5}


def test_a_commit_over_the_whole_tree_is_not_beside_every_file(world: World) -> None:
    world.add(
        ("a", fields("alpha", paths=[f"f{i}.py" for i in range(200)])),
        ("b", fields("beta", 100, paths=["f7.py"])),
    )
    assert world.edges("file") == {}


def test_what_one_session_said_is_linked(world: World) -> None:
    world.add(
        ("a", fields("alpha", session="s1")),
        ("b", fields("beta", 500, session="s1")),
        ("c", fields("gamma", 1000, session="s2")),
        ("d", fields("delta", 2000)),
        ("e", fields("epsilon", 3000)),
    )
    assert world.edges("session") == {("a", "b", "session"): 1.0}


def test_like_texts_are_linked_by_common_runs_of_three_words_without_stop_words(
    world: World,
) -> None:
    same = (
        "The nightly export of the invoices waits until every warehouse has sent its numbers,"
        " because a late one would be missing for one more month"
    )
    world.add(
        ("a", fields(LONG)),
        ("b", fields(same, 100)),
        (
            "c",
            fields("numbers missing month warehouse invoices export late nightly waits sent", 200),
        ),
    )
    found = world.edges("similar")
    assert list(found) == [("a", "b", "similar")]
    assert found["a", "b", "similar"] > graph.JACCARD


def test_like_meaning_is_linked(world: World) -> None:
    world.add(
        ("a", fields("The parser must not recurse, since nested input overflowed the stack")),
        ("b", fields("Recursion in the parser overflowed the stack on nested input", 100)),
        ("c", fields("Invoices are sent by post", 200)),
    )
    assert list(world.edges("near")) == [("a", "b", "near")]


def test_the_threshold_is_above_three_tenths() -> None:
    a, b = frozenset(range(13)), frozenset(range(7, 20))
    assert graph.jaccard(a, b) == graph.JACCARD  # 6 of 20: not linked
    assert graph.jaccard(frozenset(), frozenset()) == 0


def test_many_memories_of_one_file_are_linked_with_those_beside_them_in_time(world: World) -> None:
    world.add(*[(str(i), fields(f"{i}", i, paths=["README.md"])) for i in range(500)])
    found = world.edges("file")
    assert len(found) == graph.WINDOW * 500 - sum(range(1, graph.WINDOW + 1))
    assert max(abs(int(a) - int(b)) for a, b, _ in found) == graph.WINDOW


def test_a_memory_that_names_the_id_of_another_is_linked(world: World) -> None:
    world.add(("a", fields("alpha")))
    id = world.ids["a"]
    world.add(
        ("b", fields(f"as {id[:10]} says, no", 900)),
        ("c", fields(f"see {id[:8]}, and deadbeef99, which is nobody", 1800)),
    )
    assert set(world.edges("mentions")) == {("a", "b", "mentions"), ("a", "c", "mentions")}


def test_what_superseded_is_linked_and_ranked_higher_also_after_an_edit(world: World) -> None:
    world.add(("old", fields("alpha")))
    old = world.records["old"]
    world.add(("new", fields("beta", 1000, after=[old.version], supersedes=[old.id])))
    new = world.records["new"]
    assert world.edges() == {("new", "old", "supersedes"): 1.0}
    rank, centre = world.ranks()
    assert rank["new"] > rank["old"] and set(centre.values()) == {"new"}
    content = record_content.checked(
        {"body": "beta, as is known now", "source": "test:new", "author": "x"}
    )
    world.take(record.dump(record.edit(new.id, content, [new.version], at="2026-02-01T00:00:00Z")))
    assert world.edges() == {("new", "old", "supersedes"): 1.0}


def test_two_versions_of_one_memory_are_no_two_memories(world: World) -> None:
    world.add(("a", fields(LONG, paths=["x.py"])))
    seen = [world.records["a"].version]
    for word in ("first", "second"):
        content = record_content.checked({"body": f"{LONG} {word}", "paths": ["x.py"]})
        edited = record.edit(world.ids["a"], content, seen, at="2026-01-02T00:00:00Z")
        world.take(record.dump(edited))
    assert world.cache.count() == 2
    assert world.edges() == {}


def test_nothing_is_drawn_of_a_forgotten_memory(world: World) -> None:
    world.add(*bodies(1, 6))
    assert any("m2" in pair for pair in world.edges())
    world.take(record.dump(record.about("forget", world.ids["m2"], [world.records["m2"].version])))
    assert not any("m2" in pair for pair in world.edges())
    assert "m2" not in world.ranks()[0]


def test_records_of_any_shape_stop_nothing(world: World) -> None:
    lines = [
        {"v": 1, "op": "create", "id": f"id{i}", "body": "x", **odd}
        for i, odd in enumerate(
            [
                {"session": ["s"], "paths": [{"path": 3}, "p"], "at": 5},
                {"session": 7, "at": "yesterday"},
                {"at": "9999-99-99T99:99:99Z", "author": 3},
                {"at": "0001-01-01T00:00:00Z", "author": "A"},
                {"at": "9999-12-31T23:59:59Z", "author": "A", "title": ["t"]},
                {"body": "\ud800 lone"},
                {"body": ""},
            ]
        )
    ]
    world.take(*[json.dumps(line).encode() for line in lines])
    nodes = graph.nodes(world.cache)
    assert len(graph.ranks(nodes, graph.edges(world.cache, nodes))[0]) == len(lines)


def bodies(seed: int, count: int) -> list[tuple[str, dict[str, Any]]]:
    rng = random.Random(seed)
    words = LONG.split()
    return [
        (
            f"m{i}",
            fields(
                " ".join(words[rng.randrange(4) :][: rng.randint(8, 20)]) + f" {rng.choice('pqr')}",
                20 * i + 1,
                paths=rng.sample(["a", "b", "c", "d", "e"], rng.randint(0, 2)),
                session=rng.choice(["", "s", "t"]),
            ),
        )
        for i in range(count)
    ]


@settings(max_examples=15, deadline=None)
@given_any(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_the_order_of_arrival_makes_no_difference(seed: int, rng: random.Random) -> None:
    memories = bodies(seed, 5)
    once, portions = World(), World()
    once.add(*memories)
    rng.shuffle(memories)
    for memory in memories:
        portions.add(memory)
    assert once.edges() == portions.edges()


# Ranks and communities


def test_two_cliques_are_two_communities_named_after_their_best_connected(world: World) -> None:
    first = [(f"a{i}", fields(f"alpha {i}", 100 * i, paths=["a.py"])) for i in range(5)]
    second = [(f"b{i}", fields(f"beta {i}", 100 * i + 50, paths=["b.py"])) for i in range(5)]
    bridge = [("b9", fields("gamma", 5000, paths=["b.py", "a.py"]))]
    world.add(*first, *second, *bridge)
    rank, centre = world.ranks()
    assert abs(sum(rank.values()) - len(rank)) < 1e-3  # 1 on average
    groups = [{n for n in centre if centre[n] == to} for to in sorted(set(centre.values()))]
    assert sorted(map(len, groups)) == [5, 6]
    for name, to in centre.items():
        assert rank[name] <= rank[to]
    assert world.ranks() == (rank, centre)


def test_no_memory_has_no_rank(world: World) -> None:
    assert world.ranks() == ({}, {})


# In a repository


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    made = lab.repo()
    rows = [
        {
            "body": f"{LONG}, part {i}",
            "paths": ["f0.txt"],
            "source": str(i),
            "created_at": f"2026-01-02T0{i}:00:00Z",
        }
        for i in range(4)
    ]
    rows.append(
        {
            "body": 'A "title" \\N with \x1b[31m "]; digraph x {\nand more',
            "paths": ["f0.txt"],
            "source": "odd",
        }
    )
    lab.mem(made, "remember", "--jsonl", "-", stdin="\n".join(map(json.dumps, rows)))
    return made


def test_text_json_and_exit_codes(lab: Lab, repo: pathlib.Path) -> None:
    text = lab.mem(repo, "graph")
    assert "5 memories, edges: " in text and "f0.txt" in text and "\x1b" not in text
    whole = lab.json(repo, "graph")
    assert len(whole["nodes"]) == 5 and abs(sum(n["rank"] for n in whole["nodes"]) - 5) < 0.01
    assert {link["kind"] for link in whole["links"]} <= set(graph.STRENGTH)
    few = lab.json(repo, "graph", "-n", "2", "--kind", "file")
    assert len(few["nodes"]) == 2 and list(few["edges"]) == ["file"]
    one = lab.json(repo, "graph", whole["nodes"][0]["id"][:8])
    assert one["neighbours"] and all(n["kinds"] and n["title"] for n in one["neighbours"])
    assert lab.run(repo, "git", "mem", "graph", "--kind", "nope").returncode == 2
    assert lab.run(repo, "git", "mem", "graph", "--format", "svg").returncode == 2
    lab.mem(repo, "graph", "ffffffff", rc=(1,))
    lab.mem(lab.repo("empty"), "graph", rc=(1,))


def test_without_networkx_the_error_says_how_to_get_it(lab: Lab, repo: pathlib.Path) -> None:
    code = (
        "import sys; sys.modules['networkx'] = None\n"
        "from gitmem.__main__ import main; sys.exit(main())"
    )
    id = lab.json(repo, "list")[0]["id"]
    done = lab.run(repo, sys.executable, "-c", code, "graph")
    assert done.returncode == 1 and "-m pip install networkx scipy`" in done.stderr, done.stderr
    done = lab.run(repo, sys.executable, "-c", code, "graph", id)
    assert done.returncode == 0 and "f0.txt" not in done.stderr and "file 1.00" in done.stdout


TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|(->|[A-Za-z_]+|\d+|[\[\]{}=,;]))')


def tokens(text: str) -> list[str]:
    """The tokens of DOT; fails where something is none, as a title that broke out of its quotes
    would be.
    """
    out, at = [], 0
    text = text.rstrip()
    while at < len(text):
        found = TOKEN.match(text, at)
        assert found, text[at : at + 40]
        out.append(found[1] or found[2])
        at = found.end()
    return out


def test_dot_is_whole_whatever_a_title_says(lab: Lab, repo: pathlib.Path) -> None:
    text = lab.mem(repo, "graph", "--format", "dot")
    found = tokens(text)
    assert found[:3] == ["digraph", "memories", "{"] and found[-1] == "}"
    assert found.count("{") == found.count("}") == 1
    assert found.count("[") == found.count("]") == found.count("label") + 2


@given_any(st.text(max_size=80))
def test_any_title_is_one_string_of_dot(title: str) -> None:
    lines = graph.dot(
        [{"id": "ab", "title": title, "type": "x"}],
        [{"a": "ab", "b": "ab", "kind": "file", "weight": 0.3}],
    )
    strings = [t for t in tokens("\n".join(lines)) if t.startswith('"')]
    assert strings[0] == '"ab"' and len(strings) == 6
    assert not any("\n" in s or "\0" in s for s in strings)
