"""The pre-push hook: it warns before private memories would be published, and stops nothing."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from conftest import Lab
from githook_world import events, forget, installation


@pytest.fixture
def installed(lab: Lab) -> Iterator[pathlib.Path]:
    with installation(lab) as repo:
        yield repo


@pytest.fixture
def hub(lab: Lab, installed: pathlib.Path) -> pathlib.Path:
    lab.git(lab.root, "init", "-q", "--bare", "hub.git")
    lab.git(installed, "remote", "add", "origin", str(lab.root / "hub.git"))
    lab.mem(installed, "remember", "a private thought", "--private")
    return lab.root / "hub.git"


@pytest.mark.parametrize(
    "what",
    [
        ["refs/notes/*"],
        ["--mirror"],
        ["refs/notes/mem/private"],
        ["refs/notes/mem/private:refs/heads/x"],
        ["refs/git-mem/*:refs/git-mem/*"],
    ],
)
def test_a_push_of_private_memories_is_warned_about_and_not_stopped(
    lab: Lab, installed: pathlib.Path, hub: pathlib.Path, what: list[str]
) -> None:
    done = (
        lab.run(installed, "git", "push", "-q", "--mirror", "origin")
        if what == ["--mirror"]
        else lab.run(installed, "git", "push", "-q", "origin", *what)
    )
    assert done.returncode == 0
    assert done.stderr.count("warning: this push publishes private memories") == 1
    assert lab.git(hub, "for-each-ref") != ""


@pytest.mark.parametrize("what", [["main"], ["refs/notes/mem/team"], ["--all"]])
def test_a_push_of_anything_else_says_nothing_and_wakes_the_worker(
    lab: Lab, installed: pathlib.Path, hub: pathlib.Path, what: list[str]
) -> None:
    done = lab.run(installed, "git", "push", "-q", "origin", *what)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {"event": "pre-push", "remote": "origin"} in events(installed)


def test_taking_private_memories_off_a_remote_is_no_publication(
    lab: Lab, installed: pathlib.Path, hub: pathlib.Path
) -> None:
    lab.git(installed, "push", "-q", "--no-verify", "origin", "refs/notes/mem/private")
    assert lab.run(installed, "git", "push", "-q", "origin", ":refs/notes/mem/private").stderr == ""


def test_a_url_with_a_password_does_not_go_into_the_spool(
    lab: Lab, installed: pathlib.Path, hub: pathlib.Path
) -> None:
    lab.run(installed, "git", "push", "-q", f"file://user:hunter2@{hub}", "main")
    lab.git(installed, "push", "-q", str(hub), "main")
    assert "hunter2" not in (installed / ".git/mem/spool").read_text()
    assert events(installed)[-1] == {"event": "pre-push", "remote": ""}


def test_our_own_pushes_are_no_event(lab: Lab, installed: pathlib.Path, hub: pathlib.Path) -> None:
    forget(installed)
    lab.mem(installed, "sync", "--atomic")
    assert events(installed) == []
