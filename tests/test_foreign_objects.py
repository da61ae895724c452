"""Notes refs that hold what no git mem ever wrote: lying trailers, submodule entries, blobs and
tags in the place of commits, objects that are gone.
"""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from conftest import Lab

REF, TRACK = "refs/notes/mem/team", "refs/notes/remotes/origin/mem/team"
SECRET = "the spare key lies beneath the third flower pot beside the door"
FORGED = "notes: merged by a script\n\nMem-Complete: 1\n"


class Team:
    """A bare hub, and the clones `a` and `b` that know each other's memories."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        lab.git(lab.root, "clone", "-q", "--bare", str(lab.repo("seed", 2)), "hub.git")
        self.hub = lab.root / "hub.git"
        self.a, self.b = self.clone("a"), self.clone("b")

    def clone(self, name: str) -> pathlib.Path:
        self.lab.git(self.lab.root, "clone", "-q", str(self.hub), name)
        self.lab.mem(self.lab.root / name, "init")
        return self.lab.root / name

    def purged(self) -> str:
        """The hub's tip before `a` purged SECRET, here and at the hub; `b` still has it."""
        self.lab.mem(self.a, "remember", SECRET)
        self.lab.mem(self.a, "remember", "a harmless one")
        self.lab.mem(self.a, "sync")
        self.lab.mem(self.b, "sync")
        old = self.lab.git(self.hub, "rev-parse", REF).strip()
        found = next(m for m in self.lab.json(self.a, "list") if m["body"] == SECRET)
        self.lab.mem(self.a, "purge", found["id"], "--force")
        self.lab.mem(self.a, "sync")
        return old

    def bodies(self, repo: pathlib.Path) -> set[str]:
        return {m["body"] for m in self.lab.json(repo, "list", "--all", rc=(0, 1))}


@pytest.fixture
def team(lab: Lab) -> Team:
    return Team(lab)


def everything(lab: Lab, repo: pathlib.Path) -> str:
    """The content of every object of a repository."""
    return lab.run(repo, "git", "cat-file", "--batch-all-objects", "--batch", "--buffer").stdout


def forge(lab: Lab, repo: pathlib.Path, old: str, tree: str = "") -> str:
    """A commit with the trailer on top of the notes, with the old history as a second parent; its
    tree has the lines of both unless another is named.
    """
    if not tree:
        lab.git(repo, "update-ref", "refs/notes/forged", REF)
        lab.git(repo, "update-ref", "refs/notes/old", old)
        lab.git(
            repo, "notes", "--ref=forged", "merge", "-q", "-s", "cat_sort_uniq", "refs/notes/old"
        )
        tree = lab.git(repo, "rev-parse", "refs/notes/forged^{tree}").strip()
        lab.git(repo, "update-ref", "-d", "refs/notes/forged")
        lab.git(repo, "update-ref", "-d", "refs/notes/old")
    return lab.git(repo, "commit-tree", "-p", REF, "-p", old, "-m", FORGED, tree).strip()


@pytest.mark.parametrize("tree", ["of both", "without the text"])
def test_a_trailer_over_a_merge_that_brings_purged_text_back_is_not_believed(
    team: Team, lab: Lab, tree: str
) -> None:
    old = team.purged()
    lab.git(team.b, "fetch", "-q", "origin", f"+{REF}:{REF}")
    tip = forge(
        lab,
        team.b,
        old,
        "" if tree == "of both" else lab.git(team.b, "rev-parse", REF + "^{tree}").strip(),
    )
    lab.git(team.b, "push", "-q", "origin", f"{tip}:{REF}")
    lab.mem(team.a, "remember", "written meanwhile")
    lab.mem(team.a, "sync")
    assert SECRET not in everything(lab, team.a)
    assert lab.run(team.a, "git", "cat-file", "-e", tip).returncode
    lab.git(team.hub, "gc", "-q", "--prune=now")
    assert SECRET not in everything(lab, team.hub)
    assert team.bodies(team.a) == {"a harmless one", "written meanwhile"}
    # A clone that never had a git mem tip of its own is no easier to fool.
    lab.mem(team.b, "sync")
    assert SECRET not in everything(lab, team.b)


