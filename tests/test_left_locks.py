"""Locks of killed writers go, locks that may be somebody else's stay, and nobody waits for ever."""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Iterator

import pytest
from conftest import Lab
from crowd import Crowd, valid
from notes_world import ADA, REF, opened

from gitmem.core.errors import GitFailed, MemError
from gitmem.git import reflock
from gitmem.notes import note_store


@pytest.fixture
def locked(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[pathlib.Path, pathlib.Path, note_store.Notes]]:
    """(repository, path of the ref's lock, store) with one memory; a lock counts as left behind at
    once.
    """
    monkeypatch.setattr(reflock, "STALE", 0.0)
    path = lab.repo()
    lab.mem(path, "remember", "the first invoice")
    repo, store = opened(path)
    yield path, path / ".git" / f"{REF}.lock", store
    repo.git.close()


def test_a_killed_writers_lock_goes(
    locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes],
) -> None:
    _, lock, store = locked
    tip = store.tip()
    gone = "1234567890" * 4  # a commit that `gc` has taken since
    for content in ("", tip[:17], tip, tip + "\n", "\0" * 41, gone + "\n"):
        lock.write_text(content)
        store.append([("", b'{"a line of nobody"}')], "git mem: x", ADA)
        assert not lock.exists()


def test_the_lock_of_a_reflog_goes_whatever_it_holds(
    locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes],
) -> None:
    path, _, store = locked
    log = path / ".git" / "logs" / f"{REF}.lock"
    log.write_text("what is kept of it\n")
    assert reflock.recover(store.git, REF) and not log.exists()


def test_a_lock_that_may_be_somebody_elses_stays(
    lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes]
) -> None:
    path, lock, store = locked
    words = ("commit-tree", "-m", "Notes added by 'git notes add'", f"{REF}^{{tree}}")
    stock = lab.git(path, *words).strip()

    def refused() -> None:
        with pytest.raises(MemError, match=r"locked by .*team\.lock"):
            store.append([("", b"x")], "m", ADA)
        assert lock.exists() or lock.is_symlink()
        lock.unlink()

    lock.write_text(stock)  # a commit of stock git
    refused()
    lock.write_text("who knows\n")
    refused()
    lock.symlink_to(path / "f0.txt")
    refused()


def test_a_fresh_lock_stays(
    locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, lock, store = locked
    monkeypatch.setattr(reflock, "STALE", 60.0)
    lock.touch()
    assert not reflock.recover(store.git, REF) and lock.exists()


def test_what_a_killed_writer_left_at_the_packed_refs_goes(
    lab: Lab,
    locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All refs share them: as long as the lock stands nobody can delete a branch, and
    `packed-refs.new` stops them also after the lock was removed by hand.
    """
    path, _, store = locked
    packed, new = path / ".git" / "packed-refs.lock", path / ".git" / "packed-refs.new"
    lab.git(path, "branch", "old")
    lab.git(path, "pack-refs", "--all")
    before = (path / ".git" / "packed-refs").read_text()
    for files in ((packed,), (packed, new), (new,)):
        for file in files:
            file.write_text("")
        with pytest.raises(GitFailed):
            store.git.run("-c", "core.packedRefsTimeout=0", "update-ref", "-d", "refs/heads/old")
        reflock.delete(store.git, REF)
        assert not packed.exists() and not new.exists()
        lab.git(path, "update-ref", REF, lab.git(path, "rev-parse", "HEAD").strip())
        lab.git(path, "pack-refs", "--all")
    assert (path / ".git" / "packed-refs").read_text().count("refs/heads/") == before.count(
        "refs/heads/"
    )
    monkeypatch.setattr(reflock, "STALE", 60.0)
    for file in (packed, new):
        file.write_text("")
    os.utime(packed, (1, 1))
    assert not reflock.recover(store.git, REF), "somebody writes the file, under an old lock"
    assert packed.exists() and new.exists()


def test_a_lock_that_changes_hands_while_it_is_judged_stays(
    locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, lock, store = locked
    lock.write_text("")
    real = reflock.fcntl.flock

    def flock(fd: int, how: int) -> None:
        real(fd, how)
        (path / "new").write_text("another process has it now")
        os.rename(path / "new", lock)

    monkeypatch.setattr(reflock.fcntl, "flock", flock)
    assert not reflock.recover(store.git, REF)
    assert lock.read_text() == "another process has it now"


def test_several_writers_behind_a_killed_ones_lock_all_get_through(
    lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes]
) -> None:
    path, lock, _ = locked
    lock.touch()
    past = time.time() - 8
    os.utime(lock, (past, past))
    crowd = Crowd(lab, path)
    # each waits until the lock is ten seconds old
    crowd.go([crowd.writer(name, path) for name in "abc"], [])
    valid(lab, path, crowd.acknowledged)


def test_the_lock_of_a_dead_purge_or_gc_stops_no_purge(lab: Lab) -> None:
    repo = lab.repo()
    id = lab.json(repo, "remember", "the first invoice")["id"]
    lock = repo / ".git" / "gc.pid.lock"
    lock.touch()
    os.utime(lock, (1_700_000_000, 1_700_000_000))
    lab.mem(repo, "purge", id, "--force")
    assert not lock.exists() and not list((repo / ".git").glob("gc.pid*"))
