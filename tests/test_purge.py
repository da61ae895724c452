"""`git mem purge`: the text is nowhere any more, and everything else is as it was."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import pty
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import Lab
from test_erase import holding

from gitmem import doctor, sync
from gitmem.core import record
from gitmem.core.errors import MemError
from gitmem.engine import cache as cache_file
from gitmem.erasure import erase, graves, purge, wipe
from gitmem.git import odb
from gitmem.store import Store, open_store
from gitmem.truth.notes import Notes

WORD = "Zanzibarium"
TEXT = f"the customer is called {WORD}"
LONG = f"{WORD} " + "and its forty-two warehouses keep their stock lists in one table, which is why the nightly import takes so long; " * 3


class Clone:
    def __init__(self, lab: Lab, path: pathlib.Path) -> None:
        self.lab, self.path = lab, path

    def remember(self, text: str, *options: str) -> str:
        return str(self.lab.json(self.path, "remember", text, *options)["id"])

    def mem(self, *argv: str, rc: tuple[int, ...] = (0,)) -> str:
        return self.lab.mem(self.path, *argv, rc=rc)

    def purge(self, id: str, rc: int = 0) -> dict[str, Any]:
        return dict(json.loads(self.mem("purge", id, "--force", "--json", rc=(rc,))))

    def git(self, *argv: str, stdin: str | None = None) -> str:
        return self.lab.git(self.path, *argv, stdin=stdin)

    def bodies(self) -> set[str]:
        return {m["body"] for m in self.lab.json(self.path, "list", "--all")}

    def lines(self, ref: str = "mem/team") -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lab.lines(self.path, ref)]

    def tombstones(self, ref: str = "mem/team") -> list[dict[str, Any]]:
        return [line for line in self.lines(ref) if line["op"] == "purge"]

    def objects(self) -> set[str]:
        return set(self.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())

    def clean(self, word: str = WORD) -> None:
        """The text is nowhere below the git directory, git is content, and the next search works."""
        assert holding(self.path, word) == []
        mem = self.path / ".git/mem" if (self.path / ".git").is_dir() else self.path / "mem"
        for file in mem.rglob("*"):
            assert not file.is_file() or word.lower().encode() not in file.read_bytes().lower(), file
        done = self.lab.run(self.path, "git", "fsck", "--strict", "--full")
        assert done.returncode == 0 and "error" not in done.stderr, done.stdout + done.stderr
        assert word not in "".join(self.bodies())

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        opened = open_store(self.lab.env, str(self.path))
        try:
            yield opened
        finally:
            opened.close()


@pytest.fixture
def clone(lab: Lab) -> Clone:
    made = Clone(lab, lab.repo("repo", 2))
    made.remember("stays, before")
    return made


def two(lab: Lab) -> tuple[Clone, Clone]:
    """Two clones of a hub, at one after a sync."""
    lab.repo("seed", 2)
    lab.git(lab.root, "clone", "-q", "--bare", "seed", "hub.git")
    out = []
    for name in "ab":
        lab.git(lab.root, "clone", "-q", "hub.git", name)
        out.append(Clone(lab, lab.root / name))
        out[-1].mem("init")
        out[-1].remember(f"{name} stays")
        out[-1].mem("sync")
    return out[0], out[1]


# The text is gone


def loose(clone: Clone) -> None:
    pass


def packed(clone: Clone) -> None:
    clone.git("gc", "-q")


def packed_with_everything(clone: Clone) -> None:
    clone.git("repack", "-q", "-a", "-d", "-b")
    clone.git("commit-graph", "write", "--reachable", "--changed-paths")
    clone.git("multi-pack-index", "write")
    clone.remember("loose beside the packs")


@pytest.mark.parametrize("shape", [loose, packed, packed_with_everything])
def test_a_purged_text_is_in_no_object_and_no_file(clone: Clone, shape: Callable[[Clone], None]) -> None:
    id = clone.remember(TEXT, "--tag", "customers")
    clone.remember("stays, after")
    assert WORD in clone.mem("recall", "customer called")
    shape(clone)
    assert holding(clone.path, WORD)
    answer = clone.purge(id)
    clone.clean()
    assert clone.bodies() >= {"stays, before", "stays, after"}
    assert answer["status"] == "purged" and answer["held"] == [] and answer["lines"] == 1
    asked = clone.git("cat-file", "--batch-check", stdin="".join(f"{d['id']}\n" for d in answer["deleted"]))
    assert asked.count(" missing") == len(answer["deleted"]) > 2
    assert {d["type"] for d in answer["deleted"]} == {"commit", "tree", "blob"}
    assert [record.version_of(line.encode()) for line in clone.lab.lines(clone.path) if '"op":"purge"' in line] == answer["tombstones"]


def test_the_tombstone_holds_no_text(clone: Clone) -> None:
    id = clone.remember(TEXT, "--title", f"about {WORD}", "--tag", "customers")
    clone.purge(id)
    tombstone, = clone.tombstones()
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
    tip, log = clone.git("rev-parse", "refs/notes/mem/team"), (clone.path / ".git/logs/refs/notes/mem/team").read_text()
    answer = clone.purge(id)
    clone.clean()
    assert clone.git("rev-parse", "refs/notes/mem/team") == tip
    assert (clone.path / ".git/logs/refs/notes/mem/team").read_text() == log
    assert clone.tombstones() == [] and len(clone.tombstones("mem/private")) == 1
    assert answer["remotes"] == []


def test_what_only_git_still_knows_goes_too(clone: Clone) -> None:
    """Lines that stock git took out of the note, former tips in the reflog, what a failed writer left."""
    id = clone.remember(TEXT)
    clone.mem("edit", id, "-m", f"{WORD} is the customer")
    line = clone.lab.lines(clone.path)[1]
    clone.git("notes", "--ref=mem/team", "remove", "HEAD")
    clone.remember("stays, after")
    old = clone.git("rev-parse", "refs/notes/mem/team~2").strip()
    clone.git("update-ref", "refs/notes/mem/team", old)
    blob = clone.git("hash-object", "-w", "--stdin", stdin=f"{line}\nof a writer that was too late\n").strip()
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
    logs = {p: p.read_text() for p in (clone.path / ".git/logs").rglob("*") if p.is_file() and "mem" not in p.parts}
    before, refs = clone.objects(), [row for row in clone.git("for-each-ref").splitlines() if "notes/mem" not in row]
    gone = {d["id"] for d in clone.purge(id)["deleted"]}
    clone.clean()
    assert before - clone.objects() == gone
    assert {p: p.read_text() for p in logs} == logs
    assert [row for row in clone.git("for-each-ref").splitlines() if "notes/mem" not in row] == refs


# It stays gone


def test_the_hub_and_a_clone_that_had_it_are_scrubbed_by_sync(lab: Lab) -> None:
    a, b = two(lab)
    id = a.remember(TEXT)
    a.mem("sync")
    b.mem("sync")
    assert holding(b.path, WORD)
    b.remember("b, meanwhile")
    answer = a.purge(id)
    assert answer["remotes"] == ["origin"]
    a.clean()
    assert "refs/notes/remotes/origin" not in a.git("for-each-ref"), "the tracking copy held it"
    b.mem("sync")
    a.mem("sync")
    a.clean()
    assert WORD not in lab.git(lab.root / "hub.git", "log", "-p", "refs/notes/mem/team")
    b.mem("sync")
    b.clean()
    assert a.bodies() == b.bodies() == {"a stays", "b stays", "b, meanwhile"}
    c = lab.root / "c"
    lab.git(lab.root, "clone", "-q", "hub.git", "c")
    Clone(lab, c).mem("init")
    Clone(lab, c).mem("sync")
    Clone(lab, c).clean()


def test_a_plain_fetch_that_brings_it_back_is_undone_by_the_next_sync(lab: Lab) -> None:
    a, _ = two(lab)
    id = a.remember(TEXT)
    a.mem("sync")
    a.purge(id)
    a.git("fetch", "-q")
    assert holding(a.path, WORD), "the hub had it still"
    a.mem("sync")
    a.clean()


def test_stock_git_merging_an_old_copy_back_does_not_bring_it_back_for_long(lab: Lab) -> None:
    a, b = two(lab)
    id = a.remember(TEXT)
    a.mem("sync")
    b.mem("sync")
    a.purge(id)
    a.mem("sync")
    a.git("fetch", "-q", str(b.path), "refs/notes/mem/team:refs/notes/theirs")
    a.git("notes", "--ref=mem/team", "merge", "-q", "-s", "cat_sort_uniq", "refs/notes/theirs")
    a.git("update-ref", "-d", "refs/notes/theirs")
    assert WORD not in "".join(a.bodies())
    assert holding(a.path, WORD)
    a.mem("sync")
    a.clean()


def test_in_a_bare_clone_without_reflogs_sync_leaves_nothing_either(lab: Lab) -> None:
    a, _ = two(lab)
    lab.git(lab.root, "clone", "-q", "--bare", "hub.git", "bare.git")
    bare = Clone(lab, lab.root / "bare.git")
    bare.git("config", "remote.origin.url", str(lab.root / "hub.git"))
    id = a.remember(TEXT)
    a.mem("sync")
    bare.mem("sync")
    assert holding(bare.path, WORD)
    a.purge(id)
    a.mem("sync")
    bare.mem("sync")
    bare.clean()
    again = bare.remember(TEXT)
    bare.mem("sync")
    bare.purge(again)
    bare.mem("sync")
    bare.clean()


def test_the_same_long_text_is_not_taken_in_again_and_other_words_are(clone: Clone) -> None:
    id = clone.remember(LONG)
    clone.purge(id)
    done = clone.lab.run(clone.path, sys.executable, "-m", "gitmem", "remember", LONG)
    assert done.returncode == 1 and "was purged" in done.stderr
    assert clone.remember(LONG + " Still.") != id


def test_a_short_text_with_a_source_gets_a_tombstone_that_does_not_tell_its_id(lab: Lab) -> None:
    a, b = two(lab)
    id = a.remember(TEXT, "--source", "crm:17")
    a.mem("sync")
    b.mem("sync")
    a.mem("edit", id, "-m", f"{WORD} is the customer")
    a.purge(id)
    a.clean()
    a.clean(id)
    tombstone, = a.tombstones()
    assert tombstone["id"] != id and "all" not in tombstone and len(tombstone["lines"]) == 2
    a.mem("sync")
    b.mem("sync")
    b.clean()
    assert a.remember(TEXT, "--source", "crm:17") == id, "who knows the text may say it again"
    assert TEXT in a.bodies()


# Lines that are no memory


HAND = f"the password of {WORD} is correct-horse"


def by_hand(clone: Clone, line: str = HAND) -> str:
    """A line that stock git writes into a note; its version."""
    clone.git("notes", "--ref=mem/team", "append", "-m", line, "HEAD")
    return record.version_of(line.strip().encode())


def lost(clone: Clone) -> None:
    clone.git("notes", "--ref=mem/team", "remove", "HEAD")


def lost_and_packed(clone: Clone) -> None:
    lost(clone)
    clone.git("gc", "-q")


@pytest.mark.parametrize("line", [HAND, f"  {HAND}\t", f'{{"v":1,"op":"create","id":"ab","body":"{WORD}', f'{{"v":1,"op":"feedback","id":"ab","text":"{WORD}"}}', WORD], ids=str)
@pytest.mark.parametrize("shape", [loose, packed, lost, lost_and_packed])
def test_a_purged_line_that_is_no_memory_is_in_no_object_and_no_file(clone: Clone, shape: Callable[[Clone], None], line: str) -> None:
    version = by_hand(clone, line)
    shape(clone)
    (clone.path / ".git/mem").mkdir(exist_ok=True)
    (clone.path / ".git/mem/kept").write_text(f"anchor\t{line}\nother\n")
    answer = clone.purge(version[:8])
    clone.clean()
    assert answer["version"] == version and answer["id"] is None and answer["lines"] == 1 and answer["deleted"]
    assert (clone.path / ".git/mem/kept").read_text() == "other\n"
    tombstone, = clone.tombstones()
    assert tombstone["lines"] == [version] and set(tombstone) == {"v", "op", "id", "at", "n", "author", "lines"} and len(tombstone["id"]) == 32
    assert clone.bodies() == {"stays, before"}
    assert clone.purge(version[:8])["deleted"] == [], "the same call finds it done"


def test_a_purged_line_leaves_the_hub_and_every_clone_that_syncs(lab: Lab) -> None:
    a, b = two(lab)
    version = by_hand(a)
    a.mem("sync", "--allow-secret")
    b.mem("sync")
    assert holding(b.path, WORD)
    b.remember("b, meanwhile")
    assert a.purge(version)["remotes"] == ["origin"]
    a.clean()
    b.mem("sync")
    a.mem("sync")
    assert WORD not in lab.git(lab.root / "hub.git", "log", "-p", "refs/notes/mem/team")
    b.mem("sync")
    for clone in (a, b):
        clone.clean()
        assert clone.bodies() == {"a stays", "b stays", "b, meanwhile"}
    by_hand(b)
    b.mem("sync")
    b.clean()


def test_a_private_line_that_is_purged_tells_the_team_nothing(clone: Clone) -> None:
    clone.remember("a private thought", "--private")
    clone.git("notes", "--ref=mem/private", "append", "-m", HAND, "HEAD")
    assert clone.purge(record.version_of(HAND.encode())[:8])["remotes"] == []
    clone.clean()
    assert clone.tombstones() == [] and len(clone.tombstones("mem/private")) == 1


def test_the_same_line_in_files_of_the_users_is_none_of_ours(clone: Clone) -> None:
    """A bracket on a line of its own stands in every source file."""
    for line in ("{", HAND):
        (clone.path / "source.c").write_text(f"int main()\n{line}\n}}\n")
        clone.git("add", "source.c")
        clone.git("commit", "-q", "-m", "source")
        dangling = clone.git("hash-object", "-w", "--stdin", stdin=f"void f()\n{line}\n}}\n").strip()
        version = by_hand(clone, line)
        before = clone.objects()
        answer = clone.purge(version[:8])
        assert answer["held"] == [] and answer["deleted"]
        assert before - clone.objects() == {d["id"] for d in answer["deleted"]} and dangling in clone.objects()
        assert line not in clone.lab.lines(clone.path)
        assert clone.lab.run(clone.path, "git", "fsck", "--strict").returncode == 0


def test_a_killed_purge_of_a_line_is_finished_by_the_same_call(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    version = by_hand(clone)
    with monkeypatch.context() as m, clone.store() as store:
        m.setattr(erase, "erase", lambda *args: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            purge.purge(store, purge.find(store, version[:8]))
    assert holding(clone.path, WORD)
    assert clone.purge(version[:8])["deleted"]
    clone.clean()


def test_a_prefix_that_names_several_lines_is_refused_and_a_memory_comes_first(clone: Clone) -> None:
    lines: dict[str, str] = {}
    n = 0
    while record.version_of(b"line %d" % n)[:4] not in lines:
        lines[record.version_of(b"line %d" % n)[:4]] = f"line {n}"
        n += 1
    prefix = record.version_of(b"line %d" % n)[:4]
    for line in (lines[prefix], f"line {n}"):
        by_hand(clone, line)
    done = clone.lab.run(clone.path, sys.executable, "-m", "gitmem", "purge", prefix, "--force")
    assert done.returncode == 1 and f"'{prefix}' is ambiguous" in done.stderr
    id = clone.remember(TEXT)
    while record.version_of(b"line %d" % n)[:4] != id[:4]:
        n += 1
    by_hand(clone, f"line {n}")
    assert clone.purge(id[:4])["id"] == id
    clone.clean()


def test_doctor_and_verify_name_a_line_as_purge_takes_it(clone: Clone) -> None:
    secret = "AKIA" + "Q7RT2WXYZ3LMNOP4"
    version = by_hand(clone, f"aws key {secret}")
    broken = by_hand(clone, '{"v":1,"op":"create","id":"ab')
    told = clone.mem("doctor", rc=(0, 1))
    assert f"line {version[:8]} (" in told and f"(line {broken[:8]})" in told
    assert f"line {version[:8]} [team], which is no memory, looks like it holds a secret" in clone.mem("verify")
    item, = [i for i in clone.lab.json(clone.path, "verify") if i["id"] is None]
    assert item["version"] == version and item["secrets"] and secret not in str(item)
    for name in (version[:8], broken[:8]):
        clone.purge(name)
    clone.clean(secret)
    assert "line " not in clone.mem("verify")


# Who else leads to it


def test_a_ref_of_the_users_is_left_alone_named_and_answered_with_1(clone: Clone) -> None:
    id = clone.remember(TEXT)
    clone.git("branch", "backup", "refs/notes/mem/team")
    done = clone.lab.run(clone.path, sys.executable, "-m", "gitmem", "purge", id, "--force")
    assert done.returncode == 1
    assert "the text is still here: refs/heads/backup leads to it" in done.stderr
    assert "no other holds the text" not in done.stdout
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
    monkeypatch.setattr(erase, "erase", lambda *args: erase.Erased())
    with clone.store() as store:
        assert purge.purge(store, purge.find(store, id)).held == []
    with pytest.raises(AssertionError):
        clone.clean()


# Cache, spool, receipts


def test_files_beside_the_cache_lose_the_lines_that_speak_of_it_and_keep_the_others(clone: Clone) -> None:
    id = clone.remember(LONG)
    mem = clone.path / ".git/mem"
    (mem / "spool").write_text(json.dumps({"prompt": "remember: " + LONG}) + "\n" + json.dumps({"prompt": "another"}) + "\n")
    (mem / "spool").chmod(0o600)
    (mem / "receipts").mkdir()
    (mem / "receipts/s1").write_text(f"other 1\nshown {id} 2\n")
    (mem / "untouched").write_text("as it was\n")
    before = (mem / "untouched").stat().st_ino
    clone.purge(id)
    clone.clean()
    assert (mem / "spool").read_text() == json.dumps({"prompt": "another"}) + "\n" and (mem / "spool").stat().st_mode & 0o777 == 0o600
    assert (mem / "receipts/s1").read_text() == "other 1\n"
    assert (mem / "untouched").stat().st_ino == before


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
        for suffix in ("", "-wal", "-shm", ".sums"):
            (mem / (name + suffix)).write_text(TEXT)
    clone.purge(id)
    clone.clean()


def test_a_reader_that_keeps_the_cache_from_being_rewritten_costs_the_cache(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    id = clone.remember(LONG)
    clone.mem("recall", "warehouses")
    monkeypatch.setattr(wipe, "_PATIENCE", 0.2)
    with clone.store() as store:
        reader = sqlite3.connect(cache_file.path_of(store.repo.mem_dir), isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM line").fetchone()
        assert purge.purge(store, purge.find(store, id)).cache == "removed"
        reader.close()
    clone.clean()
    assert clone.bodies() == {"stays, before"}


# Killed, repeated, interrupted


class Killed(BaseException):
    pass


STEPS: list[tuple[Any, str]] = [(Notes, "replant"), (wipe, "cache"), (erase, "erase"), (purge, "_let_go"), (odb.Odb, "_rewritten"), (odb.Odb, "remove"), (wipe, "files"), (graves, "remember")]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A clone with a shared memory, packed and pushed, and its hub: to be copied."""
    lab = Lab(tmp_path_factory.mktemp("world"))
    a, _ = two(lab)
    a.remember("a private thought", "--private")
    a.mem("share", a.remember(TEXT, "--private"))
    a.git("gc", "-q")
    a.mem("sync")
    return lab.root


