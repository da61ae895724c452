"""Where memories stand is in the notes alone (P1): the same with the cache that was kept, with one made anew, and in a fresh clone."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any

import pytest
from conftest import Lab
from places import anchors, commit, opened, squash, tell

from gitmem.anchors import reanchor
from gitmem.engine.filters import Filter
from gitmem.memory import listing
from gitmem.store import Store

TEXT = "the invoice is stored in cents"


def rebuilt(repo: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Where memories stand after the cache was deleted."""
    shutil.rmtree(repo / ".git/mem")
    return anchors(repo)


def learned(store: Store) -> None:
    """What the worker does after each event."""
    store.with_cache(lambda cache: None)
    reanchor.finish(store)
    reanchor.state(store)


# --- what a branch that is gone explained -----------------------------------


@pytest.mark.parametrize("into", ["main", "next"])
def test_a_squash_that_only_the_branch_explains_is_written_down(lab: Lab, into: str) -> None:
    """A memory's own marks know the branch as it was then; it was merged with more commits."""
    repo = lab.repo()
    lab.git(repo, "checkout", "-q", "-b", "next")
    commit(lab, repo, "n.txt", "next")
    lab.git(repo, "checkout", "-q", "-b", "topic", into)
    commit(lab, repo, "t.txt", "one")
    tell(repo, TEXT)
    commit(lab, repo, "t.txt", "two")
    lab.git(repo, "checkout", "-q", into)
    lab.git(repo, "merge", "-q", "--squash", "topic")
    lab.git(repo, "commit", "-q", "-m", "topic (#1)")
    assert anchors(repo)[TEXT]["state"] == "squashed"
    with opened(repo) as store:
        learned(store)
        assert reanchor.state(store) == 0
    lab.git(repo, "branch", "-q", "-D", "topic")
    lab.git(repo, "reflog", "expire", "--expire=now", "--all")
    lab.git(repo, "gc", "-q", "--prune=now")
    assert anchors(repo)[TEXT]["state"] == "squashed"
    assert rebuilt(repo)[TEXT]["state"] == "squashed"


def test_an_answer_that_rests_on_a_branch_wakes_the_worker(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = lab.repo()
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "t.txt", "one")
    tell(repo, TEXT)
    commit(lab, repo, "t.txt", "two")
    woken: list[str] = []
    monkeypatch.setattr(reanchor.spool, "ask", woken.append)
    with opened(repo) as store:
        learned(store)
        listing.list_memories(store, Filter())
        assert woken == []
        squash(lab, repo)
        listing.list_memories(store, Filter())
        assert woken != []
