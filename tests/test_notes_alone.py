"""Where memories stand is in the notes alone (P1): the same with the cache that was kept, with one
made anew, and in a fresh clone.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import tempfile
from typing import Any

import pytest
from conftest import Lab
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from places import anchors, clone, commit, following, head, hub, opened, squash, tell
from test_anchor_state_update import STEPS, History

from gitmem import sync
from gitmem.anchors import anchor_state_update, patch_id_marks
from gitmem.engine.filters import Filter
from gitmem.erasure import purge
from gitmem.memory import listing, memories
from gitmem.store import Store, open_store

TEXT = "the invoice is stored in cents"


def moves(lab: Lab, repo: pathlib.Path, ref: str = "mem/team") -> list[dict[str, Any]]:
    """The `move` records of a ref, as stock git reads them."""
    found = [json.loads(line) for line in lab.lines(repo, ref)]
    return [data for data in found if data["op"] == "move"]


def rebuilt(repo: pathlib.Path) -> dict[str, dict[str, Any]]:
    """Where memories stand after the cache was deleted."""
    shutil.rmtree(repo / ".git/mem")
    return anchors(repo)


def amended(lab: Lab, repo: pathlib.Path, line: str) -> tuple[str, str]:
    """HEAD with another change in it, so that no patch-id finds it again; (old, new)."""
    old = head(lab, repo)
    with (repo / "f0.txt").open("a") as file:
        file.write(line + "\n")
    lab.git(repo, "commit", "-q", "-a", "--amend", "-m", line)
    return old, head(lab, repo)


def strip(lab: Lab, repo: pathlib.Path, name: str = "HEAD") -> None:
    lab.git(repo, "notes", "--ref=mem/team", "remove", name)


# --- a copy that stock git took away ----------------------------------------


def test_the_move_of_a_copy_that_was_removed_is_written_down(lab: Lab) -> None:
    repo = following(lab)
    tell(repo, TEXT)
    old, new = amended(lab, repo, "amended")
    assert anchors(repo)[TEXT]["commit"] == new
    strip(lab, repo)
    tell(repo, "any other")
    stands = {"commit": new, "branch": "main", "state": "reachable"}
    assert anchors(repo)[TEXT] == stands
    assert rebuilt(repo)[TEXT] == stands
    assert moves(lab, repo) == [{"v": 1, "op": "move", "id": old, "commit": new}]


def test_nobody_had_looked_before_the_copy_was_removed(lab: Lab) -> None:
    repo = following(lab)
    tell(repo, TEXT)
    _, new = amended(lab, repo, "amended")
    strip(lab, repo)
    shutil.rmtree(repo / ".git/mem")
    tell(repo, "any other")
    assert rebuilt(repo)[TEXT]["commit"] == new


def test_each_of_two_amends_comes_back(lab: Lab) -> None:
    repo = following(lab)
    tell(repo, TEXT)
    first, second = amended(lab, repo, "amended")
    _, third = amended(lab, repo, "again")
    strip(lab, repo, second)
    strip(lab, repo)
    tell(repo, "any other", "HEAD")
    assert rebuilt(repo)[TEXT]["commit"] == third
    assert {(m["id"], m["commit"]) for m in moves(lab, repo)} == {(first, second), (first, third)}


def test_a_move_is_written_once_however_often_its_copy_goes(lab: Lab) -> None:
    repo = following(lab)
    tell(repo, TEXT)
    tell(repo, "a second one")
    amended(lab, repo, "amended")
    for n in range(3):
        strip(lab, repo)
        tell(repo, f"any other {n}", "HEAD")
    assert len(moves(lab, repo)) == 1
    with opened(repo) as store:
        assert store.team.owed() == [] and store.team.taken_out() == []


def test_a_note_that_was_pruned_with_its_commit_leaves_no_copies(lab: Lab) -> None:
    """The line stands at the new commit: nothing of the old one has to come back."""
    repo = following(lab)
    tell(repo, TEXT)
    _, new = amended(lab, repo, "amended")
    lab.git(repo, "reflog", "expire", "--expire=now", "--all")
    lab.git(repo, "gc", "-q", "--prune=now")
    lab.git(repo, "notes", "--ref=mem/team", "prune")
    tell(repo, "any other")
    assert rebuilt(repo)[TEXT]["commit"] == new
    assert len(lab.lines(repo)) == 2


def test_two_clones_that_see_a_copy_go_write_the_same_line(lab: Lab) -> None:
    hub(lab)
    a = clone(lab, "a")
    lab.git(a, "config", "notes.rewriteRef", "refs/notes/mem/*")
    tell(a, TEXT)
    _, new = amended(lab, a, "amended")
    strip(lab, a)
    lab.git(a, "push", "-q", "origin", "+main", "refs/notes/mem/team")
    b = clone(lab, "b")
    lab.git(b, "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team")
    for repo in (a, b):
        tell(repo, f"from {repo.name}")
    assert moves(lab, a) == moves(lab, b) != []
    for repo in (a, b, a):
        with opened(repo) as store:
            sync.push(store, allow_secret=True)
    c = clone(lab, "c")
    assert len(moves(lab, c)) == 1
    assert [anchors(repo)[TEXT]["commit"] for repo in (a, b, c)] == [new] * 3


# --- a copy whose commit is not here ----------------------------------------


def test_a_copy_that_a_clone_without_its_commit_wrote_again_still_says_where(lab: Lab) -> None:
    """There a note goes to a continuation, since `git notes prune` would take the other."""
    hub(lab)
    a, b = clone(lab, "a"), clone(lab, "b")
    lab.git(a, "config", "notes.rewriteRef", "refs/notes/mem/*")
    tell(a, TEXT)
    other = tell(a, "a word that goes")
    _, new = amended(lab, a, "amended, not pushed")
    lab.git(a, "push", "-q", "origin", "refs/notes/mem/team")
    lab.git(b, "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team")
    with opened(b) as store:
        purge.purge(store, purge.find(store, other))
        sync.push(store, allow_secret=True)
    lab.git(a, "push", "-q", "origin", "+main")
    assert anchors(clone(lab, "c"))[TEXT] == {"commit": new, "branch": "main", "state": "reachable"}


def test_a_purge_leaves_the_move_that_its_lines_stated(lab: Lab) -> None:
    repo = following(lab)
    gone = tell(repo, "a word that goes")
    old, new = amended(lab, repo, "amended")
    tell(repo, TEXT, old)
    assert anchors(repo)[TEXT]["commit"] == new
    with opened(repo) as store:
        purge.purge(store, purge.find(store, gone))
    assert anchors(repo)[TEXT]["commit"] == new
    assert rebuilt(repo)[TEXT]["commit"] == new


def test_a_ref_that_lost_objects_keeps_its_moves(lab: Lab) -> None:
    """It goes back to a state before the copy, and what the newer ones stated comes along."""
    repo = following(lab)
    tell(repo, TEXT)
    _, new = amended(lab, repo, "amended")
    copied = lab.git(repo, "rev-parse", "refs/notes/mem/team^{tree}").strip()
    commit(lab, repo, "g.txt", "next")
    tell(repo, "the newest")
    note = lab.git(repo, "notes", "--ref=mem/team", "list", "HEAD").strip()
    for id in (copied, note):
        (repo / ".git/objects" / id[:2] / id[2:]).unlink()
    tell(repo, "any other")
    assert set(anchors(repo)) == {TEXT, "the newest", "any other"}
    assert rebuilt(repo)[TEXT]["commit"] == new


def test_a_shared_memory_takes_its_moves_to_the_team(lab: Lab) -> None:
    hub(lab)
    a = clone(lab, "a")
    lab.git(a, "config", "notes.rewriteRef", "refs/notes/mem/*")
    id = tell(a, TEXT, scope="private")
    _, new = amended(lab, a, "amended")
    with opened(a) as store:
        memories.share(store, id)
        sync.push(store, allow_secret=True)
    lab.git(a, "push", "-q", "origin", "+main")
    b = clone(lab, "b")
    assert anchors(b)[TEXT] == {"commit": new, "branch": "main", "state": "reachable"}


# --- what a branch that is gone explained -----------------------------------


@pytest.mark.parametrize("into", ["main", "next"])
def test_a_squash_that_only_the_branch_explains_is_written_down(lab: Lab, into: str) -> None:
    """A memory's own marks know the branch as it was then; it was merged with more commits."""
    repo = lab.repo()
    lab.git(repo, "checkout", "-q", "-b", "next")
    commit(lab, repo, "n.txt", "next")
    lab.git(repo, "checkout", "-q", "-b", "topic", into)
    commit(lab, repo, "t.txt", "one")
    tell(repo, TEXT)
    commit(lab, repo, "t.txt", "two")
    lab.git(repo, "checkout", "-q", into)
    lab.git(repo, "merge", "-q", "--squash", "topic")
    lab.git(repo, "commit", "-q", "-m", "topic (#1)")
    assert anchors(repo)[TEXT]["state"] == "squashed"
    with opened(repo) as store:
        learned(store)
        assert patch_id_marks.write_found(store) == 0
    lab.git(repo, "branch", "-q", "-D", "topic")
    lab.git(repo, "reflog", "expire", "--expire=now", "--all")
    lab.git(repo, "gc", "-q", "--prune=now")
    assert anchors(repo)[TEXT]["state"] == "squashed"
    assert rebuilt(repo)[TEXT]["state"] == "squashed"


