"""Marks for other clones, moves that a person states, and commits with memories that nothing holds
any more.
"""

from __future__ import annotations

import json
import pathlib

import pytest
from conftest import Lab
from places import (
    Count,
    anchors,
    clone,
    commit,
    following,
    head,
    hub,
    opened,
    publish,
    squash,
    states,
    tell,
    topic,
)

from gitmem.anchors import equivalent_commits, patch_id, patch_id_marks, reanchor
from gitmem.anchors.reachability import Reachability
from gitmem.memory import listing, remember

# --- marks -----------------------------------------------------------------


def test_two_clones_write_the_same_marks(lab: Lab) -> None:
    hub(lab)
    a = clone(lab, "a")
    topic(lab, a)
    lab.git(a, "push", "-q", "origin", "topic", "refs/notes/mem/team")
    b = clone(lab, "b")
    with opened(a) as first, opened(b) as second:
        ours, theirs = patch_id_marks.missing(first, "team"), patch_id_marks.missing(second, "team")
    assert len(ours) == 2 and ours == theirs


def test_with_nothing_to_mark_a_sync_pays_two_processes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub(lab)
    a = clone(lab, "a")
    topic(lab, a)
    lab.git(a, "push", "-q", "origin", "topic")
    publish(lab, a)
    with opened(a) as store:
        assert patch_id_marks.publish(store) == 0
    count = Count(monkeypatch)
    with opened(a) as store:
        assert [w for w in count.of(lambda: patch_id_marks.publish(store)) if w != "cat-file"] == [
            "for-each-ref"
        ]


