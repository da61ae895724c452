"""Moves of HEAD where branches are merged or given up, and in clones and worktrees: what becomes of
the memories there.
"""

from __future__ import annotations

import json
import os
import pathlib

import pytest
from conftest import Lab
from places import (
    clone,
    commit,
    following,
    full,
    head,
    hub,
    kept,
    opened,
    publish,
    same,
    squash,
    tell,
    topic,
)

from gitmem.anchors import anchor_state
from gitmem.engine import anchor_state_store, path_state_store, priors

# --- promotion, and what becomes of branches --------------------------------


def doors(lab: Lab, repo: pathlib.Path, words: str) -> dict[str, str]:
    """The state that each door gives of the memory that says these words; "-" where it is not
    shown.
    """
    lab.git(repo, "config", "mem.promptContext", "true")
    shown = next(iter(h["id"] for h in lab.json(repo, "list", "--all") if words in h["body"]))
    out = {}
    for name, argv in (
        ("recall", ["recall", words]),
        ("hot", ["recall", words, "--hot"]),
        ("list", ["list"]),
        ("list --all", ["list", "--all"]),
    ):
        answer = lab.json(repo, *argv, rc=(0, 1))
        out[name] = next(
            (
                h["anchor"]["state"]
                for h in (answer["hits"] if isinstance(answer, dict) else answer)
                if h["id"] == shown
            ),
            "-",
        )
    out["show"] = lab.json(repo, "show", shown)["anchor"]["state"]
    for name, event in (
        ("context", {"hook_event_name": "SessionStart", "source": "startup"}),
        ("prompt", {"hook_event_name": "UserPromptSubmit", "prompt": words}),
    ):
        told = lab.mem(
            repo,
            "hook",
            event["hook_event_name"],
            stdin=json.dumps(
                {**event, "session_id": "s-" + name + os.urandom(4).hex(), "cwd": str(repo)}
            ),
        )
        text = json.loads(told)["hookSpecificOutput"]["additionalContext"] if told.strip() else ""
        at = next((line for line in text.splitlines() if words in line), "")
        out[name] = "-" if not at else "unmerged" if "unmerged" in at else "told"
    return out


@pytest.mark.parametrize("how", ["merge", "fast-forward", "squash", "cherry-pick", "rebase-merge"])
def test_merging_a_branch_promotes_its_memories_at_every_door(lab: Lab, how: str) -> None:
    repo = lab.repo()
    words = "the queue needs a dead letter table"
    lab.git(repo, "checkout", "-q", "-b", "topic")
    made = [commit(lab, repo, "topic.txt", f"line {n}") for n in range(2)]
    tell(repo, words, made[1] if how == "cherry-pick" else made[0])
    lab.git(repo, "checkout", "-q", "main")
    if how != "fast-forward":
        commit(lab, repo, "main.txt", "beside")
    look(repo)
    before = doors(lab, repo, words)
    assert before == {
        "recall": "unmerged",
        "hot": "unmerged",
        "list": "-",
        "list --all": "unmerged",
        "show": "unmerged",
        "context": before["context"],
        "prompt": before["prompt"],
    }
    assert before["context"] in ("-", "unmerged") and before["prompt"] in ("-", "unmerged")
    if how in ("merge", "fast-forward"):
        lab.git(repo, "merge", "-q", "--no-edit", "topic")
    elif how == "squash":
        squash(lab, repo)
    else:
        lab.git(repo, "cherry-pick", *made)
    lab.git(repo, "branch", "-q", "-D", "topic")
    look(repo)
    state = "reachable" if how in ("merge", "fast-forward") else "squashed"
    after = doors(lab, repo, words)
    assert {after[name] for name in ("recall", "hot", "list", "list --all", "show")} == {state}
    assert after["context"] == "told" and after["prompt"] in ("told", "-")


def look(repo: pathlib.Path) -> None:
    with opened(repo) as store:
        kept(store)


