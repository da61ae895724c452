"""Deleting objects by name, killed at any step and beside others at work, and in repositories of
every kind.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Lab
from erase_world import (
    REF,
    WORD,
    Place,
    as_it_is,
    bodies,
    holding,
    one_doomed,
    packed,
    packed_in_parts,
    packed_with_everything,
)

from gitmem.core.errors import MemError
from gitmem.erasure import erase
from gitmem.git import odb, repository


@pytest.fixture
def place(lab: Lab) -> Place:
    return one_doomed(lab)


class Killed(Exception):
    pass


@pytest.mark.parametrize("shape", [as_it_is, packed_in_parts])
def test_a_kill_at_any_step_leaves_every_other_object_and_running_again_finishes(
    lab: Lab, place: Place, monkeypatch: pytest.MonkeyPatch, shape: Callable[[Place], None]
) -> None:
    steps = 0
    shape(place)
    ids = place.ids
    place.leave()
    while True:
        place = Place(
            lab, pathlib.Path(shutil.copytree(lab.root / "repo", lab.root / f"repo{steps}"))
        )
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
            for module, name in (
                (odb.os, "unlink"),
                (odb.os, "replace"),
                (odb.Odb, "_rewritten"),
                (odb.Odb, "_write_derived"),
                (odb.Odb, "_drop_derived"),
            ):
                m.setattr(module, name, counted(getattr(module, name)))
            try:
                gone = set(place.erase().deleted)
                finished = True
            except Killed:
                finished = False
        for lock in place.path.glob(".git/gc.pid*"):
            # the exception, unlike a kill, let the lock's own unlink fail: git would find the
            # process dead
            lock.unlink()
        assert {"stays, before", "stays, after"} <= bodies(place)
        done = lab.run(
            place.path, "git", "fsck", "--strict", "--connectivity-only", "--no-dangling"
        )
        assert done.returncode == 0, done.stdout + done.stderr
        gone |= set(place.erase().deleted)
        assert place.holding() == []
        assert before - place.objects() >= gone and not place.objects() - before
        place.sound()
        if finished:
            break
        steps += 1
    assert steps > 8


def test_a_ref_that_comes_to_hold_it_at_the_last_moment_stops_the_deletion(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert (
        place.objects() == before
        and len(list((place.path / ".git/objects/pack").glob("*.pack"))) == 1
    )
    place.sound()


def test_objects_that_a_writer_leaves_meanwhile_are_found_too(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = next(
        line for _, line in place.notes.lines(place.notes.tip()) if place.doom(line)
    ).decode()
    place.leave()
    real, late = odb.Odb.remove, []

    def remove(self: odb.Odb, *args: Any) -> Any:
        if not late:
            late.append(
                place.git(
                    "hash-object",
                    "-w",
                    "--stdin",
                    stdin=f"{line}\nwritten by one that had read the old notes\n",
                ).strip()
            )
        return real(self, *args)

    monkeypatch.setattr(odb.Odb, "remove", remove)
    out = place.erase()
    assert late[0] in out.deleted
    assert place.holding() == []


def test_it_waits_for_a_clean_up_of_git_and_keeps_others_from_starting(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.leave()
    sleeper = subprocess.Popen(["sleep", "60"])
    pid = place.path / ".git/gc.pid"
    pid.write_text(f"{sleeper.pid} {socket.gethostname()}")
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
    reader = subprocess.Popen(
        ["git", "cat-file", "--batch-check"],
        cwd=place.path,
        env=place.lab.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert reader.stdin and reader.stdout
    print(place.head, file=reader.stdin, flush=True)
    reader.stdout.readline()
    gone = place.erase().deleted
    left = [id for id in ids if id not in gone]
    answer, _ = reader.communicate("".join(id + "\n" for id in left))
    assert "missing" not in answer and len(answer.splitlines()) == len(left)


def test_the_proof_fails_where_an_object_is_left(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    inside = repository.open_repo(str(place.path.parent / "tree"))
    assert erase.erase(inside, place.doom).held == []
    assert place.holding() == []
    place.sound()


def test_in_a_partial_clone_nothing_is_fetched_and_promises_stay(lab: Lab, place: Place) -> None:
    place.git("config", "uploadpack.allowFilter", "true")
    place.git("config", "uploadpack.allowAnySHA1InWant", "true")
    lab.git(
        lab.root,
        "clone",
        "-q",
        "--no-checkout",
        "--filter=blob:none",
        f"file://{place.path}",
        "partial",
    )
    partial = Place(lab, lab.root / "partial")
    partial.ids = place.ids
    lab.git(partial.path, "fetch", "-q", "origin", f"{REF}:{REF}")
    assert bodies(partial) == {"stays, before", "stays, after", f"the customer is called {WORD}"}, (
        "the notes were fetched when they were read"
    )
    missing = lab.git(partial.path, "rev-list", "--objects", "--missing=print", "--all").count("?")
    assert missing
    partial.leave()
    lab.git(partial.path, "config", "remote.origin.url", "file:///nowhere")
    out = partial.erase()
    assert out.held == [] and out.deleted
    assert holding(partial.path, WORD) == []
    assert list((partial.path / ".git/objects/pack").glob("*.promisor"))
    assert not [
        p
        for p in (partial.path / ".git/objects/pack").glob("*.promisor")
        if not p.with_suffix(".pack").exists()
    ]
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
    assert b"".join(odb.inflated(str(tmp_path / "tmp_obj_x"), 20)).endswith(b'cdef"}')
    (tmp_path / "torn").write_bytes(blob[:-12])
    assert list(odb.inflated(str(tmp_path / "torn"), 20))