def test_a_fresh_clone_takes_the_memories_of_a_lying_merge_and_not_its_history(
    team: Team, lab: Lab
) -> None:
    old = team.purged()
    lab.git(team.b, "fetch", "-q", "origin", f"+{REF}:{REF}")
    tip = forge(lab, team.b, old, lab.git(team.b, "rev-parse", REF + "^{tree}").strip())
    lab.git(team.b, "push", "-q", "origin", f"{tip}:{REF}")
    c = team.clone("c")
    lab.mem(c, "sync")
    assert team.bodies(c) == {"a harmless one"}
    assert SECRET not in everything(lab, c)
    lab.git(team.hub, "gc", "-q", "--prune=now")
    assert SECRET not in everything(lab, team.hub)


@pytest.mark.parametrize("logs", ["true", "false"])
def test_a_lying_merge_in_the_own_ref_does_not_leave_with_a_sync(
    team: Team, lab: Lab, logs: str
) -> None:
    lab.git(team.a, "config", "core.logAllRefUpdates", logs)
    old = team.purged()
    lab.git(team.a, "fetch", "-q", str(team.b), f"{REF}:refs/notes/theirs")
    tip = forge(lab, team.a, old)
    lab.git(team.a, "update-ref", "-d", "refs/notes/theirs")
    lab.git(team.a, "update-ref", REF, tip)
    lab.mem(team.a, "sync")
    assert SECRET not in everything(lab, team.a)
    assert (
        SECRET not in everything(lab, team.hub)
        or lab.git(team.hub, "gc", "-q", "--prune=now")
        + everything(lab, team.hub).count(SECRET) * "x"
        == ""
    )
    assert team.bodies(team.a) == {"a harmless one"}


def gitlinks(lab: Lab, repo: pathlib.Path, path: str = "") -> None:
    """A foreign commit whose tree has submodule entries: in the place of HEAD's note (or of
    another), beside notes, at the name of a directory.
    """
    head = path or lab.git(repo, "rev-parse", "HEAD").strip()
    rows = [
        row for row in lab.git(repo, "ls-tree", REF).splitlines() if not row.endswith("\t" + head)
    ]
    rows += [f"160000 commit {'1' * 40}\t{name}" for name in (head, "ab" * 20, "cd", "sub")]
    tree = lab.git(
        repo,
        "mktree",
        "--missing",
        stdin="".join(row + "\n" for row in sorted(rows, key=lambda r: r.split("\t")[1])),
    ).strip()
    lab.git(
        repo,
        "update-ref",
        REF,
        lab.git(repo, "commit-tree", "-m", "foreign", "-p", REF, tree).strip(),
    )


def test_submodule_entries_in_the_place_of_notes_stop_nothing_and_lose_nothing(
    team: Team, lab: Lab
) -> None:
    lab.mem(team.a, "remember", SECRET)
    lab.mem(team.a, "remember", "about the one before", "--commit", "HEAD~1")
    lab.mem(team.a, "sync")
    gitlinks(lab, team.a)
    for words in (
        ["list"],
        ["recall", "flower pot"],
        ["log"],
        ["stats"],
        ["doctor"],
        ["verify"],
        ["sync", "--dry-run"],
    ):
        lab.mem(team.a, *words)
    assert team.bodies(team.a) == {SECRET, "about the one before"}
    lab.mem(team.a, "doctor", "--repair")
    lab.mem(team.a, "remember", "written on top")
    lab.mem(team.a, "sync")
    lab.mem(team.b, "sync")
    assert team.bodies(team.b) == {SECRET, "about the one before", "written on top"}
    assert len(lab.lines(team.hub)) == 3
    found = next(m for m in lab.json(team.a, "list") if m["body"] == SECRET)
    lab.mem(team.a, "purge", found["id"], "--force")
    assert SECRET not in everything(lab, team.a)
    tree = lab.git(team.a, "ls-tree", REF)
    assert [row.split("\t")[1] for row in tree.splitlines() if row.startswith("160000")] == [
        "ab" * 20,
        "cd",
        "sub",
    ], "what is no note stays"
    lab.mem(team.a, "sync")
    lab.mem(team.b, "sync")
    assert team.bodies(team.b) == {"about the one before", "written on top"}


