"""A fork of the zygote answers as a process of its own does."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest
from conftest import _ZYGOTE, Lab
from zygote import REAL

pytestmark = pytest.mark.skipif(REAL, reason="no forks: GIT_MEM_TEST_PROCESS is set")


def same(
    lab: Lab, cwd: pathlib.Path, *words: str, stdin: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """The answer of a fork, which is the answer of a process."""
    lab.fork = True
    fork = lab.run(cwd, sys.executable, "-m", "gitmem", *words, stdin=stdin, env=env)
    lab.fork = False
    process = lab.run(cwd, sys.executable, "-m", "gitmem", *words, stdin=stdin, env=env)
    lab.fork = True
    assert (fork.returncode, fork.stdout, fork.stderr) == (
        process.returncode,
        process.stdout,
        process.stderr,
    )
    return fork


@pytest.mark.parametrize(
    "words",
    ["list", "recall nothing", "--version", "nonsense", "show zz", "list --json", "", "log --help"],
)
def test_output_and_exit_code_are_the_same(lab: Lab, repo: pathlib.Path, words: str) -> None:
    lab.mem(repo, "remember", "Invoices are rounded per line: ½ → 1")
    done = same(lab, repo, *words.split())
    assert done.stdout + done.stderr


def test_input_directory_and_environment_are_those_of_the_call(
    lab: Lab, repo: pathlib.Path
) -> None:
    line = '{"body": "' + "y" * 200_000 + '"}\n'  # more than a pipe holds
    assert "has 200000 bytes" in same(lab, repo, "remember", "--jsonl", "-", stdin=line).stderr
    assert same(lab, lab.root, "list").returncode == 128
    lab.mem(repo, "remember", "A line")
    shown = {same(lab, repo, "config", "capture", GIT_MEM_CAPTURE=v).stdout for v in ("off", "all")}
    assert len(shown) == 2


def test_git_mem_is_forked_and_nothing_else(lab: Lab) -> None:
    def command(*argv: str, **env: str) -> list[str] | None:
        return _ZYGOTE.command(list(argv), {**lab.env, **env})

    assert command(sys.executable, "-P", "-m", "gitmem", "list") == ["list"]
    assert command(sys.executable, "-c", "pass") is None
    assert command(sys.executable, "-m", "gitmem", "list", PYTHONPATH=".") is None
    assert command(sys.executable, "-m", "gitmem", "list", LC_ALL="C") is None
    assert command("git-mem", "list", PATH="/nowhere") is None
    assert command("git", "status") is None


@pytest.mark.process
def test_the_mark_starts_a_process(lab: Lab) -> None:
    assert not lab.fork
