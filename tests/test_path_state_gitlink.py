"""Paths that are no plain file: a submodule, names with odd bytes, the top of the tree."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any

import pytest
from conftest import Lab
from places import commit, head

from gitmem.anchors import path_state

ONE, TWO = "1" * 40, "2" * 40


def link(lab: Lab, repo: pathlib.Path, id: str) -> None:
    (repo / ".gitmodules").write_text('[submodule "sub"]\n\tpath = lib/sub\n\turl = ../sub\n')
    lab.git(repo, "add", ".gitmodules")
    lab.git(repo, "update-index", "--add", "--cacheinfo", f"160000,{id},lib/sub")
    lab.git(repo, "commit", "-qm", "link")


def path(lab: Lab, repo: pathlib.Path) -> dict[str, Any]:
    (found,) = lab.json(repo, "list")
    (entry,) = found["paths"]
    return dict(entry)


def test_a_submodule_is_noted_by_its_commit_and_goes_stale(lab: Lab) -> None:
    repo = lab.repo()
    link(lab, repo, ONE)
    lab.mem(repo, "remember", "the library is pinned for its license", "--path", "lib/sub")
    assert path(lab, repo)["state"] == "same"
    (line,) = lab.lines(repo)
    assert json.loads(line)["paths"] == [{"path": "lib/sub", "blob": ONE}]
    link(lab, repo, TWO)
    lab.mem(repo, "index")
    assert path(lab, repo)["state"] == "changed"
    lab.git(repo, "rm", "-q", "--cached", "lib/sub")
    lab.git(repo, "commit", "-qm", "gone")
    lab.mem(repo, "index")
    assert path(lab, repo)["state"] == "gone"


def test_a_submodule_that_was_moved_is_renamed(lab: Lab) -> None:
    repo = lab.repo()
    link(lab, repo, ONE)
    lab.mem(repo, "remember", "the library is pinned for its license", "--path", "lib/sub")
    lab.git(repo, "rm", "-q", "--cached", "lib/sub")
    lab.git(repo, "update-index", "--add", "--cacheinfo", f"160000,{ONE},third/sub")
    lab.git(repo, "commit", "-qm", "moved")
    lab.mem(repo, "index")
    assert (path(lab, repo)["state"], path(lab, repo)["now"]) == ("renamed", "third/sub")


@pytest.mark.parametrize("name", [".", "./"])
def test_the_top_of_the_tree_is_compared_too(lab: Lab, name: str) -> None:
    repo = lab.repo()
    lab.mem(repo, "remember", "everything here is generated", "--path", name)
    assert path(lab, repo)["state"] == "same"
    (repo / "more.txt").write_text("more\n")
    lab.git(repo, "add", "more.txt")
    lab.git(repo, "commit", "-qm", "more")
    lab.mem(repo, "index")
    assert path(lab, repo)["state"] == "changed"


def test_a_name_with_a_line_break_is_compared_too(lab: Lab) -> None:
    repo = lab.repo()
    (repo / "odd\nname").write_text("one\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-qm", "odd")
    lab.mem(
        repo,
        "remember",
        "--jsonl",
        "-",
        stdin=json.dumps({"body": "the name is a test of a parser", "paths": ["odd\nname"]}),
    )
    assert path(lab, repo)["state"] == "same"
    (repo / "odd\nname").write_text("two\n")
    lab.git(repo, "commit", "-qam", "two")
    lab.mem(repo, "index")
    assert path(lab, repo)["state"] == "changed"


def pinned(lab: Lab, repo: pathlib.Path, id: str, name: str = "lib/sub", was: str = "") -> str:
    """Commits another pin of the submodule, at another place; returns the commit."""
    if was:
        lab.git(repo, "rm", "-q", "--cached", was)
    lab.git(repo, "update-index", "--add", "--cacheinfo", f"160000,{id},{name}")
    lab.git(repo, "commit", "-qm", f"{name} at {id[0]}")
    return head(lab, repo)


def test_bisect_names_the_commit_that_moved_the_pin_of_a_submodule(lab: Lab) -> None:
    repo = lab.repo()
    link(lab, repo, ONE)
    id = lab.json(repo, "remember", "the library is pinned for its license", "--path", "lib/sub")[
        "id"
    ]
    for n in range(30):  # more revisions than anybody would look at one by one
        commit(lab, repo, "f0.txt", f"{n}")
    pinned(lab, repo, TWO)
    pinned(lab, repo, ONE)
    bad = pinned(lab, repo, TWO)
    pinned(lab, repo, "3" * 40)
    (found,) = lab.json(repo, "bisect", id)["stale"]
    assert (found["state"], found["commit"]) == ("changed", bad)
    lab.git(repo, "rm", "-q", "--cached", "lib/sub")
    lab.git(repo, "commit", "-qm", "gone")
    (found,) = lab.json(repo, "bisect", id)["stale"]
    assert (found["state"], found["commit"]) == ("gone", bad)


def test_bisect_follows_a_submodule_that_was_moved(lab: Lab) -> None:
    repo = lab.repo()
    link(lab, repo, ONE)
    id = lab.json(repo, "remember", "the library is pinned for its license", "--path", "lib/sub")[
        "id"
    ]
    pinned(lab, repo, ONE, "third/sub", "lib/sub")
    (found,) = lab.json(repo, "bisect", id, rc=(1,))["others"]
    assert (found["state"], found["now"]) == ("renamed", "third/sub")
    bad = pinned(lab, repo, TWO, "third/sub")
    (found,) = lab.json(repo, "bisect", id)["stale"]
    assert (found["state"], found["now"], found["commit"]) == ("changed", "third/sub", bad)


def test_bisect_of_a_submodule_that_became_a_directory(lab: Lab) -> None:
    repo = lab.repo()
    link(lab, repo, ONE)
    id = lab.json(repo, "remember", "the library is pinned for its license", "--path", "lib/sub")[
        "id"
    ]
    lab.git(repo, "rm", "-q", "--cached", "lib/sub")
    (repo / "lib" / "sub").mkdir(parents=True)
    bad = commit(lab, repo, "lib/sub/code.c", "int main;")
    (found,) = lab.json(repo, "bisect", id)["stale"]
    assert (found["state"], found["commit"]) == ("changed", bad)


def test_bisect_in_a_clone_with_the_submodule_checked_out(lab: Lab) -> None:
    library = lab.repo("library")
    repo = lab.repo("app")
    lab.git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    lab.git(repo, "commit", "-qm", "add the library")
    id = lab.json(repo, "remember", "the library is pinned for its license", "--path", "lib")["id"]
    commit(lab, library, "f0.txt", "newer")
    lab.git(repo / "lib", "pull", "-q", "origin", "main")
    lab.git(repo, "commit", "-qam", "newer library")
    (found,) = lab.json(repo, "bisect", id)["stale"]
    assert (found["state"], found["commit"]) == ("changed", head(lab, repo))
    assert lab.json(repo, "why", "lib")[0]["id"] == id


# --- names that are not UTF-8: a record cannot hold them -----------------------

TEXT = "".join(f"line {i}\n" for i in range(30))


def named(repo: pathlib.Path, name: bytes) -> bytes:
    return os.path.join(os.fsencode(repo), name)


def odd(lab: Lab) -> pathlib.Path:
    """A repository with files whose names are Latin-1."""
    repo = lab.repo()
    os.mkdir(named(repo, b"d\xe9"))
    for name in (b"caf\xe9.txt", b"d\xe9/x.txt", b"plain.txt"):
        with open(named(repo, name), "w") as f:
            f.write(TEXT + os.fsdecode(name).encode("utf-8", "replace").decode())
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-qm", "odd names")
    return repo


def states(lab: Lab, repo: pathlib.Path) -> dict[str, tuple[str, str, str]]:
    """{body: (state, name now, reason)} as the worker keeps them."""
    lab.mem(repo, "index")
    return {
        m["body"]: (p["state"], p.get("now", ""), p.get("reason", ""))
        for m in lab.json(repo, "list")
        for p in m["paths"]
    }


@pytest.mark.parametrize("name", ["caf\udce9.txt", "d\udce9/", "d\udce9/x.txt"])
def test_a_name_that_is_not_utf8_is_unknown_with_the_reason(lab: Lab, name: str) -> None:
    repo = odd(lab)
    id = lab.json(repo, "remember", "about the odd one", "--path", name)["id"]
    assert states(lab, repo) == {"about the odd one": ("unknown", "", path_state.NO_NAME)}
    with open(named(repo, b"caf\xe9.txt"), "a") as f:
        f.write("more\n")
    lab.git(repo, "commit", "-qam", "more")
    assert states(lab, repo) == {"about the odd one": ("unknown", "", path_state.NO_NAME)}
    done = lab.run(repo, sys.executable, "-m", "gitmem", "check", "--json")
    assert done.returncode == 0 and [m["id"] for m in json.loads(done.stdout)["not_compared"]] == [
        id
    ]  # nobody can tell
    assert lab.json(repo, "list", "--stale") == []
    (other,) = lab.json(repo, "bisect", id, rc=(1,))["others"]
    assert (other["state"], other["reason"]) == ("unknown", path_state.NO_NAME)
    assert [m["id"] for m in lab.json(repo, "why", name)] == [id]


@pytest.mark.parametrize("change", ["", "and more\n"])
def test_a_file_that_was_renamed_to_such_a_name_is_unknown_and_followed_beyond(
    lab: Lab, change: str
) -> None:
    repo = odd(lab)
    id = lab.json(repo, "remember", "about the plain one", "--path", "plain.txt")["id"]
    os.rename(repo / "plain.txt", named(repo, b"pl\xe9in.txt"))
    with open(named(repo, b"pl\xe9in.txt"), "a") as f:
        f.write(change)
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-qm", "renamed")
    assert states(lab, repo) == {"about the plain one": ("unknown", "", path_state.ODD_NOW)}
    assert [m["id"] for m in lab.json(repo, "why", "pl\udce9in.txt")] == [id]
    (other,) = lab.json(repo, "bisect", id, rc=(1,))["others"]
    assert (other["state"], other["reason"]) == ("unknown", path_state.ODD_NOW)
    os.rename(named(repo, b"pl\xe9in.txt"), repo / "back.txt")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-qm", "a name for all")
    assert states(lab, repo) == {
        "about the plain one": ("changed" if change else "renamed", "back.txt", "")
    }
    first = head(lab, repo, "HEAD~1")
    (repo / "back.txt").write_text("another\n")
    lab.git(repo, "commit", "-qam", "another")
    (found,) = lab.json(repo, "bisect", id)["stale"]
    assert found["commit"] == (first if change else head(lab, repo))


def test_the_stand_in_as_a_real_name_is_a_name(lab: Lab) -> None:
    repo = odd(lab)
    (repo / "caf\ufffd.txt").write_text("mine\n")
    lab.git(repo, "add", "-A")
    lab.git(repo, "commit", "-qm", "a strange name")
    lab.mem(repo, "remember", "about the strange one", "--path", "caf\ufffd.txt")
    assert states(lab, repo) == {"about the strange one": ("same", "", "")}
    (repo / "caf\ufffd.txt").write_text("yours\n")
    lab.git(repo, "commit", "-qam", "yours")
    assert states(lab, repo) == {"about the strange one": ("changed", "", "")}
