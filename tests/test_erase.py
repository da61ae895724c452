"""Deleting objects by name: what is doomed is nowhere, everything else is as it was, `git fsck` finds nothing."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Lab

from gitmem.core import record
from gitmem.core.errors import MemError
from gitmem.erasure import erase
from gitmem.git import layout, odb, packfile, roots
from gitmem.truth import notes

REF, ADA = "refs/notes/mem/team", "Ada <ada@example.org>"
WORD = "Zanzibarium"


class Place:
    """A repository with notes in which some lines are doomed."""

    def __init__(self, lab: Lab, path: pathlib.Path) -> None:
        self.lab, self.path = lab, path
        self.repo = layout.open_repo(str(path))
        self.notes = notes.Notes(self.repo.git, REF, self.repo.hex_len)
        self.head = self.repo.head()
        self.ids: set[str] = set()

    def add(self, text: str, doomed: bool = False) -> str:
        data = record.create(record.content({"body": text}), commit=self.head)
        self.notes.append([(self.head, record.dump(data))], "m", ADA)
        if doomed:
            self.ids.add(str(data["id"]))
        return str(data["id"])

    def doom(self, line: bytes) -> bool:
        found = record.parse(line)
        return found is not None and found.id in self.ids

    def leave(self) -> None:
        """Gives the ref a history without the doomed lines, as a purge does, and drops its reflog."""
        tip = self.notes.tip()
        kept = [(self.head, line) for _, line in self.notes.lines(tip) if not self.doom(line)]
        self.git("update-ref", "-d", REF)
        if kept:
            self.notes.append(kept, "m", ADA)
        self.repo.git.close()

    def erase(self, hints: bool = True) -> erase.Erased:
        return erase.erase(self.repo, self.doom, [i.encode() for i in self.ids] if hints else [])

    def git(self, *argv: str, stdin: str | None = None) -> str:
        return self.lab.git(self.path, *argv, stdin=stdin)

    def objects(self) -> set[str]:
        return set(self.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())

    def holding(self) -> list[str]:
        """Files of the repository that hold the word, however they are stored."""
        return holding(self.path, WORD)

    def sound(self) -> None:
        done = self.lab.run(self.path, "git", "fsck", "--strict", "--full")
        assert done.returncode == 0 and "missing" not in done.stdout + done.stderr and "error" not in done.stderr, done.stdout + done.stderr


def holding(path: pathlib.Path, word: str) -> list[str]:
    """Objects and files below a repository's git directory with a word: every object by git, every file raw and inflated."""
    directory = path / ".git" if (path / ".git").is_dir() else path
    listed = subprocess.run(["git", "--git-dir", str(directory), "cat-file", "--batch-all-objects", "--batch", "--buffer"], capture_output=True, check=True).stdout
    found = [f"object: {listed.count(word.encode())}"] if word.encode() in listed else []
    for file in directory.rglob("*"):
        if file.is_file():
            raw = file.read_bytes()
            inflated = b""
            if "objects" in file.parts and raw:
                with packfile.mapped(str(file)) as data:
                    inflated = b"".join(packfile.inflated(data, 20))
            if word.encode() in raw or word.encode() in inflated:
                found.append(str(file.relative_to(directory)))
    return found


@pytest.fixture
def place(lab: Lab) -> Place:
    made = Place(lab, lab.repo("repo", 3))
    made.add("stays, before")
    made.add(f"the customer is called {WORD}", doomed=True)
    made.add("stays, after")
    return made


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """In a large repository, what only branches lead to is not read."""
    if request.param == "large":
        monkeypatch.setattr(erase, "MANY", 0)
    return str(request.param)


def as_it_is(place: Place) -> None:
    pass


def packed(place: Place) -> None:
    place.git("-c", "gc.reflogExpire=never", "-c", "gc.reflogExpireUnreachable=never", "gc", "-q")  # the fixed dates are long ago


def packed_with_everything(place: Place) -> None:
    """Bitmap, multi-pack-index, commit-graph with changed paths, the files of a dumb server."""
    place.git("repack", "-q", "-a", "-d", "-b")
    place.git("commit-graph", "write", "--reachable", "--changed-paths")
    place.add("one more")
    place.git("repack", "-q", "-d")
    place.git("multi-pack-index", "write")
    place.git("update-server-info")


