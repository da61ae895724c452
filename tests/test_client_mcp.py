"""The MCP server under the real Claude Code client: its model sees the tools, and what they say."""

from __future__ import annotations

import pathlib
import shutil

from client.harness import Client
from conftest import Lab

TEXT = "Use PostgreSQL, not MongoDB: orders and invoices share a transaction"
ROOT = pathlib.Path(__file__).resolve().parent.parent


def test_the_model_recalls_and_remembers_by_tools(client: Client, lab: Lab) -> None:
    repo = lab.repo()
    shutil.copy(ROOT / ".mcp.json", repo)
    lab.mem(repo, "remember", TEXT, "--type", "decision")
    question = "which database do orders and invoices use"
    client.prompt(
        repo,
        "hello",
        "--allowedTools",
        "mcp__git-mem",
        replies=[
            {"tool": "mcp__git-mem__recall", "input": {"query": question}},
            {"tool": "mcp__git-mem__remember", "input": {"text": "The test runner needs a tty"}},
            {"text": "done"},
        ],
    )
    assert "mcp__git-mem__recall" in str(client.model.requests[0]["tools"])  # `alwaysLoad`
    assert "HIT: 1 among 1 memory" in client.seen() and TEXT in client.seen()
    assert "The test runner needs a tty" in [m["title"] for m in lab.json(repo, "list")]


def test_a_question_given_to_the_prompt_is_recalled_whole(client: Client, lab: Lab) -> None:
    """The client gives the server its first word alone."""
    repo = lab.repo()
    shutil.copy(ROOT / ".mcp.json", repo)
    lab.mem(repo, "remember", TEXT, "--type", "decision")
    question = "which database do orders and invoices use"
    client.prompt(repo, f"/mcp__git-mem__recall {question}", replies=[{"text": "done"}])
    assert "`recall` the user's whole question" in client.seen() and question in client.seen()
    assert "MISS: " not in client.seen()
