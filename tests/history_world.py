"""A repository whose commit messages answer questions, for the tests of the history."""

from __future__ import annotations

import pathlib
from typing import Any

from conftest import Lab

BODY = "Else a replica that slept resurrects deleted rows after the epoch has ended."
SUBJECT = "Compaction keeps the tombstones of the last epoch"
QUESTION = "why do we keep tombstones in the compaction of an epoch"


def made(lab: Lab, *options: str) -> pathlib.Path:
    """A repository of four commits, two of which say why. Commits are searched."""
    lab.env["GIT_MEM_HISTORY"] = "recall"
    repo = lab.repo("repo", 2, *options)
    commit(lab, repo, f"{SUBJECT}\n\n{BODY}\n\nSigned-off-by: Ada <a@example.org>", "db/compact.py")
    commit(
        lab, repo, "Uploads are retried five times\n\nThe proxy drops one in a hundred.", "up.py"
    )
    return repo


def commit(lab: Lab, repo: pathlib.Path, message: str, *files: str) -> str:
    for name in files:
        (repo / name).parent.mkdir(exist_ok=True)
        with open(repo / name, "a") as f:
            f.write(f"{message}\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", message)
    return lab.git(repo, "rev-parse", "HEAD").strip()


def found(lab: Lab, repo: pathlib.Path, question: str, *options: str) -> list[dict[str, Any]]:
    hits: list[dict[str, Any]] = lab.json(repo, "recall", question, *options, rc=(0, 1))["hits"]
    return hits