def test_a_reflog_that_git_expired_and_that_grew_again_is_not_read_from_its_old_end(lab: Lab) -> None:
    """The old end lies within a row then, or after a row of the same length that brought another tip."""
    one = Clone(lab, lab.repo("one"))
    one.remember("something")
    store = open_store(lab.env, str(one.path))
    log = one.path / ".git" / "logs" / store.settings.team_ref

    def row(old: str, new: str, message: str = "m") -> str:
        return f"{old * 40} {new * 40} Ada <ada@example.org> 1767323045 +0000\t{message}\n"

    begun = row("0", "a") + row("a", "b")
    log.write_text(begun + row("b", "c"))
    assert graves._entries(store, store.settings.team_ref, len(begun), "b" * 40) == {"b" * 40, "c" * 40}
    for rewritten in (row("c", "d") + row("d", "e") + row("e", "f"), row("c", "d", "fetch --quiet: storing head") * 3):
        log.write_text(rewritten)
        assert graves._entries(store, store.settings.team_ref, len(begun), "b" * 40) is None
    store.close()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("finish", ["purge", "sync"])
@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[name for _, name in STEPS])
def test_a_purge_that_was_killed_is_finished_by_the_next_call(lab: Lab, world: pathlib.Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, when: str, finish: str) -> None:
    for part in ("a", "hub.git"):
        shutil.copytree(world / part, lab.root / part)
    a = Clone(lab, lab.root / "a")
    a.git("config", "remote.origin.url", str(lab.root / "hub.git"))
    real = getattr(owner, name)

    def killed(*args: Any, **kw: Any) -> Any:
        if when == "after":
            real(*args, **kw)
        raise Killed

    with monkeypatch.context() as m, a.store() as store:
        target = purge.find(store, str(next(line["id"] for line in a.lines() if WORD in line.get("body", ""))))
        m.setattr(owner, name, killed)
        with pytest.raises(Killed):
            purge.purge(store, target)
    assert lab.run(a.path, "git", "fsck", "--strict").returncode == 0
    if finish == "sync" and (name, when) != ("replant", "before"):  # then nothing had happened yet
        a.mem("sync")
    else:
        assert a.purge(target.id)["status"] == "purged"
    a.clean()
    assert a.bodies() >= {"a stays", "a private thought"}


