"""Where memories stand, as hooks read it: what the worker found, for each worktree's HEAD, and
never more than was looked at.
"""

from __future__ import annotations

import os
import pathlib
import random
from typing import Any

import pytest
from conftest import Lab

from gitmem import worker
from gitmem.anchors import anchor_state, reanchor, slots
from gitmem.engine import anchor_state_store
from gitmem.engine import cache as cache_file
from gitmem.engine.anchor_state_store import Stand
from gitmem.engine.cache import Cache
from gitmem.store import open_store


def opened(repo: pathlib.Path) -> Cache:
    found = cache_file.open_cache(str(repo / ".git" / "mem"))
    assert found is not None
    return found


def states(
    repo: pathlib.Path, head: str = "HEAD", cwd: pathlib.Path | None = None
) -> dict[str, tuple[str, str, str, str]]:
    """What a hook reads for all anchors."""
    store = open_store(os.environ, str(cwd or repo))
    cache = opened(repo)
    try:
        found = anchor_state_store.read(
            cache, reanchor.anchors(cache), store.repo.commit(head) or ""
        )
        return {a: (s.state, s.commit, s.into, s.reason) for a, s in found.items()}
    finally:
        cache.close()
        store.close()


def asked(
    repo: pathlib.Path, cwd: pathlib.Path | None = None
) -> dict[str, tuple[str, str, str, str]]:
    """What git says of them."""
    store = open_store(os.environ, str(cwd or repo))

    def ask(cache: Cache) -> Any:
        return anchor_state.stands(
            store.repo, cache, reanchor.anchors(cache), store.repo.head(), 60.0
        )

    try:
        return {
            a: (s.state, s.commit, s.into, s.reason) for a, s in store.with_cache(ask)[0].items()
        }
    finally:
        store.close()


def work(repo: pathlib.Path) -> None:
    worker.run(str(repo / ".git"), os.environ, 0.0)


def commit(lab: Lab, repo: pathlib.Path, name: str) -> str:
    (repo / name).write_text(f"{name}\n" * 9)
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", name)
    return lab.git(repo, "rev-parse", "HEAD").strip()


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    """Memories about the main line, an open branch, and a branch that was squashed."""
    repo = lab.repo(commits=2)
    lab.mem(repo, "remember", "about the main line")
    for branch in ("open", "squashed"):
        lab.git(repo, "checkout", "-q", "-b", branch, "main")
        commit(lab, repo, f"{branch}.txt")
        lab.mem(repo, "remember", f"about the {branch} branch")
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "merge", "-q", "--squash", "squashed")
    lab.git(repo, "commit", "-q", "-m", "squashed")
    return repo


def test_hooks_read_what_git_says(repo: pathlib.Path) -> None:
    work(repo)
    assert states(repo) == asked(repo)
    assert {s[0] for s in states(repo).values()} == {
        anchor_state.REACHABLE,
        anchor_state.UNMERGED,
        anchor_state.SQUASHED,
    }


def test_of_a_head_that_nobody_looked_from_only_head_itself_is_known(
    lab: Lab, repo: pathlib.Path
) -> None:
    work(repo)
    new = commit(lab, repo, "new.txt")
    lab.mem(repo, "remember", "about the newest commit")
    asked(repo)
    found = states(repo)
    assert found.pop(new)[0] == anchor_state.REACHABLE
    assert {(s[0], s[3]) for s in found.values()} == {(anchor_state.UNKNOWN, anchor_state.WAITING)}
    work(repo)
    assert states(repo) == asked(repo)


def test_a_memory_that_came_since_is_unknown_and_not_taken_for_reachable(
    lab: Lab, repo: pathlib.Path
) -> None:
    work(repo)
    lab.git(repo, "checkout", "-q", "-b", "later")
    late = commit(lab, repo, "later.txt")
    lab.mem(repo, "remember", "about a later branch")
    lab.git(repo, "checkout", "-q", "main")
    asked(repo)
    assert states(repo)[late] == (anchor_state.UNKNOWN, late, "", anchor_state.WAITING)


def test_before_the_first_commit_nothing_stands_anywhere(lab: Lab, repo: pathlib.Path) -> None:
    cache = opened(repo)
    found = anchor_state_store.read(cache, ["a" * 40, ""], "")
    assert {a: (s.state, s.reason) for a, s in found.items()} == {
        "a" * 40: (anchor_state.UNKNOWN, anchor_state.UNBORN)
    }
    cache.close()


def test_each_worktree_has_the_states_of_its_own_head_and_a_former_head_leaves_nothing(
    lab: Lab, repo: pathlib.Path
) -> None:
    tree = lab.root / "tree"
    lab.git(repo, "worktree", "add", "-q", str(tree), "open")
    work(repo)
    assert states(repo) == asked(repo) and states(repo, cwd=tree) == asked(repo, tree) != asked(
        repo
    )
    for n in range(3):
        commit(lab, repo, f"more{n}.txt")
        work(repo)
    cache = opened(repo)
    assert cache.db.execute("SELECT count(*) FROM head").fetchone() == (2,)
    assert cache.db.execute("SELECT count(DISTINCT slot) FROM stand").fetchone() == (2,)
    cache.close()
    assert states(repo) == asked(repo) and states(repo, cwd=tree) == asked(repo, tree)


