"""Where memories stand after what people do to history: every situation with real git, each state
from `anchor_state` alone.
"""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Lab
from places import (
    anchors,
    clone,
    commit,
    following,
    head,
    hub,
    opened,
    publish,
    squash,
    states,
    tell,
    topic,
)

from gitmem.anchors import anchor_state, patch_id, patch_id_marks, reanchor
from gitmem.engine.filters import Filter
from gitmem.memory import recall, remember
from gitmem.store import Store

# --- rewrites that git takes notes along with ------------------------------


def test_a_memory_follows_an_amend(lab: Lab) -> None:
    repo = following(lab)
    old = commit(lab, repo, "a.txt", "one")
    tell(repo, "about one")
    lab.git(repo, "commit", "-q", "--amend", "-m", "better words")
    found = anchors(repo)["about one"]
    assert (found["state"], found["commit"]) == ("reachable", head(lab, repo)) and found[
        "commit"
    ] != old
    lab.git(repo, "commit", "-q", "--amend", "-m", "even better words")
    assert anchors(repo)["about one"]["commit"] == head(lab, repo)


def test_a_branch_amended_again_and_again_holds_its_memory_still(lab: Lab) -> None:
    repo = following(lab)
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "a.txt", "one")
    tell(repo, "about one")
    for i in range(6):
        lab.git(repo, "commit", "-q", "--amend", "-m", f"try {i}")
        found = anchors(repo, "main")["about one"]
        assert found == {"state": "unmerged", "branch": "topic", "commit": head(lab, repo, "topic")}
    lab.git(repo, "reset", "-q", "--hard", "topic@{2}")
    found = anchors(repo, "main")["about one"]
    assert found["commit"] == head(lab, repo, "topic") and "reason" not in found


def test_memories_in_continuations_follow_an_amend(lab: Lab) -> None:
    repo = following(lab)
    commit(lab, repo, "a.txt", "one")
    with opened(repo) as store:
        assert all(
            r.status == "stored"
            for r in remember.remember(
                store, [{"body": f"memory {i} " + "x" * 900} for i in range(60)]
            )
        )
        assert (
            len(lab.git(repo, "ls-tree", "-r", "--name-only", "refs/notes/mem/team").split()) > 2
        )  # a note, a continuation, its key
    lab.git(repo, "commit", "-q", "--amend", "-m", "two")
    found = anchors(repo)
    assert len(found) == 60 and {(a["state"], a["commit"]) for a in found.values()} == {
        ("reachable", head(lab, repo))
    }


def test_a_memory_follows_a_rebase(lab: Lab) -> None:
    repo = following(lab)
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "main.txt", "beside")
    lab.git(repo, "rebase", "-q", "main", "topic")
    found = anchors(repo)
    assert [found[f"topic {i}"]["commit"] for i in range(3)] == [
        head(lab, repo, f"topic~{2 - i}") for i in range(3)
    ]
    assert set(states(repo).values()) == {"reachable"} and set(states(repo, "main").values()) == {
        "unmerged"
    }


@pytest.mark.parametrize("word", ["fixup", "squash"])
def test_an_interactive_rebase_that_melts_commits_takes_all_their_memories(
    lab: Lab, word: str
) -> None:
    repo = following(lab)
    topic(lab, repo)
    lab.env.update(GIT_SEQUENCE_EDITOR=f"sed -i -e '2,3s/^pick/{word}/'", GIT_EDITOR="true")
    lab.git(repo, "rebase", "-q", "-i", "main")
    assert {(a["state"], a["commit"]) for a in anchors(repo).values()} == {
        ("reachable", head(lab, repo))
    }


def test_a_rebase_that_took_no_notes_along_is_recognised_by_its_patches(lab: Lab) -> None:
    repo = lab.repo()
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "main.txt", "beside")
    lab.git(repo, "rebase", "-q", "main", "topic")
    found = anchors(repo)
    assert [found[f"topic {i}"]["squashed_into"] for i in range(3)] == [
        head(lab, repo, f"topic~{2 - i}") for i in range(3)
    ]


# --- merges ----------------------------------------------------------------


