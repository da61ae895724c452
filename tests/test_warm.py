"""A process that stays, as the MCP server does: what a question costs, and what it still sees."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Lab
from history_world import QUESTION, SUBJECT, commit, made

import gitmem
from gitmem.engine import cache as cache_file
from gitmem.engine import model_vectors
from gitmem.library import Memories

TEXT = "Use PostgreSQL, not MongoDB: orders and invoices share a transaction"
ASKED = "which database do orders and invoices use"


@pytest.fixture
def repo(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Memories and commits of it answer."""
    found = made(lab)
    for name, value in lab.env.items():
        monkeypatch.setenv(name, value)
    lab.mem(found, "remember", TEXT)
    lab.mem(found, "index")
    return found


@pytest.fixture
def mem(repo: pathlib.Path) -> Iterator[Memories]:
    with gitmem.open(repo) as opened:
        for _ in range(3):  # the first question reads, the second keeps
            opened.recall(ASKED)
        yield opened


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What has been done since: "git" for a process, "open" for a database, "codes" for a reading
    of all sign codes."""
    done: list[str] = []

    def noted(owner: Any, name: str, word: str) -> None:
        inner = getattr(owner, name)

        def call(*args: Any, **kw: Any) -> Any:
            done.append(word)
            return inner(*args, **kw)

        monkeypatch.setattr(owner, name, call)

    noted(subprocess.Popen, "__init__", "git")
    noted(cache_file, "connect", "open")
    noted(model_vectors, "_codes", "codes")
    return done


def titles(mem: Memories, question: str) -> list[str]:
    return [hit["title"] for hit in mem.recall(question)["hits"]]


def test_a_warm_question_starts_no_git_and_opens_no_database(
    mem: Memories, work: list[str]
) -> None:
    for question in (ASKED, QUESTION, "what about uploads and the proxy"):
        assert mem.recall(question)["history"]["searched"]
    assert work == []


def test_a_warm_question_sees_what_others_remember_and_forget(
    lab: Lab, repo: pathlib.Path, mem: Memories, work: list[str]
) -> None:
    text = "The blue whale cache evicts by tide, not by age"
    id = lab.json(repo, "remember", text)["id"]
    work.clear()
    assert titles(mem, "how does the whale cache evict")[0] == text
    assert "open" not in work and "codes" in work
    lab.mem(repo, "forget", id)
    assert text not in titles(mem, "how does the whale cache evict")


def test_a_warm_question_sees_new_commits_and_branches(
    lab: Lab, repo: pathlib.Path, mem: Memories
) -> None:
    assert SUBJECT in titles(mem, QUESTION)
    subject = "Zanzibar quotas are counted twice"
    commit(lab, repo, f"{subject}\n\nThe relay sums them again.")
    asked = "why are zanzibar quotas counted twice by the relay"
    assert titles(mem, asked)[0] == subject
    lab.git(repo, "branch", "side")
    lab.git(repo, "reset", "-q", "--hard", "HEAD~1")
    for _ in range(3):
        hit = mem.recall(asked)["hits"][0]
        assert (hit["title"], hit["anchor"]["state"]) == (subject, "unmerged")
    lab.git(repo, "branch", "-q", "-D", "side")
    assert subject not in titles(mem, asked)
    lab.git(repo, "checkout", "-q", "--detach", "HEAD~1")
    lab.git(repo, "branch", "-q", "-D", "main")
    assert "Uploads are retried five times" not in titles(mem, "why are uploads retried")


def test_a_warm_question_outlives_the_loss_of_the_cache(lab: Lab, mem: Memories) -> None:
    for file in (lab.root / "repo" / ".git" / "mem").glob("*.db*"):
        file.unlink()
    assert titles(mem, ASKED)[0] == TEXT
    assert SUBJECT in titles(mem, QUESTION)
