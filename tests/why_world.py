"""A file with rules, and ways to ask about it, for the tests of `git mem why` and `blame`."""

from __future__ import annotations

import pathlib
import sys

from conftest import Lab
from places import opened

from gitmem.timeline import why

CODE = "".join(f"def rule_{i}(x):\n    return x + {i}\n" for i in range(20))


def found(repo: pathlib.Path, path: str, at: str = "") -> dict[str, list[str]]:
    """{body: by what it was found}, in their order."""
    with opened(repo) as store:
        return {
            m["body"]: [reason["by"] for reason in m["why"]]
            for m in why.why(store, path, at=at, all_hits=True).items
        }


def about(lab: Lab, repo: pathlib.Path, text: str, *paths: str, commit: str = "HEAD") -> str:
    return str(
        lab.json(repo, "remember", text, "--commit", commit, *[f"--path={p}" for p in paths])["id"]
    )


def refused(lab: Lab, repo: pathlib.Path, *argv: str) -> str:
    done = lab.run(repo, sys.executable, "-m", "gitmem", *argv)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


def make(lab: Lab) -> pathlib.Path:
    """A repository with `src/parser.py` of 40 lines, written by the second commit."""
    path = lab.repo()
    (path / "src").mkdir()
    (path / "src" / "parser.py").write_text(CODE)
    lab.git(path, "add", "-A")
    lab.git(path, "commit", "-q", "-m", "parser")
    return path
