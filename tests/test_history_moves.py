"""The searchable commits follow what HEAD and the branches reach, wherever these go."""

from __future__ import annotations

import pathlib
import sqlite3

import pytest
from conftest import Lab
from history_world import QUESTION, SUBJECT, commit, found, made

QUOTAS = "Zanzibar quotas are counted twice"
ASKED = "why are zanzibar quotas counted twice by the relay"
MESSAGE = f"{QUOTAS}\n\nThe relay sums them again."


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    return made(lab)


def searchable(lab: Lab, repo: pathlib.Path) -> set[str]:
    """What the cache holds once a question has brought it up to date."""
    found(lab, repo, QUESTION)
    (file,) = (repo / ".git" / "mem").glob("history-*.db")
    db = sqlite3.connect(file)
    ids = {id for (id,) in db.execute("SELECT id FROM memory")}
    db.close()
    return ids


def reached(lab: Lab, repo: pathlib.Path) -> set[str]:
    return set(lab.git(repo, "rev-list", "HEAD", "--branches", "--remotes").split())


def test_a_fetch_brings_commits_and_a_pruned_branch_takes_them(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo.parent, "clone", "-q", str(repo), "clone")
    clone = repo.parent / "clone"
    assert searchable(lab, clone) == reached(lab, clone)
    lab.git(repo, "checkout", "-q", "-b", "side")
    id = commit(lab, repo, MESSAGE)
    assert id not in searchable(lab, clone)
    lab.git(clone, "fetch", "-q")
    assert found(lab, clone, ASKED)[0]["id"] == id
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "branch", "-q", "-D", "side")
    lab.git(clone, "fetch", "-q", "--prune")
    assert id not in searchable(lab, clone) == reached(lab, clone)


def test_a_deleted_branch_takes_its_commits_and_one_made_again_brings_them(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo, "checkout", "-q", "-b", "side")
    id = commit(lab, repo, MESSAGE)
    lab.git(repo, "checkout", "-q", "main")
    assert id in searchable(lab, repo)
    lab.git(repo, "branch", "-q", "-D", "side")
    assert id not in searchable(lab, repo)
    lab.git(repo, "branch", "side", id)
    assert id in searchable(lab, repo)


def test_after_a_merge_a_commit_is_unmerged_no_more(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "checkout", "-q", "-b", "side")
    commit(lab, repo, MESSAGE)
    lab.git(repo, "checkout", "-q", "main")
    assert found(lab, repo, ASKED)[0]["anchor"]["state"] == "unmerged"
    lab.git(repo, "merge", "-q", "--no-ff", "-m", "Merge side", "side")
    assert found(lab, repo, ASKED)[0]["anchor"]["state"] == "reachable"


@pytest.mark.parametrize("gone", [False, True])
def test_an_amended_commit_takes_the_place_of_the_former(
    lab: Lab, repo: pathlib.Path, gone: bool
) -> None:
    former = commit(lab, repo, MESSAGE)
    assert former in searchable(lab, repo)
    lab.git(
        repo,
        "commit",
        "-q",
        "--allow-empty",
        "--amend",
        "-m",
        f"{QUOTAS}\n\nThe relay restarts at night.",
    )
    if gone:
        lab.git(repo, "reflog", "expire", "--expire=now", "--all")
        lab.git(repo, "gc", "-q", "--prune=now")
    hits = found(lab, repo, ASKED)
    assert hits[0]["body"] == "The relay restarts at night."
    assert former not in searchable(lab, repo) == reached(lab, repo)


def test_rebased_commits_take_the_place_of_the_former(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "checkout", "-q", "-b", "side", "HEAD~1")
    former = [commit(lab, repo, f"{MESSAGE} {n}", "quotas.py") for n in range(3)]
    assert searchable(lab, repo).issuperset(former)
    lab.git(repo, "rebase", "-q", "main")
    now = searchable(lab, repo)
    assert now.isdisjoint(former) and now == reached(lab, repo)


def test_after_a_hard_reset_and_back_the_same_commits_answer(lab: Lab, repo: pathlib.Path) -> None:
    before = searchable(lab, repo)
    lab.git(repo, "reset", "-q", "--hard", "HEAD~3")
    assert searchable(lab, repo) == reached(lab, repo) < before
    lab.git(repo, "reset", "-q", "--hard", "ORIG_HEAD")
    assert searchable(lab, repo) == before
    assert found(lab, repo, QUESTION)[0]["title"] == SUBJECT


def test_a_history_without_a_common_commit_takes_the_place_of_the_former(
    lab: Lab, repo: pathlib.Path
) -> None:
    found(lab, repo, QUESTION)
    lab.git(repo, "checkout", "-q", "--orphan", "fresh")
    id = commit(lab, repo, MESSAGE)
    lab.git(repo, "branch", "-q", "-D", "main")
    assert searchable(lab, repo) == {id}


def test_where_a_shallow_clone_ends_a_commit_has_no_files_until_more_is_fetched(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo.parent, "clone", "-q", "--depth=2", f"file://{repo}", "shallow")
    clone = repo.parent / "shallow"
    (hit,) = [hit for hit in found(lab, clone, QUESTION) if hit["title"] == SUBJECT]
    assert hit["paths"] == [] and len(searchable(lab, clone)) == 2
    assert SUBJECT not in lab.mem(clone, "why", "db/compact.py", rc=(1,))
    assert lab.json(clone, "blame", "db/compact.py", rc=(1,)).get("commits", []) == []
    lab.git(clone, "fetch", "-q", "--unshallow")
    assert searchable(lab, clone) == reached(lab, clone) == reached(lab, repo)
    assert found(lab, clone, QUESTION)[0]["paths"] == [{"path": "db/compact.py"}]
