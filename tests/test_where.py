"""Where memories stand after what people do to history: every situation with real git, each state from `where` alone."""

from __future__ import annotations

import contextlib
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Lab

from gitmem.anchors import marks, patches, reanchor, twins, where
from gitmem.anchors.ancestry import Ancestry
from gitmem.core import record
from gitmem.engine.filters import Filter
from gitmem.git.gitcmd import Git
from gitmem.memory import listing, recall, remember, view
from gitmem.store import Store, open_store


@contextlib.contextmanager
def opened(repo: pathlib.Path) -> Iterator[Store]:
    store = open_store({}, str(repo))
    try:
        yield store
    finally:
        store.close()


def tell(repo: pathlib.Path, text: str, commit: str = "", scope: str = "") -> str:
    """Remembers a text; returns its id."""
    with opened(repo) as store:
        (result,) = remember.remember(store, [{"body": text, "commit": commit, "scope": scope}])
        assert result.status == remember.STORED, result.reason
        return result.id


def anchors(repo: pathlib.Path, at: str = "HEAD") -> dict[str, dict[str, Any]]:
    """{body: anchor} of every memory as seen from a revision."""
    with opened(repo) as store:
        found = store.with_cache(lambda cache: view.objects(store, cache, listing.rows_of(cache, Filter()), at))[0]
        return {m["body"]: m["anchor"] for m in found}


def states(repo: pathlib.Path, at: str = "HEAD") -> dict[str, str]:
    return {body: anchor["state"] for body, anchor in anchors(repo, at).items()}


def commit(lab: Lab, repo: pathlib.Path, file: str, text: str, message: str = "") -> str:
    """Appends a line to a file and commits it; returns the commit."""
    path = repo / file
    path.write_text((path.read_text() if path.exists() else "") + text + "\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", message or text)
    return head(lab, repo)


def head(lab: Lab, repo: pathlib.Path, name: str = "HEAD") -> str:
    return lab.git(repo, "rev-parse", name).strip()


def following(lab: Lab, name: str = "repo") -> pathlib.Path:
    """A repository whose notes follow rewrites, as after `git mem init`."""
    repo = lab.repo(name)
    lab.git(repo, "config", "notes.rewriteRef", "refs/notes/mem/*")
    return repo


def topic(lab: Lab, repo: pathlib.Path, commits: int = 3, name: str = "topic") -> list[str]:
    """A branch with a memory on each commit; ends on it."""
    lab.git(repo, "checkout", "-q", "-b", name)
    out = []
    for i in range(commits):
        out.append(commit(lab, repo, f"{name}.txt", f"{name} line {i}"))
        tell(repo, f"{name} {i}")
    return out


def squash(lab: Lab, repo: pathlib.Path, name: str = "topic") -> str:
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "merge", "-q", "--squash", name)
    lab.git(repo, "commit", "-q", "-m", f"{name} (#1)")
    return head(lab, repo)


def publish(lab: Lab, repo: pathlib.Path, remote: str = "origin") -> int:
    """What a sync does about marks, and the push of the notes."""
    with opened(repo) as store:
        written = reanchor.publish(store)
    lab.git(repo, "push", "-q", remote, "refs/notes/mem/team")
    return written


def hub(lab: Lab) -> pathlib.Path:
    """A bare repository with a commit on main."""
    lab.repo("seed")
    lab.git(lab.root, "clone", "-q", "--bare", "seed", "hub.git")
    return lab.root / "hub.git"


def clone(lab: Lab, name: str, *options: str) -> pathlib.Path:
    path = lab.root / name
    lab.git(lab.root, "clone", "-q", *options, (lab.root / "hub.git").as_uri(), name)
    lab.run(path, "git", "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team")
    return path


