"""A purge of a line that is no memory: by its version, everywhere."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import pytest
from conftest import Lab, sampled
from erase_world import holding
from purge_world import TEXT, WORD, Clone, Killed, loose, one, packed, two

from gitmem.core import record
from gitmem.erasure import erase, purge


@pytest.fixture
def clone(lab: Lab) -> Clone:
    return one(lab)


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


LINES = {
    "by hand": HAND,
    "spaces around": f"  {HAND}\t",
    "cut": f'{{"v":1,"op":"create","id":"ab","body":"{WORD}',
    "no memory": f'{{"v":1,"op":"feedback","id":"ab","text":"{WORD}"}}',
    "a word": WORD,
}


@pytest.mark.parametrize(
    ("shape", "line"),
    sampled(itertools.product([loose, packed, lost, lost_and_packed], LINES), 3),
)
def test_a_purged_line_that_is_no_memory_is_in_no_object_and_no_file(
    clone: Clone, shape: Callable[[Clone], None], line: str
) -> None:
    line = LINES[line]
    version = by_hand(clone, line)
    shape(clone)
    (clone.path / ".git/mem").mkdir(exist_ok=True)
    (clone.path / ".git/mem/kept").write_text(f"anchor\t{line}\nother\n")
    answer = clone.purge(version[:8])
    clone.clean()
    assert (
        answer["version"] == version
        and answer["id"] is None
        and answer["lines"] == 1
        and answer["deleted"]
    )
    assert (clone.path / ".git/mem/kept").read_text() == "other\n"
    (tombstone,) = clone.tombstones()
    assert (
        tombstone["lines"] == [version]
        and set(tombstone) == {"v", "op", "id", "at", "n", "author", "lines"}
        and len(tombstone["id"]) == 32
    )
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
        dangling = clone.git(
            "hash-object", "-w", "--stdin", stdin=f"void f()\n{line}\n}}\n"
        ).strip()
        version = by_hand(clone, line)
        before = clone.objects()
        answer = clone.purge(version[:8])
        assert answer["held"] == [] and answer["deleted"]
        assert (
            before - clone.objects() == {d["id"] for d in answer["deleted"]}
            and dangling in clone.objects()
        )
        assert line not in clone.lab.lines(clone.path)
        assert clone.lab.run(clone.path, "git", "fsck", "--strict").returncode == 0


def test_a_killed_purge_of_a_line_is_finished_by_the_same_call(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = by_hand(clone)
    with monkeypatch.context() as m, clone.store() as store:
        m.setattr(erase, "erase", lambda *args: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            purge.purge(store, purge.find(store, version[:8]))
    assert holding(clone.path, WORD)
    assert clone.purge(version[:8])["deleted"]
    clone.clean()


def test_a_prefix_that_names_several_lines_is_refused_and_a_memory_comes_first(
    clone: Clone,
) -> None:
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
    assert (
        f"line {version[:8]} [team], which is no memory, looks like it holds a secret"
        in clone.mem("verify")
    )
    (item,) = [i for i in clone.lab.json(clone.path, "verify") if i["id"] is None]
    assert item["version"] == version and item["secrets"] and secret not in str(item)
    for name in (version[:8], broken[:8]):
        clone.purge(name)
    clone.clean(secret)
    assert "line " not in clone.mem("verify")