def test_a_real_merge_makes_a_branch_reachable(lab: Lab) -> None:
    repo = lab.repo()
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    assert set(states(repo).values()) == {"unmerged"}
    commit(lab, repo, "main.txt", "beside")
    lab.git(repo, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    assert set(states(repo).values()) == {"reachable"}


def test_a_squash_merge_counts_for_every_commit_of_the_branch_also_after_a_change_next_to_it(
    lab: Lab,
) -> None:
    repo = lab.repo()
    (repo / "topic.txt").write_text("".join(f"old {i}\n" for i in range(9)))
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "nine lines")
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    (repo / "topic.txt").write_text(
        "".join(f"old {i}\n" for i in range(8)).replace("old 7", "new 7") + "old 8\n"
    )  # a context line of the branch
    commit(lab, repo, "main.txt", "beside")
    assert set(states(repo).values()) == {"unmerged"}
    into = squash(lab, repo)
    assert {(a["state"], a["squashed_into"]) for a in anchors(repo).values()} == {
        ("squashed", into)
    }
    commit(lab, repo, "main.txt", "later")
    assert set(states(repo).values()) == {"squashed"}
    assert set(states(repo, f"{into}~1").values()) == {"unmerged"}


def test_what_another_branch_has_by_a_squash_is_not_called_given_up(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "branch", "release")
    topic(lab, repo)
    squash(lab, repo)
    lab.git(repo, "branch", "-q", "-D", "topic")
    assert set(states(repo).values()) == {"squashed"}
    found = anchors(repo, "release")["topic 0"]
    assert found["state"] == "unmerged" and "reason" not in found
    lab.git(repo, "reset", "-q", "--hard", "release")
    assert anchors(repo, "release")["topic 0"]["reason"] == anchor_state.ABANDONED


def test_a_cherry_pick_counts_for_its_commit_only(lab: Lab) -> None:
    repo = lab.repo()
    made = topic(lab, repo, 1) + topic(lab, repo, 1, "other")
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "main.txt", "beside")
    lab.git(repo, "cherry-pick", made[1])
    assert states(repo) == {"topic 0": "unmerged", "other 0": "squashed"}


def test_a_revert_does_not_take_the_state_back(lab: Lab) -> None:
    repo = lab.repo()
    topic(lab, repo)
    squash(lab, repo)
    lab.git(repo, "revert", "--no-edit", "HEAD")
    assert set(states(repo).values()) == {"squashed"}
    made = topic(lab, repo, 2, "picked")
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "main.txt", "beside")
    lab.git(repo, "cherry-pick", *made)
    lab.git(repo, "revert", "--no-commit", "HEAD~2..HEAD")
    lab.git(repo, "commit", "-q", "-m", "both taken back")
    assert set(states(repo).values()) == {"squashed"}
    topic(lab, repo, 2, "second")
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "merge", "-q", "--no-ff", "-m", "merge", "second")
    lab.git(repo, "revert", "--no-edit", "-m", "1", "HEAD")
    assert {s for b, s in states(repo).items() if b.startswith("second")} == {"reachable"}


def test_a_change_that_main_had_before_the_branch_is_no_merge_of_it(lab: Lab) -> None:
    repo = lab.repo()
    first = commit(lab, repo, "flag.txt", "on")
    lab.git(repo, "revert", "--no-edit", "HEAD")
    lab.git(repo, "checkout", "-q", "-b", "again")
    lab.git(repo, "cherry-pick", first)
    tell(repo, "on again")
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "main.txt", "beside")
    with opened(repo) as store:  # not even when the old commit's patch-id is known
        store.with_cache(
            lambda cache: _learn(store, cache, lab.git(repo, "rev-list", "main").split())
        )
    assert states(repo) == {"on again": "unmerged"}
    squash(lab, repo, "again")
    assert states(repo) == {"on again": "squashed"}


def _learn(store: Store, cache: Any, commits: list[str]) -> None:
    found = patch_id.PatchIds(store.repo, cache, 60)
    assert found.learn(commits)
    found.save()


def test_a_branch_that_took_main_in_is_recognised(lab: Lab) -> None:
    repo = lab.repo()
    topic(lab, repo, 2)
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "main.txt", "beside")
    lab.git(repo, "checkout", "-q", "topic")
    lab.git(repo, "merge", "-q", "-m", "main into topic", "main")
    commit(lab, repo, "topic.txt", "after the merge")
    squash(lab, repo)
    assert set(states(repo).values()) == {"squashed"}


def test_a_branch_without_common_history_is_unmerged(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "checkout", "-q", "--orphan", "pages")
    commit(lab, repo, "page.html", "hello")
    tell(repo, "about the page")
    lab.git(repo, "checkout", "-q", "main")
    assert states(repo) == {"about the page": "unmerged"}


# --- other clones ----------------------------------------------------------


