"""Every command once, as a process of its own, in a repository with three memories and a remote.

The other tests fork git mem (tests/zygote.py), so this is where each command starts cold.
"""

from __future__ import annotations

import pathlib
import shutil

import pytest
from conftest import Lab

from gitmem.cli.commands import ALIASES, COMMANDS

pytestmark = pytest.mark.quick
UTC = "Decision: all timestamps are stored as UTC"
# Arguments, exit code, a part of the answer. ID is the memory about UTC, OTHER the private one.
CASES = {
    "init": ("--offline", 0, "git mem is ready"),
    "install": ("claude", 0, "SessionStart"),
    "uninstall": ("git", 0, "nothing was installed"),
    "recall": ("how-are-timestamps-stored", 0, UTC),
    "search": ("timestamps", 0, UTC),
    "list": ("", 0, UTC),
    "show": ("ID", 0, "Ada <ada@example.org>"),
    "log": ("", 0, UTC),
    "why": ("f0.txt", 0, UTC),
    "blame": ("f0.txt", 0, UTC),
    "diff": ("HEAD~1..HEAD", 0, UTC),
    "bisect": ("ID", 1, "is not stale"),
    "check": ("", 0, "no memory is stale"),
    "context": ("", 0, UTC),
    "hook": ("SessionStart", 0, "additionalContext"),
    "sync": ("", 0, "2 sent"),
    "push": ("", 0, "2 sent"),
    "pull": ("", 0, "up to date"),
    "verify": ("", 0, "3 without a signature"),
    "sign": ("ID", 1, "signing is off"),
    "remember": ("comments-are-kept", 0, "remembered"),
    "edit": ("ID --tag time", 0, "edited ID"),
    "supersede": ("ID -m seconds-since-1970", 0, "which supersedes ID"),
    "forget": ("ID", 0, "forgot ID"),
    "promote": ("HEAD --type decision", 0, "remembered"),
    "restore": ("ID", 1, "is not forgotten"),
    "share": ("OTHER", 0, "shared OTHER"),
    "reanchor": ("HEAD HEAD~1", 0, "(3 memories)"),
    "capture": ("--now", 0, "0 suggested"),
    "purge": ("ID --force", 0, "purged ID"),
    "mcp": ("", 0, ""),
    "receipts": ("", 1, "no receipts yet"),
    "browse": ("", 1, "needs a terminal"),
    "ui": ("--output page.html", 0, "wrote 3 memories: page.html"),
    "graph": ("ID", 1, UTC),  # alone
    "review": ("", 1, "nothing waits"),
    "consolidate": ("", 1, "found nothing"),
    "calibrate": ("", 1, "nothing changed"),
    "bench": ("--json", 0, "everyday"),
    "model": ("list", 0, "qwen"),
    "status": ("", 0, "3"),
    "index": ("", 0, "3"),
    "stats": ("", 0, "decision"),
    "doctor": ("", 0, ""),
    "config": ("", 0, "mem.capture"),
    "export": ("", 0, UTC),
    "import": ("../export.jsonl", 0, "1"),
    "tour": ("", 0, "In your own repository, begin with `git mem init`"),
    "help": ("recall", 0, "Usage"),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, str, str]:
    """A directory to copy, and the ids of two memories."""
    lab = Lab(tmp_path_factory.mktemp("smoke"))
    repo = lab.repo(commits=2)
    lab.git(lab.root, "init", "-q", "--bare", "hub.git")
    lab.git(repo, "remote", "add", "origin", "../hub.git")
    lab.git(repo, "push", "-q", "origin", "main")
    lab.mem(repo, "init")
    about_utc = lab.json(repo, "remember", UTC, "--type", "decision", "--path", "f0.txt")
    lab.mem(repo, "remember", "The pager leaves the terminal raw", "--type", "bugfix")
    private = lab.json(repo, "remember", "A note for myself alone", "--private")
    (lab.root / "export.jsonl").write_text('{"body": "Invoices are rounded per line"}\n')
    return lab.root, about_utc["id"][:8], private["id"][:8]


@pytest.mark.process
@pytest.mark.parametrize("command", [*COMMANDS, *ALIASES])
def test_the_command_starts_cold_and_answers(
    lab: Lab, template: tuple[pathlib.Path, str, str], command: str
) -> None:
    assert command in CASES, f"a new command needs a line in CASES: {command}"
    root, about_utc, private = template
    words, status, part = CASES[command]
    shutil.copytree(root, lab.root, dirs_exist_ok=True)
    argv = words.replace("ID", about_utc).replace("OTHER", private).split()
    done = lab.run(lab.root / "repo", "git-mem", command, *argv)
    said = done.stdout + done.stderr
    assert done.returncode == status and "Traceback" not in said, said
    assert part.replace("ID", about_utc).replace("OTHER", private) in said