@pytest.mark.parametrize("kind", ["blob", "tree", "tag of a blob", "tag of a tree"])
def test_a_ref_at_the_remote_that_is_no_commit_is_named_and_stops_nothing_else(
    team: Team, lab: Lab, kind: str
) -> None:
    lab.mem(team.a, "remember", "what is here")
    id = (
        lab.git(team.hub, "rev-parse", "HEAD^{tree}").strip()
        if "tree" in kind
        else lab.git(team.hub, "hash-object", "-w", "--stdin", stdin="x").strip()
    )
    if kind.startswith("tag"):
        id = lab.git(
            team.hub,
            "mktag",
            stdin=f"object {id}\ntype {kind.split()[-1]}\ntag x\ntagger A <a@b.org> 0 +0000\n\nx\n",
        ).strip()
    lab.git(team.hub, "update-ref", REF, id)
    for words in (["sync"], ["pull"], ["push"], ["sync", "--dry-run"]):
        done = lab.run(team.a, "git-mem", *words)
        assert done.returncode == 1
        assert done.stderr.startswith(
            f"error: '{REF}' of 'origin' is a {kind}, not a commit with memories\nhint: "
        )
    lab.git(team.a, "fetch", "-q")  # what the user's own fetch brings
    for words in (
        ["list"],
        ["recall", "what is here"],
        ["remember", "one more"],
        ["doctor"],
        ["status"],
        ["verify"],
    ):
        lab.mem(team.a, *words)
    found = next(m for m in lab.json(team.a, "list") if m["body"] == "one more")
    lab.mem(team.a, "purge", found["id"], "--force")
    assert team.bodies(team.a) == {"what is here"}
    assert lab.git(team.hub, "rev-parse", REF).strip() == id, "what is there is not ours to replace"
    lab.git(team.hub, "update-ref", "-d", REF)
    lab.mem(team.a, "sync")
    assert "what is here" in "".join(lab.lines(team.hub))


def loose(lab: Lab, repo: pathlib.Path) -> None:
    """Unpacks every object, so that a single one can be taken away."""
    packs = list((repo / ".git/objects/pack").glob("*.pack"))
    for pack in packs:
        data = pack.read_bytes()
        for path in pack.parent.glob(pack.stem + ".*"):
            path.unlink()
        subprocess.run(
            ["git", "unpack-objects", "-q"], cwd=repo, input=data, env=lab.env, check=True
        )


@pytest.mark.parametrize("kind", ["commit", "tree", "blob"])
def test_a_tracking_copy_whose_objects_are_gone_is_fetched_anew(
    team: Team, lab: Lab, kind: str
) -> None:
    lab.mem(team.a, "remember", "mine")
    lab.mem(team.a, "sync")
    lab.mem(team.b, "sync")
    for text, commit in (("theirs", "HEAD"), ("theirs too", "HEAD~1")):
        lab.mem(team.b, "remember", text, "--commit", commit)
        lab.mem(team.b, "sync")
    lab.git(team.a, "fetch", "-q")
    lab.mem(team.a, "remember", "mine later")
    loose(lab, team.a)
    own = set(lab.git(team.a, "rev-list", "--objects", "--no-object-names", REF).split())
    for id in (
        set(lab.git(team.a, "rev-list", "--objects", "--no-object-names", TRACK).split()) - own
    ):
        if lab.git(team.a, "cat-file", "-t", id).strip() == kind:
            (team.a / ".git/objects" / id[:2] / id[2:]).unlink()
    for words in (["list"], ["doctor"], ["status"], ["recall", "mine"]):
        lab.mem(team.a, *words)
    assert "1 record would go" in lab.mem(team.a, "sync", "--dry-run") or kind != "commit"
    lab.mem(team.a, "sync")
    lab.mem(team.b, "sync")
    assert (
        team.bodies(team.a) == team.bodies(team.b) == {"mine", "theirs", "theirs too", "mine later"}
    )
    assert len(lab.lines(team.hub)) == 4, (
        "no commit says that it has everything and lacks what was gone"
    )
