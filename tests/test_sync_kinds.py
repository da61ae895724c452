"""`sync` in clones of every kind: worktrees, bare, shallow, partial, borrowed, forks."""

from __future__ import annotations

import pytest
from conftest import Lab
from sync_world import REF, Team


@pytest.fixture
def team(lab: Lab) -> Team:
    return Team(lab)


def test_a_relative_address_is_meant_from_the_top_of_the_tree(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.git(a, "remote", "set-url", "origin", "../hub.git")
    (a / "deep" / "er").mkdir(parents=True)
    lab.mem(a / "deep" / "er", "remember", "x y z")
    lab.mem(a / "deep" / "er", "sync")
    assert "x y z" in team.on_hub()


def test_in_a_linked_worktree_a_bare_clone_and_a_mirror(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.git(a, "worktree", "add", "-q", str(lab.root / "tree"))
    lab.mem(lab.root / "tree", "remember", "from a worktree")
    lab.mem(lab.root / "tree", "sync")
    bare, mirror = team.clone("bare", "--bare"), team.clone("mirror", "--mirror")
    lab.mem(mirror, "remember", "from a mirror", "--commit", "main")
    lab.mem(mirror, "sync")
    lab.mem(bare, "sync")
    lab.mem(bare, "remember", "from a bare clone", "--commit", "main")
    lab.mem(bare, "sync")
    assert all(
        word in team.on_hub() for word in ("from a worktree", "from a mirror", "from a bare clone")
    )
    assert lab.git(team.hub, "for-each-ref", "refs/heads").count("\n") == 1, (
        "a mirror remote pushes the notes and nothing else"
    )


def test_in_shallow_and_partial_clones(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    for i in range(3):
        lab.mem(a, "remember", f"memory {i}")
    lab.mem(a, "sync")
    lab.git(team.hub, "config", "uploadpack.allowFilter", "true")
    for name, option in (
        ("shallow", "--depth=1"),
        ("partial", "--filter=blob:none"),
        ("treeless", "--filter=tree:0"),
    ):
        clone = team.clone(name, option, url=f"file://{team.hub}")
        lab.mem(clone, "sync")
        assert {f"memory {i}" for i in range(3)} <= team.bodies(clone)
        lab.git(clone, "remote", "set-url", "--push", "origin", str(team.hub))
        lab.mem(clone, "remember", f"from the {name} clone")
        lab.mem(clone, "sync")
        assert f"from the {name} clone" in team.on_hub()


def test_a_partial_clone_has_the_notes_whole(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.mem(a, "remember", "offline too")
    lab.mem(a, "sync")
    lab.git(team.hub, "config", "uploadpack.allowFilter", "true")
    clone = team.clone("partial", "--filter=blob:none", url=f"file://{team.hub}")
    lab.mem(clone, "sync")
    team.hub.rename(lab.root / "gone.git")
    assert team.bodies(clone) == {"offline too"}


def test_a_bundle_and_a_clone_with_alternates(team: Team, lab: Lab) -> None:
    a = team.clone("a")
    lab.mem(a, "remember", "travels in a file")
    lab.git(a, "bundle", "create", str(lab.root / "notes.bundle"), "main", REF)
    b = team.clone("b", "--reference", str(a))
    lab.git(
        b,
        "fetch",
        "-q",
        str(lab.root / "notes.bundle"),
        f"{REF}:refs/notes/remotes/bundle/mem/team",
    )
    assert "refs/notes/remotes/bundle/mem/team" in lab.mem(b, "status")
    lab.git(b, "remote", "add", "bundle", str(lab.root / "notes.bundle"))
    lab.mem(b, "pull", "--remote", "bundle")
    assert team.bodies(b) == {"travels in a file"}
    lab.mem(b, "sync", "--remote", "origin")
    assert "travels in a file" in team.on_hub()


def test_a_fork_gives_to_its_own_remote_and_the_maintainer_takes_from_there(
    team: Team, lab: Lab
) -> None:
    upstream = team.clone("maintainer")
    lab.mem(upstream, "remember", "known upstream")
    lab.mem(upstream, "sync")
    fork = lab.root / "fork.git"
    lab.git(lab.root, "clone", "-q", "--bare", str(team.hub), str(fork))
    mine = team.clone("contributor", url=str(fork))
    lab.git(mine, "remote", "add", "upstream", str(team.hub))
    lab.mem(mine, "pull", "--remote", "upstream")
    lab.mem(mine, "remember", "learned in the pull request")
    lab.mem(mine, "sync")
    assert "learned in the pull request" not in team.on_hub(), "the one default is origin, the fork"
    lab.git(upstream, "remote", "add", "contributor", str(fork))
    lab.mem(upstream, "pull", "--remote", "contributor")
    assert team.bodies(upstream) == {"known upstream", "learned in the pull request"}
