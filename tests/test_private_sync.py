"""One person's private notes, to another clone of theirs: only on their word, under a ref that
nobody takes by accident.
"""

from __future__ import annotations

import json
import pathlib
from contextlib import closing

import pytest
from conftest import Lab

from gitmem import private_sync
from gitmem.agents import receipts, session
from gitmem.core.errors import MemError
from gitmem.git.config import BACKUPS
from gitmem.store import open_store

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


@pytest.fixture
def clones(lab: Lab) -> tuple[pathlib.Path, pathlib.Path, pathlib.Path]:
    """A hub, and two clones of one person."""
    first = lab.repo("first")
    lab.git(lab.root, "init", "-q", "--bare", "-b", "main", "hub.git")
    hub = lab.root / "hub.git"
    lab.git(first, "remote", "add", "origin", str(hub))
    lab.git(first, "push", "-q", "origin", "main")
    lab.git(lab.root, "clone", "-q", str(hub), "second")
    return hub, first, lab.root / "second"


def refs(lab: Lab, repo: pathlib.Path) -> list[str]:
    return [
        row
        for row in lab.git(repo, "for-each-ref", "--format=%(refname)").split()
        if ("private" in row or "git-mem" in row) and not row.startswith(BACKUPS)
    ]


def test_private_notes_reach_the_other_clone_and_nobody_elses(
    lab: Lab, clones: tuple[pathlib.Path, pathlib.Path, pathlib.Path]
) -> None:
    hub, first, second = clones
    lab.mem(first, "remember", "My notes on the shop database", "--private")
    said = lab.json(first, "push", "--private-to", "origin")
    assert (said["sent"], said["ref"][:20]) == (1, "refs/git-mem/private")
    assert refs(lab, hub) == [said["ref"]]
    assert refs(lab, first) == ["refs/notes/mem/private"]
    lab.mem(second, "init", "--offline")
    lab.git(second, "fetch", "-q", "origin")
    lab.git(second, "fetch", "-q", "origin", "refs/notes/*:refs/notes/*")
    lab.mem(second, "sync")
    assert refs(lab, second) == []
    other = {
        "GIT_AUTHOR_NAME": "Eve",
        "GIT_AUTHOR_EMAIL": "eve@example.org",
        "GIT_COMMITTER_NAME": "Eve",
        "GIT_COMMITTER_EMAIL": "eve@example.org",
    }
    eve = json.loads(lab.mem(second, "pull", "--private-from", "origin", "--json", env=other))
    assert eve["received"] == 0 and "eve@example.org" in eve["remarks"][0]
    assert lab.json(second, "list") == []
    assert lab.json(second, "pull", "--private-from", "origin")["received"] == 1
    (found,) = lab.json(second, "list")
    assert (found["body"], found["scope"]) == ("My notes on the shop database", "private")
    assert refs(lab, second) == ["refs/notes/mem/private"]


def test_nothing_private_leaves_without_that_word(
    lab: Lab, clones: tuple[pathlib.Path, pathlib.Path, pathlib.Path]
) -> None:
    hub, first, _ = clones
    lab.mem(first, "remember", "My notes on the shop database", "--private")
    lab.mem(first, "remember", "For all of us")
    lab.mem(first, "push")
    lab.mem(first, "sync")
    said = lab.mem(first, "push", "--private-to", "origin", "--dry-run")
    assert (
        "My notes on the shop database" in said
        and "1 record (1 create) would go to 'origin' as refs/git-mem/private/" in said
        and "For all of us" not in said
    )
    assert "whoever may fetch any ref there can read these" in said
    assert refs(lab, hub) == []
    for argv in (
        ["push", "--private-to", "nowhere"],
        ["push", "--private-to", str(hub)],
        ["pull", "--private-from", "nowhere"],
    ):
        lab.mem(first, *argv, rc=(1,))
    lab.mem(first, "push", "--private-to", "origin", "--atomic", rc=(2,))
    lab.mem(first, "push", "--private-to", "origin", "--remote", "origin", rc=(2,))
    lab.mem(first, "pull", "--private-from", "origin", "--remote", "origin", rc=(2,))
    assert refs(lab, hub) == []


def test_what_looks_like_a_secret_stays(
    lab: Lab, clones: tuple[pathlib.Path, pathlib.Path, pathlib.Path]
) -> None:
    hub, first, _ = clones
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    lab.mem(first, "remember", f"The deploy token is {token}", "--private", "--allow-secret")
    for dry in ([], ["--dry-run"]):
        lab.mem(first, "push", "--private-to", "origin", *dry, rc=(1,))
    assert refs(lab, hub) == []
    lab.mem(first, "push", "--private-to", "origin", "--allow-secret")
    assert len(refs(lab, hub)) == 1