def test_an_answer_that_rests_on_a_branch_wakes_the_worker(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo()
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "t.txt", "one")
    tell(repo, TEXT)
    commit(lab, repo, "t.txt", "two")
    woken: list[str] = []
    monkeypatch.setattr(anchor_state_update.spool, "ask", woken.append)
    with opened(repo) as store:
        learned(store)
        listing.list_memories(store, Filter())
        assert woken == []
        squash(lab, repo)
        listing.list_memories(store, Filter())
        assert woken != []


# --- generated histories ----------------------------------------------------

_small = st.integers(0, 5)
_amend, _remove = (
    st.tuples(st.just("edit-amend"), st.sampled_from("abc"), _small),
    st.tuples(st.just("remove"), st.sampled_from([-1, -1, 0, 1, 2])),
)
_tell, _copy = st.tuples(st.just("tell"), st.integers(0, 3)), st.tuples(st.just("copy"), _small)
_plain = st.sampled_from([("prune",), ("gc",), ("look",), ("look",)])
MORE = st.one_of(
    STEPS,
    STEPS,
    _amend,
    _amend,
    _amend,
    _remove,
    _remove,
    _tell,
    _copy,
    st.tuples(st.just("purge"), _small),
    _plain,
)


# A note that followed an amend, seen by the worker, and was then copied to a second commit.
TWO_PLACES: list[tuple[Any, ...]] = [("look",), ("switch", "main"), ("amend",), ("switch", "main")]
TWO_PLACES += [("tell", 0), ("commit", "a", 0), ("worker",), ("copy", 0)]


