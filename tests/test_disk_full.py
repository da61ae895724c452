"""A disk that is full during a sync is named as such, not called a fault of the network."""

from __future__ import annotations

import shutil
import sys

import pytest
from conftest import Lab

FAKE = """#!/bin/sh
for word; do
    case $word in
    {what})
        echo "remote: Counting objects" >&2
        echo "error: unable to write file $PWD/tmp_obj: No space left on device" >&2
        echo "fatal: {what} failed" >&2
        exit 128 ;;
    esac
done
exec {git} "$@"
"""


@pytest.mark.parametrize("what", ["fetch", "push"])
def test_a_full_disk_is_named_and_no_fault_of_the_network(lab: Lab, what: str) -> None:
    lab.git(lab.root, "init", "-q", "--bare", "hub.git")
    repo = lab.repo()
    lab.git(repo, "remote", "add", "origin", str(lab.root / "hub.git"))
    lab.mem(repo, "remember", "invoices are kept in cents")
    lab.mem(repo, "sync")
    lab.mem(repo, "remember", "amounts are integers")
    other = lab.root / "other"
    lab.git(lab.root, "clone", "-q", str(lab.root / "hub.git"), str(other))
    lab.mem(other, "remember", "dates are UTC")
    if what == "fetch":
        lab.mem(other, "sync")
    fake = lab.root / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(FAKE.format(what=what, git=shutil.which("git")))
    fake.chmod(0o755)
    done = lab.run(
        repo,
        sys.executable,
        "-m",
        "gitmem",
        "sync",
        env={"PATH": f"{fake.parent}:{lab.env['PATH']}"},
    )
    assert (
        done.returncode == 1
        and "the disk is full: error: unable to write file" in done.stderr
        and "No space left on device" in done.stderr
    )
    assert "network" not in done.stderr and "make room" in done.stderr
    assert len(lab.lines(repo)) == 2
    lab.mem(repo, "sync")