def test_two_clones_that_give_and_take_have_the_same_memories_and_the_same_credit(
    lab: Lab, clones: tuple[pathlib.Path, pathlib.Path, pathlib.Path]
) -> None:
    _, first, second = clones
    id = lab.json(first, "remember", "My notes on the shop database", "--private")["id"]
    lab.mem(first, "push", "--private-to", "origin")
    lab.mem(second, "pull", "--private-from", "origin")
    lab.mem(second, "remember", "Written on the laptop", "--private")
    for number, repo in enumerate((first, second)):
        mem = str(repo / ".git" / "mem")
        name = UUID[:-1] + str(number)
        session.Notes(mem, name).add_shown([id], "prompt", "claude", "", {})
        session.Notes(mem, name).add("cited", [id])
        session.Notes(mem, name).add("end", ["other"])
        store = open_store(lab.env, str(repo))
        assert receipts.tend(store) == 1
        store.close()
    lab.mem(first, "push", "--private-to", "origin")
    lab.mem(second, "push", "--private-to", "origin")
    lab.mem(first, "pull", "--private-from", "origin")
    seen = [{m["body"]: m.get("use") for m in lab.json(repo, "list")} for repo in (first, second)]
    assert seen[0] == seen[1]
    assert seen[0]["My notes on the shop database"] == {"used": 2, "ignored": 0, "contradicted": 0}
    assert "Written on the laptop" in seen[0]
    assert lab.json(second, "push", "--private-to", "origin")["sent"] == 0


def test_what_was_purged_here_does_not_come_back_and_goes_there(
    lab: Lab, clones: tuple[pathlib.Path, pathlib.Path, pathlib.Path]
) -> None:
    hub, first, second = clones
    id = lab.json(first, "remember", "A word I should not have written: xylophone", "--private")[
        "id"
    ]
    lab.mem(first, "remember", "Another note", "--private")
    lab.mem(first, "push", "--private-to", "origin")
    lab.mem(second, "pull", "--private-from", "origin")
    lab.mem(first, "purge", id, "--force")
    lab.mem(first, "push", "--private-to", "origin")
    (ref,) = refs(lab, hub)
    assert "xylophone" not in lab.git(hub, "log", "-p", ref)
    lab.mem(second, "pull", "--private-from", "origin")
    for repo in (first, second):
        assert [m["body"] for m in lab.json(repo, "list")] == ["Another note"]
        assert "xylophone" not in lab.git(repo, "log", "-p", "--all")


def test_a_purge_says_to_whom_private_notes_were_given(
    lab: Lab, clones: tuple[pathlib.Path, pathlib.Path, pathlib.Path]
) -> None:
    """The text stays there under a ref that no sync touches."""
    hub, first, _ = clones
    id = lab.json(first, "remember", "The zebra is the code word", "--private")["id"]
    assert lab.json(first, "push", "--private-to", "origin")["sent"] == 1
    tip = lab.git(hub, "rev-parse", refs(lab, hub)[0]).strip()
    assert "git mem push --private-to origin" in lab.mem(first, "purge", id, "--force")
    lab.mem(first, "push", "--private-to", "origin")
    assert lab.git(hub, "rev-parse", refs(lab, hub)[0]).strip() != tip and "zebra" not in lab.git(
        hub, "log", "-p", *refs(lab, hub)
    )


@pytest.mark.parametrize(
    "look", ["pull --private-from", "push --dry-run --private-to", "push --private-to"]
)
def test_a_look_at_what_still_holds_purged_text_leaves_none_here(
    lab: Lab, clones: tuple[pathlib.Path, pathlib.Path, pathlib.Path], look: str
) -> None:
    _, first, _ = clones
    id = lab.json(first, "remember", "The zebra is the code word", "--private")["id"]
    lab.mem(first, "push", "--private-to", "origin")
    lab.mem(first, "purge", id, "--force")
    said = lab.mem(first, *look.split(), "origin")
    assert ("push --private-to origin" in said) == (look == "pull --private-from")
    assert ("purged text was taken out" in said) == (look == "push --private-to")
    assert "zebra" not in lab.git(first, "cat-file", "--batch-all-objects", "--batch")


def test_private_notes_that_only_the_cache_still_has_are_given_too(
    lab: Lab, clones: tuple[pathlib.Path, pathlib.Path, pathlib.Path]
) -> None:
    _, first, _ = clones
    lab.mem(first, "remember", "mine", "--private")
    assert lab.json(first, "list")
    for ref in ("refs/notes/mem/private", f"{BACKUPS}mem/private"):
        lab.git(first, "update-ref", "-d", ref)
    lab.git(first, "prune", "--expire=now")
    for path in (first / ".git/mem").glob("recent-*"):
        path.unlink()
    assert lab.json(first, "push", "--private-to", "origin")["sent"] == 1


def test_a_refused_push_is_what_is_said_where_the_cache_fails_too(
    lab: Lab,
    clones: tuple[pathlib.Path, pathlib.Path, pathlib.Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub, first, _ = clones
    lab.mem(first, "remember", "mine", "--private")
    (hub / "hooks/pre-receive").write_text("#!/bin/sh\nexit 1\n")
    (hub / "hooks/pre-receive").chmod(0o755)

    def failing(*_: object, **__: object) -> None:
        raise MemError("the packaged embedding table is unusable")

    with closing(open_store(lab.env, str(first))) as store:
        monkeypatch.setattr(private_sync, "_finish", failing)
        with pytest.raises(MemError, match="refused refs/git-mem/private"):
            private_sync.give(store, "origin")


def test_without_an_address_nothing_private_is_united(
    lab: Lab, clones: tuple[pathlib.Path, pathlib.Path, pathlib.Path]
) -> None:
    _, first, _ = clones
    lab.mem(first, "remember", "mine", "--private")
    nobody = {
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "",
        "EMAIL": "",
    }
    lab.git(first, "config", "user.email", "")
    done = lab.run(first, "git-mem", "push", "--private-to", "origin", env=nobody)
    assert done.returncode != 0 and "address" in done.stderr