class Rewritten(History):
    """The same people, who also use stock git on the notes."""

    def _do(self, store: Store, kind: str, *args: Any) -> None:
        if kind == "edit-amend":
            self.write(*args)
            self.git("commit", "-q", "-a", "--amend", "-m", f"amended {self.clock}")
        elif kind == "remove":
            noted = self.noted()
            which = noted[args[0] % len(noted)] if noted and args[0] >= 0 else "HEAD"
            self.git("notes", "--ref=mem/team", "remove", which)
        elif kind == "copy":
            noted = self.noted()
            self.git(
                "notes", "--ref=mem/team", "copy", noted[args[0] % len(noted)], "HEAD"
            ) if noted else None
        elif kind == "prune":
            self.git("notes", "--ref=mem/team", "prune")
        elif kind == "gc":
            learned(store)
            self.git("reflog", "expire", "--expire=now", "--all")
            self.git("gc", "-q", "--prune=now")
        elif kind == "purge":
            found = ids(store)
            purge.purge(store, purge.find(store, found[args[0] % len(found)])) if found else None
        else:
            super()._do(store, kind, *args)

    def noted(self) -> list[str]:
        return sorted(self.git("notes", "--ref=mem/team", "list").split()[1::2])


def ids(store: Store) -> list[str]:
    """The active memories."""
    sql = "SELECT DISTINCT id FROM memory WHERE status = 0 ORDER BY 1"
    return [id for (id,) in store.with_cache(lambda cache: cache.db.execute(sql).fetchall())[0]]


