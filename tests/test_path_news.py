"""Paths where HEAD stands still and something else came to be known: what took a commit's place,
who carries its change, the rest of the history.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest
from conftest import Lab
from places import opened

from gitmem import worker
from gitmem.anchors import anchor_state_update, path_state
from gitmem.engine import memory_rows, path_state_store
from gitmem.engine.cache import Cache
from gitmem.hooks import worker_log

Told = dict[str, list[tuple[str, str]]]


def text(name: str) -> str:
    return "".join(f"line {i} of {name}\n" for i in range(30))


def commit(lab: Lab, repo: pathlib.Path, files: dict[str, str], message: str = "next") -> str:
    for name, content in files.items():
        (repo / name).write_text(content)
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-q", "--allow-empty", "-m", message)
    return lab.git(repo, "rev-parse", "HEAD").strip()


def states(repo: pathlib.Path) -> tuple[Told, Told]:
    """{path: its state and its name now}: what a worker kept just now, and what git says; without
    the paths that are left to whoever asks.
    """
    worker.run(str(repo / ".git"), os.environ, 0.0)
    with opened(repo) as store:

        def read(cache: Cache) -> tuple[Told, Told]:
            rows = [
                row
                for (row,) in cache.db.execute(
                    "SELECT row FROM memory WHERE status = 0 ORDER BY row"
                )
            ]
            kept, asked = {}, {}
            found = path_state_store.read(cache, rows, store.repo.head())
            for row, (data, _, _) in zip(rows, memory_rows.load(cache, rows), strict=True):
                places = memory_rows.places(data)
                said = path_state.states(
                    store.repo,
                    cache,
                    [(memory_rows.commit_of(data), *place) for place in places],
                    store.repo.head(),
                    60.0,
                )
                kept[places[0][0]] = [
                    (s.state, s.now) for s in path_state_store.of(found.get(row), len(places))
                ]
                asked[places[0][0]] = [(s.state, s.now) for s in said]
            return kept, asked

        return store.with_cache(read)[0]


def elsewhere(lab: Lab, repo: pathlib.Path) -> None:
    """main has p.txt of the branch `side`, then as q.txt, then another p.txt."""
    lab.git(repo, "mv", "p.txt", "q.txt")
    lab.git(repo, "commit", "-q", "-m", "q")
    commit(lab, repo, {"p.txt": "something else\n"})


def test_a_move_that_comes_later_says_where_a_path_went(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    lab.git(repo, "switch", "-q", "-c", "side")
    old = commit(lab, repo, {"p.txt": text("p")})
    lab.mem(repo, "remember", "about p", "--path", "p.txt")
    lab.git(repo, "switch", "-q", "main")
    new = commit(lab, repo, {"p.txt": text("p") + "more\n"})
    elsewhere(lab, repo)
    assert states(repo) == ({"p.txt": [("changed", "")]},) * 2
    lab.mem(repo, "reanchor", old, new)
    assert states(repo) == ({"p.txt": [("changed", "q.txt")]},) * 2


def test_a_squash_that_is_recognized_later_says_where_a_path_went(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    lab.git(repo, "switch", "-q", "-c", "side")
    commit(lab, repo, {"p.txt": text("p")})
    lab.mem(repo, "remember", "about p", "--path", "p.txt")
    side = commit(lab, repo, {"o.txt": text("o")})
    lab.git(repo, "switch", "-q", "main")
    lab.git(repo, "merge", "-q", "--squash", "side")
    lab.git(repo, "commit", "-q", "-m", "squash")
    elsewhere(lab, repo)
    lab.git(repo, "update-ref", "-d", "refs/heads/side")
    (repo / ".git" / "logs" / "HEAD").unlink()
    assert states(repo) == ({"p.txt": [("changed", "")]},) * 2
    lab.git(repo, "update-ref", "refs/heads/side", side)
    assert states(repo) == ({"p.txt": [("renamed", "q.txt")]},) * 2


def test_a_second_move_of_a_commit_that_moved_before_counts_for_its_memories(lab: Lab) -> None:
    repo = lab.repo(commits=2)
    lab.git(repo, "switch", "-q", "-c", "side")
    a = commit(lab, repo, {}, "a")
    lab.mem(repo, "remember", "about it", "--path", "f1.txt")
    b = commit(lab, repo, {}, "b")
    lab.git(repo, "switch", "-q", "main")
    c = commit(lab, repo, {}, "c")
    lab.mem(repo, "reanchor", a, b)
    worker.run(str(repo / ".git"), os.environ, 0.0)
    assert [m["anchor"]["state"] for m in lab.json(repo, "list", "--all")] == ["unmerged"]
    lab.mem(repo, "reanchor", b, c)
    worker.run(str(repo / ".git"), os.environ, 0.0)
    assert [m["anchor"]["state"] for m in lab.json(repo, "list", "--all")] == ["reachable"]


def test_a_clone_that_gets_its_history_later_says_what_the_whole_one_says(lab: Lab) -> None:
    repo = lab.repo(commits=1)
    commit(lab, repo, {f"{name}.txt": text(name) for name in "prs"})
    for name in "prs":
        lab.mem(repo, "remember", f"about {name}", "--path", f"{name}.txt")
    elsewhere(lab, repo)
    lab.git(repo, "mv", "r.txt", "rr.txt")
    commit(lab, repo, {"rr.txt": text("r") + "x\n"})
    clone = lab.root / "clone"
    lab.git(lab.root, "clone", "-q", "--depth", "1", f"file://{repo}", str(clone))
    lab.git(clone, "fetch", "-q", "origin", "refs/notes/mem/team:refs/notes/mem/team")
    states(clone)
    lab.git(repo, "mv", "s.txt", "ss.txt")
    commit(lab, repo, {"f0.txt": "2\n"})
    lab.git(clone, "fetch", "-q", "--depth", "1", "origin", "main")
    lab.git(clone, "reset", "-q", "--hard", "FETCH_HEAD")
    assert (
        states(clone)
        == ({"p.txt": [("changed", "")], "r.txt": [("unknown", "")], "s.txt": [("unknown", "")]},)
        * 2
    )
    lab.git(clone, "fetch", "-q", "--unshallow")
    whole = {
        "p.txt": [("renamed", "q.txt")],
        "r.txt": [("changed", "rr.txt")],
        "s.txt": [("renamed", "ss.txt")],
    }
    assert "gone" not in lab.mem(clone, "list", "--json")  # nobody looked yet, but whoever asks
    assert states(clone) == states(repo) == (whole, whole)
    commit(lab, repo, {"f0.txt": "3\n"})
    lab.git(clone, "pull", "-q")
    assert states(clone) == (whole, whole)


def test_memories_that_come_while_a_worker_looks_stop_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = lab.repo(commits=3)
    lab.mem(repo, "remember", "first", "--path", "f0.txt")
    rows, ask = anchor_state_update.path_rows, path_state.Tree.ask
    come = iter(("f1.txt", "f2.txt"))

    def meanwhile(first: Any, *rest: Any) -> Any:
        for name in come:
            lab.mem(repo, "remember", f"about {name}", "--path", name)
            lab.mem(repo, "list")
            break
        return (ask if isinstance(first, path_state.Tree) else rows)(first, *rest)

    monkeypatch.setattr(anchor_state_update, "path_rows", meanwhile)
    states(repo)
    commit(lab, repo, {"f0.txt": "changed\n"})
    monkeypatch.setattr(path_state.Tree, "ask", meanwhile)
    worker.run(str(repo / ".git"), os.environ, 0.0)
    monkeypatch.undo()
    assert worker_log.lines(str(repo / ".git" / "mem")) == []
    assert (
        states(repo)
        == ({"f0.txt": [("changed", "")], "f1.txt": [("same", "")], "f2.txt": [("same", "")]},) * 2
    )


def test_lines_of_a_branch_are_looked_for_again_where_head_gets_a_file_of_that_name(
    lab: Lab,
) -> None:
    repo = lab.repo(commits=2)
    commit(lab, repo, {"p.txt": text("p")})
    lab.git(repo, "switch", "-q", "-c", "side")
    commit(lab, repo, {"p.txt": text("p") + "one more\n"})
    lab.mem(repo, "remember", "--path", "p.txt:2-3", "--", "about lines")
    for name, state in (
        ("main~1", "unknown"),
        ("main", "same"),
        ("main~1", "unknown"),
        ("side", "same"),
    ):  # main~1 has neither the file nor the commit
        lab.git(repo, "switch", "-q", "--detach", name)
        kept, asked = states(repo)
        assert kept == asked and kept["p.txt"] == [(state, "")]


def test_a_name_that_was_given_back_with_its_content_is_followed_once_that_changes(
    lab: Lab,
) -> None:
    repo = lab.repo(commits=2)
    commit(lab, repo, {"p.txt": text("p"), "other.txt": text("other")})
    for name in ("p.txt", "other.txt"):
        lab.mem(repo, "remember", f"about {name}", "--path", name)
    lab.git(repo, "mv", "p.txt", "q.txt")
    lab.git(repo, "commit", "-q", "-m", "q")
    commit(lab, repo, {"p.txt": text("p")})
    assert states(repo) == ({"p.txt": [("same", "")], "other.txt": [("same", "")]},) * 2
    commit(lab, repo, {"p.txt": text("another"), "other.txt": text("p")})
    assert states(repo) == ({"p.txt": [("renamed", "q.txt")], "other.txt": [("changed", "")]},) * 2
    lab.git(repo, "reset", "-q", "--hard", "HEAD~1")
    assert states(repo) == ({"p.txt": [("same", "")], "other.txt": [("same", "")]},) * 2
