"""`git mem purge`: the text is nowhere any more, and everything else is as it was."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import sqlite3
import subprocess
import sys
from collections.abc import Callable

import pytest
from conftest import Lab
from erase_world import holding
from purge_world import LONG, TEXT, WORD, Clone, loose, one, packed, packed_with_everything, two

from gitmem.core import record
from gitmem.engine import cache as cache_file
from gitmem.erasure import cache_scrub, erase, purge


@pytest.fixture
def clone(lab: Lab) -> Clone:
    return one(lab)


@pytest.mark.parametrize("shape", [loose, packed, packed_with_everything])
def test_a_purged_text_is_in_no_object_and_no_file(
    clone: Clone, shape: Callable[[Clone], None]
) -> None:
    id = clone.remember(TEXT, "--tag", "customers")
    clone.remember("stays, after")
    assert WORD in clone.mem("recall", "customer called")
    shape(clone)
    assert holding(clone.path, WORD)
    answer = clone.purge(id)
    clone.clean()
    assert clone.bodies() >= {"stays, before", "stays, after"}
    assert answer["status"] == "purged" and answer["held"] == [] and answer["lines"] == 1
    asked = clone.git(
        "cat-file", "--batch-check", stdin="".join(f"{d['id']}\n" for d in answer["deleted"])
    )
    assert asked.count(" missing") == len(answer["deleted"]) > 2
    assert {d["type"] for d in answer["deleted"]} == {"commit", "tree", "blob"}
    assert [
        record.version_of(line.encode())
        for line in clone.lab.lines(clone.path)
        if '"op":"purge"' in line
    ] == answer["tombstones"]


def test_the_tombstone_holds_no_text(clone: Clone) -> None:
    id = clone.remember(TEXT, "--title", f"about {WORD}", "--tag", "customers")
    clone.purge(id)
    (tombstone,) = clone.tombstones()
    assert set(tombstone) == {"v", "op", "id", "at", "n", "author", "lines", "all"}
    assert tombstone["id"] == id and tombstone["all"] is True and len(tombstone["lines"]) == 1


def test_every_version_goes_also_what_was_edited_away_superseded_or_forgotten(clone: Clone) -> None:
    first = clone.remember(TEXT)
    clone.mem("edit", first, "-m", "the customer has another name now")
    clone.mem("supersede", first, "customers have numbers, not names")
    second = clone.remember(f"{WORD}s pay late")
    clone.mem("forget", second, "--reason", f"{WORD} complained")
    assert clone.purge(first)["lines"] == 2
    assert holding(clone.path, WORD)
    assert clone.purge(second)["lines"] == 2
    clone.clean()
    clone.clean("another name")
    assert clone.bodies() == {"stays, before", "customers have numbers, not names"}


def test_concurrent_edits_of_two_clones_go_together(lab: Lab) -> None:
    a, b = two(lab)
    id = a.remember(TEXT)
    for clone in (a, b, a):
        clone.mem("sync")
    for clone, text in ((a, f"{WORD}, says a"), (b, f"{WORD}, says b")):
        clone.mem("edit", id, "-m", text)
    for clone in (a, b, a):
        clone.mem("sync")
    assert a.purge(id)["lines"] == 3
    for clone in (a, b):
        clone.mem("sync")
        clone.clean()


def test_a_shared_memory_leaves_both_refs_and_both_say_so(clone: Clone) -> None:
    id = clone.remember(TEXT, "--private")
    clone.remember("a private thought", "--private")
    clone.mem("share", id)
    clone.purge(id)
    clone.clean()
    assert clone.tombstones() == clone.tombstones("mem/private") != []
    assert clone.bodies() == {"stays, before", "a private thought"}


def test_a_private_purge_tells_the_team_nothing_and_leaves_its_notes_alone(clone: Clone) -> None:
    id = clone.remember(TEXT, "--private")
    tip, log = (
        clone.git("rev-parse", "refs/notes/mem/team"),
        (clone.path / ".git/logs/refs/notes/mem/team").read_text(),
    )
    answer = clone.purge(id)
    clone.clean()
    assert clone.git("rev-parse", "refs/notes/mem/team") == tip
    assert (clone.path / ".git/logs/refs/notes/mem/team").read_text() == log
    assert clone.tombstones() == [] and len(clone.tombstones("mem/private")) == 1
    assert answer["remotes"] == []


def test_what_only_git_still_knows_goes_too(clone: Clone) -> None:
    """Lines that stock git took out of the note, former tips in the reflog, what a failed writer
    left.
    """
    id = clone.remember(TEXT)
    clone.mem("edit", id, "-m", f"{WORD} is the customer")
    line = clone.lab.lines(clone.path)[1]
    clone.git("notes", "--ref=mem/team", "remove", "HEAD")
    clone.remember("stays, after")
    old = clone.git("rev-parse", "refs/notes/mem/team~2").strip()
    clone.git("update-ref", "refs/notes/mem/team", old)
    blob = clone.git(
        "hash-object", "-w", "--stdin", stdin=f"{line}\nof a writer that was too late\n"
    ).strip()
    answer = clone.purge(id)
    clone.clean()
    assert blob in {d["id"] for d in answer["deleted"]}
    assert clone.bodies() == {"stays, before", "stays, after"}


def test_the_users_objects_and_reflogs_are_as_they_were(clone: Clone) -> None:
    id = clone.remember(TEXT)
    clone.git("commit", "-q", "--allow-empty", "-m", "amended away")
    clone.git("commit", "-q", "--amend", "--allow-empty", "-m", "amended")
    (clone.path / "f0.txt").write_text("stashed\n")
    clone.git("stash", "-q")
    clone.git("notes", "add", "-m", "a note of the user's own", "HEAD")
    clone.git("hash-object", "-w", "--stdin", stdin="reached by nothing")
    logs = {
        p: p.read_text()
        for p in (clone.path / ".git/logs").rglob("*")
        if p.is_file() and "mem" not in p.parts
    }
    before, refs = (
        clone.objects(),
        [row for row in clone.git("for-each-ref").splitlines() if "/mem/" not in row],
    )
    gone = {d["id"] for d in clone.purge(id)["deleted"]}
    clone.clean()
    assert before - clone.objects() == gone
    assert {p: p.read_text() for p in logs} == logs
    assert [row for row in clone.git("for-each-ref").splitlines() if "/mem/" not in row] == refs


# Who else has it, or leads to it


def test_others_with_the_same_text_are_named_and_nothing_is_called_gone(clone: Clone) -> None:
    hidden = clone.remember(TEXT)
    clone.mem("forget", hidden)
    longer = clone.remember(f"As a reminder, in full: {TEXT}")
    id = clone.remember(TEXT)
    said = clone.mem("purge", id, "--force")
    for other in (hidden, longer):
        assert f"the same text: {other[:8]}; `git mem purge` with this id takes it too" in said
    assert "other memories have the same text" in said and "no other note holds" not in said
    assert clone.purge(hidden)["same_text"] == [longer]
    assert "no other note holds the text" in clone.mem("purge", longer, "--force")
    clone.clean()
    assert not holding(clone.path, WORD)


def test_a_ref_of_the_users_is_left_alone_named_and_answered_with_1(clone: Clone) -> None:
    id = clone.remember(TEXT)
    clone.git("branch", "backup", "refs/notes/mem/team")
    done = clone.lab.run(clone.path, sys.executable, "-m", "gitmem", "purge", id, "--force")
    assert done.returncode == 1
    assert "the text is still here: refs/heads/backup leads to it" in done.stderr
    assert "no other note holds the text" not in done.stdout
    assert WORD in clone.git("log", "-p", "backup")
    assert clone.lab.run(clone.path, "git", "fsck", "--strict").returncode == 0
    assert WORD not in "".join(clone.bodies())
    clone.git("branch", "-q", "-D", "backup")
    assert clone.purge(id)["deleted"], "the same call finishes"
    clone.clean()
    assert clone.purge(id)["deleted"] == []


def test_the_reflog_of_head_counts_as_the_users(clone: Clone) -> None:
    id = clone.remember(TEXT)
    clone.git("checkout", "-q", "--detach", "refs/notes/mem/team")
    clone.git("checkout", "-q", "main")
    assert clone.purge(id, rc=1)["held"] == ["the reflog of HEAD"]


def test_the_search_of_these_tests_can_fail(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    id = clone.remember(TEXT)
    monkeypatch.setattr(erase, "erase", lambda *args: erase.Report())
    with clone.store() as store:
        assert purge.purge(store, purge.find(store, id)).held == []
    with pytest.raises(AssertionError):
        clone.clean()


# Cache, spool, receipts


def test_files_beside_the_cache_lose_the_lines_that_speak_of_it_and_keep_the_others(
    clone: Clone,
) -> None:
    id = clone.remember(LONG)
    mem = clone.path / ".git/mem"
    (mem / "spool").write_text(
        json.dumps({"prompt": "remember: " + LONG})
        + "\n"
        + json.dumps({"prompt": "another"})
        + "\n"
    )
    (mem / "spool").chmod(0o600)
    (mem / "receipts").mkdir()
    (mem / "receipts/s1").write_text(f"other 1\nshown {id} 2\n")
    (mem / "untouched").write_text("as it was\n")
    before = (mem / "untouched").stat().st_ino
    clone.purge(id)
    clone.clean()
    assert (mem / "spool").read_text() == json.dumps({"prompt": "another"}) + "\n" and (
        mem / "spool"
    ).stat().st_mode & 0o777 == 0o600
    assert (mem / "receipts/s1").read_text() == "other 1\n"
    assert (mem / "untouched").stat().st_ino == before


def test_a_file_with_a_second_name_loses_the_text_too(clone: Clone) -> None:
    id = clone.remember(LONG)
    notes, other = clone.path / ".git/mem/notes.txt", clone.lab.root / "other"
    other.write_text(f"mine\n{json.dumps(LONG)}\n")
    os.link(other, notes)
    clone.purge(id)
    clone.clean()
    assert notes.read_text() == "mine\n" and LONG in json.loads(other.read_text().splitlines()[1])


def test_a_line_kept_in_a_file_goes_where_the_tombstone_names_only_its_version(lab: Lab) -> None:
    a, b = two(lab)
    id = a.remember(TEXT, "--source", "crm:17")
    a.mem("sync")
    b.mem("sync")
    line = next(line for line in lab.lines(b.path) if WORD in line)
    a.purge(id)
    a.mem("sync")
    b.git("fetch", "-q")
    b.git("update-ref", "refs/notes/mem/team", "refs/notes/remotes/origin/mem/team")
    b.mem("recall", "customer", rc=(0, 1))  # the cache knows nothing of the line any more
    (b.path / ".git/mem/kept").write_text(f"anchor\t{line}\nshown {id}\nother\n")
    b.mem("sync")
    b.clean()
    assert (b.path / ".git/mem/kept").read_text() == "other\n"


def test_caches_of_other_versions_are_removed(clone: Clone) -> None:
    id = clone.remember(TEXT)
    clone.mem("recall", "customer")
    mem = clone.path / ".git/mem"
    for name in ("index-1.db", "index-99.db"):
        for suffix in ("", "-wal", "-shm"):
            (mem / (name + suffix)).write_text(TEXT)
    clone.purge(id)
    clone.clean()


def test_a_reader_that_keeps_the_cache_from_being_rewritten_costs_the_cache(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = clone.remember(LONG)
    clone.mem("recall", "warehouses")
    monkeypatch.setattr(cache_scrub, "_PATIENCE", 0.2)
    with clone.store() as store:
        reader = sqlite3.connect(cache_file.path_of(store.repo.mem_dir), isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM line").fetchone()
        assert purge.purge(store, purge.find(store, id)).cache == "removed"
        reader.close()
    clone.clean()
    assert clone.bodies() == {"stays, before"}


# At the door


def test_without_a_terminal_it_refuses_unless_forced(clone: Clone) -> None:
    id = clone.remember(TEXT)
    done = clone.lab.run(clone.path, sys.executable, "-m", "gitmem", "purge", id)
    assert done.returncode == 2 and "--force" in done.stderr
    assert TEXT in clone.bodies()


@pytest.mark.parametrize(("said", "stays"), [("n\n", True), ("\n", True), ("y\n", False)])
def test_on_a_terminal_it_asks(clone: Clone, said: str, stays: bool) -> None:
    id = clone.remember(TEXT)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gitmem", "purge", id[:8]],
        cwd=clone.path,
        env=clone.lab.env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.write(ours, said.encode())
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal is gone with its process
        while part := os.read(ours, 4096):
            shown += part
    assert process.wait() == (1 if stays else 0)
    assert b"cannot be undone" in shown and TEXT.encode() in shown
    assert (TEXT in clone.bodies()) == stays


def test_what_is_not_there_cannot_be_purged(clone: Clone) -> None:
    done = clone.lab.run(clone.path, sys.executable, "-m", "gitmem", "purge", "deadbeef", "--force")
    assert done.returncode == 1 and "no memory 'deadbeef'" in done.stderr


def test_people_are_told_what_went_and_what_is_out_of_reach(clone: Clone) -> None:
    id = clone.remember(TEXT)
    said = clone.mem("purge", id, "--force")
    assert (
        f"purged {id[:8]}: 1 record" in said
        and "tombstone " in said
        and "deleted blob " in said
        and "out of reach" in said
    )
    assert WORD not in said
    assert "purged before: 0 objects" in clone.mem("purge", id, "--force")


# Surroundings


def test_in_a_sha256_repository(lab: Lab) -> None:
    clone = Clone(lab, lab.repo("sha256", 1, "--object-format=sha256"))
    id = clone.remember(TEXT)
    packed_with_everything(clone)
    clone.purge(id)
    clone.clean()


def test_from_a_linked_worktree(clone: Clone) -> None:
    id = clone.remember(TEXT)
    clone.git("worktree", "add", "-q", "-b", "side", "../tree")
    Clone(clone.lab, clone.path.parent / "tree").purge(id)
    clone.clean()


def test_before_the_first_commit(lab: Lab) -> None:
    clone = Clone(lab, lab.repo("empty", 0))
    clone.purge(clone.remember(TEXT))
    clone.clean()


def test_under_another_namespace(lab: Lab) -> None:
    clone = Clone(lab, lab.repo())
    clone.git("config", "mem.ref", "team/notes")
    clone.purge(clone.remember(TEXT))
    clone.clean()


def test_among_many_memories_in_continued_notes(lab: Lab) -> None:
    clone = Clone(lab, lab.repo())
    drafts = "".join(
        json.dumps({"body": f"{n} {LONG.replace(WORD, 'someone')}", "source": f"s{n}"}) + "\n"
        for n in range(300)
    )
    lab.mem(clone.path, "remember", "--jsonl", "-", stdin=drafts)
    id = clone.remember(TEXT)
    lab.mem(
        clone.path,
        "remember",
        "--jsonl",
        "-",
        stdin=drafts.replace('"source": "s', '"source": "t').replace("someone", "nobody"),
    )
    clone.purge(id)
    clone.clean()
    assert len(clone.lines()) == 601


def test_a_pack_that_git_maintenance_named_is_searched_too(lab: Lab) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "the secret name is Zanzibarium")
    lab.git(repo, "gc", "-q")
    for path in (repo / ".git" / "objects" / "pack").glob("pack-*"):
        path.rename(path.with_name(path.name.replace("pack-", "loose-", 1)))
    lab.mem(repo, "purge", lab.json(repo, "list")[0]["id"], "--force")
    assert "Zanzibarium" not in lab.git(repo, "cat-file", "--batch-all-objects", "--batch")
    lab.git(repo, "fsck", "--strict")
