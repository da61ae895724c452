"""What a call of git gives back where git, the pipes and we might wait for each other."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest
from conftest import Lab

from gitmem.core.errors import GitFailed
from gitmem.git.gitcmd import Git


def test_many_errors_and_much_input_do_not_wait_for_each_other(lab: Lab) -> None:
    repo = lab.repo()
    ids = [f"{n:040x}" for n in range(1, 10_001)]
    for id in ids[:1200]:  # each an error of 100 bytes or more
        folder = repo / ".git" / "objects" / id[:2]
        folder.mkdir(exist_ok=True)
        (folder / id[2:]).write_bytes(b"damaged")
    lines = "".join(f"{id}\n" for id in ids).encode()

    def read() -> None:
        git = Git(str(repo / ".git"))
        with contextlib.suppress(GitFailed):
            list(git.stream("cat-file", "--batch-check", stdin=lines, cut=b"\n"))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(60)
    assert not reader.is_alive()


def test_a_call_that_took_too_long_is_no_answer(lab: Lab) -> None:
    git = Git(str(lab.repo() / ".git"))
    assert git.is_ancestor("HEAD", "HEAD")
    git.until = time.monotonic() - 1
    with pytest.raises(GitFailed):
        git.is_ancestor("HEAD", "HEAD")
