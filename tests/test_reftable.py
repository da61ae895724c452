"""Repositories whose refs are in a reftable: one lock for all refs, no file for a ref.

Needs a git that knows it: `tools/fetch_git.sh` builds one, `tools/test.sh` runs this file with it.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import pytest
from conftest import Lab
from notes_world import ADA, REF, opened

from gitmem.core.errors import MemError
from gitmem.erasure import tombstones
from gitmem.git import reflock
from gitmem.notes import note_store, ref_repair
from gitmem.store import open_store

PRIVATE = "refs/notes/mem/private"


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    probe = lab.run(lab.root, "git", "init", "-q", "--ref-format=reftable", "probe")
    if probe.returncode:
        pytest.skip("this git knows no reftable")
    path = lab.repo("repo", 1, "--ref-format=reftable")
    lab.mem(path, "remember", "the first invoice")
    return path


@pytest.fixture
def lock(repo: pathlib.Path) -> pathlib.Path:
    return repo / ".git" / "reftable" / "tables.list.lock"


@pytest.fixture
def store(repo: pathlib.Path) -> Iterator[note_store.Notes]:
    at, store = opened(repo)
    yield store
    at.git.close()


def test_the_lock_of_a_killed_writer_goes(
    lock: pathlib.Path, store: note_store.Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflock, "STALE", 0.0)
    lock.write_text("one.ref\n")
    tip = store.append([("", b'{"a line of nobody"}')], "git mem: x", ADA)
    assert tip and not lock.exists()


def test_a_fresh_lock_stays_and_is_named(
    lab: Lab,
    repo: pathlib.Path,
    lock: pathlib.Path,
    store: note_store.Notes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflock, "STALE", 0.2)
    monkeypatch.setattr(reflock, "_is_old", lambda path: False)
    lock.touch()
    with pytest.raises(MemError, match=r"locked by .*reftable/tables\.list\.lock"):
        store.append([("", b"x")], "m", ADA)
    with pytest.raises(MemError, match=r"locked by .*reftable/tables\.list\.lock"):
        reflock.delete(store.git, REF)
    assert lock.exists()
    assert "the first invoice" in lab.mem(repo, "list"), "reading needs no lock"


def test_a_fetch_that_meets_the_lock_names_it(
    lab: Lab, repo: pathlib.Path, lock: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflock, "STALE", 0.2)
    monkeypatch.setattr(reflock, "_is_old", lambda path: False)
    lab.git(lab.root, "clone", "-q", "--bare", str(repo), "hub.git")
    lab.git(lab.root / "hub.git", "fetch", "-q", str(repo), f"{REF}:{REF}")
    lab.git(repo, "remote", "add", "origin", str(lab.root / "hub.git"))
    lock.touch()
    from gitmem.git.remote import Remote

    opened_store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
    try:
        with pytest.raises(MemError, match=r"tables\.list\.lock"):
            Remote(opened_store.repo, "origin", REF).fetch()
    finally:
        opened_store.close()


def test_doctor_names_an_old_lock_and_removes_it(
    lab: Lab, repo: pathlib.Path, lock: pathlib.Path
) -> None:
    lock.touch()
    assert str(lock) not in lab.mem(repo, "doctor", rc=(0, 1)), "git may hold it just now"
    past = lock.stat().st_mtime - 60
    os.utime(lock, (past, past))
    assert str(lock) in lab.mem(repo, "doctor", rc=(1,))
    lab.mem(repo, "doctor", "--repair", rc=(0, 1))
    assert not lock.exists()


def test_a_ref_that_moved_away_and_back_is_seen(
    lab: Lab, repo: pathlib.Path, store: note_store.Notes
) -> None:
    before, size = store.tip(), store.reflog_size()
    assert size
    lab.git(repo, "notes", "--ref=mem/team", "append", "-m", "a line of stock git", "HEAD")
    lab.git(repo, "update-ref", REF, before)
    assert store.tip() == before and store.reflog_size() != size


def test_a_ref_whose_newest_objects_are_gone_goes_on_from_its_last_whole_state(
    lab: Lab, repo: pathlib.Path, store: note_store.Notes
) -> None:
    whole = store.tip()
    held = store.append([("", b'{"a line of nobody"}')], "git mem: x", ADA)
    store.git.close()
    (repo / ".git" / "objects" / held[:2] / held[2:]).unlink()
    assert ref_repair.mend(store.git, REF)
    assert lab.git(repo, "rev-parse", REF).strip() == whole


def test_a_purged_text_in_a_former_tip_is_looked_for(lab: Lab, repo: pathlib.Path) -> None:
    """Of stock git's doings only the reflog tells: the tip is clean before and after."""
    id = lab.json(repo, "remember", "a text that has to go")["id"]
    dirty = lab.git(repo, "rev-parse", REF).strip()
    lab.git(repo, "clone", "-q", "--no-local", ".", "../other")
    lab.git(lab.root / "other", "fetch", "-q", "origin", f"{REF}:{REF}")
    lab.mem(repo, "purge", id, "--force")
    clean = lab.git(repo, "rev-parse", REF).strip()
    lab.git(repo, "fetch", "-q", "../other", f"+{REF}:{REF}")
    assert lab.git(repo, "rev-parse", REF).strip() == dirty
    lab.git(repo, "update-ref", REF, clean)
    store = open_store({"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(repo))
    try:
        from gitmem.core.fold import Tombstones

        assert not tombstones.settled(store, Tombstones(tombstones.purges(store)), note=False)
    finally:
        store.close()


@pytest.mark.parametrize("expired", [False, True])
def test_a_young_ref_of_which_every_state_lost_an_object_goes_on_where_that_is_all(
    lab: Lab, repo: pathlib.Path, expired: bool
) -> None:
    if expired:
        lab.git(repo, "reflog", "expire", "--expire=all", REF)
    lab.mem(repo, "remember", "the second invoice")
    states = [lab.git(repo, "ls-tree", "-r", state) for state in (REF, f"{REF}~1")]
    for row in "".join(states).splitlines():
        id = row.split()[2]
        (repo / ".git" / "objects" / id[:2] / id[2:]).unlink()
    done = lab.run(repo, "git-mem", "remember", "the third invoice")
    assert done.returncode == int(expired)
    if expired:
        lab.mem(repo, "doctor", "--repair", rc=(0, 1))
        lab.mem(repo, "remember", "the third invoice")
    assert len(lab.json(repo, "list")) == 3
