"""End to end: sessions of the real client, and what capture makes of them."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from client.harness import VERSIONS, Client
from conftest import Lab

from gitmem.hooks import announce

DECISION = "Decision: the exports are written as Parquet, because the readers skip columns"


@pytest.fixture
def project(lab: Lab, client: Client) -> pathlib.Path:
    path = lab.repo("project", 2)
    lab.mem(path, "init", "--offline")
    lab.git(path, "config", "mem.capture", "all")
    lab.mem(
        path, "install", "claude", "--project", env={"HOME": str(client.home), "PATH": client.path}
    )
    return path


def bodies(lab: Lab, path: pathlib.Path) -> list[dict[str, Any]]:
    lab.mem(path, "capture", "--now")
    return list(lab.json(path, "list", "--all"))


def test_a_decision_in_a_session_ends_in_private_notes(
    client: Client, lab: Lab, project: pathlib.Path
) -> None:
    client.talk(
        project,
        "hello",
        DECISION,
        "thanks",
        replies=[{"text": "hi"}, {"text": "Understood."}, {"text": "ok"}],
    )
    (item,) = bodies(lab, project)
    assert (
        item["body"] == DECISION
        and item["type"] == "decision"
        and item["scope"] == "private"
        and item["source"].startswith("session:")
    )
    assert lab.lines(project, "mem/team") == []


def test_a_session_without_a_decision_leaves_none(
    client: Client, lab: Lab, project: pathlib.Path
) -> None:
    made = project / "made.txt"
    client.talk(
        project,
        "hello",
        "please write made.txt",
        "what does it say?",
        options=("--permission-mode", "acceptEdits"),
        replies=[
            {"text": "hi"},
            {"tool": "Write", "input": {"file_path": str(made), "content": "x\n"}},
            {"text": "I wrote the file."},
            {"text": "It says x."},
        ],
    )
    assert made.exists() and bodies(lab, project) == []


def test_what_a_session_was_told_is_not_captured_from_it(
    client: Client, lab: Lab, project: pathlib.Path
) -> None:
    lab.mem(project, "remember", "Decision: all timestamps are UTC", "--type", "decision", "--team")
    client.talk(
        project, "hello", "how do we store timestamps?", replies=[{"text": "hi"}, {"text": "ok"}]
    )
    assert "all timestamps are UTC" in client.seen()
    assert [m["scope"] for m in bodies(lab, project)] == ["team"]


def test_a_private_part_and_a_secret_are_nowhere(
    client: Client, lab: Lab, project: pathlib.Path
) -> None:
    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    client.talk(
        project,
        "Remember this: <private>the door code is 4711</private>",
        f"Remember this: the token is {token}",
        replies=[{"text": "ok"}, {"text": "ok"}],
    )
    assert bodies(lab, project) == []
    left = [
        p
        for p in (project / ".git").rglob("*")
        if p.is_file() and any(w in p.read_bytes() for w in (b"door code", token.encode()))
    ]
    assert left == []


def test_the_next_session_says_what_was_captured_once(
    client: Client, lab: Lab, project: pathlib.Path
) -> None:
    client.prompt(project, DECISION)
    (item,) = bodies(lab, project)
    assert item["body"] == DECISION
    mem_dir = str(project / ".git" / "mem")
    assert item["id"][:8] in announce.message(mem_dir)
    client.prompt(project, "hello")
    assert announce.message(mem_dir) == ""  # the client took the line: it is not said again
    assert DECISION.removeprefix("Decision: ") in client.seen(-1)  # it is in the context now
    assert len(bodies(lab, project)) == 1


def test_what_was_said_in_another_repository_stays_out_of_the_one_where_the_session_ends(
    client: Client, lab: Lab, project: pathlib.Path
) -> None:
    lab.mem(project, "uninstall", "claude", env={"HOME": str(client.home), "PATH": client.path})
    other = lab.repo("other", 1)
    lab.mem(other, "init", "--offline")
    lab.git(other, "config", "mem.capture", "all")
    lab.mem(other, "install", "claude", env={"HOME": str(client.home), "PATH": client.path})
    move = [{"tool": "Bash", "input": {"command": f"cd {p}"}} for p in (project, other)]
    client.talk(
        project.parent,
        "go there",
        DECISION,
        "go on",
        "thanks",
        options=("--allowedTools", "Bash"),
        replies=[move[0], {"text": "there"}, {"text": "yes"}, move[1], {"text": "here"}],
    )
    moves = client.version == VERSIONS[0]  # the older one begins each turn where it was started
    assert [m["body"] for m in bodies(lab, project)] == [DECISION] * moves
    assert bodies(lab, other) == []
