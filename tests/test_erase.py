"""Deleting objects by name: what is doomed is nowhere, everything else is as it was, `git fsck`
finds nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable

import pytest
from conftest import Lab
from erase_world import (
    REF,
    SHAPES,
    WORD,
    Place,
    as_it_is,
    bodies,
    kept,
    one_doomed,
    packed,
    packed_in_parts,
    packed_with_everything,
)

from gitmem.erasure import doomed_objects
from gitmem.erasure.doomed_objects import DoomedObjects


@pytest.fixture
def place(lab: Lab) -> Place:
    return one_doomed(lab)


@pytest.fixture(params=["small", "large"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """In a large repository, what only branches lead to is not read."""
    if request.param == "large":
        monkeypatch.setattr(doomed_objects, "MANY", 0)
    return str(request.param)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("hints", [True, False])
def test_doomed_lines_are_in_no_object_and_all_else_is_as_it_was(
    place: Place, size: str, shape: Callable[[Place], None], hints: bool
) -> None:
    if size == "small" and not hints:
        pytest.skip("the same as in a large one")
    user = place.git(
        "hash-object", "-w", "--stdin", stdin="the user's own, reached by nothing"
    ).strip()
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


def test_the_commit_graph_and_the_multi_pack_index_are_made_anew(place: Place) -> None:
    packed_with_everything(place)
    place.leave()
    place.erase()
    assert (place.path / ".git/objects/info/commit-graph").exists()
    assert (place.path / ".git/objects/pack/multi-pack-index").exists()
    place.git("commit-graph", "verify")
    place.git("multi-pack-index", "verify")
    listed = re.findall(r"P (.*)", (place.path / ".git/objects/info/packs").read_text())
    assert sorted(listed) == sorted(
        p.name for p in (place.path / ".git/objects/pack").glob("*.pack")
    )


def test_a_layered_commit_graph_and_a_bitmap_over_packs_become_plain_ones(place: Place) -> None:
    packed_in_parts(place)
    place.leave()
    place.erase()
    assert (place.path / ".git/objects/info/commit-graph").exists()
    assert not list((place.path / ".git/objects/pack").glob("multi-pack-index-*"))
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


def test_a_repository_whose_first_commit_is_empty_is_erased_in_and_keeps_it(
    lab: Lab, size: str
) -> None:
    path = lab.repo("empty", 0)
    lab.git(path, "commit", "-q", "--allow-empty", "-m", "first")
    place = Place(lab, path)
    place.add(WORD, doomed=True)
    place.leave()
    out = place.erase()
    assert out.held == [] and place.holding() == []
    assert place.git("log", "--format=%s", "HEAD") == "first\n"
    place.sound()


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
    place.git(
        "update-index",
        "--add",
        "--cacheinfo",
        f"100644,{place.git('notes', '--ref=mem/team', 'list', place.head).split()[0]},note.txt",
    )
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


HOLDERS = [
    hold_by_branch,
    hold_by_merge_into_main,
    hold_by_annotated_tag,
    hold_by_tag_of_a_blob,
    hold_by_reflog_of_head,
    hold_by_a_detached_worktree,
    hold_by_index,
    hold_by_a_file_in_a_branch,
    hold_by_an_unfinished_merge,
    hold_by_an_unreachable_commit_of_files,
]


@pytest.mark.parametrize("shape", [as_it_is, packed])
@pytest.mark.parametrize("holder", HOLDERS)
def test_what_the_user_still_leads_to_stays_and_its_holder_is_named(
    place: Place, size: str, holder: Callable[[Place], str], shape: Callable[[Place], None]
) -> None:
    name = holder(place)
    if size == "large" and holder in (hold_by_a_file_in_a_branch, hold_by_merge_into_main):
        place.git(
            "update-ref", "refs/notes/elsewhere", REF
        )  # where no notes lead to it, it is not found there
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
    (merge,) = place.erase().held
    assert "which is no part of notes" in merge, (
        "a commit of the user's that nobody reaches is still the user's"
    )
    place.git("prune")
    assert place.erase().held == []
    assert place.holding() == []
    place.sound()


def test_an_object_store_that_is_borrowed_from_is_named_and_left_alone(
    lab: Lab, place: Place
) -> None:
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


@pytest.mark.parametrize("hints", [True, False])
def test_large_notes_are_read_and_large_files_of_the_users_are_not(
    place: Place, size: str, hints: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doomed_objects, "LARGEST", 10)
    (place.path / "huge.bin").write_text("the user's huge file")
    place.git("add", "huge.bin")
    place.git("commit", "-q", "-m", "huge")
    read: list[bytes] = []
    holds = DoomedObjects.holds

    def seen(self: DoomedObjects, blob: bytes, note: bool) -> bool:
        read.append(blob)
        return holds(self, blob, note)

    monkeypatch.setattr(DoomedObjects, "holds", seen)
    place.git("update-ref", "refs/notes/elsewhere", REF)
    place.leave()
    assert "refs/notes/elsewhere" in place.erase(hints).held and place.holding()
    place.git("update-ref", "-d", "refs/notes/elsewhere")
    out = place.erase(hints)
    assert out.held == [] and place.holding() == []
    assert set(out.deleted.values()) == {"commit", "tree", "blob"}
    assert read and not any(b"huge file" in blob for blob in read)
    place.sound()


# What nobody reaches


def test_blobs_that_a_failed_writer_or_a_stock_merge_left_are_found(place: Place) -> None:
    line = next(
        line for _, line in place.notes.lines(place.notes.tip()) if place.doom(line)
    ).decode()
    place.leave()
    place.erase()
    blob = place.git("hash-object", "-w", "--stdin", stdin=f"{line}\n").strip()
    other = place.git("hash-object", "-w", "--stdin", stdin=f"something\n\n  {line}\r\n").strip()
    tree = place.git("mktree", stdin=f"100644 blob {blob}\t{place.head}\n").strip()
    commit = place.git("commit-tree", "-m", "notes: merged", "-p", REF, tree).strip()
    child = place.git(
        "commit-tree",
        "-m",
        "Notes removed by 'git notes remove'",
        "-p",
        commit,
        place.git("mktree", stdin="").strip(),
    ).strip()
    out = place.erase()
    assert {blob, other, tree, commit, child} == set(out.deleted)
    place.sound()


def test_a_commit_whose_tree_a_killed_clean_up_took_keeps_nothing(place: Place) -> None:
    """Where the tree lay in a pack, and its commit did not, the tree goes first."""
    note = place.git("hash-object", "-w", "--stdin", stdin="{}\n").strip()
    tree = place.git(
        "mktree", stdin=f"100644 blob {note}\t{place.git('rev-parse', 'HEAD').strip()}\n"
    ).strip()
    above = place.git("commit-tree", tree, "-p", REF, "-m", "git mem: edit 1 memory").strip()
    (place.path / ".git/objects" / tree[:2] / tree[2:]).unlink()
    place.leave()
    out = place.erase(True)
    assert out.held == [] and above in out.deleted and place.holding() == []


def test_what_only_quotes_the_line_is_not_touched(place: Place) -> None:
    line = next(
        line for _, line in place.notes.lines(place.notes.tip()) if place.doom(line)
    ).decode()
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
        process = subprocess.Popen(
            ["git", "fast-import", "--quiet"],
            cwd=place.path,
            env=place.lab.env,
            stdin=subprocess.PIPE,
        )
        assert process.stdin
        for i in range(40):  # a note that grows, so that it is stored as deltas
            noise = os.urandom(20_000).hex().encode() + b"\n" + content * (i > 3) + b"\n"
            process.stdin.write(b"blob\ndata %d\n%s\n" % (len(noise), noise))
            process.stdin.flush()
        end = time.monotonic() + 60
        while (
            len(sizes := [p.stat().st_size for p in pack.glob("tmp_pack*")]) < n
            or min(sizes) < 400_000
        ):
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
