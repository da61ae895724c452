"""Hooks in odd places: paths with blanks and line breaks, named pipes among the files."""

from __future__ import annotations

import os
import pathlib
import subprocess
import time

import pytest
from conftest import Lab

PLACES = [
    " before",
    "behind ",
    "in between",
    "a\ttab",
    "a\nbreak",
    "at its end\n",
    "\n",
    " ",
    "~/at home",
    '"quoted"',
    "it's",
    "back\\slash",
    "a;b",
    "#number",
    "$HOME",
    "`true`",
    "*",
    "é",
]


def commit(lab: Lab, repo: pathlib.Path) -> int:
    """Commits; how often the team's own hook ran."""
    said = lab.root / "ran"
    said.write_text("")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "x")
    return said.read_text().count("ran")


@pytest.mark.parametrize("place", PLACES)
def test_hooks_of_others_run_wherever_their_directory_is(lab: Lab, place: str) -> None:
    repo = lab.repo()
    directory = lab.root / place[2:] if place.startswith("~/") else repo / place
    directory.mkdir()
    hook = directory / "post-commit"
    hook.write_text('#!/bin/sh\necho ran >>"$HOME/ran"\n')
    hook.chmod(0o755)
    lab.git(repo, "config", "core.hooksPath", place)
    before = (repo / ".git/config").read_bytes()
    assert commit(lab, repo) == 1
    lab.mem(repo, "install", "git")
    assert commit(lab, repo) == 1
    ahead = time.time() + 60
    os.utime(repo / ".git/config", (ahead, ahead))  # now the hook asks git where to go
    assert commit(lab, repo) == 1
    assert (repo / ".git/mem/spool").exists() or list((repo / ".git/mem").iterdir()), "and ours ran"
    assert not [
        line
        for line in lab.mem(repo, "doctor", rc=(0, 1)).splitlines()
        if line.startswith(("warn", "bad")) and "hook" in line
    ]
    lab.mem(repo, "uninstall", "git")
    assert (repo / ".git/config").read_bytes() == before
    assert commit(lab, repo) == 1


@pytest.mark.parametrize(
    "name", ["post-commit", "pre-push", "commit-msg", "post-commit.legacy", "whatever"]
)
def test_a_named_pipe_among_the_hooks_is_not_waited_for(lab: Lab, name: str) -> None:
    repo = lab.repo()
    hooks = repo / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    os.mkfifo(hooks / name)
    if name.endswith(".legacy"):
        (hooks / "post-commit").write_text("#!/bin/sh\n# made by https://pre-commit.com\n")
        (hooks / "post-commit").chmod(0o755)
    for words in (
        ["install", "git"],
        ["doctor"],
        ["status"],
        ["install", "git", "--pre-push"],
        ["doctor", "--repair"],
        ["uninstall", "git"],
        ["doctor"],
        ["uninstall"],
    ):
        done = lab.run(repo, "git-mem", *words)
        assert done.returncode == 0, (words, done.stderr)
    assert (hooks / name).is_fifo(), "it is not ours to replace"


def test_a_named_pipe_in_the_place_of_a_hook_of_ours_is_named(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "install", "git")
    (repo / ".git/hooks/post-commit").unlink()
    os.mkfifo(repo / ".git/hooks/post-commit")
    done = subprocess.run(
        ["git-mem", "doctor"],
        cwd=repo,
        env=lab.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "git does not run our hooks post-commit" in done.stdout
