"""End to end: the real Codex, Gemini and Copilot command lines, offline, against a scripted model.

What the model was sent is what counts.
"""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import socket
from collections.abc import Iterator

import pytest
from client.others import Codex, Copilot, Gemini, Other
from conftest import Lab, until

UTC = "all timestamps are UTC, the interface converts"
TEXT = "Use PostgreSQL, not MongoDB: orders and invoices share a transaction"
QUESTION = "which database do orders and invoices use"


def started(client: type[Other], root: pathlib.Path) -> Iterator[Other]:
    if not client.program.is_file():
        pytest.skip(f"no client {client.directory.name} here: sh tools/fetch_clients.sh")
    made = client(root)
    yield made
    made.model.close()


@pytest.fixture
def codex(tmp_path: pathlib.Path) -> Iterator[Other]:
    yield from started(Codex, tmp_path / "client")


@pytest.fixture
def gemini(tmp_path: pathlib.Path) -> Iterator[Other]:
    if not shutil.which("node"):
        pytest.skip("no node here")
    yield from started(Gemini, tmp_path / "client")


@pytest.fixture
def copilot(tmp_path: pathlib.Path) -> Iterator[Other]:
    yield from started(Copilot, tmp_path / "client")


def installed(lab: Lab, agent: Other) -> pathlib.Path:
    """A repository with two memories; hooks and server in the settings of the client's user."""
    repo = lab.repo("project", 2)
    lab.mem(repo, "init")
    lab.mem(repo, "remember", f"Decision: {UTC}", "--type", "decision")
    lab.mem(repo, "remember", TEXT)
    agent.settings()
    env = {"HOME": str(agent.home), "PATH": agent.path}
    lab.mem(repo, "install", agent.name, "--mcp", env=env)
    return repo


def answers(path: pathlib.Path) -> bool:
    """Whether a server still listens. Codex kills it: the name of its socket stays."""
    # By its name alone: the path of a socket has at most 107 bytes.
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:
        return not one.connect_ex(path.name)


def works(lab: Lab, agent: Other, repo: pathlib.Path) -> None:
    """Hooks and tools of one session: what they gave its model, and what they noted."""
    agent.prompt(repo, QUESTION, [agent.recall(QUESTION), {"text": "done"}])
    first, second = agent.seen(0), agent.seen(1)
    assert "memory_context source" in first and UTC in first  # the session's start
    assert TEXT in first  # the prompt
    assert "HIT: 1 among 2 memories" in second and TEXT in second.partition("HIT:")[2]
    (receipt,) = lab.json(repo, "receipts")
    assert receipt["agent"] == agent.name
    until(lambda: not any(map(answers, (repo / ".git" / "mem").glob("prefork.sock.*"))))


def test_copilot_gets_context_prompt_memories_and_tools(lab: Lab, copilot: Other) -> None:
    works(lab, copilot, installed(lab, copilot))


def test_codex_gets_context_prompt_memories_and_tools(lab: Lab, codex: Other) -> None:
    works(lab, codex, installed(lab, codex))
    assert "PostToolUse" in codex.prompt(lab.root / "project", "go", [codex.recall(QUESTION)])


def test_codex_runs_no_hook_that_its_user_has_not_trusted(lab: Lab, codex: Other) -> None:
    repo = installed(lab, codex)
    codex.prompt(repo, QUESTION, trusted=False)
    assert "memory_context" not in codex.seen() and "mcp__git_mem" in codex.seen()


def test_gemini_gets_context_prompt_memories_and_tools(lab: Lab, gemini: Other) -> None:
    works(lab, gemini, installed(lab, gemini))
    gemini.prompt(lab.root / "project", "please write the file")
    assert "may bear on this prompt" not in gemini.seen()  # nor on the context before it
    assert "Before research, planning or review" in gemini.seen(0)  # the server's instructions
    assert "&lt;memory_context" in gemini.seen(0)  # it quotes what hooks give