def packed_in_parts(place: Place) -> None:
    """Several packs, a bitmap over all of them, a commit-graph in layers, and loose objects."""
    place.git("repack", "-q", "-d")
    place.git("commit-graph", "write", "--reachable", "--split")
    place.add("one more")
    place.git("repack", "-q", "-d")
    place.git("commit-graph", "write", "--reachable", "--split=no-merge")
    place.git("multi-pack-index", "write", "--bitmap")
    place.add("still loose")


def kept(place: Place) -> None:
    place.git("repack", "-q", "-a", "-d")
    next((place.path / ".git/objects/pack").glob("*.pack")).with_suffix(".keep").write_text("for a reason\n")


SHAPES = [as_it_is, packed, packed_with_everything, packed_in_parts, kept]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("hints", [True, False])
def test_doomed_lines_are_in_no_object_and_all_else_is_as_it_was(place: Place, size: str, shape: Callable[[Place], None], hints: bool) -> None:
    if size == "small" and not hints:
        pytest.skip("the same as in a large one")
    user = place.git("hash-object", "-w", "--stdin", stdin="the user's own, reached by nothing").strip()
    place.git("commit", "-q", "--allow-empty", "-m", "dropped")
    place.git("reset", "-q", "--hard", "HEAD~1")
    shape(place)
    place.leave()
    before, logs = place.objects(), reflogs(place)
    assert place.holding()
    out = place.erase(hints)
    assert out.held == [] and out.files == [] and out.partly == (size == "large")
    assert place.holding() == []
    assert place.objects() == before - set(out.deleted)
    assert user in place.objects() and reflogs(place) == logs
    assert set(out.deleted.values()) == {"commit", "tree", "blob"}
    place.sound()
    assert {"stays, before", "stays, after"} <= bodies(place)
    assert place.erase(hints).deleted == {}, "a second run finds nothing"


def reflogs(place: Place) -> dict[str, str]:
    logs = place.path / ".git/logs"
    return {str(p.relative_to(logs)): p.read_text() for p in logs.rglob("*") if p.is_file()}


def bodies(place: Place) -> set[str]:
    return {str(r.data["body"]) for _, line in place.notes.lines(place.notes.tip()) if (r := record.parse(line))}


def test_what_git_derives_is_made_anew_as_it_was(place: Place) -> None:
    packed_with_everything(place)
    graph = place.path / ".git/objects/info/commit-graph"
    place.leave()
    place.erase()
    assert b"BIDX" in graph.read_bytes()[:256]
    assert (place.path / ".git/objects/pack/multi-pack-index").exists()
    place.git("commit-graph", "verify")
    place.git("multi-pack-index", "verify")
    listed = re.findall(r"P (.*)", (place.path / ".git/objects/info/packs").read_text())
    assert sorted(listed) == sorted(p.name for p in (place.path / ".git/objects/pack").glob("*.pack"))


def test_a_layered_commit_graph_and_a_bitmap_over_packs_come_back(place: Place) -> None:
    packed_in_parts(place)
    place.leave()
    place.erase()
    assert (place.path / ".git/objects/info/commit-graphs/commit-graph-chain").exists()
    place.git("commit-graph", "verify")
    place.git("multi-pack-index", "verify")


def test_a_kept_pack_stays_kept_and_an_old_one_old(place: Place) -> None:
    kept(place)
    pack = next((place.path / ".git/objects/pack").glob("*.pack"))
    os.utime(pack, (1_700_000_000, 1_700_000_000))
    place.leave()
    place.erase()
    made = next((place.path / ".git/objects/pack").glob("*.pack"))
    assert made != pack and made.stat().st_mtime == 1_700_000_000
    assert made.with_suffix(".keep").read_text() == "for a reason\n"


def test_a_repository_whose_first_commit_is_empty_is_no_history_of_notes(lab: Lab) -> None:
    path = lab.repo("empty", 0)
    lab.git(path, "commit", "-q", "--allow-empty", "-m", "first")
    place = Place(lab, path)
    place.add(WORD, doomed=True)
    git = odb.Odb(place.repo.git, 40).git
    eraser = erase._Eraser(odb.Odb(place.repo.git, 40), 40, place.doom, [], lambda n: None)
    usual, others = roots.history_of(git, roots.refs(git), eraser._is_notes_commit)
    assert [name for name, _ in usual] == ["refs/heads/main"] and [name for name, _ in others] == [REF]


