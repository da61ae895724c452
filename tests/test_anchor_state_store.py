"""Where memories stand, as hooks read it: what the worker found, for each worktree's HEAD, and
never more than was looked at.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest
from conftest import Lab

from gitmem import worker
from gitmem.anchors import anchor_state
from gitmem.engine import anchor_state_store
from gitmem.engine import cache as cache_file
from gitmem.engine.anchor_state_store import AnchorState
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
            cache, anchor_state.of_memories(cache), store.repo.commit(head) or ""
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
        return anchor_state.states(
            store.repo, cache, anchor_state.of_memories(cache), store.repo.head(), 60.0
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
    assert cache.db.execute("SELECT count(DISTINCT slot) FROM anchor_state").fetchone() == (2,)
    cache.close()
    assert states(repo) == asked(repo) and states(repo, cwd=tree) == asked(repo, tree)


def test_a_commit_writes_only_the_states_that_changed() -> None:
    cache = cache_file.open_in_memory()
    states = {
        f"{n:040x}": AnchorState(anchor_state_store.REACHABLE, f"{n:040x}") for n in range(50)
    }
    anchor_state_store.write(cache, 0, states)
    before = cache.db.total_changes
    states["f" * 40] = AnchorState(anchor_state_store.UNMERGED, "f" * 40)
    anchor_state_store.write(cache, 0, states)
    assert cache.db.total_changes - before == 1
    assert anchor_state_store.kept(cache, 0) == states


def test_an_anchor_that_no_memory_has_any_more_is_taken_out() -> None:
    cache = cache_file.open_in_memory()
    states = {c * 40: AnchorState(anchor_state_store.REACHABLE, c * 40) for c in "cd"}
    anchor_state_store.write(cache, 0, states)
    states = {"c" * 40: AnchorState(anchor_state_store.SQUASHED, "c" * 40, "e" * 40)}
    anchor_state_store.write(cache, 0, states)
    assert anchor_state_store.kept(cache, 0) == states


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
