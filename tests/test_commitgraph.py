"""A commit-graph of git's own making lies in the cache where the repository has none, and only the
worker's walks see it.
"""

from __future__ import annotations

import hashlib
import os
import pathlib

import pytest
from conftest import Lab
from places import opened

from gitmem import worker
from gitmem.core.errors import GitFailed
from gitmem.git import commitgraph
from gitmem.git.gitcmd import Git
from gitmem.memory import remember


@pytest.fixture
def repo(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(commitgraph, "NEW", 6)
    repo = lab.repo(commits=8)
    lab.git(repo, "config", "core.commitGraph", "true")
    with opened(repo) as store:
        remember.remember(store, [{"body": "about a file", "paths": ["f1.txt"]}])
    return repo


def made(repo: pathlib.Path) -> pathlib.Path:
    return repo / ".git" / "mem" / "graph" / "info" / "commit-graph"


def work(repo: pathlib.Path) -> None:
    worker.run(str(repo / ".git"), os.environ, 0.0)


def told(repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, bool]]:
    """(a command of git, whether it was told of ours) of one worker."""
    seen: set[tuple[str, bool]] = set()
    start = Git.start

    def note(self: Git, args: object, *rest: object, **pipes: object) -> object:
        words = list(args)  # type: ignore[call-overload]
        seen.add((words[0], "graph" in self.env.get("GIT_ALTERNATE_OBJECT_DIRECTORIES", "")))
        return start(self, words, *rest, **pipes)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Git, "start", note)
        work(repo)
    return seen


def test_the_worker_makes_it_and_walks_with_it(
    lab: Lab, repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(repo)
    place = str(made(repo).parent.parent)
    assert (
        lab.run(
            repo,
            "env",
            f"GIT_ALTERNATE_OBJECT_DIRECTORIES={place}",
            "git",
            "commit-graph",
            "verify",
            "--object-dir",
            place,
        ).returncode
        == 0
    )
    assert not list((repo / ".git" / "objects" / "info").glob("commit-graph*"))
    lab.git(repo, "reset", "-q", "--hard", "HEAD~3")
    before = made(repo).read_bytes()
    seen = told(repo, monkeypatch)
    assert (
        ("rev-list", True) in seen
        and ("rev-list", False) not in seen
        and ("diff-tree", True) in seen
    )
    assert ("log", True) in seen and (
        "log",
        False,
    ) not in seen  # what is known of the work at HEAD, too
    assert not any(
        with_it
        for command, with_it in seen
        if command in ("config", "fetch", "push", "fast-import", "update-ref")
    )
    assert made(repo).read_bytes() == before  # nothing new to be known


def test_it_grows_with_the_history(lab: Lab, repo: pathlib.Path) -> None:
    work(repo)
    before = made(repo).read_bytes()
    for n in range(7):
        lab.git(repo, "commit", "-q", "--allow-empty", "-m", f"more {n}")
    work(repo)
    assert len(made(repo).read_bytes()) > len(before)


def test_there_is_none_beside_one_of_the_repository_or_against_its_will(
    lab: Lab, repo: pathlib.Path
) -> None:
    lab.git(repo, "config", "core.commitGraph", "false")
    work(repo)
    assert not made(repo).exists()
    lab.git(repo, "config", "core.commitGraph", "true")
    work(repo)
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "more")
    work(repo)
    assert made(repo).exists()
    lab.git(repo, "commit-graph", "write", "--reachable")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "more")
    work(repo)
    assert not made(repo).exists()


@pytest.mark.parametrize("damage", ["byte", "end", "empty", "text"])
def test_a_damaged_one_is_not_read(
    lab: Lab, repo: pathlib.Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(repo)
    made(repo).chmod(0o600)
    data, before = made(repo).read_bytes(), made(repo).stat()
    middle = len(data) // 2
    made(repo).write_bytes(
        {
            "byte": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            "end": data[:-9],
            "empty": b"",
            "text": b"no graph at all",
        }[damage]
    )
    os.utime(
        made(repo), ns=(before.st_atime_ns, before.st_mtime_ns)
    )  # as whoever restores a backup does
    lab.git(repo, "reset", "-q", "--hard", "HEAD~2")
    assert ("rev-list", True) not in told(repo, monkeypatch)


def test_it_is_looked_at_once_as_long_as_nobody_writes_it(
    repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(repo)
    looked: list[str] = []
    new = hashlib.new

    def count(name: str, *rest: bytes) -> object:
        looked.append(name)
        return new(name, *rest)

    monkeypatch.setattr(hashlib, "new", count)
    with opened(repo) as store:
        for expected in (0, 1, 1):  # the worker that made it looked, and somebody touched it
            with commitgraph.used(store.repo):
                assert "GIT_ALTERNATE_OBJECT_DIRECTORIES" in store.repo.git.env
            assert len(looked) == expected
            if not expected:
                os.utime(made(repo))


def test_it_is_read_where_nothing_can_be_noted_beside_it(
    repo: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(repo)
    os.utime(made(repo))

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(commitgraph, "_write_note", refuse)
    with opened(repo) as store, commitgraph.used(store.repo):
        assert "GIT_ALTERNATE_OBJECT_DIRECTORIES" in store.repo.git.env


def test_what_git_falls_over_is_dropped(repo: pathlib.Path) -> None:
    work(repo)
    with opened(repo) as store:
        with pytest.raises(GitFailed), commitgraph.used(store.repo):
            store.repo.git.run("rev-list", "no such revision", "--")
        assert not made(repo).exists()
        assert store.repo.git.text("rev-list", "--count", "HEAD", "--") == "8"


def test_states_are_the_same_with_it_and_without(lab: Lab, repo: pathlib.Path) -> None:
    work(repo)
    lab.git(repo, "checkout", "-q", "-b", "topic", "HEAD~4")
    lab.git(repo, "mv", "f1.txt", "g.txt")
    lab.git(repo, "commit", "-q", "-m", "move")
    lab.mem(repo, "remember", "about a branch")
    lab.git(repo, "checkout", "-q", "main")

    def states() -> list[object]:
        work(repo)
        return [
            (m["anchor"]["state"], [p["state"] for p in m["paths"]])
            for m in lab.json(repo, "list", "--all")
        ]

    with_it = states()
    assert made(repo).exists()
    lab.git(repo, "config", "core.commitGraph", "false")
    (repo / ".git" / "mem" / "graph").rename(repo / ".git" / "away")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", "more")
    assert states() == with_it