# Who holds it


def hold_by_branch(place: Place) -> str:
    place.git("branch", "copy", REF)
    return "refs/heads/copy"


def hold_by_merge_into_main(place: Place) -> str:
    place.git("merge", "-q", "-s", "ours", "--allow-unrelated-histories", "-m", "m", REF)
    return "refs/heads/main"


def hold_by_annotated_tag(place: Place) -> str:
    place.git("tag", "-a", "-m", "t", "v1", REF)
    return "refs/tags/v1"


def hold_by_tag_of_a_blob(place: Place) -> str:
    place.git("tag", "text", place.git("notes", "--ref=mem/team", "list", place.head).split()[0])
    return "refs/tags/text"


def hold_by_reflog_of_head(place: Place) -> str:
    place.git("checkout", "-q", "--detach", REF)
    place.git("checkout", "-q", "main")
    return "the reflog of HEAD"


def hold_by_a_detached_worktree(place: Place) -> str:
    place.git("worktree", "add", "-q", "--detach", "../tree", REF)
    return "worktrees/tree/HEAD"


def hold_by_index(place: Place) -> str:
    place.git("update-index", "--add", "--cacheinfo", f"100644,{place.git('notes', '--ref=mem/team', 'list', place.head).split()[0]},note.txt")
    return "an index"


def hold_by_a_file_in_a_branch(place: Place) -> str:
    hold_by_index(place)
    place.git("commit", "-q", "-m", "a note as a file")
    return "refs/heads/main"


def hold_by_an_unfinished_merge(place: Place) -> str:
    (place.path / ".git/NOTES_MERGE_PARTIAL").write_text(place.git("rev-parse", REF))
    return "NOTES_MERGE_PARTIAL"


def hold_by_an_unreachable_commit_of_files(place: Place) -> str:
    hold_by_index(place)
    tree = place.git("write-tree").strip()
    place.git("commit-tree", "-m", "files", tree)
    place.git("reset", "-q", "--hard")
    return f"the tree {tree}, which is no part of notes"


HOLDERS = [hold_by_branch, hold_by_merge_into_main, hold_by_annotated_tag, hold_by_tag_of_a_blob, hold_by_reflog_of_head, hold_by_a_detached_worktree,
           hold_by_index, hold_by_a_file_in_a_branch, hold_by_an_unfinished_merge, hold_by_an_unreachable_commit_of_files]


@pytest.mark.parametrize("shape", [as_it_is, packed])
@pytest.mark.parametrize("holder", HOLDERS)
def test_what_the_user_still_leads_to_stays_and_its_holder_is_named(place: Place, size: str, holder: Callable[[Place], str], shape: Callable[[Place], None]) -> None:
    name = holder(place)
    if size == "large" and holder is hold_by_a_file_in_a_branch:
        place.git("update-ref", "refs/notes/elsewhere", REF)  # where no notes lead to it, it is not found there
    shape(place)
    place.leave()
    before = place.git("for-each-ref")
    for _ in range(2):  # also where nothing of ours leads there any more
        out = place.erase()
        assert name in out.held
        assert place.holding()
        place.sound()
    assert place.git("for-each-ref") == before


def test_when_the_holder_is_gone_running_again_finishes(place: Place) -> None:
    hold_by_merge_into_main(place)
    place.leave()
    assert place.erase().held
    place.git("reset", "-q", "--hard", "HEAD~1")
    assert place.erase().held == ["the reflog of HEAD", "the reflog of refs/heads/main"]
    place.git("reflog", "expire", "--expire=all", "--all")
    os.unlink(place.path / ".git/ORIG_HEAD")
    merge, = place.erase().held
    assert "which is no part of notes" in merge, "a commit of the user's that nobody reaches is still the user's"
    place.git("prune")
    assert place.erase().held == []
    assert place.holding() == []
    place.sound()


