"""Locks that stay: those of writers of ours that died go, those that may be somebody else's stay,
and nobody waits for ever.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
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


def dead_writer(path: pathlib.Path) -> None:
    """What a writer leaves that is killed while git holds the lock."""
    code = (
        "import os, signal\nfrom gitmem.git import reflock\nwith"
        f" reflock.writing({str(path / '.git')!r}, {REF!r}):\n   "
        f" open({str(path / '.git' / (REF + '.lock'))!r}, 'a').close()\n    os.kill(os.getpid(),"
        " signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_dead_writers_lock_goes(
    lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes]
) -> None:
    path, lock, store = locked
    tip = store.tip()
    gone = "1234567890" * 4  # a commit that `gc` has taken since
    for content in ("", tip[:17], tip, tip + "\n", "\0" * 41, gone + "\n"):
        lock.unlink(missing_ok=True)
        dead_writer(path)
        lock.write_text(content)
        store.append([("", b'{"a line of nobody"}')], "git mem: x", ADA)
        assert not lock.exists()
    assert not (path / ".git" / "mem-stale.lock").exists()
    assert all(p.stat().st_size == 0 for p in (path / ".git").glob("git-mem-writing-*"))


def test_a_dead_writers_lock_goes_also_where_the_cache_was_deleted(
    lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes]
) -> None:
    path, lock, store = locked
    dead_writer(path)
    shutil.rmtree(path / ".git" / "mem", ignore_errors=True)
    store.append([("", b'{"a line of nobody"}')], "git mem: x", ADA)
    assert not lock.exists()


def test_a_writer_that_moves_nothing_leaves_the_note_of_the_dead(
    lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes]
) -> None:
    """A purge first makes its commit and then moves the ref: the success of the first says nothing
    about a lock.
    """
    path, lock, store = locked
    dead_writer(path)
    status, *_ = reflock.run(store.git, str(path / ".git"), REF, ["version"])
    assert status == 0 and lock.exists()
    assert reflock.recover(store.git, REF) and not lock.exists()


def test_a_lock_that_may_be_somebody_elses_stays(
    lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes]
) -> None:
    path, lock, store = locked
    stock = lab.git(
        path, "commit-tree", "-m", "Notes added by 'git notes add'", f"{REF}^{{tree}}"
    ).strip()

    def refused() -> None:
        with pytest.raises(MemError, match=r"locked by .*team\.lock"):
            store.append([("", b"x")], "m", ADA)
        assert lock.exists()
        lock.unlink()

    lock.write_text("")  # no writer of ours died
    refused()
    dead_writer(path)
    lock.write_text(stock)  # one did, but this is a commit of stock git
    refused()
    dead_writer(path)
    lock.unlink()
    lock.symlink_to(path / "f0.txt")
    refused()
    dead_writer(path)
    os.utime(lock, (time.time() - 60, time.time() - 60))  # it was there before that writer began
    refused()
    (path / ".git" / "git-mem-writing-mem-team").write_text("who knows\n")
    lock.write_text("")
    refused()


def test_a_fresh_lock_stays(
    lab: Lab,
    locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, lock, store = locked
    monkeypatch.setattr(reflock, "STALE", 60.0)
    dead_writer(path)
    assert not reflock.recover(store.git, REF) and lock.exists()


def test_a_living_writers_lock_stays(
    lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes]
) -> None:
    """Stopped in the middle, as a paused container is: its flock says that it lives, also after its
    parent died.
    """
    path, lock, store = locked
    dead_writer(path)
    code = (
        "import subprocess\nfrom gitmem.git import reflock\nwith"
        f" reflock.writing({str(path / '.git')!r}, {REF!r}) as claim:\n    p ="
        " subprocess.Popen(['sleep', '60'], pass_fds=claim.fds, stdout=subprocess.DEVNULL)\n   "
        " print(p.pid, flush=True)\n    import os; os._exit(0)"
    )
    child = int(
        subprocess.run(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    )
    try:
        assert not reflock.recover(store.git, REF) and lock.exists()
    finally:
        os.kill(child, signal.SIGKILL)
    end = time.monotonic() + 60
    while not reflock.recover(store.git, REF) and time.monotonic() < end:
        time.sleep(0.01)
    assert not lock.exists()


def test_what_a_dead_writer_left_at_the_packed_refs_goes(
    lab: Lab,
    locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All refs share them: as long as the lock stands nobody can delete a branch, and
    `packed-refs.new` stops them also after the lock was removed by hand.
    """
    path, lock, store = locked
    packed, new = path / ".git" / "packed-refs.lock", path / ".git" / "packed-refs.new"
    lab.git(path, "branch", "old")
    lab.git(path, "pack-refs", "--all")
    before = (path / ".git" / "packed-refs").read_text()

    def left(dead: bool, *files: pathlib.Path) -> None:
        if dead:
            lock.parent.mkdir(parents=True, exist_ok=True)  # `pack-refs` took it
            dead_writer(path)
        for file in files:
            file.write_text("")

    left(False, packed)
    assert not reflock.recover(store.git, REF) and packed.exists()  # no writer of ours died
    left(True)
    assert (
        reflock.recover(store.git, REF) and packed.exists() and not lock.exists()
    )  # one did, but another may hold this one for that long
    monkeypatch.setattr(reflock, "SHARED", 0.0)
    for files in ((packed,), (packed, new), (new,)):
        left(True, *files)
        with pytest.raises(GitFailed):
            store.git.run("update-ref", "-d", "refs/heads/old")
        reflock.delete(store.git, REF)
        assert not packed.exists() and not new.exists()
        lab.git(path, "update-ref", REF, lab.git(path, "rev-parse", "HEAD").strip())
        lab.git(path, "pack-refs", "--all")
    assert (path / ".git" / "packed-refs").read_text().count("refs/heads/") == before.count(
        "refs/heads/"
    )
    left(False, new)  # whoever left it: nobody writes it without the lock
    assert reflock.recover(store.git, REF) and not new.exists() and not packed.exists()
    left(False, packed, new)
    assert not reflock.recover(store.git, REF) and new.exists()