def test_a_branch_that_was_given_up_is_said_and_sinks_below_an_open_one(lab: Lab) -> None:
    repo = lab.repo()
    for name in ("open", "left"):
        lab.git(repo, "checkout", "-q", "-b", name, "main")
        commit(lab, repo, f"{name}.txt", "one")
        tell(repo, f"the retry budget of the {name} queue is three")
    lab.git(repo, "checkout", "-q", "main")
    with opened(repo) as store:
        assert {s.reason for s in kept(store).values()} == {""}
        lab.git(repo, "branch", "-q", "-D", "left")
        found = kept(store)
        assert same(found) == same(full(store)) and sorted(s.reason for s in found.values()) == [
            "",
            anchor_state_store.ABANDONED,
        ]
    hits = {
        h["body"].split()[5]: h
        for h in lab.json(repo, "recall", "retry budget of the queue")["hits"]
    }
    assert (
        hits["left"]["anchor"]["reason"] == anchor_state_store.ABANDONED
        and hits["left"]["score"] < hits["open"]["score"]
    )
    lab.git(repo, "config", "mem.promptContext", "true")
    prompt = json.dumps(
        {
            "hook_event_name": "UserPromptSubmit",
            "session_id": "s",
            "cwd": str(repo),
            "prompt": "retry budget of the queue",
        }
    )
    for told in (
        json.loads(lab.mem(repo, "hook", "UserPromptSubmit", stdin=prompt))["hookSpecificOutput"][
            "additionalContext"
        ],
        lab.mem(repo, "context"),
    ):
        (left,), (open_,) = (
            [row for row in told.splitlines() if f"the {name} queue" in row]
            for name in ("left", "open")
        )
        assert (
            f'state="unmerged" branch="left" reason="{anchor_state_store.ABANDONED}"' in left
            and 'state="unmerged"' in open_
            and "reason=" not in open_
        )
    lab.git(repo, "branch", "again", hits["left"]["anchor"]["commit"])
    with opened(repo) as store:
        assert {s.reason for s in kept(store).values()} == {""}
    lab.git(repo, "branch", "-q", "-D", "again")
    lab.git(repo, "tag", "v0", hits["left"]["anchor"]["commit"])
    with opened(repo) as store:
        assert {s.reason for s in kept(store).values()} == {""}


def test_a_memory_whose_commit_is_not_here_counts_like_one_of_a_branch() -> None:
    assert (
        priors._branch(
            anchor_state_store.AnchorState(
                anchor_state_store.UNKNOWN, "a" * 40, reason=anchor_state_store.ABSENT
            )
        )
        == priors._branch(anchor_state_store.AnchorState(anchor_state_store.UNMERGED, "a" * 40))
        < 1.0
    )
    assert (
        priors._branch(
            anchor_state_store.AnchorState(
                anchor_state_store.UNKNOWN, "a" * 40, reason=anchor_state.SHALLOW
            )
        )
        == priors._branch(None)
        == 1.0
    )


# --- clones -----------------------------------------------------------------


def test_a_clone_that_is_deepened_is_looked_at_anew(lab: Lab) -> None:
    hub(lab)
    a = clone(lab, "a")
    tell(a, "an old one")
    commit(lab, a, "f.txt", "more")
    publish(lab, a)
    lab.git(a, "push", "-q", "origin", "main")
    fresh = clone(lab, "fresh", "--depth", "1")
    with opened(fresh) as store:
        assert [(s.state, s.reason) for s in kept(store).values()] == [
            ("unknown", anchor_state.SHALLOW)
        ]
        lab.git(fresh, "fetch", "-q", "--unshallow")
        assert [s.state for s in kept(store).values()] == ["reachable"]


def test_a_fetch_of_a_branch_makes_its_memories_known(lab: Lab) -> None:
    hub(lab)
    a = clone(lab, "a")
    topic(lab, a, 2)
    publish(lab, a)
    fresh = clone(lab, "fresh")
    with opened(fresh) as store:
        assert {(s.state, s.reason) for s in kept(store).values()} == {
            ("unknown", anchor_state_store.ABSENT)
        }
        lab.git(a, "push", "-q", "origin", "topic")
        lab.git(fresh, "fetch", "-q")
        assert {s.state for s in kept(store).values()} == {"unmerged"}
        squash_on(lab, fresh)
        assert {s.state for s in kept(store).values()} == {"squashed"}


def squash_on(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "merge", "-q", "--squash", "origin/topic")
    lab.git(repo, "commit", "-q", "-m", "topic (#1)")


def test_worktrees_keep_the_states_of_each_and_switching_in_one_moves_no_other(lab: Lab) -> None:
    repo = lab.repo()
    topic(lab, repo, 1, "one")
    topic(lab, repo, 1, "two")
    lab.git(repo, "checkout", "-q", "main")
    tree = lab.root / "tree"
    lab.git(repo, "worktree", "add", "-q", str(tree), "one")
    for name in ("one", "two", "one"):
        lab.git(tree, "checkout", "-q", name)
        look(repo)
        for place in (repo, tree):
            with opened(place) as store:
                said = store.with_cache(
                    lambda cache, store=store: anchor_state_store.read(
                        cache, anchor_state.of_memories(cache), store.repo.head()
                    )
                )[0]
                assert same(said) == same(full(store))


