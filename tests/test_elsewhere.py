"""Where memories are that an answer does not have: in the remote, fetched and not united, not
shared, left out of a list.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable
from typing import Any

import pytest
from conftest import Lab
from hook_world import Hooks

from gitmem import cli
from gitmem.git.gitcmd import Git

NEVER = "this clone has never fetched memories: `git mem init && git mem pull`"
OFFERED = "the remote has memories of the team: `git mem pull`"
NOT_UNITED = "memories of the team were fetched and not taken in yet: `git mem pull`"


@pytest.fixture
def team(lab: Lab) -> pathlib.Path:
    """A clone whose remote has one memory of the team."""
    repo = lab.repo()
    lab.git(lab.root, "clone", "-q", "--bare", str(repo), "hub.git")
    lab.git(repo, "remote", "add", "origin", str(lab.root / "hub.git"))
    lab.mem(repo, "init", "--offline")
    lab.mem(repo, "remember", "orders live in PostgreSQL")
    lab.mem(repo, "push")
    return repo


@pytest.fixture
def fresh(lab: Lab, team: pathlib.Path) -> pathlib.Path:
    lab.git(lab.root, "clone", "-q", "hub.git", "fresh")
    return lab.root / "fresh"


def test_a_fresh_clone_says_that_it_has_never_fetched_memories(
    lab: Lab, fresh: pathlib.Path
) -> None:
    assert f"hint: {NEVER}" in lab.said(fresh, "recall", "where do orders live")
    assert f"hint: {NEVER}" in lab.said(fresh, "list", "--json")
    # A check that passes since there is nothing to check must not go unseen in CI.
    for argv in (["check"], ["check", "--format", "github"], ["log"], ["why", "f0.txt"]):
        assert lab.said(fresh, *argv) == f"hint: {NEVER}\n"
    assert NEVER in lab.mem(fresh, "status")
    lab.mem(fresh, "init", "--offline")
    assert "`git mem pull` looks for some" in lab.said(fresh, "list")
    assert OFFERED not in told(lab, fresh, source="startup")
    lab.mem(fresh, "init")
    assert lab.said(fresh, "list") == f"hint: {OFFERED}\n"
    assert OFFERED in told(lab, fresh, source="startup")
    lab.mem(fresh, "pull")
    assert OFFERED not in told(lab, fresh, source="startup")
    assert lab.said(fresh, "list") == lab.said(fresh, "recall", "orders") == ""
    assert lab.said(fresh, "check") == lab.said(fresh, "log") == ""


def test_memories_that_were_fetched_and_not_united_are_named(lab: Lab, fresh: pathlib.Path) -> None:
    lab.mem(fresh, "init", "--offline")
    lab.git(fresh, "fetch", "-q")
    assert lab.said(fresh, "list") == f"hint: {NOT_UNITED}\n"


def test_where_no_remote_could_have_some_nothing_is_said(lab: Lab) -> None:
    alone = lab.repo()
    assert lab.said(alone, "list") == lab.said(alone, "recall", "orders") == ""
    lab.git(alone, "remote", "add", "origin", "../nowhere")
    lab.mem(alone, "remember", "tea at four", "--private")
    assert lab.said(alone, "list") == ""


def told(lab: Lab, repo: pathlib.Path, agent: str = "", **fields: str) -> str:
    """What the user hears at a session's start."""
    payload = {"session_id": "s1", "cwd": str(repo), "hook_event_name": "SessionStart", **fields}
    out = Hooks(lab, repo).run("SessionStart", payload, agent).stdout
    return str(json.loads(out).get("systemMessage", "")) if out else ""


def test_a_session_starts_with_it_where_the_project_says_that_it_keeps_memories(
    lab: Lab, fresh: pathlib.Path
) -> None:
    assert told(lab, fresh) == ""
    for name, text in [
        (".gitmem.toml", "limit = 5\n"),
        ("AGENTS.md", "<!-- BEGIN git-mem -->\n"),
        ("CLAUDE.md", "# Notes\n\n<!-- BEGIN git-mem -->\n"),
    ]:
        (fresh / name).write_text(text)
        assert told(lab, fresh) == f"git mem: this project keeps memories, {NEVER}"
        assert told(lab, fresh, source="resume") == told(lab, fresh, agent="cursor") == ""
        assert not (fresh / ".git" / "mem").exists()
        lab.git(fresh, "config", "--global", "mem.enabled", "false")
        assert told(lab, fresh) == ""
        lab.git(fresh, "config", "--global", "--unset", "mem.enabled")
        (fresh / name).unlink()
    (fresh / "CLAUDE.md").write_text("# Notes\n")
    assert told(lab, fresh) == ""