def test_a_killed_purge_of_a_short_sourced_text_is_finished_by_its_old_id(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    id = clone.remember(TEXT, "--source", "crm:17")
    with monkeypatch.context() as m, clone.store() as store:
        m.setattr(erase, "erase", lambda *args: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            purge.purge(store, purge.find(store, id))
    assert holding(clone.path, WORD)
    assert clone.purge(id)["status"] == "purged"
    clone.clean()
    assert "no memory" in clone.lab.run(clone.path, sys.executable, "-m", "gitmem", "purge", id, "--force").stderr, "nothing tells that id any more"


def test_deleting_the_cache_directory_at_any_moment_costs_a_search_and_no_more(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    id = clone.remember(TEXT)
    with monkeypatch.context() as m, clone.store() as store:
        m.setattr(odb.Odb, "remove", lambda *args: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            purge.purge(store, purge.find(store, id))
    shutil.rmtree(clone.path / ".git/mem")
    with clone.store() as store:
        assert purge.scrub(store) is not None
    clone.clean()


def test_memories_stored_while_a_purge_runs_are_there_afterwards(clone: Clone) -> None:
    ids = [clone.remember(f"{TEXT} {n}") for n in range(3)]
    script = f'for i in $(seq 15); do "{sys.executable}" -m gitmem remember "writer $0 says number $i" >/dev/null || echo lost; done'
    writers = [subprocess.Popen(["sh", "-c", script, w], cwd=clone.path, env=clone.lab.env, stdout=subprocess.PIPE, text=True) for w in "xy"]
    for id in ids:
        clone.purge(id)
    assert [w.communicate()[0] for w in writers] == ["", ""]
    assert len(clone.bodies()) == 31
    with clone.store() as store:
        purge.scrub(store, sure=True)
    clone.clean()


def test_a_disk_that_refuses_the_deletion_is_named_and_the_same_call_goes_on(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    id = clone.remember(TEXT)

    def refuse(*args: Any) -> None:
        raise PermissionError(13, "Permission denied", "objects/12/34")

    with monkeypatch.context() as m, clone.store() as store:
        m.setattr(odb.Odb, "remove", refuse)
        with pytest.raises(MemError, match="cannot delete from 'objects/12/34': Permission denied"):
            purge.purge(store, purge.find(store, id))
    assert WORD not in "".join(clone.bodies())
    clone.purge(id)
    clone.clean()


def test_doctor_says_what_a_killed_purge_left_and_mends_it(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    id = clone.remember(TEXT)
    with monkeypatch.context() as m, clone.store() as store:
        m.setattr(odb.Odb, "remove", lambda *args: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            purge.purge(store, purge.find(store, id))
    with clone.store() as store:
        finding, = [f for f in doctor.examine(store) if "purged may still be" in f.text]
        assert finding.repair and finding.repair().startswith("deleted ")
        assert not [f for f in doctor.examine(store) if "purged may still be" in f.text]
    clone.clean()


def test_a_sync_that_cannot_finish_a_purge_says_so_and_has_synced(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = two(lab)
    a.purge(a.remember(TEXT))
    a.remember("more")
    (a.path / ".git/gc.pid").write_text(f"1 {odb._host()}")
    monkeypatch.setattr(odb, "PATIENCE", 0.1)
    (a.path / ".git/mem/purged").unlink()
    with a.store() as store:
        report = sync.push(store)
    assert len(report.sent) >= 1 and any("clean-up is at work" in remark for remark in report.remarks)
    b.mem("sync")
    assert "more" in b.bodies()


# What a sync pays for it


def test_without_a_purge_nothing_is_searched(clone: Clone) -> None:
    with clone.store() as store:
        assert purge.scrub(store) is None
    assert not (clone.path / ".git/mem/purged").exists()


def searches(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a scrub reads the objects."""
    asked: list[int] = []
    with monkeypatch.context() as m, clone.store() as store:
        m.setattr(erase, "erase", lambda *args: asked.append(1) or erase.Erased())
        purge.scrub(store)
    return bool(asked)


def test_objects_are_searched_once_for_each_purge_and_each_return_of_old_notes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = two(lab)
    id = a.remember(TEXT)
    a.mem("sync")
    b.mem("sync")
    old = b.git("rev-parse", "refs/notes/mem/team").strip()
    a.purge(id)
    a.mem("sync")
    assert not searches(a, monkeypatch)
    a.remember("more")
    a.remember("more of it", "--private")
    a.git("notes", "--ref=mem/team", "append", "-m", "by hand", "HEAD")
    a.mem("sync")
    assert not searches(a, monkeypatch)
    b.mem("sync")
    b.clean()
    assert not searches(b, monkeypatch)
    c = Clone(lab, lab.root / "c")
    lab.git(lab.root, "init", "-q", "-b", "main", "c")
    c.git("remote", "add", "origin", f"ext::git %s {lab.root / 'hub.git'}")  # no path, which would share all objects
    c.git("config", "protocol.ext.allow", "always")
    c.git("fetch", "-q")
    c.git("checkout", "-q", "main")
    c.mem("init")
    c.mem("sync")
    assert not searches(c, monkeypatch), "a clone that never had it need not look"
    shutil.rmtree(a.path / ".git/mem")
    assert searches(a, monkeypatch)
    lines = b.git("rev-parse", "refs/notes/mem/team").strip()
    assert old != lines
    tree = c.git("mktree", stdin=f"100644 blob {c.git('hash-object', '-w', '--stdin', stdin=json.dumps({'v': 1, 'op': 'create', 'id': id, 'body': WORD})).strip()}\t{c.git('rev-parse', 'HEAD').strip()}\n").strip()
    c.git("update-ref", "refs/notes/remotes/origin/mem/team", c.git("commit-tree", "-m", "old notes", tree).strip())
    assert searches(c, monkeypatch)


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
    process = subprocess.Popen([sys.executable, "-m", "gitmem", "purge", id[:8]], cwd=clone.path, env=clone.lab.env, stdin=theirs, stdout=theirs, stderr=theirs)
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
    assert f"purged {id[:8]}: 1 record" in said and "tombstone " in said and "deleted blob " in said and "out of reach" in said
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
    drafts = "".join(json.dumps({"body": f"{n} {LONG.replace(WORD, 'someone')}", "source": f"s{n}"}) + "\n" for n in range(300))
    lab.mem(clone.path, "remember", "--jsonl", "-", stdin=drafts)
    id = clone.remember(TEXT)
    lab.mem(clone.path, "remember", "--jsonl", "-", stdin=drafts.replace('"source": "s', '"source": "t').replace("someone", "nobody"))
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


@pytest.mark.parametrize(("owner", "name"), [(wipe, "cache"), (erase, "erase")])
def test_who_finishes_a_killed_purge_is_told_what_came_back(clone: Clone, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """The text is in objects only by then, and so is what it hid."""
    old = clone.remember(f"{LONG} and more")
    clone.mem("supersede", old, "-m", LONG)
    new = next(line["id"] for line in clone.lines() if line.get("supersedes"))
    other = clone.remember("something else about Zanzibarium's door")
    with monkeypatch.context() as m, clone.store() as store:
        m.setattr(owner, name, lambda *args: (_ for _ in ()).throw(Killed()))
        target = purge.find(store, new)
        first = [(found.memory.id, alike) for found, alike in target.back]
        with pytest.raises(Killed):
            purge.purge(store, target)
    said = clone.purge(new)
    assert [(m["id"], m["alike"]) for m in said["comes_back"]] == first == [(old, True)] and said["status"] == "purged"
    assert "comes back" not in clone.mem("purge", new, "--force") and f"{LONG} and more" in clone.bodies()
    assert other in {line["id"] for line in clone.lines()}
