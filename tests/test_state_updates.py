"""States that are kept, after everything that may change them while HEAD is elsewhere or stands
still: what the worker keeps is what git says.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from conftest import Lab
from places import commit, full, head, kept, opened, same, squash, tell, topic
from test_anchor_state_update import lengthen

from gitmem.anchors import anchor_state_update
from gitmem.engine import anchor_state_store, path_state_store


def far(lab: Lab, repo: pathlib.Path, name: str) -> None:
    lab.git(repo, "checkout", "-q", name)


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    """A long main line with memories at both ends, about a file each, and a release branch that
    left it long ago.
    """
    repo = lengthen(lab, lab.repo(), 1_200)
    for at in (3, 700, 1_150):
        lab.mem(
            repo, "remember", "--commit", f"main~{at}", "--path", f"g{at % 50}", "--", f"about {at}"
        )
    lab.git(repo, "branch", "release", "main~1100")
    return repo


@pytest.mark.parametrize(
    "what", ["memory", "mark", "squash", "deleted", "main moved", "a new branch", "files"]
)
def test_what_happened_meanwhile_counts_on_the_way_back(lab: Lab, what: str) -> None:
    repo = lab.repo()
    made = topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    for n in range(3):
        commit(lab, repo, "main.txt", f"line {n}")
    tell(repo, "about main")
    lab.git(repo, "branch", "old", "main~3")
    main = head(lab, repo)
    with opened(repo) as store:
        kept(store)
        far(lab, repo, "old")
        kept(store)
        if what == "memory":
            tell(repo, "another one", made[0])
            tell(repo, "one more", main)
        elif what == "mark":
            lab.git(repo, "branch", "other", "topic")
            lab.mem(repo, "reanchor", made[0], made[2])
        elif what == "squash":
            lab.git(repo, "worktree", "add", "-q", "../beside", "main")
            squash(lab, lab.root / "beside")
            lab.git(repo, "worktree", "remove", "--force", "../beside")
        elif what == "deleted":
            lab.git(repo, "branch", "-q", "-D", "topic")
        elif what == "main moved":
            lab.git(repo, "branch", "-q", "-f", "main", "topic")
        elif what == "a new branch":
            lab.git(repo, "branch", "-q", "keeper", made[1])
            lab.git(repo, "branch", "-q", "-D", "topic")
        elif what == "files":
            lab.mem(repo, "remember", "--commit", main, "--path", "main.txt", "--", "about a file")
        kept(store)
        lab.git(repo, "checkout", "-q", "--detach", main)
        assert same(kept(store)) == same(full(store))
        cache = store.with_cache(lambda cache: cache)[0]
        rows = [row for (row,) in cache.db.execute("SELECT row FROM memory_path")]
        assert all(
            s.state == "same"
            for found in path_state_store.read(cache, rows, main).values()
            for s in found.values()
        ) and (what != "files" or rows)


def test_after_a_purge_and_a_replaced_commit_states_are_computed_anew(
    lab: Lab, repo: pathlib.Path
) -> None:
    doomed = tell(repo, "to be purged", "main~5")
    with opened(repo) as store:
        kept(store)
        far(lab, repo, "release")
        kept(store)
        lab.mem(repo, "purge", doomed, "--force")
        store.with_cache(lambda cache: None)
        assert not store.with_cache(anchor_state_store.slots)[0]
        far(lab, repo, "main")
        assert same(kept(store)) == same(full(store))
        far(lab, repo, "release")
        kept(store)
        lab.git(repo, "replace", "--graft", "release~20", "release~30")
        assert same(kept(store)) == same(full(store))


def test_what_a_purge_took_while_the_worker_looked_is_not_kept(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    doomed = tell(repo, "to be purged")
    tell(repo, "another one", commit(lab, repo, "main.txt", "line"))
    rows = anchor_state_update.path_rows
    with opened(repo) as store:
        kept(store)
        commit(lab, repo, "main.txt", "one more")

        def meanwhile(*args: Any) -> dict[int, Any]:
            found = rows(*args)
            lab.mem(repo, "purge", doomed, "--force")
            lab.mem(repo, "list")
            return found

        monkeypatch.setattr(anchor_state_update, "path_rows", meanwhile)
        anchor_state_update.update(store, patience=60)
        assert not store.with_cache(anchor_state_store.slots)[0]
        monkeypatch.undo()
        assert (
            same(kept(store)) == same(full(store)) and store.with_cache(anchor_state_store.slots)[0]
        )


def test_a_branch_that_contained_head_is_compared_as_soon_as_head_has_more(lab: Lab) -> None:
    repo = lab.repo()
    for n in range(4):
        commit(lab, repo, "main.txt", f"line {n}")
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    with opened(repo) as store:
        kept(store)
        lab.git(repo, "reset", "-q", "--hard", "main~2")  # all of main that is left is on topic
        assert {s.state for s in kept(store).values()} == {"unmerged"}
        lab.git(repo, "merge", "-q", "--squash", "topic")
        lab.git(repo, "commit", "-q", "-m", "topic (#1)")
        assert {s.state for s in kept(store).values()} == {"squashed"} and same(
            kept(store)
        ) == same(full(store))


@pytest.mark.parametrize("far_away", [False, True])
def test_what_a_gc_took_along_with_its_branch_is_not_here_any_more(
    lab: Lab, far_away: bool
) -> None:
    repo = lab.repo()
    for n in range(4):
        commit(lab, repo, "main.txt", f"line {n}")
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "branch", "old", "main~3")
    with opened(repo) as store:
        kept(store)
        if far_away:
            far(lab, repo, "old")
            kept(store)
        lab.git(repo, "branch", "-q", "-D", "topic")
        if far_away:
            kept(store)
    lab.git(repo, "reflog", "expire", "--expire=now", "--all")
    lab.git(repo, "gc", "-q", "--prune=now")
    with opened(repo) as store:
        far(lab, repo, "main")
        assert {s.reason for s in kept(store).values()} == {anchor_state_store.ABSENT} and same(
            kept(store)
        ) == same(full(store))
