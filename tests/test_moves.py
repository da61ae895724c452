"""Where rewrites took memories: long chains, circles, and many memories on one commit that is
amended again and again.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from conftest import Lab
from hypothesis import given, settings
from hypothesis import strategies as st

from gitmem.anchors import anchor_state
from gitmem.core import record
from gitmem.engine import cache as cache_file
from gitmem.store import open_store


def table(pairs: list[tuple[str, str]]) -> cache_file.Cache:
    db = cache_file.connect(":memory:")
    db.execute("CREATE TABLE move(old TEXT, new TEXT)")
    db.executemany("INSERT INTO move VALUES(?, ?)", pairs)
    return cache_file.Cache(db, "memory", "")


def plainly(pairs: list[tuple[str, str]], anchor: str) -> list[set[str]]:
    """What is one step away, two, and so on."""
    levels, seen = [{anchor}], {anchor}
    while levels[-1]:
        levels.append({new for old, new in pairs if old in levels[-1]} - seen)
        seen |= levels[-1]
    return levels[:-1]


NAMES = st.sampled_from("abcdefghijkl")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(NAMES, NAMES), max_size=30), st.sets(NAMES))
def test_a_way_has_every_commit_that_moves_lead_to_once_and_the_nearest_first(
    pairs: list[tuple[str, str]], anchors: set[str]
) -> None:
    ways = anchor_state.moves(table(pairs), anchors)
    assert set(ways) == anchors
    for anchor, way in ways.items():
        levels = plainly(pairs, anchor)
        assert way == [commit for level in levels for commit in sorted(level)]


def test_a_circle_ends_where_it_began() -> None:
    ways = anchor_state.moves(table([("a", "b"), ("b", "c"), ("c", "a")]), ["a", "c"])
    assert ways == {"a": ["a", "b", "c"], "c": ["c", "a", "b"]}


def test_a_thousand_amends_with_a_memory_each_are_followed_at_once() -> None:
    """Each commit leads to every later one: 500,000 pairs, and as many entries of ways.

    One by one it would be 170,000,000 looks.
    """
    names = [f"{i:04}" for i in range(1000)]
    ways = anchor_state.moves(
        table([(old, new) for i, old in enumerate(names) for new in names[i + 1 :]]), names
    )
    assert all(ways[name] == names[i:] for i, name in enumerate(names))


def copies(lab: Lab, times: int) -> pathlib.Path:
    """A memory on the first commit, which is amended; the note goes along each time."""
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.mem(repo, "remember", "the invoice is stored in cents")
    for i in range(times):
        lab.git(repo, "commit", "-q", "--amend", "-m", f"again {i}")
    return repo


def test_amends_of_a_commit_on_the_main_line_are_no_news_for_other_clones(lab: Lab) -> None:
    """Their moves say it all: no mark for each commit that is gone anyway."""
    repo = copies(lab, 5)
    lab.git(lab.root, "init", "-q", "--bare", "-b", "main", "hub.git")
    lab.git(repo, "remote", "add", "origin", str(lab.root / "hub.git"))
    lab.git(repo, "push", "-q", "origin", "main")
    assert "1 sent" in lab.mem(repo, "sync")
    lab.git(lab.root, "clone", "-q", "hub.git", "other")
    lab.mem(lab.root / "other", "sync")
    for path in (repo, lab.root / "other"):
        (found,) = lab.json(path, "list")
        assert (
            found["anchor"]["state"] == anchor_state.REACHABLE
            and found["anchor"]["commit"] == lab.git(repo, "rev-parse", "HEAD").strip()
        )
        assert {r.op for line in lab.lines(path) if (r := record.parse(line.encode()))} == {
            "create"
        }


def test_a_history_of_others_is_compared_once_in_a_call(lab: Lab) -> None:
    repo = copies(lab, 5)
    store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
    asked: list[int] = []  # pairs of trees compared by each process
    real = store.repo.git.stream

    def stream(*args: str, stdin: bytes = b"") -> Iterator[bytes]:
        if args[0] == "diff-tree":
            asked.append(stdin.count(b"\n"))
        return real(*args, stdin=stdin)

    store.repo.git.stream = stream  # type: ignore[method-assign]
    store.settle("git mem: settle")
    assert store.team.owed() == [] and store.team.taken_out() == []
    assert len([n for n in asked if n > 1]) == 1
    store.close()


def test_four_thousand_commits_that_moved_once_are_followed_at_once() -> None:
    """Each step looks at what it leads to, not at all commits that ever moved."""
    pairs = [(f"a{i:04}", f"b{i:04}") for i in range(4000)]
    ways = anchor_state.moves(table(pairs), [old for old, _ in pairs])
    assert all(ways[old] == [old, new] for old, new in pairs)