def test_a_look_aside_leaves_one_note_for_all(lab: Lab) -> None:
    """`push --dry-run` fetches to a ref with the number of its process: not one empty file for each
    in the repository.
    """
    hub = lab.root / "hub.git"
    lab.git(lab.root, "init", "-q", "--bare", str(hub))
    path = lab.repo()
    lab.git(path, "remote", "add", "origin", str(hub))
    lab.mem(path, "remember", "the first invoice")
    for _ in range(3):
        lab.mem(path, "push", "--dry-run")
    assert len(list((path / ".git").glob("git-mem-writing-*"))) <= 2


def test_a_lock_older_than_the_machines_start_goes(
    lab: Lab,
    locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, lock, store = locked
    lock.write_text("")
    assert not reflock.recover(store.git, REF)
    monkeypatch.setattr(reflock, "_boot", lambda: time.time() + 60)
    assert reflock.recover(store.git, REF) and not lock.exists()


def test_a_lock_that_changes_hands_while_it_is_judged_goes_back(
    lab: Lab,
    locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, lock, store = locked
    dead_writer(path)
    real = os.rename

    def rename(a: str, b: str) -> None:
        (path / "new").write_text("another process has it now")
        real(path / "new", lock)
        real(a, b)

    monkeypatch.setattr(reflock.os, "rename", rename)
    assert not reflock.recover(store.git, REF)
    assert lock.read_text() == "another process has it now"


def test_several_writers_behind_a_dead_ones_lock_all_get_through(
    lab: Lab, locked: tuple[pathlib.Path, pathlib.Path, note_store.Notes]
) -> None:
    path, lock, _ = locked
    dead_writer(path)
    os.utime(lock)
    crowd = Crowd(lab, path)
    crowd.go(
        [crowd.writer(name, path) for name in "abc"], []
    )  # each waits until the lock is two seconds old
    valid(lab, path, crowd.acknowledged)


def test_where_no_note_can_be_kept_writing_goes_on(lab: Lab) -> None:
    path = lab.repo()
    repo, store = opened(path)
    (path / ".git" / "mem").write_text("a file in its place")
    store.append([(repo.head(), b"x")], "m", ADA)
    assert not reflock.recover(repo.git, REF)
    with contextlib.suppress(OSError):
        os.unlink(path / ".git" / "mem")
    repo.git.close()


def test_the_lock_of_a_dead_purge_or_gc_stops_no_purge(lab: Lab) -> None:
    repo = lab.repo()
    id = lab.json(repo, "remember", "the first invoice")["id"]
    dead = subprocess.Popen(["true"])
    dead.wait()
    lock = repo / ".git" / "gc.pid.lock"
    lock.write_text(f"{dead.pid} {socket.gethostname()}")
    lab.mem(repo, "purge", id, "--force")
    assert not lock.exists() and not list((repo / ".git").glob("gc.pid*"))
