"""Stale memories are marked and rank lower, for agents too: what the worker kept for HEAD is read,
and nothing else.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from conftest import Lab
from hook_world import PROMPT, Hooks, make
from places import Count, opened

from gitmem import worker
from gitmem.anchors import anchor_state_update
from gitmem.engine import path_state_store
from gitmem.engine.cache import Cache
from gitmem.engine.filters import Filter
from gitmem.engine.path_state_store import PathState as State
from gitmem.memory import listing, remember, view


@pytest.fixture
def hooks(lab: Lab) -> Hooks:
    return make(lab)


def moved(hooks: Hooks, *argv: str) -> None:
    """One more commit, and a worker that has seen it."""
    hooks.lab.git(hooks.repo, *argv)
    hooks.lab.git(hooks.repo, "commit", "-q", "-a", "--allow-empty", "-m", "next")
    worker.run(str(hooks.repo / ".git"), os.environ, 0.0)


def test_a_prompt_is_told_what_became_of_the_files(hooks: Hooks) -> None:
    assert 'stale="' not in hooks.call("UserPromptSubmit", prompt=PROMPT)
    moved(hooks, "mv", "f0.txt", "times.txt")
    assert 'stale="renamed to times.txt"' in hooks.call(
        "UserPromptSubmit", prompt=PROMPT, session_id="s2"
    )
    moved(hooks, "rm", "-q", "times.txt")
    assert 'stale="gone"' in hooks.call("UserPromptSubmit", prompt=PROMPT, session_id="s3")
    assert hooks.failures() == 0


def test_a_session_is_told_and_says_unknown_only_where_nobody_looked(hooks: Hooks) -> None:
    (hooks.repo / "f0.txt").write_text("other\n")
    hooks.lab.git(hooks.repo, "commit", "-q", "-a", "-m", "change")
    told = hooks.call("SessionStart", source="startup")
    assert 'staleness="unknown"' in told and 'stale="' not in told
    worker.run(str(hooks.repo / ".git"), os.environ, 0.0)
    told = hooks.call("SessionStart", source="startup", session_id="s2")
    assert 'staleness="unknown"' not in told and 'stale="changed"' in told
    value = hooks.lab.json(hooks.repo, "context")
    (item,) = value["working_memory"]["recent_decisions"]
    assert item["staleness"] == "changed" and item["paths"] == [
        {"path": "f0.txt", "state": "changed"}
    ]


def test_a_file_brings_what_was_said_of_it_under_its_old_name(hooks: Hooks) -> None:
    hooks.lab.git(hooks.repo, "config", "mem.readContext", "true")
    moved(hooks, "mv", "f0.txt", "times.txt")
    told = hooks.call(
        "PreToolUse", tool_name="Read", tool_input={"file_path": str(hooks.repo / "times.txt")}
    )
    assert "stored as UTC" in told and 'stale="renamed to times.txt"' in told


def test_hot_recall_reads_what_is_kept_and_asks_no_git(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved(hooks, "mv", "f0.txt", "times.txt")
    answer = hooks.lab.json(hooks.repo, "recall", PROMPT, "--hot")
    assert answer["hits"][0]["paths"] == [
        {"path": "f0.txt", "state": "renamed", "now": "times.txt"}
    ]
    hooks.lab.git(hooks.repo, "commit", "-q", "--allow-empty", "-m", "unseen")
    unseen = hooks.lab.json(hooks.repo, "recall", PROMPT, "--hot")["hits"][0]["paths"]
    assert unseen in (
        [{"path": "f0.txt", "state": "unknown", "reason": "the history is not searched yet"}],
        answer["hits"][0]["paths"],
    )  # or a worker was faster
    assert (
        hooks.lab.json(hooks.repo, "recall", PROMPT)["hits"][0]["paths"]
        == answer["hits"][0]["paths"]
    )


def test_stale_memories_rank_lower(lab: Lab) -> None:
    repo = lab.repo(commits=3)
    for name in ("f0.txt", "f1.txt", "f2.txt"):
        lab.mem(
            repo, "remember", "The queue is drained twice a day", "--title", name, "--path", name
        )
    (repo / "f1.txt").write_text("changed\n")
    lab.git(repo, "rm", "-q", "f2.txt")
    lab.git(repo, "commit", "-q", "-a", "-m", "next")
    hits = lab.json(repo, "recall", "when is the queue drained", "--explain")["hits"]
    assert [(h["title"], h["explain"]["stale"]) for h in hits] == [
        ("f0.txt", 1.0),
        ("f1.txt", 0.95),
        ("f2.txt", 0.8),
    ]
    assert {m["title"] for m in lab.json(repo, "list", "--stale")} == {"f1.txt", "f2.txt"}


def test_a_list_of_a_few_stale_memories_makes_no_objects_of_the_others(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo(commits=3)
    for name in ("f0.txt", "f1.txt", "f2.txt"):
        lab.mem(repo, "remember", f"The queue {name} is drained twice a day", "--path", name)
    for name in ("f1.txt", "f2.txt"):
        (repo / name).write_text("changed\n")
    lab.git(repo, "commit", "-q", "-a", "-m", "next")
    made: list[int] = []
    objects = view.objects

    def noted(store: Any, cache: Cache, rows: list[int], **how: Any) -> list[dict[str, Any]]:
        made.extend(rows)
        return objects(store, cache, rows, **how)

    monkeypatch.setattr(view, "objects", noted)
    with opened(repo) as store:
        few = listing.list_memories(store, Filter(), stale=True, limit=1)
        assert (len(few.items), few.more, len(made)) == (1, 1, 1)
        every = listing.list_memories(store, Filter(), stale=True)
        assert {item["paths"][0]["path"] for item in every.items} == {"f1.txt", "f2.txt"}
        assert every.items[0] == few.items[0]


def test_the_prior_is_bounded_and_a_rename_costs_nothing() -> None:
    assert set(path_state_store.FACTORS) == set(path_state_store.STALE) and all(
        0.5 <= f < 1 for f in path_state_store.FACTORS.values()
    )
    assert (
        path_state_store.worst([State("renamed", "b")]) == "renamed"
        and "renamed" not in path_state_store.FACTORS
    )
    assert (
        path_state_store.worst([State("gone"), State("same")]) == "changed"
        and path_state_store.worst([State("gone"), State("unknown")]) == "gone"
    )
    assert (
        path_state_store.worst([])
        == path_state_store.worst([State("unknown"), State("same")])
        == ""
    )
    assert (
        path_state_store.remark(
            [State("renamed", "b"), State("renamed", "b"), State("renamed", "c")]
        )
        == "renamed to b, c"
    )


# --- what is kept -----------------------------------------------------------------


def kept(repo: Any, head: str = "HEAD") -> dict[str, list[State]]:
    with opened(repo) as store:

        def read(cache: Cache) -> dict[str, list[State]]:
            found = dict(cache.db.execute("SELECT row, id FROM memory WHERE status = 0").fetchall())
            return {
                found[row]: [some[n] for n in sorted(some)]
                for row, some in path_state_store.read(
                    cache, found, store.repo.commit(head) or ""
                ).items()
            }

        return store.with_cache(read)[0]


def processes(repo: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The git processes of one update of the kept states, but for those that read refs."""
    with opened(repo) as store:
        store.with_cache(lambda cache: None)
        words = Count(monkeypatch).of(lambda: anchor_state_update.update(store, patience=60))
    return sorted({"diff-tree", "ls-tree", "rev-list"}.intersection(words))