def test_a_fresh_clone_knows_of_a_squash_of_a_branch_that_is_gone_everywhere(lab: Lab) -> None:
    hub(lab)
    a = clone(lab, "a")
    topic(lab, a)
    squash(lab, a)
    lab.git(a, "branch", "-q", "-D", "topic")
    assert publish(lab, a) == 2  # the two memories made before the branch was whole
    lab.git(a, "push", "-q", "origin", "main")
    fresh = clone(lab, "fresh")
    assert all(
        lab.run(fresh, "git", "cat-file", "-e", anchor["commit"]).returncode
        for anchor in anchors(fresh).values()
    )
    assert {(x["state"], x["squashed_into"]) for x in anchors(fresh).values()} == {
        ("squashed", head(lab, fresh))
    }


def test_a_squash_on_the_server_is_told_of_before_it_happens(lab: Lab) -> None:
    hub(lab)
    a = clone(lab, "a")
    topic(lab, a)
    lab.git(a, "push", "-q", "origin", "topic")
    assert publish(lab, a) == 2
    server = clone(lab, "server")
    lab.git(server, "fetch", "-q", "origin", "topic:topic")
    squash(lab, server)
    lab.git(server, "push", "-q", "origin", "main", ":topic")
    fresh = clone(lab, "fresh")
    assert set(states(fresh).values()) == {"squashed"}
    with opened(fresh) as store:
        assert patch_id_marks.missing(store, "team") == []


def test_a_rebase_merge_on_the_server_is_recognised_by_each_commit(lab: Lab) -> None:
    hub(lab)
    a = clone(lab, "a")
    made = topic(lab, a)
    publish(lab, a)
    lab.git(a, "push", "-q", "origin", "topic")
    server = clone(lab, "server")
    lab.git(server, "fetch", "-q", "origin", "topic:topic")
    commit(lab, server, "main.txt", "beside")
    lab.git(server, "cherry-pick", f"{made[0]}~1..topic")
    lab.git(server, "push", "-q", "origin", "main", ":topic")
    fresh = clone(lab, "fresh")
    found = anchors(fresh)
    assert [found[f"topic {i}"]["squashed_into"] for i in range(3)] == [
        head(lab, fresh, f"HEAD~{2 - i}") for i in range(3)
    ]
    lab.git(a, "checkout", "-q", "main")
    lab.git(a, "pull", "-q", "--prune")
    assert set(states(a).values()) == {"squashed"}


def test_what_a_clone_cannot_know_is_unknown_with_the_reason(lab: Lab) -> None:
    hub(lab)
    a = clone(lab, "a")
    topic(lab, a)
    publish(lab, a)
    fresh = clone(lab, "fresh")
    assert {(x["state"], x["reason"]) for x in anchors(fresh).values()} == {
        ("unknown", anchor_state.ABSENT)
    }
    assert len(lab.json(fresh, "list")) == 3  # shown, not hidden


def test_a_shallow_clone_says_unknown_and_why(lab: Lab) -> None:
    hub(lab)
    a = clone(lab, "a")
    tell(a, "an old one")
    commit(lab, a, "f.txt", "more")
    tell(a, "a new one")
    publish(lab, a)
    lab.git(a, "push", "-q", "origin", "main")
    fresh = clone(lab, "fresh", "--depth", "1")
    found = anchors(fresh)
    assert found["a new one"]["state"] == "reachable"
    assert (found["an old one"]["state"], found["an old one"]["reason"]) == (
        "unknown",
        anchor_state.SHALLOW,
    )
    with opened(fresh) as store:
        assert patch_id_marks.missing(store, "team") == [] and reanchor.lost(store) == []


def test_a_partial_clone_is_not_asked_for_files(lab: Lab) -> None:
    server = hub(lab)
    lab.git(server, "config", "uploadpack.allowFilter", "true")
    a = clone(lab, "a")
    topic(lab, a)
    lab.git(a, "push", "-q", "origin", "topic")
    publish(lab, a)
    lab.git(a, "checkout", "-q", "main")
    commit(lab, a, "main.txt", "beside")
    lab.git(a, "push", "-q", "origin", "main")
    fresh = clone(lab, "fresh", "--filter=blob:none")
    with opened(fresh) as store:
        store.with_cache(lambda cache: None)  # the notes are files too
    server.rename(lab.root / "away.git")
    assert {(x["state"], x["reason"]) for x in anchors(fresh).values()} == {
        ("unknown", anchor_state.PARTIAL)
    }
    tell(fresh, "made here")
    assert anchors(fresh)["made here"]["state"] == "reachable"


# --- places where nothing stands -------------------------------------------


def test_before_the_first_commit_nothing_stands_anywhere(lab: Lab) -> None:
    repo = lab.repo("repo", 0)
    tell(repo, "an idea")
    assert anchors(repo)["an idea"] == {
        "commit": None,
        "branch": None,
        "state": "unknown",
        "reason": anchor_state.NOWHERE,
    }
    lab.git(repo, "checkout", "-q", "-b", "x")
    assert len(lab.json(repo, "list")) == 1