def test_a_project_without_a_remote_is_told_nothing(lab: Lab, fresh: pathlib.Path) -> None:
    (fresh / ".gitmem.toml").write_text("limit = 5\n")
    lab.git(fresh, "remote", "remove", "origin")
    assert told(lab, fresh) == ""


@pytest.mark.parametrize("packed", [False, True])
def test_a_session_starts_with_memories_that_were_fetched_and_not_united(
    lab: Lab, fresh: pathlib.Path, packed: bool
) -> None:
    lab.mem(fresh, "init", "--offline")
    lab.git(fresh, "config", "mem.capture", "false")  # nothing is said of it then
    assert told(lab, fresh) == ""
    lab.git(fresh, "fetch", "-q")
    if packed:
        lab.git(fresh, "pack-refs", "--all")
    assert told(lab, fresh) == f"git mem: {NOT_UNITED}"
    block = Hooks(lab, fresh).call("SessionStart", source="startup")
    assert NOT_UNITED in block and "no memories here yet" not in block
    lab.mem(fresh, "pull")
    assert NOT_UNITED not in told(lab, fresh)


def test_status_says_how_many_records_the_remote_lacks(lab: Lab, team: pathlib.Path) -> None:
    assert lab.json(team, "status")["not_shared"] == 0
    assert "not shared" not in lab.mem(team, "status")
    id = lab.json(team, "remember", "retries back off with jitter")["id"]
    lab.mem(team, "edit", id, "--tag", "net")
    lab.mem(team, "remember", "tea at four", "--private")
    assert lab.json(team, "status")["not_shared"] == 2
    assert "not shared:      2 records; `git mem sync` sends them" in lab.mem(team, "status")
    assert lab.json(team, "push", "--dry-run")["sent"] == 2
    lab.mem(team, "push")
    assert lab.json(team, "status")["not_shared"] == 0


def test_before_the_first_push_no_record_is_shared_and_without_a_remote_none_could_be(
    lab: Lab,
) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "orders live in PostgreSQL")
    assert lab.json(repo, "status")["not_shared"] is None
    assert "not shared" not in lab.mem(repo, "status")
    lab.git(repo, "remote", "add", "origin", "../nowhere")
    assert lab.json(repo, "status")["not_shared"] == 1


def test_list_says_in_one_line_what_it_left_out(lab: Lab) -> None:
    repo = lab.repo()
    old = lab.json(repo, "remember", "orders live in MongoDB", "--type", "decision")["id"]
    lab.mem(repo, "supersede", old, "orders live in PostgreSQL", "--type", "decision")
    lab.mem(repo, "remember", "lunch is at noon")
    assert lab.mem(repo, "list").splitlines()[2:] == [
        "… left out: 1 superseded (--include-superseded)"
    ]
    lab.git(repo, "checkout", "-q", "-b", "topic")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "topic")
    lab.mem(repo, "remember", "the queue needs a dead letter table")
    lab.git(repo, "checkout", "-q", "main")
    assert lab.mem(repo, "list", "-n", "1").splitlines()[1:] == [
        "… left out: 1 more (-n, --json), 1 on unmerged branches (--all),"
        " 1 superseded (--include-superseded)"
    ]
    assert "left out" not in lab.mem(repo, "list", "--all", "--include-superseded")
    assert "left out" not in lab.mem(repo, "list", "--type", "discovery", "--all")
    assert lab.mem(repo, "list", "--type", "gotcha") == "no memories pass this filter\n"
    assert len(lab.json(repo, "list")) == 2


def test_status_asks_git_nothing_twice(
    lab: Lab, team: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    start = Git.start

    def noted(git: Git, args: Iterable[str], *rest: Any, **more: Any) -> Any:
        asked.append(tuple(args))
        return start(git, asked[-1], *rest, **more)

    monkeypatch.setattr(Git, "start", noted)
    monkeypatch.chdir(team)
    assert cli.run(["status"]) == 0
    assert asked and sorted(asked) == sorted(set(asked))
