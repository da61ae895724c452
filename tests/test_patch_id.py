"""What finding out where memories stand costs, and the patch-ids it is found out by."""

from __future__ import annotations

import pathlib
import time
from typing import Any

import pytest
from conftest import Lab
from places import Count, commit, full, head, kept, opened, same, squash, states, tell, topic

from gitmem.anchors import (
    anchor_state,
    anchor_state_update,
    equivalent_commits,
    patch_id,
    patch_id_marks,
)
from gitmem.core import record
from gitmem.core.errors import GitFailed
from gitmem.engine.filters import Filter
from gitmem.git import refs_mtime
from gitmem.hooks import spool
from gitmem.memory import recall, remember
from gitmem.store import Store


def fields(store: Store, id: str) -> dict[str, str]:
    """What a record about a commit says of its patch."""
    found, _ = store.with_cache(lambda cache: patch_id.fields(store.repo, cache, [id]))
    return found.get(id, {})


def one_patch_id(store: Store, id: str) -> str:
    return patch_id.patch_ids(store.repo, [id], 60.0)[0][id]


# --- what it costs ---------------------------------------------------------


def test_reachable_anchors_cost_no_git_process_more(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo("repo", 3)
    tell(repo, "the retry budget is three")
    tell(repo, "the retry budget was five", "HEAD~1")
    count = Count(monkeypatch)
    with opened(repo) as store:
        recall.recall(store, "retry budget", Filter(), limit=8)
    with opened(repo) as store:
        again = count.of(lambda: recall.recall(store, "retry budget", Filter(), limit=8))
        assert again == ["cat-file", "rev-list"]
    lab.git(repo, "checkout", "-q", "--detach", "HEAD~1")
    with opened(repo) as store:
        assert (
            count.of(lambda: recall.recall(store, "retry five", Filter(types=["none"]), limit=1))
            == []
        )


def test_a_commit_is_diffed_for_its_first_memory_alone(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is on a branch, and whatever the other memories about it do."""
    repo = lab.repo("repo", 2)
    count = Count(monkeypatch)
    assert "patch-id" in count.of(lambda: tell(repo, "the retry budget is three"))
    assert "patch-id" not in count.of(lambda: tell(repo, "the retry budget was five"))
    # What is new in the notes is found by a diff of trees. Git is asked for settings that are new.
    third = ["cat-file", "diff-tree", "fast-import", "update-ref"]
    settings = ("config", "rev-parse")
    started = count.of(lambda: tell(repo, "the retry budget is six"))
    assert [word for word in started if word not in settings] == third
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "queue.txt", "one")
    commit(lab, repo, "queue.txt", "two")
    assert "patch-id" in count.of(lambda: tell(repo, "the queue is bounded"))
    assert "patch-id" not in count.of(lambda: tell(repo, "the queue is lossy"))
    with opened(repo) as store:
        told = [r.data for line in lab.lines(repo) if (r := record.parse(line.encode()))]
        assert len(told) == 5
        for data in told:
            said = {n: data[n] for n in ("patch", "base", "branch_patch") if n in data}
            assert said == fields(store, data["commit"])


def test_a_commit_that_cannot_be_diffed_costs_no_other_its_patch_id(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    made = [commit(lab, repo, "g.txt", f"line {n}") for n in range(6)]
    blob = lab.git(repo, "rev-parse", f"{made[2]}:g.txt").strip()
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with opened(repo) as store:
        drafts = [{"body": f"about {n}", "commit": id} for n, id in enumerate(made)]
        assert {r.status for r in remember.remember(store, drafts)} == {remember.STORED}
    told = [r.data for line in lab.lines(repo) if (r := record.parse(line.encode()))]
    lack = {made.index(data["commit"]) for data in told if "patch" not in data}
    assert lack == {2, 3}, "the two that touch what is missing"


def test_what_the_worker_sought_in_vain_is_not_sought_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "main.txt", "beside")
    count = Count(monkeypatch)

    def ask() -> list[str]:
        time.sleep(
            2 * refs_mtime._TICK / 1e9
        )  # right after a commit nobody can tell whether a branch moves again
        with opened(repo) as store:
            found = count.of(
                lambda: store.with_cache(
                    lambda cache: anchor_state.states(
                        store.repo, cache, anchor_state.of_memories(cache), store.repo.head()
                    )
                )
            )
            return [w for w in found if w not in ("cat-file", "log")]

    assert "diff-tree" in ask()
    assert "diff-tree" not in ask()  # each patch-id is made once
    with opened(repo) as store:
        anchor_state_update.update(store, patience=60)
    assert ask() == []
    squash(lab, repo)
    assert "diff-tree" in ask()
    assert ask() == ["rev-list"]
    assert set(states(repo).values()) == {"squashed"}


def test_new_marks_make_an_unmerged_commit_be_sought_again(lab: Lab) -> None:
    repo = lab.repo()
    made = topic(lab, repo, 2)
    into = squash(lab, repo)
    lab.git(repo, "branch", "-q", "-D", "topic")
    lab.git(repo, "reflog", "expire", "--expire=now", "--all")
    assert states(repo) == {"topic 0": "unmerged", "topic 1": "squashed"}
    base = head(lab, repo, f"{into}~1")
    with opened(repo) as store:
        store.append(
            "team",
            [
                (
                    made[0],
                    record.dump(record.mark(made[0], "", base, one_patch_id(store, into))),
                )
            ],
            "git mem: mark 1 commit",
        )
    assert set(states(repo).values()) == {"squashed"}


def test_without_time_the_answer_is_unknown_until_the_search_goes_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    topic(lab, repo)
    squash(lab, repo)
    topic(lab, repo, 1, "open")
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "main.txt", "beside")
    woken: list[bool] = []
    monkeypatch.setattr(spool, "ask", lambda common_dir: woken.append(True))
    with opened(repo) as store:
        answer = recall.recall(store, "topic open", Filter(), limit=8, hot=True)
        assert {(h["anchor"]["state"], h["anchor"]["reason"]) for h in answer["hits"]} == {
            ("unknown", anchor_state.WAITING)
        } and woken
        anchor_state_update.update(store, patience=60)
        patch_id_marks.write_found(
            store
        )  # as the worker does: marks that only the cache knew wait for it
        answer = recall.recall(store, "topic open", Filter(), limit=8, hot=True)
        assert (
            sorted(h["anchor"]["state"] for h in answer["hits"]) == ["squashed"] * 3 + ["unmerged"]
            and len(woken) == 1
        )


def test_a_search_goes_on_where_time_ran_out(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo("repo", 1)
    topic(lab, repo, 1)
    squash(lab, repo)
    for i in range(6):
        commit(lab, repo, "main.txt", f"line {i}")
    monkeypatch.setattr(patch_id, "CHUNK", 2)
    clock = [0.0]
    monkeypatch.setattr(
        patch_id.time, "monotonic", lambda: clock.__setitem__(0, clock[0] + 0.4) or clock[0]
    )  # type: ignore[func-returns-value]
    seen = []
    for _ in range(8):
        seen.append(states(repo)["topic 0"])
    assert seen[0] == "unknown" and seen[-1] == "squashed" and set(seen) == {"unknown", "squashed"}


def test_what_head_left_behind_is_compared_with_no_commit_below_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    topic(lab, repo, 1, "old")  # which is searched for from far below HEAD
    lab.git(repo, "checkout", "-q", "-b", "dev", "main")
    for n in range(12):  # the same two changes again and again
        (repo / "switch").write_text("off\n" if n % 2 else "on\n")
        lab.git(repo, "add", "-A")
        lab.git(repo, "commit", "-q", "-m", f"turn {n}")
        if n >= 6:
            tell(repo, f"turned {n}")
    with opened(repo) as store:
        kept(store)
        lab.git(repo, "checkout", "-q", "old")
        commit(lab, repo, "old.txt", "more")
        lab.git(repo, "checkout", "-q", "--detach", "dev~6")
        found = kept(store)
        assert {(s.state, s.reason) for s in found.values()} == {("unmerged", "")} and len(
            found
        ) == 7
        assert same(found) == same(full(store))


def test_what_was_made_before_git_failed_is_not_made_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    topic(lab, repo, 2)
    lab.git(repo, "checkout", "-q", "main")

    def fail(*_: object) -> None:
        raise GitFailed("git rev-list failed")

    def made(table: str) -> int:
        sql = f"SELECT count(*) FROM {table}"
        return int(store.with_cache(lambda cache: cache.db.execute(sql).fetchone()[0])[0])

    with opened(repo) as store:
        commit(lab, repo, "main.txt", "beside")
        store.with_cache(lambda cache: None)
        with monkeypatch.context() as broken:
            broken.setattr(equivalent_commits, "_note", fail)
            with pytest.raises(GitFailed):
                anchor_state_update.update(store, patience=60)
        assert made("patch_id") > 0 and made("branch_patch_id") > 0


def test_a_branch_is_diffed_once_also_before_anything_is_saved(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    base = head(lab, repo)
    tip = topic(lab, repo, 2)[-1]
    with opened(repo) as store:
        cache = store.with_cache(lambda cache: cache)[0]
        known = patch_id.PatchIds(store.repo, cache, 60.0)
        made = known.of_branches({tip: base})
        assert made[tip]
        count = Count(monkeypatch)
        for again in (known, known, patch_id.PatchIds(store.repo, cache, 60.0)):
            assert (
                not count.of(lambda again=again: again.of_branches({tip: base}))
                and again.of_branches({tip: base}) == made
            )
            known.save()


# --- patch-ids -------------------------------------------------------------


def single(lab: Lab, repo: pathlib.Path, *revisions: str) -> str:
    """The patch-id that git gives for one commit, or for one difference."""
    diff = lab.git(repo, *patch_id._DIFF.split(), *revisions)
    return lab.git(repo, "patch-id", "--stable", stdin=diff).partition(" ")[0]


def test_a_pipeline_gives_the_ids_that_single_calls_give(lab: Lab) -> None:
    repo = lab.repo("repo", 3)
    made = topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "nothing")
    every = lab.git(repo, "rev-list", "HEAD").split()
    base = head(lab, repo, f"{made[0]}~1")
    with opened(repo) as store:
        ids, done = patch_id.patch_ids(store.repo, every, 60)
        assert done == len(every) and {c: ids.get(c, "") for c in every} == {
            c: single(lab, repo, c) for c in every
        }
        assert sum(not ids.get(c) for c in every) == 2  # the merge and the empty one
        ids, _ = patch_id.patch_ids(store.repo, [f"{c} {base}" for c in made], 60)
        assert ids == {c: single(lab, repo, base, c) for c in made} and len(set(ids.values())) == 3
        assert patch_id.patch_ids(store.repo, every, 0.0)[1] <= len(every)


def test_a_missing_object_gives_no_id_and_stops_no_other(lab: Lab) -> None:
    repo = lab.repo("repo", 5)
    every = lab.git(repo, "rev-list", "HEAD").split()
    blob = head(lab, repo, f"{every[2]}:f2.txt")
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with opened(repo) as store:
        ids, done = patch_id.patch_ids(store.repo, every, 60)
        assert done < len(every) and every[2] not in ids

        def learn(cache: Any) -> dict[str, str]:
            found = patch_id.PatchIds(store.repo, cache, 60)
            assert found.learn(every)
            return found.of_commits(every)

        assert sorted(store.with_cache(learn)[0]) == sorted(set(every) - {every[2]})


def test_sha256_repositories_work_alike(lab: Lab) -> None:
    repo = lab.repo("repo", 1, "--object-format=sha256")
    topic(lab, repo)
    squash(lab, repo)
    assert set(states(repo).values()) == {"squashed"}
    with opened(repo) as store:
        assert patch_id_marks.publish(store) == 2


def test_a_shallow_clone_writes_no_id_of_the_commit_where_its_history_ends(lab: Lab) -> None:
    """It seems to add every file there: a wrong id in the record kept other clones from saying the
    right one.
    """
    repo = lab.repo(commits=2)
    lab.git(repo, "switch", "-q", "-c", "topic")
    commit(lab, repo, "f1.txt", "one")
    lab.git(
        lab.root, "clone", "-q", "--depth", "1", "--branch", "topic", f"file://{repo}", "shallow"
    )
    shallow = lab.root / "shallow"
    with opened(shallow) as store:
        assert fields(store, head(lab, shallow)) == {}
    own = commit(lab, shallow, "f1.txt", "two")
    with opened(shallow) as store:
        assert fields(store, own) == {"patch": one_patch_id(store, own)}
    lab.git(shallow, "fetch", "-q", "--unshallow", "origin", "+refs/heads/*:refs/remotes/origin/*")
    with opened(shallow) as store:
        assert fields(store, own).keys() == {"patch", "base", "branch_patch"}


def test_a_replaced_commit_keeps_the_id_of_what_it_changed(lab: Lab) -> None:
    """It is kept and told to other clones; the replacement may be gone tomorrow, and is nobody
    else's.
    """
    repo = lab.repo(commits=3)
    last = head(lab, repo)
    with opened(repo) as store:
        was = one_patch_id(store, last)
        lab.git(repo, "replace", "--graft", last, "HEAD~2")
        assert one_patch_id(store, last) == was
        lab.git(repo, "replace", "-d", last)
        graft = repo / ".git" / "info" / "grafts"
        graft.parent.mkdir(exist_ok=True)
        graft.write_text(f"{last} {head(lab, repo, 'HEAD~2')}\n")
        assert one_patch_id(store, last) == was