def test_a_commit_writes_only_the_states_that_changed() -> None:
    cache = cache_file.open_in_memory()
    stands = {f"{n:040x}": Stand(anchor_state_store.REACHABLE, f"{n:040x}") for n in range(50)}
    assert slots.keep(cache, "a" * 40, stands, ["a" * 40])
    before = cache.db.total_changes
    stands["f" * 40] = Stand(anchor_state_store.UNMERGED, "f" * 40)
    assert slots.keep(cache, "b" * 40, stands, ["b" * 40])
    assert cache.db.total_changes - before <= 4
    assert (
        anchor_state_store.slot_of(cache, "a" * 40) is None
        and len(anchor_state_store.read(cache, stands, "b" * 40)) == 51
    )
    before = cache.db.total_changes
    assert slots.keep(cache, "b" * 40, stands, ["b" * 40]) and cache.db.total_changes == before


def test_of_many_commits_the_same_states_are_touched_as_of_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = cache_file.open_in_memory()
    names = [f"{n:040x}" for n in range(60)]
    rng = random.Random(3)
    stands = {}
    for name in names[:40]:
        state = rng.choice(
            (
                anchor_state_store.REACHABLE,
                anchor_state_store.REACHABLE,
                anchor_state_store.UNMERGED,
                anchor_state_store.SQUASHED,
                anchor_state_store.UNKNOWN,
            )
        )
        stands[name] = Stand(
            state,
            rng.choice((name, name, *names[40:])),
            rng.choice(names[40:]) if state == anchor_state_store.SQUASHED else "",
            anchor_state_store.WAITING if state == anchor_state_store.UNKNOWN else "",
        )
    assert slots.keep(cache, "a" * 40, stands)
    assert {a: s.row(a) for a, s in anchor_state_store.rows(cache, 0).items()} == {
        a: s.row(a) for a, s in stands.items()
    }
    for size in (1, 5, 30):
        commits = set(rng.sample(names, size))
        found = []
        for few in (500, 0):
            monkeypatch.setattr(anchor_state_store, "_FEW", few)
            found.append(
                {
                    a: (s.state, s.commit, s.into, s.reason)
                    for a, s in anchor_state_store.touching(cache, 0, commits).items()
                }
            )
        assert (
            found[0]
            == found[1]
            == {
                a: (s.state, s.commit, s.into, s.reason)
                for a, s in stands.items()
                if not commits.isdisjoint((a, s.commit, s.into))
            }
        )


def test_of_many_commits_the_same_ones_are_joined_as_of_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = cache_file.open_in_memory()
    rng = random.Random(4)
    names = [f"{n:040x}" for n in range(60)]
    cache.db.executemany(
        "INSERT OR IGNORE INTO move VALUES(?, ?, 1)", [rng.sample(names[:40], 2) for _ in range(25)]
    )
    seen = set()
    for size in (1, 1, 3, 12, 50):
        commits = set(rng.sample(names, size))
        found = []
        for few in (500, 0):
            monkeypatch.setattr(anchor_state, "_FEW", few)
            found.append(anchor_state.joined(cache, commits))
        assert found[0] == found[1]
        assert all(anchor_state.joined(cache, {c}) <= found[0] for c in commits)
        seen.add(len(found[0]))
    assert len(seen) > 2


def test_an_anchor_that_no_memory_has_any_more_is_taken_out() -> None:
    cache = cache_file.open_in_memory()
    slots.keep(
        cache,
        "a" * 40,
        {
            "c" * 40: Stand(anchor_state_store.REACHABLE, "c" * 40),
            "d" * 40: Stand(anchor_state_store.REACHABLE, "d" * 40),
        },
    )
    slots.keep(cache, "a" * 40, {"c" * 40: Stand(anchor_state_store.SQUASHED, "c" * 40, "e" * 40)})
    assert cache.db.execute("SELECT anchor, state, into_commit FROM stand").fetchall() == [
        ("c" * 40, "squashed", "e" * 40)
    ]


def test_index_asks_for_what_hooks_will_read(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "index")
    assert states(repo) == asked(repo)


@pytest.mark.parametrize("of", [anchor_state_store.ASKED, anchor_state_store.UNASKED])
def test_what_was_given_up_counts_less_than_what_is_open(of: anchor_state_store.Weights) -> None:
    left, open_ = (
        anchor_state_store.weight(anchor_state_store.UNMERGED, anchor_state_store.ABANDONED, of),
        anchor_state_store.weight(anchor_state_store.UNMERGED, "", of),
    )
    assert (
        0
        < left
        < open_
        == anchor_state_store.weight(anchor_state_store.UNKNOWN, anchor_state_store.ABSENT, of)
        < anchor_state_store.weight(anchor_state_store.UNKNOWN, anchor_state_store.WAITING, of)
        <= 1
    )
    assert (
        anchor_state_store.weight(anchor_state_store.REACHABLE, "", of)
        == anchor_state_store.weight(anchor_state_store.SQUASHED, "", of)
        == 1
    )