def test_an_import_without_marks_gets_them_beside_the_main_line_only(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo("repo", 3)
    lab.git(repo, "checkout", "-q", "-b", "topic")
    made = [commit(lab, repo, "t.txt", f"line {i}") for i in range(3)]
    monkeypatch.setattr(patch_id, "MANY", 0)
    with opened(repo) as store:
        remember.remember(
            store,
            [
                {"body": f"memory {c}", "commit": c}
                for c in lab.git(repo, "rev-list", "topic").split()
            ],
        )
        items = patch_id_marks.missing(store, "team")
        assert sorted(anchor for anchor, _ in items) == sorted(made)
        assert all(
            json.loads(line)["branch_patch"] and json.loads(line)["patch"] for _, line in items
        )
        patch_id_marks.publish(store)
    squash(lab, repo)
    lab.git(repo, "branch", "-q", "-D", "topic")
    lab.git(repo, "reflog", "expire", "--expire=now", "--all")
    lab.git(repo, "gc", "-q", "--prune=now")
    found = states(repo)
    assert found[f"memory {made[2]}"] == "squashed"


def test_private_memories_are_marked_in_private_notes_only(lab: Lab) -> None:
    repo = lab.repo()
    lab.git(repo, "checkout", "-q", "-b", "topic")
    commit(lab, repo, "t.txt", "one")
    tell(repo, "a private thought", scope="private")
    commit(lab, repo, "t.txt", "two")
    squash(lab, repo)
    with opened(repo) as store:
        assert patch_id_marks.publish(store) == 1
        assert not store.team.tip()
    assert [json.loads(line)["op"] for line in lab.lines(repo, "mem/private")] == ["create", "mark"]


def test_marks_and_moves_are_no_memories(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    topic(lab, repo, 2)
    squash(lab, repo)
    with opened(repo) as store:
        assert patch_id_marks.publish(store) == 1
        assert reanchor.reanchor(store, [(head(lab, repo, "topic"), head(lab, repo))]).moved
        counts = store.with_cache(lambda cache: listing.counts(store, cache))[0]
    assert (counts["memories"], counts["forgotten"], counts["records"]) == (2, 0, 4)
    assert {json.loads(line)["op"] for line in lab.lines(repo)} == {"create", "mark", "move"}
    assert len(lab.json(repo, "list", "--all")) == 2
    assert "bad" not in {f["level"] for f in lab.json(repo, "doctor", rc=(0, 1))}
    lab.mem(repo, "show", head(lab, repo, "topic")[:12], rc=(1,))
    lab.mem(repo, "index", "--rebuild")
    assert len(lab.json(repo, "list", "--all")) == 2


# --- moves -----------------------------------------------------------------


def rewritten(lab: Lab, repo: pathlib.Path) -> dict[str, str]:
    """Every commit made anew with another message, as filter-repo would; main moves. {old: new}"""
    new: dict[str, str] = {}
    for old in lab.git(repo, "rev-list", "--reverse", "--topo-order", "main").split():
        parents = [
            arg for p in lab.git(repo, "rev-parse", f"{old}^@").split() for arg in ("-p", new[p])
        ]
        new[old] = lab.git(repo, "commit-tree", f"{old}^{{tree}}", *parents, "-m", "anew").strip()
    lab.git(repo, "update-ref", "refs/heads/main", list(new.values())[-1])
    return new


def test_a_commit_map_moves_memories_to_the_new_history(lab: Lab) -> None:
    repo = lab.repo("repo", 4)
    olds = lab.git(repo, "rev-list", "main").split()
    for i, old in enumerate(olds[:3]):
        tell(repo, f"memory {i}", old)
    new = rewritten(lab, repo)
    new[olds[2]] = "0" * 40
    (repo / "map").write_text(
        "old                                      new\n"
        + "".join(f"{o} {n}\n" for o, n in new.items())
    )
    answer = lab.json(repo, "reanchor", "--map", "map")
    assert sorted((m["old"], m["new"], m["memories"]) for m in answer["moved"]) == sorted(
        (o, new[o], 1) for o in olds[:2]
    )
    assert (answer["dropped"], answer["refused"], answer["known"]) == ([olds[2]], [], 0)
    found = anchors(repo)
    assert [(found[f"memory {i}"]["state"], found[f"memory {i}"]["commit"]) for i in range(2)] == [
        ("reachable", new[o]) for o in olds[:2]
    ]
    assert found["memory 2"]["state"] == "squashed"  # its patch stands in the new history
    again = lab.json(repo, "reanchor", "--map", "map")
    assert (again["moved"], again["known"]) == ([], 2)


def test_moves_are_followed_over_several_rewrites_and_cycles_do_no_harm(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    first = head(lab, repo)
    tell(repo, "about the first")
    second = rewritten(lab, repo)[first]
    lab.mem(repo, "reanchor", first[:10], second)
    lab.git(repo, "commit", "-q", "--amend", "-m", "third")
    third = head(lab, repo)
    lab.mem(repo, "reanchor", second, "HEAD")
    assert anchors(repo)["about the first"] == {
        "commit": third,
        "branch": "main",
        "state": "reachable",
    }
    lab.mem(repo, "reanchor", third, first)
    assert anchors(repo)["about the first"]["commit"] == third
    lab.git(repo, "reset", "-q", "--hard", first)
    assert anchors(repo)["about the first"]["commit"] == first


def test_reanchor_refuses_what_is_not_there(lab: Lab) -> None:
    repo = lab.repo()
    tell(repo, "about this")
    done = lab.run(repo, "git", "rev-parse", "HEAD").stdout.strip()
    assert lab.json(repo, "reanchor", done, "1" * 40, rc=(1,))["refused"] == [
        {"old": done, "new": "1" * 40, "reason": "no such commit in this repository"}
    ]
    lab.mem(repo, "reanchor", "2" * 40, "HEAD", rc=(1,))
    lab.mem(repo, "reanchor", done, rc=(2,))
    lab.mem(repo, "reanchor", rc=(2,))
    lab.mem(repo, "reanchor", done, done, rc=(1,))
    (repo / "map").write_text("old new\nnonsense\n")
    lab.mem(repo, "reanchor", "--map", "map", rc=(1,))
    assert len(lab.lines(repo)) == 1


def test_private_memories_move_in_private_notes(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    old = head(lab, repo, "HEAD~1")
    tell(repo, "a private thought", "HEAD~1", "private")
    lab.mem(repo, "reanchor", old, "HEAD")
    assert lab.lines(repo) == [] and [
        json.loads(line)["op"] for line in lab.lines(repo, "mem/private")
    ] == ["create", "move"]
    assert (
        anchors(repo)["a private thought"]["commit"] == old
    )  # both are in this history, its own comes first


# --- lost anchors ----------------------------------------------------------


def test_anchors_that_no_ref_holds_are_listed_with_the_same_change_elsewhere(lab: Lab) -> None:
    repo = lab.repo()
    made = topic(lab, repo, 2)
    lab.git(repo, "checkout", "-q", "main")
    with opened(repo) as store:
        assert reanchor.lost(store) == []
    lab.git(repo, "branch", "copy", "main")
    lab.git(repo, "checkout", "-q", "copy")
    commit(lab, repo, "main.txt", "beside")
    lab.git(repo, "cherry-pick", made[0])
    twin = head(lab, repo)
    lab.git(repo, "checkout", "-q", "main")
    lab.git(repo, "branch", "-q", "-D", "topic")
    tell(repo, "another about the second", made[1])
    with opened(repo) as store:
        found = [
            (item.commit, item.memories, item.here, item.same) for item in reanchor.lost(store)
        ]
    assert found == [(made[1], 2, True, []), (made[0], 1, True, [twin])]
    assert states(repo)["topic 0"] == "unmerged"  # offered, not applied
    said = lab.mem(repo, "doctor", rc=(0, 1))
    assert (
        made[1][:12] in said
        and f"same change as {twin[:12]}" in said
        and "git mem reanchor" in said
    )
    lab.mem(repo, "reanchor", made[0], twin)
    with opened(repo) as store:
        assert [item.commit for item in reanchor.lost(store)] == [made[1]]


def test_squashed_and_moved_anchors_are_not_lost(lab: Lab) -> None:
    repo = following(lab)
    topic(lab, repo, 2)
    squash(lab, repo)
    commit(lab, repo, "x.txt", "x")
    tell(repo, "about x")
    lab.git(repo, "commit", "-q", "--amend", "-m", "y")
    assert set(states(repo).values()) == {"squashed", "reachable"}
    lab.git(repo, "branch", "-q", "-D", "topic")
    with opened(repo) as store:
        assert reanchor.lost(store) == []


def test_ancestry_tells_forks_and_tips(lab: Lab) -> None:
    repo = lab.repo("repo", 2)
    made = topic(lab, repo, 2)
    lab.git(repo, "checkout", "-q", "-b", "stacked")
    top = commit(lab, repo, "s.txt", "s")
    with opened(repo) as store:
        line = Reachability(
            store.repo.git,
            [head(lab, repo, "main")],
            [*made, top, "1" * 40, head(lab, repo, "main~1")],
        )
        assert [
            line.contains(c)
            for c in (made[0], head(lab, repo, "main"), head(lab, repo, "main~1"), "1" * 40)
        ] == [False, True, True, False]
        assert line.forks(top) == {head(lab, repo, "main")} and line.forks("1" * 40) == frozenset()
        assert line.containing([made[1], top], [made[0], top]) == {
            made[0]: [made[1], top],
            top: [top],
        }
        assert equivalent_commits.RECENT > 0
