"""Objects that are away for a moment (a disk that is not mounted, an alternate that cannot be
reached): what comes back is there again, and no commit claims otherwise.
"""

from __future__ import annotations

import pathlib
import shutil
from contextlib import closing

import pytest
from conftest import Lab

from gitmem.git.config import backup_of
from gitmem.notes import ref_repair
from gitmem.store import open_store

REF = "refs/notes/mem/team"


def bodies(lab: Lab, repo: pathlib.Path) -> set[str]:
    return {m["body"] for m in lab.json(repo, "list", "--all", rc=(0, 1))}


class Disk:
    """The objects that a repository has gained since `begin` and that can be taken away and brought
    back.
    """

    def __init__(self, lab: Lab, repo: pathlib.Path) -> None:
        self.lab, self.objects, self.aside = lab, repo / ".git/objects", lab.root / "unmounted"
        self.before = self.all()

    def all(self) -> set[pathlib.Path]:
        return {p for p in self.objects.rglob("*") if p.is_file()}

    def away(self, kind: str = "") -> None:
        """Takes them away; `kind`: only objects of one kind."""
        for path in sorted(self.all() - self.before):
            if (
                not kind
                or self.lab.git(
                    self.objects.parent, "cat-file", "-t", path.parent.name + path.name
                ).strip()
                == kind
            ):
                to = self.aside / path.relative_to(self.objects)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, to)
                path.chmod(0o644)
        for path in self.aside.rglob("*"):
            if path.is_file():
                (self.objects / path.relative_to(self.aside)).unlink(missing_ok=True)

    def back(self) -> None:
        shutil.copytree(self.aside, self.objects, dirs_exist_ok=True)


@pytest.mark.parametrize("kind", ["", "commit", "tree", "blob"])
@pytest.mark.parametrize("cache", [True, False])
def test_what_was_away_while_others_wrote_is_there_when_it_comes_back(
    lab: Lab, kind: str, cache: bool
) -> None:
    repo = lab.repo("repo", 2)
    lab.mem(repo, "remember", "from before", "--commit", "HEAD~1")
    disk = Disk(lab, repo)
    lab.mem(repo, "remember", "was away")
    lab.mem(repo, "remember", "was away too", "--commit", "HEAD~1")
    disk.away(kind)
    for path in (repo / ".git/mem").glob("recent-*"):
        path.unlink()  # the notes alone must do
    if not cache:
        for path in (repo / ".git/mem").glob("index-*"):
            path.unlink()
    lab.mem(repo, "list", rc=(0, 1))
    lab.mem(repo, "remember", "written meanwhile")
    lab.mem(repo, "remember", "and once more")
    lab.mem(repo, "doctor", "--repair", rc=(0, 1))
    disk.back()
    lab.mem(repo, "remember", "afterwards")
    want = {
        "from before",
        "was away",
        "was away too",
        "written meanwhile",
        "and once more",
        "afterwards",
    }
    assert bodies(lab, repo) == want
    assert len(lab.lines(repo)) == 6, "every line is in the tip again"
    shutil.rmtree(repo / ".git/mem")
    assert bodies(lab, repo) == want