def learned(store: Store) -> None:
    """What the worker does after each event."""
    store.with_cache(lambda cache: None)
    anchor_state_update.update(store, patience=60)
    patch_id_marks.write_found(store)


def compare(world: Rewritten, root: pathlib.Path) -> None:
    """Asks with the cache that was kept, without it, and in a fresh clone."""
    mem, aside = world.repo / ".git/mem", root / "aside"
    kept = anchors(world.repo)
    mem.rename(aside)
    anew = anchors(world.repo)
    shutil.rmtree(mem)
    aside.rename(mem)
    assert anew == kept
    fresh = root / "fresh"
    world.git("clone", "-q", "--mirror", str(world.repo), str(fresh), cwd=root)
    try:
        there = anchors(fresh, head_of(world))
        sure = ("reachable", "squashed")
        assert there.keys() == kept.keys()
        for body, stands in kept.items():
            # A branch that this clone deleted is not there: of what is on none, nothing can be
            # said.
            assert there[body]["state"] == stands["state"] or stands["state"] not in sure, (
                body,
                stands,
            )
            assert stands["state"] != "reachable" or there[body]["commit"] == stands["commit"]
    finally:
        shutil.rmtree(fresh)


def head_of(world: Rewritten) -> str:
    return world.git("rev-parse", "HEAD")


@settings(
    max_examples=int(os.environ.get("GIT_MEM_HISTORIES", "5")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(steps=st.lists(MORE, min_size=8, max_size=30))
@example(steps=TWO_PLACES)
def test_where_memories_stand_is_in_the_notes_alone(steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory)
        world = Rewritten(root)
        tell(world.repo, "the first")
        store = open_store(
            {"GIT_MEM_ENCODER": "false", "GIT_MEM_HISTORY": "false"}, str(world.repo)
        )
        try:
            for step in [*steps, ("tell", 0), ("look",)]:
                if step[0] == "worker":
                    learned(store)
                elif step[0] == "look":
                    learned(store)
                    compare(world, root)
                else:
                    world.step(store, step)
        finally:
            store.close()


@pytest.mark.parametrize("writes", ["sync", "remember new", "doctor --repair", "purge --force {}"])
def test_what_a_rewrite_of_all_refs_left_out_is_in_the_notes_again(lab: Lab, writes: str) -> None:
    """`git filter-repo --path src` drops the notes, the backup, the reflogs, and their objects."""
    hub(lab)
    repo = clone(lab, "a")
    texts = ("a slip", "one of ours", "another", "a later slip")
    gone, edited, _, later = (tell(repo, text) for text in texts)
    lab.mem(repo, "purge", gone, "--force")
    lab.mem(repo, "edit", edited, "-m", "one of ours, reworded")
    tell(repo, "one of mine", scope="private")
    lab.git(repo, "config", "notes.rewriteRef", "refs/notes/mem/*")
    lab.git(repo, "commit", "--amend", "--allow-empty", "-q", "-m", "the same, reworded")
    before = lab.json(repo, "list")
    assert {m["anchor"]["state"] for m in before} == {"reachable"}
    refs = ("for-each-ref", "--format=%(refname)", "refs/notes", "refs/git-mem")
    for ref in lab.git(repo, *refs).split():
        lab.git(repo, "update-ref", "-d", ref)
    lab.git(repo, "reflog", "expire", "--expire=all", "--all")
    lab.git(repo, "prune", "--expire=now")
    for path in (repo / ".git/mem").glob("recent-*"):  # they hold the last half MiB
        path.unlink()
    lab.mem(repo, *writes.format(later).split())
    purges = "purge" in writes
    if "doctor" not in writes:
        lab.mem(repo, "remember", "a new one of mine", "--private")
    shutil.rmtree(repo / ".git" / "mem")
    after = {m["id"]: m for m in lab.json(repo, "list") if "new" not in m["body"]}
    kept = {m["id"]: m for m in before if not (purges and m["id"] == later)}
    assert after == kept and len(after) == 4 - purges
    assert len([r for r in lab.lines(repo) if '"op":"purge"' in r]) == 1 + purges
