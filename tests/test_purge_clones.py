"""A purge reaches the hub and every clone that syncs, and what comes back goes again; nothing is
searched twice.
"""

from __future__ import annotations

import json
import shutil
import sys

import pytest
from conftest import Lab
from erase_world import holding
from purge_world import LONG, TEXT, WORD, Clone, one, two

from gitmem.erasure import erase, purge


@pytest.fixture
def clone(lab: Lab) -> Clone:
    return one(lab)


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
    (tombstone,) = a.tombstones()
    assert tombstone["id"] != id and "all" not in tombstone and len(tombstone["lines"]) == 2
    a.mem("sync")
    b.mem("sync")
    b.clean()
    assert a.remember(TEXT, "--source", "crm:17") == id, "who knows the text may say it again"
    assert TEXT in a.bodies()


# What a sync pays for it


def test_without_a_purge_nothing_is_searched(clone: Clone) -> None:
    with clone.store() as store:
        assert purge.scrub(store) is None
    assert not (clone.path / ".git/mem/purged").exists()


def searches(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a scrub reads the objects."""
    asked: list[int] = []
    with monkeypatch.context() as m, clone.store() as store:
        m.setattr(erase, "erase", lambda *args: asked.append(1) or erase.Report())
        purge.scrub(store)
    return bool(asked)


def test_objects_are_searched_once_for_each_purge_and_each_return_of_old_notes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    c.git(
        "remote", "add", "origin", f"ext::git %s {lab.root / 'hub.git'}"
    )  # no path, which would share all objects
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
    tree = c.git(
        "mktree",
        stdin=(
            "100644 blob"
            f" {c.git('hash-object', '-w', '--stdin', stdin=json.dumps({'v': 1, 'op': 'create', 'id': id, 'body': WORD})).strip()}\t{c.git('rev-parse', 'HEAD').strip()}\n"  # noqa: E501
        ),
    ).strip()
    c.git(
        "update-ref",
        "refs/notes/remotes/origin/mem/team",
        c.git("commit-tree", "-m", "old notes", tree).strip(),
    )
    assert searches(c, monkeypatch)