def test_what_is_away_is_not_left_behind_by_a_purge(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    lab.mem(repo, "remember", "to be purged", "--commit", "HEAD~1")
    disk = Disk(lab, repo)
    lab.mem(repo, "remember", "was away")
    disk.away("blob")
    for path in (repo / ".git/mem").glob("recent-*"):
        path.unlink()
    found = next(m for m in lab.json(repo, "list", "--all") if m["body"] == "to be purged")
    lab.mem(repo, "purge", found["id"], "--force", rc=(0, 1))
    disk.back()
    lab.mem(repo, "remember", "afterwards")
    assert bodies(lab, repo) - {"to be purged"} == {"was away", "afterwards"}


def test_a_cache_that_was_filled_while_notes_were_away_has_them_when_they_come_back(
    lab: Lab,
) -> None:
    repo = lab.repo("repo", 2)
    lab.mem(repo, "remember", "from before", "--commit", "HEAD~1")
    disk = Disk(lab, repo)
    lab.mem(repo, "remember", "was away")
    disk.away("blob")
    shutil.rmtree(repo / ".git/mem")
    assert bodies(lab, repo) == {"from before"}
    disk.back()
    assert bodies(lab, repo) == {"from before", "was away"}


def test_memories_in_an_alternate_that_is_away_are_neither_replaced_nor_lost(lab: Lab) -> None:
    origin = lab.repo("origin", 2)
    lab.mem(origin, "remember", "lies in the alternate")
    lab.git(lab.root, "clone", "-q", "--shared", str(origin), "repo")
    repo = lab.root / "repo"
    lab.git(repo, "fetch", "-q", "origin", f"{REF}:{REF}")
    (origin / ".git/objects").rename(lab.root / "away")
    for words in (
        ["list"],
        ["recall", "alternate"],
        ["remember", "meanwhile"],
        ["doctor"],
        ["doctor", "--repair"],
        ["sync"],
        ["status"],
    ):
        done = lab.run(repo, "git-mem", *words)
        assert done.returncode in (0, 1, 128) and "bug:" not in done.stderr, (words, done.stderr)
    (lab.root / "away").rename(origin / ".git/objects")
    lab.mem(repo, "remember", "afterwards")
    assert {"lies in the alternate", "afterwards"} <= bodies(lab, repo)


def test_a_repair_that_could_write_nothing_does_not_say_that_it_did(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    lab.mem(repo, "remember", "was away")
    disk = Disk(lab, repo)
    lab.mem(repo, "remember", "the second")
    disk.away("tree")
    lab.git(repo, "config", "remote.gone.promisor", "true")  # then they may be at a remote
    lab.git(repo, "config", "remote.gone.url", str(lab.root / "nowhere"))
    tip = lab.git(repo, "rev-parse", REF)
    out = lab.mem(repo, "doctor", "--repair", rc=(0, 1))
    assert lab.git(repo, "rev-parse", REF) == tip
    assert "whole again" not in out and "not mended: " in out
    disk.back()
    assert bodies(lab, repo) == {"was away", "the second"}


def test_a_line_taken_out_behind_a_trailer_is_put_back_by_the_repair_that_promises_it(
    lab: Lab,
) -> None:
    repo = lab.repo()
    lab.mem(repo, "init")
    lab.mem(repo, "remember", "the one taken out")
    empty = lab.git(repo, "mktree", stdin="").strip()
    lab.git(
        repo,
        "update-ref",
        REF,
        lab.git(
            repo, "commit-tree", "-p", REF, "-m", "notes: cleaned\n\nMem-Complete: 1\n", empty
        ).strip(),
    )
    assert "1 line taken out" in lab.mem(repo, "doctor", rc=(0, 1))
    assert "1 line put back" in lab.mem(repo, "doctor", "--repair", rc=(0, 1))
    assert len(lab.lines(repo)) == 1
    assert "taken out" not in lab.mem(repo, "doctor", rc=(0, 1))


@pytest.mark.parametrize("kept", ["blob:none", "tree:0"])
def test_a_partial_clone_whose_remote_is_away_answers_and_says_why(lab: Lab, kept: str) -> None:
    lab.git(lab.root, "clone", "-q", "--bare", str(lab.repo("seed", 2)), "hub.git")
    hub = lab.root / "hub.git"
    lab.git(hub, "config", "uploadpack.allowFilter", "true")
    lab.git(hub, "config", "uploadpack.allowAnySHA1InWant", "true")
    lab.git(lab.root, "clone", "-q", str(hub), "a")
    lab.mem(lab.root / "a", "remember", "only at the remote")
    lab.mem(lab.root / "a", "sync")
    lab.git(lab.root, "clone", "-q", f"--filter={kept}", f"file://{hub}", "p")
    repo = lab.root / "p"
    lab.git(
        repo, "fetch", "-q", "origin", f"{REF}:{REF}"
    )  # stock git applies the filter to notes too
    hub.rename(lab.root / "away.git")
    for words in (
        ["list"],
        ["recall", "remote"],
        ["log"],
        ["status"],
        ["stats"],
        ["export"],
        ["index"],
        ["verify"],
    ):
        done = lab.run(repo, "git-mem", *words)
        assert (
            done.returncode in (0, 1)
            and "this is a partial clone, and its remote does not give them" in done.stderr
        ), (words, done.stderr)
    for words in (
        ["doctor"],
        ["doctor", "--repair"],
        ["sync"],
        ["sync", "--dry-run"],
        ["remember", "cannot be written now"],
    ):
        done = lab.run(repo, "git-mem", *words)
        assert (
            done.returncode == 1
            and "bug:" not in done.stderr
            and any(why in done.stderr + done.stdout for why in ("cannot", "could not fetch"))
        ), (words, done)
    (lab.root / "away.git").rename(hub)
    assert bodies(lab, repo) == {"only at the remote"}
    lab.mem(repo, "remember", "written later")
    assert len(lab.lines(repo)) == 2


@pytest.mark.parametrize("gone", [["blob"], ["tree"], ["commit", "blob"]])
def test_a_young_ref_of_which_every_state_lost_an_object_goes_on_with_its_lines(
    lab: Lab, gone: list[str]
) -> None:
    """A `git gc --prune=now` that began before the first write deletes objects of all writes."""
    repo = lab.repo()
    disk = Disk(lab, repo)
    for i in range(3):
        lab.mem(repo, "remember", f"invoice {i}")
    for kind in gone:
        disk.away(kind)
    lab.mem(repo, "remember", "the last")
    want = {"invoice 0", "invoice 1", "invoice 2", "the last"}
    assert bodies(lab, repo) == want
    shutil.rmtree(repo / ".git/mem")
    assert bodies(lab, repo) == want


def test_a_ref_of_which_the_reflog_has_not_every_write_begins_anew_only_when_asked(
    lab: Lab,
) -> None:
    repo = lab.repo(commits=2)
    disk = Disk(lab, repo)
    lab.mem(repo, "remember", "lost", "--commit", "HEAD~1")
    lab.git(repo, "reflog", "expire", "--expire=all", REF)
    lab.mem(repo, "remember", "of the last write")
    lost = lab.git(repo, "notes", "--ref=mem/team", "list", "HEAD~1").strip()
    (disk.objects / lost[:2] / lost[2:]).unlink()
    tip = lab.git(repo, "rev-parse", REF)
    done = lab.run(repo, "git-mem", "remember", "refused", "--commit", "HEAD~1")
    assert done.returncode == 1 and "doctor --repair" in done.stderr
    assert lab.git(repo, "rev-parse", REF) == tip
    lab.mem(repo, "doctor", "--repair", rc=(0, 1))
    assert bodies(lab, repo) == {"lost", "of the last write"}


def test_a_ref_that_was_to_begin_anew_is_not_put_back_by_a_reader(lab: Lab) -> None:
    """The write behind it was killed, and the cache remembers the commit that was left."""
    repo = lab.repo()
    disk = Disk(lab, repo)
    lab.mem(repo, "remember", "one")
    lab.mem(repo, "remember", "two")
    want = bodies(lab, repo)
    disk.away("blob")
    with closing(open_store(lab.env, str(repo))) as store:
        assert ref_repair.mend(store.repo.git, REF) == ""
    assert bodies(lab, repo) == want
    assert lab.git(repo, "for-each-ref", REF) == ""
    lab.mem(repo, "remember", "three")
    assert bodies(lab, repo) == {*want, "three"}


def test_what_waits_for_a_ref_that_broke_is_not_said_to_be_nothing(lab: Lab) -> None:
    repo = lab.repo()
    disk = Disk(lab, repo)
    lab.mem(repo, "remember", "one")
    lab.mem(repo, "remember", "two")
    disk.away()
    for path in (repo / ".git/mem").glob("index-*"):
        path.unlink()
    for _ in range(2):
        done = lab.run(repo, "git-mem", "list")
        assert (done.returncode, done.stdout) == (0, "no memories\n")
        assert done.stderr.count("comes back with the next write") == 1
    assert "its lines come back with the next write" in lab.mem(repo, "doctor", rc=(1,))
    lab.mem(repo, "doctor", "--repair", rc=(0, 1))
    done = lab.run(repo, "git-mem", "list")
    assert ("one" in done.stdout and "two" in done.stdout, done.stderr) == (True, "")


def test_a_repair_reads_what_former_states_have_where_the_tip_is_gone(lab: Lab) -> None:
    repo = lab.repo(commits=3)
    disk = Disk(lab, repo)
    for body, commit in (("lost", "HEAD~2"), ("in a former state", "HEAD~1"), ("newest", "HEAD")):
        lab.mem(repo, "remember", body, "--commit", commit)
    blobs = [row.split()[2] for row in lab.git(repo, "ls-tree", "-r", f"{REF}~2").splitlines()]
    for id in (lab.git(repo, "rev-parse", REF).strip(), *blobs):
        (disk.objects / id[:2] / id[2:]).unlink()
    shutil.rmtree(repo / ".git/mem")
    assert "doctor --repair" in lab.run(repo, "git-mem", "remember", "the last").stderr
    lab.mem(repo, "doctor", "--repair", rc=(0, 1))
    assert bodies(lab, repo) == {"in a former state"}
    lab.mem(repo, "remember", "the last")
    assert bodies(lab, repo) == {"in a former state", "the last"}


def test_a_ref_that_begins_anew_takes_in_no_text_that_was_purged_before(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    lab.mem(repo, "remember", "to be purged")
    lab.git(lab.root, "clone", "-q", str(repo), "old")
    lab.git(lab.root / "old", "fetch", "-q", "origin", f"{REF}:{REF}")
    lab.mem(repo, "remember", "lost", "--commit", "HEAD~1")
    (found,) = [m for m in lab.json(repo, "list") if m["body"] == "to be purged"]
    lab.mem(repo, "purge", found["id"], "--force")
    lost = lab.git(repo, "notes", "--ref=mem/team", "list", "HEAD~1").strip()
    (repo / ".git/objects" / lost[:2] / lost[2:]).unlink()
    shutil.rmtree(repo / ".git/mem")
    lab.mem(repo, "doctor", "--repair", rc=(0, 1))
    lab.git(repo, "remote", "add", "origin", str(lab.root / "old"))
    lab.mem(repo, "pull")
    assert bodies(lab, repo) == set() and "to be purged" not in "".join(lab.lines(repo))


def test_a_damaged_note_ends_no_command(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    lab.mem(repo, "remember", "in the damaged note", "--commit", "HEAD~1")
    lab.mem(repo, "remember", "in a whole one")
    old = lab.git(repo, "rev-parse", "HEAD~1").strip()
    blob = next(
        row.split()[2]
        for row in lab.git(repo, "ls-tree", "-r", REF).splitlines()
        if row.endswith(old)
    )
    path = repo / ".git/objects" / blob[:2] / blob[2:]
    content = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(content[:20] + b"x" * 30)
    shutil.rmtree(repo / ".git/mem")
    for words in (["list"], ["recall", "whole"], ["log"], ["verify"], ["stats"]):
        done = lab.run(repo, "git-mem", *words)
        assert (
            done.returncode in (0, 1)
            and "cannot be read, so memories may be missing" in done.stderr
        ), (words, done.stderr)
    assert bodies(lab, repo) == {"in a whole one"}
    assert "cannot be read" in lab.mem(repo, "doctor", rc=(1,))
    path.write_bytes(content)
    assert bodies(lab, repo) == {"in a whole one", "in the damaged note"}


def test_a_borrower_whose_lender_pruned_goes_on_after_a_repair(lab: Lab) -> None:
    lab.git(lab.root, "clone", "-q", "--bare", str(lab.repo("seed", 2)), "hub.git")
    lab.git(lab.root, "clone", "-q", str(lab.root / "hub.git"), "lender")
    lender = lab.root / "lender"
    lab.mem(lender, "remember", "only the lender had it", "--commit", "HEAD~1")
    lab.git(lab.root, "clone", "-q", "--shared", str(lender), "repo")
    repo = lab.root / "repo"
    lab.git(repo, "remote", "set-url", "origin", str(lab.root / "hub.git"))
    lab.git(repo, "fetch", "-q", str(lender), f"{REF}:{REF}")
    lab.mem(repo, "remember", "written by the borrower")
    away = {p: p.read_bytes() for p in (lender / ".git/objects").rglob("*") if p.is_file()}
    lab.git(lender, "update-ref", "-d", REF)
    lab.git(lender, "update-ref", "-d", backup_of(REF))
    shutil.rmtree(lender / ".git/mem")
    lab.git(lender, "gc", "-q", "--prune=now")
    assert (
        "doctor --repair"
        in lab.run(repo, "git-mem", "remember", "about the one before", "--commit", "HEAD~1").stderr
    )
    lab.mem(repo, "doctor", "--repair", rc=(0, 1))
    lab.mem(repo, "remember", "about the one before", "--commit", "HEAD~1")
    lab.mem(repo, "sync")
    everything = {"only the lender had it", "written by the borrower", "about the one before"}
    assert bodies(lab, repo) == everything  # the cache still had the first
    assert len(lab.lines(lab.root / "hub.git")) == 3
    for path, content in away.items():  # the lender gets its disk back
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_bytes(content)
    lab.mem(repo, "remember", "afterwards")
    lab.mem(repo, "sync")
    assert bodies(lab, repo) == everything | {"afterwards"}
    assert len(lab.lines(lab.root / "hub.git")) == 4


@pytest.mark.each
@pytest.mark.parametrize("kind", ["commit", "tree", "blob"])
def test_a_former_tip_that_lacks_objects_ends_no_write_and_no_push(lab: Lab, kind: str) -> None:
    """`git prune` beside writers left such a one, without a debt that names it."""
    lab.git(lab.root, "init", "-q", "--bare", "hub.git")
    repo = lab.repo()
    lab.git(repo, "remote", "add", "origin", str(lab.root / "hub.git"))
    lab.mem(repo, "remember", "from before")
    before = lab.git(repo, "rev-parse", REF).strip()
    disk = Disk(lab, repo)
    lab.mem(repo, "remember", "was away")
    lab.git(repo, "update-ref", REF, before)
    disk.away(kind)
    for path in (repo / ".git/mem").iterdir():
        path.unlink()  # neither recent lines nor a cache
    lab.mem(repo, "remember", "written meanwhile")
    assert bodies(lab, repo) - {"was away"} == {"from before", "written meanwhile"}
    lab.mem(repo, "sync")
    disk.back()
    lab.mem(repo, "remember", "afterwards")
    assert lab.git(repo, "fsck", "--no-dangling") == ""
    assert not list((repo / ".git/mem").glob("*.due"))
    assert bodies(lab, repo) == {"from before", "was away", "written meanwhile", "afterwards"}


def test_a_former_tip_whose_parent_is_missing_ends_no_command(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "from before")
    before = lab.git(repo, "rev-parse", REF).strip()
    for body in ("was away", "behind it"):
        lab.mem(repo, "remember", body)
    lost = lab.git(repo, "rev-parse", f"{REF}~1").strip()
    lab.git(repo, "update-ref", REF, before)
    path = repo / ".git/objects" / lost[:2] / lost[2:]
    content = path.read_bytes()
    path.unlink()
    for file in (repo / ".git/mem").iterdir():
        file.unlink()
    lab.mem(repo, "list")
    lab.mem(repo, "remember", "written meanwhile")
    assert bodies(lab, repo) == {"from before", "was away", "behind it", "written meanwhile"}
    path.write_bytes(content)
    lab.mem(repo, "remember", "afterwards")
    assert not list((repo / ".git/mem").glob("*.due"))