def test_an_unborn_branch_beside_others_says_unknown(lab: Lab) -> None:
    repo = lab.repo()
    tell(repo, "about main")
    lab.git(repo, "checkout", "-q", "--orphan", "empty")
    assert (anchors(repo)["about main"]["state"], anchors(repo)["about main"]["reason"]) == (
        "unknown",
        anchor_state.UNBORN,
    )
    assert lab.json(repo, "recall", "about main")["hits"]


def test_a_detached_head_counts_as_any_other(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    tell(repo, "about the second")
    lab.git(repo, "checkout", "-q", "--detach", "HEAD~1")
    assert states(repo) == {"about the second": "unmerged"}
    lab.git(repo, "checkout", "-q", "--detach", "main")
    assert states(repo) == {"about the second": "reachable"}


@pytest.mark.parametrize("merged", [True, False])
def test_a_memory_outlives_its_branch_and_a_garbage_collection(lab: Lab, merged: bool) -> None:
    repo = lab.repo()
    made = topic(lab, repo)
    if merged:
        squash(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    with opened(repo) as store:
        assert patch_id_marks.publish(store) == (2 if merged else 0)
    lab.git(repo, "branch", "-q", "-D", "topic")
    lab.git(repo, "reflog", "expire", "--expire=now", "--all")
    lab.git(repo, "gc", "-q", "--prune=now")
    assert lab.run(repo, "git", "cat-file", "-e", made[2]).returncode
    for _ in range(2):
        assert states(repo) == dict.fromkeys(
            [f"topic {i}" for i in range(3)], "squashed" if merged else "unknown"
        )
        with opened(repo) as store:
            store.discard()  # what the cache knew is not needed


# --- every reader says the same --------------------------------------------


def test_list_recall_log_show_and_at_agree(lab: Lab) -> None:
    repo = following(lab)
    tell(repo, "reachable memory")
    topic(lab, repo, 2, "squashed")
    into = squash(lab, repo, "squashed")
    topic(lab, repo, 1, "open")
    lab.git(repo, "checkout", "-q", "main")
    wanted = {
        "reachable memory": "reachable",
        "squashed 0": "squashed",
        "squashed 1": "squashed",
        "open 0": "unmerged",
    }
    listed = {m["body"]: m["anchor"]["state"] for m in lab.json(repo, "list", "--all")}
    assert listed == wanted
    assert {m["body"] for m in lab.json(repo, "list")} == set(wanted) - {"open 0"}
    for body, state in wanted.items():
        hit = next(h for h in lab.json(repo, "recall", body)["hits"] if h["body"] == body)
        assert hit["anchor"]["state"] == state and (
            hit["explain"]["prior"] if "explain" in hit else 1
        )
        assert lab.json(repo, "show", hit["id"])["anchor"] == hit["anchor"]
    assert {
        m["body"]: m["anchor"]["squashed_into"] for m in lab.json(repo, "log", "HEAD~1..HEAD")
    } == dict.fromkeys(["squashed 0", "squashed 1"], into)
    assert [m["body"] for m in lab.json(repo, "log", "HEAD~1")] == ["reachable memory"]
    at = {
        h["body"]: h["anchor"]["state"]
        for h in lab.json(repo, "recall", "squashed memory open", "--at", "HEAD")["hits"]
    }
    assert at == {b: s for b, s in wanted.items() if b != "open 0"}
    at = {
        h["body"]: h["anchor"]["state"]
        for h in lab.json(repo, "recall", "squashed memory open", "--at", "open")["hits"]
    }
    assert at["open 0"] == "reachable" and at["squashed 1"] == "squashed"
    assert [
        h["body"]
        for h in lab.json(repo, "recall", "squashed memory open", "--at", "HEAD~1")["hits"]
    ] == ["reachable memory"]


def test_unmerged_ranks_lower_and_squashed_does_not(lab: Lab) -> None:
    repo = lab.repo()
    tell(repo, "the retry budget is three")
    topic(lab, repo, 1)
    tell(repo, "the retry budget is five")
    lab.git(repo, "checkout", "-q", "main")

    def priors() -> dict[str, float]:
        with opened(repo) as store:
            return {
                h["body"]: h["explain"]["prior"]
                for h in recall.recall(store, "retry budget", Filter(), limit=8)["hits"]
            }

    assert (
        priors()["the retry budget is three"] == 1.0 and priors()["the retry budget is five"] < 1.0
    )
    squash(lab, repo)
    assert set(priors().values()) == {1.0}