def test_a_move_of_head_follows_only_what_changed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo(commits=6)
    with opened(repo) as store:
        remember.remember(
            store, [{"body": f"memory {i}", "paths": [f"f{i % 6}.txt"]} for i in range(60)]
        )
    assert processes(repo, monkeypatch) == []
    assert list(kept(repo).values()) == [[State("same")]] * 60
    (repo / "beside.txt").write_text("x\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "beside")
    assert processes(repo, monkeypatch) == ["rev-list"] and len(kept(repo)) == 60
    (repo / "f1.txt").write_text("changed\n")
    lab.git(repo, "commit", "-q", "-a", "-m", "change")
    assert processes(repo, monkeypatch) == ["diff-tree", "rev-list"]
    assert sum(s == [State("changed")] for s in kept(repo).values()) == 10
    assert processes(repo, monkeypatch) == []  # nothing moved
    lab.git(repo, "reset", "-q", "--hard", "HEAD~2")
    processes(repo, monkeypatch)
    assert list(kept(repo).values()) == [[State("same")]] * 60


def test_each_worktree_has_its_own(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    with opened(repo) as store:
        remember.remember(store, [{"body": "about one", "paths": ["f1.txt"]}])
    lab.git(repo, "worktree", "add", "-q", "-b", "topic", str(lab.root / "beside"))
    lab.git(lab.root / "beside", "mv", "f1.txt", "g.txt")
    lab.git(lab.root / "beside", "commit", "-q", "-m", "move")
    worker.run(str(repo / ".git"), os.environ, 0.0)
    assert list(kept(repo).values()) == [[State("same")]] and list(
        kept(repo, "topic").values()
    ) == [[State("renamed", "g.txt")]]
    lab.git(repo, "worktree", "remove", str(lab.root / "beside"))
    worker.run(str(repo / ".git"), os.environ, 0.0)
    assert list(kept(repo).values()) == [[State("same")]] and kept(repo, "topic") == {}


def test_what_is_forgotten_or_purged_is_kept_no_longer(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    ids = [lab.json(repo, "remember", f"memory {i}", "--path", "f1.txt:1")["id"] for i in range(3)]
    worker.run(str(repo / ".git"), os.environ, 0.0)
    assert set(kept(repo)) == set(ids)
    lab.mem(repo, "forget", ids[0])
    lab.mem(repo, "purge", ids[1], "--force")
    with opened(repo) as store:
        rows = store.with_cache(
            lambda cache: cache.db.execute("SELECT count(*) FROM path_state").fetchone()[0]
        )[0]
    assert rows <= 1
    worker.run(str(repo / ".git"), os.environ, 0.0)
    assert set(kept(repo)) == {ids[2]}


def test_states_are_read_from_the_few_rows_that_are_asked_about(hooks: Hooks) -> None:
    """Not from all names: among 100,000 memories that took two seconds of every prompt."""
    worker.run(str(hooks.repo / ".git"), os.environ, 0.0)

    def plan(cache: Cache) -> list[str]:
        asked: list[str] = []
        (head,) = cache.db.execute("SELECT commit_id FROM head").fetchone()
        cache.db.set_trace_callback(asked.append)
        path_state_store.read(cache, [0, 1], head)
        cache.db.set_trace_callback(None)
        return [row[3] for row in cache.db.execute("EXPLAIN QUERY PLAN " + asked[0])]

    with opened(hooks.repo) as store:
        steps = store.with_cache(plan)[0]
    assert "SEARCH m USING PRIMARY KEY (row=?)" in steps
    assert "SEARCH s USING PRIMARY KEY (slot=? AND number=?)" in steps
    assert [step for step in steps if step.startswith("SCAN")] == [
        "SCAN json_each VIRTUAL TABLE INDEX 1:"
    ]
