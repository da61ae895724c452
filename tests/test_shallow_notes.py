"""A notes ref whose history was fetched in part: where it cannot be pushed, the hint is what
helps."""

from __future__ import annotations

import re
import sys

from conftest import Lab


def test_notes_with_a_cut_history_are_pushed_after_what_the_hint_says(lab: Lab) -> None:
    for hub in ("hub.git", "second.git"):
        lab.git(lab.root, "init", "-q", "--bare", hub)
    repo = lab.repo()
    lab.git(repo, "remote", "add", "origin", str(lab.root / "hub.git"))
    lab.git(repo, "push", "-q", "origin", "HEAD")
    for n in range(3):
        lab.mem(repo, "remember", f"fact number {n}")
    lab.mem(repo, "sync")
    other = lab.root / "other"
    lab.git(lab.root, "clone", "-q", (lab.root / "hub.git").as_uri(), str(other))
    lab.git(
        other, "fetch", "-q", "--depth", "1", "origin", "refs/notes/mem/team:refs/notes/mem/team"
    )
    lab.git(other, "remote", "add", "second", str(lab.root / "second.git"))
    lab.mem(other, "remember", "said in the shallow clone")
    done = lab.run(other, sys.executable, "-m", "gitmem", "sync", "--remote", "second")
    assert done.returncode == 1 and "shallow update not allowed" in done.stderr
    (hint,) = re.findall("hint: .*`git (.*) REMOTE (.*)`", done.stderr)
    lab.git(other, *hint[0].split(), "origin", hint[1])
    lab.mem(other, "sync", "--remote", "second")
    assert len(lab.lines(lab.root / "second.git")) == 4