def test_whether_a_branch_holds_a_commit_is_the_same_for_every_worktree(lab: Lab) -> None:
    repo = lab.repo()
    tree = lab.root / "tree"
    lab.git(repo, "worktree", "add", "-q", "-b", "other", str(tree))
    lab.git(repo, "checkout", "-q", "--detach")
    commit(lab, repo, "a.txt", "one")
    tell(repo, "about a commit without a branch")
    look(repo)
    for back in (False, True):
        if back:
            lab.git(repo, "checkout", "-q", "main")
            look(repo)
        with opened(tree) as store:
            (said,) = store.with_cache(
                lambda cache, store=store: anchor_state_store.read(
                    cache, anchor_state.of_memories(cache), store.repo.head()
                )
            )[0].values()
        assert (said.state, said.reason) == (
            anchor_state_store.UNMERGED,
            anchor_state_store.ABANDONED,
        )


@pytest.mark.parametrize("moves", [False, True])
def test_a_commit_that_a_garbage_collection_took_is_not_here(lab: Lab, moves: bool) -> None:
    repo = lab.repo(commits=2)
    lab.git(repo, "checkout", "-q", "--detach")
    commit(lab, repo, "a.txt", "one")
    tell(repo, "about a commit without a branch")
    lab.git(repo, "checkout", "-q", "main")
    with opened(repo) as store:
        assert [s.reason for s in kept(store).values()] == [anchor_state_store.ABANDONED]
    lab.git(repo, "reflog", "expire", "--expire=now", "--all")
    lab.git(repo, "gc", "-q", "--prune=now")
    if moves:
        lab.git(repo, "reset", "-q", "--hard", "HEAD~1")
    with opened(repo) as store:
        assert [(s.state, s.reason) for s in kept(store).values()] == [
            (anchor_state_store.UNKNOWN, anchor_state_store.ABSENT)
        ]


def test_a_head_that_was_left_and_collected_is_none_to_begin_from(lab: Lab) -> None:
    repo = following(lab)
    commit(lab, repo, "a.txt", "one")
    commit(lab, repo, "a.txt", "two")
    lab.mem(repo, "remember", "--path", "a.txt", "--", "about a file")
    with opened(repo) as store:
        kept(store)
        lab.git(repo, "reset", "-q", "--hard", "HEAD~1")
        lab.git(repo, "reflog", "expire", "--expire=now", "--all")
        lab.git(repo, "gc", "-q", "--prune=now")
        assert same(kept(store)) == same(full(store))
        cache = store.with_cache(lambda cache: cache)[0]
        rows = [row for (row,) in cache.db.execute("SELECT row FROM memory_path")]
        assert [
            s.state
            for found in path_state_store.read(cache, rows, head(lab, repo)).values()
            for s in found.values()
        ] == ["changed"]


def test_head_moves_back_where_commits_are_replaced(lab: Lab) -> None:
    repo = following(lab)
    for n in range(5):
        commit(lab, repo, "a.txt", f"line {n}")
        tell(repo, f"about line {n}")
    lab.git(repo, "replace", "--graft", "HEAD~2", "HEAD~4")
    with opened(repo) as store:
        kept(store)
        lab.git(repo, "reset", "-q", "--hard", "HEAD~1")
        assert same(kept(store)) == same(full(store))
        assert sorted(s.state for s in kept(store).values()) == ["reachable"] * 3 + ["unmerged"] * 2


def test_a_squash_is_found_from_wherever_head_comes(lab: Lab) -> None:
    repo = lab.repo()
    for n in range(4):
        commit(lab, repo, "main.txt", f"line {n}")
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    with opened(repo) as store:
        kept(store)  # the branch contains HEAD: its combined patch-id is made later
        lab.git(repo, "checkout", "-q", "--detach", "main~2")
        kept(store)
        lab.git(repo, "worktree", "add", "-q", "../beside", "main")
        squash(lab, lab.root / "beside")
        lab.git(repo, "worktree", "remove", "--force", "../beside")
        kept(store)
        lab.git(repo, "checkout", "-q", "main")
        assert {s.state for s in kept(store).values()} == {"squashed"} and same(
            kept(store)
        ) == same(full(store))


def test_tags_that_were_fetched_to_remotes_are_the_commits_they_name(lab: Lab) -> None:
    repo = lab.repo()
    for n in range(4):
        commit(lab, repo, "main.txt", f"line {n}")
    topic(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "tag", "-a", "v1", "-m", "v1", "main~1")
    lab.git(repo, "update-ref", "refs/remotes/up/tags/v1", lab.git(repo, "rev-parse", "v1").strip())
    with opened(repo) as store:
        for name in ("main", "main~3", "main~2", "topic"):
            lab.git(repo, "checkout", "-q", "--detach", name)
            assert same(kept(store)) == same(full(store))
