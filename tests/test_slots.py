"""HEADs that were left by a far move and come back: what is kept for them is what git says, costs
nothing, and is nobody's to read meanwhile.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from conftest import Lab
from places import Count, commit, full, head, kept, opened, same, squash, tell, topic
from test_headmove import lengthen

from gitmem.anchors import anchor_state_update, lineage, reachability, reanchor, slots
from gitmem.engine import anchor_state_store, path_state_store
from gitmem.engine.cache import Cache
from gitmem.memory import remember
from gitmem.store import Store


def left(store: Store) -> list[str]:
    return store.with_cache(lambda cache: list(slots.left(cache)))[0]


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


def test_coming_back_asks_git_for_nothing_that_was_known(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(repo) as store:
        kept(store)
        far(lab, repo, "release")
        assert {s.state for s in kept(store).values()} == {"reachable", "unmerged"}
        far(lab, repo, "main")
        count = Count(monkeypatch)
        for name in ("main", "release", "main", "release"):
            far(lab, repo, name)
            words = count.of(lambda: reanchor.finish(store))
            assert not {"rev-list", "patch-id", "diff-tree", "ls-tree"}.intersection(words), words
            assert same(kept(store)) == same(full(store))


def test_commits_of_branches_are_known_before_head_goes_there(lab: Lab, repo: pathlib.Path) -> None:
    with opened(repo) as store:
        kept(store)
        for begun, to in (
            ("main", "release"),
            ("main~2", "main"),
        ):  # where git is asked for what lies between, and where all of that is known
            tip = lab.git(
                repo, "commit-tree", "-m", "beside", "-p", begun, f"{begun}^{{tree}}"
            ).strip()
            lab.git(repo, "branch", f"beside-{to}", tip)
            far(lab, repo, to)
            kept(store)
            assert tip in store.with_cache(lambda cache: lineage.of(store.repo, cache))[0]


def test_readers_see_the_heads_of_worktrees_only(lab: Lab, repo: pathlib.Path) -> None:
    main = head(lab, repo)
    with opened(repo) as store:
        kept(store)
        far(lab, repo, "release")
        kept(store)
        assert left(store) == [main]
        cache = store.with_cache(lambda cache: cache)[0]
        anchors = reanchor.anchors(cache)
        assert anchor_state_store.slot_of(cache, main) is None and {
            s.reason for s in anchor_state_store.read(cache, anchors - {main}, main).values()
        } == {anchor_state_store.WAITING}
        assert (
            path_state_store.slot_of(cache, main) is not None
        )  # what became of files there does not rest on branches


def test_only_the_tips_of_branches_stay_and_only_two(lab: Lab, repo: pathlib.Path) -> None:
    for n, at in enumerate((100, 1_000)):
        lab.git(repo, "branch", f"old{n}", f"main~{at}")
    seen = {}
    with opened(repo) as store:
        kept(store)
        for name in ("release", "main~1050", "old1", "old0", "main~1190", "main"):
            lab.git(repo, "checkout", "-q", "--detach", name)
            seen[name] = head(lab, repo)
            assert same(kept(store)) == same(full(store))
            now = left(store)
            assert (
                len(now) <= 2
                and seen["release"] not in now[2:]
                and not {seen.get("main~1050"), seen.get("main~1190")}.intersection(now)
            )
        assert store.with_cache(
            lambda cache: cache.db.execute("SELECT count(DISTINCT slot) FROM stand").fetchone()
        )[0] <= (3,)
        assert store.with_cache(
            lambda cache: cache.db.execute("SELECT count(DISTINCT slot) FROM entry").fetchone()
        )[0] <= (3,)


@pytest.mark.parametrize(
    "what", ["memory", "mark", "squash", "deleted", "main moved", "a new branch", "files"]
)
def test_what_happened_meanwhile_counts_on_the_way_back(
    lab: Lab, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachability, "FAR", 2)
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
        assert left(store) == [main]
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
        rows = [row for (row,) in cache.db.execute("SELECT row FROM place")]
        assert all(
            s.state == "same"
            for found in path_state_store.read(cache, rows, main).values()
            for s in found.values()
        ) and (what != "files" or rows)


def test_a_purge_and_another_end_of_history_forget_them(lab: Lab, repo: pathlib.Path) -> None:
    doomed = tell(repo, "to be purged", "main~5")
    with opened(repo) as store:
        kept(store)
        far(lab, repo, "release")
        kept(store)
        assert left(store)
        lab.mem(repo, "purge", doomed, "--force")
        store.with_cache(lambda cache: None)
        assert not left(store)
        far(lab, repo, "main")
        assert same(kept(store)) == same(full(store))
        far(lab, repo, "release")
        kept(store)
        assert left(store)
        lab.git(repo, "replace", "--graft", "release~20", "release~30")
        assert same(kept(store)) == same(full(store)) and not left(store)


def test_what_a_purge_took_while_the_worker_looked_is_not_kept(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    doomed = tell(repo, "to be purged")
    tell(repo, "another one", commit(lab, repo, "main.txt", "line"))
    changes = anchor_state_update.Move.changes
    with opened(repo) as store:
        kept(store)
        commit(lab, repo, "main.txt", "one more")

        def meanwhile(*args: Any) -> dict[str, anchor_state_store.Stand]:
            found = changes(*args)
            lab.mem(repo, "purge", doomed, "--force")
            lab.mem(repo, "list")
            return found

        monkeypatch.setattr(anchor_state_update.Move, "changes", meanwhile)
        reanchor.finish(store)
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
        waiting = "SELECT count(*) FROM branch WHERE id = x'00'"
        assert (
            store.with_cache(lambda cache: cache.db.execute(waiting).fetchone()[0])[0] >= 1
        )  # with places where HEAD was lately
        lab.git(repo, "merge", "-q", "--squash", "topic")
        lab.git(repo, "commit", "-q", "-m", "topic (#1)")
        assert {s.state for s in kept(store).values()} == {"squashed"} and same(
            kept(store)
        ) == same(full(store))


def test_the_patch_ids_of_memories_commits_are_made_ahead_where_they_are_many(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lengthen(lab, lab.repo(), 130)
    with opened(repo) as store:
        assert all(
            r.status == remember.STORED
            for r in remember.remember(
                store, [{"body": f"memory {n}", "commit": f"main~{n}"} for n in range(60)]
            )
        )

    def made(cache: Cache) -> int:
        return int(cache.db.execute("SELECT count(*) FROM patch").fetchone()[0])

    with opened(repo) as store:
        kept(store)
        assert store.with_cache(made)[0] == 0
        remember.remember(
            store, [{"body": f"memory {n}", "commit": f"main~{n}"} for n in range(60, 120)]
        )  # of few at once records say the patch-ids
        kept(store)
        assert store.with_cache(made)[0] == 120
        count = Count(monkeypatch)
        assert "patch-id" not in count.of(lambda: reanchor.finish(store))


@pytest.mark.parametrize("far_away", [False, True])
def test_what_a_gc_took_along_with_its_branch_is_not_here_any_more(
    lab: Lab, far_away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachability, "FAR", 2)
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
            assert left(store)
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
