"""A purge that is killed, hindered or overtaken is finished by the next call."""

from __future__ import annotations

import itertools
import pathlib
import shutil
import socket
import subprocess
import sys
from typing import Any

import pytest
from conftest import Lab, sampled
from erase_world import holding
from purge_world import LONG, TEXT, WORD, Clone, Killed, one, two

from gitmem import doctor, sync
from gitmem.core.errors import MemError
from gitmem.core.fold import Tombstones
from gitmem.erasure import cache_scrub, erase, purge, tombstones
from gitmem.git import odb
from gitmem.notes.note_store import Notes


@pytest.fixture
def clone(lab: Lab) -> Clone:
    return one(lab)


STEPS: dict[str, Any] = {
    "replant": Notes,
    "cache": cache_scrub,
    "erase": erase,
    "_let_go": purge,
    "_rewritten": odb.Odb,
    "remove": odb.Odb,
    "files": cache_scrub,
    "remember": tombstones,
}


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


def test_after_git_expired_entries_of_a_reflog_objects_are_searched(clone: Clone) -> None:
    clone.purge(clone.remember("something that has to go"))
    with clone.store() as store:
        log = clone.path / ".git" / "logs" / store.settings.team_ref
        stones = Tombstones(tombstones.purges(store))
        assert tombstones.settled(store, stones)
        clone.remember("more")
        clone.remember("and more")
        assert tombstones.settled(store, stones, note=False)
        log.write_bytes(log.read_bytes().splitlines(keepends=True)[-1] * 9)
        assert not tombstones.settled(store, stones, note=False)


@pytest.mark.parametrize(
    ("name", "finish", "when"),
    sampled(itertools.product(STEPS, ["purge", "sync"], ["before", "after"]), 3),
)
def test_a_purge_that_was_killed_is_finished_by_the_next_call(
    lab: Lab,
    world: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    finish: str,
    when: str,
) -> None:
    owner = STEPS[name]
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
        target = purge.find(
            store, str(next(line["id"] for line in a.lines() if WORD in line.get("body", "")))
        )
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


def test_a_killed_purge_of_a_short_sourced_text_is_finished_by_its_old_id(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = clone.remember(TEXT, "--source", "crm:17")
    with monkeypatch.context() as m, clone.store() as store:
        m.setattr(erase, "erase", lambda *args: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            purge.purge(store, purge.find(store, id))
    assert holding(clone.path, WORD)
    assert clone.purge(id)["status"] == "purged"
    clone.clean()
    assert (
        "no memory"
        in clone.lab.run(clone.path, sys.executable, "-m", "gitmem", "purge", id, "--force").stderr
    ), "nothing tells that id any more"


def test_deleting_the_cache_directory_at_any_moment_costs_a_search_and_no_more(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    script = (
        f'for i in $(seq 6); do "{sys.executable}" -m gitmem remember "writer $0 says number $i"'
        " >/dev/null || echo lost; done"
    )
    writers = [
        subprocess.Popen(
            ["sh", "-c", script, w],
            cwd=clone.path,
            env=clone.lab.env,
            stdout=subprocess.PIPE,
            text=True,
        )
        for w in "xy"
    ]
    for id in ids:
        clone.purge(id)
    assert [w.communicate()[0] for w in writers] == ["", ""]
    assert len(clone.bodies()) == 13
    with clone.store() as store:
        purge.scrub(store, sure=True)
    clone.clean()


def test_a_disk_that_refuses_the_deletion_is_named_and_the_same_call_goes_on(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_doctor_says_what_a_killed_purge_left_and_mends_it(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = clone.remember(TEXT)
    with monkeypatch.context() as m, clone.store() as store:
        m.setattr(odb.Odb, "remove", lambda *args: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            purge.purge(store, purge.find(store, id))
    with clone.store() as store:
        (finding,) = [f for f in doctor.examine(store) if "purged may still be" in f.text]
        assert finding.repair and finding.repair().startswith("deleted ")
        assert not [f for f in doctor.examine(store) if "purged may still be" in f.text]
    clone.clean()


def test_a_sync_that_cannot_finish_a_purge_says_so_and_has_synced(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = two(lab)
    a.purge(a.remember(TEXT))
    a.remember("more")
    (a.path / ".git/gc.pid").write_text(f"1 {socket.gethostname()}")
    monkeypatch.setattr(odb, "PATIENCE", 0.1)
    (a.path / ".git/mem/purged").unlink()
    with a.store() as store:
        report = sync.push(store)
    assert len(report.sent) >= 1 and any(
        "clean-up is at work" in remark for remark in report.remarks
    )
    b.mem("sync")
    assert "more" in b.bodies()


@pytest.mark.parametrize(("owner", "name"), [(cache_scrub, "cache"), (erase, "erase")])
def test_who_finishes_a_killed_purge_is_told_what_came_back(
    clone: Clone, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
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
    assert [(m["id"], m["alike"]) for m in said["comes_back"]] == first == [(old, True)] and said[
        "status"
    ] == "purged"
    assert (
        "comes back" not in clone.mem("purge", new, "--force")
        and f"{LONG} and more" in clone.bodies()
    )
    assert other in {line["id"] for line in clone.lines()}
