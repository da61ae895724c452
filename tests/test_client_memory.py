"""Auto memory end to end: what the real Claude Code client writes is taken in, and what git mem
writes is in what the model is sent.
"""

from __future__ import annotations

import json
import pathlib
import re

import pytest
from client.harness import Client
from conftest import Lab


def directory(client: Client, cwd: pathlib.Path) -> pathlib.Path:
    """Where the client tells its model to keep memories."""
    client.prompt(cwd, "hello")
    found = re.search(r"file-based memory at `([^`]+)`", client.seen())
    assert found
    return pathlib.Path(found[1])


def env(client: Client) -> dict[str, str]:
    return {"HOME": str(client.home)}


@pytest.mark.parametrize("name", ["project", "my.proj_1 \u00e9\U0001f389", "long" * 30])
def test_what_the_client_notes_is_found_by_meaning(client: Client, lab: Lab, name: str) -> None:
    below = lab.root / ("deep" * 25) if name.startswith("long") else lab.root
    below.mkdir(exist_ok=True)
    repo = lab.repo(str((below / name).relative_to(lab.root)))
    there = directory(client, repo)
    note = (
        "---\nname: staging-night\ndescription: The staging cluster is rebuilt every night at"
        " two\nmetadata:\n  type: project\n---\n\nThe staging cluster is rebuilt every night at"
        " two.\n\n**Why:** the licence of the test data forbids to keep it. See [[deploys]].\n**How"
        " to apply:** keep nothing there.\n"
    )
    client.prompt(
        repo,
        "remember this",
        "--permission-mode",
        "acceptEdits",
        replies=[
            {
                "tool": "Write",
                "input": {"file_path": str(there / "staging-night.md"), "content": note},
            },
            {
                "tool": "Write",
                "input": {
                    "file_path": str(there / "MEMORY.md"),
                    "content": "- [Staging at night](staging-night.md) — rebuilt at two\n",
                },
            },
            {"text": "done"},
        ],
    )
    said = lab.json(repo, "import", "claude", env=env(client))
    assert (said["directory"], said["stored"], said["missing"]) == (str(there).rstrip("/"), 1, [])
    answer = lab.json(repo, "recall", "can I leave files on the staging machines over night")
    assert (
        answer["hits"][0]["title"] == "Staging at night" and answer["hits"][0]["scope"] == "private"
    )


def test_the_model_is_sent_the_memories_that_were_written_back(client: Client, lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "worktree", "add", "-q", str(lab.root / "other"))
    (repo / "sub").mkdir()
    lab.mem(
        repo,
        "remember",
        "Use PostgreSQL, not MongoDB: orders and invoices share a transaction",
        "--type",
        "decision",
        "--title",
        "PostgreSQL it is",
    )
    assert "PostgreSQL it is" not in (client.prompt(repo, "hello") and client.seen())
    lab.mem(repo, "export", "claude", env=env(client))
    for cwd in (repo, repo / "sub", lab.root / "other"):
        client.prompt(cwd, "hello")
        assert client.seen().count("[PostgreSQL it is](git-mem-") == 1
        assert "git mem: begin" not in client.seen() and "WARNING: MEMORY.md" not in client.seen()
    lab.mem(repo, "export", "claude", "--remove", env=env(client))
    client.prompt(repo, "hello")
    assert "PostgreSQL it is" not in client.seen()


def test_an_index_that_is_full_is_still_loaded_whole(client: Client, lab: Lab) -> None:
    repo = lab.repo()
    there = directory(client, repo)
    (there / "MEMORY.md").write_text(
        "".join(f"- [Note {i}](note_{i}.md) — hook {i}\n" for i in range(150))
    )
    lines = [
        json.dumps({"title": f"Memory number {i} " + "wide " * 20, "body": "deep " * 50})
        for i in range(60)
    ]
    lab.mem(repo, "remember", "--jsonl", "-", stdin="\n".join(lines))
    written = lab.json(repo, "export", "claude", env=env(client))["written"]
    client.prompt(repo, "hello")
    assert (
        client.seen().count("](git-mem-") == written > 30
        and "WARNING: MEMORY.md" not in client.seen()
    )
