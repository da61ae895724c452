"""A path or a type that was probably mistyped is noted with the nearest, and stored as it is."""

from __future__ import annotations

import pathlib

import pytest
from conftest import Lab

from gitmem.memory.misnamed import nearest_path


@pytest.fixture
def repo(lab: Lab) -> pathlib.Path:
    path = lab.repo()
    (path / "src").mkdir()
    (path / "src" / "net.py").write_text("retries = 5\n")
    lab.git(path, "add", "-A")
    lab.git(path, "commit", "-q", "-m", "net")
    return path


def test_the_nearest_path_has_the_same_name_or_is_spelled_much_the_same() -> None:
    files = ["src/net.py", "src/netlib/io.py", "test/net_test.py", "docs/a.md"]
    for path, nearest in [
        ("net.py", "src/net.py"),
        ("src/nte.py", "src/net.py"),
        ("lib/NET.py", "src/net.py"),
        ("src/netlb", "src/netlib"),
        ("netlib", "src/netlib"),
        ("quite/another.c", ""),
    ]:
        assert nearest_path(path, files) == nearest
    assert nearest_path("a", []) == ""


def test_a_path_that_is_nowhere_is_noted_with_the_nearest_and_stored(
    lab: Lab, repo: pathlib.Path
) -> None:
    note = "note: 'net.py' is not at HEAD; did you mean src/net.py?\n"
    for words in (["recall", "retries", "--path"], ["list", "--path"], ["why"]):
        assert note in lab.said(repo, *words, "net.py")
    assert lab.said(repo, "remember", "retries back off", "--path", "net.py:1") == note
    (memory,) = lab.json(repo, "list")
    assert [p["path"] for p in memory["paths"]] == ["net.py"]
    # What a memory names is no mistake of whoever asks for it.
    for words in (["recall", "retries", "--path"], ["list", "--path"], ["why"]):
        assert lab.said(repo, *words, "net.py") == ""
    assert lab.said(repo, "edit", memory["id"], "--path", "f0.tx") == (
        "note: 'f0.tx' is not at HEAD; did you mean f0.txt?\n"
    )


def test_of_many_paths_that_are_nowhere_none_is_compared_with_all_files(
    lab: Lab, repo: pathlib.Path
) -> None:
    paths = [word for n in range(9) for word in ("--path", f"old/{n}/net.py")]
    said = lab.said(repo, "list", *paths)
    assert said.splitlines() == [f"note: '{path}' is not at HEAD" for path in paths[1::2]]
    assert "did you mean src/net.py?" in lab.said(repo, "list", *paths[:4])


def test_lines_of_a_file_that_is_nowhere_are_refused_with_the_nearest(
    lab: Lab, repo: pathlib.Path
) -> None:
    for command in ("why", "blame"):
        said = lab.said(repo, command, "src/nte.py:1")
        assert said.splitlines() == [
            "error: no file 'src/nte.py' at HEAD", "hint: did you mean src/net.py?"
        ]  # fmt: skip


def test_what_is_there_or_may_come_is_not_noted(lab: Lab, repo: pathlib.Path) -> None:
    (repo / "src" / "new.py").write_text("not committed\n")
    for path in ("src/net.py", "src", "src/", ".", "src/new.py", "src/net.py:1", "src/net.py:1:4"):
        assert lab.said(repo, "remember", f"about {path}", "--path", path) == ""
        assert lab.said(repo, "list", "--path", path) == ""
    assert lab.said(repo, "list", "--path", "far/away.c") == "note: 'far/away.c' is not at HEAD\n"


def test_the_path_is_looked_for_at_the_commit_that_is_named(lab: Lab, repo: pathlib.Path) -> None:
    lab.git(repo, "mv", "src/net.py", "src/wire.py")
    lab.git(repo, "commit", "-q", "-m", "rename")
    words = ("remember", "retries back off", "--path", "src/net.py")
    assert lab.said(repo, *words, "--commit", "HEAD~1") == ""
    assert lab.said(repo, "list", "--at", "HEAD~1", "--path", "wire.py") == (
        "note: 'wire.py' is not at HEAD~1\n"
    )


def test_before_the_first_commit_no_path_is_noted(lab: Lab) -> None:
    repo = lab.repo(commits=0)
    assert lab.said(repo, "remember", "retries back off", "--path", "net.py") == ""
    assert lab.said(repo, "list", "--path", "nte.py") == ""


def test_an_unusual_type_is_noted_with_the_nearest_and_stored(lab: Lab, repo: pathlib.Path) -> None:
    note = "note: 'decison' is none of the usual types; did you mean decision?\n"
    assert lab.said(repo, "list", "--type", "decison") == note
    assert lab.said(repo, "recall", "orders", "--type", "Decison") == note
    assert lab.said(repo, "remember", "orders live in PostgreSQL", "--type", "decison") == note
    assert [m["type"] for m in lab.json(repo, "list")] == ["decison"]
    # A word of the team's own is one, once a memory has it.
    assert lab.said(repo, "remember", "invoices, too", "--type", "decison") == ""
    said = lab.said(repo, "remember", "restart the queue first", "--type", "runbook")
    assert "'runbook' is none of the usual types (decision, bugfix, " in said
    assert lab.said(repo, "list", "--type", "runbook", "--type", "gotcha") == ""