def test_an_object_store_that_is_borrowed_from_is_named_and_left_alone(lab: Lab, place: Place) -> None:
    lab.git(lab.root, "clone", "-q", "--shared", str(place.path), "borrower")
    lab.git(lab.root / "borrower", "fetch", "-q", str(place.path), f"{REF}:{REF}")
    borrower = Place(lab, lab.root / "borrower")
    borrower.ids = place.ids
    borrower.add("new here")
    borrower.leave()
    out = borrower.erase()
    assert len(out.held) == 1 and str(place.path / ".git/objects") in out.held[0]
    assert out.deleted and place.holding()
    borrower.sound()
    place.sound()


# What nobody reaches


def test_blobs_that_a_failed_writer_or_a_stock_merge_left_are_found(place: Place) -> None:
    line = next(line for _, line in place.notes.lines(place.notes.tip()) if place.doom(line)).decode()
    place.leave()
    place.erase()
    blob = place.git("hash-object", "-w", "--stdin", stdin=f"{line}\n").strip()
    other = place.git("hash-object", "-w", "--stdin", stdin=f"something\n\n  {line}\r\n").strip()
    tree = place.git("mktree", stdin=f"100644 blob {blob}\t{place.head}\n").strip()
    commit = place.git("commit-tree", "-m", "notes: merged", "-p", REF, tree).strip()
    child = place.git("commit-tree", "-m", "Notes removed by 'git notes remove'", "-p", commit, place.git("mktree", stdin="").strip()).strip()
    out = place.erase()
    assert {blob, other, tree, commit, child} == set(out.deleted)
    place.sound()


def test_what_only_quotes_the_line_is_not_touched(place: Place) -> None:
    line = next(line for _, line in place.notes.lines(place.notes.tip()) if place.doom(line)).decode()
    place.leave()
    place.erase()
    quote = place.git("hash-object", "-w", "--stdin", stdin=f"they wrote: {line}\n").strip()
    assert place.erase().deleted == {}
    assert quote in place.objects()


def test_a_pack_that_a_killed_writer_left_is_removed_and_another_stays(place: Place) -> None:
    line = next(line for _, line in place.notes.lines(place.notes.tip()) if place.doom(line))
    place.leave()
    place.erase()
    pack = place.path / ".git/objects/pack"
    for n, content in enumerate((line, b"the user's"), 1):
        process = subprocess.Popen(["git", "fast-import", "--quiet"], cwd=place.path, env=place.lab.env, stdin=subprocess.PIPE)
        assert process.stdin
        for i in range(40):  # a note that grows, so that it is stored as deltas
            noise = os.urandom(20_000).hex().encode() + b"\n" + content * (i > 3) + b"\n"
            process.stdin.write(b"blob\ndata %d\n%s\n" % (len(noise), noise))
            process.stdin.flush()
        end = time.monotonic() + 60
        while len(sizes := [p.stat().st_size for p in pack.glob("tmp_pack*")]) < n or min(sizes) < 400_000:
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.01)
        process.kill()
        process.wait()
        process.stdin.close()
    assert place.holding()
    out = place.erase()
    assert len(out.files) == 1 and out.held == []
    assert place.holding() == [] and len(list(pack.glob("tmp_pack*"))) == 1


def test_copies_that_fsck_made_of_the_doomed_are_removed(place: Place) -> None:
    place.leave()
    other = place.git("hash-object", "-w", "--stdin", stdin="the user's").strip()
    place.git("fsck", "--lost-found")
    assert place.holding()
    place.erase()
    assert place.holding() == []
    assert (place.path / ".git/lost-found/other" / other).exists()


def test_a_note_that_is_being_merged_by_hand_is_named(place: Place) -> None:
    line = next(line for _, line in place.notes.lines(place.notes.tip()) if place.doom(line))
    place.leave()
    folder = place.path / ".git/NOTES_MERGE_WORKTREE"
    folder.mkdir()
    (folder / place.head).write_bytes(b"<<<<<<< ours\n" + line + b"\n=======\n>>>>>>> theirs\n")
    out = place.erase()
    assert out.held == [f"the unfinished edit or merge '{folder / place.head}'"]


# Crashes and company


class Killed(Exception):
    pass


