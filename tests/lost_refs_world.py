"""A repository whose notes refs were damaged in one of many ways, and the ways to its memories.

For test_lost_refs.
"""

from __future__ import annotations

import atexit
import functools
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable

import hook_world
from conftest import Lab

from gitmem import worker
from gitmem.engine.filters import Filter
from gitmem.memory import listing, remember
from gitmem.store import open_store

TEAM, PRIVATE = "refs/notes/mem/team", "refs/notes/mem/private"
READ, UNREAD = (
    "invoices are settled with PostgreSQL",
    "receipts are archived as ZFS snapshots, one for each day",
)
OWN, OWN_UNREAD = (
    "my bicycle is in the cellar",
    "my drafts of release notes are kept in the attic folder, the team gets them on Fridays",
)
ALL = {READ, UNREAD, OWN, OWN_UNREAD}


@functools.cache
def template() -> pathlib.Path:
    """A hub, and a clone with team and private memories of which the cache has seen half.

    Made once, copied for each test.
    """
    root = pathlib.Path(tempfile.mkdtemp(prefix="lost-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    lab = Lab(root)
    lab.git(root, "clone", "-q", "--bare", str(lab.repo("seed")), "hub.git")
    lab.git(root, "clone", "-q", "hub.git", "repo")
    repo = root / "repo"
    lab.git(repo, "remote", "set-url", "origin", "../hub.git")
    lab.mem(repo, "init", "--offline")
    lab.git(repo, "config", "mem.promptContext", "true")
    lab.mem(repo, "remember", READ, "--type", "decision")
    lab.mem(repo, "remember", OWN, "--private", "--type", "decision")
    lab.mem(repo, "list")
    lab.mem(repo, "remember", UNREAD, "--type", "decision")
    lab.mem(repo, "remember", OWN_UNREAD, "--private", "--type", "decision")
    return root


def made(lab: Lab) -> pathlib.Path:
    for name in ("hub.git", "repo"):
        shutil.copytree(template() / name, lab.root / name)
    return lab.root / "repo"


def pruned(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "config", "--add", "remote.origin.fetch", "+refs/notes/*:refs/notes/*")
    lab.git(repo, "-c", "fetch.prune=true", "fetch", "-q")
    assert lab.run(repo, "git", "rev-parse", "-q", "--verify", PRIVATE).returncode == 1, (
        "that is what git does"
    )


def deleted(lab: Lab, repo: pathlib.Path) -> None:
    for ref in (TEAM, PRIVATE):
        lab.git(repo, "update-ref", "-d", ref)


def packed(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "pack-refs", "--all")
    lab.git(repo, "checkout", "-q", "--detach")  # HEAD needs no ref
    (repo / ".git/packed-refs").write_bytes(b"")
    (repo / ".git/refs/remotes/origin/HEAD").unlink()  # names a branch that went with it


def written(content: bytes) -> Callable[[Lab, pathlib.Path], None]:
    def damage(lab: Lab, repo: pathlib.Path) -> None:
        for ref in (TEAM, PRIVATE):
            (repo / ".git" / ref).write_bytes(content)

    return damage


DAMAGES = {
    "prune": pruned,
    "deleted": deleted,
    "empty": written(b""),
    "zeros": written(b"\0" * 41),
    "null id": written(b"0" * 40 + b"\n"),
    "garbage": written(b"\x93\x11 no id\n"),
    "packed-refs": packed,
}


def kept(lab: Lab, repo: pathlib.Path) -> set[str]:
    """The bodies that stock git finds in the notes."""
    lines = "\n".join(lab.lines(repo) + lab.lines(repo, "mem/private"))
    return {body for body in ALL if body in lines}


def shown(lab: Lab, repo: pathlib.Path) -> set[str]:
    store = open_store(os.environ, str(repo))
    try:
        return {
            str(m["body"]) for m in listing.list_memories(store, Filter(), all_branches=True)[0]
        }
    finally:
        store.close()


def add(repo: pathlib.Path, body: str, scope: str = "team") -> None:
    store = open_store(os.environ, str(repo))
    (result,) = remember.remember(store, [{"body": body, "scope": scope}])
    store.close()
    assert result.status == remember.STORED, result.reason


def listed(lab: Lab, repo: pathlib.Path) -> None:
    assert {m["body"] for m in lab.json(repo, "list", "--all")} >= ALL


def recalled(lab: Lab, repo: pathlib.Path) -> None:
    for question, body in (
        ("how are receipts archived", UNREAD),
        ("drafts of release notes", OWN_UNREAD),
    ):
        assert body in {
            hit["body"] for hit in lab.json(repo, "recall", question, rc=(0, 1))["hits"]
        }


def remembered(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "remember", "written afterwards")
    add(repo, "privately afterwards", "private")


def started(lab: Lab, repo: pathlib.Path) -> None:
    said = hook_world.Hooks(lab, repo).call("SessionStart", source="startup")
    assert all(body in said for body in ALL), said


def prompted(lab: Lab, repo: pathlib.Path) -> None:
    hooks = hook_world.Hooks(lab, repo)
    assert UNREAD in hooks.call(
        "UserPromptSubmit",
        prompt="how are receipts archived, as ZFS snapshots for each day?",
        session_id="s2",
    )
    assert OWN_UNREAD in hooks.call(
        "UserPromptSubmit",
        prompt="where are my drafts of release notes kept, in the attic folder?",
        session_id="s2",
    )


def synced(lab: Lab, repo: pathlib.Path) -> None:
    lab.mem(repo, "sync")
    there = lab.git(lab.root / "hub.git", "log", "-p", TEAM)
    assert READ in there and UNREAD in there and OWN not in there
    lab.mem(repo, "list")  # a sync is about the team's


def examined(lab: Lab, repo: pathlib.Path) -> None:
    said = lab.mem(repo, "doctor", rc=(0, 1))
    assert "team: 2 records" in said and "private: 2 records" in said, said
    assert said.count("was gone or could not be read") == 2, said


def worked(lab: Lab, repo: pathlib.Path) -> None:
    worker.run(str(repo / ".git"), os.environ, linger=0.0)


READERS = {
    f.__name__: f
    for f in (listed, recalled, remembered, started, prompted, synced, examined, worked)
}
