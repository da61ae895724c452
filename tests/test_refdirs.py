"""A branch that moved without any hook of ours: who notices, and that no way to move one goes
unseen.
"""

from __future__ import annotations

import os
import time

import pytest
from conftest import Lab
from places import clone, commit, hub, kept, opened, publish, squash, topic

from gitmem.agents import hook_cache
from gitmem.engine.filters import Filter
from gitmem.git import discover, refs_mtime
from gitmem.hooks import spool
from gitmem.memory import recall


def test_a_plain_fetch_is_noticed_by_the_next_answer_and_wakes_the_worker(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git has no hook for it: HEAD and the notes stay, and what is kept was true before."""
    monkeypatch.setattr(spool, "wake", lambda common: False)
    hub(lab)
    a = clone(lab, "a")
    first, last = topic(lab, a, 1), ""
    publish(lab, a)
    last = commit(lab, a, "topic.txt", "the branch goes on")
    squash(lab, a)
    lab.git(a, "push", "-q", "origin", "main")
    fresh = clone(lab, "fresh")

    left = fresh / ".git" / "mem" / "spool"

    def asked() -> bool:
        """Whether the worker was since this was asked last."""
        found = left.exists() and b"behind" in left.read_bytes()
        left.unlink(missing_ok=True)
        return found

    def told() -> bool:
        """A prompt; whether it asked the worker."""
        place = discover.find(str(fresh), os.environ)
        assert place is not None
        asked()
        assert hook_cache.with_memories(
            place, lambda cache: cache.count(), time.monotonic() + 60
        ) == (1, True)
        return asked()

    def state() -> str:
        """What `recall` says."""
        with opened(fresh) as store:
            return str(
                recall.recall(store, "topic", Filter(), limit=1)["hits"][0]["anchor"]["state"]
            )

    with opened(fresh) as store:
        assert [s.state for s in kept(store).values()] == ["unknown"]
    assert not told() and state() == "unknown" and not asked()
    lab.git(a, "push", "-q", "origin", f"{first[0]}:refs/heads/topic")
    lab.git(fresh, "fetch", "-q")
    assert state() == "unmerged" and asked() and told()
    lab.git(a, "push", "-q", "origin", f"{last}:refs/heads/topic")
    lab.git(fresh, "fetch", "-q")  # what it grew to is what main has in one commit
    for _ in range(2):
        assert state() == "squashed" and told()
    with opened(fresh) as store:
        assert [s.state for s in kept(store).values()] == ["squashed"]
    assert not told()
    lab.git(fresh, "pack-refs", "--all")
    lab.git(fresh, "branch", "feature/new")
    assert not told()  # nothing is open that they could change


@pytest.mark.parametrize("deep", [False, True])
def test_every_way_to_move_a_branch_is_seen_without_reading_one(lab: Lab, deep: bool) -> None:
    hub(lab)
    repo = clone(lab, "repo")
    name = "group/sub/topic" if deep else "topic"

    def seen(*argv: str) -> None:
        stamp = refs_mtime.stamp(str(repo / ".git"))
        assert refs_mtime.same(str(repo / ".git"), stamp)
        lab.git(repo, *argv)
        assert not refs_mtime.same(str(repo / ".git"), stamp), argv

    seen("branch", name)
    seen("branch", "-f", name, "HEAD")
    lab.git(repo, "branch", f"{name}2")
    seen("push", "-q", "origin", name)
    seen("pack-refs", "--all")
    seen("branch", "-D", name)
    seen("tag", f"v1/{name}")
    seen("update-ref", "-d", f"refs/remotes/origin/{name}")
    seen("fetch", "-q")
    seen("commit", "-q", "--allow-empty", "-m", "next")
    assert not refs_mtime.same(str(repo / ".git"), "")