class Count:
    """The git processes that were started, by their first word."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.words: list[str] = []
        start = Git.start

        def counting(git: Git, args: Any, *rest: Any, **pipes: Any) -> Any:
            self.words.append(next(iter(args)))
            return start(git, args, *rest, **pipes)

        monkeypatch.setattr(Git, "start", counting)

    def of(self, action: Any) -> list[str]:
        self.words.clear()
        action()
        return sorted(self.words)


# --- rewrites that git takes notes along with ------------------------------


def test_a_memory_follows_an_amend(lab: Lab) -> None:
    repo = following(lab)
    old = commit(lab, repo, "a.txt", "one")
    tell(repo, "about one")
    lab.git(repo, "commit", "-q", "--amend", "-m", "better words")
    found = anchors(repo)["about one"]
    assert (found["state"], found["commit"]) == ("reachable", head(lab, repo)) and found["commit"] != old
    lab.git(repo, "commit", "-q", "--amend", "-m", "even better words")
    assert anchors(repo)["about one"]["commit"] == head(lab, repo)


def test_memories_in_continuations_follow_an_amend(lab: Lab) -> None:
    repo = following(lab)
    commit(lab, repo, "a.txt", "one")
    with opened(repo) as store:
        assert all(r.status == "stored" for r in remember.remember(store, [{"body": f"memory {i} " + "x" * 900} for i in range(60)]))
        assert len(lab.git(repo, "ls-tree", "-r", "--name-only", "refs/notes/mem/team").split()) > 2  # a note, a continuation, its key
    lab.git(repo, "commit", "-q", "--amend", "-m", "two")
    found = anchors(repo)
    assert len(found) == 60 and {(a["state"], a["commit"]) for a in found.values()} == {("reachable", head(lab, repo))}


def test_a_memory_follows_a_rebase(lab: Lab) -> None:
    repo = following(lab)
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "main.txt", "beside")
    lab.git(repo, "rebase", "-q", "main", "topic")
    found = anchors(repo)
    assert [found[f"topic {i}"]["commit"] for i in range(3)] == [head(lab, repo, f"topic~{2 - i}") for i in range(3)]
    assert set(states(repo).values()) == {"reachable"} and set(states(repo, "main").values()) == {"unmerged"}


@pytest.mark.parametrize("word", ["fixup", "squash"])
def test_an_interactive_rebase_that_melts_commits_takes_all_their_memories(lab: Lab, word: str) -> None:
    repo = following(lab)
    topic(lab, repo)
    lab.env.update(GIT_SEQUENCE_EDITOR=f"sed -i -e '2,3s/^pick/{word}/'", GIT_EDITOR="true")
    lab.git(repo, "rebase", "-q", "-i", "main")
    assert {(a["state"], a["commit"]) for a in anchors(repo).values()} == {("reachable", head(lab, repo))}


def test_a_rebase_that_took_no_notes_along_is_recognised_by_its_patches(lab: Lab) -> None:
    repo = lab.repo()
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "main.txt", "beside")
    lab.git(repo, "rebase", "-q", "main", "topic")
    found = anchors(repo)
    assert [found[f"topic {i}"]["squashed_into"] for i in range(3)] == [head(lab, repo, f"topic~{2 - i}") for i in range(3)]


# --- merges ----------------------------------------------------------------


def test_a_real_merge_makes_a_branch_reachable(lab: Lab) -> None:
    repo = lab.repo()
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    assert set(states(repo).values()) == {"unmerged"}
    commit(lab, repo, "main.txt", "beside")
    lab.git(repo, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    assert set(states(repo).values()) == {"reachable"}


def test_a_squash_merge_counts_for_every_commit_of_the_branch_also_after_a_change_next_to_it(lab: Lab) -> None:
    repo = lab.repo()
    (repo / "topic.txt").write_text("".join(f"old {i}\n" for i in range(9)))
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "-m", "nine lines")
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    (repo / "topic.txt").write_text("".join(f"old {i}\n" for i in range(8)).replace("old 7", "new 7") + "old 8\n")  # a context line of the branch
    commit(lab, repo, "main.txt", "beside")
    assert set(states(repo).values()) == {"unmerged"}
    into = squash(lab, repo)
    assert {(a["state"], a["squashed_into"]) for a in anchors(repo).values()} == {("squashed", into)}
    commit(lab, repo, "main.txt", "later")
    assert set(states(repo).values()) == {"squashed"}
    assert set(states(repo, f"{into}~1").values()) == {"unmerged"}


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
        store.with_cache(lambda cache: _learn(store, cache, lab.git(repo, "rev-list", "main").split()))
    assert states(repo) == {"on again": "unmerged"}
    squash(lab, repo, "again")
    assert states(repo) == {"on again": "squashed"}


def _learn(store: Store, cache: Any, commits: list[str]) -> None:
    found = patches.Patches(store.repo, cache, 60)
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
    assert all(lab.run(fresh, "git", "cat-file", "-e", anchor["commit"]).returncode for anchor in anchors(fresh).values())
    assert {(x["state"], x["squashed_into"]) for x in anchors(fresh).values()} == {("squashed", head(lab, fresh))}


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
        assert reanchor.missing(store, "team") == []


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
    assert [found[f"topic {i}"]["squashed_into"] for i in range(3)] == [head(lab, fresh, f"HEAD~{2 - i}") for i in range(3)]
    lab.git(a, "checkout", "-q", "main")
    lab.git(a, "pull", "-q", "--prune")
    assert set(states(a).values()) == {"squashed"}


def test_what_a_clone_cannot_know_is_unknown_with_the_reason(lab: Lab) -> None:
    hub(lab)
    a = clone(lab, "a")
    topic(lab, a)
    publish(lab, a)
    fresh = clone(lab, "fresh")
    assert {(x["state"], x["reason"]) for x in anchors(fresh).values()} == {("unknown", where.ABSENT)}
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
    assert (found["an old one"]["state"], found["an old one"]["reason"]) == ("unknown", where.SHALLOW)
    with opened(fresh) as store:
        assert reanchor.missing(store, "team") == [] and reanchor.lost(store) == []


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
    assert {(x["state"], x["reason"]) for x in anchors(fresh).values()} == {("unknown", where.PARTIAL)}
    tell(fresh, "made here")
    assert anchors(fresh)["made here"]["state"] == "reachable"


# --- places where nothing stands -------------------------------------------


def test_before_the_first_commit_nothing_stands_anywhere(lab: Lab) -> None:
    repo = lab.repo("repo", 0)
    tell(repo, "an idea")
    assert anchors(repo)["an idea"] == {"commit": None, "branch": None, "state": "unknown", "reason": where.NOWHERE}
    lab.git(repo, "checkout", "-q", "-b", "x")
    assert len(lab.json(repo, "list")) == 1


def test_an_unborn_branch_beside_others_says_unknown(lab: Lab) -> None:
    repo = lab.repo()
    tell(repo, "about main")
    lab.git(repo, "checkout", "-q", "--orphan", "empty")
    assert (anchors(repo)["about main"]["state"], anchors(repo)["about main"]["reason"]) == ("unknown", where.UNBORN)
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
        assert reanchor.publish(store) == (2 if merged else 0)
    lab.git(repo, "branch", "-q", "-D", "topic")
    lab.git(repo, "reflog", "expire", "--expire=now", "--all")
    lab.git(repo, "gc", "-q", "--prune=now")
    assert lab.run(repo, "git", "cat-file", "-e", made[2]).returncode
    for _ in range(2):
        assert states(repo) == dict.fromkeys([f"topic {i}" for i in range(3)], "squashed" if merged else "unknown")
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
    wanted = {"reachable memory": "reachable", "squashed 0": "squashed", "squashed 1": "squashed", "open 0": "unmerged"}
    listed = {m["body"]: m["anchor"]["state"] for m in lab.json(repo, "list", "--all")}
    assert listed == wanted
    assert {m["body"] for m in lab.json(repo, "list")} == set(wanted) - {"open 0"}
    for body, state in wanted.items():
        hit = next(h for h in lab.json(repo, "recall", body)["hits"] if h["body"] == body)
        assert hit["anchor"]["state"] == state and (hit["explain"]["prior"] if "explain" in hit else 1)
        assert lab.json(repo, "show", hit["id"])["anchor"] == hit["anchor"]
    assert {m["body"]: m["anchor"]["squashed_into"] for m in lab.json(repo, "log", "HEAD~1..HEAD")} == dict.fromkeys(["squashed 0", "squashed 1"], into)
    assert [m["body"] for m in lab.json(repo, "log", "HEAD~1")] == ["reachable memory"]
    at = {h["body"]: h["anchor"]["state"] for h in lab.json(repo, "recall", "squashed memory open", "--at", "HEAD")["hits"]}
    assert at == {b: s for b, s in wanted.items() if b != "open 0"}
    at = {h["body"]: h["anchor"]["state"] for h in lab.json(repo, "recall", "squashed memory open", "--at", "open")["hits"]}
    assert at["open 0"] == "reachable" and at["squashed 1"] == "squashed"
    assert [h["body"] for h in lab.json(repo, "recall", "squashed memory open", "--at", "HEAD~1")["hits"]] == ["reachable memory"]


def test_unmerged_ranks_lower_and_squashed_does_not(lab: Lab) -> None:
    repo = lab.repo()
    tell(repo, "the retry budget is three")
    topic(lab, repo, 1)
    tell(repo, "the retry budget is five")
    lab.git(repo, "checkout", "-q", "main")

    def priors() -> dict[str, float]:
        with opened(repo) as store:
            return {h["body"]: h["explain"]["prior"] for h in recall.recall(store, "retry budget", Filter(), limit=8)["hits"]}

    assert priors()["the retry budget is three"] == 1.0 and priors()["the retry budget is five"] < 1.0
    squash(lab, repo)
    assert set(priors().values()) == {1.0}


# --- what it costs ---------------------------------------------------------


def test_reachable_anchors_cost_no_git_process_more(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo("repo", 3)
    tell(repo, "the retry budget is three")
    tell(repo, "the retry budget was five", "HEAD~1")
    count = Count(monkeypatch)
    with opened(repo) as store:
        recall.recall(store, "retry budget", Filter(), limit=8)
    with opened(repo) as store:
        again = count.of(lambda: recall.recall(store, "retry budget", Filter(), limit=8))
        assert again == ["cat-file", "cat-file", "rev-list"]
    lab.git(repo, "checkout", "-q", "--detach", "HEAD~1")
    with opened(repo) as store:
        assert count.of(lambda: recall.recall(store, "retry five", Filter(types=["none"]), limit=1)) == ["cat-file"]


def test_what_was_sought_in_vain_is_not_sought_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo()
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "main.txt", "beside")
    count = Count(monkeypatch)

    def ask() -> list[str]:
        with opened(repo) as store:
            found = count.of(lambda: store.with_cache(lambda cache: where.stands(store.repo, cache, reanchor.anchors(cache), store.repo.head())))
            return [w for w in found if w not in ("cat-file", "log")]

    assert "diff-tree" in ask()
    assert ask() == ["rev-list"]
    squash(lab, repo)
    assert "diff-tree" in ask()
    assert ask() == ["rev-list"]
    assert set(states(repo).values()) == {"squashed"}


def test_new_marks_make_a_search_in_vain_be_repeated(lab: Lab) -> None:
    repo = lab.repo()
    made = topic(lab, repo, 2)
    into = squash(lab, repo)
    lab.git(repo, "branch", "-q", "-D", "topic")
    lab.git(repo, "reflog", "expire", "--expire=now", "--all")
    assert states(repo) == {"topic 0": "unmerged", "topic 1": "squashed"}
    base = head(lab, repo, f"{into}~1")
    with opened(repo) as store:
        store.append("team", [(made[0], record.dump(record.mark(made[0], "", base, marks.patch_id(store.repo, into))))], "git mem: mark 1 commit")
    assert set(states(repo).values()) == {"squashed"}


def test_without_time_the_answer_is_unknown_until_the_search_goes_on(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo()
    topic(lab, repo)
    squash(lab, repo)
    topic(lab, repo, 1, "open")
    lab.git(repo, "checkout", "-q", "main")
    commit(lab, repo, "main.txt", "beside")
    woken: list[bool] = []
    monkeypatch.setattr(Store, "catch_up", lambda self: woken.append(True))
    with opened(repo) as store:
        answer = recall.recall(store, "topic open", Filter(), limit=8, hot=True)
        assert {(h["anchor"]["state"], h["anchor"]["reason"]) for h in answer["hits"]} == {("unknown", where.WAITING)} and woken
        reanchor.finish(store)
        answer = recall.recall(store, "topic open", Filter(), limit=8, hot=True)
        assert sorted(h["anchor"]["state"] for h in answer["hits"]) == ["squashed"] * 3 + ["unmerged"] and len(woken) == 1


def test_a_search_goes_on_where_time_ran_out(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo("repo", 1)
    topic(lab, repo, 1)
    squash(lab, repo)
    for i in range(6):
        commit(lab, repo, "main.txt", f"line {i}")
    monkeypatch.setattr(patches, "CHUNK", 2)
    clock = [0.0]
    monkeypatch.setattr(patches.time, "monotonic", lambda: clock.__setitem__(0, clock[0] + 0.4) or clock[0])  # type: ignore[func-returns-value]
    seen = []
    for _ in range(8):
        seen.append(states(repo)["topic 0"])
    assert seen[0] == "unknown" and seen[-1] == "squashed" and set(seen) == {"unknown", "squashed"}


# --- patch-ids -------------------------------------------------------------


def test_a_pipeline_gives_the_ids_that_single_calls_give(lab: Lab) -> None:
    repo = lab.repo("repo", 3)
    made = topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "nothing")
    every = lab.git(repo, "rev-list", "HEAD").split()
    base = head(lab, repo, f"{made[0]}~1")
    with opened(repo) as store:
        ids, done = marks.patch_ids(store.repo, every, 60)
        assert done == len(every) and {c: ids.get(c, "") for c in every} == {c: marks.patch_id(store.repo, c) for c in every}
        assert sum(not ids.get(c) for c in every) == 2  # the merge and the empty one
        ids, _ = marks.patch_ids(store.repo, [f"{c} {base}" for c in made], 60)
        assert ids == {c: marks.patch_id(store.repo, base, c) for c in made} and len(set(ids.values())) == 3
        assert marks.patch_ids(store.repo, every, 0.0)[1] <= len(every)


def test_a_missing_object_gives_no_id_and_stops_no_other(lab: Lab) -> None:
    repo = lab.repo("repo", 5)
    every = lab.git(repo, "rev-list", "HEAD").split()
    blob = head(lab, repo, f"{every[2]}:f2.txt")
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with opened(repo) as store:
        ids, done = marks.patch_ids(store.repo, every, 60)
        assert done < len(every) and every[2] not in ids

        def learn(cache: Any) -> dict[str, str]:
            found = patches.Patches(store.repo, cache, 60)
            assert found.learn(every)
            return found.own(every)

        assert sorted(store.with_cache(learn)[0]) == sorted(set(every) - {every[2]})


def test_sha256_repositories_work_alike(lab: Lab) -> None:
    repo = lab.repo("repo", 1, "--object-format=sha256")
    topic(lab, repo)
    squash(lab, repo)
    assert set(states(repo).values()) == {"squashed"}
    with opened(repo) as store:
        assert reanchor.publish(store) == 2


# --- marks -----------------------------------------------------------------


def test_two_clones_write_the_same_marks(lab: Lab) -> None:
    hub(lab)
    a = clone(lab, "a")
    topic(lab, a)
    lab.git(a, "push", "-q", "origin", "topic", "refs/notes/mem/team")
    b = clone(lab, "b")
    with opened(a) as first, opened(b) as second:
        ours, theirs = reanchor.missing(first, "team"), reanchor.missing(second, "team")
    assert len(ours) == 2 and ours == theirs


def test_with_nothing_to_mark_a_sync_pays_two_processes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    hub(lab)
    a = clone(lab, "a")
    topic(lab, a)
    lab.git(a, "push", "-q", "origin", "topic")
    publish(lab, a)
    with opened(a) as store:
        assert reanchor.publish(store) == 0
    count = Count(monkeypatch)
    with opened(a) as store:
        assert [w for w in count.of(lambda: reanchor.publish(store)) if w != "cat-file"] == ["for-each-ref"]


def test_an_import_without_marks_gets_them_beside_the_main_line_only(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo("repo", 3)
    lab.git(repo, "checkout", "-q", "-b", "topic")
    made = [commit(lab, repo, "t.txt", f"line {i}") for i in range(3)]
    monkeypatch.setattr(marks, "MANY", 0)
    with opened(repo) as store:
        remember.remember(store, [{"body": f"memory {c}", "commit": c} for c in lab.git(repo, "rev-list", "topic").split()])
        items = reanchor.missing(store, "team")
        assert sorted(anchor for anchor, _ in items) == sorted(made)
        assert all(json.loads(line)["branch_patch"] and json.loads(line)["patch"] for _, line in items)
        reanchor.publish(store)
    squash(lab, repo)
    lab.git(repo, "branch", "-q", "-D", "topic")
    lab.git(repo, "reflog", "expire", "--expire=now", "--all")
    lab.git(repo, "gc", "-q", "--prune=now")
    found = states(repo)
    assert found[f"memory {made[2]}"] == "squashed"


def test_private_memories_are_marked_in_private_notes_only(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "t.txt", "one")
    tell(repo, "a private thought", scope="private")
    commit(lab, repo, "t.txt", "two")
    squash(lab, repo)
    with opened(repo) as store:
        assert reanchor.publish(store) == 1
        assert not store.team.tip()
    assert [json.loads(line)["op"] for line in lab.lines(repo, "mem/private")] == ["create", "mark"]


def test_marks_and_moves_are_no_memories(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    topic(lab, repo, 2)
    squash(lab, repo)
    with opened(repo) as store:
        assert reanchor.publish(store) == 1
        assert reanchor.reanchor(store, [(head(lab, repo, "topic"), head(lab, repo))]).moved
        counts = store.with_cache(lambda cache: listing.counts(store, cache))[0]
    assert (counts["memories"], counts["forgotten"], counts["records"]) == (2, 0, 4)
    assert {json.loads(line)["op"] for line in lab.lines(repo)} == {"create", "mark", "move"}
    assert len(lab.json(repo, "list", "--all")) == 2
    assert "bad" not in {f["level"] for f in lab.json(repo, "doctor", rc=(0, 1))}
    lab.mem(repo, "show", head(lab, repo, "topic")[:12], rc=(1,))
    lab.mem(repo, "index", "--rebuild")
    assert len(lab.json(repo, "list", "--all")) == 2


# --- moves -----------------------------------------------------------------


def rewritten(lab: Lab, repo: pathlib.Path) -> dict[str, str]:
    """Every commit made anew with another message, as filter-repo would; main moves. {old: new}"""
    new: dict[str, str] = {}
    for old in lab.git(repo, "rev-list", "--reverse", "--topo-order", "main").split():
        parents = [arg for p in lab.git(repo, "rev-parse", f"{old}^@").split() for arg in ("-p", new[p])]
        new[old] = lab.git(repo, "commit-tree", f"{old}^{{tree}}", *parents, "-m", "anew").strip()
    lab.git(repo, "update-ref", "refs/heads/main", list(new.values())[-1])
    return new


def test_a_commit_map_moves_memories_to_the_new_history(lab: Lab) -> None:
    repo = lab.repo("repo", 4)
    olds = lab.git(repo, "rev-list", "main").split()
    for i, old in enumerate(olds[:3]):
        tell(repo, f"memory {i}", old)
    new = rewritten(lab, repo)
    new[olds[2]] = "0" * 40
    (repo / "map").write_text("old                                      new\n" + "".join(f"{o} {n}\n" for o, n in new.items()))
    answer = lab.json(repo, "reanchor", "--map", "map")
    assert sorted((m["old"], m["new"], m["memories"]) for m in answer["moved"]) == sorted((o, new[o], 1) for o in olds[:2])
    assert (answer["dropped"], answer["refused"], answer["known"]) == ([olds[2]], [], 0)
    found = anchors(repo)
    assert [(found[f"memory {i}"]["state"], found[f"memory {i}"]["commit"]) for i in range(2)] == [("reachable", new[o]) for o in olds[:2]]
    assert found["memory 2"]["state"] == "squashed"  # its patch stands in the new history
    again = lab.json(repo, "reanchor", "--map", "map")
    assert (again["moved"], again["known"]) == ([], 2)


def test_moves_are_followed_over_several_rewrites_and_cycles_do_no_harm(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    first = head(lab, repo)
    tell(repo, "about the first")
    second = rewritten(lab, repo)[first]
    lab.mem(repo, "reanchor", first[:10], second)
    lab.git(repo, "commit", "-q", "--amend", "-m", "third")
    third = head(lab, repo)
    lab.mem(repo, "reanchor", second, "HEAD")
    assert anchors(repo)["about the first"] == {"commit": third, "branch": "main", "state": "reachable"}
    lab.mem(repo, "reanchor", third, first)
    assert anchors(repo)["about the first"]["commit"] == third
    lab.git(repo, "reset", "-q", "--hard", first)
    assert anchors(repo)["about the first"]["commit"] == first


def test_reanchor_refuses_what_is_not_there(lab: Lab) -> None:
    repo = lab.repo()
    tell(repo, "about this")
    done = lab.run(repo, "git", "rev-parse", "HEAD").stdout.strip()
    assert lab.json(repo, "reanchor", done, "1" * 40, rc=(1,))["refused"] == [{"old": done, "new": "1" * 40, "reason": "no such commit in this repository"}]
    lab.mem(repo, "reanchor", "2" * 40, "HEAD", rc=(1,))
    lab.mem(repo, "reanchor", done, rc=(2,))
    lab.mem(repo, "reanchor", rc=(2,))
    lab.mem(repo, "reanchor", done, done, rc=(1,))
    (repo / "map").write_text("old new\nnonsense\n")
    lab.mem(repo, "reanchor", "--map", "map", rc=(1,))
    assert len(lab.lines(repo)) == 1


def test_private_memories_move_in_private_notes(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    old = head(lab, repo, "HEAD~1")
    tell(repo, "a private thought", "HEAD~1", "private")
    lab.mem(repo, "reanchor", old, "HEAD")
    assert lab.lines(repo) == [] and [json.loads(line)["op"] for line in lab.lines(repo, "mem/private")] == ["create", "move"]
    assert anchors(repo)["a private thought"]["commit"] == old  # both are in this history, its own comes first


# --- lost anchors ----------------------------------------------------------


def test_anchors_that_no_ref_holds_are_listed_with_the_same_change_elsewhere(lab: Lab) -> None:
    repo = lab.repo()
    made = topic(lab, repo, 2)
    lab.git(repo, "checkout", "-q", "main")
    with opened(repo) as store:
        assert reanchor.lost(store) == []
    lab.git(repo, "branch", "copy", "main")
    lab.git(repo, "checkout", "-q", "copy")
    commit(lab, repo, "main.txt", "beside")
    lab.git(repo, "cherry-pick", made[0])
    twin = head(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "branch", "-q", "-D", "topic")
    tell(repo, "another about the second", made[1])
    with opened(repo) as store:
        found = [(item.commit, item.memories, item.here, item.same) for item in reanchor.lost(store)]
    assert found == [(made[1], 2, True, []), (made[0], 1, True, [twin])]
    assert states(repo)["topic 0"] == "unmerged"  # offered, not applied
    said = lab.mem(repo, "doctor", rc=(0, 1))
    assert made[1][:12] in said and f"same change as {twin[:12]}" in said and "git mem reanchor" in said
    lab.mem(repo, "reanchor", made[0], twin)
    with opened(repo) as store:
        assert [item.commit for item in reanchor.lost(store)] == [made[1]]


def test_squashed_and_moved_anchors_are_not_lost(lab: Lab) -> None:
    repo = following(lab)
    topic(lab, repo, 2)
    squash(lab, repo)
    commit(lab, repo, "x.txt", "x")
    tell(repo, "about x")
    lab.git(repo, "commit", "-q", "--amend", "-m", "y")
    assert set(states(repo).values()) == {"squashed", "reachable"}
    lab.git(repo, "branch", "-q", "-D", "topic")
    with opened(repo) as store:
        assert reanchor.lost(store) == []


def test_ancestry_tells_forks_and_tips(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    made = topic(lab, repo, 2)
    lab.git(repo, "checkout", "-q", "-b", "stacked")
    top = commit(lab, repo, "s.txt", "s")
    with opened(repo) as store:
        line = Ancestry(store.repo.git, [head(lab, repo, "main")], [*made, top, "1" * 40, head(lab, repo, "main~1")])
        assert [line.contains(c) for c in (made[0], head(lab, repo, "main"), head(lab, repo, "main~1"), "1" * 40)] == [False, True, True, False]
        assert line.forks(top) == {head(lab, repo, "main")} and line.forks("1" * 40) == frozenset()
        assert line.containing([made[1], top], [made[0], top]) == {made[0]: [made[1], top], top: [top]}
        assert twins.RECENT > 0