@pytest.mark.parametrize("shape", [as_it_is, packed_in_parts])
def test_a_kill_at_any_step_leaves_every_other_object_and_running_again_finishes(lab: Lab, place: Place, monkeypatch: pytest.MonkeyPatch, shape: Callable[[Place], None]) -> None:
    steps = 0
    shape(place)
    ids = place.ids
    place.leave()
    while True:
        place = Place(lab, pathlib.Path(shutil.copytree(lab.root / "repo", lab.root / f"repo{steps}")))
        place.ids = ids
        before = place.objects()
        left = steps
        gone: set[str] = set()

        def counted(call: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(*args: Any, **kw: Any) -> Any:
                nonlocal left
                if left == 0:
                    raise Killed
                left -= 1
                return call(*args, **kw)
            return wrapped

        with monkeypatch.context() as m:
            for module, name in ((odb.os, "unlink"), (odb.os, "replace"), (odb.Odb, "_rewritten"), (odb.Odb, "_derive"), (odb.Odb, "_drop_midx")):
                m.setattr(module, name, counted(getattr(module, name)))
            try:
                gone = set(place.erase().deleted)
                finished = True
            except Killed:
                finished = False
        for lock in place.path.glob(".git/gc.pid*"):
            lock.unlink()  # the exception, unlike a kill, let the lock's own unlink fail: git would find the process dead
        assert {"stays, before", "stays, after"} <= bodies(place)
        done = lab.run(place.path, "git", "fsck", "--strict", "--connectivity-only", "--no-dangling")
        assert done.returncode == 0, done.stdout + done.stderr
        gone |= set(place.erase().deleted)
        assert place.holding() == []
        assert before - place.objects() >= gone and not place.objects() - before
        place.sound()
        if finished:
            break
        steps += 1
    assert steps > 8


def test_a_ref_that_comes_to_hold_it_at_the_last_moment_stops_the_deletion(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    tip = place.notes.tip()
    packed(place)
    place.leave()
    before = place.objects()
    real = odb.Odb._rewritten

    def late(self: odb.Odb, *args: Any) -> str:
        place.git("branch", "-f", "late", tip)
        return real(self, *args)

    monkeypatch.setattr(odb.Odb, "_rewritten", late)
    out = place.erase()
    assert out.held == ["refs/heads/late", "the reflog of refs/heads/late"] and out.deleted == {}
    assert place.objects() == before and len(list((place.path / ".git/objects/pack").glob("*.pack"))) == 1
    place.sound()


def test_objects_that_a_writer_leaves_meanwhile_are_found_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    line = next(line for _, line in place.notes.lines(place.notes.tip()) if place.doom(line)).decode()
    place.leave()
    real, late = odb.Odb.remove, []

    def remove(self: odb.Odb, *args: Any) -> Any:
        if not late:
            late.append(place.git("hash-object", "-w", "--stdin", stdin=f"{line}\nwritten by one that had read the old notes\n").strip())
        return real(self, *args)

    monkeypatch.setattr(odb.Odb, "remove", remove)
    out = place.erase()
    assert late[0] in out.deleted
    assert place.holding() == []


def test_it_waits_for_a_clean_up_of_git_and_keeps_others_from_starting(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.leave()
    sleeper = subprocess.Popen(["sleep", "60"])
    pid = place.path / ".git/gc.pid"
    pid.write_text(f"{sleeper.pid} {odb._host()}")
    monkeypatch.setattr(odb, "PATIENCE", 0.3)
    with pytest.raises(MemError, match="clean-up is at work"):
        place.erase()
    sleeper.kill()
    sleeper.wait()
    seen: list[int] = []
    real = odb.Odb.remove

    def remove(self: odb.Odb, *args: Any) -> Any:
        seen.append(place.lab.run(place.path, "git", "gc", "-q").returncode)
        return real(self, *args)

    monkeypatch.setattr(odb.Odb, "remove", remove)
    place.erase()
    assert seen == [128], "git gc refuses while we work"
    assert not pid.exists() and not pid.with_suffix(".pid.lock").exists()


def test_an_open_reader_finds_every_other_object_afterwards(place: Place) -> None:
    packed_with_everything(place)
    place.leave()
    ids = sorted(place.objects())
    reader = subprocess.Popen(["git", "cat-file", "--batch-check"], cwd=place.path, env=place.lab.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdin and reader.stdout
    print(place.head, file=reader.stdin, flush=True)
    reader.stdout.readline()
    gone = place.erase().deleted
    left = [id for id in ids if id not in gone]
    answer, _ = reader.communicate("".join(id + "\n" for id in left))
    assert "missing" not in answer and len(answer.splitlines()) == len(left)


def test_the_proof_fails_where_an_object_is_left(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.leave()
    monkeypatch.setattr(odb.Odb, "_loose", lambda self, id: os.path.join(self.dir, "elsewhere", id))
    out = place.erase()
    assert out.deleted == {} and out.held
    assert place.holding(), "so the search of these tests can fail too"


# Surroundings


def test_in_a_sha256_repository_with_a_pack(lab: Lab) -> None:
    place = Place(lab, lab.repo("sha256", 1, "--object-format=sha256"))
    place.add("stays")
    place.add(WORD, doomed=True)
    packed_with_everything(place)
    place.leave()
    out = place.erase()
    assert out.held == [] and all(len(id) == 64 for id in out.deleted)
    assert holding(place.path, WORD) == [] and bodies(place) >= {"stays"}
    place.sound()


def test_in_a_bare_repository(lab: Lab) -> None:
    lab.repo()
    lab.git(lab.root, "clone", "-q", "--bare", "repo", "bare.git")
    place = Place(lab, lab.root / "bare.git")
    place.add("stays")
    place.add(WORD, doomed=True)
    place.leave()
    assert place.erase().held == []
    assert place.holding() == []
    place.sound()


def test_from_a_linked_worktree(place: Place) -> None:
    place.git("worktree", "add", "-q", "-b", "side", "../tree")
    place.leave()
    inside = layout.open_repo(str(place.path.parent / "tree"))
    assert erase.erase(inside, place.doom).held == []
    assert place.holding() == []
    place.sound()


def test_in_a_partial_clone_nothing_is_fetched_and_promises_stay(lab: Lab, place: Place) -> None:
    place.git("config", "uploadpack.allowFilter", "true")
    place.git("config", "uploadpack.allowAnySHA1InWant", "true")
    lab.git(lab.root, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{place.path}", "partial")
    partial = Place(lab, lab.root / "partial")
    partial.ids = place.ids
    lab.git(partial.path, "fetch", "-q", "origin", f"{REF}:{REF}")
    assert bodies(partial) == {"stays, before", "stays, after", f"the customer is called {WORD}"}, "the notes were fetched when they were read"
    missing = lab.git(partial.path, "rev-list", "--objects", "--missing=print", "--all").count("?")
    assert missing
    partial.leave()
    lab.git(partial.path, "config", "remote.origin.url", "file:///nowhere")
    out = partial.erase()
    assert out.held == [] and out.deleted
    assert holding(partial.path, WORD) == []
    assert list((partial.path / ".git/objects/pack").glob("*.promisor"))
    assert not [p for p in (partial.path / ".git/objects/pack").glob("*.promisor") if not p.with_suffix(".pack").exists()]
    partial.sound()


def test_a_cruft_pack_gives_up_the_doomed_and_keeps_the_rest(place: Place) -> None:
    user = place.git("hash-object", "-w", "--stdin", stdin="the user's own").strip()
    place.leave()
    if place.lab.run(place.path, "git", "repack", "-q", "--cruft", "-d", "-a").returncode:
        pytest.skip("this git has no cruft packs")
    assert list((place.path / ".git/objects/pack").glob("*.mtimes"))
    assert place.erase().deleted
    assert place.holding() == [] and user in place.objects()
    place.sound()


def test_a_leftover_is_found_by_the_middle_of_an_id(lab: Lab, tmp_path: pathlib.Path) -> None:
    blob = zlib.compress(b"blob 50\0" + b'{"id":"0123456789abcdef0123456789abcdef"}')
    (tmp_path / "tmp_obj_x").write_bytes(blob)
    with packfile.mapped(str(tmp_path / "tmp_obj_x")) as data:
        assert b"".join(packfile.inflated(data, 20)).endswith(b'cdef"}')
    (tmp_path / "torn").write_bytes(blob[:-12])
    with packfile.mapped(str(tmp_path / "torn")) as data:
        assert list(packfile.inflated(data, 20))
